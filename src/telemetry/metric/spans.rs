//! Metrics of spans on their way to a collector.

use super::cell::Counter;
use super::table;
use crate::telemetry::label::SpanLoss;
use prometheus::Registry;
use std::sync::Arc;

/// The handles of what becomes of spans.
#[derive(Clone, Debug)]
pub(crate) struct SpanMetrics {
    exported: Counter,
    dropped: Arc<[Counter]>,
}

impl SpanMetrics {
    /// Registers them; every series exists from then on.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let dropped = table::SPANS_DROPPED.register(registry)?;
        Ok(SpanMetrics {
            exported: table::SPANS_EXPORTED.register_single(registry)?,
            dropped: SpanLoss::ALL.iter().map(|why| dropped.with_label_values(&[why.label()])).collect(),
        })
    }

    /// Counts spans that the collector took.
    pub(crate) fn inc_exported(&self, count: u64) {
        self.exported.inc_by(count);
    }

    /// Counts spans that it never gets.
    pub(crate) fn inc_dropped(&self, why: SpanLoss, count: u64) {
        self.dropped[why as usize].inc_by(count);
    }
}
