//! `diglot translate`: a recorded stream or request, offline.

use super::recording_reader::{EventPosition, ProtobufInput, ReadStop, RecordingReader};
use super::translate_explain::{TranslateExplainer, format_counts};
use super::{CliExit, dialect_arg, print_error};
use crate::codec::Framing;
use crate::codec::sse::{self, SseLimits, SseStep};
use crate::dialect::PeerDialect;
use crate::error::RejectionKind;
use crate::translate::explain_trace::ExplainTrace;
use crate::translate::roundtrip::{self, RoundTrip, RoundTripOutcome};
use crate::translate::{
    EventLoss, EventRepair, GuardMode, RunIds, Stream, StreamError, TranslationReport, detect, request,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct TranslateArgs {
    /// Dialect of the input
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the input: {}", dialect_arg::dialect_help()))]
    from: PeerDialect,
    /// Dialect of the output
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the output: {}", dialect_arg::dialect_help()))]
    to: PeerDialect,
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// Form of a translated stream
    #[arg(long, value_enum, default_value_t = OutputFormat::Sse)]
    format: OutputFormat,
    /// Form of the stream that is read
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    input: InputFormat,
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
enum OutputFormat {
    /// server-sent events
    Sse,
    /// one JSON event a line
    Ndjson,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputFormat {
    /// what the first byte says
    Auto,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

/// Most differences of a round trip that are printed, and most characters of a value in one.
const MAX_DIFFERENCES: usize = 20;
const MAX_VALUE_CHARS: usize = 160;

pub(super) fn run(arguments: &TranslateArgs) -> CliExit {
    let wrong = |asked: bool, side: PeerDialect| asked && (arguments.request || !side.dialect.is_canonical());
    if wrong(arguments.format == OutputFormat::Proto, arguments.to)
        || wrong(arguments.input == InputFormat::Proto, arguments.from)
    {
        print_error("protobuf is a form of event streams of ag-ui, and of nothing else");
        return CliExit::Usage;
    }
    let input: Box<dyn Read> = if arguments.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        match File::open(&arguments.file) {
            Ok(file) => Box::new(file),
            Err(error) => {
                print_error(format_args!("{}: {error}", arguments.file.display()));
                return CliExit::Unavailable;
            }
        }
    };
    let done = match (arguments.request, arguments.roundtrip) {
        (true, false) => translate_request(arguments, input),
        (true, true) => roundtrip_request(arguments, input),
        (false, true) => roundtrip_stream(arguments, input),
        (false, false) => translate_stream(arguments, input),
    };
    match done {
        Ok(exit) => exit,
        // Whoever read our output has enough of it.
        Err(TranslateFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => CliExit::Ok,
        Err(TranslateFailure::Output(error)) => {
            print_error(format_args!("stdout: {error}"));
            CliExit::Unavailable
        }
        Err(TranslateFailure::Input(error)) => {
            print_error(format_args!("{}: {error}", arguments.file.display()));
            CliExit::Unavailable
        }
    }
}

/// What cannot be had any more.
#[derive(Debug)]
enum TranslateFailure {
    /// the file that is read
    Input(io::Error),
    /// stdout
    Output(io::Error),
}

fn ids_of_args(arguments: &TranslateArgs) -> Option<RunIds> {
    Some(RunIds::new(arguments.thread.as_deref()?, arguments.run.as_deref()?))
}

fn ids_or_default(arguments: &TranslateArgs) -> RunIds {
    ids_of_args(arguments).unwrap_or_else(|| RunIds::new("thread", "run"))
}

fn read_body(mut input: Box<dyn Read>) -> Result<Vec<u8>, TranslateFailure> {
    let mut body = Vec::new();
    input.read_to_end(&mut body).map_err(TranslateFailure::Input)?;
    body.truncate(body.trim_ascii_end().len());
    Ok(body)
}

fn translate_request(arguments: &TranslateArgs, input: Box<dyn Read>) -> Result<CliExit, TranslateFailure> {
    match request::translate_request(&read_body(input)?, arguments.from, arguments.to, &ids_or_default(arguments)) {
        Ok(translated) => {
            writeln!(io::stdout().lock(), "{}", translated.body).map_err(TranslateFailure::Output)?;
            if translated.downgraded > 0 {
                let (file, to, count) = (arguments.file.display(), arguments.to.dialect.name, translated.downgraded);
                print_error(format_args!(
                    "{file}: left out what peers of {to} may not take, in {count} place(s); a `pin` of its version may save it"
                ));
            }
            Ok(CliExit::Ok)
        }
        Err(refused) => Ok(report_problem(arguments, refused)),
    }
}

fn roundtrip_request(arguments: &TranslateArgs, input: Box<dyn Read>) -> Result<CliExit, TranslateFailure> {
    let body = read_body(input)?;
    let from = detect::detect_options(arguments.from, std::str::from_utf8(&body).into_iter());
    match roundtrip::roundtrip_request(&body, from, arguments.to, &ids_or_default(arguments)) {
        Ok(outcome) => Ok(report_roundtrip(arguments, &outcome, &[], "the request")),
        Err(refused) => Ok(report_problem(arguments, refused)),
    }
}

fn report_problem(arguments: &TranslateArgs, what: impl Display) -> CliExit {
    print_error(format_args!("{}: {what}", arguments.file.display()));
    CliExit::Problems
}

/// Reads a recording to its end, or until somebody has enough of it.
fn read_recording<E>(
    arguments: &TranslateArgs,
    mut input: Box<dyn Read>,
    taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
) -> Result<Result<(), ReadStop<E>>, TranslateFailure> {
    let binary = match arguments.input {
        InputFormat::Proto => ProtobufInput::Always,
        InputFormat::Auto if arguments.from.dialect.is_canonical() => ProtobufInput::Detect,
        InputFormat::Auto => ProtobufInput::Never,
    };
    let (mut recording, mut piece) = (RecordingReader::new(binary), vec![0; READ_SIZE]);
    loop {
        let read = input.read(&mut piece).map_err(TranslateFailure::Input)?;
        if read == 0 {
            return Ok(recording.finish(taker));
        }
        if let Err(stop) = recording.push(&piece[..read], taker) {
            return Ok(Err(stop));
        }
    }
}

fn roundtrip_stream(arguments: &TranslateArgs, input: Box<dyn Read>) -> Result<CliExit, TranslateFailure> {
    let (mut places, mut events, mut dropped) = (Vec::new(), Vec::new(), 0);
    let end = read_recording(arguments, input, &mut |place: EventPosition, data: &str| {
        dropped += place.dropped;
        places.push(place);
        events.push(data.to_owned());
        Ok::<(), std::convert::Infallible>(())
    })?;
    // Text comes back in the form of the route; the recording shows which form its route would be set to.
    let from = detect::detect_options(arguments.from, events.iter().map(String::as_str));
    let mut trip = RoundTrip::new(from, arguments.to, ids_of_args(arguments));
    events.iter().for_each(|data| trip.push_event(data));
    if let Err(ReadStop::Framing(fault)) = end {
        return Ok(report_problem(arguments, fault));
    }
    if places.is_empty() {
        return Ok(report_problem(arguments, "no event found: the input is neither an event stream nor NDJSON"));
    }
    if dropped > 0 {
        let file = arguments.file.display();
        print_error(format_args!("{file}: {dropped} content part(s) of a later protocol could not be read"));
    }
    let what = format!("{} event(s)", places.len());
    Ok(report_roundtrip(arguments, &trip.finish(), &places, &what))
}

/// Says what came of a round trip. `places` are those of the events; none for a request.
fn report_roundtrip(
    arguments: &TranslateArgs,
    outcome: &RoundTripOutcome,
    places: &[EventPosition],
    what: &str,
) -> CliExit {
    let file = arguments.file.display();
    let shown = |value: &str| {
        let cut: String = value.chars().take(MAX_VALUE_CHARS).collect();
        if cut.len() < value.len() { format!("{cut}…") } else { cut }
    };
    for one in outcome.differences.iter().take(MAX_DIFFERENCES) {
        let place = places.get(one.event).map(ToString::to_string).unwrap_or_default();
        let path = if one.path.is_empty() { "the event" } else { &one.path };
        let repairs: Vec<&str> = one.repairs.iter().map(|repair| repair.label()).collect();
        let why = if repairs.is_empty() { String::new() } else { format!(" (repaired: {})", repairs.join(", ")) };
        let after = one.after.as_deref().map_or("gone".to_owned(), shown);
        print_error(format_args!("{file}{place}: {path}{why}\n  before  {}\n  after   {after}", shown(&one.before)));
    }
    let (from, to) = (arguments.from.dialect.name, arguments.to.dialect.name);
    let losses = EventLoss::ALL.iter().map(|loss| {
        let count = outcome.losses.iter().filter(|(_, own)| own == loss).count();
        (loss.label(), u64::try_from(count).unwrap_or(u64::MAX))
    });
    let mut added = BTreeMap::<&str, u64>::new();
    outcome.added.iter().for_each(|kind| *added.entry(kind).or_default() += 1);
    let tail = format!("added: {}; left out: {}", format_counts(added.into_iter()), format_counts(losses));
    if outcome.differences.is_empty() {
        // What is left out on purpose did not come back, so that is not said.
        let whole = if outcome.losses.is_empty() { "came back whole" } else { "came back, but for what is left out," };
        print_error(format_args!("{file}: {what} {whole} from {from} to {to} and back; {tail}"));
        return CliExit::Ok;
    }
    let count = outcome.differences.len();
    print_error(format_args!("{file}: {count} difference(s) after {from} to {to} and back, in {what}; {tail}"));
    CliExit::Problems
}

/// A stream on its way, and what is said about it.
struct TranslateJob<'a, W> {
    arguments: &'a TranslateArgs,
    stream: Stream,
    sink: FrameSink<W>,
    out: Vec<u8>,
    explainer: Option<TranslateExplainer>,
    /// where a rule was broken first
    violation_at: Option<EventPosition>,
}

/// Why no further event is taken.
enum TranslateStop {
    /// the stream may not go on
    Fault(StreamError),
    /// stdout
    Output(io::Error),
}

fn translate_stream(arguments: &TranslateArgs, input: Box<dyn Read>) -> Result<CliExit, TranslateFailure> {
    let mut stream = Stream::new(arguments.from, arguments.to, ids_of_args(arguments), SseLimits::default());
    if arguments.format == OutputFormat::Proto {
        stream.write_as(Framing::Proto);
    }
    let mode = if arguments.strict { GuardMode::Strict } else { GuardMode::Repair };
    let sink = FrameSink {
        out: io::BufWriter::new(io::stdout().lock()),
        format: arguments.format,
        frames: sse::SseDecoder::default(),
    };
    let explain = arguments.explain.then(TranslateExplainer::default);
    let mut work = TranslateJob {
        arguments,
        stream: stream.with_guard_mode(mode),
        sink,
        out: Vec::new(),
        explainer: explain,
        violation_at: None,
    };
    if work.explainer.is_some() {
        work.stream.report_mut().trace = Some(Box::new(ExplainTrace::default()));
    }
    let end = match read_recording(arguments, input, &mut |place, data: &str| work.push_event(place, data))? {
        Ok(()) => work.stream.finish(0, &mut work.out),
        Err(ReadStop::Framing(fault)) => Err(StreamError::Framing(fault)),
        Err(ReadStop::Consumer(TranslateStop::Fault(fault))) => Err(fault),
        Err(ReadStop::Consumer(TranslateStop::Output(error))) => return Err(TranslateFailure::Output(error)),
    };
    let exit = work.finish_run(end);
    work.sink.write(&mut work.out).map_err(TranslateFailure::Output)?;
    work.sink.out.flush().map_err(TranslateFailure::Output)?;
    work.print_summary();
    Ok(exit)
}

impl<W: Write> TranslateJob<'_, W> {
    fn push_event(&mut self, position: EventPosition, data: &str) -> Result<(), TranslateStop> {
        (0..position.dropped).for_each(|_| self.stream.report_mut().count_loss(EventLoss::UnknownPart));
        let pushed = self.stream.push_event(data, 0, &mut self.out);
        self.print_explanation(Some(position));
        if self.stream.violation().is_some() {
            self.violation_at.get_or_insert(position);
        }
        if self.out.len() >= READ_SIZE {
            self.sink.write(&mut self.out).map_err(TranslateStop::Output)?;
        }
        pushed.map_err(TranslateStop::Fault)
    }

    fn print_explanation(&mut self, position: Option<EventPosition>) {
        if let (Some(explain), Some(trace)) = (&mut self.explainer, &mut self.stream.report_mut().trace) {
            let notes = std::mem::take(&mut trace.entries);
            if let Some(line) = explain.explain_event(position, &notes, self.arguments.from.dialect) {
                print_error(format_args!("{}{line}", self.arguments.file.display()));
            }
        }
    }

    /// Says what was said so far in sum.
    fn print_summary(&mut self) {
        self.print_explanation(None);
        if let Some(explain) = &self.explainer {
            print_error(format_args!("{}: {}", self.arguments.file.display(), explain.summary()));
        }
    }

    /// Ends the run if the input did not, and says what of the input is not in the output.
    fn finish_run(&mut self, end: Result<(), StreamError>) -> CliExit {
        let (file, mut exit) = (self.arguments.file.display(), CliExit::Ok);
        let offence = self.stream.violation().map(ToString::to_string);
        if let (Some(offence), Some(place)) = (&offence, self.violation_at) {
            print_error(format_args!("{file}{place}: {offence}"));
            exit = CliExit::Problems;
        }
        if let Err(fault) = end {
            let report = self.stream.report();
            let (kind, what) = match fault {
                StreamError::Truncated => {
                    let what = describe_empty_input(self.arguments.from, report);
                    (RejectionKind::UpstreamTruncated, Some(what.unwrap_or_else(|| fault.to_string())))
                }
                StreamError::Framing(_) => (RejectionKind::FrameTooLarge, Some(fault.to_string())),
                // Routes have these; a translation is asked for neither.
                StreamError::ForbiddenTool => (RejectionKind::ToolNotAllowed, Some(fault.to_string())),
                StreamError::OverBudget(_) => (RejectionKind::RunLimitReached, Some(fault.to_string())),
                // Said above, with its place.
                StreamError::Violation => (RejectionKind::ProtocolViolation, None),
            };
            let message = offence.filter(|_| fault == StreamError::Violation).unwrap_or_else(|| kind.text().to_owned());
            self.stream.fail(kind.code(), &message, 0, &mut self.out);
            if let Some(what) = what {
                print_error(format_args!("{file}: {what}; the output ends with an error event"));
            }
            exit = CliExit::Problems;
        }
        let left_out = self.stream.report().losses[EventLoss::AfterTerminal as usize];
        if left_out > 0 {
            print_error(format_args!(
                "{file}: {left_out} event(s) after the end of the run were left out; translate one run at a time"
            ));
            exit = CliExit::Problems;
        }
        exit
    }
}

/// Why an input without a terminal event may be no recording at all.
fn describe_empty_input(from: PeerDialect, report: &TranslationReport) -> Option<String> {
    // What is no event counts as read too.
    let malformed = report.repairs[EventRepair::MalformedFrame as usize];
    if report.events_read.iter().sum::<u64>() > malformed {
        return None;
    }
    Some(match malformed + report.losses[EventLoss::DoneMarker as usize] {
        0 => "no event found: the input is neither an event stream nor NDJSON".to_owned(),
        frames => format!("no event found: of {frames} frame(s) or line(s) none is an event of {}", from.dialect.name),
    })
}

/// Writes frames in the form that was asked for.
struct FrameSink<W> {
    out: W,
    format: OutputFormat,
    frames: sse::SseDecoder,
}

impl<W: Write> FrameSink<W> {
    fn write(&mut self, frames: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            OutputFormat::Sse | OutputFormat::Proto => self.out.write_all(frames)?,
            OutputFormat::Ndjson => {
                let mut rest = frames.as_slice();
                while let SseStep::Frame(frame) = self.frames.next(&mut rest) {
                    // White space between JSON tokens may hold newlines; the line must not.
                    writeln!(self.out, "{}", frame.data.replace('\n', " "))?;
                }
            }
        }
        frames.clear();
        Ok(())
    }
}
