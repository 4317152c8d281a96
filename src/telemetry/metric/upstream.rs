//! What is counted about agents, by the upstream that the configuration names: never by an address that its name means.

use super::cell::{Counter, Gauge, Histogram};
use super::family::{Family, Forget};
use super::lease::{Lease, Leases};
use super::table;
use crate::telemetry::label::UpstreamOutcome;
use prometheus::Registry;
use std::sync::Arc;
use std::time::Duration;

/// The metrics of all upstreams.
#[derive(Debug)]
pub(super) struct Vectors {
    up: Family<Gauge>,
    ejections: Family<Counter>,
    none_fit: Family<Counter>,
    requests: Family<Counter>,
    connect: Family<Histogram>,
    leases: Arc<Leases>,
}

/// The handles of one upstream of one route.
#[derive(Debug)]
pub struct UpstreamMetrics {
    up: Gauge,
    ejections: Counter,
    connect: Histogram,
    requests: Vec<Counter>,
    /// of the upstream, and of its route
    _leases: [Lease; 2],
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let requests = table::UPSTREAM_REQUESTS.register(registry)?;
        let connect = table::UPSTREAM_CONNECT.register(registry)?;
        let own = vec![Box::new(requests.clone()) as _, Box::new(connect.clone()) as _];
        Ok(Vectors {
            up: table::UPSTREAM_UP.register(registry)?,
            ejections: table::UPSTREAM_EJECTIONS.register(registry)?,
            none_fit: table::UPSTREAM_NONE_FIT.register(registry)?,
            requests,
            connect,
            leases: Leases::new("upstream", own),
        })
    }

    /// What of it lasts as long as its route.
    pub(super) fn of_routes(&self) -> [Box<dyn Forget>; 3] {
        [Box::new(self.up.clone()), Box::new(self.ejections.clone()), Box::new(self.none_fit.clone())]
    }

    /// Resolves the handles of an upstream of a route; every series of it exists from then on, until they are let go.
    pub(super) fn upstream(&self, lease: Lease, route: &str, upstream: &str) -> UpstreamMetrics {
        let leases = [self.leases.lease(upstream), lease];
        let requests = |one: &UpstreamOutcome| self.requests.with(&[upstream, one.label()]);
        UpstreamMetrics {
            up: self.up.with(&[route, upstream]),
            ejections: self.ejections.with(&[route, upstream]),
            connect: self.connect.with(&[upstream]),
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
    pub(super) fn none_fit(&self, lease: Lease, route: &str) -> NoneFitCounter {
        NoneFitCounter { count: self.none_fit.with(&[route]), _lease: lease }
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
        self.connect.observe(took);
    }

    /// Counts what became of a request.
    pub fn answered(&self, outcome: UpstreamOutcome) {
        self.requests[outcome as usize].inc();
    }
}

/// Counts runs of a route for which no upstream was fit to be asked.
#[derive(Debug)]
pub struct NoneFitCounter {
    count: Counter,
    _lease: Lease,
}

impl NoneFitCounter {
    /// Counts one.
    pub fn inc(&self) {
        self.count.inc();
    }
}
