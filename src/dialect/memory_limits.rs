//! How much a run may have the gateway hold: memory stays bounded whatever an agent sends.
//!
//! ```text
//!   waits      events that leave later (`sequence`, `answer`, `call`)        at most the route's frame, or WAITING
//!   is kept    ids that are remembered until the run ends (guard, readers)   at most KEPT
//! ```
//! What waits is one frame in the end, or many that were held up, so the limit of a frame is its limit. Both are looked at
//! behind every frame of the agent: over the limit the run ends with `frame_too_large`, and what waited leaves before that.
//! A frame more than the limit may be held at that time. The opening that `auto` remembers is one frame.

use crate::event::{Event, EventType, Field, Members};

/// The bytes that may wait on a route whose frames are smaller than this: what waits is many frames there.
pub(crate) const MIN_BUFFER_LIMIT: usize = 1 << 20;

/// The bytes of ids that are kept for one run. With ids of usual length that is 200,000 messages, calls and steps.
pub(crate) const RETAINED_IDS_LIMIT: usize = 32 << 20;

/// The longest id that is kept in lists that a snapshot fills: those are as long as a conversation may be, and take a longer
/// one as it comes.
pub(crate) const MAX_ID_LEN: usize = 1 << 10;

/// What an entry of a list costs beside its text.
const ENTRY_OVERHEAD: usize = 128;

/// What it costs to hold an event.
pub(crate) fn event_cost(event: &Event<'_>) -> usize {
    ENTRY_OVERHEAD + members_cost(&event.members)
}

/// What it costs to hold a text.
pub(crate) const fn text_cost(text: &str) -> usize {
    ENTRY_OVERHEAD + text.len()
}

fn members_cost(members: &Members<'_>) -> usize {
    members.iter().map(|(_, value)| text_cost(value.as_str())).sum()
}

/// What is kept for good of an event: the ids that it introduces.
pub(crate) fn retained_ids_cost(event: &Event<'_>) -> usize {
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
    if event.kind == EventType::ReasoningStart {
        return event_cost(event);
    }
    IDS.iter().filter_map(|field| event.get(*field)).map(|id| text_cost(id.as_str())).sum()
}

/// Whether an event of this kind can introduce ids that are kept.
pub(crate) const fn introduces_ids(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::TextMessageStart
            | EventType::ReasoningStart
            | EventType::ReasoningMessageStart
            | EventType::ToolCallStart
            | EventType::ToolCallResult
            | EventType::StepStarted
            | EventType::SubagentStarted
            | EventType::ActivitySnapshot
    )
}
