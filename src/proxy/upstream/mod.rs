//! Agents: endpoints, load balancing and connections. pingora connects, keeps idle connections, and implements TLS and
//! HTTP/2; exchanges over HTTP/1.1 are ours.
//!
//! ```text
//!   a run ─▶ choose ─▶ connect ─▶ exchange ─▶ the head of the response ─▶ the stream
//!              ▲          │          │
//!              │  no connection      │ not processed: the head was not sent, or the agent says so (HTTP/2)
//!              ╰── the next ◀────────╯
//! ```
//! A run is tried at another endpoint only if it cannot have begun at the first: there was no connection, the
//! connection broke before the request head was sent, or an HTTP/2 agent reports that it did not process it
//! (REFUSED_STREAM, or GOAWAY with a lower last stream). All other failures go to the client, which knows whether the
//! run may be repeated.

mod pingora_errors;
mod upstream_endpoint;
mod balancer;
mod upstream_set;
mod in_flight;
mod upstream_tls;
mod upstream_request;
mod request_head;
mod http1_body;
mod low_water_mark;
mod http1_exchange;
mod agent_exchange;
mod h2_pool;
mod dialer;
mod health_check;
mod session;
mod cluster;

pub(crate) use cluster::Cluster;
pub(crate) use dialer::Connector;
pub(super) use request_head::AgentRequestHead;
pub(super) use session::{EndpointRef, Session, UnservedRequest};
pub(super) use upstream_request::{AgentOperation, UpstreamRequest};
