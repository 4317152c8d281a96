//! The interface of a dialect's own code, for events that no shared shape describes.
//!
//! ```text
//!   reading   frame ─▶ parts by the row ─▶ adapter.read ─▶ canonical events
//!   writing   canonical event ─▶ adapter.buffer ─▶ parts by the row ─▶ adapter.write ─▶ frame
//! ```
//! The engine calls [`DialectAdapter::read`] and [`DialectAdapter::write`] for rows of the shape `Own` only.

use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::row::EventRow;
use crate::event::Event;

/// Translates one direction of one run: reader and writer have separate instances.
pub(crate) trait DialectAdapter: std::fmt::Debug + Send + Sync {
    fn read(&mut self, row: &'static EventRow, parts: IncomingEvent<'_>, emit: &mut dyn FnMut(Event<'_>));

    /// Records a canonical event that the engine read.
    fn observe(&mut self, _event: &Event<'_>) {}

    /// Buffers an event until later ones arrive, or passes it through. `canonical_type` is the chunk that the event was
    /// expanded from, empty for an event that the gateway added.
    fn buffer<'a>(&mut self, event: Event<'a>, _canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        ReleasedEvents::pass(event)
    }

    /// Completes an outgoing event of an own shape.
    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>);

    fn held_bytes(&self) -> usize {
        0
    }
}

#[derive(Default)]
pub(crate) struct ReleasedEvents<'a> {
    /// buffered events, to be written first
    pub(crate) earlier: Vec<Event<'static>>,
    pub(crate) current: Option<Event<'a>>,
}

impl<'a> ReleasedEvents<'a> {
    pub(crate) const fn pass(event: Event<'a>) -> Self {
        ReleasedEvents { earlier: Vec::new(), current: Some(event) }
    }

    /// Returns one event that was merged from buffered ones.
    pub(crate) fn merged(event: Event<'static>) -> Self {
        ReleasedEvents { earlier: vec![event], current: None }
    }
}
