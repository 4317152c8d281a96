//! The data plane.
//!
//! ```text
//!   edge: permit, TLS, HTTP ─▶ ReloadableService ─▶ stack: id, route, gates ─▶ gateway ─┬─▶ run_start: a run
//!                                                                                       ├─▶ two_step: the events of a two-step run
//!                                                                                       ╰─▶ resume: a run that is kept
//!   run_start: body ─▶ translate::request ─▶ spawn ─▶ run (its own task) ─▶ upstream: a healthy agent
//!                                                                                │
//!   client ◀─ body ◀─ run_output: a pipe, or a log and its readers ◀─ translate::Stream ◀╯
//! ```
//! A run is a task that waits for its client, its agent, its deadlines and the gateway's shutdown at once. The client's
//! body reads from a bounded pipe, so a slow client makes the agent wait. On a route whose runs outlive their clients
//! the run writes a log instead ([`crate::replay`]), which every body reads. A reload swaps the service in
//! [`ReloadableService`]; shutdown drains each plane through its [`DrainSignal`].
//!
//! The modules are in the order of their dependencies: each uses only those above it.

mod agent_client;
mod agent_response;
mod deadlines;
mod drain_signal;
mod edge;
mod error_responder;
pub(crate) mod explanation;
mod gateway;
mod lifecycle;
mod log_body;
mod negotiation;
mod pending_runs;
mod pipe;
mod reloadable;
mod request_body;
mod responses;
mod resume;
mod run;
mod run_context;
mod run_end;
mod run_output;
mod run_record;
mod run_start;
mod stack;
mod two_step;
mod upstream;

pub(crate) use drain_signal::DrainSignal;
pub(crate) use edge::{BindError, ConnectionLimit, EdgeServer, Listener, PlaneConfig, SocketFile, plane_service};
pub(crate) use gateway::Gateway;
pub(crate) use lifecycle::{Lifecycle, LifecyclePhase};
pub(crate) use reloadable::ReloadableService;
pub(crate) use stack::stack;
pub(crate) use upstream::Cluster;
