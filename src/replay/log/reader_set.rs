//! The readers of a log: their backlog, next bytes and stalls, and the trimming of chunks.

use super::reader_slot::{ReaderSlot, StallWatch};
use super::{CHUNK_OVERHEAD, LogChunk, LogPhase, LogState, MAX_READ};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

impl LogState {
    pub(crate) fn min_backlog(&self) -> Option<usize> {
        self.readers.iter().map(|slot| slot.backlog(self.end_offset)).min()
    }

    pub(crate) fn reader(&mut self, number: u64) -> Option<&mut ReaderSlot> {
        self.readers.iter_mut().find(|slot| slot.number == number)
    }

    pub(crate) fn take_next(&mut self, number: u64, stall_timeout: Duration) -> Option<Bytes> {
        let index = self.readers.iter().position(|slot| slot.number == number)?;
        let ReaderSlot { offset: at, stall_watch: watch, ref mut recap, .. } = self.readers[index];
        let piece = if !recap.is_empty() {
            recap.split_to(recap.len().min(MAX_READ))
        } else if at < self.end_offset {
            let piece = self.copy(at, MAX_READ);
            self.readers[index].offset += piece.len() as u64;
            Bytes::from(piece)
        } else {
            return None;
        };
        // The stall task may not check again before the timeout, so the next period starts here.
        if matches!(watch, StallWatch::Waiting(_)) {
            self.readers[index].stall_watch = StallWatch::Log;
            let _ = self.next_stall(stall_timeout);
        }
        Some(piece)
    }

    /// Returns when the next watched reader times out. Stalls are detected only here, which keeps writing cheap.
    pub(crate) fn next_stall(&mut self, stall_timeout: Duration) -> Option<Instant> {
        let ended = matches!(self.phase, LogPhase::Finished | LogPhase::Cut);
        let now = Instant::now();
        let mut next = None;
        for slot in self.readers.iter_mut().filter(|slot| slot.stall_watch != StallWatch::Connection) {
            let until = match slot.stall_watch {
                StallWatch::Waiting(since) => since + stall_timeout,
                _ if ended || slot.offset < self.end_offset || !slot.recap.is_empty() => {
                    slot.stall_watch = StallWatch::Waiting(now);
                    now + stall_timeout
                }
                // No data is waiting now, but some may be soon.
                _ => now + stall_timeout,
            };
            next = Some(next.map_or(until, |next: Instant| next.min(until)));
        }
        next
    }

    /// Removes matching readers, whose response bodies then end with an error.
    pub(crate) fn remove_readers(&mut self, matches: impl Fn(&ReaderSlot) -> bool) -> Vec<ReaderSlot> {
        let mut removed = Vec::new();
        while let Some(index) = self.readers.iter().position(&matches) {
            removed.push(self.readers.swap_remove(index));
        }
        if !removed.is_empty() && self.readers.is_empty() {
            self.unread_since = Instant::now();
        }
        removed
    }

    /// Removes the oldest chunks: those in excess of `bound` bytes that the fastest reader has read or, from a
    /// discarded log, those that every reader and the mirror have read.
    pub(crate) fn trim(&mut self, bound: usize) -> Vec<LogChunk> {
        let read = || self.readers.iter().map(|slot| slot.offset);
        let fastest = read().max().unwrap_or(self.end_offset);
        let slowest = read().min().unwrap_or(self.end_offset);
        let slowest = self.mirror_offset.map_or(slowest, |mirror| mirror.min(slowest));
        let mut retained = self.retained_bytes();
        let mut trimmed = Vec::new();
        while let Some(chunk) = self.chunks.front() {
            let end = chunk.offset + chunk.bytes.len() as u64;
            let due = (retained > bound && end <= fastest) || (self.is_discarded && end <= slowest);
            if !due {
                break;
            }
            retained = retained.saturating_sub(chunk.bytes.len() + CHUNK_OVERHEAD);
            trimmed.extend(self.chunks.pop_front());
        }
        trimmed
    }
}
