//! Bytes, cut anywhere, to messages.

use super::decode::{self, Said};
use super::{Broken, FRAME_LIMIT, HEADER, MEDIA_TYPE};
use std::fmt;

/// Bytes of room that are kept from one frame for the next.
const ROOM: usize = 64 << 10;

/// Takes a body apart into frames. Holds at most one frame that is not whole yet.
#[derive(Debug)]
pub struct Decoder {
    held: Vec<u8>,
    limit: usize,
    fault: Option<Fault>,
}

/// What the bytes so far come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything was taken; the next frame is not whole yet.
    More,
    /// An event.
    Event {
        /// its JSON text
        text: String,
        /// content parts inside it of a later protocol, left out as the real reader does
        dropped: usize,
    },
    /// An event of a later protocol. The next frame can be read.
    Unknown {
        /// its message
        message: Vec<u8>,
    },
    /// A frame that holds no event. The next one can be read.
    Malformed {
        /// its message
        message: Vec<u8>,
        /// what is wrong with it
        why: Broken,
    },
    /// Nothing more can be read.
    Broken(Fault),
}

/// Why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A frame calls itself larger than it may be, or is as JSON.
    FrameTooLarge {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::FrameTooLarge { limit } => write!(f, "an event of the stream is larger than {limit} bytes"),
        }
    }
}

impl std::error::Error for Fault {}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new(FRAME_LIMIT)
    }
}

impl Decoder {
    /// A decoder whose frames, and their JSON texts, have up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Decoder { held: Vec::new(), limit, fault: None }
    }

    /// The next frame of `rest`, from which it takes what it has read.
    pub fn next(&mut self, rest: &mut &[u8]) -> Step {
        if let Some(fault) = self.fault {
            return Step::Broken(fault);
        }
        // A frame is judged by the size that it declares, before its bytes are waited for.
        if !self.gather(HEADER, rest) {
            return Step::More;
        }
        let mut header = [0; HEADER];
        header.copy_from_slice(&self.held[..HEADER]);
        let size = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX).saturating_add(HEADER);
        if size > self.limit {
            return self.too_large();
        }
        if !self.gather(size, rest) {
            return Step::More;
        }
        let step = match decode::event(&self.held[HEADER..], self.limit) {
            Ok(Said::Event { text, dropped }) => Step::Event { text, dropped },
            Ok(Said::Unknown) => Step::Unknown { message: self.held.split_off(HEADER) },
            Err(Broken::TooLarge) => return self.too_large(),
            Err(why) => Step::Malformed { message: self.held.split_off(HEADER), why },
        };
        // A large frame is rare; its room is not kept for the small ones behind it.
        if self.held.capacity() > ROOM {
            self.held = Vec::new();
        } else {
            self.held.clear();
        }
        step
    }

    /// Whether a frame has begun and is not whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.held.is_empty()
    }

    fn too_large(&mut self) -> Step {
        let fault = Fault::FrameTooLarge { limit: self.limit };
        (self.fault, self.held) = (Some(fault), Vec::new());
        Step::Broken(fault)
    }

    /// Moves bytes from `rest` until `size` of them are held; `false` when there are not so many.
    fn gather(&mut self, size: usize, rest: &mut &[u8]) -> bool {
        let taken = size.saturating_sub(self.held.len()).min(rest.len());
        let (piece, after) = rest.split_at(taken);
        self.held.extend_from_slice(piece);
        *rest = after;
        self.held.len() >= size
    }
}

/// A message as text, for where it has to travel as a value: a `data:` URL [RFC 2397].
#[must_use]
pub fn as_text(message: &[u8]) -> String {
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
