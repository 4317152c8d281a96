//! Bounds the memory of all agents' unfinished frames, of what the translations of all runs remember, and of what waits
//! for their clients.
//!
//! ```text
//!   reads ── all together exceed `limits.run_memory` ──▶ waits ── others return enough ──▶ reads
//!                                                          ╰── none within WAIT_TIMEOUT ──▶ the run ends
//! ```
//! Reserves the memory for what a run keeps of its request before it starts, and refuses a run without room for that.
//! These reservations take at most half of the limit, so that agents can be read, and those of one caller a quarter of
//! the limit, so that others can start.
//!
//! A run counts once it holds more than [`FREE`], in steps, so that ordinary runs pay nothing. Runs that hold no more
//! never wait for others: they read in small pieces, so that none becomes a large one meanwhile. Parts of the limit are
//! left (see [`Holder`]): for pieces that are read at once, and to the callers that hold less than half of it.
//! One run may always read on: otherwise runs that each hold half of a large event would wait for one another.

use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::sync::Mutex;
use crate::telemetry::Metrics;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Memory that a run may hold without being counted: with one read, a small part of what each run takes anyway.
const FREE: usize = 8 << 10;

/// The least that a run reads at once, unless fewer bytes have come.
const SMALL_READ: usize = 512;

/// Memory is counted in multiples of this.
const STEP: usize = 8 << 10;

/// The part of the limit that all conversations may take.
const CONVERSATION_SHARE: usize = 2;

/// The part of the limit that the conversations of one caller may take.
const CALLER_SHARE: usize = 4;

/// The part of the limit above which a caller leaves the rest to others.
const LARGE_CALLER_SHARE: usize = 2;

/// Time that a run waits for the memory of others, of which none returns any.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct RunMemory {
    used: AtomicUsize,
    limit: AtomicUsize,
    /// whether a run reads on beyond the limit
    is_exceeded_by_one: AtomicBool,
    returned: Notify,
    /// number of runs that wait for `returned`, which takes a lock
    waiting: AtomicUsize,
    callers: Mutex<MemoryCallers>,
    metrics: Arc<Metrics>,
}

/// The callers whose runs are counted.
#[derive(Default)]
struct MemoryCallers {
    /// what all runs keep of their requests
    reserved: usize,
    by_key: HashMap<ReplayKey, Arc<CallerMemory>>,
}

/// The memory of one caller's runs.
#[derive(Default)]
struct CallerMemory {
    used: AtomicUsize,
    /// what its runs keep of their requests; changes while [`MemoryCallers`] is locked
    reserved: AtomicUsize,
}

/// The memory of one run, returned when dropped.
// In this order in memory: what every event touches comes last, next to the run's stream.
#[repr(C)]
pub(super) struct RunMemoryShare {
    key: ReplayKey,
    /// absent until the run is counted
    caller: Option<Arc<CallerMemory>>,
    /// part of `counted`
    reserved: usize,
    exceeds: bool,
    total: Arc<RunMemory>,
    counted: usize,
    /// what the run holds, counted or not
    held: usize,
}

/// Determines how much of the limit may be used for a run to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// a run that is not counted, and need not be after its next read
    SmallRun,
    LargeRun,
    /// a counted run of a caller that holds half of the limit
    LargeCaller,
}

/// All runs together hold too much for this one to hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunMemoryFull;

impl Holder {
    /// Returns the part of the limit that runs like this may fill.
    const fn room(self, limit: usize) -> usize {
        match self {
            Holder::SmallRun => usize::MAX,
            Holder::LargeRun => limit - limit / 8,
            // With one event of the run that reads on, others still have room.
            Holder::LargeCaller => limit / 8 * 5,
        }
    }
}

impl RunMemory {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<RunMemory> {
        Arc::new(RunMemory {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            is_exceeded_by_one: AtomicBool::new(false),
            returned: Notify::new(),
            waiting: AtomicUsize::new(0),
            callers: Mutex::default(),
            metrics,
        })
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.returned.notify_waiters();
    }

    pub(super) fn start_run(self: &Arc<Self>, key: ReplayKey) -> RunMemoryShare {
        RunMemoryShare { total: Arc::clone(self), key, caller: None, reserved: 0, counted: 0, held: 0, exceeds: false }
    }
}

/// Returns what counts of a run that holds `bytes`.
const fn counted_bytes(bytes: usize) -> usize {
    if bytes > FREE { bytes.next_multiple_of(STEP) } else { 0 }
}

impl RunMemoryShare {
    /// Counts what the run keeps of its request till its end. Only a run that has not started may reserve, once.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Rejection> {
        let bytes = counted_bytes(bytes);
        if bytes == 0 {
            return Ok(());
        }
        let total = Arc::clone(&self.total);
        let limit = total.limit.load(Ordering::Relaxed);
        let mut callers = total.callers.lock();
        // A run alone may take what others do not use.
        let is_over = callers.reserved > 0 && callers.reserved + bytes > limit / CONVERSATION_SHARE;
        if is_over || total.used.load(Ordering::Relaxed) + bytes > limit {
            return Err(RejectionKind::RunMemoryFull.into());
        }
        let callers_bytes = callers.by_key.get(&self.key).map_or(0, |caller| caller.reserved.load(Ordering::Relaxed));
        if callers_bytes > 0 && callers_bytes + bytes > limit / CALLER_SHARE {
            let detail = "The conversations of this caller's runs take all the memory that one caller may use.";
            return Err(Rejection::from(RejectionKind::RunMemoryFull).with_detail(detail));
        }
        callers.reserved += bytes;
        let caller = Arc::clone(callers.by_key.entry(self.key).or_default());
        caller.reserved.fetch_add(bytes, Ordering::Relaxed);
        drop(callers);
        self.caller = Some(caller);
        self.reserved = bytes;
        self.resize(bytes);
        Ok(())
    }

    /// Returns the memory of the caller, which a run needs once it is counted.
    fn caller(&mut self) -> &CallerMemory {
        self.caller.get_or_insert_with(|| Arc::clone(self.total.callers.lock().by_key.entry(self.key).or_default()))
    }

    /// Counts a run that now holds `bytes`.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.held = bytes;
        let (before, counted) = (self.counted, counted_bytes(bytes));
        if counted == before {
            return;
        }
        self.counted = counted;
        // Wraps around if the run holds less.
        let change = counted.wrapping_sub(before);
        self.caller().used.fetch_add(change, Ordering::Relaxed);
        let RunMemory { used, is_exceeded_by_one, returned, waiting, metrics, .. } = &*self.total;
        let all = used.fetch_add(change, Ordering::SeqCst).wrapping_add(change);
        metrics.process.run_memory.set_count(all);
        if counted < before {
            if std::mem::take(&mut self.exceeds) {
                is_exceeded_by_one.store(false, Ordering::SeqCst);
            }
            // In one order with the changes above: a run that begins to wait is seen here, or sees them.
            if waiting.load(Ordering::SeqCst) > 0 {
                returned.notify_waiters();
            }
        }
    }

    /// Returns what the run holds, as of the last change.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held
    }

    /// Returns whether the run can read a piece without being counted.
    const fn is_small(&self) -> bool {
        self.counted == 0 && self.held + SMALL_READ <= FREE
    }

    fn holder(&self, limit: usize) -> Holder {
        let callers_bytes = self.caller.as_ref().map_or(0, |caller| caller.used.load(Ordering::Relaxed));
        match self.counted {
            _ if self.is_small() => Holder::SmallRun,
            _ if callers_bytes > limit / LARGE_CALLER_SHARE => Holder::LargeCaller,
            _ => Holder::LargeRun,
        }
    }

    /// Returns the most that the run may read at once.
    pub(super) fn max_read(&self) -> usize {
        let RunMemory { used, limit, .. } = &*self.total;
        let is_scarce = used.load(Ordering::Relaxed) > Holder::LargeRun.room(limit.load(Ordering::Relaxed));
        if is_scarce && self.is_small() { FREE - self.held } else { usize::MAX }
    }

    /// Returns whether the run may read on; if it is the only large one beyond the limit, it takes the exemption.
    pub(super) fn try_grow(&mut self) -> bool {
        let RunMemory { used, limit, is_exceeded_by_one, .. } = &*self.total;
        let limit = limit.load(Ordering::Relaxed);
        let used = used.load(Ordering::SeqCst);
        // Most processes use little of the limit.
        if self.exceeds || used <= Holder::LargeCaller.room(limit) {
            return true;
        }
        let holder = self.holder(limit);
        if used <= holder.room(limit) {
            return true;
        }
        self.exceeds = !is_exceeded_by_one.swap(true, Ordering::SeqCst);
        self.exceeds
    }

    /// Waits until the run may read on.
    pub(super) async fn wait_for_room(&mut self) -> Result<(), RunMemoryFull> {
        let total = Arc::clone(&self.total);
        let _waiting = WaitingRun::new(&total.waiting);
        loop {
            let mut returned = pin!(total.returned.notified());
            returned.as_mut().enable();
            if self.try_grow() {
                return Ok(());
            }
            if timeout(WAIT_TIMEOUT, returned).await.is_err() {
                return if self.try_grow() { Ok(()) } else { Err(RunMemoryFull) };
            }
        }
    }
}

/// Counts a run that waits.
struct WaitingRun<'a>(&'a AtomicUsize);

impl WaitingRun<'_> {
    fn new(waiting: &AtomicUsize) -> WaitingRun<'_> {
        waiting.fetch_add(1, Ordering::SeqCst);
        WaitingRun(waiting)
    }
}

impl Drop for WaitingRun<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for RunMemoryShare {
    fn drop(&mut self) {
        self.resize(0);
        let Some(caller) = self.caller.take() else { return };
        let mut callers = self.total.callers.lock();
        callers.reserved -= self.reserved;
        caller.reserved.fetch_sub(self.reserved, Ordering::Relaxed);
        // Only the map and this run have it, and no other run can get it meanwhile.
        if Arc::strong_count(&caller) == 2 {
            callers.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;

    const ADA: ReplayKey = [1; 32];
    const BOB: ReplayKey = [2; 32];
    const EVE: ReplayKey = [3; 32];

    /// Small enough for a share, large enough to count exactly.
    const PART: usize = 8 * STEP;

    fn run_memory(limit: usize) -> Arc<RunMemory> {
        RunMemory::new(limit, Arc::new(Metrics::new().expect("unique names")))
    }

    #[tokio::test(start_paused = true)]
    async fn one_run_reads_on_while_others_wait_for_its_memory() {
        let memory = run_memory(4 * PART);
        let (mut large, mut other, mut small) = (memory.start_run(ADA), memory.start_run(BOB), memory.start_run(BOB));
        large.resize(5 * PART / 2);
        assert!(large.try_grow());
        other.resize(3 * PART / 2);
        small.resize(FREE);
        assert_eq!(memory.used.load(Ordering::Relaxed), 4 * PART);
        assert!(large.try_grow() && !small.try_grow() && !other.try_grow());
        small.resize(FREE / 2);
        assert!(small.try_grow());
        let mut waiting = Box::pin(other.wait_for_room());
        assert!(poll!(&mut waiting).is_pending());
        large.resize(PART);
        assert_eq!(waiting.await, Ok(()));
        large.resize(3 * PART);
        assert!(other.try_grow() && large.try_grow() != other.exceeds);
        drop((large, other, small));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
        assert!(memory.callers.lock().by_key.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn ends_a_run_that_waits_in_vain() {
        let memory = run_memory(PART);
        let (mut first, mut second) = (memory.start_run(ADA), memory.start_run(ADA));
        first.resize(2 * PART);
        assert!(first.try_grow());
        second.resize(2 * PART);
        assert_eq!(second.wait_for_room().await, Err(RunMemoryFull));
        drop(first);
        assert!(second.try_grow());
    }

    /// Thousands of agents send an event that ends nowhere, or little of it.
    #[test]
    fn many_runs_that_each_hold_little_are_bounded_together() {
        let memory = run_memory(16 << 20);
        let mut runs: Vec<_> = (0..4000_u32)
            .map(|number| {
                let [.., high, low] = number.to_be_bytes();
                let mut key = ADA;
                (key[0], key[1]) = (high, low);
                memory.start_run(key)
            })
            .collect();
        for _ in 0..4 {
            for run in &mut runs {
                if run.try_grow() {
                    run.resize(run.held + run.max_read().min(16 << 10));
                }
            }
        }
        let used = memory.used.load(Ordering::Relaxed);
        assert!(used <= (14 << 20) + (64 << 10) && used > 14 << 20, "{used}");
        assert!(runs.iter().all(|run| run.counted > 0 || run.held == FREE));
        // A run with small events reads on, and holds no more than is free.
        let mut small = memory.start_run(EVE);
        small.resize(FREE / 2);
        assert!(small.try_grow() && small.max_read() == FREE / 2);
        small.resize(FREE);
        assert!(!small.try_grow());
    }

    #[test]
    fn one_caller_leaves_memory_to_others() {
        let memory = run_memory(16 * PART);
        let mut ada: Vec<_> = (0..16).map(|_| memory.start_run(ADA)).collect();
        ada.iter_mut().for_each(|run| run.resize(2 * STEP));
        for run in &mut ada {
            if run.try_grow() {
                run.resize(2 * PART);
            }
        }
        // The last of them reads on beyond the share.
        assert_eq!(ada.iter().filter(|run| run.counted == 2 * PART).count(), 5);
        assert!(ada[4].exceeds && !ada[5].try_grow());
        let mut bob = memory.start_run(BOB);
        bob.resize(2 * STEP);
        assert!(bob.try_grow() && !bob.exceeds);
        drop((ada, bob));
        assert!(memory.callers.lock().by_key.is_empty());
    }

    #[tokio::test]
    async fn conversations_leave_room_for_other_callers_and_for_reading() {
        let memory = run_memory(16 * PART);
        let reserve = |caller, parts: usize| {
            let mut share = memory.start_run(caller);
            share.reserve(parts * PART).map(|()| share).map_err(|rejection| rejection.kind)
        };
        let alone = reserve(ADA, 15).expect("room");
        assert_eq!(reserve(BOB, 2).err(), Some(RejectionKind::RunMemoryFull));
        drop(alone);
        let mut ada = vec![reserve(ADA, 2).expect("room"), reserve(ADA, 2).expect("room")];
        assert_eq!(reserve(ADA, 2).err(), Some(RejectionKind::RunMemoryFull));
        assert!(memory.start_run(ADA).reserve(FREE).is_ok(), "short ones are free");
        let bob = reserve(BOB, 4).expect("room");
        assert_eq!(reserve(EVE, 2).err(), Some(RejectionKind::RunMemoryFull));
        assert!(ada[0].try_grow());
        drop(bob);
        let mut reading = memory.start_run(EVE);
        reading.resize(11 * PART);
        assert_eq!(reserve(BOB, 2).err(), Some(RejectionKind::RunMemoryFull));
        // Reading counts with what is reserved.
        ada[0].resize(3 * PART);
        assert_eq!(memory.used.load(Ordering::Relaxed), 16 * PART);
        drop((ada, reading));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
        let callers = memory.callers.lock();
        assert!(callers.reserved == 0 && callers.by_key.is_empty());
    }
}
