//! Bytes ⇄ frames ⇄ members: the two framings and the JSON payload, as independent parts.

pub mod json;
pub mod proto;
pub mod sse;

/// The framing of events in a body, independent of the dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// server-sent events, each the JSON text of an event
    #[default]
    Sse,
    /// frames of `application/vnd.ag-ui.event+proto`, which carry canonical events only
    Proto,
}

impl Framing {
    #[must_use]
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream",
            Framing::Proto => proto::MEDIA_TYPE,
        }
    }
}
