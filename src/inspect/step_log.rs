//! The log of a run: its steps in their order, each with the bytes of the agent's body that belong to it.
//!
//! ```text
//!   chunk │ time, length │ bytes … │ time, length │ by
//!   chunk │ tes │ time, STEP │ time, length │ bytes … │ free
//! ```
//! Chunks are never moved: a buffer that grows copies what it has, and the logs of many runs that began together grow
//! at the same moment.

use super::capture_step::{CaptureStep, LogEntry};

/// Size of a chunk, unless a step needs more. With 8 KiB, 1,000 logs that are full together take 5 ms for their next
/// chunks, most of it page faults, and 3 ms with this.
const CHUNK: usize = 2 << 10;

/// Bytes of a time and a length.
const HEADER: usize = 2 * size_of::<u64>();

/// Stands in place of a length for a step without bytes.
const STEP: u64 = u64::MAX;

/// Memory of a place in a list that doubles when it is full.
const fn list_place<T>() -> usize {
    2 * size_of::<T>()
}

/// The part of a log that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadPosition {
    chunk: usize,
    offset: usize,
    /// steps without bytes
    steps: usize,
}

#[derive(Debug, Default)]
pub(super) struct StepLog {
    /// all but the last are full
    chunks: Vec<Vec<u8>>,
    /// steps without bytes, in their order
    steps: Vec<CaptureStep>,
    body_bytes: usize,
}

impl StepLog {
    /// Returns the memory by which the log grows with this step and its bytes.
    pub(super) fn growth(&self, step: &CaptureStep, bytes: usize) -> usize {
        let own = match step {
            CaptureStep::Read(_) => 0,
            step => list_place::<CaptureStep>() + step.text_bytes(),
        };
        own + self.next_chunk(HEADER + bytes).map_or(0, |chunk| chunk + list_place::<Vec<u8>>())
    }

    pub(super) fn push(&mut self, now_ms: i64, step: CaptureStep, bytes: &[u8]) {
        let mut chunk = self.next_chunk(HEADER + bytes.len()).map(Vec::with_capacity);
        let length = match step {
            CaptureStep::Read(_) => bytes.len() as u64,
            step => {
                self.steps.push(step);
                STEP
            }
        };
        for part in [&now_ms.to_le_bytes()[..], &length.to_le_bytes(), bytes] {
            let (fitting, rest) = part.split_at(part.len().min(self.free_bytes()));
            if let Some(last) = self.chunks.last_mut() {
                last.extend_from_slice(fitting);
            }
            if !rest.is_empty() {
                // Needed once: it has room for all that does not fit into the last one.
                let mut chunk = chunk.take().unwrap_or_default();
                chunk.extend_from_slice(rest);
                self.chunks.push(chunk);
            }
        }
        self.body_bytes += bytes.len();
    }

    /// Returns the size of the chunk that is needed beside what is free.
    fn next_chunk(&self, needed: usize) -> Option<usize> {
        let lacking = needed.saturating_sub(self.free_bytes());
        (lacking > 0).then(|| lacking.max(CHUNK))
    }

    fn free_bytes(&self) -> usize {
        self.chunks.last().map_or(0, |last| last.capacity() - last.len())
    }

    pub(super) const fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Returns the next entry, and appends its bytes to `body`.
    pub(super) fn read_next(&self, read: &mut ReadPosition, body: &mut Vec<u8>) -> Option<LogEntry> {
        self.read_with(read, |part| body.extend_from_slice(part))
    }

    /// Returns all entries, without their bytes.
    pub(super) fn entries(&self) -> impl Iterator<Item = LogEntry> {
        let mut read = ReadPosition::default();
        std::iter::from_fn(move || self.read_with(&mut read, |_| {}))
    }

    fn read_with(&self, read: &mut ReadPosition, on_body: impl FnMut(&[u8])) -> Option<LogEntry> {
        let now_ms = i64::from_le_bytes(self.read_word(read)?);
        let length = u64::from_le_bytes(self.read_word(read)?);
        if length == STEP {
            let step = self.steps.get(read.steps)?.clone();
            read.steps += 1;
            return Some(LogEntry { now_ms, step });
        }
        let length = usize::try_from(length).ok()?;
        self.read_parts(read, length, on_body);
        Some(LogEntry { now_ms, step: CaptureStep::Read(length) })
    }

    fn read_word(&self, read: &mut ReadPosition) -> Option<[u8; 8]> {
        let (mut word, mut length) = ([0; 8], 0);
        self.read_parts(read, word.len(), |part| {
            word[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        });
        (length == word.len()).then_some(word)
    }

    /// Reads the next bytes, as far as there are so many.
    fn read_parts(&self, read: &mut ReadPosition, mut length: usize, mut on_part: impl FnMut(&[u8])) {
        while length > 0 {
            let Some(chunk) = self.chunks.get(read.chunk) else { return };
            let unread = &chunk[read.offset..];
            if unread.is_empty() {
                if read.chunk + 1 == self.chunks.len() {
                    return;
                }
                *read = ReadPosition { chunk: read.chunk + 1, offset: 0, ..*read };
                continue;
            }
            let part = &unread[..length.min(unread.len())];
            on_part(part);
            read.offset += part.len();
            length -= part.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;

    /// Steps of all kinds, with reads from nothing to more than a chunk.
    fn steps() -> Vec<(i64, CaptureStep, Vec<u8>)> {
        let mut steps = vec![(-5, CaptureStep::Responded(Framing::Sse), Vec::new())];
        for length in (0..200).chain([CHUNK - HEADER, CHUNK, 3 * CHUNK, 1]) {
            let bytes = (0..length).map(|at| u8::try_from((at * 31 + length) % 251).expect("small")).collect();
            steps.push((length as i64, CaptureStep::Read(length), bytes));
        }
        steps.push((900, CaptureStep::Reconnected, Vec::new()));
        steps.push((901, CaptureStep::Failed(Box::new(("code".to_owned(), "message".to_owned()))), Vec::new()));
        steps
    }

    #[test]
    fn steps_come_back_with_their_bytes_while_more_are_written() {
        let (mut log, mut read, mut reader) = (StepLog::default(), Vec::new(), ReadPosition::default());
        let mut read_all = |log: &StepLog| {
            let mut body = Vec::new();
            while let Some(entry) = log.read_next(&mut reader, &mut body) {
                read.push((entry.now_ms, entry.step, std::mem::take(&mut body)));
            }
        };
        for (at, (now_ms, step, bytes)) in steps().into_iter().enumerate() {
            log.push(now_ms, step, &bytes);
            if at % 7 == 0 {
                read_all(&log);
            }
        }
        read_all(&log);
        assert_eq!(read, steps());
        let entries: Vec<_> = log.entries().map(|entry| (entry.now_ms, entry.step)).collect();
        assert_eq!(entries, steps().into_iter().map(|(now_ms, step, _)| (now_ms, step)).collect::<Vec<_>>());
        assert_eq!(log.body_bytes(), steps().iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>());
    }

    #[test]
    fn grows_by_what_it_announces_and_moves_nothing() {
        let mut log = StepLog::default();
        let mut announced = 0;
        let mut addresses: Vec<*const u8> = Vec::new();
        for (now_ms, step, bytes) in steps().into_iter().cycle().take(2_000) {
            announced += log.growth(&step, bytes.len());
            log.push(now_ms, step, &bytes);
            let now: Vec<_> = log.chunks.iter().map(|chunk| chunk.as_ptr()).collect();
            assert_eq!(now[..addresses.len()], addresses, "a chunk was moved");
            addresses = now;
        }
        let texts: usize = log.steps.iter().map(CaptureStep::text_bytes).sum();
        let chunks: usize = log.chunks.iter().map(Vec::capacity).sum();
        let places = log.chunks.len() * list_place::<Vec<u8>>() + log.steps.len() * list_place::<CaptureStep>();
        assert_eq!(announced, chunks + places + texts);
        // Only the last chunk has free bytes.
        assert!(chunks - log.body_bytes() - 2_000 * HEADER <= CHUNK);
    }
}
