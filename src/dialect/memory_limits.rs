//! Limits the memory of a run, whatever the agent sends.
//!
//! ```text
//!   buffered   events that leave later (`sequence`, `answer`, `call`)   at most the route's frame, or MIN_BUFFER_LIMIT
//!   retained   ids kept until the run ends (guard, readers)             at most RETAINED_IDS_LIMIT
//! ```
//! Buffered events end up in one frame or many, so the frame limit applies to them. Both limits are checked after every
//! frame of the agent, so one more frame may be buffered. Over the limit, buffered events are sent and the run ends
//! with `frame_too_large`. `auto` buffers one frame at the start.

use crate::event::{Event, EventType, Field, Members};

/// Smallest buffer limit in bytes: a route with a lower frame limit buffers many frames.
pub(crate) const MIN_BUFFER_LIMIT: usize = 1 << 20;

/// Limits the bytes of ids kept for one run: 200,000 messages, calls and steps with ids of usual length.
pub(crate) const RETAINED_IDS_LIMIT: usize = 32 << 20;

/// Longest id kept in lists that grow with the conversation; longer ids pass unchanged.
pub(crate) const MAX_ID_LEN: usize = 1 << 10;

const ENTRY_OVERHEAD: usize = 128;

pub(crate) fn event_cost(event: &Event<'_>) -> usize {
    ENTRY_OVERHEAD + members_cost(&event.members)
}

pub(crate) const fn text_cost(text: &str) -> usize {
    ENTRY_OVERHEAD + text.len()
}

fn members_cost(members: &Members<'_>) -> usize {
    members.iter().map(|(_, value)| text_cost(value.as_str())).sum()
}

/// Returns the bytes of new ids in an event.
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
    // The start of a message that is deferred for thinking is buffered whole, and counted here.
    if event.kind == EventType::ReasoningStart {
        return event_cost(event);
    }
    IDS.iter().filter_map(|field| event.get(*field)).map(|id| text_cost(id.as_str())).sum()
}

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
