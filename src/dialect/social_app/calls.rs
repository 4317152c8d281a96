//! Tool calls: every event repeats the start's members, and one event has all arguments as an object.

use super::event_list::EventList;
use super::members::{ERROR, tool_call};
use crate::codec::json;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{LAST_BRACE, lacks_last_brace, stringify_value, tool_result_id, write_as_json};
use crate::dialect::{carry, memory_limits};
use crate::event::{
    Event, EventType, Field, IdMap, Json, JsonType, Member, MemberKey, Members, find_member, get, get_owned, remove,
    set,
};
use std::borrow::Cow;

/// Stores the events merged into this one, and the members added to it.
pub(super) const BUFFERED_EVENTS: &str = "$events";
pub(super) const FILLED_MEMBERS: &str = "$filled";

/// Stores the error that is shown because there is no answer, or no result.
const SHOWN_ERROR: &str = "$error";
/// Stores the result of a call whose error is shown.
const NO_RESULT: &str = "$result";

/// The members of a call's start event that its later events repeat.
#[derive(Debug, Clone, Default)]
struct OpenToolCall {
    /// as its start spells it; later events may escape other characters
    id: OptionalJson,
    name: OptionalJson,
    message_id: OptionalJson,
    stage: OptionalJson,
    args: OptionalJson,
}

type OptionalJson = Option<Json<'static>>;

#[derive(Debug, Default)]
pub(super) struct OpenToolCalls {
    open: IdMap<OpenToolCall>,
    retained_bytes: usize,
}

impl OpenToolCalls {
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    fn remove(&mut self, id: Option<&Json<'_>>) {
        if let Some(call) = id.and_then(|id| self.open.remove(id)) {
            self.retained_bytes -= call.retained_bytes();
        }
    }

    fn set_args(&mut self, id: Option<&Json<'_>>, args: OptionalJson) {
        let Some(call) = id.and_then(|id| self.open.get_mut(id)) else { return };
        let before = call.retained_bytes();
        call.args = args;
        self.retained_bytes = self.retained_bytes + call.retained_bytes() - before;
    }

    fn find(&self, id: Option<&Json<'_>>) -> Option<&OpenToolCall> {
        id.and_then(|id| self.open.get(id))
    }

    pub(crate) fn read_start(&mut self, parts: &mut IncomingEvent<'_>) {
        self.register(&parts.event.members, &parts.extensions);
        // The call's other events also repeat the added members.
        remove_fillers(parts, tool_call::START_FILLERS);
    }

    fn register(&mut self, members: &Members<'_>, own: &Members<'_>) {
        let member = |field| get_owned(members, field);
        // No later event can name a call without an id.
        let Some(id) = member(Field::ToolCallId) else { return };
        self.remove(Some(&id));
        let call = OpenToolCall {
            id: Some(id.clone()),
            name: member(Field::ToolCallName),
            message_id: member(Field::ParentMessageId),
            // §3.3 prints the stage on every event of a call; all other members belong to the start only.
            stage: find_member(own, tool_call::STAGE).cloned().map(Json::into_owned),
            args: None,
        };
        self.retained_bytes += call.retained_bytes();
        self.open.insert(id, call);
    }

    pub(crate) fn strip_args(&mut self, parts: &mut IncomingEvent<'_>) {
        let id = parts.event.get(Field::ToolCallId);
        let args = parts.event.get(Field::Delta).map(Json::to_string_value);
        self.set_args(id, args);
        if let Some(call) = self.find(id) {
            call.strip_repeats(&mut parts.extensions);
        }
    }

    pub(crate) fn strip_end(&mut self, parts: &mut IncomingEvent<'_>) {
        if let Some(call) = self.find(parts.event.get(Field::ToolCallId)) {
            call.strip_repeats(&mut parts.extensions);
        }
    }

    pub(crate) fn strip_result(&mut self, parts: &mut IncomingEvent<'_>) {
        let id = parts.event.get_owned(Field::ToolCallId);
        remove_fillers(parts, tool_call::FILLERS);
        let Some(call) = self.find(id.as_ref()) else {
            return;
        };
        call.strip_repeats(&mut parts.extensions);
        let repeated = parts.extensions.iter().position(|(key, value)| {
            carry::is_named(key, tool_call::TOOL_NAME) && call.name.as_ref().is_some_and(|name| name.is_same(value))
        });
        repeated.map(|at| parts.extensions.remove(at));
        let repeated = parts.extensions.iter().position(|(key, value)| {
            // Only an object will be written again on the way back.
            carry::is_named(key, tool_call::TOOL_CALL_ARGS)
                && value.json_type() == JsonType::Object
                && call.args.as_ref().and_then(Json::text).is_some_and(|args| args == value.as_str())
        });
        repeated.map(|at| parts.extensions.remove(at));
        // In the dialect this is the id of the call's message; the canonical result has its own.
        if parts
            .event
            .get(Field::MessageId)
            .is_some_and(|id| call.message_id.as_ref().is_some_and(|own| own.is_same(id)))
        {
            parts.event.remove(Field::MessageId);
        }
        self.remove(id.as_ref());
    }

    pub(crate) fn write_start(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        add_fillers(outgoing, tool_call::START_FILLERS);
        self.register(&outgoing.members, &outgoing.extensions);
    }

    /// Repeats the start's members on the arguments and end.
    pub(crate) fn write_repeats(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        let id = get(&outgoing.members, Field::ToolCallId);
        if let Some(args) = get(&outgoing.members, Field::Delta) {
            self.set_args(id, Some(args.clone().into_owned()));
        }
        if let Some(call) = self.find(id) {
            call.add_repeats(&mut outgoing.extensions);
        }
    }

    /// Repeats the call's members on its result, and adds members that a canonical result lacks.
    pub(crate) fn write_result(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        let id = get_owned(&outgoing.members, Field::ToolCallId);
        if let Some(call) = self.find(id.as_ref()) {
            let derived = id.as_ref().map(tool_result_id);
            if let Some(message) = call.message_id.clone()
                && get(&outgoing.members, Field::MessageId) == derived.as_ref()
            {
                set(&mut outgoing.members, MemberKey::Known(Field::MessageId), message);
            }
            let own = &mut outgoing.extensions;
            if let Some(stage) = &call.stage {
                add_missing(own, carry::extension_key(tool_call::STAGE), stage);
            }
            if let Some(name) = &call.name {
                add_missing(own, carry::extension_key(tool_call::TOOL_NAME), name);
            }
            if let Some(args) = call.args.as_ref().and_then(as_object) {
                add_missing(own, carry::extension_key(tool_call::TOOL_CALL_ARGS), &args);
            }
        }
        add_fillers(outgoing, tool_call::FILLERS);
        self.remove(id.as_ref());
    }
}

impl OpenToolCall {
    fn retained_bytes(&self) -> usize {
        let all = [&self.id, &self.name, &self.message_id, &self.stage, &self.args];
        all.into_iter().flatten().map(|value| memory_limits::text_cost(value.as_str())).sum()
    }

    fn repeated_members(&self) -> impl Iterator<Item = (MemberKey<'static>, &Json<'static>)> {
        let repeated = [
            (MemberKey::Known(Field::MessageId), &self.message_id),
            (MemberKey::Known(Field::ToolCallName), &self.name),
            (carry::extension_key(tool_call::STAGE), &self.stage),
        ];
        repeated.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    fn strip_repeats(&self, own: &mut Members<'_>) {
        for (key, value) in self.repeated_members() {
            own.retain(|(name, what)| *name != key || !what.is_same(value));
        }
    }

    fn add_repeats(&self, own: &mut Members<'static>) {
        for (key, value) in self.repeated_members() {
            add_missing(own, key, value);
        }
    }
}

fn add_missing(own: &mut Members<'static>, key: MemberKey<'static>, value: &Json<'static>) {
    if !own.iter().any(|(name, _)| *name == key) {
        own.push((key, value.clone()));
    }
}

/// Returns the text of an error that is shown in place of what it kept from coming, and notes the error.
pub(super) fn take_error_text(own: &mut Members<'_>) -> Option<Json<'static>> {
    let is_nothing = |error: &Json<'_>| matches!(error.as_str(), "null" | "\"\"" | "[]" | "{}" | "false");
    let at = own.iter().position(|(key, error)| carry::is_named(key, ERROR) && !is_nothing(error))?;
    let (_, error) = own.remove(at);
    let text = error.to_string_value();
    own.push((carry::extension_key(SHOWN_ERROR), error));
    Some(text)
}

/// Restores the error from its note if this text is the error's: a client may have changed either.
pub(super) fn restore_error(outgoing: &mut OutgoingEvent<'_>, text: &Json<'_>) -> bool {
    let error = find_member(&outgoing.extensions, SHOWN_ERROR).map(Json::to_string_value);
    if !error.is_some_and(|error| error.is_same(text)) {
        return false;
    }
    if let Some(error) = carry::take(&mut outgoing.extensions, SHOWN_ERROR) {
        outgoing.extensions.push((carry::extension_key(ERROR), error));
    }
    true
}

/// Reads a result. A call that failed without one shows its error.
pub(super) fn read_result(parts: &mut IncomingEvent<'_>) {
    let is_nothing = |result: &Json<'_>| result.is_null() || result.is_str("");
    let has_result = parts.event.get(Field::Content).is_some_and(|result| !is_nothing(result));
    if !has_result
        && !parts.restored_fields.contains(&Field::Content)
        && let Some(error) = take_error_text(&mut parts.extensions)
    {
        let result = parts.event.remove(Field::Content);
        parts.extensions.extend(result.map(|result| (carry::extension_key(NO_RESULT), result)));
        return parts.event.set(Field::Content, error);
    }
    stringify_value(parts, Field::Content);
}

/// Writes a result as its original value, or the error that is shown in its place.
pub(super) fn write_result(outgoing: &mut OutgoingEvent<'_>) {
    let text = get_owned(&outgoing.members, Field::Content);
    if text.is_some_and(|text| restore_error(outgoing, &text)) {
        match carry::take(&mut outgoing.extensions, NO_RESULT) {
            Some(result) => set(&mut outgoing.members, MemberKey::Known(Field::Content), result),
            None => drop(remove(&mut outgoing.members, Field::Content)),
        }
        return;
    }
    write_as_json(outgoing, Field::Content);
}

/// Marks arguments that were text instead of the usual object.
const ARGS_AS_TEXT: &str = "$text";

/// Reads a call's arguments. An object is usual and needs no note.
pub(super) fn read_args(parts: &mut IncomingEvent<'_>) {
    match parts.event.get(Field::Delta).map(|args| (args.json_type(), args.as_str().to_owned())) {
        Some((JsonType::Object, object)) => parts.event.set(Field::Delta, Json::string(&object)),
        Some((JsonType::String, _)) if parts.event.get(Field::Delta).and_then(as_object).is_some() => {
            carry::add_note(&mut parts.extensions, ARGS_AS_TEXT);
        }
        _ => stringify_value(parts, Field::Delta),
    }
}

/// Writes a call's arguments as an object, or as their original value.
pub(super) fn write_args(outgoing: &mut OutgoingEvent<'_>) {
    let is_text = carry::take(&mut outgoing.extensions, ARGS_AS_TEXT).is_some();
    let is_value = carry::take_json_note(&mut outgoing.extensions, Field::Delta);
    let args = get(&outgoing.members, Field::Delta);
    let value = match (is_text, is_value) {
        (true, _) => None,
        (_, true) => args.and_then(Json::text).and_then(|text| json::parse_value(&text).map(Json::into_owned)),
        _ => args.and_then(as_object),
    };
    if let Some(value) = value {
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), value);
    }
}

pub(super) fn as_object(text: &Json<'_>) -> Option<Json<'static>> {
    let text = text.text().map(Cow::into_owned)?;
    json::parse_value(&text).filter(|value| value.json_type() == JsonType::Object).map(Json::into_owned)
}

/// Adds members that the dialect requires, and records them in a note.
pub(super) fn add_fillers(outgoing: &mut OutgoingEvent<'_>, fillers: &'static [(&'static str, &'static str)]) {
    let mut filled = Vec::new();
    for (name, value) in fillers {
        let is_it = |key: &MemberKey<'_>| carry::is_named(key, name);
        if !outgoing.extensions.iter().any(|(key, _)| is_it(key)) && !outgoing.members.iter().any(|(key, _)| is_it(key))
        {
            let key = Field::from_wire(name).map_or(carry::extension_key(name), MemberKey::Known);
            outgoing.extensions.push((key, Json::from_trusted(*value)));
            filled.push(Json::string(name));
        }
    }
    if !filled.is_empty() {
        outgoing.canonical.push((carry::extension_key(FILLED_MEMBERS), json::to_array(&filled)));
    }
}

pub(super) fn remove_fillers(parts: &mut IncomingEvent<'_>, fillers: &'static [(&'static str, &'static str)]) {
    let Some(names) = carry::take(&mut parts.event.members, FILLED_MEMBERS) else {
        return;
    };
    for name in json::parse_elements(&names).unwrap_or_default() {
        let filler = fillers.iter().find(|(filler, _)| name.is_str(filler));
        if let Some((filler, value)) = filler {
            let stays = |(key, found): &Member<'_>| !carry::is_named(key, filler) || found.as_str() != *value;
            parts.extensions.retain(stays);
            parts.event.members.retain(stays);
        }
    }
}

/// The arguments of open calls.
#[derive(Debug, Default)]
pub(super) struct ArgsBuffer {
    open: IdMap<BufferedArgs>,
    /// calls whose result came before their last brace, which was added; with the cost of the id as the result spells
    /// it
    braced: IdMap<usize>,
    late_pieces: usize,
    text_bytes: usize,
    list_bytes: usize,
}

/// One event is kept as it is: most calls have no second.
#[derive(Debug)]
enum BufferedArgs {
    Alone(Event<'static>),
    Several { text: String, events: EventList },
}

impl ArgsBuffer {
    pub(crate) fn push(&mut self, id: Json<'static>, event: Event<'_>) {
        let Some(args) = self.open.get_mut(&id) else {
            let args = BufferedArgs::Alone(event.into_owned());
            self.text_bytes += args.text_bytes();
            self.open.insert(id, args);
            return;
        };
        let (text_before, list_before) = (args.text_bytes(), args.list_bytes());
        args.push(&event);
        self.text_bytes = self.text_bytes + args.text_bytes() - text_before;
        self.list_bytes = self.list_bytes + args.list_bytes() - list_before;
    }

    /// Returns all of a call's arguments as one event, with a note if they arrived in pieces.
    pub(crate) fn finish(&mut self, id: &Json<'_>) -> Option<Event<'static>> {
        self.text_bytes -= self.braced.remove(id).unwrap_or_default();
        let args = self.open.remove(id)?;
        self.text_bytes -= args.text_bytes();
        self.list_bytes -= args.list_bytes();
        Some(args.merge(id.clone().into_owned()))
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// Does the same before a result that comes first, and adds a brace that the arguments lack.
    pub(crate) fn finish_early(&mut self, id: &Json<'_>) -> Option<Event<'static>> {
        let lacks_brace = self.open.get(id).is_some_and(|args| lacks_last_brace(&args.text()));
        let mut args = self.finish(id)?;
        if !lacks_brace {
            return Some(args);
        }
        let whole = args.owned_text(Field::Delta).unwrap_or_default() + LAST_BRACE;
        if find_member(&args.members, BUFFERED_EVENTS).is_none() {
            let mut events = EventList::default();
            events.push(&args);
            args.members.retain(|(key, _)| *key == MemberKey::Known(Field::ToolCallId));
            args.members.push((carry::extension_key(BUFFERED_EVENTS), events.into_json()));
        }
        args.set(Field::Delta, Json::string(&whole));
        let cost = memory_limits::text_cost(id.as_str());
        self.text_bytes += cost;
        self.braced.insert(id.clone().into_owned(), cost);
        Some(args)
    }

    /// Returns true for a piece of a call whose arguments the client has with an added brace. Counts what is more than
    /// that brace.
    pub(crate) fn is_late(&mut self, piece: &Event<'_>) -> bool {
        let is_late = piece.get(Field::ToolCallId).is_some_and(|id| self.braced.contains(id));
        let text = piece.text(Field::Delta).unwrap_or_default();
        self.late_pieces += usize::from(is_late && !matches!(text.trim(), "" | LAST_BRACE));
        is_late
    }

    /// Returns the number of late pieces, which the client does not show, and resets it.
    pub(crate) fn take_late_pieces(&mut self) -> usize {
        std::mem::take(&mut self.late_pieces)
    }

    /// Returns arguments that have no end because the run failed.
    pub(crate) fn drain(&mut self) -> Vec<Event<'static>> {
        (self.text_bytes, self.list_bytes) = (0, 0);
        self.braced = IdMap::default();
        self.open.drain().map(|(id, args)| args.merge(id)).collect()
    }
}

impl BufferedArgs {
    fn push(&mut self, event: &Event<'_>) {
        if let BufferedArgs::Alone(first) = self {
            let mut events = EventList::default();
            events.push(first);
            let text = first.owned_text(Field::Delta).unwrap_or_default();
            *self = BufferedArgs::Several { text, events };
        }
        if let BufferedArgs::Several { text, events } = self {
            text.push_str(&event.text(Field::Delta).unwrap_or_default());
            events.push(event);
        }
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            BufferedArgs::Alone(event) => event.text(Field::Delta).unwrap_or_default(),
            BufferedArgs::Several { text, .. } => Cow::Borrowed(text),
        }
    }

    fn text_bytes(&self) -> usize {
        match self {
            BufferedArgs::Alone(event) => memory_limits::event_cost(event),
            BufferedArgs::Several { text, .. } => memory_limits::text_cost(text),
        }
    }

    fn list_bytes(&self) -> usize {
        match self {
            BufferedArgs::Alone(_) => 0,
            BufferedArgs::Several { events, .. } => events.byte_size(),
        }
    }

    fn merge(self, id: Json<'static>) -> Event<'static> {
        let (text, events) = match self {
            BufferedArgs::Alone(one) => {
                let text = one.owned_text(Field::Delta).unwrap_or_default();
                // Whitespace around an object would be lost.
                let is_plain = json::parse_value(&text).is_none_or(|value| value.as_str() == text);
                if one.kind == EventType::ToolCallArgs && is_plain {
                    return one;
                }
                let mut events = EventList::default();
                events.push(&one);
                (text, events)
            }
            BufferedArgs::Several { text, events } => (text, events),
        };
        let mut all = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, id);
        all.set(Field::Delta, Json::string(&text));
        all.members.push((carry::extension_key(BUFFERED_EVENTS), events.into_json()));
        all
    }
}

/// Removes the merged events from the carried members. They are external input, so only kinds that `admits` accepts are
/// returned.
pub(super) fn take_buffered_events(
    event: &mut Event<'_>,
    admits: impl Fn(EventType) -> bool,
) -> Option<Vec<Event<'static>>> {
    let list = carry::take(&mut event.members, BUFFERED_EVENTS)?;
    let read = |element: &Json<'_>| {
        let object = json::parse_object(element.as_str()).ok()?;
        let kind =
            object.kind.as_ref()?.text().and_then(|wire| EventType::from_wire(&wire)).filter(|kind| admits(*kind))?;
        Some(Event { kind, members: crate::event::into_owned_members(object.members), source: None })
    };
    let events: Option<Vec<_>> = json::parse_elements(&list)?.iter().map(read).collect();
    events.filter(|events| !events.is_empty())
}
