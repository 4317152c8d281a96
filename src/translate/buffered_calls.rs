//! Tool calls in dialects that say all arguments at once: in the start of the call ([`Shape::StartWithArgs`]), or in one event
//! as an object, with every event of the call repeating what its start said ([`Shape::CallStart`] and the three behind it).
//!
//! [`Shape::StartWithArgs`]: crate::dialect::Shape::StartWithArgs
//! [`Shape::CallStart`]: crate::dialect::Shape::CallStart

use super::read::{Parts, as_text};
use super::write::Said;
use super::{Sink, carry, held, result_id};
use crate::codec::json;
use crate::dialect::{Dialect, call};
use crate::event::{Event, Field, Json, Key, Kind, Member, Members, Type, get, set};
use std::borrow::Cow;

/// The member of a start that holds all arguments.
pub(super) const ARGS: &str = "args";

/// Note, on a start and on the arguments that follow it: they were one event.
const IN_START: &str = "$args";

/// Under the home of canonical material: the events that were gathered into this one, and members that writing had to add.
pub(super) const EVENTS: &str = "$events";
pub(super) const FILLED: &str = "$filled";

/// Reads a start with arguments in it: the start, and the arguments behind it.
pub(super) fn read_start_with_args(parts: Parts<'_>, dialect: &Dialect, sink: &mut impl Sink) {
    let Parts { mut event, mut own, .. } = parts;
    // No arguments are no arguments: `null` is carried as it is.
    let has_args = get_own(&own, ARGS).is_some_and(|args| !args.is_null());
    let args = if has_args { carry::take(&mut own, ARGS).map(Json::into_owned) } else { None };
    let Some(args) = args else {
        carry::pack(&mut event, dialect.name, own);
        return sink.event(event);
    };
    own.push((carry::own(IN_START), Json::trusted("true")));
    let call = id(&event);
    carry::pack(&mut event, dialect.name, own);
    sink.event(event);
    let mut more = Event::new(Kind::ToolCallArgs).with(Field::ToolCallId, call);
    let mut noted: Members<'_> = vec![(carry::own(IN_START), Json::trusted("true"))];
    let delta = match args.shape() {
        Type::String => args,
        _ => {
            carry::note_json(&mut noted, Field::Delta);
            Json::string(args.as_str())
        }
    };
    more.set(Field::Delta, delta);
    carry::pack(&mut more, dialect.name, noted);
    sink.event(more);
}

fn get_own<'m, 'a>(own: &'m Members<'a>, name: &str) -> Option<&'m Json<'a>> {
    own.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value)
}

/// Writing of a start that had its arguments in it: it waits for them. They come right behind it, or not at all.
#[derive(Debug, Default)]
pub(super) struct Start(Option<Event<'static>>);

impl Start {
    /// What leaves now that `event` comes: perhaps a start that waited, then the event, if it does not wait itself.
    pub fn next<'a>(&mut self, mut event: Event<'a>, dialect: &str) -> (Option<Event<'static>>, Option<Event<'a>>) {
        let in_start = is_noted(&event, dialect);
        let Some(mut start) = self.0.take() else {
            if in_start && event.kind == Kind::ToolCallStart {
                self.0 = Some(event.into_owned());
                return (None, None);
            }
            return (None, Some(event));
        };
        let fits = in_start
            && event.kind == Kind::ToolCallArgs
            && start
                .get(Field::ToolCallId)
                .zip(event.get(Field::ToolCallId))
                .is_some_and(|(one, other)| one.same(other));
        if !fits {
            let (waited, event) = self.next(event, dialect);
            debug_assert!(waited.is_none(), "nothing waits any more");
            return (Some(start), event);
        }
        let text = event.remove(Field::Delta).unwrap_or_else(|| Json::string(""));
        let metadata = event.remove(Field::Metadata);
        let mut own = metadata.map(|all| carry::unpack(all, dialect, |_| true).0).unwrap_or_default();
        let value = carry::take_json_note(&mut own, Field::Delta)
            .then(|| text.text().and_then(|text| json::value(&text).map(Json::into_owned)));
        let args = value.flatten().unwrap_or_else(|| text.into_owned());
        carry::pack(&mut start, dialect, vec![(carry::own(ARGS), args)]);
        (Some(start), None)
    }
}

fn is_noted(event: &Event<'_>, dialect: &str) -> bool {
    let Some(metadata) = event.get(Field::Metadata).and_then(json::members) else {
        return false;
    };
    let own = metadata.iter().find(|(key, _)| carry::is_named(key, dialect)).and_then(|(_, own)| json::members(own));
    own.is_some_and(|own| own.iter().any(|(key, _)| carry::is_named(key, IN_START)))
}

/// Takes the note of a start out of what is written.
pub(super) fn forget_note(said: &mut Said<'_>) {
    carry::take(&mut said.own, IN_START);
}

/// What the start of a call said, which its other events repeat.
#[derive(Debug, Clone, Default)]
struct Call {
    id: Json0,
    name: Json0,
    message: Json0,
    stage: Json0,
    /// the text of the arguments
    args: Json0,
}

type Json0 = Option<Json<'static>>;

/// Calls of a run whose result has not come yet, on either side.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Call>,
    /// what they hold, in bytes
    held: usize,
}

impl Calls {
    /// What is remembered, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }

    fn forget(&mut self, id: &Json0) {
        let held = &mut self.held;
        self.open.retain(|call| {
            let stays = call.id != *id;
            *held -= if stays { 0 } else { call.held() };
            stays
        });
    }

    /// Notes the arguments of a call.
    fn keep_args(&mut self, id: Option<&Json<'_>>, args: Json0) {
        let (mut before, mut after) = (0, 0);
        if let Some(call) = self.find(id) {
            before = call.held();
            call.args = args;
            after = call.held();
        }
        self.held = self.held + after - before;
    }

    fn find(&mut self, id: Option<&Json<'_>>) -> Option<&mut Call> {
        self.open.iter_mut().find(|call| call.id.as_ref().zip(id).is_some_and(|(own, id)| own.same(id)))
    }

    /// The start of a call is taken note of.
    pub fn start(&mut self, parts: &mut Parts<'_>) {
        self.remember(&parts.event.members, &parts.own);
        // The other events of the call repeat what was filled in, too.
        forget_filled(parts, call::START_FILLERS);
    }

    fn remember(&mut self, members: &Members<'_>, own: &Members<'_>) {
        let said = |field| get(members, field).cloned().map(Json::into_owned);
        let id = said(Field::ToolCallId);
        self.forget(&id);
        let call = Call {
            id,
            name: said(Field::ToolCallName),
            message: said(Field::ParentMessageId),
            // §3.3 prints it on every event of a call; whatever else the start says is about the start alone.
            stage: get_own(own, call::STAGE).cloned().map(Json::into_owned),
            args: None,
        };
        self.held += call.held();
        self.open.push(call);
    }

    /// Takes off the arguments of a call what they repeat.
    pub fn args(&mut self, parts: &mut Parts<'_>) {
        let id = parts.event.get(Field::ToolCallId);
        let args = parts.event.get(Field::Delta).map(|args| match args.shape() {
            Type::String => args.clone().into_owned(),
            _ => Json::string(args.as_str()),
        });
        self.keep_args(id, args);
        if let Some(call) = self.find(id) {
            call.take_repeats(&mut parts.own);
        }
    }

    /// Takes off the end of a call what it repeats.
    pub fn end(&mut self, parts: &mut Parts<'_>) {
        if let Some(call) = self.find(parts.event.get(Field::ToolCallId)) {
            call.take_repeats(&mut parts.own);
        }
    }

    /// Takes off the result of a call what it repeats.
    pub fn result(&mut self, parts: &mut Parts<'_>) {
        let id = parts.event.get(Field::ToolCallId).cloned().map(Json::into_owned);
        forget_filled(parts, call::FILLERS);
        let Some(call) = self.find(id.as_ref()) else {
            return;
        };
        call.take_repeats(&mut parts.own);
        let said = parts.own.iter().position(|(key, value)| {
            carry::is_named(key, call::TOOL_NAME) && call.name.as_ref().is_some_and(|name| name.same(value))
        });
        said.map(|at| parts.own.remove(at));
        let said = parts.own.iter().position(|(key, value)| {
            // Only an object is said again by the way back.
            carry::is_named(key, call::TOOL_CALL_ARGS)
                && value.shape() == Type::Object
                && call.args.as_ref().and_then(Json::text).is_some_and(|args| args == value.as_str())
        });
        said.map(|at| parts.own.remove(at));
        // It names the message of its call over there; a message of its own is what it makes here.
        if parts.event.get(Field::MessageId).is_some_and(|said| call.message.as_ref().is_some_and(|own| own.same(said)))
        {
            parts.event.remove(Field::MessageId);
        }
        self.forget(&id);
    }

    /// Takes note of a start that is written.
    pub fn write_start(&mut self, said: &mut Said<'_>) {
        fill(said, call::START_FILLERS);
        self.remember(&said.members, &said.own);
    }

    /// Has the arguments and the end of a call repeat its start.
    pub fn write_repeats(&mut self, said: &mut Said<'_>) {
        let id = get(&said.members, Field::ToolCallId);
        if let Some(args) = get(&said.members, Field::Delta) {
            self.keep_args(id, Some(args.clone().into_owned()));
        }
        if let Some(call) = self.find(id) {
            call.repeat(&mut said.own);
        }
    }

    /// Has the result of a call say the call again, and what a canonical result has not.
    pub fn write_result(&mut self, said: &mut Said<'_>) {
        let id = get(&said.members, Field::ToolCallId).cloned().map(Json::into_owned);
        if let Some(call) = self.find(id.as_ref()) {
            let derived = id.as_ref().map(result_id);
            if let Some(message) = call.message.clone()
                && get(&said.members, Field::MessageId) == derived.as_ref()
            {
                set(&mut said.members, Key::Known(Field::MessageId), message);
            }
            let own = &mut said.own;
            if let Some(stage) = &call.stage {
                add(own, carry::own(call::STAGE), stage);
            }
            if let Some(name) = &call.name {
                add(own, carry::own(call::TOOL_NAME), name);
            }
            if let Some(args) = call.args.as_ref().and_then(as_object) {
                add(own, carry::own(call::TOOL_CALL_ARGS), &args);
            }
        }
        fill(said, call::FILLERS);
        self.forget(&id);
    }
}

impl Call {
    fn held(&self) -> usize {
        let all = [&self.id, &self.name, &self.message, &self.stage, &self.args];
        all.into_iter().flatten().map(|value| held::text(value.as_str())).sum()
    }

    fn repeats(&self) -> impl Iterator<Item = (Key<'static>, &Json<'static>)> {
        let repeated = [
            (Key::Known(Field::MessageId), &self.message),
            (Key::Known(Field::ToolCallName), &self.name),
            (carry::own(call::STAGE), &self.stage),
        ];
        repeated.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    fn take_repeats(&self, own: &mut Members<'_>) {
        for (key, value) in self.repeats() {
            own.retain(|(said, what)| *said != key || !what.same(value));
        }
    }

    fn repeat(&self, own: &mut Members<'static>) {
        for (key, value) in self.repeats() {
            add(own, key, value);
        }
    }
}

fn add(own: &mut Members<'static>, key: Key<'static>, value: &Json<'static>) {
    if !own.iter().any(|(said, _)| *said == key) {
        own.push((key, value.clone()));
    }
}

/// Note: the arguments were a text, although it is that of an object.
const TEXT: &str = "$text";

/// Reads all arguments of a call. An object is how they are said here, so that it is one needs no note.
pub(super) fn read_args(parts: &mut Parts<'_>) {
    match parts.event.get(Field::Delta).map(|args| (args.shape(), args.as_str().to_owned())) {
        Some((Type::Object, object)) => parts.event.set(Field::Delta, Json::string(&object)),
        Some((Type::String, _)) if parts.event.get(Field::Delta).and_then(as_object).is_some() => {
            parts.own.push((carry::own(TEXT), Json::trusted("true")));
        }
        _ => as_text(parts, Field::Delta),
    }
}

/// Writes all arguments of a call: the object that they are the text of, and what they were where they were something else.
pub(super) fn write_args(said: &mut Said<'_>) {
    let is_text = carry::take(&mut said.own, TEXT).is_some();
    let is_value = carry::take_json_note(&mut said.own, Field::Delta);
    let args = get(&said.members, Field::Delta);
    let value = match (is_text, is_value) {
        (true, _) => None,
        (_, true) => args.and_then(Json::text).and_then(|text| json::value(&text).map(Json::into_owned)),
        _ => args.and_then(as_object),
    };
    if let Some(value) = value {
        set(&mut said.members, Key::Known(Field::Delta), value);
    }
}

/// The arguments of a call as the object that they are the text of.
pub(super) fn as_object(text: &Json<'_>) -> Option<Json<'static>> {
    let text = text.text().map(Cow::into_owned)?;
    json::value(&text).filter(|value| value.shape() == Type::Object).map(Json::into_owned)
}

/// Adds members that a dialect always says, and notes which.
pub(super) fn fill(said: &mut Said<'_>, fillers: &'static [(&'static str, &'static str)]) {
    let mut filled = Vec::new();
    for (name, value) in fillers {
        let is_it = |key: &Key<'_>| carry::is_named(key, name);
        if !said.own.iter().any(|(key, _)| is_it(key)) && !said.members.iter().any(|(key, _)| is_it(key)) {
            let key = Field::from_wire(name).map_or(carry::own(name), Key::Known);
            said.own.push((key, Json::trusted(*value)));
            filled.push(Json::string(name));
        }
    }
    if !filled.is_empty() {
        said.canonical.push((carry::own(FILLED), json::to_array(&filled)));
    }
}

/// Takes out again what [`fill`] added.
pub(super) fn forget_filled(parts: &mut Parts<'_>, fillers: &'static [(&'static str, &'static str)]) {
    let Some(names) = carry::take(&mut parts.event.members, FILLED) else {
        return;
    };
    for name in json::elements(&names).unwrap_or_default() {
        let filler = fillers.iter().find(|(filler, _)| name.is(filler));
        if let Some((filler, value)) = filler {
            let stays = |(key, said): &Member<'_>| !carry::is_named(key, filler) || said.as_str() != *value;
            parts.own.retain(stays);
            parts.event.members.retain(stays);
        }
    }
}

/// The call that an event is about; the empty text where it names none.
pub(super) fn id(event: &Event<'_>) -> Json<'static> {
    event.get(Field::ToolCallId).cloned().map_or_else(|| Json::string(""), Json::into_owned)
}

/// The writing side of a call whose arguments are gathered.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    open: Vec<(Json<'static>, Vec<Event<'static>>)>,
    /// what they hold, in bytes
    held: usize,
}

impl Gathered {
    /// A piece of the arguments of the call `id` waits for the end.
    pub fn args(&mut self, id: Json<'static>, event: Event<'_>) {
        let event = event.into_owned();
        self.held += held::cost(&event);
        match self.open.iter_mut().find(|(own, _)| own.same(&id)) {
            Some((_, events)) => events.push(event),
            None => self.open.push((id, vec![event])),
        }
    }

    /// All arguments of a call, now that it ends, as one event: with a note of the pieces where they were more than one.
    pub fn end(&mut self, id: &Json<'_>) -> Option<Event<'static>> {
        let at = self.open.iter().position(|(own, _)| own.same(id))?;
        let (id, events) = self.open.remove(at);
        self.held -= events.iter().map(held::cost).sum::<usize>();
        Some(whole(id, events))
    }

    /// What waits, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }

    /// What still waits, because the run failed.
    pub fn rest(&mut self) -> Vec<Event<'static>> {
        self.held = 0;
        self.open.drain(..).map(|(id, events)| whole(id, events)).collect()
    }
}

fn whole(id: Json<'static>, mut events: Vec<Event<'static>>) -> Event<'static> {
    let plain = match events.as_slice() {
        [one] if one.kind == Kind::ToolCallArgs => {
            let text = one.text(Field::Delta).unwrap_or_default();
            // Blanks around an object would not come back.
            json::value(&text).is_none_or(|value| value.as_str() == text)
        }
        _ => false,
    };
    if plain && let Some(one) = events.pop() {
        return one;
    }
    let text: String = events.iter().filter_map(|event| event.text(Field::Delta)).collect();
    let list: Vec<_> = events.iter().map(record).collect();
    let mut all = Event::new(Kind::ToolCallArgs).with(Field::ToolCallId, id);
    all.set(Field::Delta, Json::string(&text));
    all.members.push((carry::own(EVENTS), json::to_array(&list)));
    all
}

/// A canonical event as one value.
pub(super) fn record(event: &Event<'_>) -> Json<'static> {
    json::build(|object| {
        object.word(json::TYPE, event.kind.wire());
        event.members.iter().for_each(|member| object.copy(member, false));
    })
}

/// Takes out of an event those that were gathered into it. They come from outside, so only kinds that `admits` are taken.
pub(super) fn take_events(event: &mut Event<'_>, admits: impl Fn(Kind) -> bool) -> Option<Vec<Event<'static>>> {
    let list = carry::take(&mut event.members, EVENTS)?;
    let read = |element: &Json<'_>| {
        let object = json::object(element.as_str()).ok()?;
        let kind = object.kind.as_ref()?.text().and_then(|wire| Kind::from_wire(&wire)).filter(|kind| admits(*kind))?;
        Some(Event { kind, members: crate::event::owned(object.members), source: None })
    };
    let events: Option<Vec<_>> = json::elements(&list)?.iter().map(read).collect();
    events.filter(|events| !events.is_empty())
}
