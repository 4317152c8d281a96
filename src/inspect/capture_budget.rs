//! The memory of all captured runs, and its limits.

use crate::config::inspect::InspectConfig;
use crate::telemetry::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory of all captured runs.
pub(super) struct CaptureBudget {
    metrics: Arc<Metrics>,
    used: AtomicUsize,
    limit: AtomicUsize,
    run_limit: AtomicUsize,
}

impl CaptureBudget {
    pub(super) fn new(config: InspectConfig, metrics: Arc<Metrics>) -> CaptureBudget {
        CaptureBudget {
            metrics,
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(config.bytes),
            run_limit: AtomicUsize::new(config.run_bytes),
        }
    }

    pub(super) fn set_limits(&self, config: InspectConfig) {
        self.limit.store(config.bytes, Ordering::Relaxed);
        self.run_limit.store(config.run_bytes, Ordering::Relaxed);
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the setting that does not allow a run more memory.
    pub(super) fn find_limit(&self, before: usize, more: usize) -> &'static str {
        if before + more > self.run_limit.load(Ordering::Relaxed) { "inspect.run_bytes" } else { "inspect.bytes" }
    }

    /// Counts `more` bytes for a run that has `before`, for which `evict` evicts other runs, as long as there are any.
    /// Returns false if a limit does not allow it.
    pub(super) fn charge(&self, before: usize, more: usize, mut evict: impl FnMut() -> bool) -> bool {
        if before + more > self.run_limit.load(Ordering::Relaxed) {
            return false;
        }
        loop {
            let used = self.used.fetch_add(more, Ordering::Relaxed);
            if used + more <= self.limit.load(Ordering::Relaxed) {
                self.metrics.process.inspect_bytes.set_count(used + more);
                return true;
            }
            self.used.fetch_sub(more, Ordering::Relaxed);
            if !evict() {
                return false;
            }
        }
    }

    pub(super) fn release(&self, bytes: usize) {
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.metrics.process.inspect_bytes.set_count(used - bytes);
    }
}

impl std::fmt::Debug for CaptureBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CaptureBudget({} bytes)", self.used.load(Ordering::Relaxed))
    }
}
