//! The boundaries that have no event of their own, which the next event carries.

use super::BlockReader;
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::hai::blocks::BEFORE;
use crate::dialect::hai::open_message::StartState;
use crate::dialect::memory_limits;
use crate::event::{Event, EventType, Field, Json};

impl BlockReader {
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.whole_text.len() + self.cut.as_ref().map_or(0, |cut| cut.held_bytes())
    }

    pub(super) fn push_pending(&mut self, boundary: Event<'static>) {
        self.held_bytes += memory_limits::event_cost(&boundary);
        self.pending.push(boundary);
    }

    /// Returns the start of a message if nothing is pending after it.
    pub(super) fn take_last_start(&mut self, id: &Json<'_>) -> Option<Event<'static>> {
        let is_start = |event: &mut Event<'static>| {
            event.kind == EventType::TextMessageStart && event.get(Field::MessageId).is_some_and(|own| own.is_same(id))
        };
        let start = self.pending.pop_if(is_start)?;
        self.held_bytes = self.held_bytes.saturating_sub(memory_limits::event_cost(&start));
        Some(start)
    }

    /// Returns the note with the pending boundaries, if there are any.
    pub(super) fn carry_pending(&mut self) -> Option<Json<'static>> {
        if self.pending.is_empty() {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        let list: Vec<_> =
            pending.iter().map(|event| json::to_event_object(event.kind.wire(), &event.members)).collect();
        for boundary in pending {
            let message = self.open_messages.get_mut(boundary.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING));
            match message.filter(|_| boundary.kind == EventType::TextMessageStart) {
                Some(message) => message.start = StartState::Carried(boundary),
                None => self.held_bytes = self.held_bytes.saturating_sub(memory_limits::event_cost(&boundary)),
            }
        }
        Some(json::to_array(&list))
    }

    pub(super) fn carry_pending_with(&mut self, event: &mut Event<'_>, dialect: &str) {
        if let Some(note) = self.carry_pending() {
            carry::pack(event, dialect, vec![(carry::extension_key(BEFORE), note)]);
        }
    }
}
