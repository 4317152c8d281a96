//! JSON values kept as text: the form in which an event's members travel.
//!
//! A member that no rule inspects leaves the gateway byte for byte as it arrived, so numbers keep their digits, strings
//! their escapes (lone surrogates included) and objects their order. `Json` borrows such text from its frame until it
//! has to change.

use super::heap_size;
use std::borrow::Cow;
use std::fmt;

/// The largest integer that a JavaScript client represents exactly.
pub(crate) const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// A JSON value as well-formed text without surrounding whitespace.
#[derive(Debug, Eq)]
pub struct Json<'a>(Cow<'a, str>);

/// The type of a JSON value, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Clone for Json<'_> {
    fn clone(&self) -> Self {
        Json::from_trusted(self.0.clone())
    }
}

impl PartialEq for Json<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        super::work::count_step();
        self.0 == other.0
    }
}

impl<'a> Json<'a> {
    pub(crate) const NULL: Json<'static> = Json(Cow::Borrowed("null"));

    pub(crate) const EMPTY_STRING: Json<'static> = Json(Cow::Borrowed("\"\""));

    /// Wraps text that a JSON parser has accepted.
    #[must_use]
    pub(crate) fn from_trusted(text: impl Into<Cow<'a, str>>) -> Self {
        let value = Json(text.into());
        #[cfg(test)]
        value.count_work();
        value
    }

    /// Returns the memory of the text, if it is not borrowed.
    pub(crate) fn heap_size(&self) -> usize {
        match &self.0 {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => heap_size::allocation_size(text.capacity()),
        }
    }

    #[cfg(test)]
    fn count_work(&self) {
        super::work::count_step();
        if let Cow::Owned(text) = &self.0 {
            super::work::count_new_value(text.len());
        }
    }

    #[must_use]
    pub(crate) fn string(text: &str) -> Json<'static> {
        if needs_no_escape(text) {
            return Json(Cow::Owned(["\"", text, "\""].concat()));
        }
        // Writing a string into memory cannot fail.
        Json(Cow::Owned(serde_json::to_string(text).unwrap_or_default()))
    }

    /// Returns the value's JSON text as a string; strings stay unchanged.
    #[must_use]
    pub(crate) fn to_string_value(&self) -> Json<'static> {
        if self.json_type() == JsonType::String { self.clone().into_owned() } else { Json::string(&self.0) }
    }

    /// Turns the value into a string as [`Json::to_string_value`] does.
    #[must_use]
    pub(crate) fn into_string_value(self) -> Json<'a> {
        if self.json_type() == JsonType::String { self } else { Json::string(&self.0) }
    }

    /// Returns a string without its quotes, and any other value unchanged.
    #[must_use]
    pub(crate) fn unquoted(&self) -> &str {
        if self.json_type() == JsonType::String { &self.0[1..self.0.len() - 1] } else { &self.0 }
    }

    /// Appends to a string, keeping its escapes. Other values are converted to text first.
    #[must_use]
    pub(crate) fn with_suffix(&self, more: &str) -> Json<'static> {
        match self.json_type() {
            JsonType::String => Json::from_trusted([&self.0[..self.0.len() - 1], more, "\""].concat()),
            _ => Json::string(&format!("{}{more}", self.0)),
        }
    }

    /// Appends to a string in place, keeping its escapes; another value becomes a string.
    pub(crate) fn push_suffix(&mut self, more: &str) {
        if self.json_type() != JsonType::String {
            *self = Json::string(&self.0);
        }
        let text = self.0.to_mut();
        text.pop();
        text.push_str(more);
        text.push('"');
    }

    /// Compares strings with escapes resolved, and other values by their text.
    #[must_use]
    pub(crate) fn is_same(&self, other: &Json<'_>) -> bool {
        self == other || (self.json_type() == JsonType::String && self.may_equal(other) && self.text() == other.text())
    }

    /// Returns false for strings that differ in length by more than escapes can explain, so that long ids are not
    /// searched for escapes again and again. `\u0041` is six bytes for one.
    fn may_equal(&self, other: &Json<'_>) -> bool {
        const LONGEST_ESCAPE: usize = 6;
        let (own, other) = (self.unquoted().len(), other.unquoted().len());
        own <= other * LONGEST_ESCAPE && other <= own * LONGEST_ESCAPE
    }

    #[must_use]
    pub(crate) fn integer(number: i64) -> Json<'static> {
        Json(Cow::Owned(number.to_string()))
    }

    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text if it is borrowed from the frame.
    #[must_use]
    pub(crate) fn source(&self) -> Option<&'a str> {
        match self.0 {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    #[must_use]
    pub(crate) fn json_type(&self) -> JsonType {
        match self.0.as_bytes().first() {
            Some(b'"') => JsonType::String,
            Some(b'{') => JsonType::Object,
            Some(b'[') => JsonType::Array,
            Some(b't' | b'f') => JsonType::Bool,
            Some(b'n') | None => JsonType::Null,
            Some(_) => JsonType::Number,
        }
    }

    #[must_use]
    pub(crate) fn is_null(&self) -> bool {
        self.json_type() == JsonType::Null
    }

    /// Returns the characters of a string, and `None` for other values.
    ///
    /// A string with invalid escapes (a lone surrogate) keeps its raw content, which is enough to compare ids.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        if self.json_type() != JsonType::String {
            return None;
        }
        #[cfg(test)]
        super::work::count_step();
        let inner = self.unquoted();
        if !has_escapes(inner) {
            return Some(Cow::Borrowed(inner));
        }
        Some(serde_json::from_str::<String>(&self.0).map_or(Cow::Borrowed(inner), Cow::Owned))
    }

    /// Returns true for a string with escapes.
    #[must_use]
    pub(crate) fn has_escapes(&self) -> bool {
        self.json_type() == JsonType::String && has_escapes(self.unquoted())
    }

    #[must_use]
    pub(crate) fn is_str(&self, text: &str) -> bool {
        match self.json_type() {
            // Every escape stands for a character.
            JsonType::String if text.is_empty() => self.0.len() == Json::EMPTY_STRING.0.len(),
            JsonType::String => self.text().is_some_and(|own| own == text),
            _ => false,
        }
    }

    #[must_use]
    pub(crate) fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok().or_else(|| parse_integral(&self.0))
    }

    #[must_use]
    pub(crate) fn as_borrowed(&self) -> Json<'_> {
        Json(Cow::Borrowed(&self.0))
    }

    #[must_use]
    pub(crate) fn into_owned(self) -> Json<'static> {
        Json(Cow::Owned(self.0.into_owned()))
    }
}

/// Returns true if text is the content of a JSON string as it is.
pub(crate) fn needs_no_escape(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

/// Returns true if the content of a string has an escape.
fn has_escapes(inner: &str) -> bool {
    // For an id or a word, the call of a fast search costs more than the search.
    const SHORT: usize = 16;
    match inner.len() {
        ..=SHORT => inner.bytes().any(|byte| byte == b'\\'),
        _ => memchr::memchr(b'\\', inner.as_bytes()).is_some(),
    }
}

/// Parses an integer that is written with decimals or an exponent: `1.0` and `1e3` are integers, as in JavaScript.
fn parse_integral(text: &str) -> Option<i64> {
    let number = text.parse::<f64>().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "checked: no fraction, and exact in a double")]
    (number.fract() == 0.0 && number.abs() <= SAFE_INTEGER as f64).then_some(number as i64)
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_unescapes_but_keeps_lone_surrogates() {
        assert_eq!(Json::from_trusted(r#""a""#).text().as_deref(), Some("a"));
        assert_eq!(Json::from_trusted(r#""\u4f60\n""#).text().as_deref(), Some("你\n"));
        assert_eq!(Json::from_trusted(r#""\ud800x""#).text().as_deref(), Some("\\ud800x"));
        assert_eq!(Json::from_trusted("12").text(), None);
    }

    #[test]
    fn string_escapes_what_json_forbids() {
        assert_eq!(Json::string("a\"\n你").as_str(), "\"a\\\"\\n你\"");
        for byte in 0..=0x7f_u8 {
            let text = format!("你{}", char::from(byte));
            assert_eq!(Json::string(&text).as_str(), serde_json::to_string(&text).expect("a string"));
        }
    }

    #[test]
    fn strings_are_the_same_with_escapes_resolved() {
        let of = |raw: &str| Json::from_trusted(format!("\"{raw}\""));
        for (own, other) in [(r"\u0041", "A"), (r"\ud83d\ude00", "😀"), (r"\n", r"\u000a"), ("", ""), (r"\/", "/")] {
            assert!(of(own).is_same(&of(other)) && of(other).is_same(&of(own)), "{own} {other}");
        }
        for (own, other) in [(r"\\u0041", "A"), ("", "A"), ("AAAAAAA", "A"), (r"\ud800", "A"), ("1", "")] {
            assert!(!of(own).is_same(&of(other)) && !of(other).is_same(&of(own)), "{own} {other}");
        }
        assert!(!of("1").is_same(&Json::integer(1)) && Json::integer(1).is_same(&Json::integer(1)));
        assert!(of("").is_str("") && !of(r"\u0000").is_str("") && !Json::NULL.is_str(""));
    }
}
