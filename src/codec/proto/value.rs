//! JSON values as `google.protobuf.Value` and `Struct`, both ways, in one pass over the text.
//!
//! Numbers are doubles on this wire. A number is exact if its double prints the same digits; any other becomes the
//! nearest double, and the loss is reported.

use super::MessageError;
use super::json_buffer::JsonBuffer;
use super::wire::{self, FieldReader, WireValue};
use crate::codec::json::DEPTH_LIMIT;
use std::borrow::Cow;

/// Field numbers in `google.protobuf.Value`.
const NULL: u32 = 1;
const NUMBER: u32 = 2;
const STRING: u32 = 3;
const BOOL: u32 = 4;
const STRUCT: u32 = 5;
const LIST: u32 = 6;

/// Field numbers in `Struct`, `ListValue`, and `Struct` entries.
const ITEMS: u32 = 1;
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The largest integer up to which every integer is an exact double.
const MAX_EXACT_INTEGER: i64 = 1 << 53;

/// Appends `json` as a `Value`. Returns `false` if decoding would change it.
pub(super) fn write_value(out: &mut Vec<u8>, json: &str) -> bool {
    write(out, json, JsonScanner::write_value)
}

/// Appends an object as a `Struct`. Returns `false` if decoding would change it.
pub(super) fn write_struct(out: &mut Vec<u8>, json: &str) -> bool {
    write(out, json, JsonScanner::write_object)
}

fn write<'t>(
    out: &mut Vec<u8>,
    json: &'t str,
    part: impl FnOnce(&mut JsonScanner<'t>, &mut Vec<u8>, usize) -> Option<()>,
) -> bool {
    let start = out.len();
    let mut scanner = JsonScanner { text: json, position: 0, exact: true };
    if part(&mut scanner, out, 0).is_none() {
        // Remove an incomplete message.
        out.truncate(start);
        return false;
    }
    scanner.exact
}

/// Scans JSON text. Methods return `None` for invalid text, which leaves the output incomplete.
struct JsonScanner<'t> {
    text: &'t str,
    position: usize,
    exact: bool,
}

impl<'t> JsonScanner<'t> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.position) {
            self.position += 1;
        }
        bytes.get(self.position).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        if self.peek()? == byte {
            self.position += 1;
            return Some(());
        }
        None
    }

    /// Estimates the size of a message that begins here from the length of the remaining text.
    fn remaining(&self) -> usize {
        self.text.len() - self.position
    }

    fn write_value(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' => {
                let open = wire::begin_message(out, STRUCT, self.remaining());
                self.write_object(out, depth)?;
                wire::end_message(out, open);
            }
            b'[' => {
                let open = wire::begin_message(out, LIST, self.remaining());
                self.write_array(out, depth)?;
                wire::end_message(out, open);
            }
            b'"' => {
                let (text, exact) = unescape(self.scan_string()?);
                self.exact &= exact;
                wire::write_string(out, STRING, &text);
            }
            b'n' => {
                self.skip_literal("null")?;
                wire::write_number(out, NULL, 0);
            }
            b't' => {
                self.skip_literal("true")?;
                wire::write_number(out, BOOL, 1);
            }
            b'f' => {
                self.skip_literal("false")?;
                wire::write_number(out, BOOL, 0);
            }
            _ => {
                let (number, exact) = parse_double(self.scan_number())?;
                self.exact &= exact;
                wire::write_double(out, NUMBER, number);
            }
        }
        Some(())
    }

    fn write_object(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        if depth == DEPTH_LIMIT {
            return None;
        }
        self.skip(b'{')?;
        if self.peek()? == b'}' {
            return self.skip(b'}');
        }
        loop {
            self.peek()?;
            let entry = wire::begin_message(out, ITEMS, self.remaining());
            let (key, exact) = unescape(self.scan_string()?);
            self.exact &= exact;
            if !key.is_empty() {
                wire::write_string(out, KEY, &key);
            }
            self.skip(b':')?;
            let value = wire::begin_message(out, VALUE, self.remaining());
            self.write_value(out, depth + 1)?;
            wire::end_message(out, value);
            wire::end_message(out, entry);
            if self.peek()? != b',' {
                return self.skip(b'}');
            }
            self.position += 1;
        }
    }

    fn write_array(&mut self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        if depth == DEPTH_LIMIT {
            return None;
        }
        self.skip(b'[')?;
        if self.peek()? == b']' {
            return self.skip(b']');
        }
        loop {
            let value = wire::begin_message(out, ITEMS, self.remaining());
            self.write_value(out, depth + 1)?;
            wire::end_message(out, value);
            if self.peek()? != b',' {
                return self.skip(b']');
            }
            self.position += 1;
        }
    }

    fn skip_literal(&mut self, word: &str) -> Option<()> {
        self.text.get(self.position..)?.starts_with(word).then(|| self.position += word.len())
    }

    fn scan_number(&mut self) -> &'t str {
        let text: &'t str = self.text;
        let rest = &text.as_bytes()[self.position..];
        let length =
            rest.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
        let number = text.get(self.position..self.position + length).unwrap_or_default();
        self.position += length;
        number
    }

    fn scan_string(&mut self) -> Option<&'t str> {
        let text: &'t str = self.text;
        let start = self.position;
        if text.as_bytes().get(start) != Some(&b'"') {
            return None;
        }
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
            if text.as_bytes()[at] == b'"' {
                self.position = at + 1;
                return text.get(start..=at);
            }
            at += 2;
        }
    }
}

/// Resolves the escapes in a JSON string; returns `false` if a lone surrogate became U+FFFD, as in the real encoder.
pub(super) fn unescape(string: &str) -> (Cow<'_, str>, bool) {
    let inner = &string[1..string.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return (Cow::Borrowed(inner), true);
    }
    if let Ok(text) = serde_json::from_str::<String>(string) {
        return (Cow::Owned(text), true);
    }
    (Cow::Owned(serde_json::from_str::<String>(&replace_lone_surrogates(string)).unwrap_or_default()), false)
}

fn replace_lone_surrogates(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
        let length = match unit(rest) {
            Some(0xD800..=0xDBFF)
                if rest.get(6..).and_then(unit).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) =>
            {
                out.push_str(&rest[..12]);
                12
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str("\\ufffd");
                6
            }
            // The backslash escapes the next character, which may itself be a backslash.
            _ => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..length]);
                length
            }
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Returns the nearest double, and whether it prints the same digits.
#[expect(clippy::cast_precision_loss, reason = "the range was checked the line before")]
fn parse_double(text: &str) -> Option<(f64, bool)> {
    match text.parse::<i64>() {
        Ok(whole) if (-MAX_EXACT_INTEGER..=MAX_EXACT_INTEGER).contains(&whole) && text != "-0" => {
            Some((whole as f64, true))
        }
        _ => {
            let double: f64 = text.parse().ok()?;
            let mut printed = String::new();
            write_double(&mut printed, double);
            Some((double, printed == text))
        }
    }
}

/// Writes a double as `JSON.stringify` does, but keeps the sign of -0.
fn write_double(out: &mut String, double: f64) {
    use std::fmt::Write as _;
    let size = double.abs();
    // Writing into memory cannot fail.
    let _ = if !double.is_finite() {
        out.write_str("null")
    } else if size == 0.0 || (1e-6..1e21).contains(&size) {
        write!(out, "{double}")
    } else {
        let text = format!("{double:e}");
        out.write_str(&if size < 1.0 { text } else { text.replace('e', "e+") })
    };
}

/// Appends a `Value` as JSON. Returns `false` if it is empty.
pub(super) fn read_value(out: &mut JsonBuffer, bytes: &[u8], depth: usize) -> Result<bool, MessageError> {
    let mut last = (0, WireValue::Other);
    // Several pieces of the same kind are equivalent to one.
    let mut pieces = Vec::new();
    let mut fields = FieldReader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        let takes = match payload {
            WireValue::Varint(_) => matches!(number, NULL | BOOL),
            WireValue::Double(_) => number == NUMBER,
            WireValue::Bytes(_) => matches!(number, STRING | STRUCT | LIST),
            WireValue::Other => false,
        };
        if !takes {
            continue;
        }
        // "Setting any member of the oneof clears all the others; the last one wins", and messages merge.
        if number != last.0 || number == STRING {
            pieces.clear();
        }
        last = (number, payload);
        if let WireValue::Bytes(piece) = payload {
            pieces.push(piece);
        }
    }
    match last {
        (NULL, _) => out.push("null")?,
        (BOOL, WireValue::Varint(value)) => out.push(if value == 0 { "false" } else { "true" })?,
        (NUMBER, WireValue::Double(double)) => {
            let mut text = String::new();
            write_double(&mut text, double);
            out.push(&text)?;
        }
        (STRING, WireValue::Bytes(text)) => out.string(parse_utf8(text)?)?,
        (STRUCT, _) => read_struct(out, &join_pieces(&pieces), depth)?,
        (LIST, _) => read_list(out, &join_pieces(&pieces), depth)?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(super) fn read_struct(out: &mut JsonBuffer, bytes: &[u8], depth: usize) -> Result<(), MessageError> {
    let depth = next_depth(depth)?;
    out.push("{")?;
    let mut first = true;
    let mut fields = FieldReader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        let (ITEMS, WireValue::Bytes(entry)) = (number, payload) else { continue };
        let mut key = "";
        let mut values = Vec::new();
        let mut parts = FieldReader::new(entry);
        while let Some((number, payload)) = parts.next()? {
            match (number, payload) {
                (KEY, WireValue::Bytes(text)) => key = parse_utf8(text)?,
                (VALUE, WireValue::Bytes(value)) => values.push(value),
                _ => {}
            }
        }
        // An entry with an empty value is omitted.
        let before = out.len();
        out.push(if first { "" } else { "," })?;
        out.string(key)?;
        out.push(":")?;
        if read_value(out, &join_pieces(&values), depth)? {
            first = false;
        } else {
            out.truncate(before);
        }
    }
    out.push("}")
}

fn read_list(out: &mut JsonBuffer, bytes: &[u8], depth: usize) -> Result<(), MessageError> {
    let depth = next_depth(depth)?;
    out.push("[")?;
    let mut first = true;
    let mut fields = FieldReader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        let (ITEMS, WireValue::Bytes(value)) = (number, payload) else { continue };
        out.push(if std::mem::take(&mut first) { "" } else { "," })?;
        // An empty value in a list becomes null, to keep its position.
        if !read_value(out, value, depth)? {
            out.push("null")?;
        }
    }
    out.push("]")
}

pub(super) fn next_depth(depth: usize) -> Result<usize, MessageError> {
    if depth < DEPTH_LIMIT { Ok(depth + 1) } else { Err(MessageError::Depth) }
}

/// Concatenates the pieces of a message, which is how protobuf merges them.
pub(super) fn join_pieces<'a>(pieces: &[&'a [u8]]) -> Cow<'a, [u8]> {
    match pieces {
        [] => Cow::Borrowed(&[]),
        [piece] => Cow::Borrowed(piece),
        _ => Cow::Owned(pieces.concat()),
    }
}

/// Fails on invalid UTF-8: "A string must always contain UTF-8 encoded text" (proto3).
pub(super) fn parse_utf8(bytes: &[u8]) -> Result<&str, MessageError> {
    std::str::from_utf8(bytes).map_err(|_| MessageError::Utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(json: &str) -> (String, bool) {
        let mut bytes = Vec::new();
        let exact = write_value(&mut bytes, json);
        let mut out = JsonBuffer::new(usize::MAX);
        assert!(read_value(&mut out, &bytes, 0).expect("what was written is read"), "{json}");
        (out.into_string(), exact)
    }

    #[test]
    fn round_trips_values() {
        for json in [
            "null",
            "true",
            "[]",
            "{}",
            r#"{"":"","a":[null,false,{"b":[[1,-2.5]]}],"你":"\"\n"}"#,
            "0",
            "-0",
            "9007199254740992",
            "1152921504606847000",
            "0.1",
            "1e+21",
            "1.5e-7",
            "5e-324",
            "1.7976931348623157e+308",
        ] {
            assert_eq!(round_trip(json), (json.to_owned(), true));
        }
        assert_eq!(round_trip(r#" [ "\u4f60\ud83d\ude00" , 1 ] "#), ("[\"你😀\",1]".to_owned(), true));
    }

    #[test]
    fn reports_values_that_a_struct_cannot_hold_exactly() {
        for (json, read) in [
            ("9007199254740993", "9007199254740992"),
            ("1.10", "1.1"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("1e400", "null"),
            ("1e21", "1e+21"),
            (r#""a\ud800\\\ude00b\ud83d\ude00""#, "\"a\u{fffd}\\\\\u{fffd}b😀\""),
            (r#"{"\udfff":1}"#, "{\"\u{fffd}\":1}"),
        ] {
            assert_eq!(round_trip(json), (read.to_owned(), false), "{json}");
        }
    }

    #[test]
    fn rejects_text_that_is_not_json() {
        for json in ["", "[1", "{\"a\"}", "{\"a\":}", "nul", "\"a", "{1:2}", "\"\\", "x"] {
            assert!(!write_value(&mut Vec::new(), json), "{json}");
        }
    }

    #[test]
    fn takes_the_last_kind_and_merges_repeated_lists() {
        let read = |bytes: &[u8]| {
            let mut out = JsonBuffer::new(usize::MAX);
            read_value(&mut out, bytes, 0).map(|done| done.then(|| out.into_string()))
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[0x08, 0, 0x20, 1]), Ok(Some("true".to_owned())));
        let list = |value: &[u8]| {
            let mut list = Vec::new();
            let open = wire::begin_message(&mut list, LIST, 0);
            let item = wire::begin_message(&mut list, ITEMS, 0);
            list.extend_from_slice(value);
            wire::end_message(&mut list, item);
            wire::end_message(&mut list, open);
            list
        };
        assert_eq!(read(&[list(&[0x20, 1]), list(&[])].concat()), Ok(Some("[true,null]".to_owned())));
        assert_eq!(read(&[0x1a, 1, 0xff]), Err(MessageError::Utf8));
    }

    #[test]
    fn limits_nesting_when_reading_and_writing() {
        let json = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(round_trip(&json(DEPTH_LIMIT)).1);
        assert!(!write_value(&mut Vec::new(), &json(DEPTH_LIMIT + 1)));
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            let mut outer = Vec::new();
            let open = wire::begin_message(&mut outer, LIST, bytes.len());
            let value = wire::begin_message(&mut outer, ITEMS, bytes.len());
            outer.extend_from_slice(&bytes);
            wire::end_message(&mut outer, value);
            wire::end_message(&mut outer, open);
            bytes = outer;
        }
        assert_eq!(read_value(&mut JsonBuffer::new(usize::MAX), &bytes, 0), Err(MessageError::Depth));
    }
}
