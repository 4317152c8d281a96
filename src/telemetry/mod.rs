//! What the gateway says about itself: metrics as one table, and one struct for each thing that happens.

pub mod label;
pub mod log;
pub mod metric;
pub mod occurrence;

pub use metric::{ListenerMetrics, Metrics, NoneFitCounter, RequestMetrics, RouteMetrics, UpstreamMetrics};
