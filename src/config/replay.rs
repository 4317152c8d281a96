//! Settings for runs that outlive their clients, and for the replay log.

use std::time::Duration;

pub(crate) use super::file::ReplayConfig;

/// The policy for a run whose last client disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisconnect {
    /// The run ends and cannot be resumed.
    Abort,
    /// The run continues without clients for this time. Not zero.
    Continue(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayStoreKind {
    /// Each replica stores its own runs.
    Memory,
    /// Redis stores the runs, so any replica can resume them.
    Redis,
}
