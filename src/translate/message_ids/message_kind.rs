//! The kinds of messages that have ids of one list, and calls, which have a list of their own.

use crate::event::input::{ACTIVITY, CALL_SUFFIX, REASONING, TEXT_SUFFIX, TOOL};
use crate::event::{EventType, Field, Json, Members, get};

/// The kinds of messages that share one list in the client, and of what else has ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::translate) enum MessageKind {
    /// a message from the assistant, the user, the system or a developer
    Text,
    Reasoning,
    Activity,
    ToolResult,
    Call,
}

impl MessageKind {
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            MessageKind::Text => TEXT_SUFFIX,
            MessageKind::Reasoning => REASONING,
            MessageKind::Activity => ACTIVITY,
            MessageKind::ToolResult => TOOL,
            MessageKind::Call => CALL_SUFFIX,
        }
    }

    pub(super) fn from_role(role: &str) -> MessageKind {
        match role {
            REASONING => MessageKind::Reasoning,
            ACTIVITY => MessageKind::Activity,
            TOOL => MessageKind::ToolResult,
            _ => MessageKind::Text,
        }
    }

    /// Returns the message kind, and whether the client creates a message for the event. It creates none for a
    /// reasoning span, but most agents give the span and its message the same id.
    pub(super) const fn from_event_type(kind: EventType) -> Option<(MessageKind, bool)> {
        Some(match kind {
            EventType::TextMessageStart | EventType::TextMessageChunk => (MessageKind::Text, true),
            EventType::TextMessageContent | EventType::TextMessageEnd => (MessageKind::Text, false),
            EventType::ReasoningStart | EventType::ReasoningMessageStart | EventType::ReasoningMessageChunk => {
                (MessageKind::Reasoning, true)
            }
            EventType::ReasoningMessageContent | EventType::ReasoningMessageEnd | EventType::ReasoningEnd => {
                (MessageKind::Reasoning, false)
            }
            EventType::ActivitySnapshot => (MessageKind::Activity, true),
            EventType::ActivityDelta => (MessageKind::Activity, false),
            EventType::ToolCallResult => (MessageKind::ToolResult, true),
            _ => return None,
        })
    }
}

pub(super) fn message_kind(message: &Members<'_>) -> MessageKind {
    get(message, Field::Role).and_then(Json::text).map_or(MessageKind::Text, |role| MessageKind::from_role(&role))
}
