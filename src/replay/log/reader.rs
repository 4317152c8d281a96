//! Readers of a log.

use super::reader_slot::{ReaderSlot, StallWatch};
use super::{LogBase, LogPhase, LogState, MAX_READERS, RunLog, wake};
use crate::codec::sse;
use crate::net::cpu_work::run_sized;
use crate::replay::{Cursor, RunToken};
use crate::translate::recap::Recap;
use bytes::Bytes;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Size limit of a run's unread recaps, as a multiple of `max_bytes`.
const MAX_UNREAD_RECAPS: usize = 2;

/// The start position of a reader. The number is the timestamp of a recap, in ms since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// at the first event, or with a recap if it was trimmed
    Start(i64),
    /// after the last event that the client received
    Cursor(Cursor),
    /// with a recap
    Recap(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinError {
    /// the cursor belongs to another run, or its event was trimmed or does not exist yet
    Cursor,
    /// there is a cursor, but no event yet
    Empty,
    Full,
    /// there is not enough memory for a recap
    NoMemory,
    /// the run was too large to retain
    Discarded,
}

/// A reader of the log. Dropping it removes it from the log.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<RunLog>,
    number: u64,
    /// whether it has returned bytes
    is_sending: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReaderCutOff;

impl RunLog {
    pub(crate) fn had_readers(&self) -> bool {
        self.state.lock().readers_total > 0
    }

    /// Joins the log, which removes stalled readers if `watched`. Building a recap takes milliseconds per retained MiB.
    pub(crate) fn join(
        self: &Arc<Self>,
        from: ReadFrom,
        watched: bool,
        resource: impl Debug + Send + 'static,
    ) -> Result<LogReader, JoinError> {
        let base = self.base.lock();
        let LogBase::Recap(recap) = &*base else { return Err(JoinError::Discarded) };
        let mut state = self.state.lock();
        if state.readers.len() >= MAX_READERS {
            return Err(JoinError::Full);
        }
        let at = match from {
            ReadFrom::Cursor(cursor) if cursor.token != self.token => return Err(JoinError::Cursor),
            ReadFrom::Cursor(cursor) if state.last_number == 0 && cursor.number > 0 => return Err(JoinError::Empty),
            ReadFrom::Cursor(cursor) => Some(state.offset_after(cursor.number).ok_or(JoinError::Cursor)?),
            ReadFrom::Start(_) | ReadFrom::Recap(_) if state.last_number == 0 => Some(0),
            ReadFrom::Start(_) => state.offset_after(0),
            ReadFrom::Recap(_) => None,
        };
        let needs_recap = at.is_none() || matches!(from, ReadFrom::Recap(_));
        let recap_size = if needs_recap { state.reserve_recap(self, 0)? } else { 0 };
        let recap_source = at.is_none().then(|| RecapSource::new(recap, &state));
        let now = if let ReadFrom::Start(now) | ReadFrom::Recap(now) = from { now } else { 0 };
        let number = state.add_reader(at, watched, Box::new(resource));
        if let Some(slot) = state.reader(number) {
            slot.recap_size = recap_size;
            slot.recap_due = if let (Some(_), ReadFrom::Recap(now)) = (at, from) { Some(now) } else { None };
        }
        let ended = matches!(state.phase, LogPhase::Finished | LogPhase::Cut);
        drop(state);
        drop(base);
        let reader = LogReader { log: Arc::clone(self), number, is_sending: AtomicBool::new(false) };
        if let Some(source) = recap_source
            && !self.fold_for(number, source, now)
        {
            return Err(JoinError::NoMemory);
        }
        if ended && watched {
            self.drain_readers();
        }
        Ok(reader)
    }

    /// Folds without holding the locks: the run continues, and the reader's position is after the folded frames.
    /// Returns `false` if there is not enough memory for the recap; the reader is then removed.
    fn fold_for(&self, number: u64, source: RecapSource, now: i64) -> bool {
        let size = source.frames.len() + source.recap.byte_size();
        let mut frames = run_sized(size, || source.into_frames(self.token, now));
        frames.shrink_to_fit();
        let mut state = self.state.lock();
        let mut exceeds_reserved = false;
        if let Some(slot) = state.reader(number) {
            exceeds_reserved = frames.len() > slot.recap_size;
            slot.recap_size = frames.len();
            slot.recap = frames.into();
        }
        let fits = state.recount(self.total.as_deref()) || !exceeds_reserved;
        drop(state);
        if !fits {
            self.remove_reader(number);
        }
        fits
    }

    /// Returns whether the last event ends the run, which its writer may not have finished.
    pub(crate) fn has_terminal_event(&self) -> bool {
        let base = self.base.lock();
        let LogBase::Recap(recap) = &*base else { return false };
        let mut source = RecapSource::new(recap, &self.state.lock());
        drop(base);
        source.recap.push(&source.frames);
        source.recap.has_ended()
    }

    /// Builds the recap of a reader that joined before the first event. Without a recap, it would lack the input. The
    /// reader is removed if there is not enough memory, and is refused when it joins again.
    fn build_due_recap(&self, number: u64) {
        let base = self.base.lock();
        let mut state = self.state.lock();
        let end_offset = state.end_offset;
        let Some(slot) = state.reader(number) else { return };
        let Some(now) = slot.recap_due.take() else { return };
        // A reader of a discarded log gets the events as they are.
        let LogBase::Recap(recap) = &*base else { return };
        slot.offset = end_offset;
        let reserved = slot.recap_size;
        let Ok(recap_size) = state.reserve_recap(self, reserved) else {
            drop(state);
            drop(base);
            return self.remove_reader(number);
        };
        if let Some(slot) = state.reader(number) {
            slot.recap_size = recap_size;
        }
        let source = RecapSource::new(recap, &state);
        drop(state);
        drop(base);
        self.fold_for(number, source, now);
    }

    fn remove_reader(&self, number: u64) {
        let mut state = self.state.lock();
        let removed = state.remove_readers(|slot| slot.number == number);
        let cut_off = state.free_read(number, self);
        // The fastest or last reader may have left.
        let wakers = [state.stop_waker.take(), state.write_waker.take()];
        drop(state);
        // Dropping the reader's resource may wake other tasks, so it is done without the lock.
        drop(removed);
        cut_off.into_iter().map(|slot| slot.waker).chain(wakers).for_each(wake);
    }
}

/// The frames to fold into a recap, and those after it.
struct RecapSource {
    recap: Box<Recap>,
    frames: Vec<u8>,
    last: u64,
}

impl RecapSource {
    fn new(recap: &Recap, state: &LogState) -> RecapSource {
        RecapSource {
            recap: Box::new(recap.clone()),
            frames: state.copy(state.start_offset(), usize::MAX),
            last: state.last_number,
        }
    }

    fn into_frames(mut self, token: RunToken, now: i64) -> Vec<u8> {
        self.recap.push(&self.frames);
        let mut out = Vec::new();
        self.recap.write(now, Some(&Cursor { token, number: self.last }.to_string()), &mut out);
        // The recap is empty if the run has not begun, or failed before it did.
        if out.is_empty() { self.frames } else { out }
    }
}

impl LogState {
    /// Takes memory for a reader's recap, about as much as the log; `reserved` bytes of it were taken before. Returns
    /// the recap's size.
    fn reserve_recap(&mut self, log: &RunLog, reserved: usize) -> Result<usize, JoinError> {
        // Also those that are being built, and the read part of others, which is freed with the rest.
        let unread = self.readers.iter().map(|slot| slot.recap_size).sum::<usize>() - reserved;
        // Before memory is taken, which nothing would return.
        if unread > MAX_UNREAD_RECAPS * log.limits.max_bytes {
            return Err(JoinError::Full);
        }
        let size = self.retained_bytes();
        let counted = self.counted_bytes + size.saturating_sub(reserved);
        let fits = log.total.as_ref().is_none_or(|total| total.resize(self.counted_bytes, counted));
        if !fits {
            return Err(JoinError::NoMemory);
        }
        self.counted_bytes = counted;
        Ok(size)
    }

    fn add_reader(&mut self, at: Option<u64>, watched: bool, resource: Box<dyn Debug + Send>) -> u64 {
        self.readers_total += 1;
        // Most runs have one reader.
        self.readers.reserve_exact(1);
        self.readers.push(ReaderSlot {
            number: self.readers_total,
            offset: at.unwrap_or(self.end_offset),
            recap: Bytes::new(),
            recap_size: 0,
            recap_due: None,
            comment_due: false,
            stall_watch: if watched { StallWatch::Log } else { StallWatch::Connection },
            waker: None,
            resource,
        });
        self.readers_total
    }

    /// Frees what nobody needs after a reader has read or left. Returns the readers that are cut off, because a
    /// discarded log has trimmed what they had not read.
    fn free_read(&mut self, number: u64, log: &RunLog) -> Vec<ReaderSlot> {
        let has_read_recap = match self.reader(number) {
            Some(slot) if slot.recap.is_empty() => std::mem::take(&mut slot.recap_size) > 0,
            Some(_) => false,
            None => true,
        };
        let mut cut_off = Vec::new();
        if self.is_discarded {
            drop(self.trim(log.limits.max_backlog));
            log.changed.notify_waiters();
            let start = self.start_offset();
            cut_off = self.remove_readers(|slot| slot.offset < start);
        }
        if has_read_recap || !cut_off.is_empty() {
            self.recount(log.total.as_deref());
        }
        cut_off
    }
}

impl LogReader {
    /// Returns the next bytes, or `None` at the end.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ReaderCutOff>>> {
        let mut state = self.log.state.lock();
        if state.last_number > 0 && state.reader(self.number).is_some_and(|slot| slot.recap_due.is_some()) {
            drop(state);
            self.log.build_due_recap(self.number);
            state = self.log.state.lock();
        }
        let end = state.phase;
        // A discarded log may have freed what this reader has not read.
        let start = state.start_offset();
        if end == LogPhase::Cut || state.reader(self.number).is_none_or(|slot| slot.offset < start) {
            return Poll::Ready(Some(Err(ReaderCutOff)));
        }
        if let Some(piece) = state.take_next(self.number, self.log.limits.stall_timeout) {
            let has_room = state.min_backlog().is_some_and(|backlog| backlog < self.log.limits.max_backlog);
            let write_waker = state.write_waker.take_if(|_| has_room);
            let cut_off = state.free_read(self.number, &self.log);
            self.is_sending.store(true, Ordering::Relaxed);
            if let Some(slot) = state.reader(self.number) {
                // A connection that is sending is woken if its reader is removed.
                slot.waker = Some(cx.waker().clone());
            }
            drop(state);
            cut_off.into_iter().map(|slot| slot.waker).for_each(wake);
            wake(write_waker);
            return Poll::Ready(Some(Ok(piece)));
        }
        if end == LogPhase::Finished {
            return Poll::Ready(None);
        }
        if let Some(slot) = state.reader(self.number) {
            if std::mem::take(&mut slot.comment_due) {
                let mut comment = Vec::new();
                sse::write_comment(&mut comment, "keep-alive");
                return Poll::Ready(Some(Ok(comment.into())));
            }
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns whether the reader was removed from its log after it had begun to read.
    pub(crate) fn is_cut_off(&self) -> bool {
        if !self.is_sending.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.log.state.lock();
        state.phase == LogPhase::Cut || state.reader(self.number).is_none()
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.remove_reader(self.number);
    }
}
