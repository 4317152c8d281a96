//! `diglot translate`: translates a recorded stream or request, offline.

use super::dialect_arg;
use super::frame_sink::{self, FrameSink, OutputFormat};
use super::input::{self, IoFailure, READ_SIZE};
use super::input_framing::ProtobufInput;
use super::output::{CliExit, CliResult, print_error, with_plural};
use super::recorded_input::{self, NO_REQUEST};
use super::recording_reader::{
    EventPosition, NO_EVENT, PARTIAL_FRAME, ReadStop, RecordedEventConsumer, read_recording,
};
use super::stream_failure;
use super::translate_explain::{TranslateExplainer, describe_cut_event, format_counts};
use super::translate_recording::{RecordedOptions, translate_recording};
use crate::codec::Framing;
use crate::codec::sse::SseLimits;
use crate::config;
use crate::config::process::ALLOWS_SHORTCUT;
use crate::dialect::{PeerDialect, ThreadValues};
use crate::error::RejectionKind;
use crate::event::Json;
use crate::inspect::RecordedRun;
use crate::translate::explain_trace::ExplainTrace;
use crate::translate::roundtrip::{self, RoundTrip, RoundTripOutcome};
use crate::translate::{
    EventLoss, GuardMode, RunIds, Stream, StreamError, StrictViolation, TranslationReport, detect, request,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::ops::Deref;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct TranslateArgs {
    /// Dialect of the input
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the input [default for a recording of `diglot record`: its own]: {}", dialect_arg::dialect_help()))]
    from: Option<PeerDialect>,
    /// Dialect of the output
    #[arg(long, value_name = "DIALECT", value_parser = dialect_arg::parse_dialect, help = format!("Dialect of the output [default for a recording of `diglot record`: its own]: {}", dialect_arg::dialect_help()))]
    to: Option<PeerDialect>,
    /// The input is a request (RunAgentInput), not an event stream
    #[arg(long)]
    request: bool,
    /// Format of the translated stream [default: sse; for a recording, what its client was sent]
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// Format of the input stream
    #[arg(long, value_enum, default_value_t = InputFormat::Auto)]
    input: InputFormat,
    /// Print to stderr how each event was read, written, carried, repaired or lost, and the totals at the end; what is
    /// `_not_shown` is carried, but the client's user does not see it
    #[arg(long, conflicts_with_all = ["request", "roundtrip"])]
    explain: bool,
    /// Stop at the first event that violates the protocol, like a route with `guard: strict`: print its line and the
    /// rule, and exit with 1
    #[arg(long, conflicts_with_all = ["request", "roundtrip"])]
    strict: bool,
    /// Translate to the other dialect and back, and print the differences to the input instead of the translation: exit
    /// with 1 if members were lost or changed, each printed with its line and path
    #[arg(long, conflicts_with = "format")]
    roundtrip: bool,
    /// Largest event of the input, like `limits.frame` of a gateway
    #[arg(long, value_name = "SIZE", value_parser = config::parse_size, default_value = DEFAULT_MAX_FRAME, conflicts_with = "request")]
    max_frame: usize,
    /// Thread id of the run, and `{@thread_id}` of a dialect file [default: from the input, else `thread`]
    #[arg(long, value_name = "ID", requires = "run")]
    thread: Option<String>,
    /// Run id of the run, and `{@run_id}` of a dialect file [default: from the input, else `run`]
    #[arg(long, value_name = "ID", requires = "thread")]
    run: Option<String>,
    /// File to read, `-` for stdin. A stream may be SSE, NDJSON (one event per line), AG-UI's protobuf or
    /// a recording of `diglot record`
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputFormat {
    /// detect by the first lines
    Auto,
    /// frames of application/vnd.ag-ui.event+proto, for ag-ui alone
    Proto,
}

/// [`crate::codec::sse::FRAME_LIMIT`] as the command line writes it.
const DEFAULT_MAX_FRAME: &str = "10MiB";

/// Maximum number of differences that a round trip prints.
const MAX_DIFFERENCES: usize = 20;
const MAX_VALUE_CHARS: usize = 160;

/// The arguments, with the dialects that they or the recording name, and the opened input.
struct TranslatePlan<'a> {
    arguments: &'a TranslateArgs,
    from: PeerDialect,
    to: PeerDialect,
    format: OutputFormat,
    /// what earlier runs of the thread kept, as a recording has it
    thread: Option<ThreadValues>,
    input: RefCell<Box<dyn Read>>,
}

impl Deref for TranslatePlan<'_> {
    type Target = TranslateArgs;

    fn deref(&self) -> &TranslateArgs {
        self.arguments
    }
}

pub(super) fn run(arguments: &TranslateArgs) -> CliResult {
    let input = match input::open(&arguments.file).and_then(recorded_input::peek) {
        Ok(input) => input,
        Err(failure) => return failure.into_result(&arguments.file, CliExit::Ok),
    };
    if input.is_recording {
        return translate_recorded(arguments, input.reader);
    }
    let (Some(from), Some(to)) = (arguments.from, arguments.to) else {
        return Err(CliExit::Usage.failure(format_args!(
            "{}: name the dialects with --from and --to; only a recording of `diglot record` names its own",
            arguments.file.display()
        )));
    };
    translate_input(arguments, from, to, Some(ThreadValues::new()), input.reader)
}

/// Translates a recording of `diglot record` as its gateway did, unless the arguments say otherwise.
fn translate_recorded(arguments: &TranslateArgs, reader: Box<dyn Read>) -> CliResult {
    let run = match RecordedRun::read(BufReader::new(reader)) {
        Ok(run) => run,
        Err(error) => return IoFailure::from(error).into_result(&arguments.file, CliExit::Ok),
    };
    let file = arguments.file.display();
    let settings = run.settings_with(arguments.from, arguments.to, arguments.request);
    let settings = settings.map_err(|why| CliExit::Usage.failure(format_args!("{file}: {why}")))?;
    if arguments.request {
        let body = run.client_request;
        let body = body.ok_or_else(|| CliExit::Problems.failure(format_args!("{file}: {NO_REQUEST}")))?;
        let input = Box::new(Cursor::new(body));
        let thread = (!settings.thread.is_lost).then_some(settings.thread.values);
        return translate_input(arguments, settings.client, settings.agent, thread, input);
    }
    if arguments.roundtrip {
        let agent_bytes = Box::new(Cursor::new(run.agent_bytes()));
        return translate_input(arguments, settings.agent, settings.client, Some(ThreadValues::new()), agent_bytes);
    }
    let options = RecordedOptions {
        file: &arguments.file,
        format: arguments.format,
        explain: arguments.explain,
        strict: arguments.strict,
        ids: ids_of_args(arguments),
    };
    translate_recording(&options, &run, settings).or_else(|failure| failure.into_result(&arguments.file, CliExit::Ok))
}

fn translate_input(
    arguments: &TranslateArgs,
    from: PeerDialect,
    to: PeerDialect,
    thread: Option<ThreadValues>,
    input: Box<dyn Read>,
) -> CliResult {
    let client = if arguments.request { from } else { to };
    let is_mapped = [from, to].map(|side| side.dialect.mapping.is_some());
    if client.dialect.mapping.is_some() || (arguments.roundtrip && is_mapped.contains(&true)) {
        return Err(CliExit::Usage.failure(
            "a dialect file is for agents: name it with --from for a stream and with --to for a request, without --roundtrip",
        ));
    }
    let format = arguments.format.unwrap_or(OutputFormat::Sse);
    let plan = TranslatePlan { arguments, from, to, format, thread, input: RefCell::new(input) };
    let allows_proto = |peer: PeerDialect| !plan.request && peer.dialect.is_canonical();
    if (plan.format == OutputFormat::Proto && !allows_proto(to))
        || (plan.arguments.input == InputFormat::Proto && !allows_proto(from))
    {
        return Err(CliExit::Usage.failure("--format proto and --input proto are only for event streams of ag-ui"));
    }
    let result = match (plan.request, plan.roundtrip) {
        (true, false) => translate_request(&plan),
        (true, true) => roundtrip_request(&plan),
        (false, true) => roundtrip_stream(&plan),
        (false, false) => translate_stream(&plan),
    };
    result.or_else(|stop| match stop {
        ReadStop::Io(failure) => failure.into_result(&plan.file, CliExit::Ok),
        ReadStop::Stream(fault) => Ok(report_problem(&plan, describe_fault(&fault))),
        ReadStop::PartialFrame => Ok(report_problem(&plan, PARTIAL_FRAME)),
    })
}

/// Describes why an event stream cannot be read further, and the option that allows it.
fn describe_fault(fault: &StreamError) -> String {
    match fault {
        StreamError::Framing(_) => format!("{fault}; use --max-frame to allow larger events"),
        fault => fault.to_string(),
    }
}

fn ids_of_args(arguments: &TranslateArgs) -> Option<RunIds> {
    Some(RunIds::new(arguments.thread.as_deref()?, arguments.run.as_deref()?))
}

fn ids_or_default(arguments: &TranslatePlan<'_>) -> RunIds {
    ids_of_args(arguments).unwrap_or_else(|| RunIds::new("thread", "run"))
}

fn read_body(arguments: &TranslatePlan<'_>) -> Result<Vec<u8>, IoFailure> {
    let mut body = Vec::new();
    arguments.input.borrow_mut().read_to_end(&mut body).map_err(IoFailure::Input)?;
    body.truncate(body.trim_ascii_end().len());
    Ok(body)
}

fn translate_request(arguments: &TranslatePlan<'_>) -> Result<CliExit, ReadStop> {
    let body = read_body(arguments)?;
    let ids = ids_or_default(arguments);
    let thread = |_: &Json<'_>| arguments.thread.clone();
    match request::translate_input(&body, arguments.from, arguments.to, &ids, None, false, &thread) {
        Ok(translated) => {
            writeln!(io::stdout().lock(), "{}", translated.body).map_err(IoFailure::Output)?;
            let file = arguments.file.display();
            let to = arguments.to.dialect.name;
            if !translated.target.is_empty() {
                let headers = translated.target.headers.iter().map(|(name, value)| format!(", `{name}: {value}`"));
                let headers = headers.collect::<String>();
                let added = translated.target.join("");
                print_error(format_args!(
                    "{file}: the agent gets this body at its URL with `{added}` behind it{headers}"
                ));
            }
            let downgraded = translated.losses[EventLoss::Downgraded as usize];
            if downgraded > 0 {
                let places = with_plural(downgraded, "place");
                print_error(match arguments.to.dialect.mapping {
                    Some(_) => format!(
                        "{file}: left out content for which {to} has no form, in {places}; a dialect file keeps what one of the `rules` of its `each` is for"
                    ),
                    None => format!(
                        "{file}: left out content that older peers of {to} reject, in {places}; `pin` the peer's version to keep it"
                    ),
                });
            }
            let hidden = EventLoss::ALL.iter().filter(|loss| loss.is_carried());
            let hidden = hidden.map(|loss| (loss.label(), translated.losses[*loss as usize]));
            if hidden.clone().any(|(_, count)| count > 0) {
                print_error(format_args!(
                    "{file}: carried, but an agent of {to} does not see it: {}",
                    format_counts(hidden)
                ));
            }
            Ok(CliExit::Ok)
        }
        Err(refusal) => Ok(report_problem(arguments, refusal)),
    }
}

fn roundtrip_request(arguments: &TranslatePlan<'_>) -> Result<CliExit, ReadStop> {
    let body = read_body(arguments)?;
    let from = detect::detect_options(arguments.from, std::str::from_utf8(&body).into_iter());
    match roundtrip::roundtrip_request(&body, from, arguments.to, &ids_or_default(arguments)) {
        Ok(outcome) => Ok(report_roundtrip(arguments, &outcome, &[], "the request")),
        Err(refusal) => Ok(report_problem(arguments, refusal)),
    }
}

fn report_problem(arguments: &TranslatePlan<'_>, what: impl Display) -> CliExit {
    print_error(format_args!("{}: {what}", arguments.file.display()));
    CliExit::Problems
}

/// Reads the recording to its end, or until `consumer` fails. Returns the number of lines that cannot be read.
fn read_events(arguments: &TranslatePlan<'_>, consumer: &mut RecordedEventConsumer<'_>) -> Result<u64, ReadStop> {
    let protobuf = match arguments.arguments.input {
        InputFormat::Proto => ProtobufInput::Always,
        InputFormat::Auto if arguments.from.dialect.is_canonical() => ProtobufInput::Detect,
        InputFormat::Auto => ProtobufInput::Never,
    };
    let mut input = arguments.input.borrow_mut();
    read_recording(&mut *input, protobuf, arguments.max_frame, consumer)
}

fn roundtrip_stream(arguments: &TranslatePlan<'_>) -> Result<CliExit, ReadStop> {
    let mut positions = Vec::new();
    let mut events = Vec::new();
    let mut dropped = 0;
    read_events(arguments, &mut |position, _, data| {
        dropped += position.dropped;
        positions.push(position);
        events.push(data.to_owned());
        Ok(())
    })?;
    if positions.is_empty() {
        return Ok(report_problem(arguments, NO_EVENT));
    }
    if dropped > 0 {
        let (file, parts) = (arguments.file.display(), with_plural(dropped, "content part"));
        print_error(format_args!("{file}: {parts} of a later protocol version could not be read"));
    }
    // The route's text format determines the format on the way back; the recording shows which format its route would
    // have.
    let from = detect::detect_options(arguments.from, events.iter().map(String::as_str));
    let mut trip = RoundTrip::new(from, arguments.to, ids_of_args(arguments));
    events.iter().for_each(|data| trip.push_event(data));
    let what = with_plural(positions.len(), "event");
    Ok(report_roundtrip(arguments, &trip.finish(), &positions, &what))
}

/// Prints the result of a round trip. `positions` holds the events' positions, and is empty for a request.
fn report_roundtrip(
    arguments: &TranslatePlan<'_>,
    outcome: &RoundTripOutcome,
    positions: &[EventPosition],
    what: &str,
) -> CliExit {
    let file = arguments.file.display();
    for difference in outcome.differences.iter().take(MAX_DIFFERENCES) {
        let position = positions.get(difference.event).map(ToString::to_string).unwrap_or_default();
        let path = if difference.path.is_empty() { "the event" } else { &difference.path };
        let repairs: Vec<&str> = difference.repairs.iter().map(|repair| repair.label()).collect();
        let why = if repairs.is_empty() { String::new() } else { format!(" (repaired: {})", repairs.join(", ")) };
        let before = truncate_value(&difference.before);
        let after = difference.after.as_deref().map_or("gone".to_owned(), truncate_value);
        print_error(format_args!("{file}{position}: {path}{why}\n  before  {before}\n  after   {after}"));
    }
    let from = arguments.from.dialect.name;
    let to = arguments.to.dialect.name;
    let losses = EventLoss::ALL.iter().map(|loss| {
        let count = outcome.losses.iter().filter(|(_, own)| own == loss).count();
        (loss.label(), u64::try_from(count).unwrap_or(u64::MAX))
    });
    let mut added = BTreeMap::<&str, u64>::new();
    outcome.added.iter().for_each(|kind| *added.entry(kind).or_default() += 1);
    let tail = format!("added: {}; left out: {}", format_counts(added.into_iter()), format_counts(losses));
    if outcome.differences.is_empty() {
        // Content that is omitted on purpose is not a difference.
        let result =
            if outcome.losses.is_empty() { "came back unchanged" } else { "came back, except for what is left out," };
        print_error(format_args!("{file}: {what} {result} from {from} to {to} and back; {tail}"));
        return CliExit::Ok;
    }
    let differences = with_plural(outcome.differences.len(), "difference");
    print_error(format_args!("{file}: {differences} after {from} to {to} and back, in {what}; {tail}"));
    CliExit::Problems
}

fn truncate_value(value: &str) -> String {
    let truncated: String = value.chars().take(MAX_VALUE_CHARS).collect();
    if truncated.len() < value.len() { format!("{truncated}…") } else { truncated }
}

/// A translation in progress.
struct TranslateJob<'a, W> {
    arguments: &'a TranslatePlan<'a>,
    stream: Stream,
    sink: FrameSink<W>,
    out: Vec<u8>,
    explainer: Option<TranslateExplainer>,
    /// position of the first violation
    violation: Option<(EventPosition, StrictViolation)>,
    has_partial_frame: bool,
}

fn translate_stream(arguments: &TranslatePlan<'_>) -> Result<CliExit, ReadStop> {
    let limits = SseLimits { line: arguments.max_frame, frame: arguments.max_frame };
    // The frames of other agents name no run.
    let own_ids = arguments.from.dialect.mapping.map(|_| ids_or_default(arguments));
    let ids = ids_of_args(arguments).or(own_ids);
    let mut stream = Stream::new(arguments.from, arguments.to, ids, limits).with_agent(arguments.from);
    if !*ALLOWS_SHORTCUT {
        stream = stream.without_shortcut();
    }
    if arguments.format == OutputFormat::Proto {
        stream.write_as(Framing::Proto);
    }
    let mode = if arguments.strict { GuardMode::Strict } else { GuardMode::Repair };
    let sink = frame_sink::open_stdout(arguments.format);
    let mut job = TranslateJob {
        arguments,
        stream: stream.with_guard_mode(mode),
        sink,
        out: Vec::new(),
        explainer: arguments.explain.then(TranslateExplainer::default),
        violation: None,
        has_partial_frame: false,
    };
    if job.explainer.is_some() {
        job.stream.report_mut().trace = Some(Box::new(ExplainTrace::default()));
    }
    let end = match read_events(arguments, &mut |position, name, data| job.push_event(position, name, data)) {
        Ok(marked_lines) => {
            job.stream.report_mut().count_loss_times(EventLoss::MarkedLine, marked_lines);
            job.stream.finish(0, &mut job.out)
        }
        Err(ReadStop::Stream(fault)) => Err(fault),
        Err(ReadStop::PartialFrame) => {
            job.has_partial_frame = true;
            job.stream.finish(0, &mut job.out)
        }
        Err(stop) => return Err(stop),
    };
    let exit = job.finish_run(end);
    job.sink.write(&mut job.out).map_err(IoFailure::Output)?;
    job.sink.flush().map_err(IoFailure::Output)?;
    job.print_summary();
    Ok(exit)
}

impl<W: Write> TranslateJob<'_, W> {
    fn push_event(&mut self, position: EventPosition, name: Option<&str>, data: &str) -> Result<(), ReadStop> {
        (0..position.dropped).for_each(|_| self.stream.report_mut().count_loss(EventLoss::UnknownPart));
        let pushed = self.stream.push_named_event(name, data, 0, &mut self.out);
        self.print_explanation(Some(position));
        if position.is_cut && self.explainer.is_some() {
            print_error(format_args!("{}{position}: {}", self.arguments.file.display(), describe_cut_event(data)));
        }
        if self.arguments.strict
            && self.violation.is_none()
            && let Some(rule) = self.stream.report().broken_rule
        {
            self.violation = Some((position, StrictViolation::new(rule, data)));
        }
        if self.out.len() >= READ_SIZE {
            self.sink.write(&mut self.out).map_err(IoFailure::Output)?;
        }
        pushed.map_err(ReadStop::Stream)
    }

    fn print_explanation(&mut self, position: Option<EventPosition>) {
        if let (Some(explain), Some(trace)) = (&mut self.explainer, &mut self.stream.report_mut().trace) {
            let notes = std::mem::take(&mut trace.entries);
            if let Some(line) = explain.explain_event(position, &notes, self.arguments.from.dialect) {
                print_error(format_args!("{}{line}", self.arguments.file.display()));
            }
        }
    }

    /// Prints the totals of `--explain`.
    fn print_summary(&mut self) {
        self.print_explanation(None);
        if let Some(explain) = &self.explainer {
            print_error(format_args!("{}: {}", self.arguments.file.display(), explain.summary()));
        }
    }

    /// Ends the run if the input did not, and prints why the output is incomplete.
    fn finish_run(&mut self, end: Result<(), StreamError>) -> CliExit {
        let file = self.arguments.file.display();
        let mut exit = CliExit::Ok;
        if let Some((position, violation)) = &self.violation {
            print_error(format_args!("{file}{position}: {violation}"));
            exit = CliExit::Problems;
        }
        if self.has_partial_frame {
            print_error(format_args!("{file}: {PARTIAL_FRAME}"));
            exit = CliExit::Problems;
        }
        if let Err(fault) = end {
            let report = self.stream.report();
            let kind = RejectionKind::from(&fault);
            let what = match &fault {
                StreamError::Truncated { .. } if report.events_read.is_empty() => {
                    Some(describe_empty_input(report).to_owned())
                }
                StreamError::UnknownDialect => {
                    self.stream.unknown_frames().map(|frames| stream_failure::describe_unknown(frames, "--from"))
                }
                // Already printed, with its position.
                StreamError::Violation(_) => None,
                fault => Some(describe_fault(fault)),
            };
            let message = stream_failure::message(&fault);
            self.stream.fail(kind.code(), &message, 0, &mut self.out);
            if let Some(what) = what {
                print_error(format_args!("{file}: {what}; the output ends with an error event"));
            }
            exit = CliExit::Problems;
        }
        let left_out = self.stream.report().losses[EventLoss::AfterTerminal as usize];
        if left_out > 0 {
            let events = with_plural(left_out, "event");
            print_error(format_args!(
                "{file}: {events} after the end of the run left out; translate one run at a time"
            ));
            exit = CliExit::Problems;
        }
        exit
    }
}

/// Describes input without events, which is probably not a recording.
fn describe_empty_input(report: &TranslationReport) -> &'static str {
    match report.losses[EventLoss::DoneMarker as usize] {
        0 => NO_EVENT,
        _ => "no event found before the end marker `[DONE]`",
    }
}
