//! Things that happen, a struct each: `emit` writes the log line and counts.
//!
//! Text that comes from outside is escaped by the log's JSON and cut here, so that nobody writes a line of ours.

use super::label::AuthMethod;
use super::metric::{Metrics, Outcome, RouteMetrics, Totals};
use crate::error::Rejection;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Longest text of a client or an agent in a log line, in characters.
const SHOWN: usize = 200;

/// A listener is open.
pub struct Listening {
    /// data or status
    pub plane: &'static str,
    /// the bound address
    pub address: SocketAddr,
}

impl Listening {
    /// Logs it.
    pub fn emit(&self) {
        tracing::info!(plane = self.plane, address = %self.address, "listening");
    }
}

/// Who calls, as far as that is known. Never a credential.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// the client's address
    pub address: Option<IpAddr>,
    /// how it showed who it is
    pub method: AuthMethod,
    /// the issuer, or the source of keys
    pub source: Option<&'a str>,
    /// who
    pub subject: Option<&'a str>,
    /// on whose behalf
    pub tenant: Option<&'a str>,
    /// the id of an API key
    pub key_id: Option<&'a str>,
}

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
    /// the status of the answer: 200 where the client hears of it in an event
    pub answered: u16,
}

impl Refused<'_> {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        let Refused { route, request_id, caller, rejection, answered } = self;
        metrics.request(route, answered);
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
    pub fn emit(self, metrics: &Metrics) {
        let Preflight { route, answered } = self;
        metrics.request(route, answered);
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
        metrics.ended(self.outcome);
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
            Outcome::UpstreamError => line!(warn),
            Outcome::Finished
            | Outcome::AgentError
            | Outcome::ClientGone
            | Outcome::Drained
            | Outcome::Expired
            | Outcome::Limited => line!(info),
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

/// A file of keys or secrets changed; what it says now is in use.
pub struct FileChanged<'a> {
    /// the file
    pub path: &'a Path,
}

impl FileChanged<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(path = %self.path.display(), "file read again");
    }
}

/// A file of keys or secrets is gone or broken; what it said before stays in use. Said once for each such change.
pub struct FileUnusable<'a> {
    /// the file
    pub path: &'a Path,
    /// what is wrong with it, without its content
    pub cause: &'a str,
}

impl FileUnusable<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::error!(path = %self.path.display(), cause = shown(self.cause), "file cannot be used; the last good content stays");
    }
}

/// Keys of an issuer came: the first ones, or those after a failure.
pub struct KeysFetched<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// how many
    pub keys: usize,
}

impl KeysFetched<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(issuer = self.issuer, keys = self.keys, "keys of the issuer fetched");
    }
}

/// Keys of an issuer cannot be had. Said once, until they come again.
pub struct KeysUnavailable<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// why
    pub cause: &'a str,
    /// whether those from before are still in use
    pub stale: bool,
}

impl KeysUnavailable<'_> {
    /// Logs it.
    pub fn emit(self) {
        let KeysUnavailable { issuer, cause, stale } = self;
        tracing::warn!(issuer, cause = shown(cause), stale, "keys of the issuer cannot be fetched");
    }
}

/// Some keys of an issuer cannot be used. Said once for each such set of keys.
pub struct KeysIgnored<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// which, and why
    pub ignored: &'a str,
}

impl KeysIgnored<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(issuer = self.issuer, ignored = shown(self.ignored), "keys of the issuer left out");
    }
}

/// The Redis that replicas share does not answer; what is done without it is configured.
pub struct RedisAway<'a> {
    /// its URL, without a password
    pub redis: &'a str,
    /// why
    pub cause: String,
}

impl RedisAway<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(redis = self.redis, cause = shown(&self.cause), "redis does not answer");
    }
}

/// The Redis that replicas share answers, for the first time or again.
pub struct RedisAnswers<'a> {
    /// its URL, without a password
    pub redis: &'a str,
}

impl RedisAnswers<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(redis = self.redis, "redis answers");
    }
}

/// The gateway stops taking runs.
pub struct Draining {
    /// how long open runs may go on
    pub timeout: Duration,
}

impl Draining {
    /// Logs and counts it.
    pub fn emit(self, metrics: &Metrics) {
        metrics.draining(true);
        tracing::info!(timeout_ms = millis(self.timeout), "draining");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
