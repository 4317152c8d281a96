//! What the gateway says about itself: metrics as one table, one struct for each thing that happens, and traces.

pub mod label;
pub mod metric;
pub(crate) mod internal_event;
pub(crate) mod log;
pub(crate) mod trace;

pub use metric::Metrics;
pub(crate) use metric::{ListenerMetrics, RouteMetrics, UpstreamMetrics, UpstreamSetMetrics};
