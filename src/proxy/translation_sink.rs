//! Translates pieces of an agent's body into a batch for the client, and lets other tasks run in between.
//!
//! ```text
//!   piece ─▶ slice, slice, … ─▶ Stream ─▶ batch
//!               ╰── the turn is over ──▶ AgentBacklog ── next turn ──▶
//! ```
//! A piece can be 64 KiB of events that take a hundred times as long as ordinary ones, and an agent that floods the
//! gateway never lets its run wait. So a run reads and translates for a millisecond, and then the other runs of its
//! thread do. A large event cannot be divided: the other runs move to another thread.

use super::deadlines::now_millis;
use super::run_memory::RunMemoryShare;
use super::spare_buffer;
use crate::inspect::RunCapture;
use crate::net::cpu_work::{LargeWorkPermit, is_small, run_sized, try_large_work, wait_for_large_work};
use crate::translate::{Stream, StreamError};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of bytes collected per write while the agent has more data ready.
const BATCH: usize = 32 << 10;

/// Number of bytes for the client at which a turn is over. A few of the agent's bytes can become many, since a client
/// may get the whole id of a message with each of its pieces.
const MAX_OUTPUT: usize = 64 << 10;

/// Number of bytes after which the time is checked.
const SLICE: usize = 4 << 10;

/// Time after which other tasks of the thread run.
const TURN: Duration = Duration::from_millis(1);

/// The agent's bytes that were read, but not translated within their turn.
#[derive(Debug, Default)]
pub(super) struct AgentBacklog {
    bytes: Vec<u8>,
    translated: usize,
    is_turn_over: bool,
    /// size of the large event that waits until less is worked on
    waiting: usize,
    permit: Option<LargeWorkPermit>,
}

impl AgentBacklog {
    /// Lets other tasks run if the last turn was used up.
    pub(super) async fn wait_for_turn(&mut self) {
        if std::mem::take(&mut self.is_turn_over) {
            tokio::task::yield_now().await;
        }
    }

    pub(super) const fn has_large_event(&self) -> bool {
        self.waiting > 0
    }

    /// Waits until a large event may be translated, which must follow: others wait for the permit.
    pub(super) async fn wait_for_large_work(&mut self) {
        self.permit = Some(wait_for_large_work(std::mem::take(&mut self.waiting)).await);
    }

    /// Returns true if work on input of this size may begin; the turn is over otherwise.
    fn may_work(&mut self, bytes: usize) -> bool {
        self.permit = self.permit.take().or_else(|| try_large_work(bytes));
        if self.permit.is_none() {
            (self.waiting, self.is_turn_over) = (bytes, true);
        }
        self.permit.is_some()
    }
}

pub(super) struct TranslationSink<'r> {
    stream: &'r mut Stream,
    memory: &'r mut RunMemoryShare,
    out: &'r mut Vec<u8>,
    backlog: &'r mut AgentBacklog,
    pub(super) capture: Option<&'r RunCapture>,
    /// when the first piece arrived
    began_at: Option<Instant>,
    /// when the last slice was translated
    pub(super) ended_at: Option<Instant>,
    pub(super) bytes_read: usize,
    pub(super) translate_time: Duration,
    pub(super) fault: Option<StreamError>,
}

impl<'r> TranslationSink<'r> {
    pub(super) fn new(
        stream: &'r mut Stream,
        memory: &'r mut RunMemoryShare,
        out: &'r mut Vec<u8>,
        backlog: &'r mut AgentBacklog,
    ) -> Self {
        TranslationSink {
            stream,
            memory,
            out,
            backlog,
            capture: None,
            began_at: None,
            ended_at: None,
            bytes_read: 0,
            translate_time: Duration::ZERO,
            fault: None,
        }
    }

    /// Translates a piece, or stores the rest of it for the next turn.
    pub(super) fn translate(&mut self, bytes: &[u8]) {
        let rest = self.work(bytes);
        self.backlog.bytes.extend_from_slice(rest);
    }

    /// Translates within the turn, and returns the bytes that are left.
    fn work<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        // `held_bytes` is an upper bound that costs nothing. The exact size matters only for a large event.
        let most = self.memory.held_bytes() + bytes.len();
        let size = if is_small(most) { most } else { self.stream.pending_bytes(bytes) + bytes.len() };
        if self.backlog.is_turn_over || !self.backlog.may_work(size) {
            return bytes;
        }
        let rest = run_sized(size, || self.translate_turn(bytes));
        self.backlog.permit = None;
        rest
    }

    /// Continues with the rest of the last piece. Returns `false` if there is none.
    pub(super) fn translate_backlog(&mut self) -> bool {
        if self.backlog.bytes.is_empty() {
            return false;
        }
        let bytes = std::mem::take(&mut self.backlog.bytes);
        let unread = &bytes[self.backlog.translated..];
        let rest = self.work(unread).len();
        if rest == 0 {
            self.backlog.translated = 0;
        } else {
            self.backlog.translated = bytes.len() - rest;
            self.backlog.bytes = bytes;
        }
        true
    }

    /// Returns the bytes that are left when the turn is over.
    fn translate_turn<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        let started_at = Instant::now();
        // Reading and decoding count, too: most of a body may be chunk extensions.
        let spent_before = self.began_at.map_or(Duration::ZERO, |began_at| started_at.duration_since(began_at));
        let began_at = *self.began_at.get_or_insert(started_at);
        // Not earlier: a run that waits for its agent must not hold the thread's buffer.
        if self.out.capacity() == 0 {
            *self.out = spare_buffer::take();
        }
        let mut ended_at = started_at;
        let mut spent = spent_before;
        while !bytes.is_empty() && !self.backlog.is_turn_over {
            let slice = next_slice(bytes);
            let now = now_millis();
            let pushed = self.stream.push_until(MAX_OUTPUT, slice, now, self.out);
            let unread = pushed.as_ref().map_or(0, |unread| unread.len());
            let read = slice.len() - unread;
            self.bytes_read += read;
            if let Some(capture) = self.capture {
                capture.record_read(now, &slice[..read]);
            }
            bytes = &bytes[read..];
            if let Err(fault) = pushed {
                self.fault = Some(fault);
                bytes = &[];
            }
            // Events after the end of the run are only counted.
            ended_at = Instant::now();
            spent = ended_at.duration_since(began_at);
            let is_over = spent >= TURN || self.out.len() >= MAX_OUTPUT;
            self.backlog.is_turn_over = is_over && self.stream.ending().is_none();
        }
        self.memory.resize(self.stream.retained_bytes());
        self.translate_time += spent - spent_before;
        self.ended_at = Some(ended_at);
        bytes
    }

    /// Returns the most that may be read at once.
    pub(super) fn max_read(&self) -> usize {
        self.memory.max_read()
    }

    pub(super) fn has_room(&mut self) -> bool {
        self.fault.is_none()
            && self.memory.try_grow()
            && !self.backlog.is_turn_over
            && self.out.len() < BATCH
            && self.stream.ending().is_none()
    }
}

/// Returns the next slice, which ends with a line, so that the decoder need not copy the beginning of the next.
fn next_slice(bytes: &[u8]) -> &[u8] {
    let Some(slice) = bytes.get(..SLICE) else { return bytes };
    let end = memchr::memrchr(b'\n', slice).map_or(SLICE, |at| at + 1);
    &slice[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sse::SseLimits;
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::proxy::run_memory::RunMemory;
    use crate::telemetry::Metrics;
    use std::sync::Arc;

    #[test]
    fn translates_the_same_however_often_the_turn_ends() {
        let side = PeerDialect::new(&AG_UI);
        let text = r#"data: {"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}"#;
        let frames = format!("{text}\n\n").repeat(3 * SLICE / text.len());
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let translate = |turn_ends: bool| {
            let mut stream = Stream::new(side, side, None, SseLimits::default());
            let (mut out, mut backlog) = (Vec::new(), AgentBacklog::default());
            let mut turns = 0;
            let mut memory = RunMemory::new(usize::MAX, Arc::clone(&metrics)).start_run([0; 32]);
            TranslationSink::new(&mut stream, &mut memory, &mut out, &mut backlog).translate(b"");
            backlog.bytes = frames.clone().into_bytes();
            loop {
                turns += 1;
                let mut sink = TranslationSink::new(&mut stream, &mut memory, &mut out, &mut backlog);
                // As if the turns before had taken their time.
                sink.began_at = Instant::now().checked_sub(if turn_ends { TURN } else { Duration::ZERO });
                let had_backlog = sink.translate_backlog();
                backlog.is_turn_over = false;
                if !had_backlog {
                    return (out, turns);
                }
            }
        };
        let (whole, _) = translate(false);
        let (parts, turns) = translate(true);
        assert_eq!(String::from_utf8(parts), String::from_utf8(whole));
        assert!(turns > 3, "{turns} turns");
    }
}
