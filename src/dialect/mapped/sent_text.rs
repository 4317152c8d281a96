//! The part of a text that was sent, for a text that may come again as a whole.

use crate::event::Json;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

/// Length and hash of the text that was sent. The hash costs nothing to keep, the text would.
#[derive(Clone, Debug, Default)]
pub(super) struct SentText {
    length: usize,
    hasher: DefaultHasher,
}

impl SentText {
    pub(super) fn add(&mut self, text: &str) {
        self.length += text.len();
        self.hasher.write(text.as_bytes());
    }

    /// Returns what the whole text has beyond what was sent; `None` if it begins differently.
    pub(super) fn find_new<'t>(&self, whole: &'t str) -> Option<&'t str> {
        let (sent, new) = whole.split_at_checked(self.length)?;
        let mut hasher = DefaultHasher::new();
        hasher.write(sent.as_bytes());
        (hasher.finish() == self.hasher.finish()).then_some(new)
    }
}

/// Returns a value as text: a string's characters, or the JSON text of another value.
pub(super) fn text_of<'t>(value: &'t Json<'_>) -> Cow<'t, str> {
    value.text().unwrap_or(Cow::Borrowed(value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_whole_text_adds() {
        let mut sent = SentText::default();
        assert_eq!(sent.find_new("你好"), Some("你好"));
        sent.add("你");
        sent.add("好");
        let rows =
            [("你好", Some("")), ("你好!", Some("!")), ("你", None), ("您好!", None), ("", None), ("abc你", None)];
        for (whole, expected) in rows {
            assert_eq!(sent.find_new(whole), expected, "{whole}");
        }
    }
}
