//! The file as it was written: one struct for each mapping. The doc comments are the manual, `Default` is the defaults.
//!
//! A field's type, `Scalar<kind::X>`, also defines its schema and how much of it is printed. Each scalar keeps its text
//! and position. `check` replaces `${VAR}` and parses units later, so that one pass reports all mistakes of a file.
//! Defaults are written here, once, as an operator would write them; they pass through the same checks as a file.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::kind;
use super::memory_limit::{CONNECTIONS, mebibytes};
use super::section::{Derived, Required, section};
pub(crate) use super::text::{Scalar, ScalarOrList, Spanned, Text};
use super::text::{scalar_or_mapping, text};

mod access;
mod listen;
mod admin_endpoints;
mod inspect;
mod replay;
mod upstream;

pub(crate) use access::{
    ApiKeyConfig, ApiKeyFile, ApiKeyListConfig, ApiKeyListSpec, ApiKeySpec, AuthConfig, AuthSpec, CorsConfig, CorsSpec,
    IssuerSpec, MethodNames, RateLimitNames, RateLimitSpec, RedisSpec, RequireConfig, RequireSpec, RunLimitsSpec,
    TierSpec, UpstreamHeaderMapping, UpstreamHeaderSpec, UpstreamHeaders,
};
pub(crate) use admin_endpoints::AdminEndpointsSpec;
pub(crate) use inspect::{InspectConfig, InspectSpec};
pub(crate) use listen::{ListenerTlsSpec, ListenersSpec, SocketListSpec, SocketMapping, SocketSpec};
pub(crate) use replay::{ReplayConfig, ReplaySpec};
pub(crate) use upstream::{
    EjectionConfig, EjectionSpec, HealthCheckConfig, HealthCheckSpec, UpstreamListSpec, UpstreamMapping, UpstreamSpec,
    UpstreamTlsSpec,
};

section! {
    /// The configuration file. Only `routes` is required.
    pub(crate) struct ConfigFile {
        /// The listeners of the data plane and of the status plane.
        pub(crate) listeners: ListenersSpec;
        /// Addresses or networks (`10.0.0.0/8`) of trusted proxies, or `unix` for every peer on a Unix socket.
        /// `Forwarded`, `X-Forwarded-For` and the PROXY protocol are accepted from them and ignored from all other
        /// peers.
        pub(crate) trusted_proxies: Vec<Scalar<kind::TrustedProxy>>;
        /// Issuers of tokens and lists of API keys. If any is configured, every route without `auth` requires a
        /// credential from one of them.
        pub(crate) auth: AuthSpec;
        /// Rate limits, which routes refer to in `rate_limits`.
        pub(crate) rate_limits: Vec<Spanned<RateLimitSpec>>;
        /// The Redis server through which replicas share rate limits (`shared: true`) and thread ownership.
        pub(crate) redis: Option<Spanned<RedisSpec>>;
        /// Limits on the size of requests, events and buffers, and on the number of concurrent runs.
        pub(crate) limits: LimitsSpec;
        /// If the agent sends nothing for this long, the client receives an SSE comment, so that no proxy closes the
        /// connection as idle. A duration.
        pub(crate) keep_alive: Scalar<kind::Duration> = text("15s");
        /// Time after SIGTERM during which connections and runs are still accepted while `/readyz` already returns 503,
        /// so that load balancers can notice. A duration; with `0s`, none are accepted.
        pub(crate) drain_grace: Scalar<kind::DurationOrZero> = text("5s");
        /// Time after `drain_grace` for running streams to finish before they are ended. A duration; `0s` ends them
        /// immediately.
        pub(crate) drain_timeout: Scalar<kind::DurationOrZero> = text("30s");
        /// Time for running streams to finish in a process whose sockets were taken over by `diglot serve --upgrade`. A
        /// duration.
        pub(crate) upgrade_timeout: Scalar<kind::DurationOrZero> = text("1h");
        /// A directory for the control sockets of `diglot drain`, `diglot reload` and `diglot serve --upgrade`. Created
        /// if it does not exist, with access only for this user. Without it, there are no control sockets.
        pub(crate) run_dir: Option<Scalar<kind::FileName>>;
        /// Limits on the replay log, for runs that outlive their clients.
        pub(crate) replay: ReplaySpec;
        /// Limits on what the inspector keeps of runs.
        pub(crate) inspect: InspectSpec;
        /// Custom dialects, for `client` and `agent` of routes.
        pub(crate) dialects: Vec<Spanned<CustomDialectSpec>>;
        /// Files that describe the dialects of agents, for `agent` of routes.
        pub(crate) dialect_files: Vec<Scalar<kind::FileName>>;
        /// Routes from paths to agents. At least one.
        #[schemars(length(min = 1))]
        pub(crate) routes: Spanned<Vec<Spanned<RouteSpec>>> = Spanned::without_position(Vec::new());
    }
}

section! {
    /// Limits on requests, runs and connections. A size is a whole number of bytes, alone or with a unit: `65536`,
    /// `64KiB`, `8MiB`.
    pub(crate) struct LimitsSpec => #[derive(Copy)] pub LimitsConfig {
        /// The largest request body accepted from a client; a larger one is refused.
        pub request_body: Scalar<kind::Size> = text("8MiB");
        /// Memory for all request bodies together, until their agents have received them; beyond it requests are
        /// refused with 503. One caller, or one network without a credential, may use a quarter. One body always fits.
        /// Defaults to 64MiB, or an eighth of the memory limit if that is less.
        pub(crate) request_bodies: Scalar<kind::Size> = mebibytes(64);
        /// The largest SSE frame accepted from an agent; a larger one ends the run with an error.
        pub(crate) frame: Scalar<kind::Size> = text("10MiB");
        /// Bytes buffered for one slow client before reading from its agent pauses.
        pub(crate) client_buffer: Scalar<kind::Size> = text("16KiB");
        /// Memory for all runs together whose reading pauses for a slow client; beyond it the client that has read
        /// nothing for longest is disconnected, of the caller that holds most. It has 5 s to read a large event.
        /// Defaults to 32MiB, or a sixteenth of the memory limit if that is less.
        pub(crate) client_buffers: Scalar<kind::Size> = mebibytes(32);
        /// Memory for the unfinished events of all agents, and for what the translations of all runs remember; beyond
        /// it, runs read no further, and end with an error if for 10 s no run returns memory. 8 KiB of each run are
        /// free, and a caller with more than half of it leaves the rest to others. Defaults to 64MiB, or an
        /// eighth of the memory limit if that is less.
        pub(crate) run_memory: Scalar<kind::Size> = mebibytes(64);
        /// The largest request head, including the request target; a larger one is refused. At least 8KiB.
        pub(crate) header_bytes: Scalar<kind::HeadSize> = text("16KiB");
        /// The maximum number of header fields in a request.
        pub(crate) headers: Scalar<kind::Count> = text("100");
        /// Timeout for the head of a request.
        pub(crate) head_timeout: Scalar<kind::Duration> = text("30s");
        /// Timeout for the whole body of a request.
        pub(crate) body_timeout: Scalar<kind::Duration> = text("30s");
        /// Time after which a connection that is idle between requests is closed.
        pub(crate) idle_timeout: Scalar<kind::Duration> = text("75s");
        /// The maximum number of concurrent client connections; more are closed immediately. As many HTTP/2 requests
        /// may be open; further ones are refused. Each connection uses a file descriptor, and during a run another for
        /// its agent. Defaults to 8192, or to one per 128 KiB of the memory limit (control group, `ulimit -d`) if that
        /// is less: 2048 in 256 MiB.
        pub(crate) connections: Option<Scalar<kind::Count>>;
        /// The maximum number of concurrent connections from one address, or one IPv6 /64 network; trusted proxies are
        /// exempt. Unlimited unless set.
        pub(crate) connections_per_address: Option<Scalar<kind::Count>>;
        /// The maximum number of concurrent runs on all routes; more are refused with 503. Defaults to `connections`.
        pub max_streams: Option<Scalar<kind::Count>>;
        /// Sends `X-RateLimit-Limit`, `-Remaining` and `-Reset` in addition to `RateLimit`: `true` or `false`.
        pub(crate) legacy_headers: Scalar<kind::Truth> = text("false");
    }
}

impl LimitsConfig {
    pub(crate) fn max_connections(&self) -> NonZeroUsize {
        self.connections.unwrap_or(*CONNECTIONS)
    }

    /// Returns the maximum number of runs. Runs whose clients have left need no connection, so without this bound
    /// anyone could start any number on a route that keeps them.
    pub(crate) fn max_runs(&self) -> NonZeroUsize {
        self.max_streams.unwrap_or(self.max_connections())
    }
}

section! {
    /// One path of the data plane and the agent behind it.
    pub(crate) struct RouteSpec => pub RouteConfig, cross-checked {
        /// The name of the route in metrics and logs; defaults to its path. Unique.
        pub name: Derived<Scalar<kind::Name>>;
        /// The path that clients POST to, matched exactly. Required. Unique.
        pub path: Required<Scalar<kind::Path>>, required "the path that clients call, such as `path: /agents/chat`";
        /// The path at which clients of `social-app` GET the events of a run, with `{thread_id}` as one of its
        /// segments; their POST is then answered with 202. Without it, the response to the POST carries the events.
        pub(crate) events_path: Option<Scalar<kind::EventsPath>>;
        /// Behaviour of a run after its client has disconnected: it ends (`abort`), or continues for this long and can
        /// be resumed (`continue for 5m`).
        pub(crate) on_disconnect: Scalar<kind::OnDisconnect> = text("abort");
        /// The dialect of the clients. Required.
        pub client: Required<Spanned<PeerDialectSpec>>, required "the dialect of the clients, such as `client: ag-ui`";
        /// The dialect of the agent. Required.
        pub agent: Required<Spanned<PeerDialectSpec>>, required "the dialect of the agent, such as `agent: hai`";
        /// The agent's address: an `http` or `https` URL, a Unix socket (`unix:/run/agent.sock:/chat`), a mapping with
        /// one of them and its options, or a list of them over which runs are balanced. Required. Each host and port
        /// may be listed only once.
        pub upstreams as "upstream": Required<Spanned<UpstreamListSpec>>, required "the URL of the agent, such as `upstream: http://127.0.0.1:9001/chat`";
        /// TLS settings for connections to the agent. By default: the system's root certificates, and no client
        /// certificate.
        pub(crate) upstream_tls: Option<Spanned<UpstreamTlsSpec>>;
        /// Active health checks of each upstream. Off unless set.
        pub(crate) health: Option<HealthCheckSpec>;
        /// Temporary ejection of failing upstreams.
        pub(crate) ejection: EjectionSpec;
        /// The events path of a two-step agent, on the host of `upstream`, with `{thread_id}` and optionally
        /// `{run_id}`. Without it, the agent's response to the POST carries the events.
        pub(crate) events: Option<Scalar<kind::AgentEvents>>;
        /// Handling of protocol violations by the agent: repair the stream (`repair`), end the run with an error
        /// (`strict`), or only count them (`report`).
        pub(crate) guard: Scalar<kind::Guard> = text("repair");
        /// The part of an agent's response with an error status that clients see: the status and a reference (`hide`),
        /// or the agent's message too (`pass`). The log has the message in either case, with secrets masked.
        pub(crate) agent_errors: Scalar<kind::AgentErrorsKind> = text("hide");
        /// Timeouts for the agent.
        pub(crate) timeouts: TimeoutsSpec;
        /// Capture of the route's runs for `diglot tap` and the inspector: none (`off`), the events of both sides
        /// (`events`), or also both requests (`full`). By default as the listener at which the run arrives has it.
        pub inspect: Option<Scalar<kind::Inspect>>;
        /// Content that the inspector never keeps, of the agent's events and of both requests: paths (`user.email`,
        /// `messages.*.content`, `**.password`) and regular expressions for parts of texts (`/[0-9]{16}/`).
        pub(crate) redact: Vec<Scalar<kind::Redact>>;
    }
    /// Authentication, authorisation and limits of callers.
    pub access => pub AccessConfig {
        /// Names of the issuers and lists of API keys whose credentials are accepted; `none` opens the route to
        /// anonymous callers. Defaults to all in the file's `auth`.
        pub methods as "auth": MethodNames;
        /// Additional requirements for callers.
        pub(crate) require: RequireSpec;
        /// The tools that a request may offer and the agent may call. All unless set; `[]` forbids all.
        pub(crate) tools: Option<Vec<Scalar<kind::ToolName>>>;
        /// Access to threads: only for the caller who opened the thread (`owned`), or for every caller who knows its id
        /// (`shared`).
        pub(crate) own_threads as "threads": Scalar<kind::Threads> = text("shared");
        /// Behaviour of a run when its caller's token expires: it continues to its end (`finish`), ends with an error
        /// (`run_error`), or its connection is closed (`close`).
        pub(crate) on_token_expiry: Scalar<kind::OnTokenExpiry> = text("finish");
        /// Names of rate limits. A request must pass all of them.
        pub(crate) rate_limits: RateLimitNames;
        /// The maximum number of concurrent runs on the route; more are refused with 503. Unlimited unless set.
        pub(crate) max_streams: Option<Scalar<kind::Count>>;
        /// The maximum number of concurrent runs on the route per caller, or per address if callers are anonymous; more
        /// are refused with 429. Unlimited unless set.
        pub(crate) max_streams_per_caller: Option<Scalar<kind::Count>>;
        /// Limits on each run.
        pub(crate) run as "run_limits": RunLimitsSpec;
        /// Cross-origin access for browsers (CORS). Only same-origin pages unless set.
        pub(crate) cors: Option<Spanned<CorsSpec>>;
        /// The form of a refusal: a status and a problem document (`http`), or a stream with `RUN_ERROR` (`run_error`),
        /// which the AG-UI client displays better.
        pub(crate) errors: Scalar<kind::Errors> = text("http");
        /// Request header fields that are forwarded to the agent unchanged. The request id and the trace context are
        /// always forwarded.
        pub(crate) forward_headers: Vec<Scalar<kind::ForwardedField>>;
        /// Forwards the caller's own credential to the agent: `true` or `false`.
        pub(crate) forward_credentials: Scalar<kind::Truth> = text("false");
        /// Header fields that the gateway sets on requests to the agent, such as credentials: a value, or `{file: …,
        /// prefix: "Bearer "}`.
        pub(crate) upstream_headers: UpstreamHeaders;
    }
}

section! {
    /// Timeouts for each step of a run; durations such as `500ms`, `15s`, `5m`, `1h`.
    pub(crate) struct TimeoutsSpec => #[derive(Copy)] pub(crate) TimeoutsConfig {
        /// Time to establish a connection, including the TLS handshake.
        pub(crate) connect: Scalar<kind::Duration> = text("5s");
        /// Time from the request to the first byte of the response, including the connection.
        pub(crate) first_byte: Scalar<kind::Duration> = text("60s");
        /// Time from the request to the first event. Defaults to `first_byte` and `idle` together, with `first_byte`
        /// twice for a two-step agent.
        pub(crate) first_event: Option<Scalar<kind::Duration>>;
        /// Time for which an agent may send nothing. The whole run is limited only by `run_limits`.
        pub(crate) idle: Scalar<kind::Duration> = text("5m");
        /// Time between two events of an agent that does send something: comments (pings), or parts of one large event.
        /// Defaults to three times `idle`.
        pub(crate) ping_only: Option<Scalar<kind::Duration>>;
        /// Time from the response to the POST until the client GETs the events, on a route with `events_path`.
        pub(crate) reader: Scalar<kind::Duration> = text("60s");
    }
}

scalar_or_mapping! {
    /// A dialect and its options: a name alone, or a mapping.
    pub(crate) enum PeerDialectSpec {
        /// `client: ag-ui`
        Name(kind::DialectRefKind),
        /// `client: {dialect: hai, content: string}`
        Mapping(PeerDialectMapping),
    }
    const FORMS: &'static str = "the name of a dialect or a mapping such as {dialect: NAME}";
    const ACCEPTS_ANY_SCALAR: bool = false;
}

section! {
    /// The mapping form of a dialect. The dialect defines which options it accepts.
    pub(crate) struct PeerDialectMapping {
        /// The dialect's name. Required.
        pub(crate) dialect: Required<Scalar<kind::DialectRefKind>>, required "the dialect, such as `dialect: hai`";
        /// The form of text sent to the peer: plain strings (`string`) or output blocks (`blocks`). Both are accepted
        /// from it. Clients get blocks by default, and agents strings.
        pub(crate) content: Option<Scalar<kind::Content>>;
        /// The spelling of member names sent to the peer: `camel` or `snake`. Both are accepted from it.
        pub(crate) fields: Option<Scalar<kind::Fields>>;
        /// The client's tool that asks the user the question of an agent's interrupt; at most 64 bytes. Defaults to
        /// `confirmAction`; for `cloudbase` to `confirm_action`, and `request_input` for questions that need input.
        pub(crate) interrupt_tool: Option<Scalar<kind::ClientTool>>;
        /// The peer's AG-UI version, such as `0.0.45`: events that this version lacks are translated to ones that it
        /// has. Without it, the output has content parts, all roles of messages and calls that interleave, which
        /// clients since 0.0.42 accept. `0.1` means Python's 0.1.x.
        pub(crate) pin: Option<Scalar<kind::Pin>>;
        /// The unit of timestamps: `ms`, `s`, or `auto`, which reads numbers below 10^11 as seconds and writes
        /// milliseconds.
        pub(crate) timestamp: Option<Scalar<kind::Timestamp>>;
        /// Role names: from AG-UI's role to the peer's name for it.
        pub(crate) roles: BTreeMap<String, Scalar<kind::Text>>;
        /// Names of CUSTOM events that report a failed run. They are translated to the error that ends the run.
        pub(crate) errors: Vec<Scalar<kind::Text>>;
    }
}

section! {
    /// A custom dialect: another dialect with different names, values and strip rules. Omitted keys keep its rules.
    pub(crate) struct CustomDialectSpec {
        /// The name that routes use. Required; different from all built-in dialects.
        pub(crate) name: Required<Scalar<kind::DialectName>>, required "the name that routes use, such as `name: acme-chat`";
        /// The dialect that it extends: a built-in one, or a custom one defined above it. Required.
        pub(crate) extends: Required<Scalar<kind::DialectRefKind>>, required "the dialect to extend, such as `extends: ag-ui`";
        /// Event types: from the extended dialect's name to the new one.
        pub(crate) events: BTreeMap<String, Scalar<kind::Text>>;
        /// Members of events, messages and requests: from AG-UI's name to the new one.
        pub(crate) fields: BTreeMap<String, Scalar<kind::Text>>;
        /// Roles: from AG-UI's name to the new one.
        pub(crate) roles: BTreeMap<String, Scalar<kind::Text>>;
        /// Member values: by AG-UI's member name, from AG-UI's value to the new one.
        pub(crate) values: BTreeMap<String, BTreeMap<String, Scalar<kind::Text>>>;
        /// Event members that the gateway removes.
        pub(crate) strip: Vec<Scalar<kind::Text>>;
    }
}
