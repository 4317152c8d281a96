//! What the operator writes: one struct per mapping of the YAML file, its docs the manual, its `Default` the defaults.
//!
//! Every scalar is kept as the text that was written, with its position. `${VAR}` is put in and units are read only by
//! `check`, so that all mistakes of a file are found in one pass and each is shown where it stands. Defaults are
//! written here, once, in the operator's own spelling; they go through the same checks as a file.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::schema::kind;

mod access;
mod admin_endpoints;
mod listen;
mod replay;
mod text;
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
    /// Where Diglot listens.
    pub(crate) listeners: ListenersSpec,
    /// Addresses or networks (`10.0.0.0/8`) of the proxies in front, or `unix` for whoever may open a Unix socket: what they
    /// say of their clients in `Forwarded`, `X-Forwarded-For` and the PROXY protocol is believed. From anybody else it is
    /// ignored.
    pub(crate) trusted_proxies: Vec<Scalar<kind::TrustedProxy>>,
    /// Whom the gateway believes. With it, every route without `auth` wants a credential of one of its methods.
    pub(crate) auth: AuthSpec,
    /// Rate limits, for `rate_limits` of routes.
    pub(crate) rate_limits: Vec<Spanned<RateLimitSpec>>,
    /// Where replicas count together (`shared: true` of a rate limit), and keep whose a thread is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redis: Option<Spanned<RedisSpec>>,
    /// How much requests, events and clients may take, and how many runs there may be at once.
    pub(crate) limits: LimitsSpec,
    /// How long the agent may be silent before a client is sent an SSE comment, so that no proxy on the way takes the
    /// connection for dead. A duration.
    pub(crate) keep_alive: Scalar<kind::Duration>,
    /// How long connections and runs are still taken after SIGTERM, while `/readyz` says 503 already: as long as load
    /// balancers take to see it. A duration; with `0s` none are.
    pub(crate) drain_grace: Scalar<kind::Duration>,
    /// How long running streams may go on behind `drain_grace` before they are ended. A duration; `0s` ends them at once.
    pub(crate) drain_timeout: Scalar<kind::Duration>,
    /// How long running streams may go on in a process whose sockets were taken over by `diglot serve --upgrade`. A
    /// duration.
    pub(crate) upgrade_timeout: Scalar<kind::Duration>,
    /// A folder for the sockets by which the process is spoken to on this machine: `diglot drain`, `diglot reload`,
    /// `diglot serve --upgrade`. Made, for this user alone, where it is not there. No socket unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_dir: Option<Scalar<kind::FileName>>,
    /// What is kept of runs that outlive their clients.
    pub(crate) replay: ReplaySpec,
    /// Dialects of one's own, for `client` and `agent` of routes.
    pub(crate) dialects: Vec<Spanned<CustomDialectSpec>>,
    /// Which path leads to which agent. At least one.
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

/// What one request and one run may take. Sizes are a whole number of bytes or one with a unit: `65536`, `64KiB`, `8MiB`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSpec {
    /// The largest request body taken from a client; a larger one is refused.
    pub(crate) request_body: Scalar<kind::Size>,
    /// The largest SSE frame taken from an agent; a larger one ends the run with an error.
    pub(crate) frame: Scalar<kind::Size>,
    /// How many bytes may wait for one slow client before its agent is made to wait.
    pub(crate) client_buffer: Scalar<kind::Size>,
    /// The largest head of a request, with its target; a larger one is refused. At least 8KiB.
    pub(crate) header_bytes: Scalar<kind::Size>,
    /// The most fields of a request.
    pub(crate) headers: Scalar<kind::Count>,
    /// How long the head of a request may take.
    pub(crate) head_timeout: Scalar<kind::Duration>,
    /// How long the whole body of a request may take.
    pub(crate) body_timeout: Scalar<kind::Duration>,
    /// How long a connection may do nothing between two requests before it is closed.
    pub(crate) idle_timeout: Scalar<kind::Duration>,
    /// The most connections of clients at once; more are closed at once. Each takes a file descriptor, and another one for
    /// its agent while a run goes on.
    pub(crate) connections: Scalar<kind::Count>,
    /// The most connections at once of one address, of IPv6 of one /64 network; trusted proxies may have any number. No
    /// limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections_per_address: Option<Scalar<kind::Count>>,
    /// The most runs at once, of all routes; more are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams: Option<Scalar<kind::Count>>,
    /// Whether `X-RateLimit-Limit`, `-Remaining` and `-Reset` are sent beside `RateLimit`: `true` or `false`.
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
    /// The route in metrics and logs; the path when left out. No two routes share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Scalar<kind::Text>>,
    /// The path that clients POST to, matched exactly. Required. No two routes share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) path: Option<Scalar<kind::Path>>,
    /// The path at which clients of `social-app` GET the events of a run, with `{thread_id}` as one of its segments; what
    /// they POST is answered 202 then. Without it the events are the answer to the POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events_path: Option<Scalar<kind::EventsPath>>,
    /// What becomes of a run when nobody listens to it: it ends (`abort`), or goes on for so long and can be come back to
    /// (`continue for 5m`).
    #[serde(default = "replay::on_disconnect")]
    pub(crate) on_disconnect: Scalar<kind::OnDisconnect>,
    /// What the clients speak. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) client: Option<Spanned<PeerDialectSpec>>,
    /// What the agent speaks. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) agent: Option<Spanned<PeerDialectSpec>>,
    /// Where the agent is: an `http` or `https` URL, a Unix socket (`unix:/run/agent.sock:/chat`), a mapping of one and its
    /// options, or a list of them over which runs are spread. Required. No two of a list share host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) upstream: Option<Spanned<UpstreamListSpec>>,
    /// What TLS connections to it are made with. The certificates of the system, and none of our own, when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream_tls: Option<Spanned<UpstreamTlsSpec>>,
    /// How each upstream is asked whether it is well. Not at all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) health: Option<HealthCheckSpec>,
    /// When an upstream that fails is left out for a while.
    #[serde(default)]
    pub(crate) ejection: EjectionSpec,
    /// Where an agent of two steps has its events: a path on the host of `upstream`, with `{thread_id}` and, where it is
    /// wanted, `{run_id}` in it. Without it the agent answers what is POSTed to it with the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Scalar<kind::EventsPath>>,
    /// What is done about an agent that breaks a rule of its protocol: it is mended (`repair`), ends the run with an error
    /// (`strict`), or is counted alone (`report`).
    #[serde(default = "guard")]
    pub(crate) guard: Scalar<kind::Guard>,
    /// How long the agent may take.
    #[serde(default)]
    pub(crate) timeouts: TimeoutsSpec,
    /// Names of issuers and sources of API keys, one of which a caller's credential has to be from; `none` lets anybody
    /// call. All of `auth` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<Spanned<ScalarOrList<kind::Text>>>,
    /// What else has to be true of a caller.
    #[serde(default)]
    pub(crate) require: RequireSpec,
    /// The only tools that a request may offer and the agent may call. Any when left out; `[]` forbids all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<Scalar<kind::Text>>>,
    /// Whether a thread belongs to the caller who opened it (`owned`), or to anybody who knows its id (`shared`).
    #[serde(default = "threads")]
    pub(crate) threads: Scalar<kind::Threads>,
    /// What becomes of a run whose caller's token expires: it goes on (`finish`), ends with an error (`run_error`), or its
    /// connection is cut (`close`).
    #[serde(default = "on_token_expiry")]
    pub(crate) on_token_expiry: Scalar<kind::OnTokenExpiry>,
    /// Names of rate limits. All have to let a request pass.
    #[serde(default)]
    pub(crate) rate_limits: Vec<Scalar<kind::Text>>,
    /// The most runs of the route at once; more are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams: Option<Scalar<kind::Count>>,
    /// The most runs of the route at once of one caller, or of one address where callers are not known; more are refused
    /// with 429. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_streams_per_caller: Option<Scalar<kind::Count>>,
    /// How large and long one run may get.
    #[serde(default)]
    pub(crate) run_limits: RunLimitsSpec,
    /// Pages of which origins may call. None but the gateway's own when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cors: Option<Spanned<CorsSpec>>,
    /// How a caller hears of a refusal: a status and a problem document (`http`), or a stream with `RUN_ERROR`
    /// (`run_error`), which the AG-UI client shows better.
    #[serde(default = "errors")]
    pub(crate) errors: Scalar<kind::Errors>,
    /// Fields of a request that the agent gets as they are. The request id and the trace go along without it.
    #[serde(default)]
    pub(crate) forward_headers: Vec<Scalar<kind::Field>>,
    /// Whether the caller's own credential goes to the agent: `true` or `false`.
    #[serde(default = "forward_credentials")]
    pub(crate) forward_credentials: Scalar<kind::Truth>,
    /// Fields that the gateway sets for the agent, such as its credentials: a value, or `{file: …, prefix: "Bearer "}`.
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

/// How long the agent, and a reader, may take for each step of a run; durations such as `500ms`, `15s`, `5m`, `1h`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TimeoutsSpec {
    /// To accept a connection, the TLS handshake included.
    pub(crate) connect: Scalar<kind::Duration>,
    /// From the request to the first byte of the response, connecting included.
    pub(crate) first_byte: Scalar<kind::Duration>,
    /// From the request to the first event. No limit of its own unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_event: Option<Scalar<kind::Duration>>,
    /// Between two pieces of a response that has begun. There is no limit on the whole run, unless `run_limits` has one.
    pub(crate) idle: Scalar<kind::Duration>,
    /// From the answer to the POST to the GET of the events, on a route with `events_path`.
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

/// The mapping form of a side. Which options a dialect takes is said by the dialect.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerDialectMapping {
    /// The dialect's name. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) dialect: Option<Scalar<kind::DialectRefKind>>,
    /// How streamed text is written to it: as plain strings (`string`) or as output blocks (`blocks`). Both are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Scalar<kind::Content>>,
    /// How member names are spelt when written to it: `camel` or `snake`. Both are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<Scalar<kind::Fields>>,
    /// The tool of the client that asks its user what an interrupt of the agent asks; at most 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt_tool: Option<Scalar<kind::Text>>,
    /// Which version of AG-UI the peer has, such as `0.0.45`: what it has no word for is said otherwise. Without it
    /// everything is written as the oldest takes it, and so do all. `0.1` stands for Python's 0.1.x.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pin: Option<Scalar<kind::Pin>>,
    /// In what timestamps count: `ms`, `s`, or `auto`, which takes numbers below 10^11 for seconds and writes
    /// milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<Scalar<kind::Timestamp>>,
    /// Words for roles: from AG-UI's role to the peer's word.
    #[serde(default)]
    pub(crate) roles: BTreeMap<String, Scalar<kind::Text>>,
    /// Names of CUSTOM events that mean that the run failed. Such an event leaves as the error that ends the run.
    #[serde(default)]
    pub(crate) errors: Vec<Scalar<kind::Text>>,
}

/// A dialect of one's own: a built-in one with other names, words and strip rules. What is left out stays as it is there.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomDialectSpec {
    /// What routes call it. Required; no dialect of that name may be built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) name: Option<Scalar<kind::DialectName>>,
    /// The dialect that it changes. Required; one that stands above it in the file may be named, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub(crate) extends: Option<Scalar<kind::DialectRefKind>>,
    /// Types of events: from the extended dialect's to its own.
    #[serde(default)]
    pub(crate) events: BTreeMap<String, Scalar<kind::Text>>,
    /// Members of events, messages and requests: from AG-UI's name to its own.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, Scalar<kind::Text>>,
    /// Roles: from AG-UI's to its own word.
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
