//! Events that AG-UI 1.0 retired and its client still accepts (`specs/ag-ui-1.0.md` §1.3).
//!
//! They carry no ids. The client converts each to its reasoning event, with ids that it generates.

use super::EventType;
use super::run::ItemAction;

/// A retired event and its replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetiredEvent {
    pub(crate) wire: &'static str,
    pub(crate) kind: EventType,
    pub(crate) action: ItemAction,
    /// whether it applies to the message in a reasoning span, not to the span
    pub(crate) in_message: bool,
}

pub(crate) const RETIRED_EVENTS: &[RetiredEvent] = &[
    RetiredEvent {
        wire: "THINKING_START",
        kind: EventType::ReasoningStart,
        action: ItemAction::Open,
        in_message: false,
    },
    RetiredEvent {
        wire: "THINKING_TEXT_MESSAGE_START",
        kind: EventType::ReasoningMessageStart,
        action: ItemAction::Open,
        in_message: true,
    },
    RetiredEvent {
        wire: "THINKING_TEXT_MESSAGE_CONTENT",
        kind: EventType::ReasoningMessageContent,
        action: ItemAction::Use,
        in_message: true,
    },
    RetiredEvent {
        wire: "THINKING_TEXT_MESSAGE_END",
        kind: EventType::ReasoningMessageEnd,
        action: ItemAction::Close,
        in_message: true,
    },
    RetiredEvent { wire: "THINKING_END", kind: EventType::ReasoningEnd, action: ItemAction::Close, in_message: false },
];

#[must_use]
pub(crate) fn find_by_wire(wire: &str) -> Option<&'static RetiredEvent> {
    RETIRED_EVENTS.iter().find(|retired| retired.wire == wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::run::RunItem;

    #[test]
    fn retired_events_act_like_their_successors() {
        for retired in RETIRED_EVENTS {
            assert_eq!(EventType::from_wire(retired.wire), None);
            let (item, step, _) = RunItem::action_for(retired.kind).expect("a boundary or a piece");
            assert_eq!(
                (step, item == RunItem::ReasoningMessage),
                (retired.action, retired.in_message),
                "{}",
                retired.wire
            );
        }
    }
}
