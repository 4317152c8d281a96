//! Server-sent events: bytes to frames ([`Decoder`]) and frames to bytes ([`frame`] and its kin).
//!
//! The rules are those of the WHATWG HTML standard, section 9.2 "Server-sent events"; the sentence
//! that demands a check stands above the check. Two things differ on purpose and are documented
//! where they happen: a last event without its blank line is handed over at a clean end of body
//! ([`Decoder::finish`]), and lines and events have limits ([`Limits`]).
//!
//! | file | turns |
//! |---|---|
//! | `line.rs` | pushes of bytes, cut anywhere, into lines |
//! | `decode.rs` | lines into frames |
//! | `encode.rs` | frames into bytes |

mod decode;
mod encode;
mod line;
#[cfg(test)]
mod tests;

use std::fmt;

pub use decode::{SseDecoder, SseFrame, SseStep};
pub(crate) use encode::{write_comment, write_fields, write_frame, write_frame_with, write_id};

/// The longest line in bytes, without its line end: 10 MiB, the bound of `@ag-ui/client`.
pub(crate) const LINE_LIMIT: usize = 10 << 20;

/// The largest data of one frame in bytes, lines joined: 10 MiB, the bound of `@ag-ui/client`.
pub(crate) const FRAME_LIMIT: usize = 10 << 20;

/// What one stream may make its decoder hold.
///
/// That is one unfinished line (`line`), and of one unfinished frame the event name and the id
/// (`line` each) and the data (the larger of `line` and `frame`, because a first `data` line stays
/// in the buffer in which it was gathered). Both bounds count bytes as they came; where the bytes
/// are no UTF-8, the text of a frame may be three times as long, because U+FFFD is three bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseLimits {
    /// The longest line in bytes, without its line end. Comments count too.
    pub line: usize,
    /// The largest data of one frame in bytes: the values of its `data` lines joined by LF.
    pub frame: usize,
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { line: LINE_LIMIT, frame: FRAME_LIMIT }
    }
}

/// Why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseError {
    /// A line, be it a field or a comment, is longer than [`Limits::line`].
    LineTooLong {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
    /// The data of one frame is larger than [`Limits::frame`].
    FrameTooLarge {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
}

impl fmt::Display for SseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineTooLong { limit } => {
                write!(f, "a line of the event stream is longer than {limit} bytes")
            }
            Self::FrameTooLarge { limit } => {
                write!(f, "an event of the stream is larger than {limit} bytes")
            }
        }
    }
}

impl std::error::Error for SseError {}
