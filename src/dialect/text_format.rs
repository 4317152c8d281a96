//! Text formats.

/// The form of streamed text, and of text in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// the default: blocks for clients, because the client that HAI's document prints (§4.1) reads nothing else, and
    /// strings for agents (§3.2.2, `content?: string`)
    #[default]
    BySide,
    /// `"delta": "text"`
    String,
    /// `"delta": {"output": {"type": "text", "content": "text"}}`
    Blocks,
}

impl TextFormat {
    /// Returns the format for a client.
    pub(crate) fn for_client(self) -> Self {
        if self == TextFormat::BySide { TextFormat::Blocks } else { self }
    }
}
