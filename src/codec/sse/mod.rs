//! Server-sent events: bytes to frames ([`SseDecoder`]) and frames to bytes ([`write_frame`] and others).
//!
//! The rules come from the WHATWG HTML standard, section 9.2 "Server-sent events"; each check is preceded by the
//! sentence that requires it. Two deviations are intentional: a last event without its blank line is dispatched if the
//! body ends cleanly ([`SseDecoder::finish`]), and lines and events have limits ([`SseLimits`]).
//!
//! | file | turns |
//! |---|---|
//! | `line.rs` | bytes, split anywhere, into lines |
//! | `decode.rs` | lines into frames |
//! | `encode.rs` | frames into bytes |

mod encode;
mod line;
mod decode;
#[cfg(test)]
mod tests;

use std::fmt;

pub use decode::{SseDecoder, SseFrame, SseStep};
pub(crate) use encode::{write_comment, write_fields, write_frame, write_frame_with, write_id};

/// Maximum line length in bytes, without its line end: 10 MiB, as in `@ag-ui/client`.
pub(crate) const LINE_LIMIT: usize = 10 << 20;

/// Maximum data bytes in one frame, lines joined: 10 MiB, as in `@ag-ui/client`.
pub(crate) const FRAME_LIMIT: usize = 10 << 20;

/// Limits the memory of one decoder.
///
/// It buffers one unfinished line (`line`), and for one unfinished frame the event name and id (`line` each) and the
/// data (the larger of `line` and `frame`). Both count received bytes; invalid UTF-8 can triple the text's length,
/// because U+FFFD takes three bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseLimits {
    /// Maximum line length in bytes, comments included, without the line end.
    pub line: usize,
    /// Maximum data bytes in one frame: its `data` lines joined by LF.
    pub frame: usize,
}

impl SseLimits {
    /// No limits, for frames that the program has written itself.
    pub(crate) const UNLIMITED: SseLimits = SseLimits { line: usize::MAX, frame: usize::MAX };
}

impl Default for SseLimits {
    fn default() -> Self {
        Self { line: LINE_LIMIT, frame: FRAME_LIMIT }
    }
}

/// The reason why the rest of a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseError {
    /// A field or comment line is longer than [`SseLimits::line`].
    LineTooLong {
        /// The exceeded limit in bytes.
        limit: usize,
    },
    /// The data of one frame is larger than [`SseLimits::frame`].
    FrameTooLarge {
        /// The exceeded limit in bytes.
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
