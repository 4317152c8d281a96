//! Findings, and how they display external text.

use super::rule::Rule;
use crate::event::{Json, JsonType};
use std::fmt::Write as _;

/// A rule violated by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    /// from 1; the last line for a finding about the whole stream
    pub(crate) line: u64,
    /// from 1; 0 for a finding about the whole stream
    pub(crate) event: u64,
    /// the received `type`, sanitized
    pub(crate) kind: String,
    /// JSON Pointer to the member; empty for the event as a whole
    pub(crate) path: String,
    pub(crate) found: String,
}

/// Counts the events and findings of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifySummary {
    /// frames, or NDJSON lines
    pub(crate) events: u64,
    pub(crate) violations: u64,
    pub(crate) warnings: u64,
    /// events that only another dialect has
    pub(crate) foreign_events: u64,
    /// the dialect of the first of them
    pub(crate) looks_like: Option<&'static str>,
    /// the first violation; the client ignores everything after it
    pub(crate) first_violation: Option<(u64, Rule)>,
}

impl VerifySummary {
    /// Returns true if `@ag-ui/client` would accept the stream.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.violations == 0
    }
}

const MAX_TEXT_CHARS: usize = 60;

/// Shortens external text, and removes characters that move the cursor or change the writing direction.
pub(super) fn sanitize(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_TEXT_CHARS {
            out.push('…');
            break;
        }
        if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        {
            // Writing into a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

pub(super) fn describe(value: &Json<'_>) -> String {
    match value.json_type() {
        JsonType::Null => "null".to_owned(),
        JsonType::Bool => format!("the boolean {value}"),
        JsonType::Number => format!("the number {}", sanitize(value.as_str())),
        JsonType::String => format!("the string {}", sanitize(value.as_str())),
        JsonType::Array => "an array".to_owned(),
        JsonType::Object => "an object".to_owned(),
    }
}

/// Appends a token to a JSON Pointer (RFC 6901), shortened as external text.
pub(super) fn push_pointer_token(path: &mut String, name: &str) {
    path.push('/');
    path.push_str(&sanitize(name).replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_and_escapes_text_from_outside() {
        assert_eq!(sanitize("你好\u{1b}[2J\u{202e}x"), "你好\\u{1b}[2J\\u{202e}x");
        assert_eq!(sanitize(&"é".repeat(100)).chars().count(), MAX_TEXT_CHARS + 1);
        let mut path = String::new();
        push_pointer_token(&mut path, "a/b~c");
        assert_eq!(path, "/a~1b~0c");
    }
}
