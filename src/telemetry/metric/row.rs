//! What a row of the table is, and how it becomes a metric.

use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result,
};
use std::marker::PhantomData;

/// One metric of the table, which is an `M`.
pub(super) struct Row<M> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    /// of a histogram; the others have none
    buckets: &'static [f64],
    kind: PhantomData<M>,
}

impl<M> Row<M> {
    pub(super) const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Row { name, help, labels, buckets: &[], kind: PhantomData }
    }
}

impl Row<HistogramVec> {
    /// The same with buckets.
    pub(super) const fn within(mut self, buckets: &'static [f64]) -> Self {
        self.buckets = buckets;
        self
    }
}

impl<M: Metric> Row<M> {
    /// Registers it.
    ///
    /// # Errors
    /// When another row has its name; a test sees to it that none has.
    pub(super) fn register(&self, registry: &Registry) -> Result<M> {
        let metric = M::of(self)?;
        registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

/// The kinds of metrics.
pub(super) trait Metric: Collector + Clone + Sized + 'static {
    /// The metric that `row` describes.
    fn of(row: &Row<Self>) -> Result<Self>;
}

impl Metric for IntCounter {
    fn of(row: &Row<Self>) -> Result<Self> {
        IntCounter::new(row.name, row.help)
    }
}

impl Metric for IntCounterVec {
    fn of(row: &Row<Self>) -> Result<Self> {
        IntCounterVec::new(Opts::new(row.name, row.help), row.labels)
    }
}

impl Metric for IntGauge {
    fn of(row: &Row<Self>) -> Result<Self> {
        IntGauge::new(row.name, row.help)
    }
}

impl Metric for IntGaugeVec {
    fn of(row: &Row<Self>) -> Result<Self> {
        IntGaugeVec::new(Opts::new(row.name, row.help), row.labels)
    }
}

impl Metric for HistogramVec {
    fn of(row: &Row<Self>) -> Result<Self> {
        HistogramVec::new(HistogramOpts::new(row.name, row.help).buckets(row.buckets.to_vec()), row.labels)
    }
}
