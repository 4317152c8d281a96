//! One reader of a log, as the log sees it.

use super::{CHUNK_COST, Chunk, End, PIECE, State, WATCHED_PIECE};
use bytes::Bytes;
use std::fmt::Debug;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// What a reader holds for as long as it takes part.
pub trait Held: Debug + Send {}

impl<T: Debug + Send> Held for T {}

#[derive(Debug)]
pub(super) struct Seat {
    /// which of the readers that there were
    pub number: u64,
    /// how far it has read
    pub at: u64,
    /// what it gets before it reads on
    pub prelude: Bytes,
    /// whether a comment is due that keeps its connection alive
    pub comment: bool,
    /// somebody has to see that it takes something; when it was first seen to wait since it last did
    pub watch: Watch,
    pub waker: Option<Waker>,
    #[expect(dead_code, reason = "held, never read")]
    pub held: Box<dyn Held>,
}

/// Who sees that a reader takes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// its connection
    Connection,
    /// the log; nothing was seen to wait for it
    Log,
    /// the log; something waits for it since then
    Waiting(Instant),
}

impl Seat {
    fn backlog(&self, head: u64) -> usize {
        usize::try_from(head - self.at).unwrap_or(usize::MAX).saturating_add(self.prelude.len())
    }
}

impl State {
    /// How far behind the fastest reader is; `None` without a reader.
    pub fn backlog(&self) -> Option<usize> {
        self.seats.iter().map(|seat| seat.backlog(self.head)).min()
    }

    /// How far the fastest and the slowest reader are.
    pub fn read(&self) -> (u64, u64) {
        let at = || self.seats.iter().map(|seat| seat.at);
        (at().max().unwrap_or(self.head), at().min().unwrap_or(self.head))
    }

    pub fn seat(&mut self, number: u64) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.number == number)
    }

    /// What leaves next to a reader, if it is there.
    pub fn take(&mut self, number: u64, patience: Duration) -> Option<Bytes> {
        let index = self.seats.iter().position(|seat| seat.number == number)?;
        let Seat { at, watch, ref mut prelude, .. } = self.seats[index];
        let most = if watch == Watch::Connection { PIECE } else { WATCHED_PIECE };
        let piece = if !prelude.is_empty() {
            prelude.split_to(prelude.len().min(most))
        } else if at < self.head {
            let piece = self.copy(at, most);
            self.seats[index].at += piece.len() as u64;
            Bytes::from(piece)
        } else {
            return None;
        };
        // Whoever looked before may not look again until the time is over.
        if matches!(watch, Watch::Waiting(_)) {
            self.seats[index].watch = Watch::Log;
            let _ = self.patience(patience);
        }
        Some(piece)
    }

    /// Until when the next of the watched readers has to take something. Only whoever asks starts the clock, so that an event
    /// costs nothing. `None` without such readers.
    pub fn patience(&mut self, patience: Duration) -> Option<Instant> {
        let ended = matches!(self.end, End::Finished | End::Cut);
        let now = Instant::now();
        let mut next = None;
        for seat in self.seats.iter_mut().filter(|seat| seat.watch != Watch::Connection) {
            let until = match seat.watch {
                Watch::Waiting(since) => since + patience,
                _ if ended || seat.at < self.head || !seat.prelude.is_empty() => {
                    seat.watch = Watch::Waiting(now);
                    now + patience
                }
                // Nothing waits for it now, and may in a moment.
                _ => now + patience,
            };
            next = Some(next.map_or(until, |next: Instant| next.min(until)));
        }
        next
    }

    /// Takes away readers for whom this is so. Their bodies end with an error if they are ever asked for again.
    pub fn dismiss(&mut self, is_over: impl Fn(&Seat) -> bool) -> Vec<Seat> {
        let mut over = Vec::new();
        while let Some(index) = self.seats.iter().position(&is_over) {
            over.push(self.seats.swap_remove(index));
        }
        if !over.is_empty() && self.seats.is_empty() {
            self.alone = Instant::now();
        }
        over
    }

    /// The chunks that may go: what no reader needs any more, or too few to matter.
    pub fn trim(&mut self, bound: usize, given_up: bool) -> Vec<Chunk> {
        let (fastest, slowest) = self.read();
        let mut held = self.held();
        let mut trimmed = Vec::new();
        while let Some(chunk) = self.chunks.front() {
            let end = chunk.at + chunk.bytes.len() as u64;
            let due = (held > bound && end <= fastest) || (given_up && end <= slowest);
            if !due {
                break;
            }
            held = held.saturating_sub(chunk.bytes.len() + CHUNK_COST);
            trimmed.extend(self.chunks.pop_front());
        }
        trimmed
    }
}
