//! Merges the arguments of a call that come as several objects (`delta: dict`, seed 000 §4.2), as pieces of one JSON
//! text.
//!
//! ```text
//!   {"a":1}                    ──▶ {"a":1}
//!   {"a":1} {"b":2}            ──▶ {"a":1   ,"b":2}
//!   {"a":1} other event {"b":2} ─▶ {"a":1   other event   ,"b":2   }     (the last piece is added)
//! ```
//! An object is held until the agent's next frame, which shows whether another follows. So is text that ends an object,
//! and an object goes on in text that begins another (`{"a":1}` `{"b":` `2}`). A member that comes twice has its last
//! value, as in `JSON.parse`. A snapshot of messages ends an object early: a client may have the call from it, and
//! further text would spoil its arguments. Notes restore the objects and the text. What closes the stream of a
//! `TOOL_CALL_CHUNK` ends its object, which stays text: the dialects have no chunks.

use super::EventSink;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::{carry, memory_limits};
use crate::codec::json;
use crate::dialect::EventRow;
use crate::event::lane::{ChunkStreamKind, ClosedStreams};
use crate::event::{
    Event, EventLoss, EventRepair, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, get, set,
};

/// Stores the text of a piece that was shortened.
const TEXT_NOTE: &str = "$piece_text";
/// Names the ends that a piece lacks, or stores an object that came after a snapshot.
const PIECE_NOTE: &str = "$piece";
const FIRST: &str = "first";
const MIDDLE: &str = "middle";
const LAST: &str = "last";
/// The piece only closes an object, so reading adds it again.
const ADDED: &str = "added";

#[derive(Debug, Default)]
pub(super) struct ObjectArguments {
    waiting: Option<Box<WaitingArguments>>,
    /// calls that have not ended
    open: IdMap<ObjectState>,
    /// the call of the open chunk stream
    chunk_call: Option<Json<'static>>,
}

/// Arguments until the agent's next frame.
#[derive(Debug)]
enum WaitingArguments {
    Object(Event<'static>),
    /// ends an object
    Text(Event<'static>),
}

/// The meaning of an event for the arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArgumentsStep<'e> {
    /// the call's object of arguments ends here
    Ends(&'e Json<'e>),
    /// the call's arguments go on with an object
    AddsObject(&'e Json<'e>),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectState {
    Empty,
    HasMembers,
    /// before a snapshot
    Closed,
}

impl ObjectArguments {
    /// Keeps an event with an object, or with text that ends one, until the next frame. Emits other events.
    pub(super) fn hold(&mut self, mut event: Event<'_>, dialect: &str, sink: &mut impl EventSink) {
        if event.get(Field::Delta).is_none_or(|delta| delta.json_type() != JsonType::Object) {
            self.continue_as_text(&mut event, dialect);
            if event.get(Field::Delta).is_some_and(ends_object) {
                self.waiting = Some(Box::new(WaitingArguments::Text(event.into_owned())));
                return;
            }
            return sink.emit(event);
        }
        if self.open.get(event.get(Field::ToolCallId).unwrap_or(&Json::NULL)) != Some(&ObjectState::Closed) {
            self.waiting = Some(Box::new(WaitingArguments::Object(event.into_owned())));
            return;
        }
        sink.report().count_loss(EventLoss::EventNotShown);
        let object = event.get_or_empty(Field::Delta);
        event.set(Field::Delta, Json::EMPTY_STRING);
        carry::pack(&mut event, dialect, vec![(carry::extension_key(PIECE_NOTE), object)]);
        sink.emit(event);
    }

    /// Removes the start of text that begins an object while its call has one open; the text goes on to the end.
    fn continue_as_text(&mut self, event: &mut Event<'_>, dialect: &str) {
        let Some(delta) = event.get(Field::Delta).filter(|delta| begins_object(delta)) else { return };
        let had_members = match self.open.get(event.get(Field::ToolCallId).unwrap_or(&Json::NULL)) {
            Some(ObjectState::HasMembers) => true,
            Some(ObjectState::Empty) => false,
            Some(ObjectState::Closed) | None => return,
        };
        let original = delta.clone().into_owned();
        let text = original.text().unwrap_or_default();
        let inner = text.trim_start().strip_prefix('{').unwrap_or_default();
        let comma = if had_members && !inner.trim_start().starts_with('}') { "," } else { "" };
        let rest = format!("{comma}{inner}");
        self.open.remove(&event.get_or_empty(Field::ToolCallId));
        note_text(event, dialect, &original);
        event.set(Field::Delta, Json::string(&rest));
    }

    /// Holds a chunk as [`ObjectArguments::hold`] does. A piece of an object names its call.
    pub(super) fn hold_chunk(&mut self, mut event: Event<'_>, dialect: &str, sink: &mut impl EventSink) {
        let call = event.get_owned(Field::ToolCallId).or_else(|| self.chunk_call.clone()).unwrap_or(Json::EMPTY_STRING);
        let is_object = event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::Object);
        if self.chunk_call.as_ref().is_some_and(|open| open.is_same(&call)) {
            self.release_before(step_of_delta(&call, event.get(Field::Delta), is_object), dialect, sink);
        } else {
            self.end_chunks(dialect, sink);
            self.release_before(ArgumentsStep::Other, dialect, sink);
        }
        if is_object {
            sink.report().count_repair(EventRepair::TypeConverted);
        }
        if is_object || self.open.contains(&call) {
            event.set(Field::ToolCallId, call.clone());
        }
        self.chunk_call = Some(call);
        self.hold(event, dialect, sink);
    }

    /// Closes the object of the open chunk stream before an event that closes the stream.
    pub(super) fn end_chunks_before(&mut self, kind: EventType, dialect: &str, sink: &mut impl EventSink) {
        let is_other_chunk = kind != EventType::ToolCallChunk && ChunkStreamKind::from_event(kind).is_some();
        if is_other_chunk || ClosedStreams::by_event(kind) != ClosedStreams::None {
            self.end_chunks(dialect, sink);
        }
    }

    fn end_chunks(&mut self, dialect: &str, sink: &mut impl EventSink) {
        if let Some(call) = self.chunk_call.clone() {
            self.release_before(ArgumentsStep::Ends(&call), dialect, sink);
            self.chunk_call = None;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.open.is_empty() && self.chunk_call.is_none()
    }

    pub(super) fn held_bytes(&self) -> usize {
        match self.waiting.as_deref() {
            Some(WaitingArguments::Object(event) | WaitingArguments::Text(event)) => memory_limits::event_cost(event),
            None => 0,
        }
    }

    /// Emits what must precede an event of the agent.
    pub(super) fn release_before(&mut self, step: ArgumentsStep<'_>, dialect: &str, sink: &mut impl EventSink) {
        match self.waiting.take().map(|waiting| *waiting) {
            Some(WaitingArguments::Object(event)) => {
                let id = event.get(Field::ToolCallId);
                let is_last = matches!(step, ArgumentsStep::Ends(call) if id.is_some_and(|id| call.is_same(id)));
                sink.emit(self.next_piece(event, is_last, dialect));
            }
            Some(WaitingArguments::Text(event)) => {
                let id = event.get_or_empty(Field::ToolCallId);
                match step {
                    ArgumentsStep::AddsObject(call) if call.is_same(&id) => {
                        sink.emit(self.reopen_text(event, id, dialect));
                    }
                    _ => sink.emit(event),
                }
            }
            None => {}
        }
        if let ArgumentsStep::Ends(call) = step
            && self.open.contains(call)
        {
            self.close(&call.clone().into_owned(), dialect, sink);
        }
    }

    /// Removes the last brace of a call's text, since an object follows.
    fn reopen_text(&mut self, mut event: Event<'static>, call: Json<'static>, dialect: &str) -> Event<'static> {
        let original = event.get_or_empty(Field::Delta);
        let text = original.text().unwrap_or_default();
        let shortened = text.trim_end().strip_suffix('}').unwrap_or_default();
        let is_empty = shortened.trim() == "{";
        event.set(Field::Delta, Json::string(shortened));
        note_text(&mut event, dialect, &original);
        self.open.insert(call, if is_empty { ObjectState::Empty } else { ObjectState::HasMembers });
        event
    }

    /// Closes all objects before a snapshot of messages.
    pub(super) fn close_before_snapshot(&mut self, dialect: &str, sink: &mut impl EventSink) {
        match self.waiting.take().map(|waiting| *waiting) {
            Some(WaitingArguments::Object(event)) => {
                let call = event.get_or_empty(Field::ToolCallId);
                sink.emit(self.next_piece(event, true, dialect));
                self.open.insert(call, ObjectState::Closed);
            }
            Some(WaitingArguments::Text(event)) => sink.emit(event),
            None => {}
        }
        let calls: Vec<_> = self.open.iter().map(|(id, _)| id.clone()).collect();
        for call in calls {
            self.close(&call, dialect, sink);
            self.open.insert(call, ObjectState::Closed);
        }
    }

    /// Closes all objects. A run that has succeeded also ends their calls here, since other ends may follow.
    pub(super) fn finish(&mut self, has_succeeded: bool, dialect: &str, sink: &mut impl EventSink) {
        let mut ended = Vec::new();
        match self.waiting.take().map(|waiting| *waiting) {
            Some(WaitingArguments::Object(event)) => {
                ended.push(event.get_or_empty(Field::ToolCallId));
                sink.emit(self.next_piece(event, true, dialect));
            }
            Some(WaitingArguments::Text(event)) => sink.emit(event),
            None => {}
        }
        ended.extend(self.open.iter().map(|(id, _)| id.clone()));
        for call in ended {
            self.close(&call, dialect, sink);
            if has_succeeded {
                sink.report().count_repair(EventRepair::CloserSupplied);
                sink.emit(Event::new(EventType::ToolCallEnd).with(Field::ToolCallId, call));
            }
        }
    }

    fn close(&mut self, call: &Json<'static>, dialect: &str, sink: &mut impl EventSink) {
        if self.open.remove(call).is_none_or(|state| state == ObjectState::Closed) {
            return;
        }
        let is_chunk = self.chunk_call.as_ref().is_some_and(|open| open.is_same(call));
        let kind = if is_chunk { EventType::ToolCallChunk } else { EventType::ToolCallArgs };
        let mut event = Event::new(kind).with(Field::ToolCallId, call.clone());
        event.set(Field::Delta, Json::string("}"));
        note_piece(&mut event, dialect, ADDED);
        sink.emit(event);
    }

    fn next_piece(&mut self, mut event: Event<'static>, is_last: bool, dialect: &str) -> Event<'static> {
        let id = event.get_or_empty(Field::ToolCallId);
        let object = event.get_or_empty(Field::Delta);
        let inner =
            object.as_str().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().trim();
        let open = self.open.remove(&id);
        let had_members = open == Some(ObjectState::HasMembers);
        let has_members = had_members || !inner.is_empty();
        let comma = if had_members && !inner.is_empty() { "," } else { "" };
        let (text, piece) = match (open.is_some(), is_last) {
            (false, true) => {
                pack_note(&mut event, dialect, json_note());
                event.set(Field::Delta, Json::string(object.as_str()));
                return event;
            }
            (false, false) => (format!("{{{inner}"), FIRST),
            (true, false) => (format!("{comma}{inner}"), MIDDLE),
            (true, true) => (format!("{comma}{inner}}}"), LAST),
        };
        if !is_last {
            self.open.insert(id, if has_members { ObjectState::HasMembers } else { ObjectState::Empty });
        }
        event.set(Field::Delta, Json::string(&text));
        note_piece(&mut event, dialect, piece);
        event
    }
}

/// Returns what an event means for the arguments of its call. A result may come before the last arguments.
pub(super) fn arguments_step<'p>(row: &EventRow, parts: &'p IncomingEvent<'_>) -> ArgumentsStep<'p> {
    let Some(call) = parts.event.get(Field::ToolCallId) else { return ArgumentsStep::Other };
    match row.kind {
        EventType::ToolCallEnd => ArgumentsStep::Ends(call),
        EventType::ToolCallArgs => step_of_delta(call, parts.event.get(Field::Delta), is_object(parts)),
        _ => ArgumentsStep::Other,
    }
}

fn step_of_delta<'p>(call: &'p Json<'p>, delta: Option<&Json<'_>>, is_object: bool) -> ArgumentsStep<'p> {
    if is_object {
        return ArgumentsStep::AddsObject(call);
    }
    let may_go_on = is_blank(delta) || delta.is_some_and(begins_object);
    if may_go_on { ArgumentsStep::Other } else { ArgumentsStep::Ends(call) }
}

/// Returns true for a delta that adds nothing to JSON text.
fn is_blank(delta: Option<&Json<'_>>) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    delta.is_none_or(|delta| match delta.json_type() {
        JsonType::Null => true,
        JsonType::String => match delta.unquoted().bytes().find(|byte| !is_space(byte)) {
            // An escape may be a space.
            Some(b'\\') => delta.text().is_some_and(|text| text.bytes().all(|byte| is_space(&byte))),
            first => first.is_none(),
        },
        _ => false,
    })
}

/// Returns true for an event whose delta is an object that came as one.
pub(super) fn is_object(parts: &IncomingEvent<'_>) -> bool {
    let delta = parts.event.get(Field::Delta).filter(|_| !parts.restored_fields.contains(&Field::Delta));
    delta.is_some_and(|delta| delta.json_type() == JsonType::Object)
}

fn json_note() -> Members<'static> {
    let mut own = Members::new();
    carry::note_json(&mut own, Field::Delta);
    own
}

fn note_piece(event: &mut Event<'_>, dialect: &str, piece: &str) {
    pack_note(event, dialect, vec![(carry::extension_key(PIECE_NOTE), Json::string(piece))]);
}

/// Carries a note, unless the event is a chunk, which the dialect lacks.
fn pack_note(event: &mut Event<'_>, dialect: &str, note: Members<'_>) {
    if event.kind == EventType::ToolCallArgs {
        carry::pack(event, dialect, note);
    }
}

/// Notes the text of a piece. A piece that was shortened twice keeps the first note.
fn note_text(event: &mut Event<'_>, dialect: &str, text: &Json<'_>) {
    if carry::carried_member(event, dialect, TEXT_NOTE).is_none() {
        pack_note(event, dialect, vec![(carry::extension_key(TEXT_NOTE), text.clone().into_owned())]);
    }
}

/// Returns true for text that begins an object of arguments.
fn begins_object(delta: &Json<'_>) -> bool {
    delta.json_type() == JsonType::String && delta.text().is_some_and(|text| text.trim_start().starts_with('{'))
}

fn ends_object(delta: &Json<'_>) -> bool {
    delta.json_type() == JsonType::String && delta.text().is_some_and(|text| text.trim_end().ends_with('}'))
}

/// Restores the object or the text of a piece. Returns false for a piece that reading adds again.
pub(super) fn restore(outgoing: &mut OutgoingEvent<'_>) -> bool {
    // Notes come back from clients, so they are checked like other external input.
    if let Some(text) = carry::take(&mut outgoing.extensions, TEXT_NOTE) {
        if text.json_type() == JsonType::String {
            set(&mut outgoing.members, MemberKey::Known(Field::Delta), text);
        }
        return true;
    }
    let Some(piece) = carry::take(&mut outgoing.extensions, PIECE_NOTE) else { return true };
    if piece.json_type() == JsonType::Object {
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), piece);
        return true;
    }
    let text = get(&outgoing.members, Field::Delta).and_then(Json::text).unwrap_or_default();
    let inner = text.strip_prefix(',').unwrap_or(&text);
    let object = if piece.is_str(FIRST) {
        format!("{inner}}}")
    } else if piece.is_str(MIDDLE) {
        format!("{{{inner}}}")
    } else if piece.is_str(LAST) {
        format!("{{{inner}")
    } else {
        return text != "}";
    };
    if let Some(object) = json::parse_value(&object).map(Json::into_owned) {
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), object);
    }
    true
}
