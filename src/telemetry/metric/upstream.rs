//! What is counted about agents, by the upstream that the configuration names: never by an address that its name means.

use super::cell::{Counter, Gauge, Histogram};
use super::family::{Family, ForgetSeries};
use super::series_lease::{SeriesLease, SeriesLeases};
use super::table;
use crate::telemetry::label::UpstreamOutcome;
use prometheus::Registry;
use std::sync::Arc;
use std::time::Duration;

/// The metrics of all upstreams.
#[derive(Debug)]
pub(super) struct UpstreamFamilies {
    up: Family<Gauge>,
    ejections: Family<Counter>,
    no_healthy: Family<Counter>,
    requests: Family<Counter>,
    connect: Family<Histogram>,
    leases: Arc<SeriesLeases>,
}

/// The handles of one upstream of one route.
#[derive(Debug)]
pub struct UpstreamMetrics {
    up: Gauge,
    ejections: Counter,
    connect: Histogram,
    requests: Vec<Counter>,
    /// of the upstream, and of its route
    _leases: [SeriesLease; 2],
}

impl UpstreamFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let requests = table::UPSTREAM_REQUESTS.register(registry)?;
        let connect = table::UPSTREAM_CONNECT.register(registry)?;
        let own = vec![Box::new(requests.clone()) as _, Box::new(connect.clone()) as _];
        Ok(UpstreamFamilies {
            up: table::UPSTREAM_UP.register(registry)?,
            ejections: table::UPSTREAM_EJECTIONS.register(registry)?,
            no_healthy: table::UPSTREAM_NO_HEALTHY.register(registry)?,
            requests,
            connect,
            leases: SeriesLeases::new("upstream", own),
        })
    }

    /// What of it lasts as long as its route.
    pub(super) fn route_scoped_families(&self) -> [Box<dyn ForgetSeries>; 3] {
        [Box::new(self.up.clone()), Box::new(self.ejections.clone()), Box::new(self.no_healthy.clone())]
    }

    /// Resolves the handles of an upstream of a route; every series of it exists from then on, until they are let go.
    pub(super) fn upstream(&self, lease: SeriesLease, route: &str, upstream: &str) -> UpstreamMetrics {
        let leases = [self.leases.acquire(upstream), lease];
        let requests = |one: &UpstreamOutcome| self.requests.with_label_values(&[upstream, one.label()]);
        UpstreamMetrics {
            up: self.up.with_label_values(&[route, upstream]),
            ejections: self.ejections.with_label_values(&[route, upstream]),
            connect: self.connect.with_label_values(&[upstream]),
            requests: UpstreamOutcome::ALL.iter().map(requests).collect(),
            _leases: leases,
        }
    }

    /// Takes an upstream that is gone from a route out of the series that say how it is: nobody is asked there any more. What
    /// was counted stays until the last run there has ended.
    pub(super) fn forget(&self, route: &str, upstream: &str) {
        self.up.remove(&[route, upstream]);
    }

    /// The counter of runs of a route that found every upstream unfit.
    pub(super) fn no_healthy_upstream(&self, lease: SeriesLease, route: &str) -> NoHealthyUpstreamCounter {
        NoHealthyUpstreamCounter { count: self.no_healthy.with_label_values(&[route]), _lease: lease }
    }
}

impl UpstreamMetrics {
    /// Says whether runs are sent to it.
    pub(crate) fn set_up(&self, up: bool) {
        self.up.set(i64::from(up));
    }

    /// Counts that one of its addresses is left out for a while.
    pub(crate) fn inc_ejection(&self) {
        self.ejections.inc();
    }

    /// Notes how long a new connection took, TLS included.
    pub(crate) fn observe_connect(&self, took: Duration) {
        self.connect.observe(took);
    }

    /// Counts what became of a request.
    pub(crate) fn inc_outcome(&self, outcome: UpstreamOutcome) {
        self.requests[outcome as usize].inc();
    }
}

/// Counts runs of a route for which no upstream was fit to be asked.
#[derive(Debug)]
pub struct NoHealthyUpstreamCounter {
    count: Counter,
    _lease: SeriesLease,
}

impl NoHealthyUpstreamCounter {
    /// Counts one.
    pub(crate) fn inc(&self) {
        self.count.inc();
    }
}
