//! Metrics of limits, by the name that the configuration gives them.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::lease::{Lease, Leases};
use super::table;
use crate::telemetry::label::Decision;
use prometheus::Registry;
use std::sync::Arc;

/// The metrics of all limits.
#[derive(Debug)]
pub(super) struct Vectors {
    decisions: Family<Counter>,
    keys: Gauge,
    errors: Counter,
    leases: Arc<Leases>,
}

/// The handles of one limit.
#[derive(Debug)]
pub struct LimitMetrics {
    decisions: Vec<Counter>,
    _lease: Lease,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let decisions = table::RATE_LIMIT.register(registry)?;
        Ok(Vectors {
            leases: Leases::new("policy", vec![Box::new(decisions.clone())]),
            decisions,
            keys: table::RATE_LIMIT_KEYS.alone(registry)?,
            errors: table::RATE_LIMIT_ERRORS.alone(registry)?,
        })
    }

    /// Resolves the handles of a limit; every series of it exists from then on, until they are let go.
    pub(super) fn limit(&self, policy: &str) -> LimitMetrics {
        let lease = self.leases.lease(policy);
        let counter = |one: &Decision| self.decisions.with(&[policy, one.label()]);
        LimitMetrics { decisions: Decision::ALL.iter().map(counter).collect(), _lease: lease }
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
        self.decisions[decision as usize].inc();
    }
}
