//! The parts of the SSE decoder that only the crate uses: limits, event names, the end of a body.

use crate::codec::sse::{SseDecoder, SseFrame, SseLimits, SseStep};

/// A frame, copied out of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame {
    pub data: String,
    pub event: Option<String>,
    pub id: Option<String>,
}

/// The frames of a body, and whether it was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct DecodedBody {
    pub frames: Vec<OwnedFrame>,
    pub is_refused: bool,
}

/// Decodes a body that arrives in these pieces and ends cleanly.
#[must_use]
pub fn decode_sse<'p>(limits: SseLimits, pieces: impl IntoIterator<Item = &'p [u8]>) -> DecodedBody {
    let mut decoder = SseDecoder::new(limits);
    let mut body = DecodedBody { frames: Vec::new(), is_refused: false };
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                SseStep::Frame(frame) => body.frames.push(to_owned(frame)),
                SseStep::More => break,
                SseStep::Failed(_) => return DecodedBody { is_refused: true, ..body },
            }
        }
    }
    loop {
        match decoder.finish() {
            SseStep::Frame(frame) => body.frames.push(to_owned(frame)),
            SseStep::More => return body,
            SseStep::Failed(_) => return DecodedBody { is_refused: true, ..body },
        }
    }
}

fn to_owned(frame: SseFrame<'_>) -> OwnedFrame {
    OwnedFrame {
        data: frame.data.into_owned(),
        event: frame.event.map(|event| event.into_owned()),
        id: frame.id.map(|id| id.into_owned()),
    }
}
