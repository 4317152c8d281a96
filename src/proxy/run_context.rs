//! What a run is given to run with.

use super::deadlines::{DeadlineKind, RunDeadlines};
use super::lifecycle::LifecycleWatch;
use super::run_record::RunRecord;
use super::upstream::{Cluster, Connector};
use crate::codec::Framing;
use crate::config::access::{AccessConfig, OnExpiry};
use crate::dialect::Dialect;
use crate::telemetry::trace::UpstreamSpanBuilder;
use bytes::Bytes;
use http::HeaderMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// Everything that a run needs from the route it belongs to.
pub(super) struct RunContext {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) lifecycle: LifecycleWatch,
    pub(crate) keep_alive: Duration,
    /// where to note what the agent turned out to speak
    pub(crate) detected_dialect: Arc<OnceLock<&'static Dialect>>,
    /// what the route asks of its callers and lets them have
    pub(crate) access: Arc<AccessConfig>,
    /// what the log will say of it, and who asked for it
    pub(crate) record: RunRecord,
}

/// What the agent is asked. Nothing of it is kept once it has answered.
pub(super) struct AgentRequest {
    /// what the agent hears about the caller
    pub(crate) fields: HeaderMap,
    /// what makes the spans of requests to it
    pub(crate) spans: UpstreamSpanBuilder,
    pub(crate) body: Bytes,
    /// how the agent may tell the events
    pub(crate) framings: &'static [Framing],
}

impl RunContext {
    /// The clock of the run, which starts now.
    pub(super) fn start_deadlines(&self) -> RunDeadlines {
        let mut clock = RunDeadlines::new(self.keep_alive, self.cluster.first_byte_timeout());
        let mut bound = |after: Option<Duration>, over| {
            if let Some(after) = after {
                clock.set_deadline(self.record.started_at, after, over);
            }
        };
        bound(self.cluster.first_event_timeout(), DeadlineKind::FirstEvent);
        bound(self.access.run.duration, DeadlineKind::RunDuration);
        let expires = self.record.caller.identity().and_then(|identity| identity.expires);
        // The wall clock is asked once: whoever sets it later neither ends a run nor lets it go on.
        let left = expires.filter(|_| self.access.on_token_expiry != OnExpiry::Finish).map(|expires| {
            let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
            self.record.started_at.elapsed().saturating_add(left)
        });
        bound(left, DeadlineKind::Credential);
        clock
    }
}
