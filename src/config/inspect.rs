//! Settings for the inspector, which shows what both sides of a run said.

pub(crate) use super::file::InspectConfig;

/// What is captured of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureMode {
    /// Nothing.
    #[default]
    Off,
    /// The events of both sides.
    Events,
    /// The events, and both requests.
    Full,
}
