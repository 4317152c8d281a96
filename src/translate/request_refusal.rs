//! Why a request cannot be translated.

use std::fmt;

/// Why a request is refused: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// JSON Pointer to the culprit; empty for the whole body
    pub(crate) pointer: String,
    /// what is wrong with it
    pub(crate) reason: String,
    /// whether it can be read, and offers a tool that is not allowed
    pub is_forbidden_tool: bool,
}

impl RequestRefusal {
    /// A tool that is not allowed.
    pub(super) fn forbidden_tool(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        RequestRefusal { pointer: pointer.into(), reason: reason.into(), is_forbidden_tool: true }
    }
}

impl fmt::Display for RequestRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() { f.write_str(&self.reason) } else { write!(f, "{}: {}", self.pointer, self.reason) }
    }
}

impl std::error::Error for RequestRefusal {}

pub(super) fn refuse<T>(pointer: impl Into<String>, reason: impl Into<String>) -> Result<T, RequestRefusal> {
    Err(RequestRefusal { pointer: pointer.into(), reason: reason.into(), is_forbidden_tool: false })
}
