//! What the gateway says about itself: metrics as one table, one struct for each thing that happens, and traces.

pub mod internal_event;
pub mod label;
pub mod log;
pub mod metric;
pub mod trace;

pub use metric::{ListenerMetrics, Metrics, NoHealthyUpstreamCounter, RequestMetrics, RouteMetrics, UpstreamMetrics};
