//! Coming to a log, and reading it.

use super::seat::{Held, Seat, Watch};
use super::{Base, End, Log, READERS, State, wake};
use crate::codec::sse;
use crate::replay::{Cursor, Token};
use crate::translate::recap::Recap;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much of preludes may wait for the readers of one run, in times of what is kept of it.
const PRELUDES: usize = 2;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// with everything, where it is still there; else with the prelude, at this time
    Start(i64),
    /// behind the event that it heard last
    Cursor(Cursor),
    /// with a prelude that says what the run has said so far, at this time, in ms since the epoch
    Prelude(i64),
}

/// Why somebody cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjoined {
    /// the cursor is of another run, behind what is kept, or ahead of what was said
    Cursor,
    /// as many read as may
    Full,
    /// the run was too large to be kept
    GivenUp,
}

/// One reader. Dropped, it has left.
#[derive(Debug)]
pub struct Reader {
    log: Arc<Log>,
    number: u64,
}

/// The reader was cut off: it is too slow, or the run was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff;

impl Log {
    /// Whether anybody has read it.
    #[must_use]
    pub fn was_read(&self) -> bool {
        self.state().seated > 0
    }

    /// Comes to the log. `watched` where nobody else sees whether the reader takes something; `held` is let go when it leaves.
    ///
    /// Making a prelude takes some milliseconds for each MiB that is kept.
    ///
    /// # Errors
    /// Why it cannot join.
    pub fn join(self: &Arc<Self>, from: From, watched: bool, held: impl Held + 'static) -> Result<Reader, Unjoined> {
        let base = self.base();
        let Base::Sum(recap) = &*base else { return Err(Unjoined::GivenUp) };
        let mut state = self.state();
        if state.seats.len() >= READERS {
            return Err(Unjoined::Full);
        }
        let at = match from {
            From::Cursor(cursor) if cursor.token != self.token => return Err(Unjoined::Cursor),
            From::Cursor(cursor) => Some(state.behind(cursor.number).ok_or(Unjoined::Cursor)?),
            From::Start(_) | From::Prelude(_) if state.last == 0 => Some(0),
            From::Start(_) => state.behind(0),
            From::Prelude(_) => None,
        };
        // Preludes that nobody takes are not for free.
        let waiting: usize = state.seats.iter().map(|seat| seat.prelude.len()).sum();
        if at.is_none() && waiting > PRELUDES * self.pace.bytes {
            return Err(Unjoined::Full);
        }
        let sum = at.is_none().then(|| Sum::of(recap, &state));
        let now = if let From::Start(now) | From::Prelude(now) = from { now } else { 0 };
        let number = state.sit(at, watched, Box::new(held));
        let ended = matches!(state.end, End::Finished | End::Cut);
        drop(state);
        drop(base);
        let reader = Reader { log: Arc::clone(self), number };
        if let Some(sum) = sum {
            // Folded beside the locks: the run goes on meanwhile, and the reader's place is behind what is folded.
            let prelude = sum.prelude(self.token, now);
            if let Some(seat) = self.state().seat(number) {
                seat.prelude = prelude.into();
            }
        }
        if ended && watched {
            self.see_off();
        }
        Ok(reader)
    }
}

/// What a run has said so far, on its way to a prelude.
struct Sum {
    recap: Box<Recap>,
    frames: Vec<u8>,
    last: u64,
}

impl Sum {
    fn of(recap: &Recap, state: &State) -> Sum {
        Sum { recap: Box::new(recap.clone()), frames: state.copy(state.start(), usize::MAX), last: state.last }
    }

    fn prelude(mut self, token: Token, now: i64) -> Vec<u8> {
        self.recap.push(&self.frames);
        let mut out = Vec::new();
        self.recap.prelude(now, Some(&Cursor { token, number: self.last }.to_string()), &mut out);
        // Of a run that has not begun, or failed before it did, there is nothing to sum up.
        if out.is_empty() { self.frames } else { out }
    }
}

impl State {
    /// A reader's place, at the head where none is said.
    fn sit(&mut self, at: Option<u64>, watched: bool, held: Box<dyn Held>) -> u64 {
        self.seated += 1;
        // Most runs have one reader.
        self.seats.reserve_exact(1);
        self.seats.push(Seat {
            number: self.seated,
            at: at.unwrap_or(self.head),
            prelude: Bytes::new(),
            comment: false,
            watch: if watched { Watch::Log } else { Watch::Connection },
            waker: None,
            held,
        });
        self.seated
    }
}

impl Reader {
    /// What comes next; `None` at the end.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CutOff>>> {
        let mut state = self.log.state();
        let end = state.end;
        if end == End::Cut || state.seat(self.number).is_none() {
            return Poll::Ready(Some(Err(CutOff)));
        }
        if let Some(piece) = state.take(self.number, self.log.pace.patience) {
            let room = if state.backlog().is_some_and(|behind| behind < self.log.pace.backlog) {
                state.room.take()
            } else {
                None
            };
            drop(state);
            wake(room);
            return Poll::Ready(Some(Ok(piece)));
        }
        if end == End::Finished {
            return Poll::Ready(None);
        }
        if let Some(seat) = state.seat(self.number) {
            if std::mem::take(&mut seat.comment) {
                let mut comment = Vec::new();
                sse::comment(&mut comment, "keep-alive");
                return Poll::Ready(Some(Ok(comment.into())));
            }
            seat.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.log.state();
        let left = state.dismiss(|seat| seat.number == self.number);
        // Others may be slower than the one who left, or there are none.
        let wakers = [state.gone.take(), state.room.take()];
        drop(state);
        // What is held may wake others when it is dropped.
        drop(left);
        wakers.into_iter().for_each(wake);
    }
}
