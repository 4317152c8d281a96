//! What a series is in memory: numbers that many threads count with and a scrape reads, without a lock.

use super::catalogue::{Kind, Metric};
use prometheus::proto;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The value of a series. Clones are the same.
pub(super) trait Cell: Clone + fmt::Debug + Send + Sync + 'static {
    /// what it is
    const KIND: Kind;

    /// One that nothing was counted with.
    fn new(metric: &Metric) -> Self;

    /// Its value now.
    fn read(&self) -> proto::Metric;
}

/// Only grows.
#[derive(Clone, Debug)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(super) fn inc(&self) {
        self.inc_by(1);
    }

    pub(super) fn inc_by(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Cell for Counter {
    const KIND: Kind = Kind::Counter;

    fn new(_: &Metric) -> Self {
        Counter(Arc::default())
    }

    fn read(&self) -> proto::Metric {
        let (mut metric, mut counter) = (proto::Metric::default(), proto::Counter::default());
        counter.set_value(self.0.load(Ordering::Relaxed) as f64);
        metric.set_counter(counter);
        metric
    }
}

/// How something is now.
#[derive(Clone, Debug)]
pub(super) struct Gauge(Arc<AtomicI64>);

impl Gauge {
    pub(super) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cell for Gauge {
    const KIND: Kind = Kind::Gauge;

    fn new(_: &Metric) -> Self {
        Gauge(Arc::default())
    }

    fn read(&self) -> proto::Metric {
        let (mut metric, mut gauge) = (proto::Metric::default(), proto::Gauge::default());
        gauge.set_value(self.0.load(Ordering::Relaxed) as f64);
        metric.set_gauge(gauge);
        metric
    }
}

/// How long things took.
#[derive(Clone, Debug)]
pub(super) struct Histogram(Arc<Times>);

#[derive(Debug)]
struct Times {
    /// upper bounds, in seconds
    bounds: &'static [f64],
    /// how many were within each bound and not within the one before, and last how many were in none
    counts: Box<[AtomicU64]>,
    /// all together, in ns: whole numbers add up without a loop, and last for centuries
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let Times { bounds, counts, sum } = &*self.0;
        let seconds = took.as_secs_f64();
        counts[bounds.partition_point(|bound| *bound < seconds)].fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Cell for Histogram {
    const KIND: Kind = Kind::Histogram;

    fn new(metric: &Metric) -> Self {
        let counts = (0..=metric.buckets.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(Times { bounds: metric.buckets, counts, sum: AtomicU64::new(0) }))
    }

    fn read(&self) -> proto::Metric {
        let Times { bounds, counts, sum } = &*self.0;
        let mut count = 0;
        // The count is made of what the buckets held when they were read, so that the last bucket is never above it.
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
        let (mut metric, mut histogram) = (proto::Metric::default(), proto::Histogram::default());
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
    fn a_value_at_a_bound_is_within_it_and_every_value_is_in_the_last_bucket() {
        let metric = Metric { name: "t", kind: Kind::Histogram, labels: &[], help: "T.", buckets: &[0.001, 1.0] };
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
