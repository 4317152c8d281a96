//! Counts a run as in flight at an endpoint, and reports its result to outlier detection.

use super::pingora_errors;
use super::upstream_endpoint::{OutlierChange, UpstreamEndpoint};
use super::upstream_set::UpstreamSet;
use crate::config::EjectionConfig;
use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::telemetry::label::UpstreamOutcome;
use crate::telemetry::{UpstreamMetrics, internal_event};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(in crate::proxy) struct InFlightGuard {
    upstream_set: Arc<UpstreamSet>,
    pub(super) endpoint: Arc<UpstreamEndpoint>,
    caller: ReplayKey,
    ejection: EjectionConfig,
    state: InFlightState,
}

enum InFlightState {
    Open { since: Instant, timeout: Duration },
    Reported,
}

struct EndpointFailure<'a> {
    cause: &'a str,
    /// whose request may be the reason
    caller: Option<ReplayKey>,
}

impl InFlightGuard {
    pub(super) fn new(
        upstream_set: &Arc<UpstreamSet>,
        target: &Arc<UpstreamEndpoint>,
        caller: ReplayKey,
        ejection: EjectionConfig,
        since: Instant,
        timeout: Duration,
    ) -> Self {
        target.begin_run(&caller, Instant::now());
        let state = InFlightState::Open { since, timeout };
        InFlightGuard { upstream_set: Arc::clone(upstream_set), endpoint: Arc::clone(target), caller, ejection, state }
    }

    pub(in crate::proxy) fn upstream_label(&self) -> Arc<str> {
        Arc::clone(&self.upstream_set.entry(&self.endpoint).label)
    }

    pub(super) fn on_response(&mut self, status: Option<http::StatusCode>) {
        // Sent by agents, or proxies in front of them, that cannot serve.
        match status.map(|status| status.as_u16()) {
            Some(status @ (502..=504)) => {
                self.report_failure(UpstreamOutcome::Unavailable, &format!("it answered {status}"));
            }
            _ => self.report(UpstreamOutcome::Answered, None),
        }
    }

    /// Reports that there is no connection, for which no request can be the reason.
    pub(super) fn on_connect_failure(&mut self, rejection: &Rejection) {
        let cause = pingora_errors::cause_text(rejection);
        self.report_rejection(rejection, EndpointFailure { cause, caller: None });
    }

    /// Reports a failure. `blameless` means that a pooled connection was stale, which happens with healthy agents too.
    pub(super) fn on_failure(&mut self, rejection: &Rejection, blameless: bool) {
        if blameless {
            return self.report_unknown(pingora_errors::upstream_outcome(rejection));
        }
        let cause = pingora_errors::cause_text(rejection);
        self.report_rejection(rejection, EndpointFailure { cause, caller: Some(self.caller) });
    }

    fn report_rejection(&mut self, rejection: &Rejection, failure: EndpointFailure<'_>) {
        let outcome = pingora_errors::upstream_outcome(rejection);
        match rejection.kind {
            // A busy agent works: it is not ejected.
            RejectionKind::UpstreamBusy => self.report_unknown(outcome),
            _ => self.report(outcome, Some(failure)),
        }
    }

    fn report_unknown(&mut self, outcome: UpstreamOutcome) {
        self.metrics().overall.requests.get(outcome).inc();
        self.endpoint.on_unknown();
        self.state = InFlightState::Reported;
    }

    fn report_failure(&mut self, outcome: UpstreamOutcome, cause: &str) {
        self.report(outcome, Some(EndpointFailure { cause, caller: Some(self.caller) }));
    }

    fn report(&mut self, outcome: UpstreamOutcome, failed: Option<EndpointFailure<'_>>) {
        self.state = InFlightState::Reported;
        self.metrics().overall.requests.get(outcome).inc();
        let now = Instant::now();
        let change = match &failed {
            Some(failed) => self.endpoint.on_failure(&self.ejection, failed.caller.as_ref(), now),
            None => self.endpoint.on_success(&self.caller, now),
        };
        let route = &*self.upstream_set.route;
        let upstream = &*self.upstream_set.entry(&self.endpoint).label;
        let address = &self.endpoint.address;
        match change {
            OutlierChange::None => return,
            OutlierChange::Ejected(duration) => {
                let cause = failed.map_or("", |failed| failed.cause);
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
        if let InFlightState::Open { since, timeout } = self.state {
            // If the wait used the whole timeout, the agent failed. The run's clock started slightly earlier, so the
            // last tenth counts as the end.
            if since.elapsed() >= timeout.mul_f32(0.9) {
                self.report_failure(UpstreamOutcome::TimedOut, "no answer in time");
            } else {
                self.metrics().overall.requests.get(UpstreamOutcome::Abandoned).inc();
                self.endpoint.on_unknown();
            }
        }
        self.endpoint.end_run();
    }
}
