//! Stores run logs, with limits on number, bytes and age.
//!
//! ```text
//!   insert ──▶ live ── the writer finishes ──▶ ended ── age, runs, bytes, replaced ──▶ evicted
//!               │ the run failed to begin, or was cut
//!               └──────────────▶ removed
//! ```
//! Only ended runs are evicted: first those of the caller that holds most, then the oldest. If there is no room, a live
//! run is not stored or its log is discarded. A reader that needs a recap evicts runs of its own caller, and of those
//! that hold more; if that does not suffice, it is refused and evicts none. The logs take their memory from
//! [`StoreBytes`], which they share.

use super::RunToken;
use super::log::{LogLimits, LogRetention, LogWriter, RunLog};
use super::store_bytes::{CallerBytes, StoreBytes};
use crate::config::replay::ReplayConfig;
use crate::dialect::PeerDialect;
use crate::sync::Mutex;
use crate::telemetry::internal_event::MAX_TEXT_CHARS;
use crate::telemetry::label::EvictionReason;
use crate::telemetry::metric::ReplayMetrics;
use crate::translate::RunIds;
use crate::translate::recap::Recap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

pub(crate) type ReplayKey = [u8; 32];

/// The runs stored by this process.
pub(crate) struct RunStore {
    bounds: Mutex<StoreBounds>,
    stall_timeout: Duration,
    runs: Mutex<StoredRuns>,
    total: Arc<StoreBytes>,
    /// gets the runs that are evicted before their age, if copies of them are elsewhere
    evicted: OnceLock<mpsc::Sender<EvictedRun>>,
    metrics: ReplayMetrics,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EvictedRun {
    pub(super) keys: RunKeys,
    pub(super) token: RunToken,
}

#[derive(Clone, Copy, Debug)]
struct StoreBounds {
    replay: ReplayConfig,
    backlog: usize,
}

#[derive(Debug, Default)]
struct StoredRuns {
    by_key: HashMap<ReplayKey, StoreEntry>,
    last_of_thread: HashMap<ReplayKey, ReplayKey>,
    /// by number, in the order in which they ended
    ended: BTreeMap<u64, EndedRun>,
    last_ended: u64,
    callers: HashMap<ReplayKey, CallerRuns>,
    /// whether a task is evicting expired runs
    is_sweeping: bool,
}

#[derive(Debug)]
struct StoreEntry {
    run: Arc<StoredRun>,
    /// its number in `ended`, if it has
    ended: Option<u64>,
}

#[derive(Debug)]
struct EndedRun {
    at: Instant,
    run: Arc<StoredRun>,
}

/// The memory and the runs of one caller in the store.
#[derive(Debug)]
struct CallerRuns {
    runs: usize,
    bytes: Arc<CallerBytes>,
    ended: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunKeys {
    pub(crate) caller: ReplayKey,
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
            evicted: OnceLock::new(),
            metrics,
        })
    }

    /// Sends this process's runs that are evicted before their age to a queue, or not if it is full.
    pub(super) fn report_evicted(&self, queue: mpsc::Sender<EvictedRun>) {
        // There is one replication per store.
        let _ = self.evicted.set(queue);
    }

    /// Applies new limits from a reloaded configuration. Existing logs keep theirs.
    pub(crate) fn set_bounds(&self, replay: ReplayConfig, backlog: usize) {
        *self.bounds.lock() = StoreBounds { replay, backlog };
        self.total.set_limit(replay.bytes);
        let mut runs = self.runs.lock();
        while self.total.missing(0) > 0 && self.evict_next(&mut runs, EvictionReason::Bytes) {}
    }

    /// Evicts ended runs, so that another reader of `joined` gets `bytes`. Returns `false`, evicting nothing, if those
    /// that may be evicted for it do not suffice.
    pub(crate) fn make_room_for_reader(&self, joined: &StoredRun, bytes: usize) -> bool {
        let mut runs = self.runs.lock();
        let Some(chosen) = runs.choose_for_reader(joined, bytes, self.total.missing(bytes)) else { return false };
        for run in chosen {
            self.evict(&mut runs, &run, Some(EvictionReason::Bytes));
            run.log.evict();
        }
        true
    }

    pub(crate) fn find(&self, run: &ReplayKey) -> Option<Arc<StoredRun>> {
        self.runs.lock().by_key.get(run).map(|stored| Arc::clone(&stored.run))
    }

    pub(crate) fn last_of_thread(&self, thread: &ReplayKey) -> Option<Arc<StoredRun>> {
        let runs = self.runs.lock();
        runs.by_key.get(runs.last_of_thread.get(thread)?).map(|stored| Arc::clone(&stored.run))
    }

    /// Stores a run unless it is already stored.
    pub(crate) fn insert(self: &Arc<Self>, fresh: NewRun) -> InsertOutcome {
        let NewRun { descriptor: RunDescriptor { keys, token, ids, .. }, recap, abandon_after, remote_through } = fresh;
        let StoreBounds { replay, backlog } = *self.bounds.lock();
        let mut runs = self.runs.lock();
        if let Some(existing) = runs.by_key.get(&keys.run).map(|stored| Arc::clone(&stored.run)) {
            if existing.keys.body == keys.body {
                return InsertOutcome::Existing(existing);
            }
            if existing.log.is_open() {
                return InsertOutcome::Conflict;
            }
            self.evict(&mut runs, &existing, Some(EvictionReason::Replaced));
        }
        while runs.by_key.len() >= replay.runs.get() {
            if !self.evict_next(&mut runs, EvictionReason::Runs) {
                return InsertOutcome::Full;
            }
        }
        let limits = LogLimits {
            max_backlog: backlog,
            max_bytes: replay.run_bytes,
            stall_timeout: self.stall_timeout,
            abandon_after,
        };
        let held = runs.callers.get(&keys.caller).map(|held| Arc::clone(&held.bytes));
        let bytes = held.unwrap_or_else(|| Arc::new(CallerBytes::new(&self.total)));
        let total = Some(Arc::clone(&bytes));
        let log = Arc::new(RunLog::new(token, recap, remote_through.unwrap_or_default(), limits, total));
        while !log.recount() {
            if !self.evict_next(&mut runs, EvictionReason::Bytes) {
                return InsertOutcome::Full;
            }
        }
        let stored = Arc::new(StoredRun {
            keys,
            ids: ids.truncated(MAX_TEXT_CHARS),
            log: Arc::clone(&log),
            is_remote: remote_through.is_some(),
        });
        runs.add(&stored, bytes);
        self.metrics.runs.set_count(runs.by_key.len());
        drop(runs);
        let slot = StoreSlot { store: Arc::clone(self), run: stored };
        InsertOutcome::New(LogWriter::new(log, Some(Box::new(slot))))
    }

    /// Evicts an ended run. For memory, it is freed at once, and its readers are cut off.
    fn evict_next(&self, runs: &mut StoredRuns, why: EvictionReason) -> bool {
        let Some(next) = runs.next_evicted(why) else { return false };
        let is_evicted = self.evict(runs, &next, Some(why));
        if why == EvictionReason::Bytes {
            next.log.evict();
        }
        is_evicted
    }

    fn evict(&self, runs: &mut StoredRuns, old: &Arc<StoredRun>, why: Option<EvictionReason>) -> bool {
        if !runs.remove(old) {
            return false;
        }
        self.metrics.runs.set_count(runs.by_key.len());
        if let Some(why) = why {
            self.metrics.evictions.get(why).inc();
        }
        let is_early = matches!(why, Some(EvictionReason::Bytes | EvictionReason::Runs | EvictionReason::Replaced));
        if let Some(queue) = self.evicted.get().filter(|_| is_early && !old.is_remote) {
            // If the queue is full, the copy stays until its age.
            let _ = queue.try_send(EvictedRun { keys: old.keys, token: old.log.token });
        }
        true
    }

    /// Evicts a run whose key another replica's run has now.
    pub(super) fn evict_replaced(&self, old: &Arc<StoredRun>) {
        self.evict(&mut self.runs.lock(), old, Some(EvictionReason::Replaced));
    }

    fn sweep(&self) -> Option<Instant> {
        let age = self.bounds.lock().replay.age;
        let mut runs = self.runs.lock();
        let now = Instant::now();
        let oldest = |runs: &StoredRuns| {
            runs.ended.first_key_value().map(|(_, oldest)| (oldest.at + age, Arc::clone(&oldest.run)))
        };
        while let Some((_, old)) = oldest(&runs).filter(|(expiry, _)| *expiry <= now) {
            self.evict(&mut runs, &old, Some(EvictionReason::Age));
        }
        let next = oldest(&runs).map(|(expiry, _)| expiry);
        runs.is_sweeping = next.is_some();
        next
    }
}

impl StoredRuns {
    fn add(&mut self, run: &Arc<StoredRun>, bytes: Arc<CallerBytes>) {
        let keys = run.keys;
        self.by_key.insert(keys.run, StoreEntry { run: Arc::clone(run), ended: None });
        self.last_of_thread.insert(keys.thread, keys.run);
        let held = self.callers.entry(keys.caller);
        held.or_insert_with(|| CallerRuns { runs: 0, bytes, ended: BTreeSet::new() }).runs += 1;
    }

    fn mark_ended(&mut self, run: &Arc<StoredRun>) {
        let stored = self.by_key.get_mut(&run.keys.run).filter(|stored| Arc::ptr_eq(&stored.run, run));
        // Another run may have replaced it already.
        let (Some(stored), Some(held)) = (stored, self.callers.get_mut(&run.keys.caller)) else { return };
        self.last_ended += 1;
        stored.ended = Some(self.last_ended);
        held.ended.insert(self.last_ended);
        self.ended.insert(self.last_ended, EndedRun { at: Instant::now(), run: Arc::clone(run) });
    }

    fn remove(&mut self, old: &Arc<StoredRun>) -> bool {
        let RunKeys { caller, run, thread, .. } = &old.keys;
        if !self.by_key.get(run).is_some_and(|stored| Arc::ptr_eq(&stored.run, old)) {
            return false;
        }
        let ended = self.by_key.remove(run).and_then(|stored| stored.ended);
        if self.last_of_thread.get(thread) == Some(run) {
            self.last_of_thread.remove(thread);
        }
        if let Some(held) = self.callers.get_mut(caller) {
            held.runs -= 1;
            ended.map(|number| held.ended.remove(&number));
            if held.runs == 0 {
                self.callers.remove(caller);
            }
        }
        ended.map(|number| self.ended.remove(&number));
        true
    }

    /// Returns the oldest ended run of the caller that holds most; if possible one without readers. Its cost grows with
    /// the callers, but each run is evicted only once.
    fn next_evicted(&self, why: EvictionReason) -> Option<Arc<StoredRun>> {
        let candidates = self.callers.values().filter_map(|held| {
            let oldest = held.ended.first()?;
            let amount = if why == EvictionReason::Bytes { held.bytes.total() } else { held.runs };
            Some((excess_over_one_entry(amount, held.runs), Reverse(*oldest), held))
        });
        let (_, _, held) = candidates.max_by_key(|(excess, oldest, _)| (*excess, *oldest))?;
        let mut ended = self.ended_of(held);
        let oldest = ended.next()?;
        let unread = std::iter::once(oldest).chain(ended).find(|run| !run.log.has_readers());
        Some(Arc::clone(unread.unwrap_or(oldest)))
    }

    /// Chooses ended runs without readers that return `missing` bytes, so that a reader of `joined` gets `bytes`: first
    /// those of its own caller, then those of callers that hold more than it would. Returns `None` if they do not
    /// suffice.
    fn choose_for_reader(&self, joined: &StoredRun, bytes: usize, missing: usize) -> Option<Vec<Arc<StoredRun>>> {
        let caller = &joined.keys.caller;
        let unread = |held| {
            let unread = self.ended_of(held).filter(|run| !std::ptr::eq(&***run, joined) && !run.log.has_readers());
            unread.map(|run| (run, run.log.evictable_bytes()))
        };
        let own = self.callers.get(caller);
        let mut own_total = own.map_or(0, |held| held.bytes.total()).saturating_add(bytes);
        let (mut chosen, mut freed) = (Vec::new(), 0);
        for (run, size) in own.into_iter().flat_map(unread) {
            if freed >= missing {
                break;
            }
            own_total = own_total.saturating_sub(size);
            freed += size;
            chosen.push(Arc::clone(run));
        }
        let others = self.callers.iter().filter(|(other, _)| *other != caller).map(|(_, held)| held);
        let mut larger: Vec<_> = others.filter(|held| held.bytes.total() > own_total).collect();
        larger.sort_by_key(|held| Reverse(held.bytes.total()));
        for held in larger {
            let mut total = held.bytes.total();
            for (run, size) in unread(held) {
                if freed >= missing || total <= own_total {
                    break;
                }
                total = total.saturating_sub(size);
                freed += size;
                chosen.push(Arc::clone(run));
            }
        }
        (freed >= missing).then_some(chosen)
    }

    /// Returns a caller's ended runs, the oldest first.
    fn ended_of(&self, held: &CallerRuns) -> impl Iterator<Item = &Arc<StoredRun>> {
        held.ended.iter().filter_map(|number| self.ended.get(number)).map(|ended| &ended.run)
    }
}

/// Returns what a caller holds beyond one entry of average size. When something shared is full, the caller with the
/// most pays first; callers with one entry each pay in the order of age, whatever its size.
pub(crate) fn excess_over_one_entry(held: usize, entries: usize) -> usize {
    held - held.checked_div(entries).unwrap_or(held)
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
        self.store.evict_next(&mut self.store.runs.lock(), EvictionReason::Bytes)
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
        runs.mark_ended(run);
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
