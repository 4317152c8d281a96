//! One open item of a run, with the frames that make it up.
//!
//! ```text
//!   START ─▶ Open ── END ──▶ (folded into its message)
//!              │               ▲
//!              │ END of a call │ its result, or another start
//!              └─▶ Ended ──────┘
//!   chunk ─▶ Chunk ── its lane is closed ──▶ as after END
//! ```

use super::recap_frame::RecapFrame;
use crate::event::lane::ChunkStreamKind;
use crate::event::{Event, EventType, Field, Json};

/// The kinds of open items: messages, and spans around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecapItemKind {
    Text,
    Reasoning,
    /// the span around reasoning messages
    Span,
    Call,
}

#[derive(Clone, Debug)]
pub(super) struct RecapItem {
    pub(crate) kind: RecapItemKind,
    pub(crate) id: Json<'static>,
    /// the start, or the first chunk joined with all later ones
    pub(super) opener: RecapFrame,
    pub(super) content: Vec<RecapFrame>,
    /// encrypted values, which accompany a message without being part of it
    pub(super) encrypted: Vec<RecapFrame>,
    pub(super) stage: ItemStage,
}

#[derive(Clone, Debug)]
pub(super) enum ItemStage {
    /// before its end; `answered` once a call's result has arrived
    Open { answered: bool },
    /// the end of a call without a result
    Ended(RecapFrame),
    /// chunks that may continue; `answered` once a call's result has arrived
    Chunk { answered: bool },
}

impl RecapItemKind {
    /// Returns the kind that an event of type `kind` starts, continues or ends.
    pub(crate) const fn from_event(kind: EventType) -> Option<RecapItemKind> {
        Some(match kind {
            EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd => {
                RecapItemKind::Text
            }
            EventType::ReasoningMessageStart | EventType::ReasoningMessageContent | EventType::ReasoningMessageEnd => {
                RecapItemKind::Reasoning
            }
            EventType::ReasoningStart | EventType::ReasoningEnd => RecapItemKind::Span,
            EventType::ToolCallStart | EventType::ToolCallArgs | EventType::ToolCallEnd => RecapItemKind::Call,
            _ => return None,
        })
    }

    pub(crate) const fn from_chunk(piece: ChunkStreamKind) -> RecapItemKind {
        match piece {
            ChunkStreamKind::Text => RecapItemKind::Text,
            ChunkStreamKind::Reasoning => RecapItemKind::Reasoning,
            ChunkStreamKind::ToolCall => RecapItemKind::Call,
        }
    }

    pub(crate) const fn chunk_kind(self) -> Option<ChunkStreamKind> {
        match self {
            RecapItemKind::Text => Some(ChunkStreamKind::Text),
            RecapItemKind::Reasoning => Some(ChunkStreamKind::Reasoning),
            RecapItemKind::Call => Some(ChunkStreamKind::ToolCall),
            RecapItemKind::Span => None,
        }
    }

    pub(crate) fn event_id(self, event: &Event<'_>) -> Json<'static> {
        let field = if self == RecapItemKind::Call { Field::ToolCallId } else { Field::MessageId };
        event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned)
    }
}

impl RecapItem {
    pub(crate) fn is_chunk(&self) -> bool {
        matches!(self.stage, ItemStage::Chunk { .. })
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = &RecapFrame> {
        let end = match &self.stage {
            ItemStage::Ended(end) => Some(end),
            ItemStage::Open { .. } | ItemStage::Chunk { .. } => None,
        };
        std::iter::once(&self.opener).chain(&self.content).chain(&self.encrypted).chain(end)
    }

    /// Returns the frames with the item's own text.
    pub(crate) fn text_frames(&self) -> impl Iterator<Item = &RecapFrame> {
        std::iter::once(&self.opener).chain(&self.content)
    }
}
