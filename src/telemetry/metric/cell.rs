//! The value of one series, updated by many threads without a lock.

use super::catalogue::{MetricKind, MetricSpec};
use prometheus::proto;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The value of a series, shared by all clones.
pub(crate) trait MetricCell: Clone + Send + Sync + 'static {
    const KIND: MetricKind;

    fn new(metric: &MetricSpec) -> Self;

    fn read(&self) -> proto::Metric;
}

#[derive(Clone, Debug)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn inc(&self) {
        self.inc_by(1);
    }

    pub(crate) fn inc_by(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl MetricCell for Counter {
    const KIND: MetricKind = MetricKind::Counter;

    fn new(_: &MetricSpec) -> Self {
        Counter(Arc::default())
    }

    fn read(&self) -> proto::Metric {
        let mut metric = proto::Metric::default();
        let mut counter = proto::Counter::default();
        counter.set_value(self.0.load(Ordering::Relaxed) as f64);
        metric.set_counter(counter);
        metric
    }
}

#[derive(Clone)]
pub(crate) struct Gauge(Arc<AtomicI64>);

impl Gauge {
    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn set_count(&self, count: usize) {
        self.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MetricCell for Gauge {
    const KIND: MetricKind = MetricKind::Gauge;

    fn new(_: &MetricSpec) -> Self {
        Gauge(Arc::default())
    }

    fn read(&self) -> proto::Metric {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(self.0.load(Ordering::Relaxed) as f64);
        proto::Metric::from_gauge(gauge)
    }
}

#[derive(Clone)]
pub(crate) struct Histogram(Arc<HistogramInner>);

struct HistogramInner {
    /// upper bounds, in seconds
    bounds: &'static [f64],
    /// number of values in each bucket, not cumulative; the last bucket has no upper bound
    counts: Box<[AtomicU64]>,
    /// in nanoseconds, since only integers can be added atomically
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let HistogramInner { bounds, counts, sum } = &*self.0;
        let seconds = took.as_secs_f64();
        counts[bounds.partition_point(|bound| *bound < seconds)].fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl MetricCell for Histogram {
    const KIND: MetricKind = MetricKind::Histogram;

    fn new(metric: &MetricSpec) -> Self {
        let counts = (0..=metric.buckets.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(HistogramInner { bounds: metric.buckets, counts, sum: AtomicU64::new(0) }))
    }

    fn read(&self) -> proto::Metric {
        let HistogramInner { bounds, counts, sum } = &*self.0;
        let mut count = 0;
        // The count is the sum of the bucket counts just read, so that the last bucket never exceeds it.
        let mut within = counts.iter().map(|own| {
            count += own.load(Ordering::Relaxed);
            count
        });
        let bucket = |(bound, count): (&f64, u64)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        let buckets = bounds.iter().zip(within.by_ref()).map(bucket).collect();
        let all = within.next().unwrap_or_default();
        let mut metric = proto::Metric::default();
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(all);
        histogram.set_sample_sum(Duration::from_nanos(sum.load(Ordering::Relaxed)).as_secs_f64());
        metric.set_histogram(histogram);
        metric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_the_bound_in_its_bucket_and_counts_every_value() {
        let metric =
            MetricSpec { name: "t", kind: MetricKind::Histogram, labels: &[], help: "T.", buckets: &[0.001, 1.0] };
        let times = Histogram::new(&metric);
        for micros in [0, 1_000, 1_001, 1_000_000, 2_000_000] {
            times.observe(Duration::from_micros(micros));
        }
        let read = times.read();
        let histogram = read.get_histogram();
        let within: Vec<_> = histogram.get_bucket().iter().map(proto::Bucket::cumulative_count).collect();
        assert_eq!((within, histogram.get_sample_count()), (vec![2, 4], 5));
        assert!((histogram.get_sample_sum() - 3.002_001).abs() < 1e-9);
    }
}
