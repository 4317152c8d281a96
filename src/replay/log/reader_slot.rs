//! One reader of a log, as the log sees it.

use super::{CHUNK_OVERHEAD, LogChunk, LogPhase, LogState, MAX_READ, MAX_WATCHED_READ};
use bytes::Bytes;
use std::fmt::Debug;
use std::task::Waker;
use std::time::Duration;
use tokio::time::Instant;

/// What a reader holds for as long as it takes part.
pub(crate) trait ReaderResource: Debug + Send {}

impl<T: Debug + Send> ReaderResource for T {}

#[derive(Debug)]
pub(super) struct ReaderSlot {
    /// which of the readers that there were
    pub(crate) number: u64,
    /// how far it has read
    pub(crate) offset: u64,
    /// what it gets before it reads on
    pub(crate) prelude: Bytes,
    /// whether a comment is due that keeps its connection alive
    pub(crate) comment_due: bool,
    /// somebody has to see that it takes something; when it was first seen to wait since it last did
    pub(crate) stall_watch: StallWatch,
    pub(crate) waker: Option<Waker>,
    #[expect(dead_code, reason = "held, never read")]
    pub(crate) resource: Box<dyn ReaderResource>,
}

/// Who sees that a reader takes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallWatch {
    /// its connection
    Connection,
    /// the log; nothing was seen to wait for it
    Log,
    /// the log; something waits for it since then
    Waiting(Instant),
}

impl ReaderSlot {
    fn backlog(&self, head: u64) -> usize {
        usize::try_from(head - self.offset).unwrap_or(usize::MAX).saturating_add(self.prelude.len())
    }
}

impl LogState {
    /// How far behind the fastest reader is; `None` without a reader.
    pub(crate) fn min_backlog(&self) -> Option<usize> {
        self.readers.iter().map(|seat| seat.backlog(self.end_offset)).min()
    }

    /// How far the fastest and the slowest reader are.
    pub(crate) fn read_range(&self) -> (u64, u64) {
        let at = || self.readers.iter().map(|seat| seat.offset);
        (at().max().unwrap_or(self.end_offset), at().min().unwrap_or(self.end_offset))
    }

    pub(crate) fn reader(&mut self, number: u64) -> Option<&mut ReaderSlot> {
        self.readers.iter_mut().find(|seat| seat.number == number)
    }

    /// What leaves next to a reader, if it is there.
    pub(crate) fn take_next(&mut self, number: u64, stall_timeout: Duration) -> Option<Bytes> {
        let index = self.readers.iter().position(|seat| seat.number == number)?;
        let ReaderSlot { offset: at, stall_watch: watch, ref mut prelude, .. } = self.readers[index];
        let most = if watch == StallWatch::Connection { MAX_READ } else { MAX_WATCHED_READ };
        let piece = if !prelude.is_empty() {
            prelude.split_to(prelude.len().min(most))
        } else if at < self.end_offset {
            let piece = self.copy(at, most);
            self.readers[index].offset += piece.len() as u64;
            Bytes::from(piece)
        } else {
            return None;
        };
        // Whoever looked before may not look again until the time is over.
        if matches!(watch, StallWatch::Waiting(_)) {
            self.readers[index].stall_watch = StallWatch::Log;
            let _ = self.next_stall(stall_timeout);
        }
        Some(piece)
    }

    /// Until when the next of the watched readers has to take something. Only whoever asks starts the clock, so that an event
    /// costs nothing. `None` without such readers.
    pub(crate) fn next_stall(&mut self, patience: Duration) -> Option<Instant> {
        let ended = matches!(self.phase, LogPhase::Finished | LogPhase::Cut);
        let now = Instant::now();
        let mut next = None;
        for seat in self.readers.iter_mut().filter(|seat| seat.stall_watch != StallWatch::Connection) {
            let until = match seat.stall_watch {
                StallWatch::Waiting(since) => since + patience,
                _ if ended || seat.offset < self.end_offset || !seat.prelude.is_empty() => {
                    seat.stall_watch = StallWatch::Waiting(now);
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
    pub(crate) fn remove_readers(&mut self, is_over: impl Fn(&ReaderSlot) -> bool) -> Vec<ReaderSlot> {
        let mut over = Vec::new();
        while let Some(index) = self.readers.iter().position(&is_over) {
            over.push(self.readers.swap_remove(index));
        }
        if !over.is_empty() && self.readers.is_empty() {
            self.unread_since = Instant::now();
        }
        over
    }

    /// The chunks that may go: what no reader needs any more, or too few to matter.
    pub(crate) fn trim(&mut self, bound: usize, given_up: bool) -> Vec<LogChunk> {
        let (fastest, slowest) = self.read_range();
        let mut held = self.retained_bytes();
        let mut trimmed = Vec::new();
        while let Some(chunk) = self.chunks.front() {
            let end = chunk.offset + chunk.bytes.len() as u64;
            let due = (held > bound && end <= fastest) || (given_up && end <= slowest);
            if !due {
                break;
            }
            held = held.saturating_sub(chunk.bytes.len() + CHUNK_OVERHEAD);
            trimmed.extend(self.chunks.pop_front());
        }
        trimmed
    }
}
