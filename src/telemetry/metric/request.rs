//! Request metrics, per route and for requests without a route.

use super::cell::Counter;
use super::table::{RequestFamilies, RequestSeries};
use crate::error::RejectionKind;
use crate::telemetry::label::{Label, RequestMethod};
use parking_lot::RwLock;
use std::ops::Deref;

/// Statuses whose series exist from the start, so that alerts can query them.
const PREREGISTERED_STATUSES: [u16; 5] = [200, 500, 502, 503, 504];

/// The request metrics of one route, or of requests without a route.
pub(crate) struct RequestMetrics {
    series: RequestSeries,
    /// one per method and status seen so far, usually a handful
    counters: RwLock<Vec<(RequestMethod, u16, Counter)>>,
}

impl RequestMetrics {
    /// Creates the request metrics of a route; `route` is empty for requests without one.
    pub(super) fn new(families: &RequestFamilies, route: &str) -> RequestMetrics {
        let metrics = RequestMetrics { series: families.resolve(&[route]), counters: RwLock::default() };
        if !route.is_empty() {
            for status in PREREGISTERED_STATUSES {
                metrics.response_counter(RequestMethod::Post, status);
            }
            // Alerts watch rejections caused by the gateway itself, so even the first one must be visible to `rate`.
            for kind in RejectionKind::ALL.iter().filter(|kind| matches!(kind.status(), 500 | 503)) {
                metrics.rejections.get(*kind);
            }
        }
        metrics
    }

    pub(crate) fn inc_response(&self, method: RequestMethod, status: u16) {
        self.response_counter(method, status).inc();
    }

    fn response_counter(&self, method: RequestMethod, status: u16) -> Counter {
        let find = |counters: &[(RequestMethod, u16, Counter)]| {
            let mut counters = counters.iter();
            counters.find(|(own, code, _)| (*own, *code) == (method, status)).map(|(.., count)| count.clone())
        };
        if let Some(count) = find(&self.counters.read()) {
            return count;
        }
        // Another thread may have added it in the meantime; both entries refer to the same series.
        let count = self.series.responses.series(&[method.text(), &status.to_string()]);
        self.counters.write().push((method, status, count.clone()));
        count
    }
}

impl Deref for RequestMetrics {
    type Target = RequestSeries;

    fn deref(&self) -> &RequestSeries {
        &self.series
    }
}
