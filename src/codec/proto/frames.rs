//! Splits a byte stream, however divided into pushes, into messages.

use super::decode::{self, DecodedMessage};
use super::{FRAME_LIMIT, HEADER_LEN, MEDIA_TYPE, MessageError};
use std::fmt;

/// Buffer capacity in bytes kept for the next frame.
const RETAINED_CAPACITY: usize = 64 << 10;

/// Splits a body into frames, buffering at most one partial frame.
#[derive(Debug)]
pub struct ProtoDecoder {
    buffer: Vec<u8>,
    limit: usize,
    error: Option<ProtoError>,
}

/// The result of a push.
#[derive(Debug, PartialEq, Eq)]
pub enum ProtoStep {
    /// The input ended before the frame did.
    More,
    /// An event.
    Event {
        /// JSON text
        text: String,
        /// number of content parts from a later protocol, dropped as the real reader does
        dropped: usize,
    },
    /// An event from a later protocol; reading can continue.
    Unknown {
        /// the encoded message
        message: Vec<u8>,
    },
    /// A frame without a valid event; reading can continue.
    Malformed {
        /// the encoded message
        message: Vec<u8>,
        /// the reason
        error: MessageError,
    },
    /// The rest of the stream cannot be read.
    Failed(ProtoError),
}

/// The reason why the rest of a stream cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtoError {
    /// A frame exceeds the limit, by its declared size or as JSON.
    FrameTooLarge {
        /// The exceeded limit in bytes.
        limit: usize,
    },
}

impl fmt::Display for ProtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtoError::FrameTooLarge { limit } => write!(f, "an event of the stream is larger than {limit} bytes"),
        }
    }
}

impl std::error::Error for ProtoError {}

impl Default for ProtoDecoder {
    fn default() -> Self {
        ProtoDecoder::new(FRAME_LIMIT)
    }
}

impl ProtoDecoder {
    /// Creates a decoder that limits each frame, and its JSON, to `limit` bytes.
    #[must_use]
    pub(crate) fn new(limit: usize) -> Self {
        ProtoDecoder { buffer: Vec::new(), limit, error: None }
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.buffer.capacity()
    }

    /// Decodes the next frame from `rest`.
    pub fn next(&mut self, rest: &mut &[u8]) -> ProtoStep {
        if let Some(fault) = self.error {
            return ProtoStep::Failed(fault);
        }
        // The declared size of a frame is checked before its bytes arrive.
        if !self.fill_buffer(HEADER_LEN, rest) {
            return ProtoStep::More;
        }
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&self.buffer[..HEADER_LEN]);
        let size = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX).saturating_add(HEADER_LEN);
        if size > self.limit {
            return self.fail_too_large();
        }
        if !self.fill_buffer(size, rest) {
            return ProtoStep::More;
        }
        let step = match decode::decode_event(&self.buffer[HEADER_LEN..], self.limit) {
            Ok(DecodedMessage::Event { text, dropped }) => ProtoStep::Event { text, dropped },
            Ok(DecodedMessage::Unknown) => ProtoStep::Unknown { message: self.buffer.split_off(HEADER_LEN) },
            Err(MessageError::TooLarge) => return self.fail_too_large(),
            Err(why) => ProtoStep::Malformed { message: self.buffer.split_off(HEADER_LEN), error: why },
        };
        // Large frames are rare; do not keep their capacity for the small frames that follow.
        if self.buffer.capacity() > RETAINED_CAPACITY {
            self.buffer = Vec::new();
        } else {
            self.buffer.clear();
        }
        step
    }

    /// Returns true if a partial frame is buffered.
    #[must_use]
    pub fn has_partial_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn fail_too_large(&mut self) -> ProtoStep {
        let fault = ProtoError::FrameTooLarge { limit: self.limit };
        self.error = Some(fault);
        self.buffer = Vec::new();
        ProtoStep::Failed(fault)
    }

    /// Moves bytes from `rest` to the buffer; returns `false` if it still has fewer than `size`.
    fn fill_buffer(&mut self, size: usize, rest: &mut &[u8]) -> bool {
        let taken = size.saturating_sub(self.buffer.len()).min(rest.len());
        let (piece, after) = rest.split_at(taken);
        self.buffer.extend_from_slice(piece);
        *rest = after;
        self.buffer.len() >= size
    }
}

/// Encodes a message as a `data:` URL [RFC 2397].
#[must_use]
pub fn to_data_url(message: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = format!("data:{MEDIA_TYPE};base64,");
    for three in message.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    out
}
