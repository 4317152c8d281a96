//! What a run is given to run with.

use super::clock::{Clock, Over};
use super::lifecycle::Watch;
use super::upstream::{Cluster, Connector};
use crate::codec::Framing;
use crate::config::access::{Access, OnExpiry};
use crate::dialect::Dialect;
use crate::guard::Who;
use crate::telemetry::RouteMetrics;
use crate::translate::Ids;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Everything that a run needs from the route it belongs to.
pub(super) struct Plan {
    pub route: Arc<str>,
    pub cluster: Arc<Cluster>,
    pub connector: Arc<Connector>,
    pub metrics: Arc<RouteMetrics>,
    pub lifecycle: Watch,
    pub keep_alive: Duration,
    pub request_id: String,
    /// where to note what the agent turned out to speak
    pub learned: Arc<OnceLock<&'static Dialect>>,
    pub ids: Ids,
    pub began: Instant,
    /// what the route asks of its callers and lets them have
    pub access: Arc<Access>,
    /// who asked for the run
    pub who: Who,
}

/// What the agent is asked. Nothing of it is kept once it has answered.
pub(super) struct Question {
    /// what the agent hears about the caller
    pub fields: HeaderMap,
    pub traceparent: Option<HeaderValue>,
    pub body: Bytes,
    /// how the agent may tell the events
    pub framings: &'static [Framing],
}

impl Plan {
    /// The clock of the run, which starts now.
    pub(super) fn clock(&self) -> Clock {
        let mut clock = Clock::new(self.keep_alive, self.cluster.first_byte());
        let mut bound = |after: Option<Duration>, over| {
            if let Some(after) = after {
                clock.bound(self.began, after, over);
            }
        };
        bound(self.cluster.first_event(), Over::NoEvent);
        bound(self.access.run.duration, Over::Long);
        let expires = self.who.known().and_then(|identity| identity.expires);
        // The wall clock is asked once: whoever sets it later neither ends a run nor lets it go on.
        let left = expires.filter(|_| self.access.on_token_expiry != OnExpiry::Finish).map(|expires| {
            let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
            self.began.elapsed().saturating_add(left)
        });
        bound(left, Over::Expired);
        clock
    }
}
