//! Replay logs: events of runs that continue when their clients disconnect, for clients that reconnect.
//!
//! ```text
//!               insert ──▶ LogWriter ── write, finish ──▶ RunLog ──▶ LogReader (a response body), up to 16
//!   RunStore ──┤                                           │╰──────▶ LogMirror (a copy for other replicas)
//!               find ────▶ StoredRun ──────────────────────╯
//!                 ▲ evicted by age, number and bytes, once the run has ended; a running one loses its log for bytes
//! ```
//! The run writes events through its [`LogWriter`]; readers find the [`RunLog`] in the [`RunStore`]. Keys include the
//! caller, so that callers can read only their own runs.

mod cursor;
mod store_bytes;
mod log;
mod store;
mod replication;

pub(crate) use cursor::{Cursor, RunToken};
pub(crate) use log::{JoinError, LogReader, LogStopReason, LogWriter, ReadFrom, RunLog};
pub(crate) use replication::{
    ClaimResult, ReplicaSettings, ReplicatedRuns, ReplicationUnavailable, RunLookupError, RunQuery,
};
pub(crate) use store::{
    InsertOutcome, NewRun, ReplayKey, RunDescriptor, RunKeys, RunStore, StoredRun, excess_over_one_entry,
};
