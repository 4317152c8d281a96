//! Reading: a frame of the agent's dialect becomes canonical events.
//!
//! One function per [`Shape`]; which shape an event has is the dialect table's business.

use super::answer;
use super::call::{self, Calls};
use super::carry::{self, Unwrapped};
use super::collaboration::Talks;
use super::detect::Detector;
use super::failure;
use super::report::{Loss, Repair, Report};
use super::spell::{self, Stamps};
use super::text::{NoText, Reading};
use super::thought::{self, Thoughts};
use super::{Sink, message, noted, older, patch};
use crate::codec::json::{self, Object};
use crate::dialect::{ASSISTANT, Dialect, Home, Row, Shape, Side};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, remove, set};

/// What some producers say at the end; not a frame of any dialect here.
const DONE: &str = "[DONE]";

/// `source` of the RAW event in which a frame leaves that is no event.
const MALFORMED: &str = "diglot.malformed";

/// Reads one side of a route.
#[derive(Debug)]
pub(super) struct Reader {
    side: Side,
    dialect: &'static Dialect,
    texts: Reading,
    talks: Talks,
    thoughts: Thoughts,
    calls: Calls,
    answers: answer::Reading,
    stamps: Stamps,
    /// the row of the last event, and its label
    last: Option<(usize, &'static Row)>,
    /// whether an event has come
    begun: bool,
    /// what tells the dialect, where nobody else does
    detector: Option<Detector>,
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
    pub fn new(side: Side) -> Self {
        Reader {
            side,
            dialect: side.dialect,
            texts: Reading::default(),
            talks: Talks::default(),
            thoughts: Thoughts::default(),
            calls: Calls::default(),
            answers: answer::Reading::default(),
            stamps: Stamps::default(),
            last: None,
            begun: false,
            detector: side.auto.then(Default::default),
        }
    }

    /// Reads the data of one frame.
    pub fn frame(&mut self, data: &str, sink: &mut impl Sink) {
        if data.trim() == DONE {
            return sink.report().loss(Loss::DoneMarker);
        }
        self.detect(data, sink);
        match json::object(data) {
            Ok(object) => self.object(object, data, sink),
            Err(_) => self.malformed(&Json::string(data), sink),
        }
    }

    /// Turns to the dialect that this frame is a sign of, if it is the first.
    fn detect(&mut self, data: &str, sink: &mut impl Sink) {
        let Some((sign, before)) = self.detector.as_mut().and_then(|detector| detector.look(data)) else {
            return;
        };
        sink.report().turn(sign);
        *self = Reader::new(Side::new(sign.dialect));
        // What was said so far counts for the rest of it: which messages and calls are open. It has been heard.
        let mut unheard = Unheard(Report { read: vec![0; sign.dialect.other() + 1].into(), ..Report::default() });
        before.iter().for_each(|data| self.frame(data, &mut unheard));
    }

    /// What is remembered of calls that have no result yet, in bytes.
    pub fn held(&self) -> usize {
        self.calls.held()
    }

    /// Closes what the dialect left half said.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.texts.close_all(sink);
    }

    fn object(&mut self, object: Object<'_>, data: &str, sink: &mut impl Sink) {
        let dialect = self.dialect;
        let Some(wire) = object.kind.as_ref().and_then(Json::text).filter(|wire| !wire.is_empty()) else {
            let data = spell::stripped(dialect, data, sink.report());
            return self.malformed(&Json::trusted(&*data), sink);
        };
        // Most events are what the one before was.
        let known = self.last.filter(|(_, row)| row.wire == wire).or_else(|| dialect.row(&wire));
        self.last = known;
        self.begin(known.map(|(_, row)| row.kind), sink);
        let Some((label, row)) = known else {
            self.texts.release(None, sink);
            sink.report().read[dialect.other()] += 1;
            let foreign = crate::dialect::ALL.iter().any(|other| other.knows(&wire));
            sink.report().repair(if foreign { Repair::ForeignType } else { Repair::UnknownType });
            let data = spell::stripped(dialect, data, sink.report());
            return sink.event(self.whole(&wire, &data));
        };
        sink.report().read[label] += 1;
        if dialect.home != Home::Native {
            return self.row(row, object.members, data, sink);
        }
        if !object.canonical {
            sink.report().repair(Repair::Respelt);
        }
        let source = object.canonical.then_some(data);
        sink.event(Event { kind: row.kind, members: object.members, source });
    }

    /// Where a run need not say that it starts, it starts with its first event: no fault that anybody has to mend.
    fn begin(&mut self, first: Option<Kind>, sink: &mut impl Sink) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let says_start = matches!(first, Some(Kind::RunStarted | Kind::RunError));
        let start = self.dialect.row(Kind::RunStarted.wire());
        if !says_start && start.is_some_and(|(_, row)| row.shape == Shape::IdsOptional) {
            sink.report().own_form(Repair::RunStartedSupplied);
            let start = Event::new(Kind::RunStarted).with(Field::ThreadId, Json::string(""));
            sink.event(start.with(Field::RunId, Json::string("")));
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
        let (mut parts, noted) = self.take_apart(row, members, sink.report());
        let stands_for = noted.as_ref().and_then(|noted| stands_for(noted, &parts.event));
        if noted.is_some() && stands_for.is_none() {
            // A note that cannot be used is no note: the event is what it says.
            sink.report().repair(Repair::UnknownType);
        }
        let own = matches!(row.shape, Shape::HeldStart | Shape::Output | Shape::RoleEnd) && stands_for.is_none();
        let message = parts.event.get(Field::MessageId).filter(|_| own);
        self.texts.release(message, sink);
        match stands_for {
            Some(None) => return,
            Some(Some(kind)) => {
                if row.shape == Shape::Spanless && row.kind == Kind::ReasoningMessageStart {
                    thought::read_role(self.dialect, &mut parts.event, &mut parts.own);
                }
                return self.restore(kind, parts, sink);
            }
            None => {}
        }
        match row.shape {
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
            Shape::Spanless => return self.thoughts.spanless(parts, self.dialect, sink),
            Shape::StartWithArgs => return call::read_start_with_args(parts, self.dialect, sink),
            Shape::Answer => return self.answers.end(parts, self.dialect, sink),
            Shape::CallArgs => {
                if let Some(events) =
                    call::take_events(&mut parts.event, |kind| matches!(kind, Kind::ToolCallArgs | Kind::ToolCallChunk))
                {
                    self.calls.args(&mut parts);
                    return events.into_iter().for_each(|event| sink.event(event));
                }
            }
            Shape::Collaboration(step) if !self.talks.read(step, &mut parts, self.dialect) => {
                return sink.event(self.whole(row.wire, data));
            }
            Shape::Boundary => self.boundary(&mut parts, sink),
            Shape::Failure | Shape::NestedFailure => self.texts.close_all(sink),
            _ if row.kind == Kind::Custom => return self.custom(parts, sink),
            _ if row.kind == Kind::Raw && self.dialect.is_versioned() => {
                if let Some(event) = older::held(&parts.event) {
                    return sink.event(event);
                }
            }
            _ => {}
        }
        self.mend(row.shape, &mut parts, sink);
        self.answers.note(&parts.event);
        sink.event(self.pack(parts));
    }

    /// Shapes that are one event on both sides.
    fn mend(&mut self, shape: Shape, parts: &mut Parts<'_>, sink: &mut impl Sink) {
        match shape {
            Shape::Failure => failure::read(parts),
            Shape::NestedFailure => failure::read_nested(parts, self.side),
            Shape::IdsOptional => name_run(parts),
            Shape::Nameless => self.thoughts.name(parts),
            Shape::ObjectDelta => as_text(parts, Field::Delta),
            Shape::AnyContent => {
                name_result(parts);
                as_text(parts, Field::Content);
            }
            Shape::CallStart => self.calls.start(parts),
            Shape::CallArgs => {
                call::read_args(parts);
                self.calls.args(parts);
            }
            Shape::CallEnd => self.calls.end(parts),
            Shape::CallResult => {
                self.calls.result(parts);
                name_result(parts);
                as_text(parts, Field::Content);
            }
            Shape::LaxPatch => patch::read(parts, sink.report()),
            Shape::Messages => {
                spell::strip_messages(self.dialect, &mut parts.event, sink.report());
                message::read_snapshot(&mut parts.event, self.side);
            }
            _ => {}
        }
        if parts.event.kind == Kind::RunStarted {
            self.thoughts.run(&parts.event);
        }
    }

    /// Sorts members into what the row says, what is the dialect's own, and what its home holds for canonical AG-UI.
    fn take_apart<'a>(
        &mut self,
        row: &'static Row,
        mut members: Members<'a>,
        report: &mut Report,
    ) -> (Parts<'a>, Option<String>) {
        let dialect = self.dialect;
        let mut parts = Parts { event: Event::new(row.kind), own: Members::new(), restored: Vec::new() };
        spell::strip(dialect, &mut members, report);
        spell::read_names(row.names, &mut members);
        self.stamps.read(dialect, row.kind, &mut members);
        // Most events say nothing but what their row says: the list stays as it is.
        if members.iter().all(|(key, _)| matches!(key, Key::Known(field) if row.says(*field))) {
            parts.event.members = members;
            self.respell(&mut parts, &Members::new());
            return (parts, None);
        }
        let home = dialect.home.place().map_or("", |(member, _)| member);
        let mut unwrapped = Unwrapped::default();
        for (key, value) in members {
            match &key {
                Key::Known(field) if row.says(*field) => parts.event.members.push((key, value)),
                _ if carry::is_named(&key, home) => unwrapped = carry::unwrap(&value, dialect.home),
                _ => parts.own.push((key, value)),
            }
        }
        self.respell(&mut parts, &unwrapped.canonical);
        if let Some(rest) = unwrapped.own {
            match dialect.home {
                Home::Metadata => parts.event.set(Field::Metadata, rest),
                Home::Extra | Home::Native => parts.own.push((carry::own(home), rest)),
            }
        }
        for (key, value) in unwrapped.canonical {
            if let Key::Known(field) = &key {
                parts.restored.push(*field);
            }
            set(&mut parts.event.members, key, value);
        }
        (parts, unwrapped.stands_for)
    }

    /// Brings what the dialect says in its own way into canonical form, but for what is `canonical` already.
    fn respell(&self, parts: &mut Parts<'_>, canonical: &Members<'_>) {
        carry::name_numbers(&mut parts.event, &mut parts.own);
        if self.dialect.home == Home::Metadata {
            // A peer with versions has none that takes a null: the guard drops it.
            if !self.dialect.is_versioned() {
                spell::read_nulls(self.dialect, parts);
            }
            spell::read_words(self.side, parts);
            if self.dialect.options.contains(&"timestamp") && get(canonical, Field::Timestamp).is_none() {
                spell::read_time(self.side, parts);
            }
        }
    }

    fn pack<'a>(&self, parts: Parts<'a>) -> Event<'a> {
        let Parts { mut event, own, .. } = parts;
        carry::pack(&mut event, self.dialect.name, own);
        event
    }

    /// An event that stands for another one: `extra["ag-ui"].type` says for which.
    fn restore(&mut self, kind: Kind, parts: Parts<'_>, sink: &mut impl Sink) {
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
        self.answers.note(&event);
        sink.event(event);
    }

    /// CUSTOM `ag-ui.<TYPE>` holds a canonical event that this dialect has no word for.
    fn custom(&mut self, parts: Parts<'_>, sink: &mut impl Sink) {
        let name = parts.event.text(Field::Name).unwrap_or_default();
        let kind = name.strip_prefix(super::CANONICAL_PREFIX).and_then(Kind::from_wire);
        let held = parts.event.get(Field::Value).map(|value| json::object(value.as_str()));
        match (kind, held) {
            // The boundaries of a run are said as themselves, so no note may stand for one.
            (Some(kind), Some(Ok(object)))
                if !kind.is_run_boundary() && object.kind.as_ref().is_some_and(|own| own.is(kind.wire())) =>
            {
                let event = Event { kind, members: object.members, source: None };
                self.answers.note(&event);
                sink.event(event);
            }
            _ if self.side.errors.iter().any(|error| *error == name) => {
                drop(name);
                sink.event(self.pack(failure::read_custom(parts)));
            }
            _ => {
                drop(name);
                sink.event(self.pack(parts));
            }
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
        name_run(parts);
        if parts.event.kind.is_terminal() {
            self.texts.close_all(sink);
        }
    }
}

/// What a note says that an event stands for: a canonical kind, or nothing (`Some(None)`). `None` when the note cannot be
/// right: notes come from outside. The boundaries of a run are said as themselves, and text is not there for nothing.
fn stands_for(noted: &str, event: &Event<'_>) -> Option<Option<Kind>> {
    if noted.is_empty() {
        let text = event.get(Field::Delta).filter(|_| event.kind == Kind::TextMessageContent);
        let said = text.and_then(super::text::said).or_else(|| text.map(Json::borrowed));
        return said.is_none_or(|said| said.is("")).then_some(None);
    }
    Kind::from_wire(noted).filter(|kind| !kind.is_run_boundary()).map(Some)
}

/// Takes the absence of a run's ids for what it is where the dialect need not say them: no fault that anybody has to mend.
fn name_run(parts: &mut Parts<'_>) {
    for field in [Field::ThreadId, Field::RunId] {
        if parts.event.get(field).is_none() {
            parts.event.set(field, Json::string(""));
        }
    }
}

/// Takes events that were heard before.
struct Unheard(Report);

impl Sink for Unheard {
    fn event(&mut self, _: Event<'_>) {}

    fn report(&mut self) -> &mut Report {
        &mut self.0
    }
}

/// Note: the message of this result had an empty id.
pub(super) const UNNAMED: &str = "$unnamed";

/// A result needs no message of its own here, so its absence is no fault that anybody has to mend. An empty id is none: two
/// results would be one message to a client that keeps messages by their ids.
fn name_result(parts: &mut Parts<'_>) {
    let said = parts.event.get(Field::MessageId);
    let unnamed = said.is_some_and(|id| id.is("")) && !parts.restored.contains(&Field::MessageId);
    if unnamed {
        parts.own.push((carry::own(UNNAMED), Json::trusted("true")));
    }
    if unnamed || said.is_none() {
        let call = parts.event.get(Field::ToolCallId).cloned().unwrap_or_else(|| Json::string(""));
        parts.event.set(Field::MessageId, super::result_id(&call));
    }
}

/// A value that is no string becomes its JSON text, and the note says so.
pub(super) fn as_text(parts: &mut Parts<'_>, field: Field) {
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
