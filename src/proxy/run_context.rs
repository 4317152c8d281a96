//! The data that a run and its request to the agent need.

use super::agent_client::AgentClient;
use super::body_budget::BodyPermit;
use super::deadlines::{DeadlineKind, RunDeadlines};
use super::lifecycle::LifecycleWatch;
use super::run_record::RunRecord;
use super::slow_clients::SlowClients;
use super::thread_store::KeptThread;
use super::upstream::{Cluster, Connector};
use crate::codec::Framing;
use crate::config::access::{AccessConfig, OnExpiry};
use crate::dialect::RequestTarget;
use crate::error::Rejection;
use crate::inspect::Redaction;
use crate::replay::ReplayKey;
use crate::telemetry::internal_event;
use crate::translate::TranslationReport;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

/// Starts the client's response, or rejects its request.
pub(super) type StartSender = oneshot::Sender<Result<(), Rejection>>;

// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct RunContext {
    /// for an agent that keeps something for the later runs of a thread
    pub(crate) thread: Option<Box<KeptThread>>,
    pub(crate) record: RunRecord,
    pub(crate) lifecycle: LifecycleWatch,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) slow_clients: Arc<SlowClients>,
    pub(crate) keep_alive: Duration,
    pub(crate) access: Arc<AccessConfig>,
    pub(crate) caller_key: ReplayKey,
    /// for what is logged of the agent's error; absent if the route redacts nothing
    pub(crate) redaction: Option<Redaction>,
}

/// The request to the agent, dropped once the agent has responded.
pub(super) struct AgentRequest {
    pub(crate) client: AgentClient,
    pub(crate) body: Bytes,
    pub(crate) target: RequestTarget,
    pub(crate) body_permit: BodyPermit,
    /// the framings that the agent may use in its response
    pub(crate) framings: &'static [Framing],
}

impl RunContext {
    pub(super) fn start_deadlines(&self) -> RunDeadlines {
        let mut deadlines = RunDeadlines::new(self.keep_alive, self.cluster.settings.timeouts.first_byte);
        let expires = self.record.caller.identity().and_then(|identity| identity.expires);
        // The wall clock is read only once: changing it later neither ends nor extends a run.
        let validity = expires.filter(|_| self.access.on_token_expiry != OnExpiry::Finish).map(|expires| {
            let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
            self.record.started_at.elapsed().saturating_add(left)
        });
        let settings = &self.cluster.settings;
        let first_event = settings.timeouts.first_event_limit(settings.events.is_some());
        for (after, kind) in [
            (Some(first_event), DeadlineKind::FirstEvent),
            (self.access.run.duration, DeadlineKind::RunDuration),
            (validity, DeadlineKind::Credential),
        ] {
            if let Some(after) = after {
                deadlines.set_deadline(self.record.started_at, after, kind);
            }
        }
        deadlines
    }

    pub(super) fn record_metrics(&mut self, report: &mut TranslationReport) {
        let record = &mut self.record;
        for detected in record.metrics.count_report(report, &mut record.summary.totals) {
            record.summary.agent_dialect = report.agent;
            internal_event::DialectDetected {
                run: record.log_fields(),
                side: "agent",
                dialect: detected.dialect.name,
                because: detected.description,
            }
            .emit();
        }
    }
}
