//! The steps of a run, as far as its translator sees them.

use crate::codec::Framing;

/// Something that changed the state of the run's translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptureStep {
    /// the response of the agent began, in this framing
    Responded(Framing),
    /// the stream outlives the run and is read for this run id alone
    Followed(Option<Box<str>>),
    /// so many bytes of the body
    Read(usize),
    /// another connection continues the body
    Reconnected,
    /// the body ended
    BodyEnded,
    /// the gateway ended the run with this code and message
    Failed(Box<(String, String)>),
    /// the run was stopped on purpose
    Cancelled,
}

impl CaptureStep {
    /// Returns how many bytes of the agent's body belong to the step.
    pub(super) const fn body_length(&self) -> usize {
        match self {
            CaptureStep::Read(bytes) => *bytes,
            _ => 0,
        }
    }

    /// Returns the memory of the texts of the step.
    pub(super) fn text_bytes(&self) -> usize {
        match self {
            CaptureStep::Followed(run_id) => run_id.as_ref().map_or(0, |id| id.len()),
            CaptureStep::Failed(failure) => size_of_val(&**failure) + failure.0.capacity() + failure.1.capacity(),
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    /// since the epoch
    pub(super) now_ms: i64,
    pub(super) step: CaptureStep,
}
