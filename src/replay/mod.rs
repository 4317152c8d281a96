//! Runs that outlive their clients: what each of them said, for whoever comes back.
//!
//! ```text
//!            enter ──▶ Writer ── write, end ──▶ Log ──▶ Reader, as many as come    (the body of an answer)
//!   Store ──┤                                    │╰───▶ Mirror                     (a copy elsewhere)
//!            find ───▶ Kept ─────────────────────╯
//!              ▲ evicted by age, number, bytes, once it has ended
//! ```
//! A [`Log`] has no run in it: whoever holds its [`Writer`] feeds it, and whoever finds it in the [`Store`] reads it. Whose a
//! run is, is said by the key that it is kept under; who makes the keys decides who may ask.

mod cursor;
mod log;
mod replication;
mod store;

pub(crate) use cursor::{Cursor, RunToken};
pub(crate) use log::{
    JoinError, LogLimits, LogMirror, LogReader, LogStopReason, LogWriter, MirrorEvent, ReadFrom, ReaderCutOff,
    ReaderResource, RunLog,
};
pub(crate) use replication::{
    ClaimResult, ReplicaSettings, ReplicatedRuns, ReplicationUnavailable, RunDescriptor, RunLookupError, RunQuery,
};
pub(crate) use store::{InsertOutcome, NewRun, ReplayKey, RunStore, StoredRun};
