//! What one run has said, as its clients got it: written once, read by any number, from wherever each of them is.
//!
//! ```text
//!            base: a sum of what was        chunks: frames as they left        head
//!            trimmed from the front         │                                  │
//!   ─────────────────────────────────────── ├──────────┬──────────┬─────────── ┤
//!                                                      ▲ a slow reader         ▲ the fastest: it paces the run
//! ```
//! The run waits while every reader is far behind, so it goes at the pace of the fastest; one that falls behind what is still
//! there is cut off, and may come back. Without a reader the run goes free, and what is kept is trimmed: the oldest frames are
//! folded into a [`Recap`], from which whoever joins later gets its prelude. A sum that is larger than the bound is given up:
//! then the run goes on for those who listen, and nobody can join any more.
//!
//! ```text
//!   Open ── stop ──▶ Stopping ── end ──▶ Finished
//!    │ └─────────────── end ────────────────▲
//!    └─ cut ──▶ Cut (without a last word)
//! ```

mod mirror;
mod reader;
mod reader_slot;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use mirror::{LogMirror, MirrorEvent, MirrorSummary};
pub(crate) use reader::{JoinError, LogReader, ReadFrom, ReaderCutOff};
pub(crate) use reader_slot::ReaderResource;
pub(crate) use writer::{LogStopReason, LogWriter};

use self::reader_slot::ReaderSlot;
use super::RunToken;
use crate::translate::recap::Recap;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Frames that come after each other share a chunk up to this size, so that small ones cost little.
const CHUNK_SIZE: usize = 8 << 10;

/// What a chunk takes beside its frames, in bytes.
const CHUNK_OVERHEAD: usize = 64;

/// Most bytes that a reader takes at once.
const MAX_READ: usize = 64 << 10;

/// Most bytes that a watched reader takes at once, so that it is seen to take something while a large event is on a slow line:
/// an HTTP/2 frame carries no more by default [RFC 9113 §4.2].
const MAX_WATCHED_READ: usize = 16 << 10;

/// Most readers of one run.
const MAX_READERS: usize = 16;

/// How a log goes with its readers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLimits {
    /// how many bytes every reader may be behind before the run waits
    pub(crate) max_backlog: usize,
    /// how many bytes are kept before the oldest are summed up
    pub(crate) max_bytes: usize,
    /// how long a watched reader may take nothing while something waits for it
    pub(crate) stall_timeout: Duration,
    /// how long the run goes on without a reader
    pub(crate) abandon_after: Duration,
}

/// One run's log.
#[derive(Debug)]
pub(crate) struct RunLog {
    token: RunToken,
    limits: LogLimits,
    /// Locked before `state`, and while what was trimmed is folded: what is joined is whole.
    base: Mutex<LogBase>,
    state: Mutex<LogState>,
    /// for mirrors
    changed: Notify,
}

/// What is in front of the first chunk.
#[derive(Debug)]
enum LogBase {
    /// the sum of it
    Recap(Box<Recap>),
    /// too much to be kept: nobody can join
    Discarded,
}

#[derive(Debug)]
struct LogState {
    chunks: VecDeque<LogChunk>,
    /// bytes of the run that were written, so the position behind the last
    end_offset: u64,
    /// the number of the last frame
    last_number: u64,
    /// what the base takes, as it was when it was last folded
    base_bytes: usize,
    phase: LogPhase,
    readers: Vec<ReaderSlot>,
    /// how many readers there were
    readers_total: u64,
    /// from when on nobody listened, if nobody does
    unread_since: Instant,
    /// a write that was refused
    write_waker: Option<Waker>,
    /// a run that waits for its readers' leaving, or its being stopped
    stop_waker: Option<Waker>,
}

/// Frames that stand together.
#[derive(Debug)]
struct LogChunk {
    /// the position of its first byte in the run
    offset: u64,
    /// the number of its first frame
    first_number: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPhase {
    Open,
    /// somebody wants it to end
    Stopping,
    Finished,
    /// without a last word; what was not read by then is dropped
    Cut,
}

impl RunLog {
    /// A log that begins behind an event, up to which the recap tells everything; 0 where nothing was said yet.
    pub(super) fn new(token: RunToken, recap: Recap, behind: u64, limits: LogLimits) -> RunLog {
        let state = LogState {
            chunks: VecDeque::new(),
            end_offset: 0,
            last_number: behind,
            base_bytes: recap.byte_size(),
            phase: LogPhase::Open,
            readers: Vec::new(),
            readers_total: 0,
            unread_since: Instant::now(),
            write_waker: None,
            stop_waker: None,
        };
        let base = Mutex::new(LogBase::Recap(Box::new(recap)));
        RunLog { token, limits, base, state: Mutex::new(state), changed: Notify::new() }
    }

    /// What its ids begin with.
    #[must_use]
    pub(crate) fn token(&self) -> RunToken {
        self.token
    }

    /// Whether the run goes on.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state().phase, LogPhase::Open | LogPhase::Stopping)
    }

    /// What is kept of it, in bytes.
    #[must_use]
    pub(crate) fn retained_bytes(&self) -> usize {
        self.state().retained_bytes()
    }

    /// Whether anybody reads it now.
    #[must_use]
    pub(crate) fn has_readers(&self) -> bool {
        !self.state().readers.is_empty()
    }

    /// How many readers there were so far.
    #[must_use]
    pub(crate) fn readers_total(&self) -> u64 {
        self.state().readers_total
    }

    /// Somebody listens elsewhere: the time that the run goes on alone begins anew.
    pub(crate) fn reset_abandon_timer(&self) {
        // Whoever waits for the end of that time looks again when it comes.
        self.state().unread_since = Instant::now();
    }

    /// Up to which event the log only has a sum.
    #[must_use]
    pub(crate) fn recap_through(&self) -> u64 {
        self.state().first_number() - 1
    }

    /// Waits until the log has an event of that number, or has ended.
    pub(crate) async fn wait_for_event(&self, number: u64) {
        loop {
            // Asked for before it is looked, so that what comes in between is not missed.
            let news = self.changed.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if self.has_event(number) {
                return;
            }
            news.await;
        }
    }

    fn has_event(&self, number: u64) -> bool {
        let state = self.state();
        state.last_number >= number || matches!(state.phase, LogPhase::Finished | LogPhase::Cut)
    }

    /// Has the run end, if it has not ended.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        if state.phase == LogPhase::Open {
            state.phase = LogPhase::Stopping;
        }
        let wakers = [state.stop_waker.take(), state.write_waker.take()];
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    fn base(&self) -> MutexGuard<'_, LogBase> {
        // The same; a recap that panicked while it was folded is still one that can be asked.
        self.base.lock()
    }
}

impl LogState {
    fn retained_bytes(&self) -> usize {
        let frames = usize::try_from(self.end_offset - self.start_offset()).unwrap_or(usize::MAX);
        self.base_bytes.saturating_add(frames).saturating_add(self.chunks.len() * CHUNK_OVERHEAD)
    }

    /// The position of the first byte that is still there.
    fn start_offset(&self) -> u64 {
        self.chunks.front().map_or(self.end_offset, |chunk| chunk.offset)
    }

    /// The number of the first frame that is still there, or that comes next.
    fn first_number(&self) -> u64 {
        self.chunks.front().map_or(self.last_number + 1, |chunk| chunk.first_number)
    }

    /// The position behind a frame, if what follows it is still there, or comes next.
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

    /// What stands at a position, up to so many bytes.
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

    /// Appends frames, the last of which has this number.
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

/// Where each frame ends. No frame has an empty line in it, and no comment is kept.
pub(super) fn frame_ends(frames: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(frames, b"\n\n").map(|at| at + 2)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
