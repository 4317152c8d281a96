//! Replay logs: the events of runs that outlive their client connections, for clients that reconnect.
//!
//! ```text
//!               insert ──▶ LogWriter ── write, finish ──▶ RunLog ──▶ LogReader (a response body), up to 16
//!   RunStore ──┤                                           │╰──────▶ LogMirror (a copy for other replicas)
//!               find ────▶ StoredRun ──────────────────────╯
//!                 ▲ evicted by age, number and bytes, once the run has ended
//! ```
//! A [`RunLog`] does not execute the run: the owner of its [`LogWriter`] feeds it, and readers find it in the [`RunStore`].
//! A run's key includes its caller, so the code that makes the keys decides who may read a run.

mod cursor;
mod log;
mod store;
mod replication;

pub(crate) use cursor::{Cursor, RunToken};
pub(crate) use log::{JoinError, LogReader, LogStopReason, LogWriter, ReadFrom, RunLog};
pub(crate) use replication::{
    ClaimResult, ReplicaSettings, ReplicatedRuns, ReplicationUnavailable, RunLookupError, RunQuery,
};
pub(crate) use store::{InsertOutcome, NewRun, ReplayKey, RunDescriptor, RunKeys, RunStore, StoredRun};
