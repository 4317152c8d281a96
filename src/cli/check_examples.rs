//! The examples of dialect files, for `diglot check --test`.

use super::example_coverage::ExampleCoverage;
use super::stream_failure;
use crate::codec::sse::SseLimits;
use crate::config::dialect_file::{DialectExample, DialectFile, ExampleInput};
use crate::config::{ConfigProblem, intern_file_dialect};
use crate::dialect::{AG_UI, PeerDialect, ThreadChange, ThreadState, ThreadValues};
use crate::error::RejectionKind;
use crate::event::{EventType, Field, Json};
use crate::proxy;
use crate::translate::explain_trace::TraceEntry;
use crate::translate::request::{RequestRefusal, translate_input};
use crate::translate::{RunIds, Stream};
use http::StatusCode;
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// Time of events in examples; they are compared without it.
const NOW: i64 = 0;

/// The compared parts of a request.
const REQUEST_PARTS: [&str; 3] = ["body", "path", "headers"];

/// An example that differs, and the first place where it does.
pub(super) struct ExampleFailure {
    name: String,
    pub(super) line: u64,
    /// `event 3`, `keep`, or one of [`REQUEST_PARTS`]
    place: String,
    expected: String,
    found: String,
    /// why a frame is passed on
    reason: Option<String>,
}

impl fmt::Display for ExampleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExampleFailure { name, place, expected, found, reason, .. } = self;
        let width = place.len() + ": expected".len();
        write!(f, "`{name}` differs\n  {place}: expected {expected}\n  {:>width$} {found}", "got")?;
        reason.iter().try_for_each(|reason| write!(f, "\n  {reason}"))
    }
}

impl ExampleFailure {
    /// Returns the failure as a problem of its file, as programs read it.
    pub(super) fn to_problem(&self, file: &Path) -> ConfigProblem {
        let ExampleFailure { name, line, place, expected, found, reason } = self;
        let reason = reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
        let message = format!("the example `{name}` differs in its {place}: expected {expected}, got {found}{reason}");
        let mut problem = ConfigProblem::for_path(file, message);
        (problem.line, problem.column, problem.path) = (Some(*line), Some(1), "tests".to_owned());
        problem
    }
}

/// The results of all examples of a file.
pub(super) struct ExampleResults {
    pub(super) failures: Vec<ExampleFailure>,
    /// what no example uses
    pub(super) warnings: Vec<ConfigProblem>,
}

/// Runs the examples of a file with this text.
pub(super) fn run(file: DialectFile, path: &Path, text: &str) -> ExampleResults {
    let mut coverage = ExampleCoverage::new(&file);
    let agent = PeerDialect::new(intern_file_dialect(file.dialect));
    let failures = file.examples.iter().filter_map(|example| find_difference(example, agent, &mut coverage)).collect();
    let warnings = agent.dialect.mapping.map(|mapping| coverage.find_unused(mapping, path, text));
    ExampleResults { failures, warnings: warnings.unwrap_or_default() }
}

/// Runs one example and returns where it differs first.
fn find_difference(
    example: &DialectExample,
    agent: PeerDialect,
    coverage: &mut ExampleCoverage,
) -> Option<ExampleFailure> {
    let mut reasons = Vec::new();
    let mut refused_line = None;
    let values = |events: &[Json<'_>]| events.iter().map(to_value).collect::<Vec<_>>();
    let (expected, actual) = match &example.input {
        ExampleInput::Stream { bytes, events, keep } => {
            let (mut expected, mut run) = (values(events), translate_stream(bytes, example, agent, coverage));
            if let Some(keep) = keep {
                // Behind the events, however many there are.
                let length = expected.len().max(run.events.len());
                expected.resize(length, Value::Null);
                run.events.resize(length, Value::Null);
                expected.push(to_value(keep));
                run.events.push(run.kept);
            }
            reasons = run.reasons;
            (expected, run.events)
        }
        ExampleInput::Answer { status, media_type, body, events } => {
            coverage.add_answer(body);
            let has_kept_values = !example.thread.is_empty();
            (values(events), explain_answer(*status, media_type, body, agent, has_kept_values))
        }
        ExampleInput::Request { input, body, path, headers } => {
            let actual = make_request(input, example, agent).unwrap_or_else(|refused| {
                let lines = example.request_lines.iter().filter(|(own, _)| refused.pointer.starts_with(own));
                refused_line = lines.max_by_key(|(own, _)| own.len()).map(|(_, line)| *line);
                vec![Value::String(format!("refused: {refused}"))]
            });
            (vec![to_value(body), Value::from(&**path), to_value(headers)], actual)
        }
    };
    let mut places = 0..expected.len().max(actual.len());
    let index = places.find(|index| expected.get(*index) != actual.get(*index))?;
    let show = |values: &[Value]| match values.get(index) {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(value) => value.to_string(),
    };
    let is_passed_on = |event: &&Value| is_raw_of(event, agent);
    let reason = actual.get(index).filter(is_passed_on).and_then(|_| {
        let earlier = actual[..index].iter().filter(is_passed_on).count();
        reasons.into_iter().nth(earlier)
    });
    let is_keep = matches!(example.input, ExampleInput::Stream { keep: Some(_), .. }) && index + 1 == expected.len();
    let lines = &example.compared_lines;
    let line = if is_keep { lines.last() } else { lines.get(index) };
    Some(ExampleFailure {
        name: example.name.clone(),
        line: refused_line.or(line.copied()).unwrap_or(example.line),
        place: match &example.input {
            ExampleInput::Stream { .. } if is_keep => "keep".to_owned(),
            ExampleInput::Stream { .. } | ExampleInput::Answer { .. } => format!("event {}", index + 1),
            ExampleInput::Request { .. } => REQUEST_PARTS[index].to_owned(),
        },
        expected: show(&expected),
        found: show(&actual),
        reason,
    })
}

/// Returns whether an event is a frame of the agent that no rule has read.
fn is_raw_of(event: &Value, agent: PeerDialect) -> bool {
    event["type"] == EventType::Raw.wire() && event[Field::Source.camel()] == agent.dialect.name
}

fn thread_values(example: &DialectExample, agent: PeerDialect) -> ThreadValues {
    let names = agent.dialect.mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default();
    let value = |name: &str| example.thread.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    names.iter().map(|name| value(name)).collect()
}

/// The result of an agent's stream.
struct ExampleRun {
    events: Vec<Value>,
    /// values for later runs of the thread, by name
    kept: Value,
    /// of each frame that is passed on, why it is
    reasons: Vec<String>,
}

/// Translates the agent's bytes into AG-UI's events.
fn translate_stream(
    bytes: &str,
    example: &DialectExample,
    agent: PeerDialect,
    coverage: &mut ExampleCoverage,
) -> ExampleRun {
    let ids = RunIds::new("t1", "r1");
    let client = PeerDialect::new(&AG_UI);
    let thread = thread_values(example, agent);
    let mut stream = Stream::new(agent, client, Some(ids.clone()), SseLimits::default())
        .with_thread(&ids, ThreadState { values: thread, is_lost: false });
    stream.report_mut().trace = Some(Box::default());
    let mut out = Vec::new();
    let done = stream.push(bytes.as_bytes(), NOW, &mut out).and_then(|()| stream.finish(NOW, &mut out));
    if let Err(error) = done {
        stream.fail(RejectionKind::from(&error).code(), &stream_failure::message(&error), NOW, &mut out);
    }
    let trace = stream.report_mut().trace.take().unwrap_or_default();
    let mapping = agent.dialect.mapping;
    mapping.iter().for_each(|mapping| coverage.add_stream(bytes, mapping));
    let names = mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default();
    let kept = match stream.take_thread_change() {
        Some(ThreadChange::Keep(values)) => values,
        Some(ThreadChange::Forget) | None => ThreadValues::new(),
    };
    let kept = names.iter().zip(kept);
    let kept = kept.filter_map(|(name, value)| Some((name.to_string(), to_value(&value?)))).collect();
    let frames = || {
        trace.entries.iter().filter_map(|entry| match entry {
            TraceEntry::Mapped(frame) => Some(frame),
            _ => None,
        })
    };
    frames().for_each(|frame| coverage.add_frame(frame));
    let reasons = frames().filter(|frame| frame.is_unknown).map(|frame| match frame.describe_lines() {
        Some(lines) => format!("the rule of {lines} finds no value in the frame"),
        None => "no rule applies to the frame".to_owned(),
    });
    ExampleRun { events: read_events(&out), kept: Value::Object(kept), reasons: reasons.collect() }
}

/// Explains an answer that is no stream, as AG-UI's events.
fn explain_answer(status: u16, media_type: &str, body: &str, agent: PeerDialect, has_kept_values: bool) -> Vec<Value> {
    let paths = agent.dialect.mapping.map(|mapping| &mapping.error);
    let status = StatusCode::from_u16(status).unwrap_or_default();
    let rejection = proxy::explain_answer(status, media_type, body, paths, has_kept_values);
    let Some(rejection) = rejection else { return Vec::new() };
    let mut stream = Stream::new(agent, PeerDialect::new(&AG_UI), None, SseLimits::default());
    let mut out = Vec::new();
    stream.fail(rejection.kind.code(), rejection.message(), NOW, &mut out);
    read_events(&out)
}

fn read_events(out: &[u8]) -> Vec<Value> {
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

/// Makes [`REQUEST_PARTS`]. Fails if AG-UI's request is refused.
fn make_request(input: &Json<'_>, example: &DialectExample, agent: PeerDialect) -> Result<Vec<Value>, RequestRefusal> {
    let client = PeerDialect::new(&AG_UI);
    let ids = RunIds::new("t1", "r1");
    let thread = |_: &Json<'_>| Some(thread_values(example, agent));
    let request = translate_input(input.as_str().as_bytes(), client, agent, &ids, None, false, &thread)?;
    let body = serde_json::from_str(&request.body).unwrap_or_default();
    let headers = request.target.headers.iter().map(|(name, value)| (name.to_string(), Value::from(&**value)));
    Ok(vec![body, Value::from(request.target.join("")), Value::Object(headers.collect())])
}

fn to_value(value: &Json<'_>) -> Value {
    serde_json::from_str(value.as_str()).unwrap_or_default()
}
