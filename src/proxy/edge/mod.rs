//! Client connections, from the socket to HTTP.
//!
//! ```text
//!  accept ─▶ a permit? ─▶ PROXY header ─▶ a permit for its address? ─▶ TLS ─▶ which version? ─▶ hyper: requests
//!  listener  connection_  proxy_protocol  connection_limit             listener_  http_version   activity,
//!            limit                                                     tls                       read_ahead
//! ```
//! Each step has its own deadline; a late or invalid peer is disconnected and counted
//! ([`ConnectionRejectReason`](crate::telemetry::label::ConnectionRejectReason)).

mod activity;
mod descriptors;
mod connection_limit;
mod http_version;
mod read_ahead;
mod http1_chunk;
mod http1_handoff;
mod http2_output;
mod http2_refusals;
mod server;
mod local;
mod write_timeout;
mod transport;
mod listener_tls;
mod listener;
mod plane;

pub(crate) use connection_limit::ConnectionLimit;
pub(crate) use http2_output::UnsentBudget;
pub(crate) use listener::{BindError, Listener, SocketFile};
pub(crate) use local::{LocalConnector, LocalListener};
pub(crate) use plane::{PlaneConfig, plane_service};
pub(crate) use server::{EdgeBounds, EdgeServer};
