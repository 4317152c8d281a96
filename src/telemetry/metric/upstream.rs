//! What is counted about agents, by the upstream that the configuration names: never by an address that its name means.

use super::table;
use crate::telemetry::label::UpstreamOutcome;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::time::Duration;

/// The metrics of all upstreams.
#[derive(Debug)]
pub(super) struct Vectors {
    up: IntGaugeVec,
    ejections: IntCounterVec,
    none_fit: IntCounterVec,
    requests: IntCounterVec,
    connect: HistogramVec,
}

/// The handles of one upstream of one route.
#[derive(Debug)]
pub struct UpstreamMetrics {
    up: IntGauge,
    ejections: IntCounter,
    connect: Histogram,
    requests: Vec<IntCounter>,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            up: table::UPSTREAM_UP.register(registry)?,
            ejections: table::UPSTREAM_EJECTIONS.register(registry)?,
            none_fit: table::UPSTREAM_NONE_FIT.register(registry)?,
            requests: table::UPSTREAM_REQUESTS.register(registry)?,
            connect: table::UPSTREAM_CONNECT.register(registry)?,
        })
    }

    /// Resolves the handles of an upstream of a route; every series of it exists from then on.
    pub(super) fn upstream(&self, route: &str, upstream: &str) -> UpstreamMetrics {
        let requests = |one: &UpstreamOutcome| self.requests.with_label_values(&[upstream, one.label()]);
        UpstreamMetrics {
            up: self.up.with_label_values(&[route, upstream]),
            ejections: self.ejections.with_label_values(&[route, upstream]),
            connect: self.connect.with_label_values(&[upstream]),
            requests: UpstreamOutcome::ALL.iter().map(requests).collect(),
        }
    }

    /// Takes an upstream that is gone from a route out of the series that say how it is: nobody is asked there any more. What
    /// was counted stays.
    pub(super) fn forget(&self, route: &str, upstream: &str) {
        // A series that is not there need not be taken out.
        let _ = self.up.remove_label_values(&[route, upstream]);
    }

    /// The counter of runs of a route that found every upstream unfit.
    pub(super) fn none_fit(&self, route: &str) -> NoneFitCounter {
        NoneFitCounter(self.none_fit.with_label_values(&[route]))
    }
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
pub struct NoneFitCounter(IntCounter);

impl NoneFitCounter {
    /// Counts one.
    pub fn inc(&self) {
        self.0.inc();
    }
}
