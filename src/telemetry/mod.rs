//! Metrics as one table, log events as one struct each, and traces.

pub mod label;
pub mod metric;
mod trace_context;
pub(crate) mod mask;
mod run_timeline;
pub(crate) mod internal_event;
pub(crate) mod log;
pub(crate) mod trace;

pub use metric::Metrics;
pub(crate) use metric::{
    ListenerMetrics, RouteMetrics, UpstreamMetrics, UpstreamSetMetrics, nonzero_bits, select_labels,
};
pub(crate) use run_timeline::{CheckDecision, RunMoment, RunTimeline, SHOWN_GAP};
