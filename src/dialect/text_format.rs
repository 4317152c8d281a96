//! Text formats.

/// The form of streamed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// `"delta": "text"`
    #[default]
    String,
    /// `"delta": {"output": {"type": "text", "content": "text"}}`
    Blocks,
}
