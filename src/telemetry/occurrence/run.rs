//! What happens to a request and to its run.

use super::{Caller, millis, shown};
use crate::error::Rejection;
use crate::telemetry::label::{Method, Outcome};
use crate::telemetry::metric::{RequestMetrics, RouteMetrics, Totals};
use std::time::Duration;

/// A request was refused before its stream began.
pub struct Refused<'a> {
    /// the route's name, empty where none matched
    pub route: &'a str,
    /// the request's id
    pub request_id: &'a str,
    /// who called
    pub caller: Caller<'a>,
    /// why
    pub rejection: &'a Rejection,
}

impl Refused<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &RequestMetrics) {
        let Refused { route, request_id, caller, rejection } = self;
        metrics.refused(rejection.kind);
        tracing::info!(
            route,
            request_id,
            status = rejection.status(),
            code = rejection.kind.code(),
            policy = rejection.policy.as_deref().map(shown),
            client = caller.address.map(tracing::field::display),
            auth = caller.method.label(),
            source = caller.source.map(shown),
            subject = caller.subject.map(shown),
            tenant = caller.tenant.map(shown),
            key_id = caller.key_id.map(shown),
            detail = shown(rejection.message()),
            cause = rejection.cause.as_deref().map(shown),
            "request refused"
        );
    }
}

/// A browser asked whether a page may call.
pub struct Preflight<'a> {
    /// the route's name
    pub route: &'a str,
    /// the status of the answer
    pub answered: u16,
}

impl Preflight<'_> {
    /// Logs and counts it. Quietly: browsers ask before every request of a page.
    pub fn emit(self, metrics: &RequestMetrics) {
        let Preflight { route, answered } = self;
        metrics.answered(Method::Options, answered);
        tracing::debug!(route, status = answered, "preflight answered");
    }
}

/// What a run turned out to speak, on a route that leaves it open.
pub struct Detected<'a> {
    /// the route's name
    pub route: &'a str,
    /// the request's id
    pub request_id: &'a str,
    /// client or agent
    pub side: &'static str,
    /// the dialect
    pub dialect: &'static str,
    /// what it was told by
    pub because: &'static str,
}

impl Detected<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Detected { route, request_id, side, dialect, because } = self;
        tracing::info!(route, request_id, side, dialect, because, "dialect detected");
    }
}

/// A run ended: the access log's line.
pub struct RunEnded<'a> {
    /// the route's name
    pub route: &'a str,
    /// the request's id
    pub request_id: &'a str,
    /// the conversation
    pub thread_id: &'a str,
    /// the run
    pub run_id: &'a str,
    /// who asked for it
    pub caller: Caller<'a>,
    /// how it ended
    pub outcome: Outcome,
    /// why, when the gateway ended it
    pub rejection: Option<&'a Rejection>,
    /// from the request to the first event for the client
    pub first_event: Option<Duration>,
    /// from the request to the end
    pub duration: Duration,
    /// bytes for the client
    pub bytes: u64,
    /// events for the client, repairs, losses
    pub totals: Totals,
}

impl RunEnded<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &RouteMetrics) {
        metrics.ended(self.outcome, self.duration);
        if self.totals.foreign > 0 {
            tracing::warn!(
                route = self.route,
                request_id = self.request_id,
                events = self.totals.foreign,
                "the agent speaks another dialect than the route's `agent` says"
            );
        }
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    route = self.route,
                    request_id = self.request_id,
                    thread_id = shown(self.thread_id),
                    run_id = shown(self.run_id),
                    client = self.caller.address.map(tracing::field::display),
                    auth = self.caller.method.label(),
                    source = self.caller.source.map(shown),
                    subject = self.caller.subject.map(shown),
                    tenant = self.caller.tenant.map(shown),
                    key_id = self.caller.key_id.map(shown),
                    outcome = self.outcome.label(),
                    code = self.rejection.map(|rejection| rejection.kind.code()),
                    cause = self.rejection.and_then(|rejection| rejection.cause.as_deref()).map(shown),
                    first_event_ms = self.first_event.map(millis),
                    duration_ms = millis(self.duration),
                    events = self.totals.events,
                    bytes = self.bytes,
                    repairs = self.totals.repairs,
                    losses = self.totals.losses,
                    "run ended"
                )
            };
        }
        match self.outcome {
            Outcome::UpstreamError | Outcome::GatewayError => line!(warn),
            Outcome::Finished
            | Outcome::AgentError
            | Outcome::ClientGone
            | Outcome::Unread
            | Outcome::Drained
            | Outcome::Expired
            | Outcome::Limited
            | Outcome::Cancelled => line!(info),
        }
    }
}

/// The stream of an agent broke, and goes on over another connection.
pub struct Resumed<'a> {
    /// the route's name
    pub route: &'a str,
    /// the request's id
    pub request_id: &'a str,
    /// the id behind which it goes on
    pub last_event_id: &'a str,
}

impl Resumed<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Resumed { route, request_id, last_event_id } = self;
        tracing::info!(route, request_id, last_event_id = shown(last_event_id), "stream resumed");
    }
}

/// Somebody reads a run that another request started.
pub struct Joined<'a> {
    /// the route's name
    pub route: &'a str,
    /// the id of the request that joins
    pub request_id: &'a str,
    /// what the ids of the run's events begin with
    pub token: &'a str,
    /// the number of the event behind which it is read; `None` from a snapshot, or from the start
    pub behind: Option<u64>,
}

impl Joined<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Joined { route, request_id, token, behind } = self;
        tracing::info!(route, request_id, token, behind, "run joined");
    }
}

/// The caller of a run wants it to end.
pub struct Stopped<'a> {
    /// the route's name
    pub route: &'a str,
    /// the id of the request that stops it
    pub request_id: &'a str,
    /// what the ids of the run's events begin with
    pub token: &'a str,
}

impl Stopped<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Stopped { route, request_id, token } = self;
        tracing::info!(route, request_id, token, "run stopped");
    }
}

/// Nobody came for the events of a run that was started; the run is ended.
pub struct Unread<'a> {
    /// the route's name
    pub route: &'a str,
    /// the id of the request that started it
    pub request_id: &'a str,
    /// the conversation
    pub thread_id: &'a str,
}

impl Unread<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Unread { route, request_id, thread_id } = self;
        tracing::info!(route, request_id, thread_id = shown(thread_id), "nobody came for the events");
    }
}

/// The name of an agent's host could not be resolved; the addresses known before stay in use.
pub struct Unresolved<'a> {
    /// the route's name
    pub route: &'a str,
    /// why
    pub cause: String,
}

impl Unresolved<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(route = self.route, cause = shown(&self.cause), "upstream not resolved");
    }
}

/// A run of another replica is read here from now on.
pub struct Followed<'a> {
    /// what the ids of the run's events begin with
    pub token: &'a str,
    /// the process that runs it
    pub home: &'a str,
    /// up to which event it is known in short
    pub behind: u64,
}

impl Followed<'_> {
    /// Logs it.
    pub fn emit(self) {
        let Followed { token, home, behind } = self;
        tracing::info!(token, home, behind, "run of another replica followed");
    }
}

/// The process that ran a run is gone, and whoever reads it is told so.
pub struct RunLost<'a> {
    /// what the ids of the run's events begin with
    pub token: &'a str,
    /// the process that ran it
    pub home: &'a str,
}

impl RunLost<'_> {
    /// Logs it.
    pub fn emit(self) {
        let RunLost { token, home } = self;
        tracing::warn!(token, home, "run lost with its replica");
    }
}

/// A run of this replica cannot be followed elsewhere any more: it was taken for lost, or another one has its place.
pub struct Unshared<'a> {
    /// what the ids of the run's events begin with
    pub token: &'a str,
}

impl Unshared<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(token = self.token, "run shared no longer");
    }
}
