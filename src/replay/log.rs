//! The events of one run as sent to clients, with one writer and several readers, each at its own position.
//!
//! ```text
//!            base: a recap of what was      chunks: frames as they were sent   head
//!            trimmed from the front         │                                  │
//!   ─────────────────────────────────────── ├──────────┬──────────┬─────────── ┤
//!                                                      ▲ a slow reader         ▲ the fastest: it paces the run
//! ```
//! The run waits for the fastest reader, and does not wait if there is none. A reader that falls behind the oldest
//! retained frame is disconnected and may reconnect. The oldest frames are trimmed and folded into a [`Recap`], which
//! new readers get first. The log takes its memory from [`CallerBytes`]; if nothing is left there, it folds all that
//! the fastest reader has read. If that does not suffice, or the recap is above the size limit, the log is discarded:
//! the run continues for its current readers, but no other can join, and frames are freed as soon as they are read.
//!
//! ```text
//!   Open ── stop ──▶ Stopping ── end ──▶ Finished
//!    │ └─────────────── end ────────────────▲
//!    └─ cut ──▶ Cut (without a final event)
//! ```

mod mirror;
mod reader_slot;
mod reader;
mod reader_set;
mod writer;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod schedules;

pub(crate) use mirror::{LogMirror, MirrorEvent, MirrorSummary};
#[cfg(test)]
pub(super) use reader::ReaderCutOff;
pub(crate) use reader::{JoinError, LogReader, ReadFrom};
pub(super) use writer::LogRetention;
pub(crate) use writer::{LogStopReason, LogWriter};

use self::reader_slot::ReaderSlot;
use super::RunToken;
use super::store_bytes::CallerBytes;
use crate::sync::Mutex;
use crate::translate::recap::Recap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Small frames share chunks of up to this many bytes, to save memory.
const CHUNK_SIZE: usize = 8 << 10;

const CHUNK_OVERHEAD: usize = 64;

/// Memory of a run besides its frames: the structures here and in the store.
const RUN_OVERHEAD: usize = 1 << 10;

/// Each connection of a slow reader holds a piece of this size, which is counted nowhere.
const MAX_READ: usize = 16 << 10;

const MAX_READERS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    pub(crate) max_backlog: usize,
    /// size above which the oldest frames are folded
    pub(crate) max_bytes: usize,
    /// time after which a watched reader that ignores waiting data is removed
    pub(crate) stall_timeout: Duration,
    pub(crate) abandon_after: Duration,
}

#[derive(Debug)]
pub(crate) struct RunLog {
    pub(crate) token: RunToken,
    limits: LogLimits,
    /// locked before `state`, and while frames are folded, so that a joining reader misses nothing
    base: Mutex<LogBase>,
    state: Mutex<LogState>,
    /// absent if the log is in no store
    total: Option<Arc<CallerBytes>>,
    /// wakes mirrors
    changed: Notify,
}

/// The state before the first chunk.
#[derive(Debug)]
enum LogBase {
    Recap(Box<Recap>),
    /// too large to retain, so no reader can join
    Discarded,
}

#[derive(Debug)]
struct LogState {
    chunks: VecDeque<LogChunk>,
    end_offset: u64,
    last_number: u64,
    base_bytes: usize,
    /// this log's share of [`CallerBytes`]
    counted_bytes: usize,
    /// whether no reader can join
    is_discarded: bool,
    /// the next byte that a mirror reads, if there is one
    mirror_offset: Option<u64>,
    phase: LogPhase,
    readers: Vec<ReaderSlot>,
    readers_total: u64,
    /// when the last reader left
    unread_since: Instant,
    write_waker: Option<Waker>,
    stop_waker: Option<Waker>,
}

#[derive(Debug)]
struct LogChunk {
    /// offset of its first byte within the run
    offset: u64,
    first_number: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPhase {
    Open,
    Stopping,
    Finished,
    Cut,
}

impl RunLog {
    /// Creates a log whose next event is number `recap_through + 1`; `recap` covers the earlier events.
    pub(super) fn new(
        token: RunToken,
        recap: Recap,
        recap_through: u64,
        limits: LogLimits,
        total: Option<Arc<CallerBytes>>,
    ) -> RunLog {
        let state = LogState {
            chunks: VecDeque::new(),
            end_offset: 0,
            last_number: recap_through,
            base_bytes: recap.byte_size(),
            counted_bytes: 0,
            is_discarded: false,
            mirror_offset: None,
            phase: LogPhase::Open,
            readers: Vec::new(),
            readers_total: 0,
            unread_since: Instant::now(),
            write_waker: None,
            stop_waker: None,
        };
        let base = Mutex::new(LogBase::Recap(Box::new(recap)));
        RunLog { token, limits, base, state: Mutex::new(state), total, changed: Notify::new() }
    }

    /// Returns whether the run is still in progress.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state.lock().phase, LogPhase::Open | LogPhase::Stopping)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.state.lock().retained_bytes()
    }

    /// Takes or returns memory for what the log keeps now. Returns `false` if there is not enough.
    pub(super) fn recount(&self) -> bool {
        self.state.lock().recount(self.total.as_deref())
    }

    /// Returns the memory that is not counted in the log's share.
    pub(crate) fn uncounted_bytes(&self) -> usize {
        let state = self.state.lock();
        (RUN_OVERHEAD + state.retained_bytes()).saturating_sub(state.counted_bytes)
    }

    /// Returns the memory that eviction frees at once.
    pub(super) fn evictable_bytes(&self) -> usize {
        self.state.lock().counted_bytes.saturating_sub(RUN_OVERHEAD)
    }

    /// Disconnects all readers. The run continues without them.
    pub(crate) fn cut_off_readers(&self) {
        let mut state = self.state.lock();
        let removed = state.remove_readers(|_| true);
        if state.is_discarded {
            drop(state.trim(self.limits.max_backlog));
        }
        state.recount(self.total.as_deref());
        let wakers = [state.stop_waker.take(), state.write_waker.take()];
        drop(state);
        removed.into_iter().map(|slot| slot.waker).chain(wakers).for_each(wake);
    }

    /// Frees all memory of an ended log; its readers are cut off.
    pub(super) fn evict(&self) {
        let mut base = self.base.lock();
        let mut state = self.state.lock();
        let mut removed = self.discard(&mut base, &mut state);
        removed.extend(state.remove_readers(|_| true));
        state.chunks.clear();
        state.recount(self.total.as_deref());
        drop(state);
        drop(base);
        removed.into_iter().for_each(|slot| wake(slot.waker));
    }

    /// Makes the log unreadable for new readers, and frees what no present one needs. Returns those that are cut off.
    fn discard(&self, base: &mut LogBase, state: &mut LogState) -> Vec<ReaderSlot> {
        *base = LogBase::Discarded;
        state.is_discarded = true;
        state.base_bytes = 0;
        drop(state.trim(self.limits.max_backlog));
        let start = state.start_offset();
        let removed = state.remove_readers(|slot| slot.offset < start);
        state.recount(self.total.as_deref());
        removed
    }

    pub(crate) fn has_readers(&self) -> bool {
        !self.state.lock().readers.is_empty()
    }

    /// Returns how many readers have joined so far.
    pub(crate) fn readers_total(&self) -> u64 {
        self.state.lock().readers_total
    }

    /// Restarts the abandon timer, because another replica has a reader for this run.
    pub(crate) fn reset_abandon_timer(&self) {
        // A task that waits for the timer checks again when it fires.
        self.state.lock().unread_since = Instant::now();
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.limits.max_bytes
    }

    pub(crate) fn recap_through(&self) -> u64 {
        self.state.lock().first_number() - 1
    }

    /// Waits until the readers of a discarded log have read all frames, or have left.
    pub(crate) async fn wait_freed(&self) {
        self.wait_until(|| {
            let state = self.state.lock();
            (state.chunks.is_empty() || state.readers.is_empty()).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for_event(&self, number: u64) {
        self.wait_until(|| {
            let state = self.state.lock();
            let reached = state.last_number >= number || matches!(state.phase, LogPhase::Finished | LogPhase::Cut);
            reached.then_some(())
        })
        .await;
    }

    /// Waits until `find` returns a value, calling it after each change. Cancel safe.
    async fn wait_until<T>(&self, mut find: impl FnMut() -> Option<T>) -> T {
        loop {
            // Registered before the check, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = find() {
                return found;
            }
            changed.await;
        }
    }

    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        if state.phase == LogPhase::Open {
            state.phase = LogPhase::Stopping;
        }
        let wakers = [state.stop_waker.take(), state.write_waker.take()];
        drop(state);
        wakers.into_iter().for_each(wake);
    }
}

/// Returns the log's share when its last reader has left.
impl Drop for RunLog {
    fn drop(&mut self) {
        let counted = self.state.get_mut().counted_bytes;
        if let Some(total) = &self.total {
            total.resize(counted, 0);
        }
    }
}

impl LogState {
    fn retained_bytes(&self) -> usize {
        let frames = usize::try_from(self.end_offset - self.start_offset()).unwrap_or(usize::MAX);
        let unused = self.chunks.back().map_or(0, |chunk| chunk.bytes.capacity() - chunk.bytes.len());
        self.base_bytes.saturating_add(frames).saturating_add(unused + self.chunks.len() * CHUNK_OVERHEAD)
    }

    /// The frames of a discarded log are those that its readers have not read yet: at most `max_backlog` and one write,
    /// as without a log, which `limits.client_buffer` bounds.
    fn recount(&mut self, total: Option<&CallerBytes>) -> bool {
        let Some(total) = total else { return true };
        let kept = if self.is_discarded { 0 } else { self.retained_bytes() };
        let recaps: usize = self.readers.iter().map(|slot| slot.recap_size).sum();
        let needed = RUN_OVERHEAD + kept + recaps;
        let fits = total.resize(self.counted_bytes, needed);
        if fits {
            self.counted_bytes = needed;
        }
        fits
    }

    /// Returns the position of the first retained byte.
    fn start_offset(&self) -> u64 {
        self.chunks.front().map_or(self.end_offset, |chunk| chunk.offset)
    }

    fn first_number(&self) -> u64 {
        self.chunks.front().map_or(self.last_number + 1, |chunk| chunk.first_number)
    }

    /// Returns the position after frame `number`, or `None` if the next frame was trimmed or the number is invalid.
    fn offset_after(&self, number: u64) -> Option<u64> {
        if number == self.last_number {
            return Some(self.end_offset);
        }
        if number > self.last_number || number + 1 < self.first_number() {
            return None;
        }
        let index = self.chunks.partition_point(|chunk| chunk.first_number <= number + 1).checked_sub(1)?;
        let chunk = self.chunks.get(index)?;
        let skipped = usize::try_from(number + 1 - chunk.first_number).ok()?;
        Some(chunk.offset + frame_ends(&chunk.bytes).take(skipped).last().unwrap_or_default() as u64)
    }

    /// Copies up to `most` bytes, starting at position `at`.
    fn copy(&self, at: u64, most: usize) -> Vec<u8> {
        let mut piece = Vec::new();
        let index = self.chunks.partition_point(|chunk| chunk.offset <= at).saturating_sub(1);
        for chunk in self.chunks.range(index.min(self.chunks.len())..) {
            let from = usize::try_from((at + piece.len() as u64).saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
            let rest = chunk.bytes.get(from..).unwrap_or_default();
            let take = rest.len().min(most - piece.len());
            piece.extend_from_slice(&rest[..take]);
            if piece.len() == most {
                break;
            }
        }
        piece
    }

    fn append(&mut self, bytes: &[u8], last: u64) {
        let room = |chunk: &&mut LogChunk| chunk.bytes.len() + bytes.len() <= CHUNK_SIZE;
        match self.chunks.back_mut().filter(room) {
            Some(chunk) => chunk.bytes.extend_from_slice(bytes),
            None => {
                if let Some(whole) = self.chunks.back_mut() {
                    whole.bytes.shrink_to_fit();
                }
                self.chunks.push_back(LogChunk {
                    offset: self.end_offset,
                    first_number: self.last_number + 1,
                    bytes: bytes.to_vec(),
                });
            }
        }
        self.end_offset += bytes.len() as u64;
        self.last_number = last;
    }
}

pub(super) fn frame_ends(frames: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(frames, b"\n\n").map(|at| at + 2)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
