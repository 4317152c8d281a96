//! Translates a recording of `diglot record` with the settings and the times of its run, which gives the bytes that its
//! client was sent.

use super::frame_sink::{self, OutputFormat};
use super::input::IoFailure;
use super::output::{CliExit, print_error};
use super::recording_reader::{EventPosition, is_cut_object};
use super::stream_failure;
use super::translate_explain::{TranslateExplainer, describe_cut_event};
use crate::codec::Framing;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::dialect::Dialect;
use crate::error::RejectionKind;
use crate::inspect::{CaptureStep, RecordedRun, RecordingEnd, ReplayedStream, StreamSettings};
use crate::translate::explain_trace::ExplainTrace;
use crate::translate::{GuardMode, RunIds, StreamError};
use std::path::Path;

/// The options of the command line, apart from dialects.
pub(super) struct RecordedOptions<'a> {
    pub(super) file: &'a Path,
    pub(super) format: Option<OutputFormat>,
    pub(super) explain: bool,
    pub(super) strict: bool,
    pub(super) ids: Option<RunIds>,
}

struct RecordingJob<'a> {
    file: &'a Path,
    agent: &'static Dialect,
    stream: ReplayedStream,
    explainer: Option<TranslateExplainer>,
    /// finds the event within which the agent's body ends, to explain it
    frames: SseDecoder,
    out: Vec<u8>,
    exit: CliExit,
}

pub(super) fn translate_recording(
    options: &RecordedOptions<'_>,
    run: &RecordedRun,
    mut settings: StreamSettings,
) -> Result<CliExit, IoFailure> {
    if options.strict {
        settings.guard = GuardMode::Strict;
    }
    if let Some(ids) = &options.ids {
        settings.ids = ids.clone();
    }
    // Another dialect than the recorded one may not have the recorded framing.
    let is_proto = match options.format {
        Some(format) => format == OutputFormat::Proto,
        None => settings.framing == Framing::Proto,
    };
    settings.framing = if is_proto && settings.client.dialect.is_canonical() { Framing::Proto } else { Framing::Sse };
    let mut stream = ReplayedStream::new(&settings, run.conversation());
    if options.explain {
        stream.report_mut().trace = Some(Box::new(ExplainTrace::default()));
    }
    let mut job = RecordingJob {
        file: options.file,
        agent: settings.agent.dialect,
        stream,
        explainer: options.explain.then(TranslateExplainer::default),
        frames: SseDecoder::new(SseLimits::UNLIMITED),
        out: Vec::new(),
        exit: CliExit::Ok,
    };
    let mut sink = frame_sink::open_stdout(options.format.unwrap_or(OutputFormat::Sse));
    let mut last_ms = run.head.started_ms;
    let mut fault = None;
    for (now_ms, step, bytes) in run.steps() {
        fault = job.apply(now_ms, step, bytes).or(fault);
        last_ms = now_ms;
        sink.write(&mut job.out).map_err(IoFailure::Output)?;
    }
    job.finish(last_ms, fault, run.end);
    sink.write(&mut job.out).map_err(IoFailure::Output)?;
    sink.flush().map_err(IoFailure::Output)?;
    job.print_totals();
    Ok(job.exit)
}

impl RecordingJob<'_> {
    /// Takes a step of the run. Returns the error that stopped the stream.
    fn apply(&mut self, now_ms: i64, step: &CaptureStep, bytes: &[u8]) -> Option<StreamError> {
        let mut fault = None;
        if let CaptureStep::Read(_) = step {
            // Line by line, so that each event is explained by itself.
            for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
                let frames = self.stream.frames_read();
                let applied = self.stream.apply(now_ms, &CaptureStep::Read(line.len()), line, &mut self.out);
                self.explain((self.stream.frames_read() > frames).then(|| self.position()));
                fault = fault.or(applied.err());
                let mut rest = line;
                while self.explainer.is_some() && matches!(self.frames.next(&mut rest), SseStep::Frame(_)) {}
            }
        } else {
            let is_ended = self.stream.is_ended();
            self.explain_cut(step);
            fault = self.stream.apply(now_ms, step, bytes, &mut self.out).err();
            self.explain(None);
            if let CaptureStep::Failed(failure) = step
                && !is_ended
            {
                let (code, message) = &**failure;
                self.report(format_args!("the gateway ended the run: {code}: {message}"));
            }
        }
        if let Some(StreamError::Violation(violation)) = &fault {
            let position = self.position();
            print_error(format_args!("{}{position}: {violation}", self.file.display()));
            self.exit = CliExit::Problems;
        }
        fault
    }

    fn position(&self) -> EventPosition {
        EventPosition {
            event: usize::try_from(self.stream.frames_read()).unwrap_or(usize::MAX),
            line: 0,
            dropped: 0,
            is_cut: false,
        }
    }

    fn report(&mut self, what: impl std::fmt::Display) {
        print_error(format_args!("{}: {what}", self.file.display()));
        self.exit = CliExit::Problems;
    }

    fn explain(&mut self, position: Option<EventPosition>) {
        let (Some(explain), Some(trace)) = (&mut self.explainer, &mut self.stream.report_mut().trace) else { return };
        let notes = std::mem::take(&mut trace.entries);
        if let Some(line) = explain.explain_event(position, &notes, self.agent) {
            print_error(format_args!("{}{line}", self.file.display()));
        }
    }

    /// Names the event within which the agent's body ends.
    fn explain_cut(&mut self, step: &CaptureStep) {
        let is_end = match step {
            CaptureStep::BodyEnded | CaptureStep::Failed(_) | CaptureStep::Cancelled => true,
            CaptureStep::Reconnected => {
                self.frames = SseDecoder::new(SseLimits::UNLIMITED);
                false
            }
            _ => false,
        };
        let (true, true, SseStep::Frame(frame)) = (is_end, self.explainer.is_some(), self.frames.finish()) else {
            return;
        };
        if is_cut_object(&frame.data) {
            let event = EventPosition { event: self.position().event + 1, ..self.position() };
            print_error(format_args!("{}{event}: {}", self.file.display(), describe_cut_event(&frame.data)));
        }
    }

    fn print_totals(&self) {
        if let Some(explain) = &self.explainer {
            print_error(format_args!("{}: {}", self.file.display(), explain.summary()));
        }
    }

    /// Ends the run as a gateway would, if the recorded steps do not.
    fn finish(&mut self, now_ms: i64, fault: Option<StreamError>, end: RecordingEnd) {
        if let (Some(fault), false) = (&fault, self.stream.is_ended()) {
            if !matches!(fault, StreamError::Violation(_)) {
                self.report(format_args!("{fault}; the output ends with an error event"));
            }
            let code = RejectionKind::from(fault).code().to_owned();
            let failed = CaptureStep::Failed(Box::new((code, stream_failure::message(fault))));
            // Cannot fail.
            let _ = self.stream.apply(now_ms, &failed, &[], &mut self.out);
        }
        match end {
            RecordingEnd::Ended { missed_bytes: 0 } => {}
            RecordingEnd::Ended { missed_bytes } => self.report(format_args!(
                "{missed_bytes} more bytes of the agent were not kept: `inspect.run_bytes` of the gateway was reached, or the \
                 agent sent protobuf on a route with `redact`"
            )),
            RecordingEnd::Running => self.report("the run went on after it was recorded"),
            RecordingEnd::Gone => self.report(
                "the gateway forgot the run before it was recorded to its end; raise `inspect.bytes` or `inspect.runs`",
            ),
        }
    }
}
