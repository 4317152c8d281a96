//! The end of a log that is written to. Whoever has it feeds the log: a run, or what follows one elsewhere.

use super::seat::{Seat, Watch};
use super::{Base, End, Log, State, wake};
use crate::replay::store::Place;
use crate::telemetry::label::Eviction;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why there is nothing more to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// nobody has listened for as long as the run goes on alone
    Gone,
    /// somebody stopped it
    Stopped,
}

/// The one writer of a log. Dropped, it ends the log.
#[derive(Debug)]
pub struct Writer {
    log: Arc<Log>,
    /// where the log is kept, if it is
    place: Option<Place>,
}

impl Writer {
    pub(in crate::replay) fn new(log: Arc<Log>, place: Option<Place>) -> Writer {
        Writer { log, place }
    }

    /// The log, for whoever wants to read it.
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Hands all of `frames` over, of which the last has this number, and leaves it empty; waits while every reader is far
    /// behind.
    ///
    /// # Errors
    /// Nobody listens any more, or somebody stopped the run. What was not handed over is still there.
    pub async fn write(&self, frames: &mut Vec<u8>, last: u64) -> Result<(), Lost> {
        std::future::poll_fn(|cx| self.poll_write(frames, last, cx)).await
    }

    fn poll_write(&self, frames: &mut Vec<u8>, last: u64, cx: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        let mut state = self.log.state();
        if let Some(lost) = state.lost(&self.log) {
            return Poll::Ready(Err(lost));
        }
        if frames.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.backlog().is_some_and(|behind| behind >= self.log.pace.backlog) {
            state.room = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.push(frames, last);
        Poll::Ready(Ok(()))
    }

    /// Hands the last words over however far behind readers are, and leaves `frames` empty: there will be no time to wait.
    pub fn push(&self, frames: &mut Vec<u8>, last: u64) {
        let mut state = self.log.state();
        if matches!(state.end, End::Finished | End::Cut) || frames.is_empty() {
            frames.clear();
            return;
        }
        state.append(frames, last);
        // A large batch does not stay; what is kept of it is in the log.
        frames.clear();
        frames.shrink_to(0);
        let over = state.held() > self.log.pace.bytes;
        let (wakers, held) = (state.readers(), state.held());
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.news.notify_waiters();
        if over {
            self.trim();
        } else {
            self.count(held);
        }
    }

    /// Sums up the oldest frames, so far that it need not be done again at once.
    fn trim(&self) {
        let mut base = self.log.base();
        let mut state = self.log.state();
        let bound = self.log.pace.bytes / 4 * 3;
        let trimmed = state.trim(bound, matches!(*base, Base::GivenUp));
        let start = state.start();
        let cut_off = state.dismiss(|seat| seat.at < start);
        drop(state);
        leave(cut_off);
        let mut held = 0;
        if let Base::Sum(recap) = &mut *base {
            trimmed.iter().for_each(|chunk| recap.push(&chunk.bytes));
            held = recap.held();
            if held > self.log.pace.bytes {
                (*base, held) = (Base::GivenUp, 0);
                self.evicted(Eviction::RunBytes);
            }
        }
        let mut state = self.log.state();
        state.base = held;
        let held = state.held();
        drop(state);
        drop(base);
        self.count(held);
    }

    /// Says what is kept now, and gives up what finds no room among all.
    fn count(&self, held: usize) {
        if self.place.as_ref().is_none_or(|place| place.count(held)) {
            return;
        }
        let mut base = self.log.base();
        if matches!(*base, Base::GivenUp) {
            return;
        }
        *base = Base::GivenUp;
        self.evicted(Eviction::Bytes);
        let mut state = self.log.state();
        state.base = 0;
        drop(state.trim(self.log.pace.bytes, true));
        let held = state.held();
        drop(state);
        drop(base);
        if let Some(place) = &self.place {
            place.count(held);
        }
    }

    fn evicted(&self, why: Eviction) {
        if let Some(place) = &self.place {
            place.gave_up(why);
        }
    }

    /// Waits until nobody has listened for as long as the run goes on alone, or somebody stops it.
    pub async fn gone(&self) -> Lost {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        std::future::poll_fn(|cx| {
            let mut state = self.log.state();
            if let Some(lost) = state.lost(&self.log) {
                return Poll::Ready(lost);
            }
            state.gone = Some(cx.waker().clone());
            if !state.seats.is_empty() {
                timer = None;
                return Poll::Pending;
            }
            let until = state.alone + self.log.pace.alone;
            drop(state);
            // Boxed, because runs are many and those that nobody listens to are few.
            let sleep = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            sleep.as_mut().poll(cx).map(|()| Lost::Gone)
        })
        .await
    }

    /// A comment is due for readers who have nothing to read. It is no frame, and is not kept.
    pub fn comment(&self) {
        let mut state = self.log.state();
        let head = state.head;
        let idle = |seat: &&mut Seat| seat.at == head && seat.prelude.is_empty();
        let mut wakers = Vec::new();
        for seat in state.seats.iter_mut().filter(idle) {
            seat.comment = true;
            wakers.push(seat.waker.take());
        }
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    /// Gives up readers that have taken nothing for long while something waited for them.
    pub fn check(&self) {
        self.log.give_up();
    }

    /// Gives them up as their time comes: never returns.
    pub async fn stalled(&self) {
        loop {
            let patience = self.log.state().patience(self.log.pace.patience);
            let until = patience.unwrap_or_else(|| Instant::now() + self.log.pace.patience);
            // Boxed, because runs are many and those that wait for a reader are few.
            Box::pin(sleep_until(until)).await;
            self.log.give_up();
        }
    }

    /// The last word was said. Readers get what they have not read; the log is kept for those who come back.
    pub fn finish(mut self) {
        self.end(End::Finished);
        if let Some(place) = self.place.take() {
            place.ended();
        }
    }

    /// Ends the bodies of all readers with an error, at once. Nothing is kept.
    pub fn cut(&mut self) {
        self.end(End::Cut);
        self.forget();
    }

    /// The run came to nothing: nobody who comes from now on finds it. Those who listen do so until its end.
    pub fn forget(&mut self) {
        if let Some(place) = self.place.take() {
            place.forget();
        }
    }

    fn end(&mut self, end: End) {
        let mut state = self.log.state();
        if matches!(state.end, End::Open | End::Stopping) {
            state.end = end;
        }
        let wakers = state.readers();
        let watched = state.seats.iter().any(|seat| seat.watch != Watch::Connection);
        drop(state);
        wakers.into_iter().for_each(wake);
        self.log.news.notify_waiters();
        if watched {
            self.log.see_off();
        }
    }
}

/// A run that ends says so before; one that is dropped without was torn down, and what came of it is not the whole.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.log.is_open() {
            self.cut();
        }
    }
}

impl State {
    fn lost(&self, log: &Log) -> Option<Lost> {
        if self.end == End::Stopping {
            return Some(Lost::Stopped);
        }
        let alone = self.seats.is_empty() && self.alone.elapsed() >= log.pace.alone;
        alone.then_some(Lost::Gone)
    }

    /// Who waits for something to read.
    fn readers(&mut self) -> Vec<Option<std::task::Waker>> {
        self.seats.iter_mut().map(|seat| seat.waker.take()).collect()
    }
}

impl Log {
    /// Gives up readers that have taken nothing for long while something waited for them.
    fn give_up(&self) {
        let mut state = self.state();
        let _ = state.patience(self.pace.patience);
        let now = Instant::now();
        let over = |seat: &Seat| matches!(seat.watch, Watch::Waiting(since) if now >= since + self.pace.patience);
        let over = state.dismiss(over);
        let wakers = if over.is_empty() { [None, None] } else { [state.gone.take(), state.room.take()] };
        drop(state);
        leave(over);
        wakers.into_iter().for_each(wake);
    }

    /// Sees to it that the readers of a run that has ended take what is left, or go.
    pub(super) fn see_off(self: &Arc<Self>) {
        // Outside of a runtime, at the very end of the process, nobody reads any more.
        let Ok(runtime) = Handle::try_current() else { return };
        let log = Arc::clone(self);
        runtime.spawn(async move {
            loop {
                let Some(until) = log.state().patience(log.pace.patience) else { return };
                sleep_until(until).await;
                log.give_up();
            }
        });
    }
}

/// Tells readers that were taken away. What they held is let go.
fn leave(seats: Vec<Seat>) {
    for mut seat in seats {
        wake(seat.waker.take());
    }
}
