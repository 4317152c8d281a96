//! Metrics of runs that are kept for clients that come back.

use super::cell::{Counter, Gauge};
use super::table;
use crate::telemetry::label::Eviction;
use prometheus::Registry;
use std::sync::Arc;

/// The handles of runs that are kept.
#[derive(Clone, Debug)]
pub struct ReplayMetrics {
    runs: Gauge,
    bytes: Gauge,
    evictions: Arc<[Counter]>,
    followed: Gauge,
    errors: Counter,
}

impl ReplayMetrics {
    /// Registers them; every series exists from then on.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let evictions = table::REPLAY_EVICTIONS.register(registry)?;
        Ok(ReplayMetrics {
            runs: table::REPLAY_RUNS.alone(registry)?,
            bytes: table::REPLAY_BYTES.alone(registry)?,
            evictions: Eviction::ALL.iter().map(|one| evictions.with(&[one.label()])).collect(),
            followed: table::REPLAY_FOLLOWED.alone(registry)?,
            errors: table::REPLAY_ERRORS.alone(registry)?,
        })
    }

    /// Says how many runs are kept.
    pub fn runs(&self, count: usize) {
        self.runs.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says how much they take, in bytes.
    pub fn bytes(&self, bytes: usize) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts a run that is kept no longer.
    pub fn evicted(&self, reason: Eviction) {
        self.evictions[reason as usize].inc();
    }

    /// A run of another replica is read here.
    pub fn follows(&self) {
        self.followed.inc();
    }

    /// It is not any more.
    pub fn left(&self) {
        self.followed.dec();
    }

    /// Counts a question that had no answer.
    pub fn unanswered(&self) {
        self.errors.inc();
    }
}
