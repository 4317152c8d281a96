//! Splits the agent's body, in either framing, into events.

use super::StreamError;
use crate::codec::sse::{self, SseLimits};
use crate::codec::{Framing, proto};
use std::ops::ControlFlow;

#[derive(Clone, Copy, Debug)]
pub(super) struct AgentFrame<'a> {
    pub(crate) data: &'a str,
    pub(crate) id: Option<&'a str>,
    pub(crate) event_line: Option<&'a str>,
    pub(crate) dropped_parts: usize,
}

impl<'a> AgentFrame<'a> {
    pub(crate) const fn from_data(data: &'a str) -> Self {
        AgentFrame { data, id: None, event_line: None, dropped_parts: 0 }
    }

    /// Returns the length of the shortest SSE frame with this content.
    pub(crate) const fn sse_length(&self) -> usize {
        const FRAMING: usize = "data:\n\n".len();
        FRAMING + self.data.len() + if let Some(name) = self.event_line { "event:\n".len() + name.len() } else { 0 }
    }

    fn from_sse(frame: &'a sse::SseFrame<'_>) -> Self {
        AgentFrame { id: frame.id.as_deref(), event_line: frame.event.as_deref(), ..AgentFrame::from_data(&frame.data) }
    }
}

#[derive(Debug)]
pub(super) struct FrameReader {
    limits: SseLimits,
    decoder: FrameDecoder,
}

#[derive(Debug)]
enum FrameDecoder {
    Sse(sse::SseDecoder),
    Proto(proto::ProtoDecoder),
}

impl FrameReader {
    pub(crate) fn new(framing: Framing, limits: SseLimits) -> Self {
        let decoder = match framing {
            Framing::Sse => FrameDecoder::Sse(sse::SseDecoder::new(limits)),
            Framing::Proto => FrameDecoder::Proto(proto::ProtoDecoder::new(limits.frame)),
        };
        FrameReader { limits, decoder }
    }

    pub(crate) fn limits(&self) -> SseLimits {
        self.limits
    }

    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        match &self.decoder {
            FrameDecoder::Sse(decoder) => decoder.retry(),
            FrameDecoder::Proto(_) => None,
        }
    }

    /// Takes the number of lines that are no part of an event because of a byte order mark before their field.
    pub(crate) fn take_marked_lines(&mut self) -> u64 {
        match &mut self.decoder {
            FrameDecoder::Sse(decoder) => decoder.take_marked_lines(),
            FrameDecoder::Proto(_) => 0,
        }
    }

    /// Returns the memory of an unfinished frame.
    pub(crate) fn heap_size(&self) -> usize {
        match &self.decoder {
            FrameDecoder::Sse(decoder) => decoder.heap_size(),
            FrameDecoder::Proto(decoder) => decoder.heap_size(),
        }
    }

    /// Returns false if `next` only continues an unfinished frame.
    pub(crate) fn may_complete(&self, next: &[u8]) -> bool {
        match &self.decoder {
            FrameDecoder::Sse(_) => memchr::memchr2(b'\n', b'\r', next).is_some(),
            FrameDecoder::Proto(_) => true,
        }
    }

    /// Discards unfinished data before another body with the same framing.
    pub(crate) fn restart(&mut self) {
        match &mut self.decoder {
            FrameDecoder::Sse(decoder) => decoder.restart(),
            FrameDecoder::Proto(decoder) => *decoder = proto::ProtoDecoder::new(self.limits.frame),
        }
    }

    /// Decodes bytes and passes each frame to `on_frame`, until it breaks. Returns the bytes that are left. Fails if a
    /// limit is exceeded or `on_frame` fails.
    pub(crate) fn push<'b>(
        &mut self,
        mut bytes: &'b [u8],
        on_frame: &mut impl FnMut(AgentFrame<'_>) -> Result<ControlFlow<()>, StreamError>,
    ) -> Result<&'b [u8], StreamError> {
        loop {
            let flow = match &mut self.decoder {
                FrameDecoder::Sse(decoder) => match decoder.next(&mut bytes) {
                    sse::SseStep::More => return Ok(bytes),
                    sse::SseStep::Frame(frame) => on_frame(AgentFrame::from_sse(&frame))?,
                    sse::SseStep::Failed(fault) => return Err(StreamError::Framing(fault)),
                },
                FrameDecoder::Proto(decoder) => match decoder.next(&mut bytes) {
                    proto::ProtoStep::More => return Ok(bytes),
                    proto::ProtoStep::Event { text, dropped } => {
                        on_frame(AgentFrame { dropped_parts: dropped, ..AgentFrame::from_data(&text) })?
                    }
                    // Unknown and malformed messages are passed on unchanged, like a malformed SSE frame.
                    proto::ProtoStep::Unknown { message } | proto::ProtoStep::Malformed { message, .. } => {
                        on_frame(AgentFrame::from_data(&proto::to_data_url(&message)))?
                    }
                    proto::ProtoStep::Failed(proto::ProtoError::FrameTooLarge { limit }) => {
                        return Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit }));
                    }
                },
            };
            if flow.is_break() {
                return Ok(bytes);
            }
        }
    }

    /// Ends the body. The last SSE event may lack its blank line; a truncated frame is dropped.
    pub(crate) fn finish(
        &mut self,
        on_frame: &mut impl FnMut(AgentFrame<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let FrameDecoder::Sse(decoder) = &mut self.decoder else {
            return Ok(());
        };
        loop {
            match decoder.finish() {
                sse::SseStep::More => return Ok(()),
                sse::SseStep::Frame(frame) => {
                    on_frame(AgentFrame::from_sse(&frame))?;
                }
                sse::SseStep::Failed(fault) => return Err(StreamError::Framing(fault)),
            }
        }
    }
}
