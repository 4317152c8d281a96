//! Writes translated frames in the format that was asked for.

use super::terminal_text::escape_json;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum OutputFormat {
    /// server-sent events
    Sse,
    /// one JSON event per line
    Ndjson,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

/// Returns a sink for stdout, which escapes what a terminal would obey.
pub(super) fn open_stdout(format: OutputFormat) -> FrameSink<BufWriter<StdoutLock<'static>>> {
    let out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    FrameSink::new(BufWriter::new(out), format).for_terminal(is_terminal)
}

/// Writes frames in the requested format.
pub(super) struct FrameSink<W> {
    out: W,
    format: OutputFormat,
    frames: SseDecoder,
    /// whether the frames go to a terminal, which must not obey what an agent sends
    is_terminal: bool,
}

impl<W: Write> FrameSink<W> {
    fn new(out: W, format: OutputFormat) -> FrameSink<W> {
        FrameSink { out, format, frames: SseDecoder::new(SseLimits::UNLIMITED), is_terminal: false }
    }

    /// Escapes what a terminal would obey. The values of JSON stay the same.
    fn for_terminal(self, is_terminal: bool) -> FrameSink<W> {
        FrameSink { is_terminal: is_terminal && self.format != OutputFormat::Proto, ..self }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes whole frames, and clears them.
    pub(super) fn write(&mut self, frames: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            OutputFormat::Sse if self.is_terminal => {
                for line in String::from_utf8_lossy(frames).lines() {
                    writeln!(self.out, "{}", escape_json(line))?;
                }
            }
            OutputFormat::Sse | OutputFormat::Proto => self.out.write_all(frames)?,
            OutputFormat::Ndjson => {
                let mut rest = frames.as_slice();
                while let SseStep::Frame(frame) = self.frames.next(&mut rest) {
                    // White space between JSON tokens may contain newlines.
                    let line = frame.data.replace('\n', " ");
                    match self.is_terminal {
                        true => writeln!(self.out, "{}", escape_json(&line))?,
                        false => writeln!(self.out, "{line}")?,
                    }
                }
            }
        }
        frames.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_escapes_and_a_pipe_the_bytes() {
        let frames = "data: {\"delta\":\"a\u{202e}b\u{9b}\"}\n\n";
        for (format, is_terminal, expected) in [
            (OutputFormat::Sse, false, frames.to_owned()),
            (OutputFormat::Sse, true, "data: {\"delta\":\"a\\u202eb\\u009b\"}\n\n".to_owned()),
            (OutputFormat::Ndjson, false, frames["data: ".len()..].trim_end().to_owned() + "\n"),
            (OutputFormat::Ndjson, true, "{\"delta\":\"a\\u202eb\\u009b\"}\n".to_owned()),
        ] {
            let mut sink = FrameSink::new(Vec::new(), format).for_terminal(is_terminal);
            sink.write(&mut frames.as_bytes().to_vec()).expect("memory");
            assert_eq!(String::from_utf8_lossy(&sink.out), expected);
        }
    }
}
