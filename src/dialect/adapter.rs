//! The interface for a dialect's own code, which handles events that no shared shape describes.
//!
//! ```text
//!   reading   frame ─▶ parts by the row ─▶ adapter.read, or adapter.restore if the event carries its type ─▶ canonical events
//!   writing   canonical event ─▶ adapter.buffer ─▶ parts by the row ─▶ adapter.write ─▶ frame
//! ```
//! The engine calls [`DialectAdapter::read`] and [`DialectAdapter::write`] only for rows with the shape `Own`.

use super::earlier_messages::EarlierMessages;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::row::EventRow;
use crate::event::{Event, EventLoss, EventRepair, EventType, Json, Members};

/// Translates one direction of one run: the reader and the writer have separate instances, or types.
pub(crate) trait DialectAdapter: std::fmt::Debug + Send + Sync {
    /// Reads an event that exists only in this dialect.
    ///
    /// # Errors
    ///
    /// Fails if the members do not have the expected form; the caller then carries the whole event.
    fn read(
        &mut self,
        _row: &'static EventRow,
        _parts: IncomingEvent<'_>,
        _sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        Err(UnreadableEvent)
    }

    /// Sets the run's id, as in the request.
    fn set_run_id(&mut self, _run_id: &Json<'static>) {}

    /// Returns true if [`DialectAdapter::read`] would fail.
    fn is_unreadable(&self, _row: &'static EventRow, _members: &Members<'_>) -> bool {
        false
    }

    /// Prepares an event that the engine reads itself: emits what must precede it, or adds what it must carry.
    fn read_other(&mut self, _event: &mut Event<'_>, _sink: &mut dyn CanonicalSink) {}

    /// Prepares an event that the agent sends under a name of AG-UI that its dialect lacks.
    fn read_ag_ui_name(&mut self, _event: &mut Event<'_>, _sink: &mut dyn CanonicalSink) {}

    /// Emits the starts that the writer of the next event had already sent.
    fn read_sent_starts(&mut self, _sink: &mut dyn CanonicalSink) {}

    /// Emits pending events before the run ends.
    fn finish(&mut self, _sink: &mut dyn CanonicalSink) {}

    /// Restores the canonical event whose type the incoming event carries.
    fn restore<'a>(
        &mut self,
        _row: &'static EventRow,
        kind: EventType,
        parts: IncomingEvent<'a>,
        dialect: &str,
    ) -> Event<'a> {
        parts.into_canonical_event(kind, dialect)
    }

    /// Takes the text that a delta adds to its message; empty if an earlier frame carried it. `None` for a string.
    fn take_added_text<'a>(&mut self, _delta: &'a Json<'_>) -> Option<Json<'a>> {
        None
    }

    /// Records what the client has from before the run. Only for a client that does not go on with messages that start
    /// again.
    fn record_earlier(&mut self, _earlier: EarlierMessages) {}

    fn observe(&mut self, _event: &Event<'_>) {}

    /// Takes from an event what an event before it could not carry.
    fn release_before<'a>(&mut self, _event: &mut Event<'a>) -> ReleasedEvents<'a> {
        ReleasedEvents::default()
    }

    /// Buffers, passes on or replaces an event. `canonical_type` is the type of the original chunk, or empty for an
    /// event that the gateway added; `now_ms` is in milliseconds since the epoch.
    fn buffer<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        _now_ms: i64,
    ) -> ReleasedEvents<'a> {
        ReleasedEvents::pass(event, canonical_type)
    }

    /// Completes an event that exists only in this dialect.
    fn write(&mut self, _row: &'static EventRow, _outgoing: &mut OutgoingEvent<'_>) {}

    /// Adds to each frame what it must carry because of the one before.
    fn finish_frame(&mut self, _row: &'static EventRow, _outgoing: &mut OutgoingEvent<'_>) {}

    /// Returns true if the next frame must carry something, so that it may not be written as it was received.
    fn must_finish_frame(&self) -> bool {
        false
    }

    /// Adjusts an event that the engine writes itself.
    fn write_shared(&mut self, _row: &'static EventRow, _outgoing: &mut OutgoingEvent<'_>) {}

    /// Returns what the client does not show after a list of messages, the end of a call, or the end of a run that
    /// failed.
    fn take_losses(&mut self) -> Vec<EventLoss> {
        Vec::new()
    }

    /// Returns true if frames have something computed from the time of events of this type.
    fn measures_time(&self, _kind: EventType) -> bool {
        false
    }

    /// Returns the bytes of pending events that become part of what is sent.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Returns the bytes of notes about pending events, which do not count against the frame limit.
    fn bookkeeping_bytes(&self) -> usize {
        0
    }
}

/// Receives the canonical events that an adapter reads, and counts repairs and losses.
pub(crate) trait CanonicalSink {
    fn emit(&mut self, event: Event<'_>);
    fn count_repair(&mut self, repair: EventRepair);
    /// Counts a repair of input that the dialect permits but AG-UI does not.
    fn count_allowed_repair(&mut self, repair: EventRepair);
    fn count_loss(&mut self, loss: EventLoss);
}

/// The error for an event that does not match its row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableEvent;

/// Events to write now, in order.
#[derive(Debug, Default)]
pub(crate) struct ReleasedEvents<'a> {
    first: Option<ReleasedEvent<'a>>,
    rest: Vec<ReleasedEvent<'a>>,
}

#[derive(Debug)]
pub(crate) enum ReleasedEvent<'a> {
    /// written according to the row for its kind
    ByRow { event: Event<'a>, canonical_type: Option<&'static str> },
    /// already complete
    Complete { row: &'static EventRow, outgoing: OutgoingEvent<'a> },
    /// wrapped as CUSTOM
    AsCustom(Event<'a>),
    /// wrapped as CUSTOM, and has no effect on what any client shows
    AsCustomNoOp(Event<'a>),
}

impl<'a> ReleasedEvents<'a> {
    pub(crate) fn pass(event: Event<'a>, canonical_type: Option<&'static str>) -> Self {
        ReleasedEvents::default().with_event(event, canonical_type)
    }

    pub(crate) fn with_event(mut self, event: Event<'a>, canonical_type: Option<&'static str>) -> Self {
        self.push_event(event, canonical_type);
        self
    }

    pub(crate) fn with_all(mut self, later: ReleasedEvents<'a>) -> Self {
        later.into_iter().for_each(|released| self.push(released));
        self
    }

    pub(crate) fn push_event(&mut self, event: Event<'a>, canonical_type: Option<&'static str>) {
        self.push(ReleasedEvent::ByRow { event, canonical_type });
    }

    pub(crate) fn push(&mut self, released: ReleasedEvent<'a>) {
        match self.first {
            None => self.first = Some(released),
            Some(_) => self.rest.push(released),
        }
    }
}

impl<'a> From<ReleasedEvent<'a>> for ReleasedEvents<'a> {
    fn from(released: ReleasedEvent<'a>) -> Self {
        ReleasedEvents { first: Some(released), rest: Vec::new() }
    }
}

impl<'a> IntoIterator for ReleasedEvents<'a> {
    type Item = ReleasedEvent<'a>;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Self::Item>, std::vec::IntoIter<Self::Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<'a> FromIterator<ReleasedEvent<'a>> for ReleasedEvents<'a> {
    fn from_iter<I: IntoIterator<Item = ReleasedEvent<'a>>>(events: I) -> Self {
        let mut events = events.into_iter();
        ReleasedEvents { first: events.next(), rest: events.collect() }
    }
}
