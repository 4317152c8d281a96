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
use crate::event::run::RunItem;
use crate::event::{Event, EventType, Json};

#[derive(Clone, Debug)]
pub(super) struct RecapItem {
    pub(crate) kind: RunItem,
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

/// Returns the item that an event starts, continues or ends.
pub(super) fn item_of(kind: EventType) -> Option<RunItem> {
    RunItem::action_for(kind).map(|(item, ..)| item)
}

/// Returns the id of the item in an event.
pub(super) fn item_id(item: RunItem, event: &Event<'_>) -> Json<'static> {
    let (_, field) = item.closer();
    event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned)
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
