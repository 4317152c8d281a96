//! Log events about requests and their runs.

use super::{CallerInfo, MAX_TEXT_CHARS, millis, sanitize};
use crate::error::{Rejection, RejectionKind};
use crate::event::Json;
use crate::telemetry::Metrics;
use crate::telemetry::label::{RequestMethod, RunOutcome};
use crate::telemetry::mask::mask_secrets;
use crate::telemetry::metric::{RequestMetrics, RouteMetrics, RunTotals};
use crate::telemetry::trace_context::TraceId;
use crate::translate::{AgentError, RunIds};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunInfo<'a> {
    pub(crate) route: &'a str,
    /// id of the request that started the run, unless the event's docs say otherwise
    pub(crate) request_id: &'a str,
    pub(crate) ids: &'a RunIds,
}

/// Formats a thread or run id, which may be any JSON value.
pub(crate) fn format_id(id: &Json<'_>) -> String {
    sanitize(&id.text().unwrap_or_default())
}

/// A request failed before its event stream began.
pub(crate) struct RequestRejected<'a> {
    /// empty if no route matched
    pub(crate) route: &'a str,
    pub(crate) method: RequestMethod,
    pub(crate) request_id: &'a str,
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) caller: CallerInfo<'a>,
    pub(crate) rejection: &'a Rejection,
    /// 200 if the error is sent as an event
    pub(crate) response_status: u16,
}

impl RequestRejected<'_> {
    pub(crate) fn emit(self, metrics: &RequestMetrics) {
        let RequestRejected { route, method, request_id, trace_id, caller, rejection, .. } = self;
        metrics.rejections.get(rejection.kind).inc();
        // The gateway did not refuse a request that failed at the agent.
        let is_upstream_failure = rejection.kind.proxy_status().is_some();
        let message = if is_upstream_failure { "request failed at the agent" } else { "request refused" };
        // With `agent_errors: pass` it is the agent's text. The cause has that without what the route redacts.
        let detail = match is_upstream_failure {
            true if rejection.has_secret_detail => Cow::from(rejection.kind.text()),
            true => Cow::from(mask_secrets(rejection.message(), MAX_TEXT_CHARS)),
            false => Cow::from(rejection.message()),
        };
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
            detail = sanitize(&detail),
            cause = rejection.cause.as_deref().map(sanitize),
            "{message}"
        );
    }
}

/// The facts about a run for its log line and span.
#[derive(Debug, Default)]
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(crate) struct RunSummary {
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) totals: RunTotals,
    /// as configured or detected
    pub(crate) client_dialect: &'static str,
    pub(crate) agent_dialect: &'static str,
    /// the last upstream that answered
    pub(crate) upstream: Option<Arc<str>>,
    /// HTTP status of the response to the client
    pub(crate) status: u16,
    /// time from the request to the first event for the client
    pub(crate) first_event: Option<Duration>,
    /// present if the agent ended the run with an error
    pub(crate) agent_error: Option<Box<AgentError>>,
    pub(crate) reconnects: u32,
    /// present if the run continues after its client disconnects
    pub(crate) reader_count: Option<u64>,
}

/// A run ended. This is the access log entry.
pub(crate) struct RunEnded<'a> {
    pub(crate) run: RunInfo<'a>,
    pub(crate) trace_id: TraceId,
    pub(crate) caller: CallerInfo<'a>,
    pub(crate) summary: &'a RunSummary,
    pub(crate) outcome: RunOutcome,
    /// present if the gateway ended the run
    pub(crate) rejection: Option<&'a Rejection>,
    pub(crate) duration: Duration,
}

impl RunEnded<'_> {
    pub(crate) fn emit(self, metrics: &RouteMetrics) {
        metrics.record_end(self.outcome, self.duration);
        let RunEnded { run, summary, .. } = self;
        let agent_error = summary.agent_error.as_deref();
        self.warn_of_dialect();
        let missing_payload = self.missing_payload();
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    route = run.route,
                    request_id = run.request_id,
                    trace_id = tracing::field::display(self.trace_id),
                    thread_id = format_id(&run.ids.thread_id),
                    run_id = format_id(&run.ids.run_id),
                    client = self.caller.address.map(tracing::field::display),
                    auth = self.caller.method.label(),
                    source = self.caller.source.map(sanitize),
                    subject = self.caller.subject.map(sanitize),
                    tenant = self.caller.tenant.map(sanitize),
                    key_id = self.caller.key_id.map(sanitize),
                    client_dialect = summary.client_dialect,
                    agent_dialect = summary.agent_dialect,
                    upstream = summary.upstream.as_deref(),
                    status = summary.status,
                    outcome = self.outcome.label(),
                    code = self.rejection.map(|rejection| rejection.kind.code()),
                    cause = self.rejection.and_then(Rejection::logged_cause).map(sanitize),
                    agent_code = agent_error.and_then(|error| error.code.as_deref()).map(sanitize),
                    agent_message = agent_error.map(|error| mask_secrets(&sanitize(&error.message), MAX_TEXT_CHARS)),
                    first_event_ms = summary.first_event.map(millis),
                    duration_ms = millis(self.duration),
                    events_in = summary.totals.events_in,
                    events_out = summary.totals.events_out,
                    bytes_in = summary.bytes_read,
                    bytes_out = summary.bytes_written,
                    repairs = summary.totals.repairs,
                    repair_names = summary.totals.repair_labels(),
                    losses = summary.totals.losses,
                    loss_names = summary.totals.loss_labels(),
                    resumed = summary.reconnects,
                    readers = summary.reader_count,
                    "run ended"
                )
            };
        }
        match self.outcome {
            RunOutcome::GatewayError => line!(error),
            RunOutcome::UpstreamError | RunOutcome::AgentError => line!(warn),
            RunOutcome::Finished if missing_payload.is_some() => line!(warn),
            RunOutcome::Finished
            | RunOutcome::ClientGone
            | RunOutcome::Unread
            | RunOutcome::Drained
            | RunOutcome::Expired
            | RunOutcome::Limited
            | RunOutcome::Cancelled => line!(info),
        }
    }

    /// Returns the path where the agent's dialect file has the content of frames, if the run has finished without any.
    fn missing_payload(&self) -> Option<&'static str> {
        self.summary.totals.missing_payload.filter(|_| self.outcome == RunOutcome::Finished)
    }

    /// Logs that the agent's dialect, or its file, is probably wrong.
    fn warn_of_dialect(&self) {
        let RunEnded { run, summary, .. } = self;
        if summary.totals.foreign > 0 {
            tracing::warn!(
                route = run.route,
                request_id = run.request_id,
                thread_id = format_id(&run.ids.thread_id),
                run_id = format_id(&run.ids.run_id),
                configured = summary.agent_dialect,
                looks_like = summary.totals.foreign_dialect,
                events = summary.totals.foreign,
                "the agent's dialect is not the one in `agent` of the route"
            );
        }
        if let Some(payload) = self.missing_payload() {
            tracing::warn!(
                route = run.route,
                request_id = run.request_id,
                thread_id = format_id(&run.ids.thread_id),
                run_id = format_id(&run.ids.run_id),
                agent_dialect = summary.agent_dialect,
                payload,
                "no event of the agent has a value at the `payload` of its dialect file"
            );
        }
    }
}

/// Declares run events, whose log lines begin with the route, request and run ids.
macro_rules! run_events {
    ($($(#[$doc:meta])* $level:ident $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
    } ($($($log:tt)+)?) $message:literal;)+) => {
        log_events! {$(
            $(#[$doc])*
            $level $name<'a> { run: RunInfo<'a>, $($(#[$field_doc])* $field: $type),* } (
                route = run.route,
                request_id = run.request_id,
                thread_id = format_id(&run.ids.thread_id),
                run_id = format_id(&run.ids.run_id)
                $(, $($log)+)?
            ) $message;
        )+}
    };
}

run_events! {
    /// The dialect of a client or an agent was detected.
    info DialectDetected {
        side: &'static str,
        dialect: &'static str,
        because: &'static str,
    } (side, dialect, because) "dialect detected";

    /// A request is certainly of another dialect than the route's.
    warn WrongClientDialect {
        configured: &'static str,
        looks_like: &'static str,
        because: &'static str,
    } (configured, looks_like, because) "the client's dialect is not the one in `client` of the route";

    /// An agent's event stream broke and was resumed over another connection.
    info AgentStreamResumed {
        /// the stream continues after this event
        last_event_id: &'a str,
    } (last_event_id = sanitize(last_event_id)) "stream resumed";

    /// A later request, whose id is in `run`, reads an existing run.
    info ReaderJoined {
        /// prefix of the run's event ids
        token: &'a str,
        /// the last event that the reader has already received; `None` if it reads a snapshot or from the start
        after_number: Option<u64>,
    } (token, behind = after_number) "run joined";

    /// A request, whose id is in `run`, stops an existing run.
    info RunStopRequested {
        token: &'a str,
    } (token) "run stopped";

    /// A run was ended because no client fetched its events in time.
    info PendingRunExpired {} () "run not read in time";
}

log_events! {
    /// A client was disconnected because it had read nothing for longest when slow clients used too much memory.
    warn SlowClientCutOff<'a> { run: RunInfo<'a> } counts(metrics: &Metrics) { metrics.process.slow_clients_cut_off.inc(); }
        (
            route = run.route,
            request_id = run.request_id,
            thread_id = format_id(&run.ids.thread_id),
            run_id = format_id(&run.ids.run_id)
        ) "slow client disconnected";

    /// A preflight request was answered. Logged at debug level, since browsers may send one before every request.
    debug PreflightAnswered<'a> {
        route: &'a str,
        response_status: u16,
    } counts(metrics: &RequestMetrics) { metrics.inc_response(RequestMethod::Options, response_status); }
        (route, status = response_status) "preflight answered";

    /// This replica starts relaying another replica's run.
    info RemoteRunFollowed<'a> {
        ids: &'a RunIds,
        token: &'a str,
        owner: &'a str,
        /// number of the last event that the recap covers
        recap_until: u64,
    } (
        thread_id = format_id(&ids.thread_id),
        run_id = format_id(&ids.run_id),
        token,
        home = owner,
        behind = recap_until
    ) "run of another replica followed";

    /// The replica that executed a run is gone; the run's readers get RUN_ERROR.
    warn RemoteRunLost<'a> {
        ids: &'a RunIds,
        token: &'a str,
        owner: &'a str,
    } (
        thread_id = format_id(&ids.thread_id),
        run_id = format_id(&ids.run_id),
        token,
        home = owner,
        code = RejectionKind::RunLost.code()
    ) "run lost with its replica";

    /// Other replicas can no longer read a run of this replica.
    warn RunReplicationStopped<'a> {
        ids: &'a RunIds,
        token: &'a str,
    } (
        thread_id = format_id(&ids.thread_id),
        run_id = format_id(&ids.run_id),
        token
    ) "run no longer replicated";
}
