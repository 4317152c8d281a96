//! What happens to a request and to its run.

use super::{CallerInfo, millis, sanitize};
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::label::{RequestMethod, RunOutcome};
use crate::telemetry::metric::{RequestMetrics, RouteMetrics, RunTotals};
use crate::telemetry::trace::{RequestSpan, TraceId};
use crate::translate::RunIds;
use std::time::Duration;

/// Which run a line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunInfo<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// the id of the request that the line is about: the one that started the run, unless the line says otherwise
    pub(crate) request_id: &'a str,
    /// what it is called
    pub(crate) ids: &'a RunIds,
}

impl<'a> RunInfo<'a> {
    /// A run of which no more is known: it was asked for at another replica.
    fn from_ids(ids: &'a RunIds) -> RunInfo<'a> {
        RunInfo { route: "", request_id: "", ids }
    }

    fn thread_id(&self) -> String {
        sanitize(&self.ids.thread_id.text().unwrap_or_default())
    }

    fn run_id(&self) -> String {
        sanitize(&self.ids.run_id.text().unwrap_or_default())
    }
}

/// A request was refused before its stream began.
pub(crate) struct RequestRejected<'a> {
    /// the route's name, empty where none matched
    pub(crate) route: &'a str,
    /// how it asked
    pub(crate) method: RequestMethod,
    /// the request's id
    pub(crate) request_id: &'a str,
    /// its trace
    pub(crate) trace_id: Option<TraceId>,
    /// who called
    pub(crate) caller: CallerInfo<'a>,
    /// why
    pub(crate) rejection: &'a Rejection,
    /// the status of the answer: 200 where the client hears of it in an event
    pub(crate) response_status: u16,
}

impl RequestRejected<'_> {
    /// Logs and counts it, and ends its span. A request whose run was refused by its agent has none: the run has it.
    pub(crate) fn emit(self, metrics: &RequestMetrics, trace: Option<RequestSpan>) {
        if let Some(trace) = trace {
            trace.finish_rejected(&self);
        }
        let RequestRejected { route, method, request_id, trace_id, caller, rejection, .. } = self;
        metrics.rejections.get(rejection.kind).inc();
        tracing::info!(
            route,
            method = method.label(),
            request_id,
            trace_id = trace_id.map(tracing::field::display),
            status = rejection.status(),
            code = rejection.kind.code(),
            policy = rejection.policy.as_deref().map(sanitize),
            client = caller.address.map(tracing::field::display),
            auth = caller.method.label(),
            source = caller.source.map(sanitize),
            subject = caller.subject.map(sanitize),
            tenant = caller.tenant.map(sanitize),
            key_id = caller.key_id.map(sanitize),
            detail = sanitize(rejection.message()),
            cause = rejection.cause.as_deref().map(sanitize),
            "request refused"
        );
    }
}

/// A browser asked whether a page may call.
pub(crate) struct PreflightAnswered<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// the status of the answer
    pub(crate) response_status: u16,
}

impl PreflightAnswered<'_> {
    /// Logs and counts it, and ends its span. Quietly: browsers ask before every request of a page.
    pub(crate) fn emit(self, metrics: &RequestMetrics, trace: Option<RequestSpan>) {
        let PreflightAnswered { route, response_status: answered } = self;
        if let Some(trace) = trace {
            trace.finish_response(answered);
        }
        metrics.inc_response(RequestMethod::Options, answered);
        tracing::debug!(route, status = answered, "preflight answered");
    }
}

/// What a run turned out to speak, on a route that leaves it open.
pub(crate) struct DialectDetected<'a> {
    /// the run
    pub(crate) run: RunInfo<'a>,
    /// client or agent
    pub(crate) side: &'static str,
    /// the dialect
    pub(crate) dialect: &'static str,
    /// what it was told by
    pub(crate) because: &'static str,
}

impl DialectDetected<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let DialectDetected { run, side, dialect, because } = self;
        tracing::info!(
            route = run.route,
            request_id = run.request_id,
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            side,
            dialect,
            because,
            "dialect detected"
        );
    }
}

/// A run ended: the access log's line.
pub(crate) struct RunEnded<'a> {
    /// the run
    pub(crate) run: RunInfo<'a>,
    /// who asked for it
    pub(crate) caller: CallerInfo<'a>,
    /// what its client and its agent spoke, or turned out to speak
    pub(crate) dialects: (&'static str, &'static str),
    /// the upstream that answered, as in metrics; `None` where none did
    pub(crate) upstream: Option<&'a str>,
    /// the status that its client was answered with
    pub(crate) status: u16,
    /// how it ended
    pub(crate) outcome: RunOutcome,
    /// why, when the gateway ended it
    pub(crate) rejection: Option<&'a Rejection>,
    /// from the request to the first event for the client
    pub(crate) first_event: Option<Duration>,
    /// from the request to the end
    pub(crate) duration: Duration,
    /// bytes of the agent's events, and for the client
    pub(crate) bytes: (u64, u64),
    /// events, repairs, losses
    pub(crate) totals: RunTotals,
    /// how often its agent's stream broke and went on
    pub(crate) resumed: u32,
    /// how many streams read it, where it outlives its client
    pub(crate) readers: Option<u64>,
}

impl RunEnded<'_> {
    /// Logs and counts it, and ends its span.
    pub(crate) fn emit(self, metrics: &RouteMetrics, trace: RequestSpan) {
        metrics.record_end(self.outcome, self.duration);
        let trace_id = trace.id();
        trace.finish_run(&self);
        let run = self.run;
        if self.totals.foreign > 0 {
            tracing::warn!(
                route = run.route,
                request_id = run.request_id,
                thread_id = run.thread_id(),
                run_id = run.run_id(),
                events = self.totals.foreign,
                "the agent speaks another dialect than the route's `agent` says"
            );
        }
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    route = run.route,
                    request_id = run.request_id,
                    trace_id = tracing::field::display(trace_id),
                    thread_id = run.thread_id(),
                    run_id = run.run_id(),
                    client = self.caller.address.map(tracing::field::display),
                    auth = self.caller.method.label(),
                    source = self.caller.source.map(sanitize),
                    subject = self.caller.subject.map(sanitize),
                    tenant = self.caller.tenant.map(sanitize),
                    key_id = self.caller.key_id.map(sanitize),
                    client_dialect = self.dialects.0,
                    agent_dialect = self.dialects.1,
                    upstream = self.upstream,
                    status = self.status,
                    outcome = self.outcome.label(),
                    code = self.rejection.map(|rejection| rejection.kind.code()),
                    cause = self.rejection.and_then(|rejection| rejection.cause.as_deref()).map(sanitize),
                    first_event_ms = self.first_event.map(millis),
                    duration_ms = millis(self.duration),
                    events_in = self.totals.events_in,
                    events_out = self.totals.events_out,
                    bytes_in = self.bytes.0,
                    bytes_out = self.bytes.1,
                    repairs = self.totals.repairs,
                    losses = self.totals.losses,
                    resumed = self.resumed,
                    readers = self.readers,
                    "run ended"
                )
            };
        }
        match self.outcome {
            RunOutcome::GatewayError => line!(error),
            RunOutcome::UpstreamError => line!(warn),
            RunOutcome::Finished
            | RunOutcome::AgentError
            | RunOutcome::ClientGone
            | RunOutcome::Unread
            | RunOutcome::Drained
            | RunOutcome::Expired
            | RunOutcome::Limited
            | RunOutcome::Cancelled => line!(info),
        }
    }
}

/// The stream of an agent broke, and goes on over another connection.
pub(crate) struct AgentStreamResumed<'a> {
    /// the run
    pub(crate) run: RunInfo<'a>,
    /// the id behind which it goes on
    pub(crate) last_event_id: &'a str,
}

impl AgentStreamResumed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let AgentStreamResumed { run, last_event_id } = self;
        tracing::info!(
            route = run.route,
            request_id = run.request_id,
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            last_event_id = sanitize(last_event_id),
            "stream resumed"
        );
    }
}

/// Somebody reads a run that another request started.
pub(crate) struct ReaderJoined<'a> {
    /// the run, and the request that joins it
    pub(crate) run: RunInfo<'a>,
    /// what the ids of the run's events begin with
    pub(crate) token: &'a str,
    /// the number of the event behind which it is read; `None` from a snapshot, or from the start
    pub(crate) after_number: Option<u64>,
}

impl ReaderJoined<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let ReaderJoined { run, token, after_number: behind } = self;
        tracing::info!(
            route = run.route,
            request_id = run.request_id,
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            token,
            behind,
            "run joined"
        );
    }
}

/// The caller of a run wants it to end.
pub(crate) struct RunStopRequested<'a> {
    /// the run, and the request that stops it
    pub(crate) run: RunInfo<'a>,
    /// what the ids of the run's events begin with
    pub(crate) token: &'a str,
}

impl RunStopRequested<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let RunStopRequested { run, token } = self;
        tracing::info!(
            route = run.route,
            request_id = run.request_id,
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            token,
            "run stopped"
        );
    }
}

/// Nobody came for the events of a run that was started; the run is ended.
pub(crate) struct PendingRunExpired<'a> {
    /// the run
    pub(crate) run: RunInfo<'a>,
}

impl PendingRunExpired<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let PendingRunExpired { run } = self;
        tracing::info!(
            route = run.route,
            request_id = run.request_id,
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            "nobody came for the events"
        );
    }
}

/// The name of an agent's host could not be resolved; the addresses known before stay in use.
pub(crate) struct UpstreamResolveFailed<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// why
    pub(crate) cause: String,
}

impl UpstreamResolveFailed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(route = self.route, cause = sanitize(&self.cause), "upstream not resolved");
    }
}

/// A run of another replica is read here from now on.
pub(crate) struct RemoteRunFollowed<'a> {
    /// what the run is called
    pub(crate) ids: &'a RunIds,
    /// what the ids of the run's events begin with
    pub(crate) token: &'a str,
    /// the process that runs it
    pub(crate) owner: &'a str,
    /// up to which event it is known in short
    pub(crate) recap_until: u64,
}

impl RemoteRunFollowed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let RemoteRunFollowed { ids, token, owner: home, recap_until: behind } = self;
        let run = RunInfo::from_ids(ids);
        let (thread_id, run_id) = (run.thread_id(), run.run_id());
        tracing::info!(thread_id, run_id, token, home, behind, "run of another replica followed");
    }
}

/// The process that ran a run is gone, and whoever reads it is told so.
pub(crate) struct RemoteRunLost<'a> {
    /// what the run was called
    pub(crate) ids: &'a RunIds,
    /// what the ids of the run's events begin with
    pub(crate) token: &'a str,
    /// the process that ran it
    pub(crate) owner: &'a str,
}

impl RemoteRunLost<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let RemoteRunLost { ids, token, owner: home } = self;
        let run = RunInfo::from_ids(ids);
        tracing::warn!(
            thread_id = run.thread_id(),
            run_id = run.run_id(),
            token,
            home,
            code = RejectionKind::RunLost.code(),
            "run lost with its replica"
        );
    }
}

/// A run of this replica cannot be followed elsewhere any more: it was taken for lost, or another one has its place.
pub(crate) struct RunReplicationStopped<'a> {
    /// what the run is called
    pub(crate) ids: &'a RunIds,
    /// what the ids of the run's events begin with
    pub(crate) token: &'a str,
}

impl RunReplicationStopped<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let run = RunInfo::from_ids(self.ids);
        let (thread_id, run_id) = (run.thread_id(), run.run_id());
        tracing::warn!(thread_id, run_id, token = self.token, "run shared no longer");
    }
}
