//! The adapter of `ag-ui-0`.
//!
//! ```text
//!   reading   thinking gets ids; an empty piece of text comes back from RAW
//!   writing   event ─▶ sequencer (0.0.35) ─▶ span wrapper ─▶ as CUSTOM or RAW where unsupported
//!                                                        └─▶ reopened ids ─▶ as it is, or with another id
//! ```

use super::downgrade;
use super::reopened_ids::ReopenedIds;
use super::sequencer::{EventSequencer, SequencerOutput};
use super::span_wrapper::{AddedEvents, SpanWrapper, THINKING_WITHOUT_IDS};
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, ReleasedEvent, ReleasedEvents, UnreadableEvent};
use crate::dialect::carry::CANONICAL_PREFIX;
use crate::dialect::earlier_messages::EarlierMessages;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{event_to_value, restore_chunk};
use crate::dialect::interrupts;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::reasoning_ids::{NamelessThinking, ReasoningIds};
use crate::dialect::row::{EventRow, EventShape};
use crate::dialect::table::PeerDialect;
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json};

#[derive(Debug)]
pub(super) struct AgUi0Adapter {
    peer: PeerDialect,
    reasoning_ids: ReasoningIds,
    sequencer: EventSequencer,
    span_wrapper: SpanWrapper,
    reopened_ids: ReopenedIds,
    nameless_thinking: NamelessThinking,
    /// number of calls whose end did not come before the run failed
    cut_calls: usize,
}

impl AgUi0Adapter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        Box::new(AgUi0Adapter {
            peer,
            reasoning_ids: ReasoningIds::default(),
            sequencer: EventSequencer::default(),
            span_wrapper: SpanWrapper::default(),
            reopened_ids: ReopenedIds::new(peer.peer_version),
            nameless_thinking: NamelessThinking::default(),
            cut_calls: 0,
        })
    }

    /// Adds the events that thinking without ids needs around `event`.
    fn release_in_span<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        released: &mut ReleasedEvents<'a>,
    ) {
        let Some(AddedEvents { before, after }) = self.span_wrapper.wrap(&event, self.peer) else {
            return self.release_unsupported(event, canonical_type, released);
        };
        before.into_iter().for_each(|added| self.release(added, Some(""), released));
        self.release(event, canonical_type, released);
        if let Some(added) = after {
            self.release(added, Some(""), released);
        }
    }

    fn release<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        released: &mut ReleasedEvents<'a>,
    ) {
        let row = self.peer.dialect.row_for_kind(event.kind, self.peer.peer_version).map(|(_, row)| row);
        if row.is_some_and(|row| downgrade::is_unsupported(self.peer.peer_version, row.shape, &event)) {
            self.release_unsupported(event, canonical_type, released);
        } else {
            self.reopened_ids.release(event, canonical_type, released);
        }
    }

    /// Wraps an event as RAW or CUSTOM, or drops it if it has no canonical counterpart.
    fn release_unsupported<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        released: &mut ReleasedEvents<'a>,
    ) {
        match canonical_type {
            Some("") => {}
            None if downgrade::is_empty_content(&event) => {
                let source = Json::string(&format!("{CANONICAL_PREFIX}{}", event.kind.wire()));
                let raw = Event::new(EventType::Raw).with(Field::Event, event_to_value(&event));
                self.reopened_ids.release(raw.with(Field::Source, source), None, released);
            }
            _ => self.release_custom(restore_chunk(event, canonical_type), released),
        }
    }

    fn release_custom<'a>(&mut self, event: Event<'a>, released: &mut ReleasedEvents<'a>) {
        self.reopened_ids.release_pending(released);
        released.push(ReleasedEvent::AsCustom(event));
    }
}

impl DialectAdapter for AgUi0Adapter {
    fn read(
        &mut self,
        row: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        self.reasoning_ids.observe(&parts.event);
        if row.kind == EventType::Raw
            && let Some(event) = downgrade::unwrap_raw(&parts.event)
        {
            sink.emit(event);
            return Ok(());
        }
        if row.shape == EventShape::Own(&THINKING_WITHOUT_IDS) {
            if downgrade::repair_title(&mut parts.extensions) {
                sink.count_repair(EventRepair::TypeConverted);
            }
            self.reasoning_ids.assign_ids(&mut parts);
        }
        sink.emit(parts.into_event(self.peer.dialect.name));
        Ok(())
    }

    fn record_earlier(&mut self, earlier: EarlierMessages) {
        self.reopened_ids.record_earlier(earlier);
    }

    fn set_run_id(&mut self, run_id: &Json<'static>) {
        self.reasoning_ids.set_run_id(run_id);
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.reasoning_ids.observe(event);
    }

    fn take_losses(&mut self) -> Vec<EventLoss> {
        vec![EventLoss::EventNotShown; std::mem::take(&mut self.cut_calls) + self.sequencer.take_late_pieces()]
    }

    fn buffer<'a>(&mut self, mut event: Event<'a>, canonical_type: Option<&'static str>, _: i64) -> ReleasedEvents<'a> {
        let mut released = ReleasedEvents::default();
        if event.kind == EventType::RunFinished {
            let calls = interrupts::write_calls(&mut event, &self.peer);
            calls.into_iter().for_each(|call| self.release(call, Some(""), &mut released));
        }
        match self.peer.peer_version {
            PeerVersion::V0_1 | PeerVersion::V0_0_35 => {
                let mut sequenced = Vec::new();
                let is_failure = event.kind == EventType::RunError;
                self.sequencer.push(event, &mut sequenced);
                for output in sequenced {
                    match output {
                        SequencerOutput::AsIs(event) => self.release_in_span(event, canonical_type, &mut released),
                        SequencerOutput::Synthetic(event) => self.release(event, Some(""), &mut released),
                        SequencerOutput::AsCustom(event) => self.release_custom(event, &mut released),
                    }
                }
                if is_failure {
                    self.cut_calls += self.sequencer.drop_pending_calls();
                }
            }
            PeerVersion::Any | PeerVersion::V0_0_39 | PeerVersion::V0_0_42 => {
                self.release_in_span(event, canonical_type, &mut released);
            }
            PeerVersion::V0_0_45
            | PeerVersion::V0_0_47
            | PeerVersion::V0_0_53
            | PeerVersion::V0_0_57
            | PeerVersion::V0_0_59 => self.release(event, canonical_type, &mut released),
        }
        released
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        match row.kind {
            EventType::RunFinished => downgrade::downgrade_outcome(outgoing),
            _ if row.shape == EventShape::Own(&THINKING_WITHOUT_IDS) => {
                if row.kind == EventType::ReasoningStart {
                    downgrade::repair_title(&mut outgoing.extensions);
                }
                self.nameless_thinking.remove_generated_ids(row.kind, outgoing);
            }
            _ => {}
        }
    }

    fn write_shared(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind == EventType::SubagentFinished {
            downgrade::downgrade_subagent(outgoing);
        }
    }

    fn held_bytes(&self) -> usize {
        self.sequencer.buffered_bytes()
    }

    fn bookkeeping_bytes(&self) -> usize {
        self.reopened_ids.retained_bytes()
    }
}
