//! Buffered events as a JSON array, written as they arrive: the note that restores them, and smaller than the events.

use crate::codec::json;
use crate::dialect::event_shapes::event_to_value;
use crate::event::{Event, Json};

#[derive(Debug, Default)]
pub(super) struct EventList {
    elements: String,
}

impl EventList {
    pub(super) fn push(&mut self, event: &Event<'_>) {
        if !self.elements.is_empty() {
            self.elements.push(',');
        }
        self.elements.push_str(event_to_value(event).as_str());
    }

    pub(super) fn byte_size(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn into_json(self) -> Json<'static> {
        json::to_array(&[Json::from_trusted(self.elements)])
    }
}
