//! The runs that are kept: found by key, bounded in number, bytes and age.
//!
//! ```text
//!   enter ──▶ live ── the writer ends ──▶ ended ── age, runs, bytes, replaced ──▶ gone
//!              │ it came to nothing, was cut off
//!              └──────────────▶ gone
//! ```
//! Only runs that have ended make room for others. A live one that finds none is not kept, or gives up what was kept of it.

use super::Token;
use super::log::{Log, Pace, Writer};
use crate::config::replay::Replay;
use crate::telemetry::label::Eviction;
use crate::telemetry::metric::ReplayMetrics;
use crate::telemetry::occurrence::SHOWN;
use crate::translate::Ids;
use crate::translate::recap::Recap;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

/// A digest by which a run, a thread or a body is known again.
pub type Key = [u8; 32];

/// The runs of this process.
#[derive(Debug)]
pub struct Store {
    bounds: Mutex<Bounds>,
    patience: Duration,
    runs: Mutex<Runs>,
    used: AtomicUsize,
    metrics: ReplayMetrics,
}

/// How much is kept, and how far readers may be behind.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    replay: Replay,
    backlog: usize,
}

#[derive(Debug, Default)]
struct Runs {
    kept: HashMap<Key, Arc<Kept>>,
    /// the last run of each thread
    threads: HashMap<Key, Key>,
    /// in the order of their ends, with those that are gone by now
    ended: VecDeque<(Instant, Weak<Kept>)>,
    /// somebody takes away what is too old
    swept: bool,
}

/// A run that is kept.
#[derive(Debug)]
pub struct Kept {
    run: Key,
    /// whose thread it is in
    pub thread: Key,
    /// what was asked of it
    pub body: Key,
    /// what it is called, as far as the log shows that: a client may call it by megabytes, which nobody counts here
    pub ids: Ids,
    /// what it said
    pub log: Arc<Log>,
    /// whether another replica runs it, or did
    pub elsewhere: bool,
    /// what is counted of it
    held: AtomicUsize,
}

/// A run that is to begin.
#[derive(Debug)]
pub struct Fresh {
    /// by which it is found
    pub run: Key,
    /// by which its thread is found
    pub thread: Key,
    /// by which the request is known again that asked for it
    pub body: Key,
    /// what it is called
    pub ids: Ids,
    /// what its events' ids begin with
    pub token: Token,
    /// what its conversation held before
    pub recap: Recap,
    /// how long it goes on without a reader
    pub alone: Duration,
    /// where another replica has it: up to which event the recap tells it
    pub follows: Option<u64>,
}

/// What came of a run that was to begin.
#[derive(Debug)]
pub enum Entered {
    /// it has a place
    New(Writer),
    /// the same run was asked for already
    Known(Arc<Kept>),
    /// another run has its key, and goes on
    Taken,
    /// there is no room for it: it may run, and is not kept
    Full,
}

impl Store {
    /// An empty store. Readers may be `backlog` bytes behind; a watched one that takes nothing for `patience` is given up.
    #[must_use]
    pub fn new(replay: Replay, backlog: usize, patience: Duration, metrics: ReplayMetrics) -> Arc<Store> {
        let (runs, used) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Store { bounds: Mutex::new(Bounds { replay, backlog }), patience, runs, used, metrics })
    }

    /// Other bounds, for a configuration that changed. What is kept beyond them goes as others come; runs that began keep those
    /// that they began with.
    pub fn adjust(&self, replay: Replay, backlog: usize) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = Bounds { replay, backlog };
    }

    fn bounds(&self) -> Bounds {
        // Nothing panics while the lock is held.
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run of a key.
    #[must_use]
    pub fn find(&self, run: &Key) -> Option<Arc<Kept>> {
        self.runs().kept.get(run).cloned()
    }

    /// The last run of a thread.
    #[must_use]
    pub fn last(&self, thread: &Key) -> Option<Arc<Kept>> {
        let runs = self.runs();
        runs.kept.get(runs.threads.get(thread)?).cloned()
    }

    /// Gives a run a place, unless it has one.
    pub fn enter(self: &Arc<Self>, fresh: Fresh) -> Entered {
        let Fresh { run, thread, body, ids, token, recap, alone, follows } = fresh;
        let ids = ids.shortened(SHOWN);
        let Bounds { replay, backlog } = self.bounds();
        let mut runs = self.runs();
        if let Some(known) = runs.kept.get(&run) {
            if known.body == body {
                return Entered::Known(Arc::clone(known));
            }
            if known.log.is_open() {
                return Entered::Taken;
            }
            let known = Arc::clone(known);
            self.evict(&mut runs, &known, Some(Eviction::Replaced));
        }
        while runs.kept.len() >= replay.runs.get() {
            if !self.evict_oldest(&mut runs, Eviction::Runs) {
                return Entered::Full;
            }
        }
        let pace = Pace { backlog, bytes: replay.run_bytes, patience: self.patience, alone };
        let log = Arc::new(Log::new(token, recap, follows.unwrap_or_default(), pace));
        let (elsewhere, held) = (follows.is_some(), AtomicUsize::new(0));
        let kept = Arc::new(Kept { run, thread, body, ids, log: Arc::clone(&log), elsewhere, held });
        runs.kept.insert(run, Arc::clone(&kept));
        runs.threads.insert(thread, run);
        self.metrics.runs(runs.kept.len());
        drop(runs);
        let place = Place { store: Arc::clone(self), kept };
        // Whether there is room for what the conversation held is seen with the first event.
        place.add(log.held());
        Entered::New(Writer::new(log, Some(place)))
    }

    fn evict_oldest(&self, runs: &mut Runs, why: Eviction) -> bool {
        while let Some((_, oldest)) = runs.ended.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| self.evict(runs, &oldest, Some(why))) {
                return true;
            }
        }
        false
    }

    /// Takes a run away, if it is still there.
    fn evict(&self, runs: &mut Runs, gone: &Arc<Kept>, why: Option<Eviction>) -> bool {
        if !runs.kept.get(&gone.run).is_some_and(|kept| Arc::ptr_eq(kept, gone)) {
            return false;
        }
        runs.kept.remove(&gone.run);
        if runs.threads.get(&gone.thread) == Some(&gone.run) {
            runs.threads.remove(&gone.thread);
        }
        self.used.fetch_sub(gone.held.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.metrics.runs(runs.kept.len());
        self.metrics.bytes(self.used.load(Ordering::Relaxed));
        if let Some(why) = why {
            self.metrics.evicted(why);
        }
        true
    }

    /// Takes away what ended long ago, and gives when the next will have.
    fn sweep(&self) -> Option<Instant> {
        let age = self.bounds().replay.age;
        let mut runs = self.runs();
        let now = Instant::now();
        while runs.ended.front().is_some_and(|(at, _)| *at + age <= now) {
            if let Some(old) = runs.ended.pop_front().and_then(|(_, old)| old.upgrade()) {
                self.evict(&mut runs, &old, Some(Eviction::Age));
            }
        }
        let next = runs.ended.front().map(|(at, _)| *at + age);
        runs.swept = next.is_some();
        next
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // Nothing panics while the lock is held.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes away what is too old, for as long as something waits for that.
async fn sweep(store: Weak<Store>) {
    while let Some(next) = store.upgrade().and_then(|store| store.sweep()) {
        sleep_until(next).await;
    }
}

/// The place of a run in its store, held by whoever writes it.
#[derive(Debug)]
pub(super) struct Place {
    store: Arc<Store>,
    kept: Arc<Kept>,
}

impl Place {
    fn add(&self, held: usize) -> usize {
        let before = self.kept.held.swap(held, Ordering::Relaxed);
        let used = &self.store.used;
        if held >= before {
            used.fetch_add(held - before, Ordering::Relaxed);
        } else {
            used.fetch_sub(before - held, Ordering::Relaxed);
        }
        let used = used.load(Ordering::Relaxed);
        self.store.metrics.bytes(used);
        used
    }

    /// Says what is kept of the run. `false` when there is no room for it, whatever else is taken away.
    pub fn count(&self, held: usize) -> bool {
        let bound = self.store.bounds().replay.bytes;
        if self.add(held) <= bound {
            return true;
        }
        let mut runs = self.store.runs();
        while self.store.used.load(Ordering::Relaxed) > bound {
            if !self.store.evict_oldest(&mut runs, Eviction::Bytes) {
                return false;
            }
        }
        true
    }

    /// Nobody can come back to the run any more, although it goes on.
    pub fn gave_up(&self, why: Eviction) {
        self.store.metrics.evicted(why);
    }

    /// The run came to nothing.
    pub fn forget(self) {
        self.store.evict(&mut self.store.runs(), &self.kept, None);
    }

    /// The run has ended: it may make room for others, and will.
    pub fn ended(self) {
        let Place { store, kept } = self;
        let mut runs = store.runs();
        runs.ended.push_back((Instant::now(), Arc::downgrade(&kept)));
        // Outside of a runtime, at the very end of the process, nothing gets old.
        let Ok(runtime) = Handle::try_current() else { return };
        let begins = !std::mem::replace(&mut runs.swept, true);
        drop(runs);
        if begins {
            runtime.spawn(sweep(Arc::downgrade(&store)));
        }
    }
}

#[cfg(test)]
mod tests;
