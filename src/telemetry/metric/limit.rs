//! Metrics of limits, by the name that the configuration gives them.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::series_lease::{SeriesLease, SeriesLeases};
use super::table;
use crate::telemetry::label::LimitDecision;
use prometheus::Registry;
use std::sync::Arc;

/// The metrics of all limits.
#[derive(Debug)]
pub(super) struct LimitFamilies {
    decisions: Family<Counter>,
    keys: Gauge,
    errors: Counter,
    leases: Arc<SeriesLeases>,
}

/// The handles of one limit.
#[derive(Debug)]
pub(crate) struct LimitMetrics {
    decisions: Vec<Counter>,
    _lease: SeriesLease,
}

impl LimitFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let decisions = table::RATE_LIMIT.register(registry)?;
        Ok(LimitFamilies {
            leases: SeriesLeases::new("policy", vec![Box::new(decisions.clone())]),
            decisions,
            keys: table::RATE_LIMIT_KEYS.register_single(registry)?,
            errors: table::RATE_LIMIT_ERRORS.register_single(registry)?,
        })
    }

    /// Resolves the handles of a limit; every series of it exists from then on, until they are let go.
    pub(super) fn limit(&self, policy: &str) -> LimitMetrics {
        let lease = self.leases.acquire(policy);
        let counter = |one: &LimitDecision| self.decisions.with_label_values(&[policy, one.label()]);
        LimitMetrics { decisions: LimitDecision::ALL.iter().map(counter).collect(), _lease: lease }
    }

    /// Says for how many callers limits are counted.
    pub(super) fn set_keys(&self, count: usize) {
        self.keys.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts that the shared quotas could not be asked.
    pub(super) fn inc_backend_error(&self) {
        self.errors.inc();
    }
}

impl LimitMetrics {
    /// Counts what became of a request.
    pub(crate) fn inc_decision(&self, decision: LimitDecision) {
        self.decisions[decision as usize].inc();
    }
}
