//! An open item of a run, and the frames that make it up.
//!
//! ```text
//!   START ─▶ Open ── END ──▶ (folded into its message)
//!              │               ▲
//!              │ END of a call │ its result, or another start
//!              └─▶ Ended ──────┘
//!   chunk ─▶ Chunk ── its lane is closed ──▶ as after END
//! ```

use super::recap_frame::{RecapFrame, frames_size};
use crate::event::run::RunItem;
use crate::event::{Event, EventType, Json};

#[derive(Clone, Debug)]
pub(super) struct RecapItem {
    pub(crate) kind: RunItem,
    pub(crate) id: Json<'static>,
    /// in order of opening
    pub(super) number: usize,
    /// the start event, or all chunks merged
    pub(super) opener: RecapFrame,
    pub(super) content: Vec<RecapFrame>,
    /// encrypted values, which belong to the message but not to its text
    pub(super) encrypted: Vec<RecapFrame>,
    pub(super) stage: ItemStage,
    /// whether a snapshot of the agent has removed its message; one with the same id may have been created since
    pub(super) is_lost: bool,
}

#[derive(Clone, Debug)]
pub(super) enum ItemStage {
    /// `answered` means that the call's result has arrived
    Open { answered: bool },
    /// an ended call without a result, with its end event
    Ended(RecapFrame),
    /// `answered` means that the call's result has arrived
    Chunk { answered: bool },
}

pub(super) fn item_of(kind: EventType) -> Option<RunItem> {
    RunItem::action_for(kind).map(|(item, ..)| item)
}

pub(super) fn item_id(item: RunItem, event: &Event<'_>) -> Json<'static> {
    let (_, field) = item.closer();
    event.get_or_empty(field)
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

    pub(crate) fn text_frames(&self) -> impl Iterator<Item = &RecapFrame> {
        Some(&self.opener).filter(|_| !self.is_lost).into_iter().chain(&self.content)
    }

    pub(super) fn heap_size(&self) -> usize {
        let end = match &self.stage {
            ItemStage::Ended(end) => end.heap_size(),
            ItemStage::Open { .. } | ItemStage::Chunk { .. } => 0,
        };
        let frames = self.opener.heap_size() + frames_size(&self.content) + frames_size(&self.encrypted) + end;
        self.id.heap_size() + frames
    }
}
