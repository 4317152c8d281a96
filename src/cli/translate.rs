//! `diglot translate`: a recorded stream or request, offline.

use super::{Exit, complain, side};
use crate::codec::sse::{self, Limits, Step};
use crate::dialect::Side;
use crate::error::Kind;
use crate::translate::{Fault, Ids, Stream, request};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Dialect of the input
    #[arg(long, value_name = "DIALECT", value_parser = side::parse, help = format!("Dialect of the input: {}", side::HELP))]
    from: Side,
    /// Dialect of the output
    #[arg(long, value_name = "DIALECT", value_parser = side::parse, help = format!("Dialect of the output: {}", side::HELP))]
    to: Side,
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// Form of a translated stream
    #[arg(long, value_enum, default_value_t = Format::Sse)]
    format: Format,
    /// Thread id of the run [default: what the input says, else `thread`]
    #[arg(long, value_name = "ID", requires = "run")]
    thread: Option<String>,
    /// Run id of the run [default: what the input says, else `run`]
    #[arg(long, value_name = "ID", requires = "thread")]
    run: Option<String>,
    /// File to read, `-` for stdin. A stream may be SSE or NDJSON (one event a line).
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// server-sent events
    Sse,
    /// one JSON event a line
    Ndjson,
}

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

pub(super) fn run(arguments: &Arguments) -> Exit {
    let input: Box<dyn Read> = if arguments.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        match File::open(&arguments.file) {
            Ok(file) => Box::new(file),
            Err(error) => {
                complain(format_args!("{}: {error}", arguments.file.display()));
                return Exit::Unavailable;
            }
        }
    };
    let done = if arguments.request { translate_request(arguments, input) } else { translate_stream(arguments, input) };
    match done {
        Ok(exit) => exit,
        // Whoever read our output has enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => {
            complain(format_args!("{}: {error}", arguments.file.display()));
            Exit::Unavailable
        }
    }
}

fn ids(arguments: &Arguments) -> Option<Ids> {
    Some(Ids::new(arguments.thread.as_deref()?, arguments.run.as_deref()?))
}

fn translate_request(arguments: &Arguments, mut input: Box<dyn Read>) -> io::Result<Exit> {
    let mut body = Vec::new();
    input.read_to_end(&mut body)?;
    let fresh = ids(arguments).unwrap_or_else(|| Ids::new("thread", "run"));
    match request::translate(body.trim_ascii_end(), arguments.from, arguments.to, &fresh) {
        Ok(translated) => {
            writeln!(io::stdout().lock(), "{}", translated.body)?;
            Ok(Exit::Ok)
        }
        Err(refused) => {
            complain(format_args!("{}: {refused}", arguments.file.display()));
            Ok(Exit::Problems)
        }
    }
}

fn translate_stream(arguments: &Arguments, mut input: Box<dyn Read>) -> io::Result<Exit> {
    let mut stream = Stream::new(arguments.from, arguments.to, ids(arguments), Limits::default());
    let mut sink = Sink { out: io::stdout().lock(), format: arguments.format, frames: sse::Decoder::default() };
    let mut piece = vec![0; PIECE];
    let (mut out, mut lines) = (Vec::new(), None);
    let end = loop {
        let read = input.read(&mut piece)?;
        if read == 0 {
            if let Some(Lines(rest)) = lines.take() {
                push_line(&mut stream, &rest, &mut out);
            }
            break stream.finish(0, &mut out);
        }
        let bytes = &piece[..read];
        // An SSE line never begins with a brace: that would be the name of a field.
        if lines.is_none()
            && stream.report().read.iter().all(|count| *count == 0)
            && bytes.trim_ascii_start().first() == Some(&b'{')
        {
            lines = Some(Lines::default());
        }
        let pushed = match &mut lines {
            Some(lines) => {
                lines.push(bytes, |line| push_line(&mut stream, line, &mut out));
                Ok(())
            }
            None => stream.push(bytes, 0, &mut out),
        };
        sink.write(&mut out)?;
        if pushed.is_err() {
            break pushed;
        }
    };
    let exit = match end {
        Ok(()) => Exit::Ok,
        Err(fault) => {
            let kind = match fault {
                Fault::Truncated => Kind::UpstreamTruncated,
                Fault::Framing(_) => Kind::FrameTooLarge,
            };
            stream.fail(kind.code(), kind.text(), 0, &mut out);
            complain(format_args!("{}: {fault}; the output ends with an error event", arguments.file.display()));
            Exit::Problems
        }
    };
    sink.write(&mut out)?;
    sink.out.flush()?;
    Ok(exit)
}

fn push_line(stream: &mut Stream, line: &[u8], out: &mut Vec<u8>) {
    let line = String::from_utf8_lossy(line);
    if !line.trim().is_empty() {
        stream.push_event(line.trim(), 0, out);
    }
}

/// Lines of NDJSON, across the pieces in which they were read. Holds at most one line.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(part);
            if part.ends_with(b"\n") {
                take(&self.0);
                self.0.clear();
            }
        }
    }
}

/// Writes frames in the form that was asked for.
struct Sink<W> {
    out: W,
    format: Format,
    frames: sse::Decoder,
}

impl<W: Write> Sink<W> {
    fn write(&mut self, frames: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            Format::Sse => self.out.write_all(frames)?,
            Format::Ndjson => {
                let mut rest = frames.as_slice();
                while let Step::Frame(frame) = self.frames.next(&mut rest) {
                    // White space between JSON tokens may hold newlines; the line must not.
                    writeln!(self.out, "{}", frame.data.replace('\n', " "))?;
                }
            }
        }
        frames.clear();
        Ok(())
    }
}
