//! Reading: a frame of the agent's dialect becomes canonical events.
//!
//! One function per [`Shape`]; which shape an event has is the dialect table's business.

use super::carry::{self, Unwrapped};
use super::collaboration::Talks;
use super::report::{Loss, Repair};
use super::text::{NoText, Reading};
use super::{Sink, message, noted, patch};
use crate::codec::json::{self, Object};
use crate::dialect::{ASSISTANT, Dialect, Home, Rest, Row, Shape};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, remove, set};

/// What some producers say at the end; not a frame of any dialect here.
const DONE: &str = "[DONE]";

/// `source` of the RAW event in which a frame leaves that is no event.
const MALFORMED: &str = "diglot.malformed";

/// Reads one side of a route.
#[derive(Debug)]
pub(super) struct Reader {
    dialect: &'static Dialect,
    texts: Reading,
    talks: Talks,
}

/// An event of the dialect, taken apart by its row.
pub(super) struct Parts<'a> {
    /// the canonical event as far as the row says it
    pub event: Event<'a>,
    /// the dialect's own members
    pub own: Members<'a>,
    /// members of the event that `extra` held: canonical already, whatever the dialect makes of such a value
    pub restored: Vec<Field>,
}

impl Reader {
    pub fn new(dialect: &'static Dialect) -> Self {
        Reader { dialect, texts: Reading::default(), talks: Talks::default() }
    }

    /// Reads the data of one frame.
    pub fn frame(&mut self, data: &str, sink: &mut impl Sink) {
        if data.trim() == DONE {
            return sink.report().loss(Loss::DoneMarker);
        }
        match json::object(data) {
            Ok(object) => self.object(object, data, sink),
            Err(_) => self.malformed(&Json::string(data), sink),
        }
    }

    /// Closes what the dialect left half said.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.texts.close_all(sink);
    }

    fn object(&mut self, object: Object<'_>, data: &str, sink: &mut impl Sink) {
        let dialect = self.dialect;
        let Some(wire) = object.kind.as_ref().and_then(Json::text).filter(|wire| !wire.is_empty()) else {
            return self.malformed(&Json::trusted(data), sink);
        };
        if let Some((label, row)) = dialect.row(&wire) {
            sink.report().read[label] += 1;
            return self.row(row, object.members, data, sink);
        }
        self.texts.release(None, sink);
        match (dialect.rest, Kind::from_wire(&wire)) {
            (Rest::Same, Some(kind)) => {
                sink.report().read[dialect.label_of(kind)] += 1;
                if !object.canonical {
                    sink.report().repair(Repair::Respelt);
                }
                let source = object.canonical.then_some(data);
                sink.event(Event { kind, members: object.members, source });
            }
            _ => {
                sink.report().read[dialect.other()] += 1;
                let foreign = crate::dialect::ALL.iter().any(|other| other.knows(&wire));
                sink.report().repair(if foreign { Repair::ForeignType } else { Repair::UnknownType });
                sink.event(self.whole(&wire, data));
            }
        }
    }

    /// The event that carries a whole frame of the dialect: CUSTOM `<dialect>.<TYPE>`.
    fn whole<'a>(&self, wire: &str, data: &'a str) -> Event<'a> {
        Event::new(Kind::Custom)
            .with(Field::Name, Json::string(&format!("{}.{wire}", self.dialect.name)))
            .with(Field::Value, Json::trusted(data))
    }

    fn malformed(&mut self, what: &Json<'_>, sink: &mut impl Sink) {
        self.texts.release(None, sink);
        let other = self.dialect.other();
        sink.report().read[other] += 1;
        sink.report().repair(Repair::MalformedFrame);
        let event = Event::new(Kind::Raw).with(Field::Event, what.borrowed());
        sink.event(event.with(Field::Source, Json::string(MALFORMED)));
    }

    fn row(&mut self, row: &'static Row, members: Members<'_>, data: &str, sink: &mut impl Sink) {
        if row.shape == Shape::Whole {
            self.texts.release(None, sink);
            return sink.event(self.whole(row.wire, data));
        }
        let (mut parts, stands_for) = self.take_apart(row, members);
        let own = matches!(row.shape, Shape::HeldStart | Shape::Output | Shape::RoleEnd) && stands_for.is_none();
        let message = parts.event.get(Field::MessageId).filter(|_| own);
        self.texts.release(message, sink);
        if let Some(kind) = stands_for {
            return self.restore(&kind, parts, sink);
        }
        match row.shape {
            Shape::Plain if row.kind == Kind::Custom => return self.custom(parts, sink),
            Shape::Plain | Shape::Whole => {}
            Shape::Boundary => self.boundary(&mut parts, sink),
            Shape::Failure => {
                failure(&mut parts);
                self.texts.close_all(sink);
            }
            Shape::HeldStart => return self.texts.start(self.pack(parts), sink),
            Shape::Output => {
                if let Err(NoText) = self.texts.content(parts, self.dialect, sink) {
                    sink.event(self.whole(row.wire, data));
                }
                return;
            }
            Shape::RoleEnd => {
                self.texts.forget_role(&mut parts);
                return self.texts.end(self.pack(parts), sink);
            }
            Shape::ObjectDelta => as_text(&mut parts, Field::Delta),
            Shape::AnyContent => {
                name_result(&mut parts);
                as_text(&mut parts, Field::Content);
            }
            Shape::LaxPatch => patch::read(&mut parts, sink.report()),
            Shape::Messages => message::read_snapshot(&mut parts.event, self.dialect),
            Shape::Collaboration(step) => {
                if !self.talks.read(step, &mut parts, self.dialect) {
                    return sink.event(self.whole(row.wire, data));
                }
            }
        }
        sink.event(self.pack(parts));
    }

    /// Sorts members into what the row says, what is the dialect's own, and what `extra` holds for canonical AG-UI.
    fn take_apart<'a>(&self, row: &'static Row, members: Members<'a>) -> (Parts<'a>, Option<String>) {
        let mut parts = Parts { event: Event::new(row.kind), own: Members::new(), restored: Vec::new() };
        // Most events say nothing but what their row says: the list stays as it is.
        if members.iter().all(|(key, _)| matches!(key, Key::Known(field) if row.says(*field))) {
            parts.event.members = members;
            carry::name_numbers(&mut parts.event, &mut parts.own);
            return (parts, None);
        }
        let mut unwrapped = Unwrapped::default();
        for (key, value) in members {
            match &key {
                Key::Known(field) if row.says(*field) => parts.event.members.push((key, value)),
                _ if self.dialect.home == Home::Extra && carry::is_named(&key, carry::EXTRA) => {
                    unwrapped = carry::unwrap(&value);
                }
                _ => parts.own.push((key, value)),
            }
        }
        for (key, value) in unwrapped.canonical {
            if let Key::Known(field) = &key {
                parts.restored.push(*field);
            }
            set(&mut parts.event.members, key, value);
        }
        if let Some(extra) = unwrapped.own {
            parts.own.push((carry::own(carry::EXTRA), extra));
        }
        carry::name_numbers(&mut parts.event, &mut parts.own);
        (parts, unwrapped.stands_for)
    }

    fn pack<'a>(&self, parts: Parts<'a>) -> Event<'a> {
        let Parts { mut event, own, .. } = parts;
        carry::pack(&mut event, self.dialect.name, own);
        event
    }

    /// An event that stands for another one: `extra["ag-ui"].type` says for which.
    fn restore(&self, kind: &str, parts: Parts<'_>, sink: &mut impl Sink) {
        let Some(kind) = Kind::from_wire(kind) else {
            return;
        };
        if noted::is_whole(kind) {
            return sink.event(noted::read(kind, parts, self.dialect.name));
        }
        let restored = parts.restored.clone();
        let mut event = self.pack(parts);
        event.kind = kind;
        if let Some(text) = event.get(Field::Delta).and_then(super::text::said).map(Json::into_owned) {
            event.set(Field::Delta, text);
        }
        super::chunk::restore_absent(&mut event);
        event.members.retain(|(key, _)| match key {
            // What the dialect's event had to say to be one is not the canonical event's.
            Key::Known(field) => kind.slot(*field).is_some() || restored.contains(field),
            Key::Other(_) => true,
        });
        sink.event(event);
    }

    /// CUSTOM `ag-ui.<TYPE>` holds a canonical event that this dialect has no word for.
    fn custom(&self, parts: Parts<'_>, sink: &mut impl Sink) {
        let name = parts.event.text(Field::Name).unwrap_or_default();
        let kind = name.strip_prefix(super::CANONICAL_PREFIX).and_then(Kind::from_wire);
        let held = parts.event.get(Field::Value).map(|value| json::object(value.as_str()));
        match (kind, held) {
            (Some(kind), Some(Ok(object))) if self.dialect.home == Home::Extra => {
                sink.event(Event { kind, members: object.members, source: None });
            }
            _ => sink.event(self.pack(parts)),
        }
    }

    /// Run boundaries: our own writer puts the run's id and "assistant" where the dialect wants `messageId` and `role`.
    fn boundary(&mut self, parts: &mut Parts<'_>, sink: &mut impl Sink) {
        let run_id = parts.event.get(Field::RunId);
        if run_id.is_some() && get(&parts.own, Field::MessageId) == run_id {
            remove(&mut parts.own, Field::MessageId);
            if get(&parts.own, Field::Role).is_some_and(|role| role.is(ASSISTANT)) {
                remove(&mut parts.own, Field::Role);
            }
        }
        // The dialect need not say them, so their absence is no fault that anybody has to mend.
        for field in [Field::ThreadId, Field::RunId] {
            if parts.event.get(field).is_none() {
                parts.event.set(field, Json::string(""));
            }
        }
        if parts.event.kind.is_terminal() {
            self.texts.close_all(sink);
        }
    }
}

/// An error may stand in a nested object, or be a text; its code may be a number.
fn failure(parts: &mut Parts<'_>) {
    nested_error(parts);
    as_text(parts, Field::Code);
}

fn nested_error(parts: &mut Parts<'_>) {
    let Some(error) = get(&parts.own, Field::Error).cloned() else {
        return;
    };
    if parts.event.get(Field::Message).is_some() {
        return;
    }
    match (error.shape(), json::members(&error)) {
        (Type::String, _) => parts.event.set(Field::Message, error.into_owned()),
        (_, Some(inner)) => {
            for field in [Field::Message, Field::Code] {
                if let Some(value) = get(&inner, field) {
                    parts.event.set(field, value.clone().into_owned());
                }
            }
        }
        _ => {}
    }
}

/// A result needs no message of its own here, so its absence is no fault that anybody has to mend.
fn name_result(parts: &mut Parts<'_>) {
    if parts.event.get(Field::MessageId).is_none() {
        let call = parts.event.get(Field::ToolCallId).cloned().unwrap_or_else(|| Json::string(""));
        parts.event.set(Field::MessageId, super::result_id(&call));
    }
}

/// A value that is no string becomes its JSON text, and the note says so.
fn as_text(parts: &mut Parts<'_>, field: Field) {
    match parts.event.get(field) {
        Some(value) if !parts.restored.contains(&field) && is_structured(field, value) => {
            let text = Json::string(value.as_str());
            parts.event.set(field, text);
            carry::note_json(&mut parts.own, field);
        }
        _ => {}
    }
}

/// Whether a value has to become its JSON text. A piece of text that is null adds nothing, whereas a call may well have
/// returned null.
fn is_structured(field: Field, value: &Json<'_>) -> bool {
    match value.shape() {
        Type::Object | Type::Array | Type::Number | Type::Bool => true,
        Type::Null => field == Field::Content,
        Type::String => false,
    }
}
