//! Refusals of requests that cannot be translated.

use std::fmt;

/// The reason for refusing a request, and the part that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// JSON Pointer to the offending value; empty for the whole body
    pub(crate) pointer: String,
    pub(crate) reason: String,
    /// whether the request is valid but offers a forbidden tool
    pub is_forbidden_tool: bool,
}

impl RequestRefusal {
    pub(super) fn forbidden_tool(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        RequestRefusal { pointer: pointer.into(), reason: reason.into(), is_forbidden_tool: true }
    }

    pub(super) fn malformed(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        RequestRefusal { pointer: pointer.into(), reason: reason.into(), is_forbidden_tool: false }
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
