//! Merges the arguments of a call that come as several objects (`delta: dict`, seed 000 §4.2), as pieces of one JSON text.
//!
//! ```text
//!   {"a":1}                    ──▶ {"a":1}
//!   {"a":1} {"b":2}            ──▶ {"a":1   ,"b":2}
//!   {"a":1} other event {"b":2} ─▶ {"a":1   other event   ,"b":2   }     (the last piece is added)
//! ```
//! An object is held until the agent's next frame, which shows whether another follows. A member that comes twice has its
//! last value, as in `JSON.parse`. Notes restore the objects.

use super::EventSink;
use super::event_parts::OutgoingEvent;
use super::{carry, memory_limits};
use crate::codec::json;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, MemberKey, find_member, get, set};

/// Names the ends that a piece lacks.
const PIECE_NOTE: &str = "$piece";
const FIRST: &str = "first";
const MIDDLE: &str = "middle";
const LAST: &str = "last";
/// The piece closes an object before the end of its call, which adds it again.
const ADDED: &str = "added";
/// The piece closes an object before the end of the run.
const CLOSING: &str = "closing";

#[derive(Debug, Default)]
pub(super) struct ObjectArguments {
    waiting: Option<Event<'static>>,
    /// calls whose object is not closed; true if it has members
    open: IdMap<bool>,
}

impl ObjectArguments {
    /// Keeps an event with an object until the next frame. Returns other events.
    pub(super) fn hold<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        let is_object = event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::Object);
        if !is_object {
            return Some(event);
        }
        self.waiting = Some(event.into_owned());
        None
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.open.is_empty()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, memory_limits::event_cost)
    }

    /// Emits what must precede an event of the agent. `call` is the call of which it is not an object of arguments.
    pub(super) fn release_before(&mut self, call: Option<&Json<'_>>, dialect: &str, sink: &mut impl EventSink) {
        let ends = |id: Option<&Json<'_>>| id.is_some_and(|id| call.is_some_and(|call| call.is_same(id)));
        if let Some(event) = self.waiting.take() {
            let is_last = ends(event.get(Field::ToolCallId));
            sink.emit(self.next_piece(event, is_last, dialect));
        }
        if let Some(call) = call.filter(|call| self.open.contains(call)) {
            self.close(&call.clone().into_owned(), ADDED, dialect, sink);
        }
    }

    /// Closes all objects.
    pub(super) fn finish(&mut self, dialect: &str, sink: &mut impl EventSink) {
        if let Some(event) = self.waiting.take() {
            sink.emit(self.next_piece(event, true, dialect));
        }
        let calls: Vec<_> = self.open.iter().map(|(id, _)| id.clone()).collect();
        calls.iter().for_each(|call| self.close(call, CLOSING, dialect, sink));
    }

    fn close(&mut self, call: &Json<'static>, piece: &str, dialect: &str, sink: &mut impl EventSink) {
        self.open.remove(call);
        let mut event = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, call.clone());
        event.set(Field::Delta, Json::string("}"));
        note_piece(&mut event, dialect, piece);
        sink.emit(event);
    }

    fn next_piece(&mut self, mut event: Event<'static>, is_last: bool, dialect: &str) -> Event<'static> {
        let id = event.get_or_empty(Field::ToolCallId);
        let object = event.get_or_empty(Field::Delta);
        let inner =
            object.as_str().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().trim();
        let open = self.open.remove(&id);
        let has_members = open.unwrap_or(false) || !inner.is_empty();
        let comma = if open.unwrap_or(false) && !inner.is_empty() { "," } else { "" };
        let (text, piece) = match (open.is_some(), is_last) {
            (false, true) => {
                carry::pack(&mut event, dialect, vec![json_note()]);
                event.set(Field::Delta, Json::string(object.as_str()));
                return event;
            }
            (false, false) => (format!("{{{inner}"), FIRST),
            (true, false) => (format!("{comma}{inner}"), MIDDLE),
            (true, true) => (format!("{comma}{inner}}}"), LAST),
        };
        if !is_last {
            self.open.insert(id, has_members);
        }
        event.set(Field::Delta, Json::string(&text));
        note_piece(&mut event, dialect, piece);
        event
    }
}

fn json_note() -> (MemberKey<'static>, Json<'static>) {
    let mut own = Vec::new();
    carry::note_json(&mut own, Field::Delta);
    own.remove(0)
}

fn note_piece(event: &mut Event<'_>, dialect: &str, piece: &str) {
    carry::pack(event, dialect, vec![(carry::extension_key(PIECE_NOTE), Json::string(piece))]);
}

/// Restores the object of a piece. Returns false for a piece that reading adds again.
pub(super) fn restore(outgoing: &mut OutgoingEvent<'_>) -> bool {
    let Some(piece) = find_member(&outgoing.extensions, PIECE_NOTE) else { return true };
    if piece.is_str(CLOSING) {
        outgoing.canonical_type.get_or_insert(EventType::ToolCallArgs.wire());
        return true;
    }
    let Some(piece) = carry::take(&mut outgoing.extensions, PIECE_NOTE) else { return true };
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
    // Notes come back from clients, so they are checked like other external input.
    if let Some(object) = json::parse_value(&object).map(Json::into_owned) {
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), object);
    }
    true
}
