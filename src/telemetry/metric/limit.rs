//! Metrics of limits, by the name that the configuration gives them.

use super::table;
use crate::telemetry::label::Decision;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};

/// The metrics of all limits.
#[derive(Debug)]
pub(super) struct Vectors {
    decisions: IntCounterVec,
    keys: IntGauge,
    errors: IntCounter,
}

/// The handles of one limit.
#[derive(Debug)]
pub struct LimitMetrics(Vec<IntCounter>);

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            decisions: table::RATE_LIMIT.register(registry)?,
            keys: table::RATE_LIMIT_KEYS.register(registry)?,
            errors: table::RATE_LIMIT_ERRORS.register(registry)?,
        })
    }

    /// Resolves the handles of a limit; every series of it exists from then on.
    pub(super) fn limit(&self, policy: &str) -> LimitMetrics {
        let counter = |one: &Decision| self.decisions.with_label_values(&[policy, one.label()]);
        LimitMetrics(Decision::ALL.iter().map(counter).collect())
    }

    /// Says for how many callers limits are counted.
    pub(super) fn counted(&self, count: usize) {
        self.keys.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts that the shared quotas could not be asked.
    pub(super) fn backend_error(&self) {
        self.errors.inc();
    }
}

impl LimitMetrics {
    /// Counts what became of a request.
    pub fn decided(&self, decision: Decision) {
        self.0[decision as usize].inc();
    }
}
