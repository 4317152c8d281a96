//! Metrics of spans on their way to a collector.

use super::table;
use crate::telemetry::label::SpanLoss;
use prometheus::{IntCounter, Registry};

/// The handles of what becomes of spans.
#[derive(Clone, Debug)]
pub struct SpanMetrics {
    taken: IntCounter,
    dropped: Vec<IntCounter>,
}

impl SpanMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let dropped = table::SPANS_DROPPED.register(registry)?;
        Ok(SpanMetrics {
            taken: table::SPANS_EXPORTED.register(registry)?,
            dropped: SpanLoss::ALL.iter().map(|why| dropped.with_label_values(&[why.label()])).collect(),
        })
    }

    /// Counts spans that the collector took.
    pub fn taken(&self, count: u64) {
        self.taken.inc_by(count);
    }

    /// Counts spans that it never gets.
    pub fn dropped(&self, why: SpanLoss, count: u64) {
        self.dropped[why as usize].inc_by(count);
    }
}
