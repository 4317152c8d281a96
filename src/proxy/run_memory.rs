//! Bounds the memory of all agents' unfinished frames, of what the translations of all runs remember, and of what waits
//! for their clients.
//!
//! ```text
//!   reads ── all together exceed `limits.run_memory` ──▶ waits ── others return enough ──▶ reads
//!                                                          ╰── none within WAIT_TIMEOUT ──▶ the run ends
//! ```
//! Reserves the memory for what a run keeps of its request before it starts, and refuses a run without room for that.
//! These reservations take at most half of the limit, so that agents can be read, and those of one caller a quarter of
//! the half, so that others can start.
//!
//! A run counts once it holds more than [`UNCOUNTED`], so that ordinary runs pay nothing. One run may always read on:
//! otherwise runs that each hold half of a large event would wait for one another.

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

/// Memory that a run may hold without being counted.
const UNCOUNTED: usize = 64 << 10;

/// The part of the limit that all conversations may take.
const CONVERSATION_SHARE: usize = 2;

/// The part of the limit that the conversations of one caller may take.
const CALLER_SHARE: usize = 4;

/// Time that a run waits for the memory of others, of which none returns any.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct RunMemory {
    used: AtomicUsize,
    limit: AtomicUsize,
    /// whether a run reads on beyond the limit
    is_exceeded_by_one: AtomicBool,
    returned: Notify,
    conversations: Mutex<ConversationMemory>,
    metrics: Arc<Metrics>,
}

/// Counts what runs keep of their requests.
#[derive(Default)]
struct ConversationMemory {
    total: usize,
    callers: HashMap<ReplayKey, usize>,
}

/// The memory of one run, returned when dropped.
pub(super) struct RunMemoryShare {
    total: Arc<RunMemory>,
    caller: ReplayKey,
    /// part of `counted`
    reserved: usize,
    counted: usize,
    exceeds: bool,
}

/// All runs together hold too much for this one to hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunMemoryFull;

impl RunMemory {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<RunMemory> {
        Arc::new(RunMemory {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            is_exceeded_by_one: AtomicBool::new(false),
            returned: Notify::new(),
            conversations: Mutex::default(),
            metrics,
        })
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.returned.notify_waiters();
    }

    pub(super) fn start_run(self: &Arc<Self>, caller: ReplayKey) -> RunMemoryShare {
        RunMemoryShare { total: Arc::clone(self), caller, reserved: 0, counted: 0, exceeds: false }
    }
}

impl RunMemoryShare {
    /// Counts what the run keeps of its request till its end. Only a run that has not started may reserve, once.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), Rejection> {
        if bytes <= UNCOUNTED {
            return Ok(());
        }
        let total = Arc::clone(&self.total);
        let limit = total.limit.load(Ordering::Relaxed);
        let mut conversations = total.conversations.lock();
        // A run alone may take what others do not use.
        let is_over = conversations.total > 0 && conversations.total + bytes > limit / CONVERSATION_SHARE;
        if is_over || total.used.load(Ordering::Relaxed) + bytes > limit {
            return Err(RejectionKind::RunMemoryFull.into());
        }
        let callers_bytes = conversations.callers.get(&self.caller).copied().unwrap_or_default();
        if callers_bytes > 0 && callers_bytes + bytes > limit / CALLER_SHARE {
            let detail = "The conversations of this caller's runs take all the memory that one caller may use.";
            return Err(Rejection::from(RejectionKind::RunMemoryFull).with_detail(detail));
        }
        conversations.callers.insert(self.caller, callers_bytes + bytes);
        conversations.total += bytes;
        self.reserved = bytes;
        self.resize(bytes);
        Ok(())
    }

    fn return_reserved(&mut self) {
        if self.reserved == 0 {
            return;
        }
        let mut conversations = self.total.conversations.lock();
        conversations.total -= self.reserved;
        if let Some(callers_bytes) = conversations.callers.get_mut(&self.caller) {
            *callers_bytes -= self.reserved;
            if *callers_bytes == 0 {
                conversations.callers.remove(&self.caller);
            }
        }
    }

    /// Counts a run that now holds `bytes`.
    pub(super) fn resize(&mut self, bytes: usize) {
        let counted = if bytes > UNCOUNTED { bytes } else { 0 };
        if counted == self.counted {
            return;
        }
        let RunMemory { used, is_exceeded_by_one, returned, metrics, .. } = &*self.total;
        let more = counted.saturating_sub(self.counted);
        let less = self.counted.saturating_sub(counted);
        let before =
            if more > 0 { used.fetch_add(more, Ordering::Relaxed) } else { used.fetch_sub(less, Ordering::Relaxed) };
        metrics.process.run_memory.set_count(before + more - less);
        if counted < self.counted {
            if std::mem::take(&mut self.exceeds) {
                is_exceeded_by_one.store(false, Ordering::Release);
            }
            returned.notify_waiters();
        }
        self.counted = counted;
    }

    /// Returns whether the run may read on; if it is the only one beyond the limit, it takes the exemption.
    pub(super) fn try_grow(&mut self) -> bool {
        let RunMemory { used, limit, is_exceeded_by_one, .. } = &*self.total;
        if self.counted == 0 || self.exceeds || used.load(Ordering::Relaxed) <= limit.load(Ordering::Relaxed) {
            return true;
        }
        self.exceeds = !is_exceeded_by_one.swap(true, Ordering::AcqRel);
        self.exceeds
    }

    /// Waits until the run may read on.
    pub(super) async fn wait_for_room(&mut self) -> Result<(), RunMemoryFull> {
        let total = Arc::clone(&self.total);
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

impl Drop for RunMemoryShare {
    fn drop(&mut self) {
        self.return_reserved();
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;

    const ADA: ReplayKey = [1; 32];
    const BOB: ReplayKey = [2; 32];
    const EVE: ReplayKey = [3; 32];

    #[tokio::test(start_paused = true)]
    async fn one_run_reads_on_while_others_wait_for_its_memory() {
        let memory = RunMemory::new(4 * UNCOUNTED, Arc::new(Metrics::new().expect("unique names")));
        let (mut large, mut other, mut small) = (memory.start_run(ADA), memory.start_run(ADA), memory.start_run(ADA));
        large.resize(3 * UNCOUNTED);
        assert!(large.try_grow());
        other.resize(2 * UNCOUNTED);
        small.resize(UNCOUNTED);
        assert_eq!(memory.used.load(Ordering::Relaxed), 5 * UNCOUNTED);
        assert!(small.try_grow() && large.try_grow() && !other.try_grow());
        let mut waiting = Box::pin(other.wait_for_room());
        assert!(poll!(&mut waiting).is_pending());
        large.resize(UNCOUNTED);
        assert_eq!(waiting.await, Ok(()));
        large.resize(3 * UNCOUNTED);
        assert!(other.try_grow() && large.try_grow() != other.exceeds);
        drop((large, other, small));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn ends_a_run_that_waits_in_vain() {
        let memory = RunMemory::new(UNCOUNTED, Arc::new(Metrics::new().expect("unique names")));
        let (mut first, mut second) = (memory.start_run(ADA), memory.start_run(ADA));
        first.resize(2 * UNCOUNTED);
        assert!(first.try_grow());
        second.resize(2 * UNCOUNTED);
        assert_eq!(second.wait_for_room().await, Err(RunMemoryFull));
        drop(first);
        assert!(second.try_grow());
    }

    #[tokio::test]
    async fn conversations_leave_room_for_other_callers_and_for_reading() {
        let memory = RunMemory::new(16 * UNCOUNTED, Arc::new(Metrics::new().expect("unique names")));
        let reserve = |caller, parts: usize| {
            let mut share = memory.start_run(caller);
            share.reserve(parts * UNCOUNTED).map(|()| share).map_err(|rejection| rejection.kind)
        };
        let alone = reserve(ADA, 15).expect("room");
        assert_eq!(reserve(BOB, 2).err(), Some(RejectionKind::RunMemoryFull));
        drop(alone);
        let mut ada = vec![reserve(ADA, 2).expect("room"), reserve(ADA, 2).expect("room")];
        assert_eq!(reserve(ADA, 2).err(), Some(RejectionKind::RunMemoryFull));
        assert!(reserve(ADA, 1).is_ok(), "short ones are free");
        let bob = reserve(BOB, 4).expect("room");
        assert_eq!(reserve(EVE, 2).err(), Some(RejectionKind::RunMemoryFull));
        assert!(ada[0].try_grow());
        drop(bob);
        let mut reading = memory.start_run(EVE);
        reading.resize(11 * UNCOUNTED);
        assert_eq!(reserve(BOB, 2).err(), Some(RejectionKind::RunMemoryFull));
        // Reading counts with what is reserved.
        ada[0].resize(3 * UNCOUNTED);
        assert_eq!(memory.used.load(Ordering::Relaxed), 16 * UNCOUNTED);
        drop((ada, reading));
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
        let conversations = memory.conversations.lock();
        assert!(conversations.total == 0 && conversations.callers.is_empty());
    }
}
