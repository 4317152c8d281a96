//! Refusals of requests that cannot be translated.

use std::fmt;

/// The reason for refusing a request, and the part that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// JSON Pointer to the offending value; empty for the whole body
    pub(crate) pointer: String,
    pub(crate) reason: String,
    pub(crate) cause: RefusalCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    Malformed,
    /// The request is valid, but offers a tool that the route forbids.
    ForbiddenTool,
    /// The request is valid, but the agent needs what earlier runs of the thread kept, and nothing is.
    ConversationLost,
}

impl RequestRefusal {
    pub(super) fn forbidden_tool(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        RequestRefusal { pointer: pointer.into(), reason: reason.into(), cause: RefusalCause::ForbiddenTool }
    }

    pub(super) fn malformed(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        RequestRefusal { pointer: pointer.into(), reason: reason.into(), cause: RefusalCause::Malformed }
    }

    pub(super) fn conversation_lost() -> Self {
        let reason = "the gateway has nothing from the earlier runs of this conversation, which the agent needs for this request";
        RequestRefusal { pointer: String::new(), reason: reason.to_owned(), cause: RefusalCause::ConversationLost }
    }

    /// Returns true if the request offers a tool that the route forbids.
    #[must_use]
    pub fn is_forbidden_tool(&self) -> bool {
        self.cause == RefusalCause::ForbiddenTool
    }
}

impl fmt::Display for RequestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() { f.write_str(&self.reason) } else { write!(f, "{}: {}", self.pointer, self.reason) }
    }
}

impl std::error::Error for RequestRefusal {}

pub(super) fn refuse<T>(pointer: impl Into<String>, reason: impl Into<String>) -> Result<T, RequestRefusal> {
    Err(RequestRefusal::malformed(pointer, reason))
}
