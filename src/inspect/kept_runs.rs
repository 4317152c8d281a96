//! The captured runs that are kept, in progress or ended, within the bounds on their number and age.

use super::captured_run::CapturedRun;
use super::eviction::{EndedRuns, EvictableRun};
use super::tap_place::TapPlace;
use crate::config::inspect::InspectConfig;
use crate::telemetry::metric::Counter;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Time after which a beginning run evicts those that are too old.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Memory of evicted runs that takes some microseconds to free.
const FREED_AT_ONCE: usize = 64 << 10;

/// Evicted runs of which the bound is remembered that evicted them.
const REMEMBERED_EVICTIONS: usize = 1_000;

/// Explains why there is no run with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingRun {
    /// it was evicted, for this bound if that is remembered
    Evicted(Option<&'static str>),
    /// no run has had it; the last one has this
    NotYet(u64),
}

#[derive(Debug)]
struct RunEviction {
    id: u64,
    bound: &'static str,
}

#[derive(Debug)]
struct RunIndex {
    by_id: BTreeMap<u64, Arc<CapturedRun>>,
    ended: EndedRuns,
    /// id of the run that began last
    last_id: u64,
    taps: Vec<Weak<TapPlace>>,
    /// the last ones
    evicted: VecDeque<RunEviction>,
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
        for id in self.ended.remove_ended_before(oldest) {
            removed.extend(self.remove(id, "inspect.age"));
        }
    }

    /// Removes a run because of a bound. The taps miss it that have not come to it.
    fn remove(&mut self, id: u64, bound: &'static str) -> Option<Arc<CapturedRun>> {
        let removed = self.by_id.remove(&id)?;
        self.evicted.truncate(REMEMBERED_EVICTIONS - 1);
        self.evicted.push_front(RunEviction { id, bound });
        self.taps.retain(|tap| {
            let tap = tap.upgrade();
            tap.iter().for_each(|tap| tap.add_evicted(&removed));
            tap.is_some()
        });
        Some(removed)
    }
}

/// All kept runs. What is evicted is freed after the lock, for which all runs wait that begin or end.
#[derive(Debug)]
pub(super) struct KeptRuns {
    index: Mutex<RunIndex>,
    /// runs that readers missed
    missed: Counter,
}

impl KeptRuns {
    pub(super) fn new(config: InspectConfig, missed: Counter) -> KeptRuns {
        let index = RunIndex {
            by_id: BTreeMap::new(),
            ended: EndedRuns::default(),
            last_id: 0,
            taps: Vec::new(),
            evicted: VecDeque::new(),
            max_runs: config.runs.get(),
            max_age: config.age,
            next_sweep: Instant::now(),
        };
        KeptRuns { index: Mutex::new(index), missed }
    }

    pub(super) fn set_bounds(&self, config: InspectConfig) {
        let mut index = self.index.lock();
        (index.max_runs, index.max_age) = (config.runs.get(), config.age);
    }

    /// Adds a run that begins, in place of ended ones if there are too many. Its id is given here, so that no reader
    /// finds a later run before it.
    pub(super) fn add(&self, mut run: CapturedRun) -> Arc<CapturedRun> {
        let mut evicted = Vec::new();
        let mut index = self.index.lock();
        if Instant::now() >= index.next_sweep {
            index.remove_old(&mut evicted);
        }
        while index.by_id.len() >= index.max_runs
            && let Some(id) = index.ended.remove_of_most()
        {
            evicted.extend(index.remove(id, "inspect.runs"));
        }
        index.last_id += 1;
        run.id = index.last_id;
        let run = Arc::new(run);
        index.by_id.insert(run.id, Arc::clone(&run));
        drop(index);
        release_evicted(evicted);
        run
    }

    /// Records that a run has ended, so that it may be evicted.
    pub(super) fn add_ended(&self, run: &CapturedRun, outcome: &'static str, ended_at: Instant) {
        let ended = EvictableRun { id: run.id, ended_at, bytes: run.charged_bytes() };
        self.index.lock().ended.add((Arc::clone(&run.head.route), outcome), ended);
    }

    /// Evicts an ended run for the memory of others. Returns false if there is none.
    pub(super) fn evict_for_memory(&self) -> bool {
        let mut index = self.index.lock();
        let evicted = index.ended.remove_of_most_bytes().and_then(|id| index.remove(id, "inspect.bytes"));
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

    /// Begins to count for a tap which runs it misses. Without `after`, it begins with the next run.
    pub(super) fn add_tap(&self, routes: String, run: Option<String>, after: Option<u64>) -> Arc<TapPlace> {
        let mut index = self.index.lock();
        let after = after.unwrap_or(index.last_id);
        let tap = Arc::new(TapPlace::new(routes, run, after, self.missed.clone()));
        // The places of taps that have ended.
        index.taps.retain(|tap| tap.strong_count() > 0);
        index.taps.push(Arc::downgrade(&tap));
        tap
    }

    /// Lists the runs of a tap that began since the last call.
    pub(super) fn new_runs(&self, tap: &TapPlace) -> Vec<Arc<CapturedRun>> {
        let index = self.index.lock();
        let new = index
            .by_id
            .range((Bound::Excluded(tap.replace_last_id(index.last_id)), Bound::Unbounded))
            .map(|(_, run)| run);
        new.filter(|run| tap.selects(run)).map(Arc::clone).collect()
    }

    /// Counts a run that was evicted while it was read.
    pub(super) fn count_partly_missed(&self) {
        self.missed.inc();
    }

    /// Returns why no run with this number is kept.
    pub(super) fn explain_missing(&self, id: u64) -> MissingRun {
        let index = self.index.lock();
        if id == 0 || id > index.last_id {
            return MissingRun::NotYet(index.last_id);
        }
        MissingRun::Evicted(index.evicted.iter().find(|evicted| evicted.id == id).map(|evicted| evicted.bound))
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
