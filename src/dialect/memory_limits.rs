//! Limits the memory of a run, whatever the agent sends.
//!
//! ```text
//!   buffered   events that an adapter sends later             at most the route's frame, or MIN_BUFFER_LIMIT
//!   retained   ids kept until the run ends (guard, readers),  at most RETAINED_IDS_LIMIT
//!              and what restores buffered events
//!   open       messages, calls, steps … without an end        at most OPEN_ITEMS_LIMIT
//! ```
//! Buffered events are written as one frame or many, so the frame limit applies to them. The limits are checked after
//! each frame from the agent, so one more frame may be buffered. Over a limit, buffered events are sent and the run
//! ends with `frame_too_large` or `too_much_open`. `auto` buffers one frame at the start.

pub(crate) use crate::event::heap_size::{allocation_size, table_size};
use crate::event::{Event, EventType, Field, Members, SmallMap};

/// Minimum buffer limit in bytes, since routes with small frames may buffer many of them.
pub(crate) const MIN_BUFFER_LIMIT: usize = 1 << 20;

/// Maximum bytes of ids retained per run: enough for 200,000 messages, calls and steps with ids of typical length.
pub(crate) const RETAINED_IDS_LIMIT: usize = 32 << 20;

/// Maximum number of elements in the lists of a request, or of one event, that are taken apart. Enough for the messages
/// that a request may have, if each has a call or a part; a conversation of 5,000 turns with calls has about 15,000.
pub(crate) const ELEMENTS_LIMIT: usize = 20_000;

/// Maximum number of items that a run may have open at once. Real runs have a few, and hundreds of parallel calls at
/// most.
pub(crate) const OPEN_ITEMS_LIMIT: usize = 10_000;

/// Longest id stored in lists that grow with the conversation; longer ids pass through unchanged.
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

/// Returns the memory of a map's entries, without what they refer to.
pub(crate) fn map_size<K, V>(map: &SmallMap<K, V>) -> usize {
    match map {
        SmallMap::Few(list) => allocation_size(list.capacity() * size_of::<(K, V)>()),
        SmallMap::Many(map) => table_size::<(K, V)>(map.capacity()),
    }
}

/// Returns how many bytes of new ids an event adds.
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
    // The start of a message deferred for thinking is buffered whole, so it is counted here.
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
