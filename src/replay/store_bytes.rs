//! The memory of all stored runs, which never exceeds `replay.bytes`.

use crate::telemetry::metric::ReplayMetrics;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all logs. A log takes its share before it keeps more, and returns it as soon as it keeps less.
pub(super) struct StoreBytes {
    used: AtomicUsize,
    limit: AtomicUsize,
    metrics: ReplayMetrics,
}

impl fmt::Debug for StoreBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBytes").field("used", &self.used).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl StoreBytes {
    pub(super) fn new(limit: usize, metrics: ReplayMetrics) -> StoreBytes {
        StoreBytes { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit), metrics }
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns by how much `more` bytes would exceed the limit.
    pub(super) fn missing(&self, more: usize) -> usize {
        self.used.load(Ordering::Relaxed).saturating_add(more).saturating_sub(self.limit.load(Ordering::Relaxed))
    }

    /// Changes a share of `before` bytes to `after`. Returns `false`, changing nothing, if it grows beyond the limit.
    pub(super) fn resize(&self, before: usize, after: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let changed = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let used = used.saturating_sub(before).saturating_add(after);
            (after <= before || used <= limit).then_some(used)
        });
        if changed.is_ok() && before != after {
            self.metrics.bytes.set_count(self.used.load(Ordering::Relaxed));
        }
        changed.is_ok()
    }
}

/// Every log has returned its share by now.
impl Drop for StoreBytes {
    fn drop(&mut self) {
        debug_assert!(std::thread::panicking() || *self.used.get_mut() == 0, "logs that are gone are still counted");
    }
}

/// The bytes of one caller's logs, a part of [`StoreBytes`].
#[derive(Debug)]
pub(super) struct CallerBytes {
    store: Arc<StoreBytes>,
    used: AtomicUsize,
}

impl CallerBytes {
    pub(super) fn new(store: &Arc<StoreBytes>) -> CallerBytes {
        CallerBytes { store: Arc::clone(store), used: AtomicUsize::new(0) }
    }

    pub(super) fn total(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Changes a log's share of the store, and that of its caller.
    pub(super) fn resize(&self, before: usize, after: usize) -> bool {
        let fits = self.store.resize(before, after);
        if fits {
            // Wraps around if the share becomes smaller.
            self.used.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
        fits
    }
}
