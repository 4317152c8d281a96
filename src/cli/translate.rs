//! `diglot translate`: a recorded stream or request, offline.

use super::explain::{Explain, counted};
use super::recording::{Binary, Place, Recording, Stop};
use super::{Exit, complain, side};
use crate::codec::Framing;
use crate::codec::sse::{self, Limits, Step};
use crate::dialect::Side;
use crate::error::Kind;
use crate::translate::roundtrip::{self, Outcome, Roundtrip};
use crate::translate::trace::Trace;
use crate::translate::{Fault, Ids, Loss, Mode, Repair, Report, Stream, detect, request};
use std::collections::BTreeMap;
use std::fmt::Display;
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
    /// Form of the stream that is read
    #[arg(long, value_enum, default_value_t = Input::Auto)]
    input: Input,
    /// Say on stderr what becomes of each event: read as, written as, carried, repaired, lost; and the sums at the end
    #[arg(long, conflicts_with_all = ["request", "roundtrip"])]
    explain: bool,
    /// Stop at the first event that breaks a rule of the protocol, as a route with `guard: strict` does: exit 1, with its
    /// line and the rule
    #[arg(long, conflicts_with_all = ["request", "roundtrip"])]
    strict: bool,
    /// Translate to the other dialect and back, and compare with the input instead of writing it: exit 1 when a member went
    /// or changed, each with its line and path
    #[arg(long, conflicts_with = "format")]
    roundtrip: bool,
    /// Thread id of the run [default: what the input says, else `thread`]
    #[arg(long, value_name = "ID", requires = "run")]
    thread: Option<String>,
    /// Run id of the run [default: what the input says, else `run`]
    #[arg(long, value_name = "ID", requires = "thread")]
    run: Option<String>,
    /// File to read, `-` for stdin. A stream may be SSE, NDJSON (one event a line) or AG-UI's protobuf.
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// server-sent events
    Sse,
    /// one JSON event a line
    Ndjson,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Input {
    /// what the first byte says
    Auto,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Most differences of a round trip that are printed, and most characters of a value in one.
const DIFFERENCES_SHOWN: usize = 20;
const VALUE_SHOWN: usize = 160;

pub(super) fn run(arguments: &Arguments) -> Exit {
    let wrong = |asked: bool, side: Side| asked && (arguments.request || !side.dialect.is_canonical());
    if wrong(arguments.format == Format::Proto, arguments.to) || wrong(arguments.input == Input::Proto, arguments.from)
    {
        complain("protobuf is a form of event streams of ag-ui, and of nothing else");
        return Exit::Usage;
    }
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
    let done = match (arguments.request, arguments.roundtrip) {
        (true, false) => translate_request(arguments, input),
        (true, true) => return_request(arguments, input),
        (false, true) => return_stream(arguments, input),
        (false, false) => translate_stream(arguments, input),
    };
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
#[derive(Debug)]
enum Failure {
    /// the file that is read
    Input(io::Error),
    /// stdout
    Output(io::Error),
}

fn ids(arguments: &Arguments) -> Option<Ids> {
    Some(Ids::new(arguments.thread.as_deref()?, arguments.run.as_deref()?))
}

fn fresh(arguments: &Arguments) -> Ids {
    ids(arguments).unwrap_or_else(|| Ids::new("thread", "run"))
}

fn body(mut input: Box<dyn Read>) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    input.read_to_end(&mut body).map_err(Failure::Input)?;
    body.truncate(body.trim_ascii_end().len());
    Ok(body)
}

fn translate_request(arguments: &Arguments, input: Box<dyn Read>) -> Result<Exit, Failure> {
    match request::translate(&body(input)?, arguments.from, arguments.to, &fresh(arguments)) {
        Ok(translated) => {
            writeln!(io::stdout().lock(), "{}", translated.body).map_err(Failure::Output)?;
            if translated.downgraded > 0 {
                let (file, to, count) = (arguments.file.display(), arguments.to.dialect.name, translated.downgraded);
                complain(format_args!(
                    "{file}: left out what peers of {to} may not take, in {count} place(s); a `pin` of its version may save it"
                ));
            }
            Ok(Exit::Ok)
        }
        Err(refused) => Ok(problem(arguments, refused)),
    }
}

fn return_request(arguments: &Arguments, input: Box<dyn Read>) -> Result<Exit, Failure> {
    let body = body(input)?;
    let from = detect::form(arguments.from, std::str::from_utf8(&body).into_iter());
    match roundtrip::request(&body, from, arguments.to, &fresh(arguments)) {
        Ok(outcome) => Ok(compared(arguments, &outcome, &[], "the request")),
        Err(refused) => Ok(problem(arguments, refused)),
    }
}

fn problem(arguments: &Arguments, what: impl Display) -> Exit {
    complain(format_args!("{}: {what}", arguments.file.display()));
    Exit::Problems
}

/// Reads a recording to its end, or until somebody has enough of it.
fn read<E>(
    arguments: &Arguments,
    mut input: Box<dyn Read>,
    taker: &mut impl FnMut(Place, &str) -> Result<(), E>,
) -> Result<Result<(), Stop<E>>, Failure> {
    let binary = match arguments.input {
        Input::Proto => Binary::Surely,
        Input::Auto if arguments.from.dialect.is_canonical() => Binary::Perhaps,
        Input::Auto => Binary::Never,
    };
    let (mut recording, mut piece) = (Recording::new(binary), vec![0; PIECE]);
    loop {
        let read = input.read(&mut piece).map_err(Failure::Input)?;
        if read == 0 {
            return Ok(recording.finish(taker));
        }
        if let Err(stop) = recording.push(&piece[..read], taker) {
            return Ok(Err(stop));
        }
    }
}

fn return_stream(arguments: &Arguments, input: Box<dyn Read>) -> Result<Exit, Failure> {
    let (mut places, mut events, mut dropped) = (Vec::new(), Vec::new(), 0);
    let end = read(arguments, input, &mut |place: Place, data: &str| {
        dropped += place.dropped;
        places.push(place);
        events.push(data.to_owned());
        Ok::<(), std::convert::Infallible>(())
    })?;
    // Text comes back in the form of the route; the recording shows which form its route would be set to.
    let from = detect::form(arguments.from, events.iter().map(String::as_str));
    let mut trip = Roundtrip::new(from, arguments.to, ids(arguments));
    events.iter().for_each(|data| trip.event(data));
    if let Err(Stop::Framing(fault)) = end {
        return Ok(problem(arguments, fault));
    }
    if places.is_empty() {
        return Ok(problem(arguments, "no event found: the input is neither an event stream nor NDJSON"));
    }
    if dropped > 0 {
        let file = arguments.file.display();
        complain(format_args!("{file}: {dropped} content part(s) of a later protocol could not be read"));
    }
    let what = format!("{} event(s)", places.len());
    Ok(compared(arguments, &trip.finish(), &places, &what))
}

/// Says what came of a round trip. `places` are those of the events; none for a request.
fn compared(arguments: &Arguments, outcome: &Outcome, places: &[Place], what: &str) -> Exit {
    let file = arguments.file.display();
    let shown = |value: &str| {
        let cut: String = value.chars().take(VALUE_SHOWN).collect();
        if cut.len() < value.len() { format!("{cut}…") } else { cut }
    };
    for one in outcome.differences.iter().take(DIFFERENCES_SHOWN) {
        let place = places.get(one.event).map(ToString::to_string).unwrap_or_default();
        let path = if one.path.is_empty() { "the event" } else { &one.path };
        let repairs: Vec<&str> = one.repairs.iter().map(|repair| repair.label()).collect();
        let why = if repairs.is_empty() { String::new() } else { format!(" (repaired: {})", repairs.join(", ")) };
        let after = one.after.as_deref().map_or("gone".to_owned(), shown);
        complain(format_args!("{file}{place}: {path}{why}\n  before  {}\n  after   {after}", shown(&one.before)));
    }
    let (from, to) = (arguments.from.dialect.name, arguments.to.dialect.name);
    let losses = Loss::ALL.iter().map(|loss| {
        let count = outcome.losses.iter().filter(|(_, own)| own == loss).count();
        (loss.label(), u64::try_from(count).unwrap_or(u64::MAX))
    });
    let mut added = BTreeMap::<&str, u64>::new();
    outcome.added.iter().for_each(|kind| *added.entry(kind).or_default() += 1);
    let tail = format!("added: {}; left out: {}", counted(added.into_iter()), counted(losses));
    if outcome.differences.is_empty() {
        // What is left out on purpose did not come back, so that is not said.
        let whole = if outcome.losses.is_empty() { "came back whole" } else { "came back, but for what is left out," };
        complain(format_args!("{file}: {what} {whole} from {from} to {to} and back; {tail}"));
        return Exit::Ok;
    }
    let count = outcome.differences.len();
    complain(format_args!("{file}: {count} difference(s) after {from} to {to} and back, in {what}; {tail}"));
    Exit::Problems
}

/// A stream on its way, and what is said about it.
struct Work<'a, W> {
    arguments: &'a Arguments,
    stream: Stream,
    sink: Sink<W>,
    out: Vec<u8>,
    explain: Option<Explain>,
    /// where a rule was broken first
    offended: Option<Place>,
}

/// Why no further event is taken.
enum Enough {
    /// the stream may not go on
    Fault(Fault),
    /// stdout
    Output(io::Error),
}

fn translate_stream(arguments: &Arguments, input: Box<dyn Read>) -> Result<Exit, Failure> {
    let mut stream = Stream::new(arguments.from, arguments.to, ids(arguments), Limits::default());
    if arguments.format == Format::Proto {
        stream.write_as(Framing::Proto);
    }
    let mode = if arguments.strict { Mode::Strict } else { Mode::Repair };
    let sink = Sink {
        out: io::BufWriter::new(io::stdout().lock()),
        format: arguments.format,
        frames: sse::Decoder::default(),
    };
    let explain = arguments.explain.then(Explain::default);
    let mut work = Work { arguments, stream: stream.guarded(mode), sink, out: Vec::new(), explain, offended: None };
    if work.explain.is_some() {
        work.stream.report_mut().trace = Some(Box::new(Trace::default()));
    }
    let end = match read(arguments, input, &mut |place, data: &str| work.event(place, data))? {
        Ok(()) => work.stream.finish(0, &mut work.out),
        Err(Stop::Framing(fault)) => Err(Fault::Framing(fault)),
        Err(Stop::Taker(Enough::Fault(fault))) => Err(fault),
        Err(Stop::Taker(Enough::Output(error))) => return Err(Failure::Output(error)),
    };
    let exit = work.settle(end);
    work.sink.write(&mut work.out).map_err(Failure::Output)?;
    work.sink.out.flush().map_err(Failure::Output)?;
    work.conclude();
    Ok(exit)
}

impl<W: Write> Work<'_, W> {
    fn event(&mut self, place: Place, data: &str) -> Result<(), Enough> {
        (0..place.dropped).for_each(|_| self.stream.report_mut().loss(Loss::UnknownPart));
        let pushed = self.stream.push_event(data, 0, &mut self.out);
        self.explain(Some(place));
        if self.stream.offence().is_some() {
            self.offended.get_or_insert(place);
        }
        if self.out.len() >= PIECE {
            self.sink.write(&mut self.out).map_err(Enough::Output)?;
        }
        pushed.map_err(Enough::Fault)
    }

    fn explain(&mut self, place: Option<Place>) {
        if let (Some(explain), Some(trace)) = (&mut self.explain, &mut self.stream.report_mut().trace) {
            let notes = std::mem::take(&mut trace.notes);
            if let Some(line) = explain.line(place, &notes, self.arguments.from.dialect) {
                complain(format_args!("{}{line}", self.arguments.file.display()));
            }
        }
    }

    /// Says what was said so far in sum.
    fn conclude(&mut self) {
        self.explain(None);
        if let Some(explain) = &self.explain {
            complain(format_args!("{}: {}", self.arguments.file.display(), explain.summary()));
        }
    }

    /// Ends the run if the input did not, and says what of the input is not in the output.
    fn settle(&mut self, end: Result<(), Fault>) -> Exit {
        let (file, mut exit) = (self.arguments.file.display(), Exit::Ok);
        let offence = self.stream.offence().map(ToString::to_string);
        if let (Some(offence), Some(place)) = (&offence, self.offended) {
            complain(format_args!("{file}{place}: {offence}"));
            exit = Exit::Problems;
        }
        if let Err(fault) = end {
            let report = self.stream.report();
            let (kind, what) = match fault {
                Fault::Truncated => {
                    let what = nothing_found(self.arguments.from, report);
                    (Kind::UpstreamTruncated, Some(what.unwrap_or_else(|| fault.to_string())))
                }
                Fault::Framing(_) => (Kind::FrameTooLarge, Some(fault.to_string())),
                // Routes have these; a translation is asked for neither.
                Fault::Tool => (Kind::ToolNotAllowed, Some(fault.to_string())),
                Fault::Limit(_) => (Kind::RunLimitReached, Some(fault.to_string())),
                // Said above, with its place.
                Fault::Violation => (Kind::ProtocolViolation, None),
            };
            let message = offence.filter(|_| fault == Fault::Violation).unwrap_or_else(|| kind.text().to_owned());
            self.stream.fail(kind.code(), &message, 0, &mut self.out);
            if let Some(what) = what {
                complain(format_args!("{file}: {what}; the output ends with an error event"));
            }
            exit = Exit::Problems;
        }
        let left_out = self.stream.report().losses[Loss::AfterTerminal as usize];
        if left_out > 0 {
            complain(format_args!(
                "{file}: {left_out} event(s) after the end of the run were left out; translate one run at a time"
            ));
            exit = Exit::Problems;
        }
        exit
    }
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

/// Writes frames in the form that was asked for.
struct Sink<W> {
    out: W,
    format: Format,
    frames: sse::Decoder,
}

impl<W: Write> Sink<W> {
    fn write(&mut self, frames: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            Format::Sse | Format::Proto => self.out.write_all(frames)?,
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
