//! Turns a canonical event into a frame of the client's dialect.
//!
//! ```text
//!   event ─▶ chunk unfolded ─▶ the dialect's adapter, which may buffer or replace it ─▶ rows ─▶ frames
//! ```

mod frames;
mod rows;

use super::RunIds;
use super::aliases::RunStamps;
use super::budget::{OutputBudget, OutputGrowth};
use super::chunk::ChunkUnfolder;
use super::chunk_names::ChunkNames;
use super::not_shown;
use super::report::TranslationReport;
use super::stream_error::{RunStateLimit, StreamError};
use crate::codec::{Framing, sse};
use crate::dialect::{
    DialectAdapter, EarlierMessages, EventRow, EventShape, PeerDialect, ReleasedEvent, TextFormat, interrupts,
};
use crate::event::lane::ChunkStreamKind;
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, PROTOCOL_VERSION};

/// Maximum length of a frame as a multiple of the longest that an agent may send: text that is escaped once more takes
/// twice its length, and may be carried beside that as it was.
const MAX_GROWTH: usize = 3;

#[derive(Debug)]
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct EventWriter {
    pub(crate) growth: OutputGrowth,
    pub(crate) budget: OutputBudget,
    /// only on a route whose clients may reconnect
    pub(crate) frame_ids: Option<Box<FrameIds>>,
    pub(crate) frames_written: u64,
    /// label of the row of the last frame that was translated in full
    pub(crate) last_label: usize,
    pub(super) peer: PeerDialect,
    /// label of each event type's row, unless the peer is canonical; compact, because there are many streams
    labels: Box<[Option<u16>]>,
    chunk_names: ChunkNames,
    chunk_unfolder: ChunkUnfolder,
    adapter: Option<Box<dyn DialectAdapter>>,
    run_stamps: RunStamps,
    pub(crate) framing: Framing,
    /// maximum length of all that one frame of the agent becomes
    frame_limit: usize,
}

#[derive(Debug)]
pub(super) struct FrameIds {
    /// unique to the run
    pub(crate) token: Box<str>,
    pub(crate) last_number: u64,
}

pub(super) struct OutputContext<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    /// length of the output before the agent's frame
    pub(crate) frame_start: usize,
    pub(crate) report: &'o mut TranslationReport,
    /// ms since the epoch
    pub(crate) now_ms: i64,
    /// whether the event is the gateway's final error, which the budget does not limit
    pub(crate) is_final_error: bool,
}

const fn frames_thinking(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ReasoningStart
            | EventType::ReasoningMessageStart
            | EventType::ReasoningMessageEnd
            | EventType::ReasoningEnd
    )
}

fn row_label(side: PeerDialect, kind: EventType) -> Option<u16> {
    let (label, _) = side.dialect.row_for_kind(kind, side.peer_version)?;
    u16::try_from(label).ok()
}

impl EventWriter {
    /// Creates a writer; `ids` are those known before the start event, and `read_limit` is that of a frame from the
    /// agent.
    pub(crate) fn new(peer: PeerDialect, ids: Option<&RunIds>, read_limit: usize) -> Self {
        let frame_limit = MAX_GROWTH.saturating_mul(read_limit);
        let kinds_with_row = if peer.dialect.is_canonical() { &[] } else { EventType::ALL };
        EventWriter {
            peer,
            labels: kinds_with_row.iter().map(|kind| row_label(peer, *kind)).collect(),
            chunk_names: ChunkNames::default(),
            chunk_unfolder: ChunkUnfolder::default(),
            adapter: peer.new_write_adapter(),
            run_stamps: RunStamps::from_ids(peer.dialect, ids),
            framing: Framing::Sse,
            budget: OutputBudget::default(),
            growth: OutputGrowth::new(frame_limit),
            frame_ids: None,
            frames_written: 0,
            frame_limit,
            last_label: 0,
        }
    }

    /// Records what the client has from before the run.
    pub(crate) fn record_earlier(&mut self, earlier: EarlierMessages) {
        if let Some(adapter) = &mut self.adapter {
            adapter.record_earlier(earlier);
        }
    }

    /// Returns how many bytes are held in pending events and in state for calls without a result.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.adapter.as_ref().map_or(0, |adapter| adapter.held_bytes())
    }

    /// Returns true if the peer's frames have something computed from the time of events of this type.
    pub(crate) fn measures_time(&self, kind: EventType) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| adapter.measures_time(kind))
    }

    /// Returns a frame without the line of its id.
    pub(crate) fn without_frame_id<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        let end = memchr::memchr(b'\n', frame).filter(|_| self.frame_ids.is_some());
        &frame[end.map_or(0, |end| end + 1)..]
    }

    pub(crate) fn bookkeeping_bytes(&self) -> usize {
        self.adapter.as_ref().map_or(0, |adapter| adapter.bookkeeping_bytes())
    }

    pub(crate) fn write_event(&mut self, mut event: Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        if self.peer.dialect.is_canonical() {
            return self.write_canonical(event, to);
        }
        if self.peer.interrupt_form().is_some() && interrupts::prefix_reserved_ids(&mut event) {
            to.report.count_repair(EventRepair::IdNamespaced);
        }
        let is_completed = self.complete_chunk(&mut event);
        if let Some((closer, mark)) = self.chunk_unfolder.close_before(&event, self.peer.dialect) {
            self.write_mapped(closer, mark, to)?;
        }
        if !self.must_unfold(event.kind) {
            let canonical_type = is_completed.then_some(event.kind.wire());
            return self.write_mapped(event, canonical_type, to);
        }
        let (opener, (event, mark)) = self.chunk_unfolder.unfold(event, self.peer.dialect);
        if let Some((opener, mark)) = opener {
            self.write_mapped(opener, mark, to)?;
        }
        self.write_mapped(event, mark, to)
    }

    fn write_mapped(
        &mut self,
        mut event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        if event.get(Field::Metadata).is_some() {
            let before = self.adapter.as_mut().map(|adapter| adapter.release_before(&mut event));
            before.into_iter().flatten().try_for_each(|released| self.write_released(released, to))?;
        }
        if let Some((wire, value)) = self.unwrap_custom(&event) {
            self.count_not_shown(&event, to.report);
            let before = to.out.len();
            self.write_data(to.out, &wire, value);
            return self.commit_frame(self.label_of(&wire), event.kind, before, to);
        }
        // Each hop declares its own protocol version.
        if event.kind == EventType::RunStarted && !self.peer.dialect.carries_protocol_version {
            event.remove(Field::ProtocolVersion);
        }
        if event.kind == EventType::RunFinished && !self.peer.shows_interrupts() {
            let interrupts = event.get(Field::Outcome).map_or(0, not_shown::count_interrupts);
            to.report.count_loss_times(EventLoss::InterruptNotShown, interrupts);
        }
        let Some(adapter) = &mut self.adapter else { return self.write_by_row(event, canonical_type, to) };
        let own_type = canonical_type;
        let may_lose = matches!(event.kind, EventType::MessagesSnapshot | EventType::ToolCallEnd | EventType::RunError);
        let events = adapter.buffer(event, canonical_type, to.now_ms);
        if may_lose {
            adapter.take_losses().into_iter().for_each(|loss| to.report.count_loss(loss));
        }
        for released in events {
            if let ReleasedEvent::ByRow { event, canonical_type: Some("") } = &released
                && frames_thinking(event.kind)
                && own_type != Some("")
            {
                to.report.count_allowed_repair(EventRepair::ThinkingFramed);
            }
            self.write_released(released, to)?;
        }
        Ok(())
    }

    fn write_released(&mut self, released: ReleasedEvent<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        match released {
            ReleasedEvent::ByRow { event, canonical_type } => self.write_by_row(event, canonical_type, to),
            ReleasedEvent::Complete { row, outgoing } => {
                self.write_outgoing(self.label_of(row.wire), row, outgoing, to)
            }
            ReleasedEvent::AsCustom(event) => self.write_as_custom(event, to),
            ReleasedEvent::AsCustomNoOp(event) => self.wrap_in_custom(&event, to),
        }
    }

    /// Counts an event that the peer gets and does not show.
    pub(super) fn count_not_shown(&self, event: &Event<'_>, report: &mut TranslationReport) {
        let loss = match event.kind {
            EventType::Custom => not_shown::is_wrapped_frame(event, report.agent).then_some(EventLoss::EventNotShown),
            // Other clients get such a message in another form.
            EventType::MessagesSnapshot if self.peer.dialect.is_canonical() => {
                let count = event.get(Field::Messages).map_or(0, not_shown::count_foreign_roles);
                return report.count_loss_times(EventLoss::TextNotShown, count);
            }
            _ => not_shown::loss_of_event(event).filter(|loss| self.peer.hides(*loss)),
        };
        loss.into_iter().for_each(|loss| report.count_loss(loss));
    }

    /// Adds what the peer needs to find the stream of a chunk, if it has one lane. Returns `true` if anything was
    /// added.
    fn complete_chunk(&mut self, event: &mut Event<'_>) -> bool {
        let is_versioned = self.peer.dialect.is_versioned();
        match ChunkStreamKind::from_event(event.kind) {
            Some(piece) => (is_versioned || self.must_unfold(event.kind)) && self.chunk_names.complete(event, piece),
            None => {
                let is_custom = || self.row_of(event.kind).is_none_or(|(_, row)| row.shape == EventShape::Unsupported);
                let ends_chunks = is_versioned && is_custom();
                self.chunk_names.observe(event, ends_chunks);
                false
            }
        }
    }

    /// Returns true if a chunk must become start, content and end.
    fn must_unfold(&self, kind: EventType) -> bool {
        match self.row_of(kind) {
            Some((_, row)) => row.shape == EventShape::ExpandedChunk,
            // If text is written as strings, a chunk has no thinking block to unfold to.
            None => kind != EventType::ReasoningMessageChunk || self.peer.text_format != TextFormat::String,
        }
    }

    pub(super) fn row_of(&self, kind: EventType) -> Option<(usize, &'static EventRow)> {
        let label = usize::from((*self.labels.get(kind as usize)?)?);
        Some((label, self.peer.dialect.row_at_label(label, kind)))
    }

    fn write_canonical(&mut self, mut event: Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        self.count_not_shown(&event, to.report);
        let before = to.out.len();
        let label = self.peer.dialect.label_index(event.kind);
        // "a proxy that forwards a run untranslated declares what the original producer spoke, and one that translates
        // declares what it emits" [spec versioning]
        if event.kind == EventType::RunStarted && to.report.agent != to.report.client {
            event.set(Field::ProtocolVersion, Json::string(PROTOCOL_VERSION));
        }
        match event.source {
            _ if self.framing == Framing::Proto => Self::write_protobuf(&event, to)?,
            Some(source) => {
                self.write_frame_id(to.out);
                sse::write_frame(to.out, source);
            }
            None => self.write_frame(to.out, event.kind.wire(), |object| {
                event.members.iter().for_each(|member| object.copy_member(member, false));
            }),
        }
        self.commit_frame(label, event.kind, before, to)
    }
}
