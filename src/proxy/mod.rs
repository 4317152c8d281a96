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

mod accept;
mod account;
mod answer;
mod audience;
mod clock;
mod desk;
mod door;
mod edge;
mod end;
pub mod explain;
mod gateway;
mod lifecycle;
mod pipe;
mod plan;
mod refusal;
mod rejoin;
mod request_body;
mod respond;
mod run;
mod stack;
mod start;
mod steps;
mod switch;
mod tail;
mod upstream;
mod waiting;

pub use door::Door;
pub use edge::{Connections, Edge, Listener, Plane, SocketFile, Unbound, serving};
pub use gateway::Gateway;
pub use lifecycle::{Lifecycle, Phase};
pub use stack::stack;
pub use switch::Switch;
pub use upstream::{Cluster, Connector};
