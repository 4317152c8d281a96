//! The agent's body, in either framing, as texts of events.

use super::StreamError;
use crate::codec::sse::{self, SseLimits};
use crate::codec::{Framing, proto};

/// What a frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentFrame<'a> {
    /// the JSON text of an event, or what stands in its place
    pub(crate) data: &'a str,
    /// the id that SSE gave it
    pub(crate) id: Option<&'a str>,
    /// parts of its content that have no name here and were left out
    pub(crate) dropped_parts: usize,
}

impl<'a> AgentFrame<'a> {
    pub(crate) const fn from_data(data: &'a str) -> Self {
        AgentFrame { data, id: None, dropped_parts: 0 }
    }
}

/// Takes bytes apart into frames, whatever the framing.
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

    /// How long the agent asks to wait before it is asked to go on (`retry`).
    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        match &self.decoder {
            FrameDecoder::Sse(decoder) => decoder.retry(),
            FrameDecoder::Proto(_) => None,
        }
    }

    /// Forgets what is unfinished: another body of the same framing begins.
    pub(crate) fn restart(&mut self) {
        match &mut self.decoder {
            FrameDecoder::Sse(decoder) => decoder.restart(),
            FrameDecoder::Proto(decoder) => *decoder = proto::ProtoDecoder::new(self.limits.frame),
        }
    }

    /// Takes bytes as they came, and gives each frame to `each`.
    ///
    /// # Errors
    /// When the bytes are beyond a limit, and the first that `each` gives.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        on_frame: &mut impl FnMut(AgentFrame<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        loop {
            match &mut self.decoder {
                FrameDecoder::Sse(decoder) => match decoder.next(&mut bytes) {
                    sse::SseStep::More => return Ok(()),
                    sse::SseStep::Frame(frame) => {
                        on_frame(AgentFrame { id: frame.id.as_deref(), ..AgentFrame::from_data(&frame.data) })?;
                    }
                    sse::SseStep::Failed(fault) => return Err(StreamError::Framing(fault)),
                },
                FrameDecoder::Proto(decoder) => match decoder.next(&mut bytes) {
                    proto::ProtoStep::More => return Ok(()),
                    proto::ProtoStep::Event { text, dropped } => {
                        on_frame(AgentFrame { dropped_parts: dropped, ..AgentFrame::from_data(&text) })?;
                    }
                    // What has no name here and what is broken travel as what they are, as a malformed frame of SSE does.
                    proto::ProtoStep::Unknown { message } | proto::ProtoStep::Malformed { message, .. } => {
                        on_frame(AgentFrame::from_data(&proto::to_data_url(&message)))?;
                    }
                    proto::ProtoStep::Failed(proto::ProtoError::FrameTooLarge { limit }) => {
                        return Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit }));
                    }
                },
            }
        }
    }

    /// The body has ended. A last event of SSE may lack its blank line; a frame that is cut is none.
    ///
    /// # Errors
    /// As [`Frames::push`].
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
                    on_frame(AgentFrame { id: frame.id.as_deref(), ..AgentFrame::from_data(&frame.data) })?;
                }
                sse::SseStep::Failed(fault) => return Err(StreamError::Framing(fault)),
            }
        }
    }
}
