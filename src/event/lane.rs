//! Chunk streams: `*_CHUNK` events open messages and calls without a start and close them without an end.
//!
//! A lane is one speaker: the agent itself, or one subagent. A lane has one chunk stream at the most; another id or kind in
//! the lane closes it, and so does any other event of the lane that speaks (`specs/ag-ui-1.0.md` §3.2 "Chunks").

use super::run::RunItem;
use super::{Event, EventType, Field, Json};

/// Most lanes whose chunk streams are kept at once. Beyond, the one that was used first is forgotten: a chunk that names what
/// it is a piece of goes on all the same, and no agent has so many that speak at once.
const LANES_LIMIT: usize = 256;

/// What a chunk is a piece of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkStreamKind {
    /// TEXT_MESSAGE_CHUNK
    Text,
    /// REASONING_MESSAGE_CHUNK
    Reasoning,
    /// TOOL_CALL_CHUNK
    ToolCall,
}

impl ChunkStreamKind {
    /// The piece that an event of `kind` is.
    #[must_use]
    pub(crate) const fn from_event(kind: EventType) -> Option<ChunkStreamKind> {
        match kind {
            EventType::TextMessageChunk => Some(ChunkStreamKind::Text),
            EventType::ReasoningMessageChunk => Some(ChunkStreamKind::Reasoning),
            EventType::ToolCallChunk => Some(ChunkStreamKind::ToolCall),
            _ => None,
        }
    }

    /// The member that names what it is a piece of.
    #[must_use]
    pub(crate) const fn id_field(self) -> Field {
        match self {
            ChunkStreamKind::Text | ChunkStreamKind::Reasoning => Field::MessageId,
            ChunkStreamKind::ToolCall => Field::ToolCallId,
        }
    }

    /// Returns the item that a stream of this kind is, opened by chunks instead of a start event.
    #[must_use]
    pub(crate) const fn item(self) -> RunItem {
        match self {
            ChunkStreamKind::Text => RunItem::Text,
            ChunkStreamKind::Reasoning => RunItem::ReasoningMessage,
            ChunkStreamKind::ToolCall => RunItem::ToolCall,
        }
    }

    /// The event that says the same piece of something that was started.
    #[must_use]
    pub(crate) const fn content_event(self) -> EventType {
        match self {
            ChunkStreamKind::Text => EventType::TextMessageContent,
            ChunkStreamKind::Reasoning => EventType::ReasoningMessageContent,
            ChunkStreamKind::ToolCall => EventType::ToolCallArgs,
        }
    }

    /// Members that the first chunk settles for the whole stream: a later one may say them again, and nothing else.
    #[must_use]
    pub(crate) const fn fixed_fields(self) -> &'static [Field] {
        match self {
            ChunkStreamKind::Text => &[Field::Role, Field::Name],
            ChunkStreamKind::Reasoning => &[],
            ChunkStreamKind::ToolCall => &[Field::ToolCallName, Field::ParentMessageId],
        }
    }
}

/// The chunk streams that an event other than a chunk closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosedStreams {
    None,
    OfItsLane,
    All,
}

impl ClosedStreams {
    /// "Not closed by RAW, ACTIVITY_*, REASONING_ENCRYPTED_VALUE, SUBAGENT_STARTED." A chunk closes streams by the id it names,
    /// so it counts as [`ClosedStreams::None`] here.
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

/// One chunk stream.
#[derive(Clone, Debug)]
pub(crate) struct ChunkStream {
    /// what its chunks are pieces of
    pub(crate) kind: ChunkStreamKind,
    /// the id of that
    pub(crate) id: Json<'static>,
    /// who speaks; nobody for the agent itself
    pub(crate) owner: Option<Json<'static>>,
    /// what the first chunk settled
    pub(crate) fixed_fields: Vec<(Field, Json<'static>)>,
}

/// The chunk streams of a run, the one that was used last at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkLanes {
    open_streams: Vec<ChunkStream>,
    /// the last stream of each kind, closed or not
    last_streams: Vec<ChunkStream>,
}

impl ChunkLanes {
    /// Takes an event into account that leaves: most that are no chunks close the stream of their lane.
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

    /// The open streams of this kind, the latest last.
    pub(crate) fn open_streams(&self, piece: ChunkStreamKind) -> impl DoubleEndedIterator<Item = &ChunkStream> {
        self.open_streams.iter().filter(move |stream| stream.kind == piece)
    }

    /// The last stream of this kind, closed or not.
    #[must_use]
    pub(crate) fn last_stream(&self, piece: ChunkStreamKind) -> Option<&ChunkStream> {
        self.last_streams.iter().find(|stream| stream.kind == piece)
    }

    /// Notes that a chunk of `stream` came: the stream is open, and the only one of its lane.
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
        ChunkStream { kind: ChunkStreamKind::Text, id, owner, fixed_fields: Vec::new() }
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
