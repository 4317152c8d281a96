//! Assembles the pieces of the conversation for agents that send a text or the arguments of a call in one event.

use serde::de::IgnoredAny;

/// The pieces so far. Such an agent buffers a text of any length until it ends.
#[derive(Debug, Default)]
pub(super) struct TextAssembler {
    text: String,
    arguments: String,
}

impl TextAssembler {
    pub(super) fn push_text(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Returns the complete text.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Returns the arguments if this piece completes them, as JSON unchanged from the conversation.
    pub(super) fn push_arguments(&mut self, piece: &str) -> Option<String> {
        self.arguments.push_str(piece);
        let whole = serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok();
        whole.then(|| std::mem::take(&mut self.arguments))
    }
}
