//! A tool name in a fixed-size buffer, so that a side of a route can be `Copy`.

use std::fmt;

/// Maximum length in bytes, the same as model providers' limit for function names.
pub(crate) const MAX_LEN: usize = 64;

/// A tool name: 1 to 64 bytes without control characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ToolName {
    text: [u8; MAX_LEN],
    len: usize,
}

impl ToolName {
    /// For dialects that ask without a tool; no tool has an empty name.
    pub(super) const NONE: ToolName = ToolName::from_static("");

    /// Returns `None` if `text` is empty, is too long or contains a control character.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_LEN || text.chars().any(char::is_control) {
            return None;
        }
        Some(Self::from_static(text))
    }

    pub(super) const fn from_static(text: &str) -> Self {
        let (mut name, from, mut at) = ([0; MAX_LEN], text.as_bytes(), 0);
        while at < from.len() {
            name[at] = from[at];
            at += 1;
        }
        ToolName { text: name, len: from.len() }
    }

    pub(crate) fn as_str(&self) -> &str {
        // The buffer was filled from a `&str` without truncation.
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_valid_tool_names_and_refuses_others() {
        let long = "x".repeat(MAX_LEN);
        for text in ["a", "确认操作", &long] {
            assert_eq!(ToolName::new(text).expect("a name").as_str(), text);
        }
        for text in ["", "a\nb", &format!("{long}x")] {
            assert_eq!(ToolName::new(text), None);
        }
    }
}
