//! Chunk streams: `*_CHUNK` events open messages and calls without a start and close them without an end.
//!
//! A lane is one speaker: the agent itself, or one subagent. A lane has one chunk stream at the most; another id or kind in
//! the lane closes it, and so does any other event of the lane that speaks (`specs/ag-ui-1.0.md` §3.2 "Chunks").

use super::{Event, Field, Json, Kind};

/// Most lanes whose chunk streams are kept at once. Beyond, the one that was used first is forgotten: a chunk that names what
/// it is a piece of goes on all the same, and no agent has so many that speak at once.
const LANES_LIMIT: usize = 256;

/// What a chunk is a piece of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// TEXT_MESSAGE_CHUNK
    Text,
    /// REASONING_MESSAGE_CHUNK
    Reasoning,
    /// TOOL_CALL_CHUNK
    ToolCall,
}

impl Piece {
    /// The piece that an event of `kind` is.
    #[must_use]
    pub const fn of(kind: Kind) -> Option<Piece> {
        match kind {
            Kind::TextMessageChunk => Some(Piece::Text),
            Kind::ReasoningMessageChunk => Some(Piece::Reasoning),
            Kind::ToolCallChunk => Some(Piece::ToolCall),
            _ => None,
        }
    }

    /// The member that names what it is a piece of.
    #[must_use]
    pub const fn id(self) -> Field {
        match self {
            Piece::Text | Piece::Reasoning => Field::MessageId,
            Piece::ToolCall => Field::ToolCallId,
        }
    }

    /// The event that says the same piece of something that was started.
    #[must_use]
    pub const fn content(self) -> Kind {
        match self {
            Piece::Text => Kind::TextMessageContent,
            Piece::Reasoning => Kind::ReasoningMessageContent,
            Piece::ToolCall => Kind::ToolCallArgs,
        }
    }

    /// Members that the first chunk settles for the whole stream: a later one may say them again, and nothing else.
    #[must_use]
    pub const fn settled(self) -> &'static [Field] {
        match self {
            Piece::Text => &[Field::Role, Field::Name],
            Piece::Reasoning => &[],
            Piece::ToolCall => &[Field::ToolCallName, Field::ParentMessageId],
        }
    }
}

/// One chunk stream.
#[derive(Clone, Debug)]
pub struct ChunkStream {
    /// what its chunks are pieces of
    pub piece: Piece,
    /// the id of that
    pub id: Json<'static>,
    /// who speaks; nobody for the agent itself
    pub owner: Option<Json<'static>>,
    /// what the first chunk settled
    pub settled: Vec<(Field, Json<'static>)>,
}

/// The chunk streams of a run, the one that was used last at the end.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    open: Vec<ChunkStream>,
    /// the last stream of each kind, closed or not
    last: Vec<ChunkStream>,
}

impl Lanes {
    /// Takes an event into account that leaves: most that are no chunks close the stream of their lane.
    pub fn pass(&mut self, event: &Event<'_>) {
        if self.open.is_empty() {
            return;
        }
        match event.kind {
            Kind::Raw
            | Kind::ActivitySnapshot
            | Kind::ActivityDelta
            | Kind::ReasoningEncryptedValue
            | Kind::SubagentStarted
            | Kind::TextMessageChunk
            | Kind::ReasoningMessageChunk
            | Kind::ToolCallChunk => {}
            Kind::RunStarted | Kind::RunFinished | Kind::RunError | Kind::MessagesSnapshot => self.open.clear(),
            _ => {
                let owner = event.get(Field::SubagentRunId);
                self.open.retain(|stream| stream.owner.as_ref() != owner);
            }
        }
    }

    /// The open streams of this kind, the latest last.
    pub fn open(&self, piece: Piece) -> impl DoubleEndedIterator<Item = &ChunkStream> {
        self.open.iter().filter(move |stream| stream.piece == piece)
    }

    /// The last stream of this kind, closed or not.
    #[must_use]
    pub fn last(&self, piece: Piece) -> Option<&ChunkStream> {
        self.last.iter().find(|stream| stream.piece == piece)
    }

    /// Notes that a chunk of `stream` came: the stream is open, and the only one of its lane.
    pub fn used(&mut self, stream: ChunkStream) {
        self.open.retain(|own| own.owner != stream.owner);
        self.last.retain(|own| own.piece != stream.piece);
        self.last.push(stream.clone());
        if self.open.len() == LANES_LIMIT {
            self.open.remove(0);
        }
        self.open.push(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(speaker: usize) -> ChunkStream {
        let owner = Some(Json::string(&format!("s{speaker}")));
        let id = Json::string(&format!("m{speaker}"));
        ChunkStream { piece: Piece::Text, id, owner, settled: Vec::new() }
    }

    #[test]
    fn of_many_lanes_the_latest_are_kept() {
        let mut lanes = Lanes::default();
        (0..100_000).for_each(|speaker| lanes.used(stream(speaker)));
        assert_eq!(lanes.open(Piece::Text).count(), LANES_LIMIT);
        assert_eq!(lanes.open(Piece::Text).next_back().map(|last| &last.id), Some(&stream(99_999).id));
    }
}
