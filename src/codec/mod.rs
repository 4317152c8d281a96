//! Bytes ⇄ frames ⇄ members: the two framings and the JSON payload, as independent parts.

pub mod json;
pub mod proto;
pub mod sse;

/// How events stand in a body, whatever dialect they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// server-sent events, each the JSON text of an event
    #[default]
    Sse,
    /// frames of `application/vnd.ag-ui.event+proto`, which say canonical events only
    Proto,
}

impl Framing {
    /// The media type of such a body.
    #[must_use]
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Framing::Sse => "text/event-stream",
            Framing::Proto => proto::MEDIA_TYPE,
        }
    }
}
