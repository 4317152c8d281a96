//! Translates a run's input again, one event at a time, and explains each.

use super::captured_run::CaptureStep;
use super::row::{AlignedRow, CarriedMembers, RowCause, RowCount, RowEvent};
use super::stream_settings::StreamSettings;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::codec::{Framing, json};
use crate::event::Json;
use crate::translate::explain_trace::{ExplainTrace, TraceEntry};
use crate::translate::{ConversationState, Stream};

#[derive(Debug)]
pub(crate) struct RunAligner {
    stream: Stream,
    /// finds the agent's events in the same bytes that the stream reads
    frames: SseDecoder,
    framing: Framing,
    out: Vec<u8>,
    rows: u64,
    /// set once the stream reads no further
    stopped: bool,
}

impl RunAligner {
    pub(crate) fn new(settings: &StreamSettings, conversation: ConversationState) -> RunAligner {
        // Protobuf frames are shown as the JSON that they stand for.
        let settings = StreamSettings { framing: Framing::Sse, ..settings.clone() };
        let mut stream = settings.create_stream(conversation);
        stream.report_mut().trace = Some(Box::new(ExplainTrace::default()));
        RunAligner {
            stream,
            frames: SseDecoder::new(settings.limits),
            framing: Framing::Sse,
            out: Vec::new(),
            rows: 0,
            stopped: false,
        }
    }

    /// Takes the next step of the run, at `now_ms` since the epoch, and appends the rows that it completes.
    pub(crate) fn apply(
        &mut self,
        now_ms: i64,
        at_ms: u64,
        step: &CaptureStep,
        bytes: &[u8],
        rows: &mut Vec<AlignedRow>,
    ) {
        match step {
            CaptureStep::Responded(framing) => {
                self.framing = *framing;
                self.stream.read_as(*framing);
            }
            CaptureStep::Followed(run_id) => self.stream.follow_run(run_id.as_deref()),
            CaptureStep::Read(_) => self.read(now_ms, at_ms, bytes, rows),
            CaptureStep::Reconnected => {
                self.stream.resume();
                self.frames = SseDecoder::new(SseLimits::UNLIMITED);
                self.push_row(at_ms, None, RowCause::Mark, Some("another connection to the agent continues"), rows);
            }
            CaptureStep::BodyEnded => {
                let end = self.stream.finish(now_ms, &mut self.out);
                while let SseStep::Frame(frame) = self.frames.finish() {
                    self.push_row(at_ms, Some(event(&frame.data)), RowCause::Held, None, rows);
                }
                let note = end.err().map(|fault| fault.to_string());
                let note = note.as_deref().unwrap_or("the agent's stream ended");
                self.push_row(at_ms, None, RowCause::End, Some(note), rows);
            }
            CaptureStep::Failed(failure) => {
                let (code, message) = &**failure;
                self.stream.fail(code, message, now_ms, &mut self.out);
                self.push_row(at_ms, None, RowCause::Gateway, Some("the gateway ended the run"), rows);
            }
            CaptureStep::Cancelled => {
                self.stream.cancel(now_ms, &mut self.out);
                self.push_row(at_ms, None, RowCause::Gateway, Some("the run was stopped"), rows);
            }
        }
    }

    fn read(&mut self, now_ms: i64, at_ms: u64, bytes: &[u8], rows: &mut Vec<AlignedRow>) {
        if self.framing == Framing::Proto {
            self.push_bytes(now_ms, bytes);
            let note = format!("{} bytes of protobuf", bytes.len());
            let agent = RowEvent { kind: None, data: None };
            self.push_row(at_ms, Some(agent), RowCause::Held, Some(&note), rows);
            return;
        }
        // Both decoders complete a frame at the same line.
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let fault = self.push_bytes(now_ms, line);
            let mut rest = line;
            match self.frames.next(&mut rest) {
                SseStep::Frame(frame) => {
                    self.push_row(at_ms, Some(event(&frame.data)), RowCause::Held, fault.as_deref(), rows);
                }
                SseStep::Failed(_) | SseStep::More => {
                    if let Some(fault) = fault {
                        self.push_row(at_ms, None, RowCause::Mark, Some(&fault), rows);
                    }
                }
            }
        }
    }

    /// Returns the error that stopped the stream, once.
    fn push_bytes(&mut self, now_ms: i64, bytes: &[u8]) -> Option<String> {
        if self.stopped {
            return None;
        }
        let fault = self.stream.push(bytes, now_ms, &mut self.out).err()?;
        self.stopped = true;
        Some(fault.to_string())
    }

    fn push_row(
        &mut self,
        at_ms: u64,
        agent: Option<RowEvent>,
        cause: RowCause,
        note: Option<&str>,
        rows: &mut Vec<AlignedRow>,
    ) {
        self.rows += 1;
        let mut row = AlignedRow {
            n: self.rows,
            at_ms,
            agent,
            client: take_events(&mut self.out),
            canonical: Vec::new(),
            cause,
            seed: None,
            carried: Vec::new(),
            repairs: Vec::new(),
            losses: Vec::new(),
            note: note.map(str::to_owned),
        };
        let trace = self.stream.report_mut().trace.as_mut();
        for entry in trace.map(|trace| std::mem::take(&mut trace.entries)).unwrap_or_default() {
            add_trace(entry, &mut row);
        }
        if row.agent.is_some() {
            row.cause = cause_of(&row);
        }
        rows.push(row);
    }
}

fn cause_of(row: &AlignedRow) -> RowCause {
    let agent = row.agent.as_ref().and_then(|agent| agent.data.as_ref());
    match row.client.as_slice() {
        [] if row.losses.is_empty() => RowCause::Held,
        [] => RowCause::Dropped,
        [one] if is_same(one.data.as_deref(), agent.map(String::as_str)) => RowCause::Same,
        [_] => RowCause::Changed,
        _ => RowCause::Split,
    }
}

/// Compares JSON: white space and the order of members are no difference to anybody.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let parse = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    one == other || matches!((parse(one), parse(other)), (Some(one), Some(other)) if one == other)
}

fn add_trace(entry: TraceEntry, row: &mut AlignedRow) {
    let mut add_carried = |names: Vec<String>, location: String| {
        let carried = CarriedMembers { names, location };
        if !carried.names.is_empty() && !row.carried.contains(&carried) {
            row.carried.push(carried);
        }
    };
    match entry {
        TraceEntry::Read(_, found) => row.seed = found.map(|found| found.seed),
        TraceEntry::Canonical(kind, names, location) => {
            row.canonical.push(kind.wire());
            add_carried(names, location);
        }
        TraceEntry::Guarded(names, location) | TraceEntry::Written(_, names, location) => add_carried(names, location),
        TraceEntry::Repair(repair) => {
            row.repairs.push(RowCount { label: repair.label(), help: repair.description() });
        }
        TraceEntry::Loss(loss) => row.losses.push(RowCount { label: loss.label(), help: loss.description() }),
    }
}

fn event(data: &str) -> RowEvent {
    let kind = json::parse_object(data).ok().and_then(|object| object.kind);
    let kind = kind.as_ref().and_then(Json::text).map(std::borrow::Cow::into_owned);
    RowEvent { kind, data: Some(data.to_owned()) }
}

/// Takes the events out of whole frames.
fn take_events(frames: &mut Vec<u8>) -> Vec<RowEvent> {
    let mut decoder = SseDecoder::new(SseLimits::UNLIMITED);
    let mut rest = frames.as_slice();
    let mut events = Vec::new();
    while let SseStep::Frame(frame) = decoder.next(&mut rest) {
        events.push(event(&frame.data));
    }
    frames.clear();
    events
}
