//! The kinds of ids: those of messages, which a client keeps in one list, and those of calls.

use crate::event::input::{ACTIVITY, CALL_SUFFIX, REASONING, TEXT_SUFFIX, TOOL};
use crate::event::{EventType, Field, Json, Members, get};

/// The kind of message that an id names, or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::translate) enum IdKind {
    /// a message from the assistant, the user, the system or a developer
    Text,
    Reasoning,
    Activity,
    ToolResult,
    Call,
}

impl IdKind {
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            IdKind::Text => TEXT_SUFFIX,
            IdKind::Reasoning => REASONING,
            IdKind::Activity => ACTIVITY,
            IdKind::ToolResult => TOOL,
            IdKind::Call => CALL_SUFFIX,
        }
    }

    pub(super) fn from_role(role: &str) -> IdKind {
        match role {
            REASONING => IdKind::Reasoning,
            ACTIVITY => IdKind::Activity,
            TOOL => IdKind::ToolResult,
            _ => IdKind::Text,
        }
    }

    /// Returns the message kind, and whether the client creates a message for the event. It creates none for a
    /// reasoning span, but most agents give the span and its message the same id.
    pub(super) const fn from_event_type(kind: EventType) -> Option<(IdKind, bool)> {
        Some(match kind {
            EventType::TextMessageStart | EventType::TextMessageChunk => (IdKind::Text, true),
            EventType::TextMessageContent | EventType::TextMessageEnd => (IdKind::Text, false),
            EventType::ReasoningStart | EventType::ReasoningMessageStart | EventType::ReasoningMessageChunk => {
                (IdKind::Reasoning, true)
            }
            EventType::ReasoningMessageContent | EventType::ReasoningMessageEnd | EventType::ReasoningEnd => {
                (IdKind::Reasoning, false)
            }
            EventType::ActivitySnapshot => (IdKind::Activity, true),
            EventType::ActivityDelta => (IdKind::Activity, false),
            EventType::ToolCallResult => (IdKind::ToolResult, true),
            _ => return None,
        })
    }
}

pub(super) fn message_kind(message: &Members<'_>) -> IdKind {
    get(message, Field::Role).and_then(Json::text).map_or(IdKind::Text, |role| IdKind::from_role(&role))
}
