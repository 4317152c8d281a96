//! The agent's body, in either framing, as texts of events.

use super::Fault;
use crate::codec::sse::{self, Limits};
use crate::codec::{Framing, proto};

/// What a frame says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// the JSON text of an event, or what stands in its place
    pub data: &'a str,
    /// the id that SSE gave it
    pub id: Option<&'a str>,
    /// parts of its content that have no name here and were left out
    pub dropped: usize,
}

impl<'a> Frame<'a> {
    pub const fn whole(data: &'a str) -> Self {
        Frame { data, id: None, dropped: 0 }
    }
}

/// Takes bytes apart into frames, whatever the framing.
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

    /// How long the agent asks to wait before it is asked to go on (`retry`).
    pub fn retry(&self) -> Option<std::time::Duration> {
        match &self.decoder {
            Decoder::Sse(decoder) => decoder.retry(),
            Decoder::Proto(_) => None,
        }
    }

    /// Forgets what is unfinished: another body of the same framing begins.
    pub fn restart(&mut self) {
        match &mut self.decoder {
            Decoder::Sse(decoder) => decoder.restart(),
            Decoder::Proto(decoder) => *decoder = proto::Decoder::new(self.limits.frame),
        }
    }

    /// Takes bytes as they came, and gives each frame to `each`.
    ///
    /// # Errors
    /// When the bytes are beyond a limit, and the first that `each` gives.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(Frame<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        loop {
            match &mut self.decoder {
                Decoder::Sse(decoder) => match decoder.next(&mut bytes) {
                    sse::Step::More => return Ok(()),
                    sse::Step::Frame(frame) => each(Frame { id: frame.id.as_deref(), ..Frame::whole(&frame.data) })?,
                    sse::Step::Broken(fault) => return Err(Fault::Framing(fault)),
                },
                Decoder::Proto(decoder) => match decoder.next(&mut bytes) {
                    proto::Step::More => return Ok(()),
                    proto::Step::Event { text, dropped } => each(Frame { dropped, ..Frame::whole(&text) })?,
                    // What has no name here and what is broken travel as what they are, as a malformed frame of SSE does.
                    proto::Step::Unknown { message } | proto::Step::Malformed { message, .. } => {
                        each(Frame::whole(&proto::as_text(&message)))?;
                    }
                    proto::Step::Broken(proto::Fault::FrameTooLarge { limit }) => {
                        return Err(Fault::Framing(sse::Fault::FrameTooLarge { limit }));
                    }
                },
            }
        }
    }

    /// The body has ended. A last event of SSE may lack its blank line; a frame that is cut is none.
    ///
    /// # Errors
    /// As [`Frames::push`].
    pub fn finish(&mut self, each: &mut impl FnMut(Frame<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let Decoder::Sse(decoder) = &mut self.decoder else {
            return Ok(());
        };
        loop {
            match decoder.finish() {
                sse::Step::More => return Ok(()),
                sse::Step::Frame(frame) => each(Frame { id: frame.id.as_deref(), ..Frame::whole(&frame.data) })?,
                sse::Step::Broken(fault) => return Err(Fault::Framing(fault)),
            }
        }
    }
}
