//! The data plane.
//!
//! ```text
//!  accept ─▶ edge: TLS, hyper on the stream ─▶ tower stack ─▶ Gateway
//!                                                                    │ body ─▶ translate::request ─▶ spawn
//!                                                                    ▼
//!   client ◀─ Body ◀─ pipe ◀─ translate::Stream ◀─ agent's response ◀─ Run (a task of its own)
//! ```
//! A run is a task: what its client does and what its agent does are two things that it waits for, beside time and the
//! gateway's own end. The client's body reads from a pipe of bounded bytes, so a slow client makes the agent wait. On a route
//! whose runs outlive their clients the run writes a log instead ([`crate::replay`]), and every body reads that.

mod accept;
mod answer;
mod audience;
mod clock;
mod desk;
mod door;
mod edge;
mod end;
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
