//! Runs the stream of an example frame by frame, so that each event is known to come of one.

use super::stream_failure;
use crate::codec::json;
use crate::codec::sse::{SseDecoder, SseLimits, SseStep};
use crate::dialect::{AG_UI, FrameTrace, Mapping, MappingRule, PeerDialect, ThreadChange, ThreadState, ThreadValues};
use crate::error::RejectionKind;
use crate::event::{EventLoss, Json};
use crate::translate::explain_trace::TraceEntry;
use crate::translate::{RunIds, Stream};
use serde_json::Value;

/// Time of events in examples; they are compared without it.
const NOW: i64 = 0;

/// A frame of an example, and what the rules did with it.
#[derive(Debug, Default)]
pub(super) struct ExampleFrame {
    /// in lines of the stream, counted from 0
    pub(super) line: u64,
    pub(super) event_line: Option<String>,
    pub(super) data: String,
    pub(super) trace: FrameTrace,
    /// whether an event began what was open, or ended what was not, and is left out
    pub(super) has_stray_boundary: bool,
}

impl ExampleFrame {
    pub(super) fn value(&self) -> Option<Json<'_>> {
        json::parse_value(&self.data)
    }

    /// Returns the rules that applied to the frame.
    pub(super) fn rules<'m>(&self, mapping: &'m Mapping) -> impl Iterator<Item = &'m MappingRule> {
        mapping.rules.iter().filter(|rule| self.trace.lines.contains(&rule.line))
    }
}

/// The result of an agent's stream.
pub(super) struct ExampleRun {
    pub(super) events: Vec<Value>,
    /// positions of the frames of which the events come; none for those at the end of the stream
    pub(super) origins: Vec<Option<usize>>,
    /// values for later runs of the thread, by name
    pub(super) kept: Value,
    pub(super) frames: Vec<ExampleFrame>,
}

/// Follows what a stream becomes.
struct RunWatch {
    run: ExampleRun,
    decoder: SseDecoder,
    out: Vec<u8>,
    seen_entries: usize,
    /// line of the frame that is not at its end
    begin: Option<u64>,
}

impl RunWatch {
    /// Takes note of what came of a line.
    fn add_line(&mut self, number: u64, line: &[u8], stream: &mut Stream) {
        if !line.trim_ascii().is_empty() {
            self.begin.get_or_insert(number);
        }
        let entries = stream.report_mut().trace.as_ref().map(|trace| &trace.entries[self.seen_entries..]);
        let entries = entries.unwrap_or_default();
        self.seen_entries += entries.len();
        let mut traces = entries.iter().filter_map(|entry| match entry {
            TraceEntry::Mapped(frame) => Some(frame),
            _ => None,
        });
        let is_stray = |entry: &TraceEntry| matches!(entry, TraceEntry::Loss(EventLoss::StrayBoundary));
        let mut rest = line;
        let mut origin = None;
        while let SseStep::Frame(frame) = self.decoder.next(&mut rest) {
            origin = Some(self.run.frames.len());
            self.run.frames.push(ExampleFrame {
                line: self.begin.take().unwrap_or(number),
                event_line: frame.event.as_deref().map(str::to_owned),
                data: frame.data.clone().into_owned(),
                trace: traces.next().cloned().unwrap_or_default(),
                has_stray_boundary: entries.iter().any(is_stray),
            });
        }
        self.add_events(origin);
    }

    fn add_events(&mut self, origin: Option<usize>) {
        let out = std::mem::take(&mut self.out);
        let events = read_events(&out);
        self.run.origins.resize(self.run.origins.len() + events.len(), origin);
        self.run.events.extend(events);
    }
}

/// Translates the agent's bytes into AG-UI's events.
pub(super) fn translate_stream(bytes: &str, thread: ThreadValues, agent: PeerDialect) -> ExampleRun {
    let ids = RunIds::new("t1", "r1");
    let client = PeerDialect::new(&AG_UI);
    let mut stream = Stream::new(agent, client, Some(ids.clone()), SseLimits::default())
        .with_thread(&ids, ThreadState { values: thread, is_lost: false });
    stream.report_mut().trace = Some(Box::default());
    let run = ExampleRun { events: Vec::new(), origins: Vec::new(), kept: Value::Null, frames: Vec::new() };
    let mut watch = RunWatch { run, decoder: SseDecoder::default(), out: Vec::new(), seen_entries: 0, begin: None };
    let mut done = Ok(());
    for (number, line) in (0..).zip(bytes.split_inclusive('\n')) {
        done = stream.push(line.as_bytes(), NOW, &mut watch.out);
        watch.add_line(number, line.as_bytes(), &mut stream);
        if done.is_err() {
            break;
        }
    }
    let done = done.and_then(|()| stream.finish(NOW, &mut watch.out));
    // The last frame of an example may lack its blank line.
    watch.add_line(0, b"\n\n", &mut stream);
    if let Err(error) = done {
        stream.fail(RejectionKind::from(&error).code(), &stream_failure::message(&error), NOW, &mut watch.out);
        watch.add_events(None);
    }
    let names = agent.dialect.mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default();
    let kept = match stream.take_thread_change() {
        Some(ThreadChange::Keep(values)) => values,
        Some(ThreadChange::Forget) | None => ThreadValues::new(),
    };
    let kept = names.iter().zip(kept);
    let kept = kept.filter_map(|(name, value)| Some((name.to_string(), to_value(&value?)))).collect();
    ExampleRun { kept: Value::Object(kept), ..watch.run }
}

pub(super) fn read_events(out: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(out);
    let frames = text.lines().filter_map(|line| line.strip_prefix("data: "));
    frames.map(|data| without_additions(serde_json::from_str(data).unwrap_or_default())).collect()
}

/// Removes what the gateway adds to every run.
fn without_additions(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("timestamp");
        members.remove("protocolVersion");
    }
    event
}

pub(super) fn to_value(value: &Json<'_>) -> Value {
    serde_json::from_str(value.as_str()).unwrap_or_default()
}
