//! The data plane.
//!
//! ```text
//!   edge: a place, TLS, HTTP ─▶ switch ─▶ stack: id, route, gates ─▶ gateway ─┬─▶ start: a run
//!                                                                            ├─▶ desk: the events of a run in two steps
//!                                                                            ╰─▶ rejoin: a run that is kept
//!   start: body ─▶ translate::request ─▶ spawn ─▶ run (a task of its own) ─▶ upstream: an agent that is well
//!                                                                                  │
//!   client ◀─ Body ◀─ audience: a pipe, or a log and its tail ◀─ translate::Stream ◀╯
//! ```
//! A run is a task: what its client does and what its agent does are two things that it waits for, beside time and the
//! gateway's own end. The client's body reads from a pipe of bounded bytes, so a slow client makes the agent wait. On a route
//! whose runs outlive their clients the run writes a log instead ([`crate::replay`]), and every body reads that. A
//! configuration that changes turns the [`Switch`]; the process ends by closing the [`Door`] of each plane.

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
