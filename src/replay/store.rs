//! The runs that are kept: found by key, bounded in number, bytes and age.
//!
//! ```text
//!   enter ──▶ live ── the writer ends ──▶ ended ── age, runs, bytes, replaced ──▶ gone
//!              │ it came to nothing, was cut off
//!              └──────────────▶ gone
//! ```
//! Only runs that have ended make room for others. A live one that finds none is not kept, or gives up what was kept of it.

use super::RunToken;
use super::log::{LogLimits, LogWriter, RunLog};
use crate::config::replay::ReplayConfig;
use crate::telemetry::internal_event::MAX_TEXT_CHARS;
use crate::telemetry::label::EvictionReason;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::RunIds;
use crate::translate::recap::Recap;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// A digest by which a run, a thread or a body is known again.
pub(crate) type ReplayKey = [u8; 32];

/// The runs of this process.
#[derive(Debug)]
pub(crate) struct RunStore {
    bounds: Mutex<StoreBounds>,
    stall_timeout: Duration,
    runs: Mutex<StoredRuns>,
    used: AtomicUsize,
    metrics: ReplayMetrics,
}

/// How much is kept, and how far readers may be behind.
#[derive(Clone, Copy, Debug)]
struct StoreBounds {
    replay: ReplayConfig,
    backlog: usize,
}

#[derive(Debug, Default)]
struct StoredRuns {
    by_key: HashMap<ReplayKey, Arc<StoredRun>>,
    /// the last run of each thread
    last_of_thread: HashMap<ReplayKey, ReplayKey>,
    /// in the order of their ends, with those that are gone by now
    ended: VecDeque<(Instant, Weak<StoredRun>)>,
    /// somebody takes away what is too old
    is_sweeping: bool,
}

/// A run that is kept.
#[derive(Debug)]
pub(crate) struct StoredRun {
    run: ReplayKey,
    /// whose thread it is in
    pub(crate) thread: ReplayKey,
    /// what was asked of it
    pub(crate) body: ReplayKey,
    /// what it is called, as far as the log shows that: a client may call it by megabytes, which nobody counts here
    pub(crate) ids: RunIds,
    /// what it said
    pub(crate) log: Arc<RunLog>,
    /// whether another replica runs it, or did
    pub(crate) is_remote: bool,
    /// what is counted of it
    counted_bytes: AtomicUsize,
}

/// A run that is to begin.
#[derive(Debug)]
pub(crate) struct NewRun {
    /// by which it is found
    pub(crate) run: ReplayKey,
    /// by which its thread is found
    pub(crate) thread: ReplayKey,
    /// by which the request is known again that asked for it
    pub(crate) body: ReplayKey,
    /// what it is called
    pub(crate) ids: RunIds,
    /// what its events' ids begin with
    pub(crate) token: RunToken,
    /// what its conversation held before
    pub(crate) recap: Recap,
    /// how long it goes on without a reader
    pub(crate) abandon_after: Duration,
    /// where another replica has it: up to which event the recap tells it
    pub(crate) remote_through: Option<u64>,
}

/// What came of a run that was to begin.
#[derive(Debug)]
pub(crate) enum InsertOutcome {
    /// it has a place
    New(LogWriter),
    /// the same run was asked for already
    Existing(Arc<StoredRun>),
    /// another run has its key, and goes on
    Conflict,
    /// there is no room for it: it may run, and is not kept
    Full,
}

impl RunStore {
    /// An empty store. Readers may be `backlog` bytes behind; a watched one that takes nothing for `patience` is given up.
    #[must_use]
    pub(crate) fn new(
        replay: ReplayConfig,
        backlog: usize,
        patience: Duration,
        metrics: ReplayMetrics,
    ) -> Arc<RunStore> {
        let (runs, used) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(RunStore {
            bounds: Mutex::new(StoreBounds { replay, backlog }),
            stall_timeout: patience,
            runs,
            used,
            metrics,
        })
    }

    /// Other bounds, for a configuration that changed. What is kept beyond them goes as others come; runs that began keep those
    /// that they began with.
    pub(crate) fn set_bounds(&self, replay: ReplayConfig, backlog: usize) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = StoreBounds { replay, backlog };
    }

    fn bounds(&self) -> StoreBounds {
        // Nothing panics while the lock is held.
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run of a key.
    #[must_use]
    pub(crate) fn find(&self, run: &ReplayKey) -> Option<Arc<StoredRun>> {
        self.lock_runs().by_key.get(run).cloned()
    }

    /// The last run of a thread.
    #[must_use]
    pub(crate) fn last_of_thread(&self, thread: &ReplayKey) -> Option<Arc<StoredRun>> {
        let runs = self.lock_runs();
        runs.by_key.get(runs.last_of_thread.get(thread)?).cloned()
    }

    /// Gives a run a place, unless it has one.
    pub(crate) fn insert(self: &Arc<Self>, fresh: NewRun) -> InsertOutcome {
        let NewRun { run, thread, body, ids, token, recap, abandon_after: alone, remote_through: follows } = fresh;
        let ids = ids.truncated(MAX_TEXT_CHARS);
        let StoreBounds { replay, backlog } = self.bounds();
        let mut runs = self.lock_runs();
        if let Some(known) = runs.by_key.get(&run) {
            if known.body == body {
                return InsertOutcome::Existing(Arc::clone(known));
            }
            if known.log.is_open() {
                return InsertOutcome::Conflict;
            }
            let known = Arc::clone(known);
            self.evict(&mut runs, &known, Some(EvictionReason::Replaced));
        }
        while runs.by_key.len() >= replay.runs.get() {
            if !self.evict_oldest(&mut runs, EvictionReason::Runs) {
                return InsertOutcome::Full;
            }
        }
        let pace = LogLimits {
            max_backlog: backlog,
            max_bytes: replay.run_bytes,
            stall_timeout: self.stall_timeout,
            abandon_after: alone,
        };
        let log = Arc::new(RunLog::new(token, recap, follows.unwrap_or_default(), pace));
        let (elsewhere, held) = (follows.is_some(), AtomicUsize::new(0));
        let kept = Arc::new(StoredRun {
            run,
            thread,
            body,
            ids,
            log: Arc::clone(&log),
            is_remote: elsewhere,
            counted_bytes: held,
        });
        runs.by_key.insert(run, Arc::clone(&kept));
        runs.last_of_thread.insert(thread, run);
        self.metrics.runs.set_count(runs.by_key.len());
        drop(runs);
        let place = StoreSlot { store: Arc::clone(self), run: kept };
        // Whether there is room for what the conversation held is seen with the first event.
        place.set_bytes(log.retained_bytes());
        InsertOutcome::New(LogWriter::new(log, Some(place)))
    }

    fn evict_oldest(&self, runs: &mut StoredRuns, why: EvictionReason) -> bool {
        while let Some((_, oldest)) = runs.ended.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| self.evict(runs, &oldest, Some(why))) {
                return true;
            }
        }
        false
    }

    /// Takes a run away, if it is still there.
    fn evict(&self, runs: &mut StoredRuns, gone: &Arc<StoredRun>, why: Option<EvictionReason>) -> bool {
        if !runs.by_key.get(&gone.run).is_some_and(|kept| Arc::ptr_eq(kept, gone)) {
            return false;
        }
        runs.by_key.remove(&gone.run);
        if runs.last_of_thread.get(&gone.thread) == Some(&gone.run) {
            runs.last_of_thread.remove(&gone.thread);
        }
        self.used.fetch_sub(gone.counted_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.metrics.runs.set_count(runs.by_key.len());
        self.metrics.bytes.set_count(self.used.load(Ordering::Relaxed));
        if let Some(why) = why {
            self.metrics.evictions.get(why).inc();
        }
        true
    }

    /// Takes away what ended long ago, and gives when the next will have.
    fn sweep(&self) -> Option<Instant> {
        let age = self.bounds().replay.age;
        let mut runs = self.lock_runs();
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

    fn lock_runs(&self) -> MutexGuard<'_, StoredRuns> {
        // Nothing panics while the lock is held.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes away what is too old, for as long as something waits for that.
async fn sweep(store: Weak<RunStore>) {
    while let Some(next) = store.upgrade().and_then(|store| store.sweep()) {
        sleep_until(next).await;
    }
}

/// The place of a run in its store, held by whoever writes it.
#[derive(Debug)]
pub(super) struct StoreSlot {
    store: Arc<RunStore>,
    run: Arc<StoredRun>,
}

impl StoreSlot {
    fn set_bytes(&self, bytes: usize) -> usize {
        let before = self.run.counted_bytes.swap(bytes, Ordering::Relaxed);
        let used = &self.store.used;
        if bytes >= before {
            used.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            used.fetch_sub(before - bytes, Ordering::Relaxed);
        }
        let used = used.load(Ordering::Relaxed);
        self.store.metrics.bytes.set_count(used);
        used
    }

    /// Says what is kept of the run. `false` when there is no room for it, whatever else is taken away.
    pub(crate) fn record_bytes(&self, bytes: usize) -> bool {
        let bound = self.store.bounds().replay.bytes;
        if self.set_bytes(bytes) <= bound {
            return true;
        }
        let mut runs = self.store.lock_runs();
        while self.store.used.load(Ordering::Relaxed) > bound {
            if !self.store.evict_oldest(&mut runs, EvictionReason::Bytes) {
                return false;
            }
        }
        true
    }

    /// Nobody can come back to the run any more, although it goes on.
    pub(crate) fn record_discarded(&self, why: EvictionReason) {
        self.store.metrics.evictions.get(why).inc();
    }

    /// The run came to nothing.
    pub(crate) fn remove(self) {
        self.store.evict(&mut self.store.lock_runs(), &self.run, None);
    }

    /// The run has ended: it may make room for others, and will.
    pub(crate) fn mark_ended(self) {
        let StoreSlot { store, run: kept } = self;
        let mut runs = store.lock_runs();
        runs.ended.push_back((Instant::now(), Arc::downgrade(&kept)));
        // Outside of a runtime, at the very end of the process, nothing gets old.
        let Ok(runtime) = Handle::try_current() else { return };
        let begins = !std::mem::replace(&mut runs.is_sweeping, true);
        drop(runs);
        if begins {
            runtime.spawn(sweep(Arc::downgrade(&store)));
        }
    }
}

#[cfg(test)]
mod tests;
