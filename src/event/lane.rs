//! Chunk streams: `*_CHUNK` events open messages and calls without a start, and close them without an end.
//!
//! A lane belongs to the agent itself or to one subagent, and has at most one chunk stream. A chunk with another id or
//! kind closes it, and so does any other content event in the lane (`specs/ag-ui-1.0.md` §3.2 "Chunks"). The lanes here
//! serve repair and are bounded; `translate/verify/chunks.rs` has its own, because it must reject what repair
//! continues.

use super::run::RunItem;
use super::{Event, EventType, Field, Json, heap_size, optional_size};
use std::sync::Arc;

/// Maximum number of lanes; beyond it, the least recently used one is dropped. Chunks that name their message can still
/// continue.
const LANES_LIMIT: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChunkStreamKind {
    Text,
    Reasoning,
    ToolCall,
}

impl ChunkStreamKind {
    pub(crate) const ALL: [ChunkStreamKind; 3] =
        [ChunkStreamKind::Text, ChunkStreamKind::Reasoning, ChunkStreamKind::ToolCall];

    #[must_use]
    pub(crate) const fn from_event(kind: EventType) -> Option<ChunkStreamKind> {
        match kind {
            EventType::TextMessageChunk => Some(ChunkStreamKind::Text),
            EventType::ReasoningMessageChunk => Some(ChunkStreamKind::Reasoning),
            EventType::ToolCallChunk => Some(ChunkStreamKind::ToolCall),
            _ => None,
        }
    }

    #[must_use]
    pub(crate) const fn id_field(self) -> Field {
        match self {
            ChunkStreamKind::Text | ChunkStreamKind::Reasoning => Field::MessageId,
            ChunkStreamKind::ToolCall => Field::ToolCallId,
        }
    }

    /// Returns the kind of item that the chunks form.
    #[must_use]
    pub(crate) const fn item(self) -> RunItem {
        match self {
            ChunkStreamKind::Text => RunItem::Text,
            ChunkStreamKind::Reasoning => RunItem::ReasoningMessage,
            ChunkStreamKind::ToolCall => RunItem::ToolCall,
        }
    }

    #[must_use]
    pub(crate) const fn content_event(self) -> EventType {
        match self {
            ChunkStreamKind::Text => EventType::TextMessageContent,
            ChunkStreamKind::Reasoning => EventType::ReasoningMessageContent,
            ChunkStreamKind::ToolCall => EventType::ToolCallArgs,
        }
    }

    /// Lists the members that later chunks may repeat but not change.
    #[must_use]
    pub(crate) const fn fixed_fields(self) -> &'static [Field] {
        match self {
            ChunkStreamKind::Text => &[Field::Role, Field::Name],
            ChunkStreamKind::Reasoning => &[],
            ChunkStreamKind::ToolCall => &[Field::ToolCallName, Field::ParentMessageId],
        }
    }
}

/// The chunk streams closed by another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosedStreams {
    None,
    OfItsLane,
    All,
}

impl ClosedStreams {
    /// Returns the streams that an event closes: "Not closed by RAW, ACTIVITY_*, REASONING_ENCRYPTED_VALUE,
    /// SUBAGENT_STARTED." Chunks close streams by id.
    #[must_use]
    pub(crate) const fn by_event(kind: EventType) -> Self {
        match kind {
            EventType::Raw
            | EventType::ActivitySnapshot
            | EventType::ActivityDelta
            | EventType::ReasoningEncryptedValue
            | EventType::SubagentStarted
            | EventType::TextMessageChunk
            | EventType::ReasoningMessageChunk
            | EventType::ToolCallChunk => ClosedStreams::None,
            EventType::RunStarted | EventType::RunFinished | EventType::RunError | EventType::MessagesSnapshot => {
                ClosedStreams::All
            }
            _ => ClosedStreams::OfItsLane,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ChunkStream {
    pub(crate) kind: ChunkStreamKind,
    pub(crate) id: Json<'static>,
    /// `None` for the agent itself
    pub(crate) owner: Option<Json<'static>>,
    /// the beginning of what the client shows of it; empty for a call, `None` if nothing is shown
    pub(crate) first_text: Option<Arc<str>>,
    /// from the first chunk
    pub(crate) fixed_fields: Vec<(Field, Json<'static>)>,
}

/// The chunk streams of a run, most recently used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkLanes {
    open_streams: Vec<ChunkStream>,
    /// the latest of each kind, open or closed
    last_streams: Vec<ChunkStream>,
}

impl ChunkStream {
    fn heap_size(&self) -> usize {
        let fields = self.fixed_fields.iter().map(|(_, value)| value.heap_size()).sum::<usize>();
        let ids = self.id.heap_size() + optional_size(self.owner.as_ref());
        let text = self.first_text.as_ref().map_or(0, |text| heap_size::allocation_size(text.len()));
        ids + text + fields + heap_size::list_size::<(Field, Json<'_>)>(self.fixed_fields.capacity())
    }
}

impl ChunkLanes {
    pub(crate) fn heap_size(&self) -> usize {
        let places = self.open_streams.capacity() + self.last_streams.capacity();
        let owned = self.open_streams.iter().chain(&self.last_streams).map(ChunkStream::heap_size).sum::<usize>();
        heap_size::list_size::<ChunkStream>(places) + owned
    }

    /// Applies an outgoing event. Most events other than chunks close the stream in their lane.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        if self.open_streams.is_empty() {
            return;
        }
        match ClosedStreams::by_event(event.kind) {
            ClosedStreams::None => {}
            ClosedStreams::All => self.open_streams.clear(),
            ClosedStreams::OfItsLane => {
                let owner = event.get(Field::SubagentRunId);
                self.open_streams.retain(|stream| stream.owner.as_ref() != owner);
            }
        }
    }

    pub(crate) fn open_streams(&self, piece: ChunkStreamKind) -> impl DoubleEndedIterator<Item = &ChunkStream> {
        self.open_streams.iter().filter(move |stream| stream.kind == piece)
    }

    /// Returns the latest stream of a kind, open or closed.
    #[must_use]
    pub(crate) fn last_stream(&self, piece: ChunkStreamKind) -> Option<&ChunkStream> {
        self.last_streams.iter().find(|stream| stream.kind == piece)
    }

    /// Makes `stream` the only open one in its lane, and the most recently used overall.
    pub(crate) fn mark_used(&mut self, stream: ChunkStream) {
        self.open_streams.retain(|own| own.owner != stream.owner);
        self.last_streams.retain(|own| own.kind != stream.kind);
        self.last_streams.push(stream.clone());
        if self.open_streams.len() == LANES_LIMIT {
            self.open_streams.remove(0);
        }
        self.open_streams.push(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(speaker: usize) -> ChunkStream {
        let owner = Some(Json::string(&format!("s{speaker}")));
        let id = Json::string(&format!("m{speaker}"));
        ChunkStream { kind: ChunkStreamKind::Text, id, owner, first_text: None, fixed_fields: Vec::new() }
    }

    #[test]
    fn keeps_the_latest_lanes_up_to_the_limit() {
        let mut lanes = ChunkLanes::default();
        (0..100_000).for_each(|speaker| lanes.mark_used(stream(speaker)));
        assert_eq!(lanes.open_streams(ChunkStreamKind::Text).count(), LANES_LIMIT);
        assert_eq!(
            lanes.open_streams(ChunkStreamKind::Text).next_back().map(|last| &last.id),
            Some(&stream(99_999).id)
        );
    }
}
