//! The configuration that the program runs on: plain, checked values.
//!
//! ```text
//! diglot.yaml --recovery--> file::ConfigFile --check--> Config
//!                 \                             \
//!                  every ConfigProblem           every ConfigProblem
//! ```
//! `file` holds the file as it was written, with the manual and the defaults. The kind of each scalar (`schema::kind`)
//! decides its schema and how much of it is printed. `recovery` reads as much of the file as possible and reports mistakes
//! in YAML, keys and shapes. `check` replaces variables and parses each value by the rules of `scalar`. Neither reports
//! what only follows from another mistake. Only [`load`] creates a `Config`, so every `Config` has been checked.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use self::access::{AccessConfig, AuthConfig, RateLimitsConfig, TrustedProxies};
use self::listen::ListenerConfig;
use self::process::ProcessConfig;
use self::replay::{OnDisconnect, ReplayConfig};
use crate::dialect::PeerDialect;
use crate::translate::GuardMode;

pub(crate) mod access;
pub(crate) mod certificate;
mod difference;
pub(crate) mod header_names;
pub mod listen;
pub(crate) mod process;
mod redact;
pub mod reload;
pub(crate) mod replay;
mod substitution;
mod template;
mod upstream;
pub(crate) mod enum_values;
mod scalar;
pub(crate) mod file;
pub mod schema;
mod problem;
mod spanned_tree;
pub mod keys;
mod tree_reader;
mod yaml_hints;
mod yaml_errors;
mod recovery;
pub(crate) mod source;
pub(crate) mod admin_endpoints;
mod check;
pub mod load;
pub mod effective;
#[cfg(test)]
mod tests;

pub use problem::{ConfigProblem, ConfigProblems, ProblemSeverity, did_you_mean};
pub(crate) use template::PathTemplate;
pub(crate) use upstream::{
    EjectionConfig, HealthCheckConfig, UpstreamAddress, UpstreamClientCert, UpstreamConfig, UpstreamHttpVersion,
    UpstreamTlsConfig,
};

/// A duration that is not zero, as a configuration spells it: `500ms`, `15s`, `5m`, `1h`.
///
/// # Errors
/// The text is not a duration; the message has a hint.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    scalar::parse_duration(text).map_err(|fault| format!("{}; {}", fault.predicate, fault.hint))
}

/// A duration as a configuration spells it, in the largest unit that has no rest.
#[must_use]
pub(crate) fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listeners of the data plane. Never empty; overlaps with neither itself nor `status`.
    pub data: Vec<ListenerConfig>,
    /// Listeners of the status plane. Empty when it is turned off.
    pub status: Vec<ListenerConfig>,
    /// Peers whose `Forwarded`, `X-Forwarded-For` and PROXY protocol are accepted.
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) auth: AuthConfig,
    /// Rate limits, by policy.
    pub rate_limits: RateLimitsConfig,
    /// Limits of requests, runs and connections.
    pub limits: LimitsConfig,
    /// Silence after which a client receives a comment. Never zero.
    pub keep_alive: Duration,
    /// Lifecycle of the process.
    pub process: ProcessConfig,
    pub(crate) replay: ReplayConfig,
    /// In the order of the file. Never empty; no two share a path or a name.
    pub routes: Vec<RouteConfig>,
}

/// Limits of requests, runs and connections. Sizes are in bytes; nothing is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// The largest request body taken from a client.
    pub request_body: usize,
    /// The largest SSE frame taken from an agent.
    pub(crate) frame: usize,
    /// Bytes buffered for one slow client before reading from its agent pauses.
    pub(crate) client_buffer: usize,
    /// The largest head of a request; at least 8 KiB.
    pub(crate) header_bytes: usize,
    /// The most fields of a request.
    pub(crate) headers: usize,
    /// From the first byte of a request to the end of its head.
    pub(crate) head_timeout: Duration,
    /// For the whole body of a request.
    pub(crate) body_timeout: Duration,
    /// From the end of an answer to the first byte of the next request.
    pub(crate) idle_timeout: Duration,
    /// The most connections of clients at once.
    pub(crate) connections: usize,
    /// The most connections at once of one address; of IPv6 of one /64 network.
    pub(crate) connections_per_address: Option<NonZeroUsize>,
    /// The most runs at once, of all routes.
    pub max_streams: Option<NonZeroUsize>,
}

/// One path and the agent behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteConfig {
    /// The route in metrics and logs: not empty, no control characters, unique.
    pub name: String,
    /// Matched exactly against the request's path, which is not decoded for it. Begins with `/`, unique.
    pub path: String,
    /// The path where clients GET the events of a run that they POSTed; its placeholder is one whole segment. No
    /// request matches two
    /// of these, or by one and a `path`.
    pub(crate) events_path: Option<PathTemplate>,
    pub(crate) on_disconnect: OnDisconnect,
    /// Dialect of the clients.
    pub client: PeerDialect,
    /// Dialect of the agent.
    pub agent: PeerDialect,
    /// Never empty, no two with the same address.
    pub upstreams: Vec<UpstreamConfig>,
    /// With `None`, the system's root certificates apply.
    pub(crate) upstream_tls: Option<UpstreamTlsConfig>,
    pub(crate) health: Option<HealthCheckConfig>,
    pub(crate) ejection: EjectionConfig,
    /// The agent's events path, on the host of the upstream that accepted the run.
    pub(crate) events: Option<PathTemplate>,
    pub(crate) guard: GuardMode,
    pub(crate) timeouts: TimeoutsConfig,
    /// Authentication, authorisation and limits of callers.
    pub access: Arc<AccessConfig>,
}

/// Timeouts of an agent, and of a reader, for each step of a run. None is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeoutsConfig {
    /// To accept a connection, the TLS handshake included.
    pub(crate) connect: Duration,
    /// From the request to the first byte of the response, connecting included.
    pub(crate) first_byte: Duration,
    /// From the request to the first event; `idle` alone watches over it where there is none.
    pub(crate) first_event: Option<Duration>,
    /// Between two pieces of a response that has begun.
    pub(crate) idle: Duration,
    /// From the response to the POST to the GET of the events.
    pub(crate) reader: Duration,
}
