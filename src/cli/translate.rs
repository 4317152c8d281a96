//! `diglot translate`: a recorded stream or request, offline.

use super::form::{Form, Piece};
use super::{Exit, complain, side};
use crate::codec::sse::{self, Limits, Step};
use crate::dialect::Side;
use crate::error::Kind;
use crate::translate::{Fault, Ids, Loss, Repair, Report, Stream, request};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Dialect of the input
    #[arg(long, value_name = "DIALECT", value_parser = side::parse, help = format!("Dialect of the input: {}", side::help()))]
    from: Side,
    /// Dialect of the output
    #[arg(long, value_name = "DIALECT", value_parser = side::parse, help = format!("Dialect of the output: {}", side::help()))]
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
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(Failure::Output(error)) => {
            complain(format_args!("stdout: {error}"));
            Exit::Unavailable
        }
        Err(Failure::Input(error)) => {
            complain(format_args!("{}: {error}", arguments.file.display()));
            Exit::Unavailable
        }
    }
}

/// What cannot be had any more.
enum Failure {
    /// the file that is read
    Input(io::Error),
    /// stdout
    Output(io::Error),
}

fn ids(arguments: &Arguments) -> Option<Ids> {
    Some(Ids::new(arguments.thread.as_deref()?, arguments.run.as_deref()?))
}

fn translate_request(arguments: &Arguments, mut input: Box<dyn Read>) -> Result<Exit, Failure> {
    let mut body = Vec::new();
    input.read_to_end(&mut body).map_err(Failure::Input)?;
    let fresh = ids(arguments).unwrap_or_else(|| Ids::new("thread", "run"));
    match request::translate(body.trim_ascii_end(), arguments.from, arguments.to, &fresh) {
        Ok(translated) => {
            writeln!(io::stdout().lock(), "{}", translated.body).map_err(Failure::Output)?;
            Ok(Exit::Ok)
        }
        Err(refused) => {
            complain(format_args!("{}: {refused}", arguments.file.display()));
            Ok(Exit::Problems)
        }
    }
}

fn translate_stream(arguments: &Arguments, mut input: Box<dyn Read>) -> Result<Exit, Failure> {
    let mut stream = Stream::new(arguments.from, arguments.to, ids(arguments), Limits::default());
    let mut sink = Sink { out: io::stdout().lock(), format: arguments.format, frames: sse::Decoder::default() };
    let mut piece = vec![0; PIECE];
    let (mut out, mut form) = (Vec::new(), Form::Unknown);
    let end = loop {
        let read = input.read(&mut piece).map_err(Failure::Input)?;
        if read == 0 {
            break form
                .finish(&mut |piece| take(&mut stream, &piece, &mut out))
                .and_then(|()| stream.finish(0, &mut out));
        }
        let pushed = form.push(&piece[..read], &mut |piece| take(&mut stream, &piece, &mut out));
        sink.write(&mut out).map_err(Failure::Output)?;
        if pushed.is_err() {
            break pushed;
        }
    };
    let exit = settle(arguments, end, &mut stream, &mut out);
    sink.write(&mut out).map_err(Failure::Output)?;
    sink.out.flush().map_err(Failure::Output)?;
    Ok(exit)
}

/// Ends the run if the input did not, and says what of the input is not in the output.
fn settle(arguments: &Arguments, end: Result<(), Fault>, stream: &mut Stream, out: &mut Vec<u8>) -> Exit {
    let file = arguments.file.display();
    let mut exit = Exit::Ok;
    if let Err(fault) = end {
        let kind = match fault {
            Fault::Truncated => Kind::UpstreamTruncated,
            Fault::Framing(_) => Kind::FrameTooLarge,
            Fault::Violation => Kind::ProtocolViolation,
        };
        let what = match fault {
            Fault::Truncated => nothing_found(arguments.from, stream.report()).unwrap_or_else(|| fault.to_string()),
            Fault::Framing(_) | Fault::Violation => fault.to_string(),
        };
        stream.fail(kind.code(), kind.text(), 0, out);
        complain(format_args!("{file}: {what}; the output ends with an error event"));
        exit = Exit::Problems;
    }
    let left_out = stream.report().losses[Loss::AfterTerminal as usize];
    if left_out > 0 {
        complain(format_args!(
            "{file}: {left_out} event(s) after the end of the run were left out; translate one run at a time"
        ));
        exit = Exit::Problems;
    }
    exit
}

/// Why an input without a terminal event may be no recording at all.
fn nothing_found(from: Side, report: &Report) -> Option<String> {
    // What is no event counts as read too.
    let malformed = report.repairs[Repair::MalformedFrame as usize];
    if report.read.iter().sum::<u64>() > malformed {
        return None;
    }
    Some(match malformed + report.losses[Loss::DoneMarker as usize] {
        0 => "no event found: the input is neither an event stream nor NDJSON".to_owned(),
        frames => format!("no event found: of {frames} frame(s) or line(s) none is an event of {}", from.dialect.name),
    })
}

fn take(stream: &mut Stream, piece: &Piece<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    match piece {
        Piece::Bytes(bytes) => return stream.push(bytes, 0, out),
        Piece::Line(line) if line.trim().is_empty() => {}
        Piece::Line(line) => {
            let _ = stream.push_event(line.trim(), 0, out);
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::AG_UI;

    const EVENTS: [&str; 3] = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"CUSTOM","name":"deep","value":{"a":{"b":[{}, {"c":1}]}}}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
    ];

    /// What a stream in two pieces becomes, and what it was taken for.
    fn translated(input: &str, cut: usize) -> (String, Form) {
        let mut stream = Stream::new(Side::new(&AG_UI), Side::new(&AG_UI), None, Limits::default());
        let (mut form, mut out) = (Form::Unknown, Vec::new());
        let mut each = |piece: Piece<'_>| take(&mut stream, &piece, &mut out);
        for piece in [&input.as_bytes()[..cut], &input.as_bytes()[cut..]] {
            form.push(piece, &mut each).expect("no limit is near");
        }
        form.finish(&mut each).expect("no limit is near");
        stream.finish(0, &mut out).expect("a terminal event");
        (String::from_utf8(out).expect("UTF-8"), form)
    }

    /// A piece that begins with a brace is no line that does.
    #[test]
    fn the_form_is_decided_once_wherever_the_input_is_cut() {
        let sse: String = EVENTS.iter().map(|event| format!("data: {event}\n\n")).collect();
        let ndjson = EVENTS.join("\n");
        let (expected, _) = translated(&sse, 0);
        assert_eq!(expected.matches("data: ").count(), EVENTS.len(), "{expected}");
        for before in ["", "\n", "\r\n \n", "\u{feff}", "\u{feff}\n"] {
            for (input, is_sse) in [(&sse, true), (&ndjson, false)] {
                let input = format!("{before}{input}");
                for cut in 0..=input.len() {
                    let (text, form) = translated(&input, cut);
                    assert_eq!((text.as_str(), form == Form::Sse), (expected.as_str(), is_sse), "{input:?} at {cut}");
                }
            }
        }
    }
}
