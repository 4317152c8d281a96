//! What is counted about agents, by the upstream that the configuration names: never by an address that its name means.

use super::label::UpstreamOutcome;
use prometheus::{Histogram, IntCounter, IntGauge};
use std::time::Duration;

/// Bounds of the buckets of `diglot_upstream_connect_seconds`, in seconds: from a socket of this machine to the default
/// time-out of connecting and beyond.
pub(super) const CONNECT_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The handles of one upstream of one route.
#[derive(Debug)]
pub struct UpstreamMetrics {
    pub(super) up: IntGauge,
    pub(super) ejections: IntCounter,
    pub(super) connect: Histogram,
    pub(super) requests: Vec<IntCounter>,
}

impl UpstreamMetrics {
    /// Says whether runs are sent to it.
    pub fn up(&self, up: bool) {
        self.up.set(i64::from(up));
    }

    /// Counts that one of its addresses is left out for a while.
    pub fn ejected(&self) {
        self.ejections.inc();
    }

    /// Notes how long a new connection took, TLS included.
    pub fn connected(&self, took: Duration) {
        self.connect.observe(took.as_secs_f64());
    }

    /// Counts what became of a request.
    pub fn answered(&self, outcome: UpstreamOutcome) {
        self.requests[outcome as usize].inc();
    }
}

/// Counts runs of a route for which no upstream was fit to be asked.
#[derive(Debug)]
pub struct NoneFitCounter(pub(super) IntCounter);

impl NoneFitCounter {
    /// Counts one.
    pub fn inc(&self) {
        self.0.inc();
    }
}
