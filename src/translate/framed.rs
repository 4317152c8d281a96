//! The agent's body, in either framing, as texts of events.

use super::Sink;
use super::read::Reader;
use super::report::Loss;
use crate::codec::sse::{self, Limits};
use crate::codec::{Framing, proto};

/// Takes bytes apart into frames, whatever the framing, and gives each to the reader.
#[derive(Debug)]
pub(super) struct Frames {
    limits: Limits,
    decoder: Decoder,
}

#[derive(Debug)]
enum Decoder {
    Sse(sse::Decoder),
    Proto(proto::Decoder),
}

impl Frames {
    pub fn new(framing: Framing, limits: Limits) -> Self {
        let decoder = match framing {
            Framing::Sse => Decoder::Sse(sse::Decoder::new(limits)),
            Framing::Proto => Decoder::Proto(proto::Decoder::new(limits.frame)),
        };
        Frames { limits, decoder }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes bytes as they came.
    pub fn push(&mut self, mut bytes: &[u8], reader: &mut Reader, sink: &mut impl Sink) -> Result<(), sse::Fault> {
        loop {
            match &mut self.decoder {
                Decoder::Sse(decoder) => match decoder.next(&mut bytes) {
                    sse::Step::More => return Ok(()),
                    sse::Step::Frame(frame) => reader.frame(&frame.data, sink),
                    sse::Step::Broken(fault) => return Err(fault),
                },
                Decoder::Proto(decoder) => match decoder.next(&mut bytes) {
                    proto::Step::More => return Ok(()),
                    proto::Step::Event { text, dropped } => {
                        (0..dropped).for_each(|_| sink.report().loss(Loss::UnknownPart));
                        reader.frame(&text, sink);
                    }
                    // What has no name here and what is broken travel as what they are, as a malformed frame of SSE does.
                    proto::Step::Unknown { message } | proto::Step::Malformed { message, .. } => {
                        reader.frame(&proto::as_text(&message), sink);
                    }
                    proto::Step::Broken(proto::Fault::FrameTooLarge { limit }) => {
                        return Err(sse::Fault::FrameTooLarge { limit });
                    }
                },
            }
        }
    }

    /// The body has ended. A last event of SSE may lack its blank line; a frame that is cut is none.
    pub fn finish(&mut self, reader: &mut Reader, sink: &mut impl Sink) -> Result<(), sse::Fault> {
        let Decoder::Sse(decoder) = &mut self.decoder else {
            return Ok(());
        };
        loop {
            match decoder.finish() {
                sse::Step::More => return Ok(()),
                sse::Step::Frame(frame) => reader.frame(&frame.data, sink),
                sse::Step::Broken(fault) => return Err(fault),
            }
        }
    }
}
