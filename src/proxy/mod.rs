//! The data plane.
//!
//! ```text
//!   edge: permit, TLS, HTTP ─▶ ReloadableService ─▶ stack: id, route, gates ─▶ gateway ─┬─▶ run_start: a run
//!                                                                                       ├─▶ two_step: the events of a two-step run
//!                                                                                       ╰─▶ resume: a run that is kept
//!   run_start: body ─▶ translate::request ─▶ run, executed by the client's ─▶ upstream: a healthy agent
//!                                            connection or a task of its own     │
//!   client ◀─ body ◀─ run_output: a pipe, or a log and its readers ◀─ translate::Stream ◀╯
//! ```
//! The task of an HTTP/1 client's connection executes its run ([`relayed_run`]); other runs are tasks. The client reads
//! from a bounded pipe, so a slow client makes the agent wait. A run that continues after its client disconnects writes
//! to a log instead ([`crate::replay`]), which all its clients read. A reload swaps the service in
//! [`ReloadableService`]; shutdown drains each plane through its [`DrainSignal`].
//!
//! Modules are listed in dependency order: each uses only those above it.

mod registered_waker;
mod deadlines;
mod drain_signal;
mod lifecycle;
mod negotiation;
mod pending_runs;
mod slow_clients;
mod pipe;
mod relayed_run;
mod spare_buffer;
mod read_pace;
mod edge;
mod log_body;
mod reloadable;
mod body_budget;
mod run_memory;
mod request_body;
mod responses;
mod run_keys;
mod thread_store;
mod claim_guard;
mod run_record;
mod translation_sink;
mod two_step;
mod run_output;
mod closed_run;
mod upstream;
mod agent_response;
mod agent_client;
mod routes;
mod run_request;
mod gateway;
mod dispatch;
mod run_captures;
mod error_responder;
mod resume;
mod run_context;
mod run_end;
mod run;
mod run_start;
mod stack;
pub(crate) mod explanation;

pub(crate) use agent_response::explain_answer;
pub(crate) use deadlines::now_millis;
pub(crate) use drain_signal::DrainSignal;
pub(crate) use edge::{
    BindError, ConnectionLimit, EdgeBounds, EdgeServer, Listener, LocalConnector, LocalListener, PlaneConfig,
    SocketFile, UnsentBudget, plane_service,
};
pub(crate) use gateway::Gateway;
pub(crate) use lifecycle::{Lifecycle, LifecyclePhase};
pub(crate) use reloadable::ReloadableService;
pub(crate) use stack::stack;
pub(crate) use upstream::Cluster;
