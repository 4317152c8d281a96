//! The end of a log that is written to. Whoever has it feeds the log: a run, or what follows one elsewhere.

use super::reader_slot::{ReaderSlot, StallWatch};
use super::{LogBase, LogPhase, LogState, RunLog, wake};
use crate::replay::store::StoreSlot;
use crate::telemetry::label::EvictionReason;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why there is nothing more to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStopReason {
    /// nobody has listened for as long as the run goes on alone
    Abandoned,
    /// somebody stopped it
    Stopped,
}

/// The one writer of a log. Dropped, it ends the log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    log: Arc<RunLog>,
    /// where the log is kept, if it is
    slot: Option<StoreSlot>,
}

impl LogWriter {
    pub(in crate::replay) fn new(log: Arc<RunLog>, slot: Option<StoreSlot>) -> LogWriter {
        LogWriter { log, slot }
    }

    /// The log, for whoever wants to read it.
    #[must_use]
    pub(crate) fn log(&self) -> &Arc<RunLog> {
        &self.log
    }

    /// Hands all of `frames` over, of which the last has this number, and leaves it empty; waits while every reader is far
    /// behind.
    ///
    /// # Errors
    /// Nobody listens any more, or somebody stopped the run. What was not handed over is still there.
    pub(crate) async fn write(&self, frames: &mut Vec<u8>, last: u64) -> Result<(), LogStopReason> {
        std::future::poll_fn(|cx| self.poll_write(frames, last, cx)).await
    }

    fn poll_write(&self, frames: &mut Vec<u8>, last: u64, cx: &mut Context<'_>) -> Poll<Result<(), LogStopReason>> {
        let mut state = self.log.state();
        if let Some(lost) = state.stop_reason(&self.log) {
            return Poll::Ready(Err(lost));
        }
        if frames.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.min_backlog().is_some_and(|behind| behind >= self.log.limits.max_backlog) {
            state.write_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.push(frames, last);
        Poll::Ready(Ok(()))
    }

    /// Hands the last words over however far behind readers are, and leaves `frames` empty: there will be no time to wait.
    pub(crate) fn push(&self, frames: &mut Vec<u8>, last: u64) {
        let mut state = self.log.state();
        if matches!(state.phase, LogPhase::Finished | LogPhase::Cut) || frames.is_empty() {
            frames.clear();
            return;
        }
        state.append(frames, last);
        // A large batch does not stay; what is kept of it is in the log.
        frames.clear();
        frames.shrink_to(0);
        let over = state.retained_bytes() > self.log.limits.max_bytes;
        let (wakers, held) = (state.take_wakers(), state.retained_bytes());
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.changed.notify_waiters();
        if over {
            self.trim();
        } else {
            self.record_bytes(held);
        }
    }

    /// Sums up the oldest frames, so far that it need not be done again at once.
    fn trim(&self) {
        let mut base = self.log.base();
        let mut state = self.log.state();
        let bound = self.log.limits.max_bytes / 4 * 3;
        let trimmed = state.trim(bound, matches!(*base, LogBase::Discarded));
        let start = state.start_offset();
        let cut_off = state.remove_readers(|seat| seat.offset < start);
        drop(state);
        wake_removed(cut_off);
        let mut held = 0;
        if let LogBase::Recap(recap) = &mut *base {
            trimmed.iter().for_each(|chunk| recap.push(&chunk.bytes));
            held = recap.byte_size();
            if held > self.log.limits.max_bytes {
                (*base, held) = (LogBase::Discarded, 0);
                self.record_discarded(EvictionReason::RunBytes);
            }
        }
        let mut state = self.log.state();
        state.base_bytes = held;
        let held = state.retained_bytes();
        drop(state);
        drop(base);
        self.record_bytes(held);
    }

    /// Says what is kept now, and gives up what finds no room among all.
    fn record_bytes(&self, bytes: usize) {
        if self.slot.as_ref().is_none_or(|place| place.record_bytes(bytes)) {
            return;
        }
        let mut base = self.log.base();
        if matches!(*base, LogBase::Discarded) {
            return;
        }
        *base = LogBase::Discarded;
        self.record_discarded(EvictionReason::Bytes);
        let mut state = self.log.state();
        state.base_bytes = 0;
        drop(state.trim(self.log.limits.max_bytes, true));
        let held = state.retained_bytes();
        drop(state);
        drop(base);
        if let Some(place) = &self.slot {
            place.record_bytes(held);
        }
    }

    fn record_discarded(&self, why: EvictionReason) {
        if let Some(place) = &self.slot {
            place.record_discarded(why);
        }
    }

    /// Waits until nobody has listened for as long as the run goes on alone, or somebody stops it.
    pub(crate) async fn wait_for_stop(&self) -> LogStopReason {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        std::future::poll_fn(|cx| {
            let mut state = self.log.state();
            if let Some(lost) = state.stop_reason(&self.log) {
                return Poll::Ready(lost);
            }
            state.stop_waker = Some(cx.waker().clone());
            if !state.readers.is_empty() {
                timer = None;
                return Poll::Pending;
            }
            let until = state.unread_since + self.log.limits.abandon_after;
            drop(state);
            // Boxed, because runs are many and those that nobody listens to are few.
            let sleep = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            sleep.as_mut().poll(cx).map(|()| LogStopReason::Abandoned)
        })
        .await
    }

    /// A comment is due for readers who have nothing to read. It is no frame, and is not kept.
    pub(crate) fn send_comment(&self) {
        let mut state = self.log.state();
        let head = state.end_offset;
        let idle = |seat: &&mut ReaderSlot| seat.offset == head && seat.prelude.is_empty();
        let mut wakers = Vec::new();
        for seat in state.readers.iter_mut().filter(idle) {
            seat.comment_due = true;
            wakers.push(seat.waker.take());
        }
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// Gives up readers that have taken nothing for long while something waited for them.
    pub(crate) fn remove_stalled(&self) {
        self.log.remove_stalled();
    }

    /// Gives them up as their time comes: never returns.
    pub(crate) async fn remove_stalled_loop(&self) {
        loop {
            let patience = self.log.state().next_stall(self.log.limits.stall_timeout);
            let until = patience.unwrap_or_else(|| Instant::now() + self.log.limits.stall_timeout);
            // Boxed, because runs are many and those that wait for a reader are few.
            Box::pin(sleep_until(until)).await;
            self.log.remove_stalled();
        }
    }

    /// The last word was said. Readers get what they have not read; the log is kept for those who come back.
    pub(crate) fn finish(mut self) {
        self.close(LogPhase::Finished);
        if let Some(place) = self.slot.take() {
            place.mark_ended();
        }
    }

    /// Ends the bodies of all readers with an error, at once. Nothing is kept.
    pub(crate) fn cut(&mut self) {
        self.close(LogPhase::Cut);
        self.forget();
    }

    /// The run came to nothing: nobody who comes from now on finds it. Those who listen do so until its end.
    pub(crate) fn forget(&mut self) {
        if let Some(place) = self.slot.take() {
            place.remove();
        }
    }

    fn close(&mut self, end: LogPhase) {
        let mut state = self.log.state();
        if matches!(state.phase, LogPhase::Open | LogPhase::Stopping) {
            state.phase = end;
        }
        let wakers = state.take_wakers();
        let watched = state.readers.iter().any(|seat| seat.stall_watch != StallWatch::Connection);
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.changed.notify_waiters();
        if watched {
            self.log.drain_readers();
        }
    }
}

/// A run that ends says so before; one that is dropped without was torn down, and what came of it is not the whole.
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
        let alone = self.readers.is_empty() && self.unread_since.elapsed() >= log.limits.abandon_after;
        alone.then_some(LogStopReason::Abandoned)
    }

    /// Who waits for something to read.
    fn take_wakers(&mut self) -> Vec<Option<std::task::Waker>> {
        self.readers.iter_mut().map(|seat| seat.waker.take()).collect()
    }
}

impl RunLog {
    /// Gives up readers that have taken nothing for long while something waited for them.
    fn remove_stalled(&self) {
        let mut state = self.state();
        let _ = state.next_stall(self.limits.stall_timeout);
        let now = Instant::now();
        let over = |seat: &ReaderSlot| matches!(seat.stall_watch, StallWatch::Waiting(since) if now >= since + self.limits.stall_timeout);
        let over = state.remove_readers(over);
        let wakers = if over.is_empty() { [None, None] } else { [state.stop_waker.take(), state.write_waker.take()] };
        drop(state);
        wake_removed(over);
        wakers.into_iter().for_each(wake);
    }

    /// Sees to it that the readers of a run that has ended take what is left, or go.
    pub(super) fn drain_readers(self: &Arc<Self>) {
        // Outside of a runtime, at the very end of the process, nobody reads any more.
        let Ok(runtime) = Handle::try_current() else { return };
        let log = Arc::clone(self);
        runtime.spawn(async move {
            loop {
                let Some(until) = log.state().next_stall(log.limits.stall_timeout) else { return };
                sleep_until(until).await;
                log.remove_stalled();
            }
        });
    }
}

/// Tells readers that were taken away. What they held is let go.
fn wake_removed(seats: Vec<ReaderSlot>) {
    for mut seat in seats {
        wake(seat.waker.take());
    }
}
