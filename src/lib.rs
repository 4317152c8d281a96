//! Diglot: a reverse-proxy gateway that translates agent protocols, both ways, event by event, losing nothing.
//!
//! It stands between agents and the user interfaces that talk to them, rewrites each request into the agent's dialect,
//! and rewrites the agent's event stream back into the client's.
//!
//! ```text
//!                       +--------------------------- one run ----------------------------+
//!  client dialect  -->  | guard -> decode input -> RunInput -> encode input              | --> agent dialect
//!  client dialect  <--  | encode <- run guard <- canonical events <- decode <- SSE       | <-- agent dialect
//!                       +------------------------------------------------------------------+
//!    DATA PLANE proxy/        TABLES dialect/*.rs (data only)        STATUS PLANE admin/
//! ```
//!
//! # Life of a run
//! 1. pingora accepts, hyper reads the request ([`proxy`]); the tower stack gives it an id and answers refusals.
//! 2. [`translate::request`] reads the body in the client's dialect and writes it in the agent's.
//! 3. A task of its own asks the agent through pingora's connector, in one step or in two (POST, then GET of the events),
//!    and pushes what it answers into a [`translate::Stream`]: frames ([`codec::sse`], or [`codec::proto`] between AG-UI
//!    sides) become canonical events ([`event`]), pass the run guard, and leave in the client's dialect and framing.
//! 4. The client's body reads from a bounded pipe; a client of two steps comes for that end with a GET. Keep-alives, a
//!    client that leaves, an agent that dies and the end of the process all meet in that task, which always says one
//!    terminal event.
//!
//! # Code map
//! The modules stand in the order of their dependencies: each may use what stands above it. `event` to `translate` are
//! the pure core, which builds without the feature `server`.
//!
//! # Invariants
//! - The core does no I/O, reads no clock and draws no random number.
//! - A wire name of an event is written in `event/` or `dialect/` and nowhere else.
//! - No code knows a pair of dialects; a dialect is described against [`event`] alone.
//! - A run has one terminal event, and its body ends cleanly, whatever the agent does.
//! - Nothing that a client or an agent sends becomes a metric label.

pub mod event;

pub mod dialect;

pub mod codec;

pub mod translate;

#[cfg(feature = "server")]
pub mod error;

#[cfg(feature = "server")]
pub mod telemetry;

#[cfg(feature = "server")]
pub mod config;

#[cfg(feature = "server")]
pub mod guard;

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
