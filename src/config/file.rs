//! The file as it was written: one struct for each mapping. The doc comments are the manual, `Default` is the defaults.
//!
//! A field's type, `Scalar<kind::X>`, also defines its schema and how much of it is printed. Each scalar keeps its text
//! and position. `check` replaces `${VAR}` and parses units later, so that one pass reports all mistakes of a file.
//! Defaults are written here, once, as an operator would write them; they pass through the same checks as a file.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::schema::kind;

mod text;
mod access;
mod listen;
mod admin_endpoints;
mod replay;
mod upstream;

pub(crate) use access::{
    ApiKeyFile, ApiKeyListSpec, ApiKeySpec, AuthSpec, CorsSpec, IssuerSpec, RateLimitSpec, RedisSpec, RequireSpec,
    RunLimitsSpec, TierSpec, UpstreamHeaderMapping, UpstreamHeaderSpec,
};
pub(crate) use admin_endpoints::AdminEndpointsSpec;
pub(crate) use listen::{ListenerTlsSpec, ListenersSpec, SocketListSpec, SocketMapping, SocketSpec};
pub(crate) use replay::ReplaySpec;
use text::synthetic_text;
pub(crate) use text::{Scalar, ScalarOrList, Spanned, Text};
pub(crate) use upstream::{
    EjectionSpec, HealthCheckSpec, UpstreamListSpec, UpstreamMapping, UpstreamSpec, UpstreamTlsSpec,
};

/// The whole file. Every key but `routes` may be left out.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConfigFile {
    /// The listeners of the data plane and of the status plane.
    pub(crate) listeners: ListenersSpec,
    /// Addresses or networks (`10.0.0.0/8`) of the trusted proxies in front, or `unix` for every peer on a Unix socket.
    /// `Forwarded`, `X-Forwarded-For` and the PROXY protocol are accepted from them and ignored from all other peers.
    pub(crate) trusted_proxies: Vec<Scalar<kind::TrustedProxy>>,
    /// Issuers of tokens and lists of API keys. If any is configured, every route without `auth` requires a credential
    /// from one of them.
    pub(crate) auth: AuthSpec,
    /// Rate limits, which routes name in `rate_limits`.
    pub(crate) rate_limits: Vec<Spanned<RateLimitSpec>>,
    /// The Redis in which replicas share rate limits (`shared: true`) and the owners of threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redis: Option<Spanned<RedisSpec>>,
    /// Limits on the size of requests, events and buffers, and on the number of concurrent runs.
    pub(crate) limits: LimitsSpec,
    /// Silence of the agent after which the client receives an SSE comment, so that no proxy in between closes the
    /// connection as idle. A duration.
    pub(crate) keep_alive: Scalar<kind::Duration>,
    /// Time after SIGTERM during which connections and runs are still accepted, while `/readyz` already answers 503: as
    /// long as load balancers need to notice. A duration; with `0s` none are accepted.
    pub(crate) drain_grace: Scalar<kind::Duration>,
    /// Time that running streams have after `drain_grace` before they are ended. A duration; `0s` ends them at once.
    pub(crate) drain_timeout: Scalar<kind::Duration>,
    /// Time that running streams have in a process whose sockets were taken over by `diglot serve --upgrade`. A
    /// duration.
    pub(crate) upgrade_timeout: Scalar<kind::Duration>,
    /// A directory for the control sockets of `diglot drain`, `diglot reload` and `diglot serve --upgrade`. If it does
    /// not exist, it is created with access for this user alone. No socket unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_dir: Option<Scalar<kind::FileName>>,
    /// Limits of the replay log for runs that outlive their clients.
    pub(crate) replay: ReplaySpec,
    /// Custom dialects, for `client` and `agent` of routes.
    pub(crate) dialects: Vec<Spanned<CustomDialectSpec>>,
    /// The routes from paths to agents. At least one.
    #[schemars(with = "kind::NonEmptyListKind<RouteSpec>")]
    pub(crate) routes: Spanned<Vec<Spanned<RouteSpec>>>,
}

impl Default for ConfigFile {
    fn default() -> ConfigFile {
        ConfigFile {
            listeners: ListenersSpec::default(),
            trusted_proxies: Vec::new(),
            auth: AuthSpec::default(),
            rate_limits: Vec::new(),
            redis: None,
            limits: LimitsSpec::default(),
            keep_alive: synthetic_text("15s"),
            drain_grace: synthetic_text("5s"),
            drain_timeout: synthetic_text("30s"),
            replay: ReplaySpec::default(),
            upgrade_timeout: synthetic_text("1h"),
            run_dir: None,
            dialects: Vec::new(),
            routes: Spanned::without_position(Vec::new()),
        }
    }
}

/// Limits of requests, runs and connections. A size is a whole number of bytes, alone or with a unit: `65536`, `64KiB`,
/// `8MiB`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSpec {
    /// The largest request body accepted from a client; a larger one is refused.
    pub(crate) request_body: Scalar<kind::Size>,
    /// The largest SSE frame accepted from an agent; a larger one ends the run with an error.
    pub(crate) frame: Scalar<kind::Size>,
    /// Bytes buffered for one slow client before reading from its agent pauses.
    pub(crate) client_buffer: Scalar<kind::Size>,
    /// The largest request head, including the request target; a larger one is refused. At least 8KiB.
    pub(crate) header_bytes: Scalar<kind::Size>,
    /// The most header fields of a request.
    pub(crate) headers: Scalar<kind::Count>,
    /// Timeout for the head of a request.
    pub(crate) head_timeout: Scalar<kind::Duration>,
    /// Timeout for the whole body of a request.
    pub(crate) body_timeout: Scalar<kind::Duration>,
    /// Time that a connection may be idle between two requests before it is closed.
    pub(crate) idle_timeout: Scalar<kind::Duration>,
    /// The most concurrent client connections; further ones are closed immediately. Each needs a file descriptor, and
    /// another one for its agent during a run.
    pub(crate) connections: Scalar<kind::Count>,
    /// The most concurrent connections from one address, or from one /64 network of IPv6; trusted proxies are exempt.
    /// No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections_per_address: Option<Scalar<kind::Count>>,
    /// The most concurrent runs of all routes; further ones are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams: Option<Scalar<kind::Count>>,
    /// Sends `X-RateLimit-Limit`, `-Remaining` and `-Reset` in addition to `RateLimit`: `true` or `false`.
    pub(crate) legacy_headers: Scalar<kind::Truth>,
}

impl Default for LimitsSpec {
    fn default() -> LimitsSpec {
        LimitsSpec {
            request_body: synthetic_text("8MiB"),
            frame: synthetic_text("10MiB"),
            client_buffer: synthetic_text("64KiB"),
            header_bytes: synthetic_text("64KiB"),
            headers: synthetic_text("100"),
            head_timeout: synthetic_text("30s"),
            body_timeout: synthetic_text("30s"),
            idle_timeout: synthetic_text("75s"),
            connections: synthetic_text("8192"),
            connections_per_address: None,
            max_streams: None,
            legacy_headers: synthetic_text("false"),
        }
    }
}

// The keys without a default are `Option`, so that a file without them is told of all of them at once.
/// One path of the data plane and the agent behind it.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteSpec {
    /// The name of the route in metrics and logs; its path when left out. Unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Scalar<kind::Text>>,
    /// The path that clients POST to, matched exactly. Required. Unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::Path>")]
    pub(crate) path: Option<Scalar<kind::Path>>,
    /// The path at which clients of `social-app` GET the events of a run, with `{thread_id}` as one of its segments;
    /// their POST is then answered with 202. Without it the response to the POST carries the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events_path: Option<Scalar<kind::EventsPath>>,
    /// Behaviour of a run after its client has disconnected: it ends (`abort`), or continues for this long and can be
    /// resumed (`continue for 5m`).
    #[serde(default = "replay::on_disconnect")]
    pub(crate) on_disconnect: Scalar<kind::OnDisconnect>,
    /// The dialect of the clients. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Spanned<PeerDialectSpec>")]
    pub(crate) client: Option<Spanned<PeerDialectSpec>>,
    /// The dialect of the agent. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Spanned<PeerDialectSpec>")]
    pub(crate) agent: Option<Spanned<PeerDialectSpec>>,
    /// The agent's address: an `http` or `https` URL, a Unix socket (`unix:/run/agent.sock:/chat`), a mapping with one
    /// of them and its options, or a list of them over which runs are balanced. Required. Each host and port is listed
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Spanned<UpstreamListSpec>")]
    pub(crate) upstream: Option<Spanned<UpstreamListSpec>>,
    /// TLS settings for connections to the agent. When left out: the system's root certificates, and no client
    /// certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream_tls: Option<Spanned<UpstreamTlsSpec>>,
    /// Active health checks of each upstream. None when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) health: Option<HealthCheckSpec>,
    /// Ejection of failing upstreams for a while.
    #[serde(default)]
    pub(crate) ejection: EjectionSpec,
    /// The events path of a two-step agent, on the host of `upstream`, with `{thread_id}` and optionally `{run_id}`.
    /// Without it the agent's response to the POST carries the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Scalar<kind::EventsPath>>,
    /// Handling of protocol violations by the agent: repair the stream (`repair`), end the run with an error
    /// (`strict`), or only count them (`report`).
    #[serde(default = "guard")]
    pub(crate) guard: Scalar<kind::Guard>,
    /// Timeouts of the agent.
    #[serde(default)]
    pub(crate) timeouts: TimeoutsSpec,
    /// Names of the issuers and lists of API keys whose credentials are accepted; `none` opens the route to anonymous
    /// callers. All of `auth` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<Spanned<ScalarOrList<kind::Text>>>,
    /// Further requirements for callers.
    #[serde(default)]
    pub(crate) require: RequireSpec,
    /// The only tools that a request may offer and the agent may call. All when left out; `[]` forbids all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<Scalar<kind::Text>>>,
    /// Access to threads: only for the caller who opened the thread (`owned`), or for every caller who knows its id
    /// (`shared`).
    #[serde(default = "threads")]
    pub(crate) threads: Scalar<kind::Threads>,
    /// Behaviour of a run when its caller's token expires: it continues to its end (`finish`), ends with an error
    /// (`run_error`), or its connection is closed (`close`).
    #[serde(default = "on_token_expiry")]
    pub(crate) on_token_expiry: Scalar<kind::OnTokenExpiry>,
    /// Names of rate limits. A request has to pass all of them.
    #[serde(default)]
    pub(crate) rate_limits: Vec<Scalar<kind::Text>>,
    /// The most concurrent runs of the route; further ones are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams: Option<Scalar<kind::Count>>,
    /// The most concurrent runs of the route for one caller, or for one address if callers are anonymous; further ones
    /// are refused with 429. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams_per_caller: Option<Scalar<kind::Count>>,
    /// Limits of one run.
    #[serde(default)]
    pub(crate) run_limits: RunLimitsSpec,
    /// Cross-origin access for browsers (CORS). Same-origin pages only when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cors: Option<Spanned<CorsSpec>>,
    /// The form of a refusal: a status and a problem document (`http`), or a stream with `RUN_ERROR` (`run_error`),
    /// which the AG-UI client displays better.
    #[serde(default = "errors")]
    pub(crate) errors: Scalar<kind::Errors>,
    /// Header fields of the request that are forwarded to the agent unchanged. The request id and the trace context are
    /// always forwarded.
    #[serde(default)]
    pub(crate) forward_headers: Vec<Scalar<kind::Field>>,
    /// Forwards the caller's own credential to the agent: `true` or `false`.
    #[serde(default = "forward_credentials")]
    pub(crate) forward_credentials: Scalar<kind::Truth>,
    /// Header fields that the gateway sets on requests to the agent, such as credentials: a value, or `{file: …,
    /// prefix: "Bearer "}`.
    #[serde(default)]
    pub(crate) upstream_headers: BTreeMap<String, Spanned<UpstreamHeaderSpec>>,
}

fn guard() -> Scalar<kind::Guard> {
    synthetic_text("repair")
}

fn threads() -> Scalar<kind::Threads> {
    synthetic_text("shared")
}

fn on_token_expiry() -> Scalar<kind::OnTokenExpiry> {
    synthetic_text("finish")
}

fn errors() -> Scalar<kind::Errors> {
    synthetic_text("http")
}

fn forward_credentials() -> Scalar<kind::Truth> {
    synthetic_text("false")
}

/// Timeouts for each step of a run; durations such as `500ms`, `15s`, `5m`, `1h`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TimeoutsSpec {
    /// Time to establish a connection, including the TLS handshake.
    pub(crate) connect: Scalar<kind::Duration>,
    /// Time from the request to the first byte of the response, including the connection.
    pub(crate) first_byte: Scalar<kind::Duration>,
    /// Time from the request to the first event. No separate timeout unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_event: Option<Scalar<kind::Duration>>,
    /// Time between two chunks of a response. The whole run is limited only by `run_limits`.
    pub(crate) idle: Scalar<kind::Duration>,
    /// Time from the response to the POST until the client GETs the events, on a route with `events_path`.
    pub(crate) reader: Scalar<kind::Duration>,
}

impl Default for TimeoutsSpec {
    fn default() -> TimeoutsSpec {
        TimeoutsSpec {
            connect: synthetic_text("5s"),
            first_byte: synthetic_text("60s"),
            first_event: None,
            idle: synthetic_text("5m"),
            reader: synthetic_text("60s"),
        }
    }
}

/// A dialect and its options: a name alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PeerDialectSpec {
    /// `client: ag-ui`
    Name(Text<kind::DialectRefKind>),
    /// `client: {dialect: hai, content: blocks}`
    Mapping(Box<PeerDialectMapping>),
}

/// The mapping form of a dialect. The dialect defines which options it accepts.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerDialectMapping {
    /// The dialect's name. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::DialectRefKind>")]
    pub(crate) dialect: Option<Scalar<kind::DialectRefKind>>,
    /// The form of streamed text sent to it: plain strings (`string`) or output blocks (`blocks`). Both are accepted
    /// from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Scalar<kind::Content>>,
    /// The spelling of member names sent to it: `camel` or `snake`. Both are accepted from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<Scalar<kind::Fields>>,
    /// The tool of the client that asks its user what an interrupt of the agent asks; at most 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt_tool: Option<Scalar<kind::Text>>,
    /// The peer's version of AG-UI, such as `0.0.45`: events that it does not know are translated to ones that it
    /// knows. Without it the output suits the oldest version, which all versions accept. `0.1` stands for Python's
    /// 0.1.x.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pin: Option<Scalar<kind::Pin>>,
    /// The unit of timestamps: `ms`, `s`, or `auto`, which reads numbers below 10^11 as seconds and writes
    /// milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<Scalar<kind::Timestamp>>,
    /// Names of roles: from AG-UI's role to the peer's name for it.
    #[serde(default)]
    pub(crate) roles: BTreeMap<String, Scalar<kind::Text>>,
    /// Names of CUSTOM events that mean that the run failed. Such an event leaves as the error that ends the run.
    #[serde(default)]
    pub(crate) errors: Vec<Scalar<kind::Text>>,
}

/// A custom dialect: another dialect with different names, values and strip rules. Keys that are left out keep its
/// rules.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomDialectSpec {
    /// The name that routes use. Required; different from all built-in dialects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::DialectName>")]
    pub(crate) name: Option<Scalar<kind::DialectName>>,
    /// The dialect that it changes: a built-in one, or a custom one defined above it. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Scalar<kind::DialectRefKind>")]
    pub(crate) extends: Option<Scalar<kind::DialectRefKind>>,
    /// Types of events: from the extended dialect's to its own.
    #[serde(default)]
    pub(crate) events: BTreeMap<String, Scalar<kind::Text>>,
    /// Members of events, messages and requests: from AG-UI's name to its own.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, Scalar<kind::Text>>,
    /// Roles: from AG-UI's name to its own.
    #[serde(default)]
    pub(crate) roles: BTreeMap<String, Scalar<kind::Text>>,
    /// Values of members: by AG-UI's name of the member, from AG-UI's value to its own.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, BTreeMap<String, Scalar<kind::Text>>>,
    /// Members of its events that must not leave the gateway.
    #[serde(default)]
    pub(crate) strip: Vec<Scalar<kind::Text>>,
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the two choices are made by hand.
impl<'de> Deserialize<'de> for PeerDialectSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PeerDialectSpec, D::Error> {
        struct PeerDialectVisitor;
        impl<'de> Visitor<'de> for PeerDialectVisitor {
            type Value = PeerDialectSpec;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a dialect or a mapping such as {dialect: NAME}")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<PeerDialectSpec, E> {
                Ok(PeerDialectSpec::Name(Text::new(name)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PeerDialectSpec, A::Error> {
                PeerDialectMapping::deserialize(MapAccessDeserializer::new(map))
                    .map(|mapping| PeerDialectSpec::Mapping(Box::new(mapping)))
            }
        }
        deserializer.deserialize_any(PeerDialectVisitor)
    }
}
