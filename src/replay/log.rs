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
mod read;
mod seat;
#[cfg(test)]
mod tests;
mod write;

pub use mirror::{Mirror, Mirrored, Sum};
pub use read::{CutOff, From, Reader, Unjoined};
pub use seat::Held;
pub use write::{Lost, Writer};

use self::seat::Seat;
use super::Token;
use crate::translate::recap::Recap;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Frames that come after each other share a chunk up to this size, so that small ones cost little.
const CHUNK: usize = 8 << 10;

/// What a chunk takes beside its frames, in bytes.
const CHUNK_COST: usize = 64;

/// Most bytes that a reader takes at once.
const PIECE: usize = 64 << 10;

/// Most bytes that a watched reader takes at once, so that it is seen to take something while a large event is on a slow line:
/// an HTTP/2 frame carries no more by default [RFC 9113 §4.2].
const WATCHED_PIECE: usize = 16 << 10;

/// Most readers of one run.
const READERS: usize = 16;

/// How a log goes with its readers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// how many bytes every reader may be behind before the run waits
    pub backlog: usize,
    /// how many bytes are kept before the oldest are summed up
    pub bytes: usize,
    /// how long a watched reader may take nothing while something waits for it
    pub patience: Duration,
    /// how long the run goes on without a reader
    pub alone: Duration,
}

/// One run's log.
#[derive(Debug)]
pub struct Log {
    token: Token,
    pace: Pace,
    /// Locked before `state`, and while what was trimmed is folded: what is joined is whole.
    base: Mutex<Base>,
    state: Mutex<State>,
    /// for mirrors
    news: Notify,
}

/// What is in front of the first chunk.
#[derive(Debug)]
enum Base {
    /// the sum of it
    Sum(Box<Recap>),
    /// too much to be kept: nobody can join
    GivenUp,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Chunk>,
    /// bytes of the run that were written, so the position behind the last
    head: u64,
    /// the number of the last frame
    last: u64,
    /// what the base takes, as it was when it was last folded
    base: usize,
    end: End,
    seats: Vec<Seat>,
    /// how many readers there were
    seated: u64,
    /// from when on nobody listened, if nobody does
    alone: Instant,
    /// a write that was refused
    room: Option<Waker>,
    /// a run that waits for its readers' leaving, or its being stopped
    gone: Option<Waker>,
}

/// Frames that stand together.
#[derive(Debug)]
struct Chunk {
    /// the position of its first byte in the run
    at: u64,
    /// the number of its first frame
    first: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// somebody wants it to end
    Stopping,
    Finished,
    /// without a last word; what was not read by then is dropped
    Cut,
}

impl Log {
    /// A log that begins behind an event, up to which the recap tells everything; 0 where nothing was said yet.
    pub(super) fn new(token: Token, recap: Recap, behind: u64, pace: Pace) -> Log {
        let state = State {
            chunks: VecDeque::new(),
            head: 0,
            last: behind,
            base: recap.held(),
            end: End::Open,
            seats: Vec::new(),
            seated: 0,
            alone: Instant::now(),
            room: None,
            gone: None,
        };
        let base = Mutex::new(Base::Sum(Box::new(recap)));
        Log { token, pace, base, state: Mutex::new(state), news: Notify::new() }
    }

    /// What its ids begin with.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether the run goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state().end, End::Open | End::Stopping)
    }

    /// What is kept of it, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held()
    }

    /// Whether anybody reads it now.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.state().seats.is_empty()
    }

    /// How many readers there were so far.
    #[must_use]
    pub fn seated(&self) -> u64 {
        self.state().seated
    }

    /// Somebody listens elsewhere: the time that the run goes on alone begins anew.
    pub fn listened(&self) {
        // Whoever waits for the end of that time looks again when it comes.
        self.state().alone = Instant::now();
    }

    /// Up to which event the log only has a sum.
    #[must_use]
    pub fn summed(&self) -> u64 {
        self.state().first() - 1
    }

    /// Waits until the log has an event of that number, or has ended.
    pub async fn reaches(&self, number: u64) {
        loop {
            // Asked for before it is looked, so that what comes in between is not missed.
            let news = self.news.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if self.has(number) {
                return;
            }
            news.await;
        }
    }

    fn has(&self, number: u64) -> bool {
        let state = self.state();
        state.last >= number || matches!(state.end, End::Finished | End::Cut)
    }

    /// Has the run end, if it has not ended.
    pub fn stop(&self) {
        let mut state = self.state();
        if state.end == End::Open {
            state.end = End::Stopping;
        }
        let wakers = [state.gone.take(), state.room.take()];
        drop(state);
        wakers.into_iter().for_each(wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base(&self) -> MutexGuard<'_, Base> {
        // The same; a recap that panicked while it was folded is still one that can be asked.
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn held(&self) -> usize {
        let frames = usize::try_from(self.head - self.start()).unwrap_or(usize::MAX);
        self.base.saturating_add(frames).saturating_add(self.chunks.len() * CHUNK_COST)
    }

    /// The position of the first byte that is still there.
    fn start(&self) -> u64 {
        self.chunks.front().map_or(self.head, |chunk| chunk.at)
    }

    /// The number of the first frame that is still there, or that comes next.
    fn first(&self) -> u64 {
        self.chunks.front().map_or(self.last + 1, |chunk| chunk.first)
    }

    /// The position behind a frame, if what follows it is still there, or comes next.
    fn behind(&self, number: u64) -> Option<u64> {
        if number == self.last {
            return Some(self.head);
        }
        if number > self.last || number + 1 < self.first() {
            return None;
        }
        let index = self.chunks.partition_point(|chunk| chunk.first <= number + 1).checked_sub(1)?;
        let chunk = self.chunks.get(index)?;
        let skipped = usize::try_from(number + 1 - chunk.first).ok()?;
        Some(chunk.at + ends(&chunk.bytes).take(skipped).last().unwrap_or_default() as u64)
    }

    /// What stands at a position, up to so many bytes.
    fn copy(&self, at: u64, most: usize) -> Vec<u8> {
        let mut piece = Vec::new();
        let index = self.chunks.partition_point(|chunk| chunk.at <= at).saturating_sub(1);
        for chunk in self.chunks.range(index.min(self.chunks.len())..) {
            let from = usize::try_from((at + piece.len() as u64).saturating_sub(chunk.at)).unwrap_or(usize::MAX);
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
        let room = |chunk: &&mut Chunk| chunk.bytes.len() + bytes.len() <= CHUNK;
        match self.chunks.back_mut().filter(room) {
            Some(chunk) => chunk.bytes.extend_from_slice(bytes),
            None => {
                if let Some(whole) = self.chunks.back_mut() {
                    whole.bytes.shrink_to_fit();
                }
                self.chunks.push_back(Chunk { at: self.head, first: self.last + 1, bytes: bytes.to_vec() });
            }
        }
        self.head += bytes.len() as u64;
        self.last = last;
    }
}

/// Where each frame ends. No frame has an empty line in it, and no comment is kept.
pub(super) fn ends(frames: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(frames, b"\n\n").map(|at| at + 2)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
