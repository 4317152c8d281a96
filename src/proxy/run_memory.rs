//! Bounds the memory of all agents' unfinished frames, and of what the translations of all runs remember.
//!
//! A run counts once it holds more than [`UNCOUNTED`], so that ordinary runs pay nothing. Beyond `limits.run_memory`, a
//! run that would hold more ends; small runs continue.

use crate::telemetry::Metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that a run may hold without being counted.
const UNCOUNTED: usize = 64 << 10;

pub(super) struct RunMemory {
    used: AtomicUsize,
    limit: AtomicUsize,
    metrics: Arc<Metrics>,
}

/// The memory of one run, returned when dropped.
pub(super) struct RunMemoryShare {
    total: Arc<RunMemory>,
    counted: usize,
}

/// All runs together hold too much for this one to hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunMemoryFull;

impl RunMemory {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<RunMemory> {
        Arc::new(RunMemory { used: AtomicUsize::new(0), limit: AtomicUsize::new(limit), metrics })
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn start_run(self: &Arc<Self>) -> RunMemoryShare {
        RunMemoryShare { total: Arc::clone(self), counted: 0 }
    }

    fn resize(&self, before: usize, after: usize) -> Result<(), RunMemoryFull> {
        let limit = self.limit.load(Ordering::Relaxed);
        let changed = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            let used = used.saturating_sub(before).saturating_add(after);
            (after <= before || used <= limit).then_some(used)
        });
        self.metrics.process.run_memory.set_count(self.used.load(Ordering::Relaxed));
        changed.map(|_| ()).map_err(|_| RunMemoryFull)
    }
}

impl RunMemoryShare {
    /// Counts a run that now holds `bytes`.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), RunMemoryFull> {
        let counted = if bytes > UNCOUNTED { bytes } else { 0 };
        if counted == self.counted {
            return Ok(());
        }
        self.total.resize(self.counted, counted)?;
        self.counted = counted;
        Ok(())
    }
}

impl Drop for RunMemoryShare {
    fn drop(&mut self) {
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_growth_beyond_the_limit_but_not_to_small_runs() {
        let memory = RunMemory::new(4 * UNCOUNTED, Arc::new(Metrics::new().expect("unique names")));
        let (mut large, mut other, mut small) = (memory.start_run(), memory.start_run(), memory.start_run());
        assert_eq!(large.resize(3 * UNCOUNTED), Ok(()));
        assert_eq!(other.resize(2 * UNCOUNTED), Err(RunMemoryFull));
        assert_eq!(small.resize(UNCOUNTED), Ok(()));
        assert_eq!(memory.used.load(Ordering::Relaxed), 3 * UNCOUNTED);
        assert_eq!(large.resize(2 * UNCOUNTED), Ok(()));
        assert_eq!(other.resize(2 * UNCOUNTED), Ok(()));
        drop((large, other, small));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }
}
