//! Coming to a log, and reading it.

use super::reader_slot::{ReaderResource, ReaderSlot, StallWatch};
use super::{LogBase, LogPhase, LogState, MAX_READERS, RunLog, wake};
use crate::codec::sse;
use crate::replay::{Cursor, RunToken};
use crate::translate::recap::Recap;
use bytes::Bytes;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How much of preludes may wait for the readers of one run, in times of what is kept of it.
const MAX_PRELUDES: usize = 2;

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// with everything, where it is still there; else with the prelude, at this time
    Start(i64),
    /// behind the event that it heard last
    Cursor(Cursor),
    /// with a prelude that says what the run has said so far, at this time, in ms since the epoch
    Prelude(i64),
}

/// Why somebody cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinError {
    /// the cursor is of another run, behind what is kept, or ahead of what was said
    Cursor,
    /// as many read as may
    Full,
    /// the run was too large to be kept
    Discarded,
}

/// One reader. Dropped, it has left.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<RunLog>,
    number: u64,
}

/// The reader was cut off: it is too slow, or the run was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderCutOff;

impl RunLog {
    /// Whether anybody has read it.
    #[must_use]
    pub(crate) fn had_readers(&self) -> bool {
        self.state().readers_total > 0
    }

    /// Comes to the log. `watched` where nobody else sees whether the reader takes something; `held` is let go when it leaves.
    ///
    /// Making a prelude takes some milliseconds for each MiB that is kept.
    ///
    /// # Errors
    /// Why it cannot join.
    pub(crate) fn join(
        self: &Arc<Self>,
        from: ReadFrom,
        watched: bool,
        resource: impl ReaderResource + 'static,
    ) -> Result<LogReader, JoinError> {
        let base = self.base();
        let LogBase::Recap(recap) = &*base else { return Err(JoinError::Discarded) };
        let mut state = self.state();
        if state.readers.len() >= MAX_READERS {
            return Err(JoinError::Full);
        }
        let at = match from {
            ReadFrom::Cursor(cursor) if cursor.token != self.token => return Err(JoinError::Cursor),
            ReadFrom::Cursor(cursor) => Some(state.offset_after(cursor.number).ok_or(JoinError::Cursor)?),
            ReadFrom::Start(_) | ReadFrom::Prelude(_) if state.last_number == 0 => Some(0),
            ReadFrom::Start(_) => state.offset_after(0),
            ReadFrom::Prelude(_) => None,
        };
        // Preludes that nobody takes are not for free.
        let waiting: usize = state.readers.iter().map(|seat| seat.prelude.len()).sum();
        if at.is_none() && waiting > MAX_PRELUDES * self.limits.max_bytes {
            return Err(JoinError::Full);
        }
        let sum = at.is_none().then(|| PreludeSource::new(recap, &state));
        let now = if let ReadFrom::Start(now) | ReadFrom::Prelude(now) = from { now } else { 0 };
        let number = state.add_reader(at, watched, Box::new(resource));
        let ended = matches!(state.phase, LogPhase::Finished | LogPhase::Cut);
        drop(state);
        drop(base);
        let reader = LogReader { log: Arc::clone(self), number };
        if let Some(sum) = sum {
            // Folded beside the locks: the run goes on meanwhile, and the reader's place is behind what is folded.
            let prelude = sum.into_prelude(self.token, now);
            if let Some(seat) = self.state().reader(number) {
                seat.prelude = prelude.into();
            }
        }
        if ended && watched {
            self.drain_readers();
        }
        Ok(reader)
    }
}

/// What a run has said so far, on its way to a prelude.
struct PreludeSource {
    recap: Box<Recap>,
    frames: Vec<u8>,
    last: u64,
}

impl PreludeSource {
    fn new(recap: &Recap, state: &LogState) -> PreludeSource {
        PreludeSource {
            recap: Box::new(recap.clone()),
            frames: state.copy(state.start_offset(), usize::MAX),
            last: state.last_number,
        }
    }

    fn into_prelude(mut self, token: RunToken, now: i64) -> Vec<u8> {
        self.recap.push(&self.frames);
        let mut out = Vec::new();
        self.recap.prelude(now, Some(&Cursor { token, number: self.last }.to_string()), &mut out);
        // Of a run that has not begun, or failed before it did, there is nothing to sum up.
        if out.is_empty() { self.frames } else { out }
    }
}

impl LogState {
    /// A reader's place, at the head where none is said.
    fn add_reader(&mut self, at: Option<u64>, watched: bool, held: Box<dyn ReaderResource>) -> u64 {
        self.readers_total += 1;
        // Most runs have one reader.
        self.readers.reserve_exact(1);
        self.readers.push(ReaderSlot {
            number: self.readers_total,
            offset: at.unwrap_or(self.end_offset),
            prelude: Bytes::new(),
            comment_due: false,
            stall_watch: if watched { StallWatch::Log } else { StallWatch::Connection },
            waker: None,
            resource: held,
        });
        self.readers_total
    }
}

impl LogReader {
    /// What comes next; `None` at the end.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReaderCutOff>>> {
        let mut state = self.log.state();
        let end = state.phase;
        if end == LogPhase::Cut || state.reader(self.number).is_none() {
            return Poll::Ready(Some(Err(ReaderCutOff)));
        }
        if let Some(piece) = state.take_next(self.number, self.log.limits.stall_timeout) {
            let room = if state.min_backlog().is_some_and(|behind| behind < self.log.limits.max_backlog) {
                state.write_waker.take()
            } else {
                None
            };
            drop(state);
            wake(room);
            return Poll::Ready(Some(Ok(piece)));
        }
        if end == LogPhase::Finished {
            return Poll::Ready(None);
        }
        if let Some(seat) = state.reader(self.number) {
            if std::mem::take(&mut seat.comment_due) {
                let mut comment = Vec::new();
                sse::write_comment(&mut comment, "keep-alive");
                return Poll::Ready(Some(Ok(comment.into())));
            }
            seat.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut state = self.log.state();
        let left = state.remove_readers(|seat| seat.number == self.number);
        // Others may be slower than the one who left, or there are none.
        let wakers = [state.stop_waker.take(), state.write_waker.take()];
        drop(state);
        // What is held may wake others when it is dropped.
        drop(left);
        wakers.into_iter().for_each(wake);
    }
}
