//! The memory of all captured runs, and its limits.

use crate::config::inspect::InspectConfig;
use crate::telemetry::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The memory of all captured runs.
pub(super) struct CaptureBudget {
    metrics: Arc<Metrics>,
    used: AtomicUsize,
    limit: AtomicUsize,
    run_limit: AtomicUsize,
    /// set when a run needed more, so that the store evicts before the next one begins
    is_exceeded: AtomicBool,
}

impl CaptureBudget {
    pub(super) fn new(config: InspectConfig, metrics: Arc<Metrics>) -> CaptureBudget {
        CaptureBudget {
            metrics,
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(config.bytes),
            run_limit: AtomicUsize::new(config.run_bytes),
            is_exceeded: AtomicBool::new(false),
        }
    }

    pub(super) fn set_limits(&self, config: InspectConfig) {
        self.limit.store(config.bytes, Ordering::Relaxed);
        self.run_limit.store(config.run_bytes, Ordering::Relaxed);
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether a run needed more since the last eviction.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Returns whether a run needed more since the last call.
    pub(super) fn take_exceeded(&self) -> bool {
        self.is_exceeded.swap(false, Ordering::Relaxed)
    }

    /// Counts `more` bytes for a run that has `before`. Returns false if a limit does not allow it.
    pub(super) fn charge(&self, before: usize, more: usize) -> bool {
        if before + more > self.run_limit.load(Ordering::Relaxed) {
            return false;
        }
        let used = self.used.fetch_add(more, Ordering::Relaxed);
        if used + more <= self.limit.load(Ordering::Relaxed) {
            self.metrics.process.inspect_bytes.set_count(used + more);
            return true;
        }
        self.used.fetch_sub(more, Ordering::Relaxed);
        self.is_exceeded.store(true, Ordering::Relaxed);
        false
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
