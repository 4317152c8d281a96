//! Bytes ⇄ frames ⇄ members: the two framings and the JSON payload, as independent parts.

pub mod json;
pub mod proto;
pub mod sse;

/// The delimiting of events in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// server-sent events with JSON
    #[default]
    Sse,
    /// `application/vnd.ag-ui.event+proto`, for canonical events only
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
