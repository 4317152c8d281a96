//! Stores run logs, with limits on number, bytes and age.
//!
//! ```text
//!   insert ──▶ live ── the writer finishes ──▶ ended ── age, runs, bytes, replaced ──▶ evicted
//!               │ the run failed to begin, or was cut
//!               └──────────────▶ removed
//! ```
//! Only ended runs are evicted. If there is no room, a live run is not stored or its log is discarded. The logs take their
//! memory from [`StoreBytes`], which they share.

use super::RunToken;
use super::log::{LogLimits, LogRetention, LogWriter, RunLog};
use super::store_bytes::StoreBytes;
use crate::config::replay::ReplayConfig;
use crate::dialect::PeerDialect;
use crate::sync::Mutex;
use crate::telemetry::internal_event::MAX_TEXT_CHARS;
use crate::telemetry::label::EvictionReason;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::RunIds;
use crate::translate::recap::Recap;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

pub(crate) type ReplayKey = [u8; 32];

/// The runs stored by this process.
pub(crate) struct RunStore {
    bounds: Mutex<StoreBounds>,
    stall_timeout: Duration,
    runs: Mutex<StoredRuns>,
    total: Arc<StoreBytes>,
    metrics: ReplayMetrics,
}

#[derive(Clone, Copy, Debug)]
struct StoreBounds {
    replay: ReplayConfig,
    backlog: usize,
}

#[derive(Debug, Default)]
struct StoredRuns {
    by_key: HashMap<ReplayKey, Arc<StoredRun>>,
    last_of_thread: HashMap<ReplayKey, ReplayKey>,
    ended: VecDeque<(Instant, Weak<StoredRun>)>,
    /// whether a task is evicting expired runs
    is_sweeping: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunKeys {
    pub(crate) run: ReplayKey,
    pub(crate) thread: ReplayKey,
    pub(crate) body: ReplayKey,
}

#[derive(Clone, Debug)]
pub(crate) struct RunDescriptor {
    pub(crate) keys: RunKeys,
    pub(crate) token: RunToken,
    /// dialect of the run's clients
    pub(crate) side: PeerDialect,
    pub(crate) ids: RunIds,
}

#[derive(Debug)]
pub(crate) struct StoredRun {
    pub(crate) keys: RunKeys,
    /// truncated, since their size is not counted and clients may send megabytes
    pub(crate) ids: RunIds,
    pub(crate) log: Arc<RunLog>,
    /// whether another replica owns or owned the run
    pub(crate) is_remote: bool,
}

#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) descriptor: RunDescriptor,
    /// the conversation before the run
    pub(crate) recap: Recap,
    pub(crate) abandon_after: Duration,
    /// the last event in the recap, for another replica's run
    pub(crate) remote_through: Option<u64>,
}

pub(crate) enum InsertOutcome {
    /// the run was stored
    New(LogWriter),
    /// the same request already started the run
    Existing(Arc<StoredRun>),
    /// another request's run has the same key and has not ended
    Conflict,
    /// the run may start, but is not stored
    Full,
}

impl RunStore {
    /// Creates an empty store. A run waits while every reader is `backlog` bytes behind; watched readers are removed if
    /// they read nothing for `stall_timeout`.
    pub(crate) fn new(
        replay: ReplayConfig,
        backlog: usize,
        stall_timeout: Duration,
        metrics: ReplayMetrics,
    ) -> Arc<RunStore> {
        Arc::new(RunStore {
            bounds: Mutex::new(StoreBounds { replay, backlog }),
            stall_timeout,
            runs: Mutex::default(),
            total: Arc::new(StoreBytes::new(replay.bytes, metrics.clone())),
            metrics,
        })
    }

    /// Applies new limits from a reloaded configuration. Existing logs keep theirs.
    pub(crate) fn set_bounds(&self, replay: ReplayConfig, backlog: usize) {
        *self.bounds.lock() = StoreBounds { replay, backlog };
        self.total.set_limit(replay.bytes);
        self.make_room(0, None);
    }

    /// Evicts ended runs, except one, until there is room for so many bytes or no such run is left.
    pub(crate) fn make_room(&self, bytes: usize, except: Option<&StoredRun>) {
        let mut runs = self.runs.lock();
        while self.total.lacks(bytes) && self.evict_for_bytes(&mut runs, except) {}
    }

    pub(crate) fn find(&self, run: &ReplayKey) -> Option<Arc<StoredRun>> {
        self.runs.lock().by_key.get(run).cloned()
    }

    pub(crate) fn last_of_thread(&self, thread: &ReplayKey) -> Option<Arc<StoredRun>> {
        let runs = self.runs.lock();
        runs.by_key.get(runs.last_of_thread.get(thread)?).cloned()
    }

    /// Stores a run unless it is already stored.
    pub(crate) fn insert(self: &Arc<Self>, fresh: NewRun) -> InsertOutcome {
        let NewRun { descriptor: RunDescriptor { keys, token, ids, .. }, recap, abandon_after, remote_through } = fresh;
        let StoreBounds { replay, backlog } = *self.bounds.lock();
        let mut runs = self.runs.lock();
        if let Some(existing) = runs.by_key.get(&keys.run) {
            if existing.keys.body == keys.body {
                return InsertOutcome::Existing(Arc::clone(existing));
            }
            if existing.log.is_open() {
                return InsertOutcome::Conflict;
            }
            let existing = Arc::clone(existing);
            self.evict(&mut runs, &existing, Some(EvictionReason::Replaced));
        }
        while runs.by_key.len() >= replay.runs.get() {
            if !self.evict_oldest(&mut runs, EvictionReason::Runs) {
                return InsertOutcome::Full;
            }
        }
        let limits = LogLimits {
            max_backlog: backlog,
            max_bytes: replay.run_bytes,
            stall_timeout: self.stall_timeout,
            abandon_after,
        };
        let total = Some(Arc::clone(&self.total));
        let log = Arc::new(RunLog::new(token, recap, remote_through.unwrap_or_default(), limits, total));
        while !log.recount() {
            if !self.evict_for_bytes(&mut runs, None) {
                return InsertOutcome::Full;
            }
        }
        let stored = Arc::new(StoredRun {
            keys,
            ids: ids.truncated(MAX_TEXT_CHARS),
            log: Arc::clone(&log),
            is_remote: remote_through.is_some(),
        });
        runs.by_key.insert(keys.run, Arc::clone(&stored));
        runs.last_of_thread.insert(keys.thread, keys.run);
        self.metrics.runs.set_count(runs.by_key.len());
        drop(runs);
        let slot = StoreSlot { store: Arc::clone(self), run: stored };
        InsertOutcome::New(LogWriter::new(log, Some(Box::new(slot))))
    }

    fn evict_oldest(&self, runs: &mut StoredRuns, why: EvictionReason) -> bool {
        while let Some((_, oldest)) = runs.ended.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| self.evict(runs, &oldest, Some(why))) {
                return true;
            }
        }
        false
    }

    /// Evicts the oldest ended run, if possible one without readers, and frees its memory at once.
    fn evict_for_bytes(&self, runs: &mut StoredRuns, except: Option<&StoredRun>) -> bool {
        loop {
            let may_evict = |(_, run): &(Instant, Weak<StoredRun>), unread: bool| {
                run.upgrade().is_none_or(|run| {
                    let is_excepted = except.is_some_and(|except| std::ptr::eq(except, &*run));
                    !(is_excepted || (unread && run.log.has_readers()))
                })
            };
            let found =
                [true, false].iter().find_map(|unread| runs.ended.iter().position(|run| may_evict(run, *unread)));
            let Some(oldest) = found.and_then(|at| runs.ended.remove(at)) else { return false };
            if let Some(oldest) =
                oldest.1.upgrade().filter(|oldest| self.evict(runs, oldest, Some(EvictionReason::Bytes)))
            {
                oldest.log.evict();
                return true;
            }
        }
    }

    fn evict(&self, runs: &mut StoredRuns, old: &Arc<StoredRun>, why: Option<EvictionReason>) -> bool {
        let RunKeys { run, thread, .. } = &old.keys;
        if !runs.by_key.get(run).is_some_and(|stored| Arc::ptr_eq(stored, old)) {
            return false;
        }
        runs.by_key.remove(run);
        if runs.last_of_thread.get(thread) == Some(run) {
            runs.last_of_thread.remove(thread);
        }
        self.metrics.runs.set_count(runs.by_key.len());
        if let Some(why) = why {
            self.metrics.evictions.get(why).inc();
        }
        true
    }

    fn sweep(&self) -> Option<Instant> {
        let age = self.bounds.lock().replay.age;
        let mut runs = self.runs.lock();
        let now = Instant::now();
        while runs.ended.front().is_some_and(|(at, _)| *at + age <= now) {
            if let Some(old) = runs.ended.pop_front().and_then(|(_, old)| old.upgrade()) {
                self.evict(&mut runs, &old, Some(EvictionReason::Age));
            }
        }
        let next = runs.ended.front().map(|(at, _)| *at + age);
        runs.is_sweeping = next.is_some();
        next
    }
}

async fn sweep(store: Weak<RunStore>) {
    while let Some(next) = store.upgrade().and_then(|store| store.sweep()) {
        sleep_until(next).await;
    }
}

struct StoreSlot {
    store: Arc<RunStore>,
    run: Arc<StoredRun>,
}

impl LogRetention for StoreSlot {
    fn evict_ended(&self) -> bool {
        self.store.evict_for_bytes(&mut self.store.runs.lock(), None)
    }

    fn record_discarded(&self, why: EvictionReason) {
        self.store.metrics.evictions.get(why).inc();
    }

    fn remove(&self) {
        self.store.evict(&mut self.store.runs.lock(), &self.run, None);
    }

    fn mark_ended(&self) {
        let StoreSlot { store, run } = self;
        let mut runs = store.runs.lock();
        runs.ended.push_back((Instant::now(), Arc::downgrade(run)));
        // Without a runtime the process is exiting.
        let Ok(runtime) = Handle::try_current() else { return };
        let was_sweeping = std::mem::replace(&mut runs.is_sweeping, true);
        drop(runs);
        if !was_sweeping {
            runtime.spawn(sweep(Arc::downgrade(store)));
        }
    }
}

#[cfg(test)]
mod tests;
