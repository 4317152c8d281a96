//! Finds content that the receiver gets and does not show, so that it counts as a loss although it is carried.
//!
//! Which content that is follows from the way it leaves: as CUSTOM, as a carried member, or as an event that the
//! dialect's document does not name ([`Dialect::hidden_content`]).

use crate::codec::json;
use crate::dialect::Dialect;
use crate::dialect::content_parts;
use crate::event::input::{ACTIVITY, INTERRUPTS, REASONING, ROLES};
use crate::event::{Event, EventLoss, EventType, Field, Json, Members, get};

/// Returns the loss for an event that reaches a client without a form for its type; `None` if the event has nothing to
/// show.
pub(super) fn loss_of_event(event: &Event<'_>) -> Option<EventLoss> {
    match event.kind {
        EventType::ActivitySnapshot | EventType::ActivityDelta => Some(EventLoss::ActivityNotShown),
        EventType::SubagentStarted | EventType::SubagentFinished | EventType::SubagentError => {
            Some(EventLoss::SubagentNotShown)
        }
        EventType::ReasoningMessageContent | EventType::ReasoningMessageChunk => {
            let has_text = event.get(Field::Delta).is_some_and(|delta| !delta.is_str(""));
            has_text.then_some(EventLoss::ReasoningNotShown)
        }
        _ => None,
    }
}

/// Returns the loss if the event leaves as CUSTOM.
pub(super) fn loss_of_custom(event: &Event<'_>) -> Option<EventLoss> {
    match event.kind {
        EventType::StepStarted | EventType::StepFinished => Some(EventLoss::SubagentNotShown),
        _ => loss_of_event(event),
    }
}

/// Returns true for the CUSTOM event that stands for a frame without a canonical form, unless its delta is null.
pub(super) fn is_wrapped_frame(custom: &Event<'_>, agent: &str) -> bool {
    custom.text(Field::Name).is_some_and(|name| {
        let wire = name.strip_prefix(agent).and_then(|rest| rest.strip_prefix('.'));
        let value = custom.get(Field::Value).filter(|_| wire.is_some());
        let frame = value.and_then(|value| json::parse_object(value.as_str()).ok());
        wire.zip(frame).is_some_and(|(wire, frame)| {
            let is_empty = get(&frame.members, Field::Delta).is_some_and(Json::is_null);
            frame.kind.is_some_and(|kind| kind.is_str(wire)) && !is_empty
        })
    })
}

/// Returns the number of interrupts in the outcome of a run.
pub(super) fn count_interrupts(outcome: &Json<'_>) -> u64 {
    json::parse_member(outcome, INTERRUPTS).map_or(0, |interrupts| count_elements(&interrupts))
}

pub(super) fn count_elements(list: &Json<'_>) -> u64 {
    json::parse_elements(list).map_or(0, |elements| to_count(elements.len()))
}

/// Returns the number of carried members that clients of the agent's own dialect show.
pub(super) fn count_shown_members(event: &Event<'_>, agent: &Dialect) -> u64 {
    let own = event.get(Field::Metadata).and_then(|metadata| json::parse_member(metadata, agent.name));
    let own = own.as_ref().and_then(json::parse_members).unwrap_or_default();
    let is_empty = |value: &Json<'_>| matches!(value.as_str(), "null" | "\"\"" | "[]" | "{}");
    let shown = own.iter().filter(|(key, value)| agent.shown_members.contains(&key.name()) && !is_empty(value));
    to_count(shown.count())
}

/// Returns the number of messages whose role no dialect has: clients drop them.
pub(super) fn count_foreign_roles(messages: &Json<'_>) -> u64 {
    let is_foreign = |message: &&Json<'_>| {
        let role = json::parse_member(message, Field::Role.camel());
        role.as_ref().and_then(Json::text).is_some_and(|role| !ROLES.contains(&&*role))
    };
    to_count(json::parse_elements(messages).unwrap_or_default().iter().filter(is_foreign).count())
}

/// Returns the loss if the receiver does not show the message, by its role.
pub(super) fn loss_of_message(message: &Members<'_>) -> EventLoss {
    let role = get(message, Field::Role);
    let has_role = |name| role.is_some_and(|role| role.is_str(name));
    if has_role(ACTIVITY) {
        EventLoss::ActivityNotShown
    } else if has_role(REASONING) {
        EventLoss::ReasoningNotShown
    } else {
        EventLoss::TextNotShown
    }
}

/// Returns the number of media parts.
pub(super) fn count_parts(content: &Json<'_>) -> u64 {
    to_count(content_parts::count_media(content))
}

/// Returns the number of media parts in `whole` that `written` lacks.
pub(super) fn count_hidden_parts(whole: &Json<'_>, written: Option<&Json<'_>>) -> u64 {
    let shown = written.map_or(0, content_parts::count_media);
    to_count(content_parts::count_media(whole).saturating_sub(shown))
}

fn to_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
