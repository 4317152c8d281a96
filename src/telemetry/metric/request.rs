//! Metrics of requests: of those that a route was found for, and of all others.

use super::cell::{Counter, Histogram};
use super::family::{Family, ForgetSeries};
use super::label_specs::{LabelListFn, REFUSALS};
use super::lazy_series::LazySeries;
use super::table;
use crate::error;
use crate::telemetry::label::RequestMethod;
use parking_lot::RwLock;
use prometheus::Registry;
use std::time::Duration;

/// What requests are answered with that start runs, and what a gateway answers that fails: there from the start.
const PREREGISTERED_STATUSES: [u16; 5] = [200, 500, 502, 503, 504];

/// The metrics of all requests.
#[derive(Debug)]
pub(super) struct RequestFamilies {
    responses: Family<Counter>,
    head_latency: Family<Histogram>,
    rejections: Family<Counter>,
}

/// The handles of the requests of a route, or of those without one.
#[derive(Debug)]
pub struct RequestMetrics {
    route: Box<str>,
    responses: Family<Counter>,
    /// what was answered so far: a handful
    counters: RwLock<Vec<(RequestMethod, u16, Counter)>>,
    head_latency: Histogram,
    rejections: LazySeries<LabelListFn, Counter>,
}

impl RequestFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(RequestFamilies {
            responses: table::REQUESTS.register(registry)?,
            head_latency: table::REQUEST_HEADERS.register(registry)?,
            rejections: table::REFUSALS.register(registry)?,
        })
    }

    pub(super) fn route_scoped_families(&self) -> [Box<dyn ForgetSeries>; 3] {
        [Box::new(self.responses.clone()), Box::new(self.head_latency.clone()), Box::new(self.rejections.clone())]
    }

    /// Resolves the handles of a route's requests.
    pub(super) fn for_route(&self, route: &str) -> RequestMetrics {
        let metrics = RequestMetrics {
            route: route.into(),
            responses: self.responses.clone(),
            counters: RwLock::default(),
            head_latency: self.head_latency.with_label_values(&[route]),
            rejections: LazySeries::new(&self.rejections, &[route], REFUSALS),
        };
        for status in PREREGISTERED_STATUSES.into_iter().filter(|_| !route.is_empty()) {
            metrics.response_counter(RequestMethod::Post, status);
        }
        // What is refused by the gateway's own fault is alerted on; its first time has to be seen, too.
        let own = |kind: &&error::RejectionKind| matches!(kind.status(), 500 | 503) && !route.is_empty();
        for kind in error::RejectionKind::ALL.iter().filter(own) {
            metrics.rejections.series_at(*kind as usize);
        }
        metrics
    }
}

impl RequestMetrics {
    /// Counts an answered request.
    pub(crate) fn inc_response(&self, method: RequestMethod, status: u16) {
        self.response_counter(method, status).inc();
    }

    /// Notes how long its answer took, up to the head.
    pub(crate) fn observe_head_latency(&self, head: Duration) {
        self.head_latency.observe(head);
    }

    /// Counts a request that was refused.
    pub(crate) fn inc_rejection(&self, why: error::RejectionKind) {
        self.rejections.series_at(why as usize).inc();
    }

    fn response_counter(&self, method: RequestMethod, status: u16) -> Counter {
        let found = |known: &[(RequestMethod, u16, Counter)]| {
            let mut known = known.iter();
            known.find(|(own, code, _)| (*own, *code) == (method, status)).map(|(.., count)| count.clone())
        };
        if let Some(count) = found(&self.counters.read()) {
            return count;
        }
        // Who was faster has made the same one: there is one series of these values.
        let count = self.responses.with_label_values(&[&self.route, method.label(), &status.to_string()]);
        self.counters.write().push((method, status, count.clone()));
        count
    }
}
