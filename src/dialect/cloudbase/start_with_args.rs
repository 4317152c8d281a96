//! The adapter of `cloudbase`, where one event can start a call and hold all its arguments. Canonical AG-UI has two
//! events.
//!
//! ```text
//!   START {args}               ──▶ START, ARGS
//!   START {args}, ARGS {args}  ──▶ START, ARGS, ARGS ""     (a note restores what the second repeats)
//!   START {}, ARGS {args}      ──▶ START, ARGS "", ARGS     (the same for the first)
//! ```

use super::nested_error;
use crate::codec::json;
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, ReleasedEvents, UnreadableEvent};
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{ARGS_IN_START, remove_start_note};
use crate::dialect::interrupts;
use crate::dialect::memory_limits;
use crate::dialect::row::EventRow;
use crate::dialect::table::PeerDialect;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, Members, find_member, remove};
use std::borrow::Cow;

pub(super) const ARGS_MEMBER: &str = "args";

/// Holds back a start until the next event, which may be its arguments.
#[derive(Debug)]
pub(super) struct CloudbaseAdapter {
    peer: PeerDialect,
    pending_start: Option<Event<'static>>,
    /// arguments `{}` of a start, until the next event, which may have others
    empty_arguments: Option<Event<'static>>,
    /// of calls that are read
    start_arguments: IdMap<StartArguments>,
    start_bytes: usize,
}

/// All arguments of a call, as its start has them.
#[derive(Debug)]
struct StartArguments {
    /// without whitespace
    text: String,
    /// length of what events repeated
    repeated: usize,
}

/// Carries arguments that the start of their call had already.
const REPEATED_NOTE: &str = "$repeated";

/// Marks arguments that stood in the member of a start.
const ARGS_NAME_NOTE: &str = "$member";

impl StartArguments {
    /// Returns true if `piece` repeats the arguments where the pieces before it ended, or as a whole.
    fn repeats(&mut self, piece: &str) -> bool {
        let piece = without_whitespace(piece);
        if piece.is_empty() || !self.text[self.repeated..].starts_with(&piece) {
            // The same members have the same length, so that only such a piece is read.
            return self.repeated == 0 && piece.len() == self.text.len() && has_same_members(&piece, &self.text);
        }
        self.repeated = (self.repeated + piece.len()) % self.text.len();
        true
    }

    fn byte_size(&self) -> usize {
        memory_limits::text_cost(&self.text)
    }
}

/// Also removes it in strings, so texts that differ only there count as the same. Both are arguments of one call.
fn without_whitespace(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// Returns true if two objects have the same members in any order.
fn has_same_members(left: &str, right: &str) -> bool {
    let sorted = |text| {
        let mut members = json::parse_owned_members(&json::parse_value(text)?)?;
        members.sort_by(|(a, x), (b, y)| (a.name(), x.as_str()).cmp(&(b.name(), y.as_str())));
        Some(members)
    };
    sorted(left).is_some_and(|left| sorted(right) == Some(left))
}

impl CloudbaseAdapter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        Box::new(CloudbaseAdapter {
            peer,
            pending_start: None,
            empty_arguments: None,
            start_arguments: IdMap::default(),
            start_bytes: 0,
        })
    }

    /// Remembers arguments that need no continuation.
    fn add_arguments(&mut self, call: &Json<'_>, args: &Json<'_>) {
        let text = argument_text(args);
        if json::parse_value(&text).is_none_or(|value| value.json_type() != JsonType::Object) {
            return;
        }
        let arguments = StartArguments { text: without_whitespace(&text), repeated: 0 };
        self.start_bytes += arguments.byte_size();
        if let Some(before) = self.start_arguments.insert(call.clone().into_owned(), arguments) {
            self.start_bytes -= before.byte_size();
        }
    }

    fn remove_arguments(&mut self, call: &Json<'_>) {
        self.start_bytes -= self.start_arguments.remove(call).map_or(0, |arguments| arguments.byte_size());
    }

    /// Emits the arguments `{}` of a start, empty if `event` has arguments of this call.
    fn release_empty_arguments(&mut self, event: Option<&Event<'_>>, sink: &mut dyn CanonicalSink) {
        let Some(mut empty) = self.empty_arguments.take() else { return };
        let has_arguments = |event: &&Event<'_>| {
            event.kind == EventType::ToolCallArgs
                && has_same_call(event, &empty)
                && event.get(Field::Delta).is_some_and(|delta| delta.text().is_none_or(|text| !text.trim().is_empty()))
        };
        if event.filter(has_arguments).is_some() {
            let delta = empty.get_or_empty(Field::Delta);
            self.remove_arguments(&empty.get_or_empty(Field::ToolCallId));
            empty.set(Field::Delta, Json::EMPTY_STRING);
            carry::pack(&mut empty, self.peer.dialect.name, vec![(carry::extension_key(REPEATED_NOTE), delta)]);
        }
        sink.emit(empty);
    }

    fn hold_or_pass<'a>(&mut self, event: Event<'a>, canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        if event.kind == EventType::ToolCallStart && has_start_note(&event, self.peer.dialect.name) {
            self.pending_start = Some(event.into_owned());
            return ReleasedEvents::default();
        }
        ReleasedEvents::pass(event, canonical_type)
    }

    /// Writes calls for a run's interrupts before the run ends, with their arguments in both forms of the seed: 用户输入
    /// prints them in the start, and 工具调用事件 has an event for them.
    fn write_finish<'a>(&mut self, mut event: Event<'a>, canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        let mut released = ReleasedEvents::default();
        if let Some(start) = self.pending_start.take() {
            released.push_event(start, None);
        }
        let mut calls = interrupts::write_calls(&mut event, &self.peer);
        for at in 1..calls.len() {
            let args = calls[at]
                .get(Field::Delta)
                .and_then(Json::text)
                .and_then(|text| json::parse_value(&text).map(Json::into_owned));
            if let Some(args) = args {
                carry::pack(
                    &mut calls[at - 1],
                    self.peer.dialect.name,
                    vec![(carry::extension_key(ARGS_MEMBER), args)],
                );
            }
        }
        calls.into_iter().for_each(|call| released.push_event(call, Some("")));
        released.with_event(event, canonical_type)
    }
}

impl DialectAdapter for CloudbaseAdapter {
    fn read(
        &mut self,
        row: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        let dialect = self.peer.dialect.name;
        self.release_empty_arguments(None, sink);
        if row.kind == EventType::RunError {
            nested_error::read_nested(&mut parts, self.peer.dialect);
            sink.emit(parts.into_event(dialect));
            return Ok(());
        }
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        // `null` is not an argument, so it is carried.
        let has_args = find_member(&own, ARGS_MEMBER).is_some_and(|args| !args.is_null());
        let args = if has_args { carry::take(&mut own, ARGS_MEMBER).map(Json::into_owned) } else { None };
        let Some(args) = args else {
            carry::pack(&mut event, dialect, own);
            sink.emit(event);
            return Ok(());
        };
        carry::add_note(&mut own, ARGS_IN_START);
        let call = event.get_or_empty(Field::ToolCallId);
        self.add_arguments(&call, &args);
        let is_empty = without_whitespace(&argument_text(&args)) == "{}";
        carry::pack(&mut event, dialect, own);
        sink.emit(event);
        let mut more = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, call);
        let mut extensions_of_args: Members<'_> =
            vec![(carry::extension_key(ARGS_IN_START), Json::from_trusted("true"))];
        let delta = match args.json_type() {
            JsonType::String => args,
            _ => {
                carry::note_json(&mut extensions_of_args, Field::Delta);
                Json::string(args.as_str())
            }
        };
        more.set(Field::Delta, delta);
        carry::pack(&mut more, dialect, extensions_of_args);
        if is_empty {
            self.empty_arguments = Some(more);
        } else {
            sink.emit(more);
        }
        Ok(())
    }

    /// Empties arguments that the start of their call had already: the client would join both to a text that is no
    /// JSON.
    fn read_other(&mut self, event: &mut Event<'_>, sink: &mut dyn CanonicalSink) {
        read_args_member(event, self.peer.dialect.name);
        self.release_empty_arguments(Some(event), sink);
        if self.start_arguments.is_empty() {
            return;
        }
        let Some(call) = event.get(Field::ToolCallId).cloned().map(Json::into_owned) else { return };
        match event.kind {
            EventType::ToolCallEnd | EventType::ToolCallResult => self.remove_arguments(&call),
            EventType::ToolCallArgs => {
                let Some(arguments) = self.start_arguments.get_mut(&call) else { return };
                let delta = event.get_or_empty(Field::Delta);
                let text = argument_text(&delta);
                if arguments.repeats(&text) {
                    let mut own = Members::new();
                    if delta.json_type() != JsonType::String {
                        carry::note_json(&mut own, Field::Delta);
                    }
                    own.push((carry::extension_key(REPEATED_NOTE), Json::string(&text)));
                    event.set(Field::Delta, Json::EMPTY_STRING);
                    carry::pack(event, self.peer.dialect.name, own);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, sink: &mut dyn CanonicalSink) {
        self.release_empty_arguments(None, sink);
    }

    fn held_bytes(&self) -> usize {
        self.start_bytes + self.empty_arguments.as_ref().map_or(0, memory_limits::event_cost)
    }

    fn buffer<'a>(&mut self, mut event: Event<'a>, canonical_type: Option<&'static str>, _: i64) -> ReleasedEvents<'a> {
        let dialect = self.peer.dialect.name;
        if event.kind == EventType::ToolCallArgs
            && let Some(delta) = carry::take_carried(&mut event, dialect, REPEATED_NOTE)
        {
            event.set(Field::Delta, delta);
        }
        if event.kind == EventType::RunFinished {
            return self.write_finish(event, canonical_type);
        }
        let Some(mut start) = self.pending_start.take() else { return self.hold_or_pass(event, canonical_type) };
        let fits =
            has_start_note(&event, dialect) && event.kind == EventType::ToolCallArgs && has_same_call(&start, &event);
        if !fits {
            let mut released = ReleasedEvents::pass(start, None);
            self.hold_or_pass(event, canonical_type).into_iter().for_each(|later| released.push(later));
            return released;
        }
        let text = event.remove(Field::Delta).unwrap_or(Json::EMPTY_STRING);
        let metadata = event.remove(Field::Metadata);
        let mut own = metadata.map(|all| carry::unpack(all, dialect, |_| true).0).unwrap_or_default();
        let value = carry::take_json_note(&mut own, Field::Delta)
            .then(|| text.text().and_then(|text| json::parse_value(&text).map(Json::into_owned)));
        let args = value.flatten().unwrap_or_else(|| text.into_owned());
        carry::pack(&mut start, dialect, vec![(carry::extension_key(ARGS_MEMBER), args)]);
        ReleasedEvents::pass(start, None)
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind == EventType::RunError {
            return nested_error::write_nested(outgoing, self.peer.dialect);
        }
        remove_start_note(outgoing);
    }

    fn finish_frame(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind == EventType::ToolCallArgs
            && carry::take(&mut outgoing.extensions, ARGS_NAME_NOTE).is_some()
            && let Some(args) = remove(&mut outgoing.members, Field::Delta)
        {
            outgoing.extensions.push((carry::extension_key(ARGS_MEMBER), args.into_owned()));
        }
    }
}

/// Reads arguments in the member that a start has for them (a guess).
fn read_args_member(event: &mut Event<'_>, dialect: &str) {
    if event.kind != EventType::ToolCallArgs || event.get(Field::Delta).is_some() {
        return;
    }
    let has_args = carry::carried_member(event, dialect, ARGS_MEMBER).is_some_and(|args| !args.is_null());
    if let Some(args) = has_args.then(|| carry::take_carried(event, dialect, ARGS_MEMBER)).flatten() {
        event.set(Field::Delta, args);
        let mut own = Members::new();
        carry::add_note(&mut own, ARGS_NAME_NOTE);
        carry::pack(event, dialect, own);
    }
}

/// Returns arguments as text, which they may be already.
fn argument_text<'j>(args: &'j Json<'_>) -> Cow<'j, str> {
    args.text().unwrap_or_else(|| args.as_str().into())
}

fn has_same_call(one: &Event<'_>, other: &Event<'_>) -> bool {
    one.get(Field::ToolCallId).zip(other.get(Field::ToolCallId)).is_some_and(|(one, other)| one.is_same(other))
}

fn has_start_note(event: &Event<'_>, dialect: &str) -> bool {
    carry::carried_member(event, dialect, ARGS_IN_START).is_some()
}
