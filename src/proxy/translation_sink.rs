//! Translates pieces of an agent's body into a batch for the client.

use super::deadlines::now_millis;
use super::run_memory::{RunMemoryFull, RunMemoryShare};
use crate::translate::{Stream, StreamError};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of bytes collected per write while the agent has more data ready.
const BATCH: usize = 32 << 10;

pub(super) struct TranslationSink<'r> {
    stream: &'r mut Stream,
    memory: &'r mut RunMemoryShare,
    out: &'r mut Vec<u8>,
    pub(super) bytes_read: usize,
    pub(super) translate_time: Duration,
    pub(super) fault: Option<SinkFault>,
}

/// The reason why the run must end.
pub(super) enum SinkFault {
    Stream(StreamError),
    MemoryFull,
}

impl From<StreamError> for SinkFault {
    fn from(error: StreamError) -> SinkFault {
        SinkFault::Stream(error)
    }
}

impl<'r> TranslationSink<'r> {
    pub(super) fn new(stream: &'r mut Stream, memory: &'r mut RunMemoryShare, out: &'r mut Vec<u8>) -> Self {
        TranslationSink { stream, memory, out, bytes_read: 0, translate_time: Duration::ZERO, fault: None }
    }

    pub(super) fn translate(&mut self, bytes: &[u8]) {
        self.bytes_read += bytes.len();
        let started_at = Instant::now();
        if let Err(fault) = self.stream.push(bytes, now_millis(), self.out) {
            self.fault = Some(fault.into());
        } else if self.memory.resize(self.stream.retained_bytes()) == Err(RunMemoryFull) {
            self.fault = Some(SinkFault::MemoryFull);
        }
        self.translate_time += started_at.elapsed();
    }

    pub(super) fn has_room(&self) -> bool {
        self.fault.is_none() && self.out.len() < BATCH && self.stream.ending().is_none()
    }
}
