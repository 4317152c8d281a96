//! A run's hold on an address: it counts as one of its runs, and its fate before the answer says how the address is.

use super::pingora_errors;
use super::upstream_endpoint::{OutlierChange, UpstreamEndpoint};
use super::upstream_set::UpstreamSet;
use crate::config::EjectionConfig;
use crate::error::Rejection;
use crate::telemetry::label::UpstreamOutcome;
use crate::telemetry::{UpstreamMetrics, internal_event};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One run at one address.
pub(super) struct InFlightGuard {
    upstream_set: Arc<UpstreamSet>,
    endpoint: Arc<UpstreamEndpoint>,
    ejection: EjectionConfig,
    state: InFlightState,
}

/// What is known of it.
enum InFlightState {
    /// no answer yet, to a request that began then and may take that long
    Open { since: Instant, timeout: Duration },
    /// it was told
    Reported,
}

impl InFlightGuard {
    /// Sends a run to `target`; its request began at `since` and may wait for an answer for `patience`.
    pub(super) fn new(
        upstream_set: &Arc<UpstreamSet>,
        target: &Arc<UpstreamEndpoint>,
        ejection: EjectionConfig,
        since: Instant,
        patience: Duration,
    ) -> Self {
        target.begin_run(Instant::now());
        let state = InFlightState::Open { since, timeout: patience };
        InFlightGuard { upstream_set: Arc::clone(upstream_set), endpoint: Arc::clone(target), ejection, state }
    }

    pub(super) fn endpoint(&self) -> &Arc<UpstreamEndpoint> {
        &self.endpoint
    }

    /// The upstream of the address, as metrics call it.
    pub(super) fn upstream_label(&self) -> Arc<str> {
        Arc::clone(&self.upstream_set.entry(&self.endpoint).label)
    }

    /// The agent answered with that status.
    pub(super) fn on_response(&mut self, status: Option<http::StatusCode>) {
        // What agents, and proxies in front of them, say when nobody is there to answer.
        match status.map(|status| status.as_u16()) {
            Some(status @ (502..=504)) => {
                self.report(UpstreamOutcome::Unavailable, Some(&format!("it answered {status}")));
            }
            _ => self.report(UpstreamOutcome::Answered, None),
        }
    }

    /// There was no answer. `blameless` is for what happens to kept connections of an agent that is well: it closed one.
    pub(super) fn on_failure(&mut self, rejection: &Rejection, blameless: bool) {
        let outcome = pingora_errors::upstream_outcome(rejection);
        if blameless {
            self.metrics().overall.requests.get(outcome).inc();
            self.endpoint.on_unknown(Instant::now());
            self.state = InFlightState::Reported;
            return;
        }
        let cause = rejection.cause.as_deref().unwrap_or_else(|| rejection.message());
        self.report(outcome, Some(cause));
    }

    /// Notes how it went: what failed, if it did.
    fn report(&mut self, outcome: UpstreamOutcome, failed: Option<&str>) {
        self.state = InFlightState::Reported;
        self.metrics().overall.requests.get(outcome).inc();
        let change = match failed {
            Some(_) => self.endpoint.on_failure(&self.ejection, Instant::now()),
            None => self.endpoint.on_success(),
        };
        let (route, upstream) = (&*self.upstream_set.route, &*self.upstream_set.entry(&self.endpoint).label);
        let address = &self.endpoint.address;
        match change {
            OutlierChange::None => return,
            OutlierChange::Ejected(duration) => {
                let cause = failed.unwrap_or_default();
                internal_event::AddressEjected { route, upstream, address, duration, cause }.emit(self.metrics());
            }
            OutlierChange::Returned => internal_event::AddressRecovered { route, upstream, address }.emit(),
        }
        self.upstream_set.update_metrics();
    }

    fn metrics(&self) -> &UpstreamMetrics {
        &self.upstream_set.entry(&self.endpoint).metrics
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if let InFlightState::Open { since, timeout: patience } = self.state {
            // Whoever waits gives up at the end of the patience, and by then it was the agent that failed. The clock of the
            // run began a moment before this one, so the last tenth belongs to the end.
            if since.elapsed() >= patience.mul_f32(0.9) {
                self.report(UpstreamOutcome::TimedOut, Some("no answer in time"));
            } else {
                self.metrics().overall.requests.get(UpstreamOutcome::Abandoned).inc();
                self.endpoint.on_unknown(Instant::now());
            }
        }
        self.endpoint.end_run();
    }
}
