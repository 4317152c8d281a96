//! Limits of runs that outlive their clients, and of the replay log.

use std::time::Duration;

pub(crate) use super::file::ReplayConfig;

/// The policy for a run when its last client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisconnect {
    /// It ends, and nothing is kept.
    Abort,
    /// It goes on for so long without anybody. Not zero.
    Continue(Duration),
}

/// The store for runs that outlive their clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayStoreKind {
    /// In each replica those that it runs.
    Memory,
    /// In Redis as well, where the other replicas find them.
    Redis,
}
