//! What a row of the table is, and how it becomes a metric.

use super::catalogue::{LabelSpec, MetricSpec};
use super::cell::{Histogram, MetricCell};
use super::family::Family;
use prometheus::{Registry, Result};
use std::marker::PhantomData;

/// One metric of the table, whose series are each an `M`.
pub(super) struct MetricRow<M> {
    pub(super) metric: MetricSpec,
    cell: PhantomData<M>,
}

impl<M: MetricCell> MetricRow<M> {
    pub(super) const fn new(name: &'static str, help: &'static str, labels: &'static [LabelSpec]) -> Self {
        MetricRow { metric: MetricSpec { name, kind: M::KIND, labels, help, buckets: &[] }, cell: PhantomData }
    }

    /// Registers it.
    ///
    /// # Errors
    /// When another row has its name; a test sees to it that none has.
    pub(super) fn register(&self, registry: &Registry) -> Result<Family<M>> {
        Family::register(self.metric, registry)
    }

    /// Registers one without labels, which exists from now on.
    ///
    /// # Errors
    /// As above.
    pub(super) fn register_single(&self, registry: &Registry) -> Result<M> {
        Ok(self.register(registry)?.with_label_values(&[]))
    }
}

impl MetricRow<Histogram> {
    /// The same with buckets.
    pub(super) const fn with_buckets(mut self, buckets: &'static [f64]) -> Self {
        self.metric.buckets = buckets;
        self
    }
}
