//! Limits of runs that outlive their clients, and of the replay log.

use std::num::NonZeroUsize;
use std::time::Duration;

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

/// Limits of the replay log for clients that reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayConfig {
    /// The most runs.
    pub(crate) runs: NonZeroUsize,
    /// The most bytes of all of them. Not zero.
    pub(crate) bytes: usize,
    /// The most bytes of one. Not zero, and not more than `bytes`.
    pub(crate) run_bytes: usize,
    /// Time that a run is kept after its end. Not zero.
    pub(crate) age: Duration,
    /// The store. `redis` is configured if it is Redis.
    pub(crate) store: ReplayStoreKind,
}
