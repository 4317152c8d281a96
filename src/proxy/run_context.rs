//! What a run is given to run with.

use super::account::Account;
use super::clock::{Clock, Over};
use super::lifecycle::Watch;
use super::upstream::{Cluster, Connector};
use crate::codec::Framing;
use crate::config::access::{Access, OnExpiry};
use crate::dialect::Dialect;
use crate::telemetry::trace::Calls;
use bytes::Bytes;
use http::HeaderMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// Everything that a run needs from the route it belongs to.
pub(super) struct Plan {
    pub cluster: Arc<Cluster>,
    pub connector: Arc<Connector>,
    pub lifecycle: Watch,
    pub keep_alive: Duration,
    /// where to note what the agent turned out to speak
    pub learned: Arc<OnceLock<&'static Dialect>>,
    /// what the route asks of its callers and lets them have
    pub access: Arc<Access>,
    /// what the log will say of it, and who asked for it
    pub account: Account,
}

/// What the agent is asked. Nothing of it is kept once it has answered.
pub(super) struct Question {
    /// what the agent hears about the caller
    pub fields: HeaderMap,
    /// what makes the spans of requests to it
    pub calls: Calls,
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
                clock.bound(self.account.began, after, over);
            }
        };
        bound(self.cluster.first_event(), Over::NoEvent);
        bound(self.access.run.duration, Over::Long);
        let expires = self.account.who.known().and_then(|identity| identity.expires);
        // The wall clock is asked once: whoever sets it later neither ends a run nor lets it go on.
        let left = expires.filter(|_| self.access.on_token_expiry != OnExpiry::Finish).map(|expires| {
            let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
            self.account.began.elapsed().saturating_add(left)
        });
        bound(left, Over::Expired);
        clock
    }
}
