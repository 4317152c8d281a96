//! Writes a run's log, or a copy of another replica's log.

use super::reader_slot::{ReaderSlot, StallWatch};
use super::{LogBase, LogChunk, LogPhase, LogState, RunLog, wake};
use crate::net::cpu_work::run_sized;
use crate::telemetry::label::EvictionReason;
use crate::translate::recap::Recap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes of one write without a large event, or more.
const ORDINARY_WRITE: usize = 64 << 10;

/// The reason why writing must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStopReason {
    /// there was no reader for `abandon_after`
    Abandoned,
    Stopped,
}

pub(in crate::replay) trait LogRetention: Send + Sync {
    /// Evicts an ended run to free memory. Returns `false` if there is none.
    fn evict_ended(&self) -> bool;

    /// Counts an open run whose log was discarded.
    fn record_discarded(&self, why: EvictionReason);

    /// Removes the run without counting an eviction.
    fn remove(&self);

    fn mark_ended(&self);
}

pub(crate) struct LogWriter {
    pub(crate) log: Arc<RunLog>,
    slot: Option<Box<dyn LogRetention>>,
}

impl LogWriter {
    pub(in crate::replay) fn new(log: Arc<RunLog>, slot: Option<Box<dyn LogRetention>>) -> LogWriter {
        LogWriter { log, slot }
    }

    /// Appends `frames`, the last of which has number `last`, and clears the buffer. Waits while all readers are far
    /// behind.
    pub(crate) async fn write(&self, frames: &mut Vec<u8>, last: u64) -> Result<(), LogStopReason> {
        std::future::poll_fn(|cx| self.poll_write(frames, last, cx)).await
    }

    fn poll_write(&self, frames: &mut Vec<u8>, last: u64, cx: &mut Context<'_>) -> Poll<Result<(), LogStopReason>> {
        let mut state = self.log.state.lock();
        if let Some(reason) = state.stop_reason(&self.log) {
            return Poll::Ready(Err(reason));
        }
        if frames.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.min_backlog().is_some_and(|backlog| backlog >= self.log.limits.max_backlog) {
            state.write_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.push(frames, last);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn push(&self, frames: &mut Vec<u8>, last: u64) {
        let mut state = self.log.state.lock();
        if matches!(state.phase, LogPhase::Finished | LogPhase::Cut) || frames.is_empty() {
            frames.clear();
            return;
        }
        state.append(frames, last);
        // Frees the memory of a large batch: the log has its own copy.
        frames.clear();
        frames.shrink_to(0);
        let is_discarded = state.is_discarded;
        let over = state.retained_bytes() > self.log.limits.max_bytes;
        let fits = state.recount(self.log.total.as_deref());
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.changed.notify_waiters();
        if is_discarded {
            self.fold(self.log.limits.max_backlog);
        } else if over {
            // Three quarters, so that not every event causes a fold.
            self.fold(self.log.limits.max_bytes / 4 * 3);
        }
        if !fits {
            self.make_room();
        }
    }

    /// Folds the oldest frames until the log has at most `bound` bytes.
    fn fold(&self, bound: usize) {
        let mut base = self.log.base.lock();
        let mut state = self.log.state.lock();
        let trimmed = state.trim(bound);
        let start = state.start_offset();
        // Not the fastest one: the run has a reader as before, and need not look for another reason to stop.
        let cut_off = state.remove_readers(|slot| slot.offset < start);
        state.recount(self.log.total.as_deref());
        drop(state);
        wake_removed(cut_off);
        let LogBase::Recap(recap) = &mut *base else { return };
        if trimmed.is_empty() {
            return;
        }
        let size: usize = trimmed.iter().map(|chunk| chunk.bytes.len()).sum();
        let folded = run_sized(size, || fold_within(recap, trimmed, self.log.limits.max_bytes));
        let mut state = self.log.state.lock();
        let cut_off = match folded {
            Ok(base_bytes) => {
                state.base_bytes = base_bytes;
                Vec::new()
            }
            Err(RecapTooLarge) => self.log.discard(&mut base, &mut state),
        };
        state.recount(self.log.total.as_deref());
        drop(state);
        drop(base);
        wake_removed(cut_off);
        if folded.is_err() {
            self.record_discarded(EvictionReason::RunBytes);
        }
    }

    /// Makes the log fit into the memory of all runs: evicts ended runs, folds what the fastest reader has read, and at
    /// last discards the log.
    fn make_room(&self) {
        let mut is_folded = false;
        while !self.log.recount() {
            if self.slot.as_ref().is_some_and(|slot| slot.evict_ended()) {
                continue;
            }
            if !is_folded {
                is_folded = true;
                self.fold(0);
                continue;
            }
            let mut base = self.log.base.lock();
            let mut state = self.log.state.lock();
            let cut_off = self.log.discard(&mut base, &mut state);
            drop(state);
            drop(base);
            wake_removed(cut_off);
            return self.record_discarded(EvictionReason::Bytes);
        }
    }

    fn record_discarded(&self, why: EvictionReason) {
        if let Some(slot) = &self.slot {
            slot.record_discarded(why);
        }
    }

    pub(crate) async fn wait_for_stop(&self) -> LogStopReason {
        let mut timer = None;
        std::future::poll_fn(|cx| self.poll_stop(&mut timer, cx)).await
    }

    /// Returns the reason to stop, without waiting for one.
    pub(crate) fn find_stop(&self) -> Option<LogStopReason> {
        self.log.state.lock().stop_reason(&self.log)
    }

    /// Waits with `timer`, which is set only while there is no reader.
    pub(crate) fn poll_stop(&self, timer: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<LogStopReason> {
        let mut state = self.log.state.lock();
        if let Some(reason) = state.stop_reason(&self.log) {
            return Poll::Ready(reason);
        }
        state.stop_waker = Some(cx.waker().clone());
        if !state.readers.is_empty() {
            *timer = None;
            return Poll::Pending;
        }
        let until = state.unread_since + self.log.limits.abandon_after;
        drop(state);
        // Boxed, since runs are rarely without a reader.
        let sleep = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx).map(|()| LogStopReason::Abandoned)
    }

    /// Sends a keep-alive comment to idle readers.
    pub(crate) fn send_comment(&self) {
        let mut state = self.log.state.lock();
        let head = state.end_offset;
        let mut wakers = Vec::new();
        for slot in state.readers.iter_mut().filter(|slot| slot.offset == head && slot.recap.is_empty()) {
            slot.comment_due = true;
            wakers.push(slot.waker.take());
        }
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// Removes stalled readers; never returns.
    pub(crate) async fn remove_stalled_loop(&self) {
        loop {
            let next_stall = self.log.state.lock().next_stall(self.log.limits.stall_timeout);
            let until = next_stall.unwrap_or_else(|| Instant::now() + self.log.limits.stall_timeout);
            // Boxed, since runs rarely wait for a reader.
            Box::pin(sleep_until(until)).await;
            self.log.remove_stalled();
        }
    }

    /// Ends the log after its final event and keeps it in the store.
    pub(crate) fn finish(mut self) {
        self.close(LogPhase::Finished);
        if let Some(slot) = self.slot.take() {
            slot.mark_ended();
        }
    }

    pub(crate) fn cut(&mut self) {
        self.close(LogPhase::Cut);
        self.forget();
    }

    /// Removes the log from the store. Current readers can still read to the end.
    pub(crate) fn forget(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.remove();
        }
    }

    fn close(&mut self, end: LogPhase) {
        let mut state = self.log.state.lock();
        if matches!(state.phase, LogPhase::Open | LogPhase::Stopping) {
            state.phase = end;
        }
        if let Some(last) = state.chunks.back_mut() {
            last.bytes.shrink_to_fit();
        }
        state.recount(self.log.total.as_deref());
        let wakers = state.take_wakers();
        let watched = state.readers.iter().any(|slot| slot.stall_watch != StallWatch::Connection);
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.changed.notify_waiters();
        if watched {
            self.log.drain_readers();
        }
    }
}

/// Cuts an unfinished log, since its events are incomplete.
impl Drop for LogWriter {
    fn drop(&mut self) {
        if self.log.is_open() {
            self.cut();
        }
    }
}

impl LogState {
    fn stop_reason(&self, log: &RunLog) -> Option<LogStopReason> {
        if self.phase == LogPhase::Stopping {
            return Some(LogStopReason::Stopped);
        }
        let abandoned = self.readers.is_empty() && self.unread_since.elapsed() >= log.limits.abandon_after;
        abandoned.then_some(LogStopReason::Abandoned)
    }

    fn take_wakers(&mut self) -> Vec<Option<std::task::Waker>> {
        self.readers.iter_mut().map(|slot| slot.waker.take()).collect()
    }
}

impl RunLog {
    pub(crate) fn remove_stalled(&self) {
        let mut state = self.state.lock();
        let _ = state.next_stall(self.limits.stall_timeout);
        let now = Instant::now();
        let stalled = state.remove_readers(
            |slot| matches!(slot.stall_watch, StallWatch::Waiting(since) if now >= since + self.limits.stall_timeout),
        );
        let wakers =
            if stalled.is_empty() { [None, None] } else { [state.stop_waker.take(), state.write_waker.take()] };
        drop(state);
        wake_removed(stalled);
        wakers.into_iter().for_each(wake);
    }

    pub(super) fn drain_readers(self: &Arc<Self>) {
        // Without a runtime the process is exiting, and there are no readers.
        let Ok(runtime) = Handle::try_current() else { return };
        // Readers keep the log. This task must not: its next check is a whole timeout away when they leave.
        let log = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                let next = log.upgrade().and_then(|log| log.state.lock().next_stall(log.limits.stall_timeout));
                let Some(until) = next else { return };
                sleep_until(until).await;
                log.upgrade().iter().for_each(|log| log.remove_stalled());
            }
        });
    }
}

/// The state of the run exceeds what is kept of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecapTooLarge;

/// Folds chunks, and returns the size of the recap. Stops as soon as the recap is too large, since a few chunks of tiny
/// messages can take many times their size.
fn fold_within(recap: &mut Recap, chunks: Vec<LogChunk>, max_bytes: usize) -> Result<usize, RecapTooLarge> {
    // A larger write is a large event, of which the recap would keep as much.
    if chunks.iter().any(|chunk| chunk.bytes.len() > max_bytes.max(ORDINARY_WRITE)) {
        return Err(RecapTooLarge);
    }
    let mut unchecked = 0;
    for chunk in chunks {
        recap.push(&chunk.bytes);
        unchecked += chunk.bytes.len();
        // Not after each chunk: counting takes longer the more is kept.
        if unchecked > max_bytes / 8 {
            unchecked = 0;
            if recap.byte_size() > max_bytes {
                return Err(RecapTooLarge);
            }
        }
    }
    let recap_bytes = recap.byte_size();
    if recap_bytes > max_bytes { Err(RecapTooLarge) } else { Ok(recap_bytes) }
}

/// Wakes removed readers and frees their resources.
fn wake_removed(slots: Vec<ReaderSlot>) {
    slots.into_iter().for_each(|slot| wake(slot.waker));
}
