//! The data plane.
//!
//! ```text
//!  accept (pingora) ─▶ Edge: hyper on the stream ─▶ tower stack ─▶ Gateway
//!                                                                    │ body ─▶ translate::request ─▶ spawn
//!                                                                    ▼
//!   client ◀─ Body ◀─ pipe ◀─ translate::Stream ◀─ agent's response ◀─ Run (a task of its own)
//! ```
//! A run is a task: what its client does and what its agent does are two things that it waits for, beside time and the
//! gateway's own end. The client's body reads from a pipe of bounded bytes, so a slow client makes the agent wait.

mod accept;
mod answer;
mod clock;
mod desk;
mod door;
mod edge;
mod end;
mod gateway;
mod lifecycle;
mod pipe;
mod plan;
mod preface;
mod refusal;
mod request_body;
mod respond;
mod run;
mod sending;
mod stack;
mod start;
mod steps;
mod switch;
mod upstream;
mod waiting;

pub use door::Door;
pub use edge::{Edge, Listener, bound};
pub use gateway::Gateway;
pub use lifecycle::{Lifecycle, Phase};
pub use stack::stack;
pub use switch::Switch;
pub use upstream::{Cluster, Connector};
