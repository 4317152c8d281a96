//! What is reported, and how outside text stands in it.

use super::rule::Rule;
use crate::event::{Json, Type};
use std::fmt::Write as _;

/// One rule that one event breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// which rule
    pub rule: Rule,
    /// line of the input, from 1: the event's first `data:` line, or the last line for what concerns the whole stream
    pub line: u64,
    /// number of the event, from 1; 0 for what concerns the whole stream
    pub event: u64,
    /// its `type` as it came, cut and without control characters; empty where it has none
    pub kind: String,
    /// JSON Pointer to the member; empty for the event as a whole
    pub path: String,
    /// what was found, in words
    pub found: String,
}

/// Characters of an outside text that a finding shows.
const SHOWN: usize = 60;

/// An outside text as a report may show it: cut, and with nothing that moves the cursor or turns the writing direction.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == SHOWN {
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

/// A value in words.
pub(super) fn described(value: &Json<'_>) -> String {
    match value.shape() {
        Type::Null => "null".to_owned(),
        Type::Bool => format!("the boolean {value}"),
        Type::Number => format!("the number {}", shown(value.as_str())),
        Type::String => format!("the text {}", shown(value.as_str())),
        Type::Array => "an array".to_owned(),
        Type::Object => "an object".to_owned(),
    }
}

/// Appends one step to a JSON Pointer (RFC 6901), cut like every outside text.
pub(super) fn step(path: &mut String, name: &str) {
    path.push('/');
    path.push_str(&shown(name).replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_text_is_cut_and_cannot_write_to_a_terminal() {
        assert_eq!(shown("你好\u{1b}[2J\u{202e}x"), "你好\\u{1b}[2J\\u{202e}x");
        assert_eq!(shown(&"é".repeat(100)).chars().count(), SHOWN + 1);
        let mut path = String::new();
        step(&mut path, "a/b~c");
        assert_eq!(path, "/a~1b~0c");
    }
}
