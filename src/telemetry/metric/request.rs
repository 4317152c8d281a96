//! Metrics of requests: of those that a route was found for, and of all others.

use super::cell::{Counter, Histogram};
use super::family::{Family, Forget};
use super::lazy::Lazy;
use super::source::{List, REFUSALS};
use super::table;
use crate::error;
use crate::telemetry::label::Method;
use prometheus::Registry;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// What requests are answered with that start runs, and what a gateway answers that fails: there from the start.
const FROM_THE_START: [u16; 5] = [200, 500, 502, 503, 504];

/// The metrics of all requests.
#[derive(Debug)]
pub(super) struct Vectors {
    answered: Family<Counter>,
    head: Family<Histogram>,
    refused: Family<Counter>,
}

/// The handles of the requests of a route, or of those without one.
#[derive(Debug)]
pub struct RequestMetrics {
    route: Box<str>,
    answered: Family<Counter>,
    /// what was answered so far: a handful
    known: RwLock<Vec<(Method, u16, Counter)>>,
    head: Histogram,
    refused: Lazy<List, Counter>,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            answered: table::REQUESTS.register(registry)?,
            head: table::REQUEST_HEADERS.register(registry)?,
            refused: table::REFUSALS.register(registry)?,
        })
    }

    pub(super) fn families(&self) -> [Box<dyn Forget>; 3] {
        [Box::new(self.answered.clone()), Box::new(self.head.clone()), Box::new(self.refused.clone())]
    }

    /// Resolves the handles of a route's requests.
    pub(super) fn of(&self, route: &str) -> RequestMetrics {
        let metrics = RequestMetrics {
            route: route.into(),
            answered: self.answered.clone(),
            known: RwLock::default(),
            head: self.head.with(&[route]),
            refused: Lazy::new(&self.refused, &[route], REFUSALS),
        };
        for status in FROM_THE_START.into_iter().filter(|_| !route.is_empty()) {
            metrics.count(Method::Post, status);
        }
        // What is refused by the gateway's own fault is alerted on; its first time has to be seen, too.
        let own = |kind: &&error::Kind| matches!(kind.status(), 500 | 503) && !route.is_empty();
        for kind in error::Kind::ALL.iter().filter(own) {
            metrics.refused.at(*kind as usize);
        }
        metrics
    }
}

impl RequestMetrics {
    /// Counts an answered request.
    pub fn answered(&self, method: Method, status: u16) {
        self.count(method, status).inc();
    }

    /// Notes how long its answer took, up to the head.
    pub fn took(&self, head: Duration) {
        self.head.observe(head);
    }

    /// Counts a request that was refused.
    pub fn refused(&self, why: error::Kind) {
        self.refused.at(why as usize).inc();
    }

    fn count(&self, method: Method, status: u16) -> Counter {
        let found = |known: &[(Method, u16, Counter)]| {
            let mut known = known.iter();
            known.find(|(own, code, _)| (*own, *code) == (method, status)).map(|(.., count)| count.clone())
        };
        if let Some(count) = found(&self.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return count;
        }
        // Who was faster has made the same one: there is one series of these values.
        let count = self.answered.with(&[&self.route, method.label(), &status.to_string()]);
        self.known.write().unwrap_or_else(PoisonError::into_inner).push((method, status, count.clone()));
        count
    }
}
