//! Diglot: a reverse-proxy gateway that translates agent protocols in both directions, event by event, and counts what
//! it must leave out.
//!
//! It sits between agents and the user interfaces that talk to them, rewrites each request into the agent's dialect,
//! and rewrites the agent's event stream back into the client's.
//!
//! ```text
//!                       +---------------------------- one run ------------------------------+
//!  client dialect  -->  | policy: gates -> decode input -> RunAgentInput -> encode input    | --> agent dialect
//!  client dialect  <--  | encode <- run guard <- canonical events <- decode <- SSE, protobuf | <-- agent dialect
//!                       +-------------------------------------------------------------------+
//!    DATA PLANE proxy/      TABLES AND ADAPTERS dialect/<name>/      STATUS, ADMIN PLANES admin/
//! ```
//!
//! # Life of a run
//! 1. A listener accepts the connection, performs the TLS handshake if configured, and hyper reads the request
//!    ([`proxy`]). The tower stack assigns an id, finds the route and turns rejections ([`error`]) into responses.
//! 2. The gates of the [`policy`] check the request: valid HTTP, the page's origin, the client's address, its rate, the
//!    caller, its permissions, the caller's rate and its concurrency. Issuers' keys, secret files and the replicas'
//!    Redis are refreshed in the background, never by a request, except for an unknown key id.
//! 3. [`translate::request`] decodes the body in the client's dialect and encodes it in the agent's. Forbidden tools
//!    are refused here, and then the threads of other callers.
//! 4. The run sends the request to one of the route's endpoints on a connection of pingora's pool, in one
//!    step or in two (POST, then GET of the events), and tries another endpoint while the run cannot have begun. The
//!    response passes a [`translate::Stream`]: frames ([`codec::sse`] or [`codec::proto`]) become canonical events
//!    ([`event`]), pass the run guard, and leave in the client's dialect and framing.
//! 5. The run writes to a bounded pipe, from which the client's connection sends. Over HTTP/1 both are one task: the
//!    connection executes the run. A run that outlives its client writes to a log instead ([`replay`]), which its
//!    caller can resume from any event, and on any replica if the logs are copied to Redis. The run also sends
//!    keep-alives and, whatever ends it, one terminal event.
//!
//! # Life of the process
//! [`app`] composes it; each transition is a file with its steps:
//! - `app/reload.rs`: a new configuration is built alongside the current one, with unchanged parts reused. Requests and
//!   runs keep the configuration they started with.
//! - `app/upgrade.rs`: the next process takes over the listening sockets. Runs finish in the process that started them.
//! - `app/drain.rs`: the process reports that it is draining, stops accepting connections, waits for runs and cuts the
//!   rest.
//!
//! # Code map
//! The modules are in the order of their dependencies: each uses only those above it. `prefetch` to `translate` are the
//! pure core, which builds without the feature `server`.
//!
//! | module | holds |
//! |---|---|
//! | `prefetch` | a hint to the processor: memory that is needed soon |
//! | [`event`] | AG-UI 1.0: event types, members, the rules of a run |
//! | [`codec`] | the framings: server-sent events, protobuf, JSON that keeps its digits |
//! | [`dialect`] | a folder for each dialect, and what they share |
//! | [`translate`] | streams and requests from one dialect to another, through AG-UI |
//! | `net` | HTTP client, TLS, Redis, files that are watched |
//! | `error` | the table of rejections: status, code, text, hint |
//! | `telemetry` | log lines, metrics and traces; one struct for each thing that happens |
//! | `config` | the configuration: reading, checking, explaining |
//! | `policy` | the gates of a request: authentication, authorisation, limits |
//! | `replay` | runs that outlive their clients, in memory and in Redis |
//! | `inspect` | what both sides of a run said, for whoever looks |
//! | `proxy` | listeners, routes, runs and the connections to agents |
//! | `admin`, `cli`, `demo`, `app` | control of the process, commands, demo agents, life of the process |
//!
//! # Invariants
//! - The core does no I/O, reads no clock and draws no random number.
//! - The wire name of an event is written in `event/` or `dialect/` and nowhere else.
//! - No code depends on a pair of dialects; a dialect is described against [`event`] alone.
//! - A run with a connected client has one terminal event, whatever the agent does. Otherwise its body is visibly
//!   aborted: if the credential expires under `on_token_expiry: close`, if the client stops reading for too long or
//!   falls behind what is kept of the run, and after an internal error.
//! - A run is sent to an agent again only if it cannot have begun.
//! - A kept run is found by its caller alone: its key contains the route, the issuer, the tenant and the subject.
//! - Everything that waits for a client, an agent or a client's return is bounded in bytes.
//! - A request that a gate refuses starts no run: the agent never receives it, and its body is not kept.
//! - Only listed request headers reach the agent, and no header of a client can identify the caller to the agent.
//! - Credentials, and the secrets they are checked against, never appear in a log, metric, response, page or `Debug`.
//!   The log identifies a caller by address, issuer, subject, tenant and key id.
//! - A request uses one configuration from start to end. A configuration that cannot be used changes nothing.
//! - The process is controlled by signals and by a socket of its own user alone, never from the network.
//! - Metric labels are names from the configuration and closed lists, never from a client or an agent.

#![cfg_attr(
    not(all(feature = "server", feature = "otel")),
    allow(dead_code, unused_imports, reason = "a build with fewer features uses less of the crate")
)]

mod prefetch;

pub mod event;

pub mod codec;

pub mod dialect;

pub mod translate;

#[cfg(feature = "server")]
pub mod net;

#[cfg(feature = "server")]
mod sync;

#[cfg(feature = "server")]
pub mod error;

#[cfg(feature = "server")]
pub mod telemetry;

#[cfg(feature = "server")]
pub mod config;

#[cfg(feature = "server")]
pub mod policy;

#[cfg(feature = "server")]
pub mod replay;

#[cfg(feature = "server")]
pub mod inspect;

#[cfg(feature = "server")]
pub mod proxy;

#[cfg(feature = "server")]
pub mod admin;

#[cfg(feature = "server")]
pub mod demo;

#[cfg(feature = "server")]
pub mod app;

#[cfg(feature = "server")]
pub mod cli;

/// Opens private parts to the targets of `make fuzz`; no ordinary build has it.
#[cfg(fuzzing)]
#[path = "../tests/fuzz/internals/mod.rs"]
pub mod fuzzing;
