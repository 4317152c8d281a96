//! The agent's side of the network: endpoints, balancing and connections. pingora connects, pools, and speaks TLS and
//! HTTP; the choice of the endpoint is ours.
//!
//! ```text
//!   a run ─▶ choose ─▶ connect ─▶ exchange ─▶ the head of the response ─▶ the stream
//!              ▲          │          │
//!              │  no connection      │ not processed: the head was not sent, or the agent says so (HTTP/2)
//!              ╰── the next ◀────────╯
//! ```
//! A run is sent once. It goes to another endpoint only if it cannot have begun at the first one: there was no
//! connection; the connection broke before the head of the request was sent, so that the agent has no request; or an
//! HTTP/2 agent reports that it has not processed it (REFUSED_STREAM, or GOAWAY with a lower last stream). Any later
//! failure goes to the client, which knows whether the run may be repeated.

mod pingora_errors;
mod upstream_endpoint;
mod balancer;
mod upstream_set;
mod in_flight;
mod upstream_tls;
mod dialer;
mod health_check;
mod session;
mod cluster;

pub(crate) use cluster::Cluster;
pub(crate) use dialer::Connector;
pub(super) use session::{AgentOperation, EndpointRef, Session, UpstreamRequest, request_head};
