//! Tool calls whose every event repeats what their start says, with all arguments in one event, as an object.

use super::tool_call;
use crate::codec::json;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{event_to_value, stringify_value, tool_result_id};
use crate::dialect::{carry, memory_limits};
use crate::event::{Event, EventType, Field, Json, JsonType, Member, MemberKey, Members, get, set};
use std::borrow::Cow;

/// Under the home of canonical material: the events that were gathered into this one, and members that writing had to add.
pub(super) const BUFFERED_EVENTS: &str = "$events";
pub(super) const FILLED_MEMBERS: &str = "$filled";

/// What the start of a call said, which its other events repeat.
#[derive(Debug, Clone, Default)]
struct OpenToolCall {
    id: OptionalJson,
    name: OptionalJson,
    message_id: OptionalJson,
    stage: OptionalJson,
    /// the text of the arguments
    args: OptionalJson,
}

type OptionalJson = Option<Json<'static>>;

/// Calls of a run whose result has not come yet, on either side.
#[derive(Debug, Default)]
pub(super) struct OpenToolCalls {
    open: Vec<OpenToolCall>,
    /// what they hold, in bytes
    retained_bytes: usize,
}

impl OpenToolCalls {
    /// What is remembered, in bytes.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    fn remove(&mut self, id: &OptionalJson) {
        let held = &mut self.retained_bytes;
        self.open.retain(|call| {
            let stays = call.id != *id;
            *held -= if stays { 0 } else { call.retained_bytes() };
            stays
        });
    }

    /// Notes the arguments of a call.
    fn set_args(&mut self, id: Option<&Json<'_>>, args: OptionalJson) {
        let (mut before, mut after) = (0, 0);
        if let Some(call) = self.find(id) {
            before = call.retained_bytes();
            call.args = args;
            after = call.retained_bytes();
        }
        self.retained_bytes = self.retained_bytes + after - before;
    }

    fn find(&mut self, id: Option<&Json<'_>>) -> Option<&mut OpenToolCall> {
        self.open.iter_mut().find(|call| call.id.as_ref().zip(id).is_some_and(|(own, id)| own.is_same(id)))
    }

    /// The start of a call is taken note of.
    pub(crate) fn read_start(&mut self, parts: &mut IncomingEvent<'_>) {
        self.register(&parts.event.members, &parts.extensions);
        // The other events of the call repeat what was filled in, too.
        remove_fillers(parts, tool_call::START_FILLERS);
    }

    fn register(&mut self, members: &Members<'_>, own: &Members<'_>) {
        let said = |field| get(members, field).cloned().map(Json::into_owned);
        let id = said(Field::ToolCallId);
        self.remove(&id);
        let call = OpenToolCall {
            id,
            name: said(Field::ToolCallName),
            message_id: said(Field::ParentMessageId),
            // §3.3 prints it on every event of a call; whatever else the start says is about the start alone.
            stage: carry::find(own, tool_call::STAGE).cloned().map(Json::into_owned),
            args: None,
        };
        self.retained_bytes += call.retained_bytes();
        self.open.push(call);
    }

    /// Takes off the arguments of a call what they repeat.
    pub(crate) fn strip_args(&mut self, parts: &mut IncomingEvent<'_>) {
        let id = parts.event.get(Field::ToolCallId);
        let args = parts.event.get(Field::Delta).map(|args| match args.json_type() {
            JsonType::String => args.clone().into_owned(),
            _ => Json::string(args.as_str()),
        });
        self.set_args(id, args);
        if let Some(call) = self.find(id) {
            call.strip_repeats(&mut parts.extensions);
        }
    }

    /// Takes off the end of a call what it repeats.
    pub(crate) fn strip_end(&mut self, parts: &mut IncomingEvent<'_>) {
        if let Some(call) = self.find(parts.event.get(Field::ToolCallId)) {
            call.strip_repeats(&mut parts.extensions);
        }
    }

    /// Takes off the result of a call what it repeats.
    pub(crate) fn strip_result(&mut self, parts: &mut IncomingEvent<'_>) {
        let id = parts.event.get(Field::ToolCallId).cloned().map(Json::into_owned);
        remove_fillers(parts, tool_call::FILLERS);
        let Some(call) = self.find(id.as_ref()) else {
            return;
        };
        call.strip_repeats(&mut parts.extensions);
        let said = parts.extensions.iter().position(|(key, value)| {
            carry::is_named(key, tool_call::TOOL_NAME) && call.name.as_ref().is_some_and(|name| name.is_same(value))
        });
        said.map(|at| parts.extensions.remove(at));
        let said = parts.extensions.iter().position(|(key, value)| {
            // Only an object is said again by the way back.
            carry::is_named(key, tool_call::TOOL_CALL_ARGS)
                && value.json_type() == JsonType::Object
                && call.args.as_ref().and_then(Json::text).is_some_and(|args| args == value.as_str())
        });
        said.map(|at| parts.extensions.remove(at));
        // It names the message of its call over there; a message of its own is what it makes here.
        if parts
            .event
            .get(Field::MessageId)
            .is_some_and(|said| call.message_id.as_ref().is_some_and(|own| own.is_same(said)))
        {
            parts.event.remove(Field::MessageId);
        }
        self.remove(&id);
    }

    /// Takes note of a start that is written.
    pub(crate) fn write_start(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        add_fillers(outgoing, tool_call::START_FILLERS);
        self.register(&outgoing.members, &outgoing.extensions);
    }

    /// Has the arguments and the end of a call repeat its start.
    pub(crate) fn write_repeats(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        let id = get(&outgoing.members, Field::ToolCallId);
        if let Some(args) = get(&outgoing.members, Field::Delta) {
            self.set_args(id, Some(args.clone().into_owned()));
        }
        if let Some(call) = self.find(id) {
            call.add_repeats(&mut outgoing.extensions);
        }
    }

    /// Has the result of a call say the call again, and what a canonical result has not.
    pub(crate) fn write_result(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        let id = get(&outgoing.members, Field::ToolCallId).cloned().map(Json::into_owned);
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
        self.remove(&id);
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
            own.retain(|(said, what)| *said != key || !what.is_same(value));
        }
    }

    fn add_repeats(&self, own: &mut Members<'static>) {
        for (key, value) in self.repeated_members() {
            add_missing(own, key, value);
        }
    }
}

fn add_missing(own: &mut Members<'static>, key: MemberKey<'static>, value: &Json<'static>) {
    if !own.iter().any(|(said, _)| *said == key) {
        own.push((key, value.clone()));
    }
}

/// Note: the arguments were a text, although it is that of an object.
const ARGS_AS_TEXT: &str = "$text";

/// Reads all arguments of a call. An object is how they are said here, so that it is one needs no note.
pub(super) fn read_args(parts: &mut IncomingEvent<'_>) {
    match parts.event.get(Field::Delta).map(|args| (args.json_type(), args.as_str().to_owned())) {
        Some((JsonType::Object, object)) => parts.event.set(Field::Delta, Json::string(&object)),
        Some((JsonType::String, _)) if parts.event.get(Field::Delta).and_then(as_object).is_some() => {
            parts.extensions.push((carry::extension_key(ARGS_AS_TEXT), Json::from_trusted("true")));
        }
        _ => stringify_value(parts, Field::Delta),
    }
}

/// Writes all arguments of a call: the object that they are the text of, and what they were where they were something else.
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

/// The arguments of a call as the object that they are the text of.
pub(super) fn as_object(text: &Json<'_>) -> Option<Json<'static>> {
    let text = text.text().map(Cow::into_owned)?;
    json::parse_value(&text).filter(|value| value.json_type() == JsonType::Object).map(Json::into_owned)
}

/// Adds members that a dialect always says, and notes which.
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

/// Takes out again what [`fill`] added.
pub(super) fn remove_fillers(parts: &mut IncomingEvent<'_>, fillers: &'static [(&'static str, &'static str)]) {
    let Some(names) = carry::take(&mut parts.event.members, FILLED_MEMBERS) else {
        return;
    };
    for name in json::parse_elements(&names).unwrap_or_default() {
        let filler = fillers.iter().find(|(filler, _)| name.is_str(filler));
        if let Some((filler, value)) = filler {
            let stays = |(key, said): &Member<'_>| !carry::is_named(key, filler) || said.as_str() != *value;
            parts.extensions.retain(stays);
            parts.event.members.retain(stays);
        }
    }
}

/// The writing side of a call whose arguments are gathered.
#[derive(Debug, Default)]
pub(super) struct ArgsBuffer {
    open: Vec<(Json<'static>, Vec<Event<'static>>)>,
    /// what they hold, in bytes
    buffered_bytes: usize,
}

impl ArgsBuffer {
    /// A piece of the arguments of the call `id` waits for the end.
    pub(crate) fn push(&mut self, id: Json<'static>, event: Event<'_>) {
        let event = event.into_owned();
        self.buffered_bytes += memory_limits::event_cost(&event);
        match self.open.iter_mut().find(|(own, _)| own.is_same(&id)) {
            Some((_, events)) => events.push(event),
            None => self.open.push((id, vec![event])),
        }
    }

    /// All arguments of a call, now that it ends, as one event: with a note of the pieces where they were more than one.
    pub(crate) fn finish(&mut self, id: &Json<'_>) -> Option<Event<'static>> {
        let at = self.open.iter().position(|(own, _)| own.is_same(id))?;
        let (id, events) = self.open.remove(at);
        self.buffered_bytes -= events.iter().map(memory_limits::event_cost).sum::<usize>();
        Some(merge_args(id, events))
    }

    /// What waits, in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// What still waits, because the run failed.
    pub(crate) fn drain(&mut self) -> Vec<Event<'static>> {
        self.buffered_bytes = 0;
        self.open.drain(..).map(|(id, events)| merge_args(id, events)).collect()
    }
}

fn merge_args(id: Json<'static>, mut events: Vec<Event<'static>>) -> Event<'static> {
    let plain = match events.as_slice() {
        [one] if one.kind == EventType::ToolCallArgs => {
            let text = one.text(Field::Delta).unwrap_or_default();
            // Blanks around an object would not come back.
            json::parse_value(&text).is_none_or(|value| value.as_str() == text)
        }
        _ => false,
    };
    if plain && let Some(one) = events.pop() {
        return one;
    }
    let text: String = events.iter().filter_map(|event| event.text(Field::Delta)).collect();
    let list: Vec<_> = events.iter().map(event_to_value).collect();
    let mut all = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, id);
    all.set(Field::Delta, Json::string(&text));
    all.members.push((carry::extension_key(BUFFERED_EVENTS), json::to_array(&list)));
    all
}

/// Takes out of an event those that were gathered into it. They come from outside, so only kinds that `admits` are taken.
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
