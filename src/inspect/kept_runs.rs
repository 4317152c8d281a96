//! The captured runs that are kept, in progress or ended, within the bounds on their number and age.

use super::captured_run::CapturedRun;
use super::eviction::{EndedRuns, EvictableRun};
use crate::config::inspect::InspectConfig;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Time after which a beginning run evicts those that are too old.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Memory of evicted runs that takes some microseconds to free.
const FREED_AT_ONCE: usize = 64 << 10;

#[derive(Debug)]
struct RunIndex {
    by_id: BTreeMap<u64, Arc<CapturedRun>>,
    ended: EndedRuns,
    max_runs: usize,
    max_age: Duration,
    next_sweep: Instant,
}

impl RunIndex {
    fn remove_old(&mut self, removed: &mut Vec<Arc<CapturedRun>>) {
        let now = Instant::now();
        self.next_sweep = now + SWEEP_INTERVAL;
        // Nothing is older than the machine.
        let Some(oldest) = now.checked_sub(self.max_age) else { return };
        removed.extend(self.ended.remove_ended_before(oldest).iter().filter_map(|id| self.by_id.remove(id)));
    }
}

/// All kept runs. What is evicted is freed after the lock, for which all runs wait that begin or end.
#[derive(Debug)]
pub(super) struct KeptRuns {
    index: Mutex<RunIndex>,
}

impl KeptRuns {
    pub(super) fn new(config: InspectConfig) -> KeptRuns {
        let index = RunIndex {
            by_id: BTreeMap::new(),
            ended: EndedRuns::default(),
            max_runs: config.runs.get(),
            max_age: config.age,
            next_sweep: Instant::now(),
        };
        KeptRuns { index: Mutex::new(index) }
    }

    pub(super) fn set_bounds(&self, config: InspectConfig) {
        let mut index = self.index.lock();
        (index.max_runs, index.max_age) = (config.runs.get(), config.age);
    }

    /// Adds a run that begins, in place of ended ones if there are too many.
    pub(super) fn add(&self, run: Arc<CapturedRun>) {
        let mut evicted = Vec::new();
        let mut index = self.index.lock();
        if Instant::now() >= index.next_sweep {
            index.remove_old(&mut evicted);
        }
        while index.by_id.len() >= index.max_runs
            && let Some(id) = index.ended.remove_of_most()
        {
            evicted.extend(index.by_id.remove(&id));
        }
        index.by_id.insert(run.id, run);
        drop(index);
        release_evicted(evicted);
    }

    /// Records that a run has ended, so that it may be evicted.
    pub(super) fn add_ended(&self, run: &CapturedRun, outcome: &'static str, ended_at: Instant) {
        let ended = EvictableRun { id: run.id, ended_at, bytes: run.charged_bytes() };
        self.index.lock().ended.add((Arc::clone(&run.head.route), outcome), ended);
    }

    /// Evicts an ended run for the memory of others. Returns false if there is none.
    pub(super) fn evict_for_memory(&self) -> bool {
        let mut index = self.index.lock();
        let evicted = index.ended.remove_of_most_bytes().and_then(|id| index.by_id.remove(&id));
        drop(index);
        let is_evicted = evicted.is_some();
        release_evicted(evicted.into_iter().collect());
        is_evicted
    }

    /// Lists the runs in the order of their beginning.
    pub(super) fn all(&self) -> Vec<Arc<CapturedRun>> {
        let mut old = Vec::new();
        let mut index = self.index.lock();
        index.remove_old(&mut old);
        let all = index.by_id.values().cloned().collect();
        drop(index);
        all
    }

    /// Lists the runs that began after the one with this id.
    pub(super) fn runs_after(&self, id: u64) -> Vec<Arc<CapturedRun>> {
        self.index.lock().by_id.range(id + 1..).map(|(_, run)| Arc::clone(run)).collect()
    }

    pub(super) fn find(&self, id: u64) -> Option<Arc<CapturedRun>> {
        self.index.lock().by_id.get(&id).cloned()
    }
}

/// Frees runs that another one evicts, which has a client that waits: much memory is freed by another thread.
fn release_evicted(evicted: Vec<Arc<CapturedRun>>) {
    let bytes: usize = evicted.iter().map(|run| run.release_budget()).sum();
    if let Ok(runtime) = Handle::try_current()
        && bytes > FREED_AT_ONCE
    {
        drop(runtime.spawn_blocking(move || drop(evicted)));
    }
}
