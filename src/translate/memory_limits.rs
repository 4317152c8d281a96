//! How much a run may have the gateway hold: memory stays bounded whatever an agent sends.
//!
//! ```text
//!   waits      events that leave later (`sequence`, `answer`, `call`)        at most the route's frame, or WAITING
//!   is kept    ids that are remembered until the run ends (guard, readers)   at most KEPT
//! ```
//! What waits is one frame in the end, or many that were held up, so the limit of a frame is its limit. Both are looked at
//! behind every frame of the agent: over the limit the run ends with `frame_too_large`, and what waited leaves before that.
//! A frame more than the limit may be held at that time. The opening that `auto` remembers is one frame.

use crate::event::{Event, Field, Kind, Members};

/// The bytes that may wait on a route whose frames are smaller than this: what waits is many frames there.
pub(super) const WAITING: usize = 1 << 20;

/// The bytes of ids that are kept for one run. With ids of usual length that is 200,000 messages, calls and steps.
pub(super) const KEPT: usize = 32 << 20;

/// The longest id that is kept in lists that a snapshot fills: those are as long as a conversation may be, and take a longer
/// one as it comes.
pub(super) const ID: usize = 1 << 10;

/// What an entry of a list costs beside its text.
const ENTRY: usize = 128;

/// What it costs to hold an event.
pub(super) fn cost(event: &Event<'_>) -> usize {
    ENTRY + members(&event.members)
}

/// What it costs to hold a text.
pub(super) const fn text(text: &str) -> usize {
    ENTRY + text.len()
}

fn members(members: &Members<'_>) -> usize {
    members.iter().map(|(_, value)| text(value.as_str())).sum()
}

/// What is kept for good of an event: the ids that it introduces.
pub(super) fn kept(event: &Event<'_>) -> usize {
    const IDS: [Field; 8] = [
        Field::MessageId,
        Field::ToolCallId,
        Field::ParentMessageId,
        Field::SubagentRunId,
        Field::ParentSubagentRunId,
        Field::StepName,
        Field::ToolCallName,
        Field::Name,
    ];
    // The start of a message that thinking overtakes is kept whole, and noted here.
    if event.kind == Kind::ReasoningStart {
        return cost(event);
    }
    IDS.iter().filter_map(|field| event.get(*field)).map(|id| text(id.as_str())).sum()
}

/// Whether an event of this kind can introduce ids that are kept.
pub(super) const fn introduces(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::TextMessageStart
            | Kind::ReasoningStart
            | Kind::ReasoningMessageStart
            | Kind::ToolCallStart
            | Kind::ToolCallResult
            | Kind::StepStarted
            | Kind::SubagentStarted
            | Kind::ActivitySnapshot
    )
}
