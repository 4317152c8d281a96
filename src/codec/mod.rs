//! Bytes ⇄ frames ⇄ members: two framings and the JSON payload, independent of each other.

pub mod json;
pub(crate) mod percent;
pub mod proto;
pub(crate) mod repeated_keys;
pub mod sse;

/// The framing of events in a body.
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
