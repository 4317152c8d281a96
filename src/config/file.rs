//! What the operator writes: one struct per mapping of the YAML file, its docs the manual, its `Default` the defaults.
//!
//! Every scalar is kept as the text that was written, with its position. `${VAR}` is put in and units are read only by
//! `check`, so that all mistakes of a file are found in one pass and each is shown where it stands. Defaults are
//! written here, once, in the operator's own spelling; they go through the same checks as a file.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_saphyr::{Location, Spanned};

use super::schema::kind;

mod access;
mod listen;
mod reach;
mod replay;
mod upstream;

pub use access::{
    ApiKey, Auth, Cors, Issuer, KeyFile, KeySource, RateLimit, Redis, Require, RunLimits, Tier, UpstreamFile,
    UpstreamHeader,
};
pub use listen::{Listeners, SocketEntry, SocketMapping, Sockets, TlsFiles};
pub use reach::Reach;
pub use replay::Replay;
pub use upstream::{Ejection, Health, Upstream, UpstreamMapping, UpstreamTls, Upstreams};

/// A scalar as it was written, with its line and column. A default has no position.
pub type Text = Spanned<String>;

/// The whole file. Every key but `routes` may be left out.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// Where Diglot listens.
    pub listeners: Listeners,
    /// Addresses or networks (`10.0.0.0/8`) of the proxies in front, or `unix` for whoever may open a Unix socket: what they
    /// say of their clients in `Forwarded`, `X-Forwarded-For` and the PROXY protocol is believed. From anybody else it is
    /// ignored.
    #[schemars(with = "Vec<kind::TrustedProxy>")]
    pub trusted_proxies: Vec<Text>,
    /// Whom the gateway believes. With it, every route without `auth` wants a credential of one of its methods.
    pub auth: Auth,
    /// Rate limits, for `rate_limits` of routes.
    #[schemars(with = "Vec<RateLimit>")]
    pub rate_limits: Vec<Spanned<RateLimit>>,
    /// Where replicas count together (`shared: true` of a rate limit), and keep whose a thread is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Redis>")]
    pub redis: Option<Spanned<Redis>>,
    /// How much requests, events and clients may take, and how many runs there may be at once.
    pub limits: Limits,
    /// How long the agent may be silent before a client is sent an SSE comment, so that no proxy on the way takes the
    /// connection for dead. A duration.
    #[schemars(with = "kind::Duration")]
    pub keep_alive: Text,
    /// How long connections and runs are still taken after SIGTERM, while `/readyz` says 503 already: as long as load
    /// balancers take to see it. A duration; with `0s` none are.
    #[schemars(with = "kind::Duration")]
    pub drain_grace: Text,
    /// How long running streams may go on behind `drain_grace` before they are ended. A duration; `0s` ends them at once.
    #[schemars(with = "kind::Duration")]
    pub drain_timeout: Text,
    /// How long running streams may go on in a process whose sockets were taken over by `diglot serve --upgrade`. A
    /// duration.
    #[schemars(with = "kind::Duration")]
    pub upgrade_timeout: Text,
    /// A folder for the sockets by which the process is spoken to on this machine: `diglot drain`, `diglot reload`,
    /// `diglot serve --upgrade`. Made, for this user alone, where it is not there. No socket unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::FileName>")]
    pub run_dir: Option<Text>,
    /// What is kept of runs that outlive their clients.
    pub replay: Replay,
    /// Dialects of one's own, for `client` and `agent` of routes.
    #[schemars(with = "Vec<OwnDialect>")]
    pub dialects: Vec<Spanned<OwnDialect>>,
    /// Which path leads to which agent. At least one.
    #[schemars(with = "kind::Some<Route>")]
    pub routes: Spanned<Vec<Spanned<Route>>>,
}

impl Default for File {
    fn default() -> File {
        File {
            listeners: Listeners::default(),
            trusted_proxies: Vec::new(),
            auth: Auth::default(),
            rate_limits: Vec::new(),
            redis: None,
            limits: Limits::default(),
            keep_alive: text("15s"),
            drain_grace: text("5s"),
            drain_timeout: text("30s"),
            replay: Replay::default(),
            upgrade_timeout: text("1h"),
            run_dir: None,
            dialects: Vec::new(),
            routes: Spanned::new(Vec::new(), Location::UNKNOWN, Location::UNKNOWN),
        }
    }
}

/// What one request and one run may take. Sizes are a whole number of bytes or one with a unit: `65536`, `64KiB`, `8MiB`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The largest request body taken from a client; a larger one is refused.
    #[schemars(with = "kind::Size")]
    pub request_body: Text,
    /// The largest SSE frame taken from an agent; a larger one ends the run with an error.
    #[schemars(with = "kind::Size")]
    pub frame: Text,
    /// How many bytes may wait for one slow client before its agent is made to wait.
    #[schemars(with = "kind::Size")]
    pub client_buffer: Text,
    /// The largest head of a request, with its target; a larger one is refused. At least 8KiB.
    #[schemars(with = "kind::Size")]
    pub header_bytes: Text,
    /// The most fields of a request.
    #[schemars(with = "kind::Count")]
    pub headers: Text,
    /// How long the head of a request may take.
    #[schemars(with = "kind::Duration")]
    pub head_timeout: Text,
    /// How long the whole body of a request may take.
    #[schemars(with = "kind::Duration")]
    pub body_timeout: Text,
    /// How long a connection may do nothing between two requests before it is closed.
    #[schemars(with = "kind::Duration")]
    pub idle_timeout: Text,
    /// The most connections of clients at once; more are closed at once. Each takes a file descriptor, and another one for
    /// its agent while a run goes on.
    #[schemars(with = "kind::Count")]
    pub connections: Text,
    /// The most connections at once of one address, of IPv6 of one /64 network; trusted proxies may have any number. No
    /// limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub connections_per_address: Option<Text>,
    /// The most runs at once, of all routes; more are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub max_streams: Option<Text>,
    /// Whether `X-RateLimit-Limit`, `-Remaining` and `-Reset` are sent beside `RateLimit`: `true` or `false`.
    #[schemars(with = "kind::Truth")]
    pub legacy_headers: Text,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_body: text("8MiB"),
            frame: text("10MiB"),
            client_buffer: text("64KiB"),
            header_bytes: text("64KiB"),
            headers: text("100"),
            head_timeout: text("30s"),
            body_timeout: text("30s"),
            idle_timeout: text("75s"),
            connections: text("8192"),
            connections_per_address: None,
            max_streams: None,
            legacy_headers: text("false"),
        }
    }
}

// The keys without a default are `Option`, so that a file without them is told of all of them at once.
/// One path of the data plane and the agent behind it.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The route in metrics and logs; the path when left out. No two routes share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub name: Option<Text>,
    /// The path that clients POST to, matched exactly. Required. No two routes share one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Path")]
    pub path: Option<Text>,
    /// The path at which clients of `social-app` GET the events of a run, with `{thread_id}` as one of its segments; what
    /// they POST is answered 202 then. Without it the events are the answer to the POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::EventsPath>")]
    pub events_path: Option<Text>,
    /// What becomes of a run when nobody listens to it: it ends (`abort`), or goes on for so long and can be come back to
    /// (`continue for 5m`).
    #[serde(default = "replay::on_disconnect")]
    #[schemars(with = "kind::OnDisconnect")]
    pub on_disconnect: Text,
    /// What the clients speak. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub client: Option<Spanned<Side>>,
    /// What the agent speaks. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Side")]
    pub agent: Option<Spanned<Side>>,
    /// Where the agent is: an `http` or `https` URL, a Unix socket (`unix:/run/agent.sock:/chat`), a mapping of one and its
    /// options, or a list of them over which runs are spread. Required. No two of a list share host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Upstreams")]
    pub upstream: Option<Spanned<Upstreams>>,
    /// What TLS connections to it are made with. The certificates of the system, and none of our own, when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UpstreamTls>")]
    pub upstream_tls: Option<Spanned<UpstreamTls>>,
    /// How each upstream is asked whether it is well. Not at all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// When an upstream that fails is left out for a while.
    #[serde(default)]
    pub ejection: Ejection,
    /// Where an agent of two steps has its events: a path on the host of `upstream`, with `{thread_id}` and, where it is
    /// wanted, `{run_id}` in it. Without it the agent answers what is POSTed to it with the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::EventsPath>")]
    pub events: Option<Text>,
    /// What is done about an agent that breaks a rule of its protocol: it is mended (`repair`), ends the run with an error
    /// (`strict`), or is counted alone (`report`).
    #[serde(default = "guard")]
    #[schemars(with = "kind::Guard")]
    pub guard: Text,
    /// How long the agent may take.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Names of issuers and sources of API keys, one of which a caller's credential has to be from; `none` lets anybody
    /// call. All of `auth` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::OneOrMany<kind::Text>>")]
    pub auth: Option<Spanned<OneOrMany>>,
    /// What else has to be true of a caller.
    #[serde(default)]
    pub require: Require,
    /// The only tools that a request may offer and the agent may call. Any when left out; `[]` forbids all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<kind::Text>>")]
    pub tools: Option<Vec<Text>>,
    /// Whether a thread belongs to the caller who opened it (`owned`), or to anybody who knows its id (`shared`).
    #[serde(default = "threads")]
    #[schemars(with = "kind::Threads")]
    pub threads: Text,
    /// What becomes of a run whose caller's token expires: it goes on (`finish`), ends with an error (`run_error`), or its
    /// connection is cut (`close`).
    #[serde(default = "on_token_expiry")]
    #[schemars(with = "kind::OnTokenExpiry")]
    pub on_token_expiry: Text,
    /// Names of rate limits. All have to let a request pass.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Text>")]
    pub rate_limits: Vec<Text>,
    /// The most runs of the route at once; more are refused with 503. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub max_streams: Option<Text>,
    /// The most runs of the route at once of one caller, or of one address where callers are not known; more are refused
    /// with 429. No limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Count>")]
    pub max_streams_per_caller: Option<Text>,
    /// How large and long one run may get.
    #[serde(default)]
    pub run_limits: RunLimits,
    /// Pages of which origins may call. None but the gateway's own when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Cors>")]
    pub cors: Option<Spanned<Cors>>,
    /// How a caller hears of a refusal: a status and a problem document (`http`), or a stream with `RUN_ERROR`
    /// (`run_error`), which the AG-UI client shows better.
    #[serde(default = "errors")]
    #[schemars(with = "kind::Errors")]
    pub errors: Text,
    /// Fields of a request that the agent gets as they are. The request id and the trace go along without it.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Field>")]
    pub forward_headers: Vec<Text>,
    /// Whether the caller's own credential goes to the agent: `true` or `false`.
    #[serde(default = "forward_credentials")]
    #[schemars(with = "kind::Truth")]
    pub forward_credentials: Text,
    /// Fields that the gateway sets for the agent, such as its credentials: a value, or `{file: …, prefix: "Bearer "}`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, UpstreamHeader>")]
    pub upstream_headers: BTreeMap<String, Spanned<UpstreamHeader>>,
}

fn guard() -> Text {
    text("repair")
}

fn threads() -> Text {
    text("shared")
}

fn on_token_expiry() -> Text {
    text("finish")
}

fn errors() -> Text {
    text("http")
}

fn forward_credentials() -> Text {
    text("false")
}

/// How long the agent, and a reader, may take for each step of a run; durations such as `500ms`, `15s`, `5m`, `1h`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// To accept a connection, the TLS handshake included.
    #[schemars(with = "kind::Duration")]
    pub connect: Text,
    /// From the request to the first byte of the response, connecting included.
    #[schemars(with = "kind::Duration")]
    pub first_byte: Text,
    /// From the request to the first event. No limit of its own unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Duration>")]
    pub first_event: Option<Text>,
    /// Between two pieces of a response that has begun. There is no limit on the whole run, unless `run_limits` has one.
    #[schemars(with = "kind::Duration")]
    pub idle: Text,
    /// From the answer to the POST to the GET of the events, on a route with `events_path`.
    #[schemars(with = "kind::Duration")]
    pub reader: Text,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: text("5s"),
            first_byte: text("60s"),
            first_event: None,
            idle: text("5m"),
            reader: text("60s"),
        }
    }
}

/// A dialect and its options: a name alone, or a mapping.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Side {
    /// `client: ag-ui`
    Name(#[schemars(with = "kind::Dialect")] String),
    /// `client: {dialect: hai, content: blocks}`
    Mapping(Box<SideMapping>),
}

/// The mapping form of a side. Which options a dialect takes is said by the dialect.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SideMapping {
    /// The dialect's name. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Dialect")]
    pub dialect: Option<Text>,
    /// How streamed text is written to it: as plain strings (`string`) or as output blocks (`blocks`). Both are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Content>")]
    pub content: Option<Text>,
    /// How member names are spelt when written to it: `camel` or `snake`. Both are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Fields>")]
    pub fields: Option<Text>,
    /// The tool of the client that asks its user what an interrupt of the agent asks; at most 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Text>")]
    pub interrupt_tool: Option<Text>,
    /// Which version of AG-UI the peer has, such as `0.0.45`: what it has no word for is said otherwise. Without it
    /// everything is written as the oldest takes it, and so do all. `0.1` stands for Python's 0.1.x.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Pin>")]
    pub pin: Option<Text>,
    /// In what timestamps count: `ms`, `s`, or `auto`, which takes numbers below 10^11 for seconds and writes
    /// milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<kind::Timestamp>")]
    pub timestamp: Option<Text>,
    /// Words for roles: from AG-UI's role to the peer's word.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, kind::Text>")]
    pub roles: BTreeMap<String, Text>,
    /// Names of CUSTOM events that mean that the run failed. Such an event leaves as the error that ends the run.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Text>")]
    pub errors: Vec<Text>,
}

/// A dialect of one's own: a built-in one with other names, words and strip rules. What is left out stays as it is there.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnDialect {
    /// What routes call it. Required; no dialect of that name may be built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::DialectName")]
    pub name: Option<Text>,
    /// The dialect that it changes. Required; one that stands above it in the file may be named, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "kind::Dialect")]
    pub extends: Option<Text>,
    /// Types of events: from the extended dialect's to its own.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, kind::Text>")]
    pub events: BTreeMap<String, Text>,
    /// Members of events, messages and requests: from AG-UI's name to its own.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, kind::Text>")]
    pub fields: BTreeMap<String, Text>,
    /// Roles: from AG-UI's to its own word.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, kind::Text>")]
    pub roles: BTreeMap<String, Text>,
    /// Values of members: by AG-UI's name of the member, from AG-UI's value to its own.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, kind::Text>>")]
    pub values: BTreeMap<String, BTreeMap<String, Text>>,
    /// Members of its events that must not leave the gateway.
    #[serde(default)]
    #[schemars(with = "Vec<kind::Text>")]
    pub strip: Vec<Text>,
}

/// One scalar or a list of scalars.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// `data: 127.0.0.1:8787`
    One(String),
    /// `data: [127.0.0.1:8787, "[::1]:8787"]`
    Many(Vec<Text>),
}

pub(super) fn text(written: &str) -> Text {
    Spanned::new(written.to_owned(), Location::UNKNOWN, Location::UNKNOWN)
}

// serde's `untagged` buffers what it reads and thereby forgets where it stood, so the two choices are made by hand.
impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Side, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Side;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a dialect or a mapping such as {dialect: NAME}")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Side, E> {
                Ok(Side::Name(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Side, A::Error> {
                SideMapping::deserialize(MapAccessDeserializer::new(map))
                    .map(|mapping| Side::Mapping(Box::new(mapping)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = OneOrMany;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a single value or a list of values")
            }
            fn visit_str<E: Error>(self, one: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(one.to_owned()))
            }
            // A bare port is a number to YAML; it is kept, so that `check` can say what to write instead.
            fn visit_u64<E: Error>(self, one: u64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(one.to_string()))
            }
            fn visit_i64<E: Error>(self, one: i64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(one.to_string()))
            }
            // As JSON writes it, so that a claim is compared with the same text: `1.0`, not `1`.
            fn visit_f64<E: Error>(self, one: f64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(format!("{one:?}")))
            }
            // `email_verified: true` is what a claim has to say.
            fn visit_bool<E: Error>(self, one: bool) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(one.to_string()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element::<Text>()? {
                    many.push(one);
                }
                Ok(OneOrMany::Many(many))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
