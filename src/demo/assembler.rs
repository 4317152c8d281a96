//! What agents gather that say a text or the arguments of a call whole, while the conversation gives them in pieces.

use serde::de::IgnoredAny;

/// The pieces that have come so far. A text of any length is held until it ends: that is what such an agent does.
#[derive(Debug, Default)]
pub(super) struct TextAssembler {
    text: String,
    arguments: String,
}

impl TextAssembler {
    /// The next piece of the text.
    pub(super) fn push_text(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// The text, now that it ends.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// The arguments, when this piece completes them: JSON as the conversation spells it.
    pub(super) fn push_arguments(&mut self, piece: &str) -> Option<String> {
        self.arguments.push_str(piece);
        let whole = serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok();
        whole.then(|| std::mem::take(&mut self.arguments))
    }
}
