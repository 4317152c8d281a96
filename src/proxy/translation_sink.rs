//! Translates pieces of an agent's body into a batch for the client.

use super::deadlines::now_millis;
use crate::translate::{Stream, StreamError};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of bytes collected per write while the agent has more data ready.
const BATCH: usize = 32 << 10;

pub(super) struct TranslationSink<'r> {
    stream: &'r mut Stream,
    out: &'r mut Vec<u8>,
    pub(super) bytes_read: usize,
    pub(super) translate_time: Duration,
    pub(super) fault: Option<StreamError>,
}

impl<'r> TranslationSink<'r> {
    pub(super) fn new(stream: &'r mut Stream, out: &'r mut Vec<u8>) -> Self {
        TranslationSink { stream, out, bytes_read: 0, translate_time: Duration::ZERO, fault: None }
    }

    pub(super) fn translate(&mut self, bytes: &[u8]) {
        self.bytes_read += bytes.len();
        let started_at = Instant::now();
        if let Err(fault) = self.stream.push(bytes, now_millis(), self.out) {
            self.fault = Some(fault);
        }
        self.translate_time += started_at.elapsed();
    }

    pub(super) fn has_room(&self) -> bool {
        self.fault.is_none() && self.out.len() < BATCH && self.stream.ending().is_none()
    }
}
