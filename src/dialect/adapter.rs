//! A dialect's own reading and writing, for events that no shared shape describes.
//!
//! ```text
//!   reading   frame ─▶ parts by the row ─▶ adapter.read ─▶ canonical events
//!   writing   canonical event ─▶ adapter.buffer ─▶ parts by the row ─▶ adapter.write ─▶ frame
//! ```
//! The engine calls [`DialectAdapter::read`] and [`DialectAdapter::write`] for rows of the shape `Own` alone.

use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::table::EventRow;
use crate::event::Event;

/// One direction of one run in a dialect of its own kind: the reader has one, and the writer another one.
pub(crate) trait DialectAdapter: std::fmt::Debug + Send + Sync {
    /// Reads an event of an own shape and emits the canonical events that it is.
    fn read(&mut self, row: &'static EventRow, parts: IncomingEvent<'_>, emit: &mut dyn FnMut(Event<'_>));

    /// Takes note of a canonical event that the engine read.
    fn observe(&mut self, _event: &Event<'_>) {}

    /// Holds an event until others have come, or lets it pass. `canonical_type` is the chunk that the event was unfolded
    /// from, the empty text when it stands for nothing.
    fn buffer<'a>(&mut self, event: Event<'a>, _canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        ReleasedEvents::pass(event)
    }

    /// Completes an outgoing event of an own shape.
    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>);

    /// Returns the bytes that are held for later events.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// The events to write now.
pub(crate) struct ReleasedEvents<'a> {
    /// events that were held, to be written first
    pub(crate) earlier: Vec<Event<'static>>,
    /// the event that came, unless it is held
    pub(crate) current: Option<Event<'a>>,
}

impl<'a> ReleasedEvents<'a> {
    pub(crate) const fn empty() -> Self {
        ReleasedEvents { earlier: Vec::new(), current: None }
    }

    pub(crate) const fn pass(event: Event<'a>) -> Self {
        ReleasedEvents { earlier: Vec::new(), current: Some(event) }
    }

    /// One event that was put together from those that were held.
    pub(crate) fn merged(event: Event<'static>) -> Self {
        ReleasedEvents { earlier: vec![event], current: None }
    }
}
