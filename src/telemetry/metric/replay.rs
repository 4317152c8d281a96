//! Metrics of runs that are kept for clients that come back.

use super::cell::{Counter, Gauge};
use super::table;
use crate::telemetry::label::EvictionReason;
use prometheus::Registry;
use std::sync::Arc;

/// The handles of runs that are kept.
#[derive(Clone, Debug)]
pub(crate) struct ReplayMetrics {
    runs: Gauge,
    bytes: Gauge,
    evictions: Arc<[Counter]>,
    followed: Gauge,
    backend_errors: Counter,
}

impl ReplayMetrics {
    /// Registers them; every series exists from then on.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let evictions = table::REPLAY_EVICTIONS.register(registry)?;
        Ok(ReplayMetrics {
            runs: table::REPLAY_RUNS.register_single(registry)?,
            bytes: table::REPLAY_BYTES.register_single(registry)?,
            evictions: EvictionReason::ALL.iter().map(|one| evictions.with_label_values(&[one.label()])).collect(),
            followed: table::REPLAY_FOLLOWED.register_single(registry)?,
            backend_errors: table::REPLAY_ERRORS.register_single(registry)?,
        })
    }

    /// Says how many runs are kept.
    pub(crate) fn set_runs(&self, count: usize) {
        self.runs.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says how much they take, in bytes.
    pub(crate) fn set_bytes(&self, bytes: usize) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a run that is kept no longer.
    pub(crate) fn inc_eviction(&self, reason: EvictionReason) {
        self.evictions[reason as usize].inc();
    }

    /// A run of another replica is read here.
    pub(crate) fn inc_followed(&self) {
        self.followed.inc();
    }

    /// It is not any more.
    pub(crate) fn dec_followed(&self) {
        self.followed.dec();
    }

    /// Counts a question that had no answer.
    pub(crate) fn inc_backend_error(&self) {
        self.backend_errors.inc();
    }
}
