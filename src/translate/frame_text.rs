//! Values in the text of a frame that may differ in the next one.

use std::ops::Range;

/// A scalar in the text of a JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonScalar<'a> {
    /// without quotes
    pub(super) range: Range<usize>,
    pub(super) is_text: bool,
    /// the name of the innermost member that has it
    pub(super) name: &'a str,
}

/// Returns the length of a JSON string up to its closing quote.
pub(super) fn string_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        if bytes[at + found] == b'"' {
            return at + found;
        }
        at += found + 2;
    }
    bytes.len()
}

/// Returns the length of text up to its closing quote, if it is valid and plain.
pub(super) fn text_length(rest: &str, has_escapes: bool) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut length = memchr::memchr2(b'"', b'\\', bytes)?;
    while bytes[length] == b'\\' {
        // `\u` may be half of a character.
        let is_simple =
            has_escapes && matches!(bytes.get(length + 1)?, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't');
        let next = is_simple.then_some(length + 2)?;
        length = next + memchr::memchr2(b'"', b'\\', bytes.get(next..)?)?;
    }
    let has_control = bytes[..length].iter().fold(false, |found, byte| found | (*byte < b' '));
    (!has_control && is_plain_text(&rest[..length])).then_some(length)
}

/// Returns false for text, still escaped, that the engine may look into: nothing, spaces alone, the text of a JSON
/// value, the end of an object, and braces that `hai` divides. Those that are escaped are never copied (`text_length`).
pub(super) fn is_plain_text(text: &str) -> bool {
    if memchr::memchr(b'}', text.as_bytes()).is_some() && (ends_object(text) || text.contains("}{")) {
        return false;
    }
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        match rest.as_bytes() {
            [b'\\', b'n' | b't' | b'r' | b'f', ..] => rest = &rest[2..],
            [] | [b'{' | b'[', ..] | [b'\\', b'"' | b'u', ..] => return false,
            [b'-' | b'0'..=b'9', ..] => {
                return !rest.bytes().all(|byte| b"0123456789+-.eE \\nrt".contains(&byte));
            }
            _ => return !["true", "false", "null"].iter().any(|value| rest.starts_with(value)),
        }
    }
}

/// Returns true for text that ends with a brace, or with one and white space.
fn ends_object(text: &str) -> bool {
    let mut rest = text.trim_end();
    while let Some(shorter) = [r"\n", r"\r", r"\t", r"\f"].iter().find_map(|space| rest.strip_suffix(space)) {
        rest = shorter.trim_end();
    }
    rest.ends_with('}')
}

/// Returns true for two whole numbers of one length that fit into any integer.
pub(super) fn is_same_number_form(one: &str, other: &str) -> bool {
    let is_whole = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    one.len() == other.len() && (1..=15).contains(&one.len()) && is_whole(one) && is_whole(other)
}

/// Pairs the scalars in which two JSON texts differ; `None` if they differ in anything else.
pub(super) fn differing_scalars<'a>(old: &'a str, new: &'a str) -> Option<Vec<(JsonScalar<'a>, JsonScalar<'a>)>> {
    let (before_scalars, after_scalars) = (scalars(old), scalars(new));
    let (mut old_at, mut new_at, mut differing) = (0, 0, Vec::new());
    if before_scalars.len() != after_scalars.len() {
        return None;
    }
    for (one, other) in before_scalars.into_iter().zip(after_scalars) {
        if old[old_at..one.range.start] != new[new_at..other.range.start] {
            return None;
        }
        (old_at, new_at) = (one.range.end, other.range.end);
        if old[one.range.clone()] != new[other.range.clone()] {
            differing.push((one, other));
        }
    }
    (old[old_at..] == new[new_at..]).then_some(differing)
}

/// Returns the strings and numbers of valid JSON, except the names of members.
fn scalars(text: &str) -> Vec<JsonScalar<'_>> {
    let (bytes, mut at, mut name, mut all) = (text.as_bytes(), 0, "", Vec::new());
    let mut outer_names = Vec::new();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = at + 1 + string_length(&bytes[at + 1..]);
                let range = at + 1..end.min(bytes.len());
                if text[range.end..].trim_start_matches(['"', ' ', '\t', '\n', '\r']).starts_with(':') {
                    name = &text[range.clone()];
                } else {
                    all.push(JsonScalar { range: range.clone(), is_text: true, name });
                }
                at = range.end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let end = at + bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                all.push(JsonScalar { range: at..end, is_text: false, name });
                at = end;
            }
            b'{' | b'[' => {
                outer_names.push(name);
                at += 1;
            }
            b'}' | b']' => {
                name = outer_names.pop().unwrap_or_default();
                at += 1;
            }
            _ => at += 1,
        }
    }
    all
}
