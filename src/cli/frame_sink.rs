//! Writes translated frames in the format that was asked for.

use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use std::io::{self, Write};

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputFormat {
    /// server-sent events
    Sse,
    /// one JSON event per line
    Ndjson,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

/// Writes frames in the requested format.
pub(super) struct FrameSink<W> {
    out: W,
    format: OutputFormat,
    frames: SseDecoder,
}

impl<W: Write> FrameSink<W> {
    pub(super) fn new(out: W, format: OutputFormat) -> FrameSink<W> {
        FrameSink { out, format, frames: SseDecoder::new(SseLimits::UNLIMITED) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes whole frames, and clears them.
    pub(super) fn write(&mut self, frames: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            OutputFormat::Sse | OutputFormat::Proto => self.out.write_all(frames)?,
            OutputFormat::Ndjson => {
                let mut rest = frames.as_slice();
                while let SseStep::Frame(frame) = self.frames.next(&mut rest) {
                    // White space between JSON tokens may contain newlines.
                    writeln!(self.out, "{}", frame.data.replace('\n', " "))?;
                }
            }
        }
        frames.clear();
        Ok(())
    }
}
