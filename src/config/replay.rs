//! How long runs outlive their clients, and how much is kept of them.

use std::num::NonZeroUsize;
use std::time::Duration;

/// What becomes of a run when its last client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisconnect {
    /// It ends, and nothing is kept.
    Abort,
    /// It goes on for so long without anybody. Not zero.
    Continue(Duration),
}

/// Where runs are kept that outlive their clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayStoreKind {
    /// In each replica those that it runs.
    Memory,
    /// In Redis as well, where the other replicas find them.
    Redis,
}

/// How much is kept of runs for clients that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayConfig {
    /// The most runs.
    pub(crate) runs: NonZeroUsize,
    /// The most bytes of all of them. Not zero.
    pub(crate) bytes: usize,
    /// The most bytes of one. Not zero, and not more than `bytes`.
    pub(crate) run_bytes: usize,
    /// How long a run is kept behind its end. Not zero.
    pub(crate) age: Duration,
    /// Where. There is a Redis where it is in one.
    pub(crate) store: ReplayStoreKind,
}
