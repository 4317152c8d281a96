//! Diglot: a reverse-proxy gateway that translates agent protocols, both ways, event by event, losing nothing.
//!
//! It stands between agents and the user interfaces that talk to them, rewrites each request into the agent's dialect,
//! and rewrites the agent's event stream back into the client's.
//!
//! ```text
//!                       +--------------------------- one run ----------------------------+
//!  client dialect  -->  | guard: who may? -> decode input -> RunInput -> encode input    | --> agent dialect
//!  client dialect  <--  | encode <- run guard <- canonical events <- decode <- SSE       | <-- agent dialect
//!                       +------------------------------------------------------------------+
//!    DATA PLANE proxy/      TABLES AND ADAPTERS dialect/<name>/      STATUS, ADMIN PLANES admin/
//! ```
//!
//! # Life of a run
//! 1. A listener accepts, TLS is spoken where it is configured, hyper reads the request ([`proxy`]); the tower stack gives
//!    it an id, finds its route and answers refusals, which are rows of one table ([`error`]).
//! 2. The gates of the [`guard`] ask one question each: is it proper HTTP, of which page and address, who calls, may they,
//!    how often, how many at once. Keys of issuers, files of secrets and the Redis of the replicas are kept fresh beside
//!    the requests, never by them, but for a key that was not seen before.
//! 3. [`translate::request`] reads the body in the client's dialect and writes it in the agent's; tools that the route does
//!    not allow are refused there, and then the thread of another caller.
//! 4. A task of its own chooses among the agents of the route, asks one through pingora's connector, in one step or in two
//!    (POST, then GET of the events), another one while nothing can have begun, and pushes what it answers into a [`translate::Stream`]: frames ([`codec::sse`], or [`codec::proto`] between AG-UI
//!    sides) become canonical events ([`event`]), pass the run guard, and leave in the client's dialect and framing.
//! 5. The client's body reads from a bounded pipe; a client of two steps comes for that end with a GET. Where a run outlives
//!    its client it writes a log instead ([`replay`]), which its caller reads from wherever it was lost, and on any replica
//!    where the logs are copied to Redis. Keep-alives, a client that leaves, an agent that dies, a caller that stops it, a
//!    credential that expires, the bounds of the run and the end of the process all meet in that task, which says one
//!    terminal event.
//!
//! # Life of the process
//! [`app`] puts it together, and there is one picture for each way on:
//! - `app/reload.rs`: another configuration is built beside the one in use. What did not change is the same thing as before,
//!   and requests and runs keep what they began with.
//! - `app/upgrade.rs`: the next process gets the listening sockets. Runs go on to their end where they began.
//! - `app/drain.rs`: it ends by steps: it says so, closes the doors, waits for runs, cuts them.
//!
//! # Code map
//! The modules stand in the order of their dependencies: each may use what stands above it. `event` to `translate` are
//! the pure core, which builds without the feature `server`.
//!
//! # Invariants
//! - The core does no I/O, reads no clock and draws no random number.
//! - A wire name of an event is written in `event/` or `dialect/` and nowhere else.
//! - No code knows a pair of dialects; a dialect is described against [`event`] alone.
//! - A run that a client listens to has one terminal event, and its body ends cleanly, whatever the agent does. A body that
//!   has none is cut off, so that its client sees that: when the credential expires and `on_token_expiry: close` asks for
//!   it, when the client takes nothing for too long or falls behind what is kept of the run, and by a fault of our own.
//! - An agent is asked again for a run only where nothing of it can have begun.
//! - A run that is kept is found by its caller alone: the key has the route, the issuer, the tenant and the subject in it.
//! - What waits for a client, an agent or a client's return is bounded in bytes.
//! - A request that is refused by a gate starts no run: its agent never hears of it, and its body is not kept.
//! - No field of a request reaches the agent but what a list names, and no field of a client tells the agent who calls.
//! - A credential, and what it is checked against, reaches no log, metric, answer, page or `Debug`. Of a caller the log has
//!   its address, issuer, subject, tenant and the id of its key.
//! - A request sees one configuration from its beginning to its end. One that cannot be used changes nothing.
//! - What changes the process is reached by its signals and a socket of its user alone, never from the network.
//! - Nothing that a client or an agent sends becomes a metric label, and neither does who it is: labels are names from the
//!   configuration and closed lists.

pub mod event;

pub mod codec;

pub mod dialect;

pub mod translate;

#[cfg(feature = "server")]
pub mod error;

#[cfg(feature = "server")]
pub mod telemetry;

#[cfg(feature = "server")]
pub mod config;

#[cfg(feature = "server")]
pub mod net;

#[cfg(feature = "server")]
pub mod guard;

#[cfg(feature = "server")]
pub mod replay;

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
