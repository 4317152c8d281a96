//! The examples of dialect files, for `diglot check --test`.

use super::example_coverage::ExampleCoverage;
use super::example_difference::{EventOrigins, MemberMismatch};
use super::example_run::{read_events, to_value, translate_stream};
use super::request_origins::{explain_body, with_places};
use super::terminal_text::escape_text;
use crate::codec::sse::SseLimits;
use crate::config::dialect_file::{DialectExample, DialectFile, ExampleInput};
use crate::config::{ConfigProblem, intern_file_dialect};
use crate::dialect::{AG_UI, PeerDialect, ThreadValues};
use crate::event::Json;
use crate::proxy;
use crate::translate::request::{RequestRefusal, translate_input};
use crate::translate::{RunIds, Stream};
use http::StatusCode;
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// Time of events in examples; they are compared without it.
const NOW: i64 = 0;

/// The compared parts of a request.
const REQUEST_PARTS: [&str; 3] = [BODY, "path", "headers"];

const BODY: &str = "body";

/// An example that differs, and the first place where it does.
pub(super) struct ExampleFailure {
    name: String,
    pub(super) line: u64,
    /// `event 3`, `keep`, or one of [`REQUEST_PARTS`]
    place: String,
    expected: String,
    found: String,
    /// what differs in it, and what made it
    reasons: Vec<String>,
}

impl fmt::Display for ExampleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExampleFailure { reasons, .. } = self;
        let [name, place, expected, found] =
            [&self.name, &self.place, &self.expected, &self.found].map(|text| escape_text(text));
        let width = place.len() + ": expected".len();
        write!(f, "`{name}` differs\n  {place}: expected {expected}\n  {:>width$} {found}", "got")?;
        reasons.iter().try_for_each(|reason| write!(f, "\n  {}", escape_text(reason)))
    }
}

impl ExampleFailure {
    /// Creates that of the part of an example at a JSON Pointer, whose line is that of the first member that differs.
    fn new(
        example: &DialectExample,
        file: &DialectFile,
        place: &str,
        pointer: &str,
        expected: &Value,
        found: &Value,
    ) -> Self {
        let show = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
        let member = MemberMismatch::find(expected, found);
        let root = format!("{}{pointer}", example.pointer);
        let line = member.as_ref().and_then(|member| file.lines.innermost(&root, &member.pointer));
        let line = line.map(|(_, line)| line).or_else(|| file.lines.get(&root));
        // Of an event that is not expected, the line of the list.
        let outer = || file.lines.get(&root[..root.rfind('/')?]);
        ExampleFailure {
            name: example.name.clone(),
            line: line.or_else(outer).unwrap_or(example.line),
            place: place.to_owned(),
            expected: show(expected),
            found: show(found),
            reasons: member.iter().map(MemberMismatch::describe).collect(),
        }
    }

    /// Returns the failure as a problem of its file, as programs read it.
    pub(super) fn to_problem(&self, file: &Path) -> ConfigProblem {
        let ExampleFailure { name, line, place, expected, found, reasons } = self;
        let reason: String = reasons.iter().map(|reason| format!("; {reason}")).collect();
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
    let agent = PeerDialect::new(intern_file_dialect(file.dialect.clone()));
    let differences = file.examples.iter().map(|example| find_difference(example, &file, agent, &mut coverage));
    let failures = differences.flatten().collect();
    let warnings = agent.dialect.mapping.map(|mapping| coverage.find_unused(mapping, path, text));
    ExampleResults { failures, warnings: warnings.unwrap_or_default() }
}

/// Runs one example and returns where it differs first.
fn find_difference(
    example: &DialectExample,
    file: &DialectFile,
    agent: PeerDialect,
    coverage: &mut ExampleCoverage,
) -> Option<ExampleFailure> {
    match &example.input {
        ExampleInput::Stream { bytes, events, keep } => {
            let run = translate_stream(bytes, thread_values(example, agent), agent);
            let mapping = agent.dialect.mapping?;
            coverage.add_run(example, &run, mapping);
            let origins = EventOrigins { example, file, mapping, dialect: agent.dialect.name, run: &run };
            let of_events = compare_events(events, &run.events, example, file).map(|mut failure| {
                let reasons = origins.explain(failure.index, &failure.expected, failure.member.as_ref());
                failure.difference.reasons.extend(reasons);
                failure.difference
            });
            of_events.or_else(|| {
                let keep = to_value(keep.as_ref()?);
                (keep != run.kept).then(|| {
                    let mut failure = ExampleFailure::new(example, file, "keep", "/keep", &keep, &run.kept);
                    failure.reasons.extend(origins.explain_kept(MemberMismatch::find(&keep, &run.kept).as_ref()));
                    failure
                })
            })
        }
        ExampleInput::Answer { status, media_type, body, events } => {
            coverage.add_answer(body);
            let found = explain_answer(*status, media_type, body, agent, !example.thread.is_empty());
            compare_events(events, &found, example, file).map(|failure| failure.difference)
        }
        ExampleInput::Request { input, body, path, headers } => {
            let expected = [to_value(body), Value::from(&**path), to_value(headers)];
            let found = match make_request(input, example, agent) {
                Ok(found) => found,
                Err(refused) => {
                    let found = Value::String(format!("refused: {refused}"));
                    let mut failure = ExampleFailure::new(example, file, "body", "/body", &expected[0], &found);
                    let root = format!("{}/request", example.pointer);
                    let line = file.lines.innermost(&root, &refused.pointer).map(|(_, line)| line);
                    failure.line = line.or(file.lines.get(&root)).unwrap_or(failure.line);
                    return Some(failure);
                }
            };
            let mut parts = REQUEST_PARTS.iter().zip(expected.iter().zip(&found));
            let (part, (expected, found)) = parts.find(|(_, (expected, found))| expected != found)?;
            let mut failure = ExampleFailure::new(example, file, part, &format!("/{part}"), expected, found);
            let member = MemberMismatch::find(expected, found);
            let of_body = member.as_ref().filter(|_| *part == BODY);
            let reason = of_body.and_then(|member| {
                let placed = PeerDialect::new(intern_file_dialect(with_places(file)));
                explain_body(file, make_request(input, example, placed).ok()?.first()?, member)
            });
            failure.reasons.extend(reason.or_else(|| EventOrigins::explain_request(file, part, member.as_ref())));
            failure.reasons.extend(member.as_ref().and_then(MemberMismatch::explain_form));
            Some(failure)
        }
    }
}

/// The first event that differs.
struct EventFailure {
    index: usize,
    /// null if there is none
    expected: Value,
    member: Option<MemberMismatch>,
    difference: ExampleFailure,
}

fn compare_events(
    expected: &[Json<'_>],
    found: &[Value],
    example: &DialectExample,
    file: &DialectFile,
) -> Option<EventFailure> {
    let expected: Vec<_> = expected.iter().map(to_value).collect();
    let mut places = 0..expected.len().max(found.len());
    let index = places.find(|index| expected.get(*index) != found.get(*index))?;
    let of = |values: &[Value]| values.get(index).cloned().unwrap_or_default();
    let (expected, found) = (of(&expected), of(found));
    let (place, pointer) = (format!("event {}", index + 1), format!("/events/{index}"));
    let difference = ExampleFailure::new(example, file, &place, &pointer, &expected, &found);
    let member = MemberMismatch::find(&expected, &found);
    Some(EventFailure { index, expected, member, difference })
}

fn thread_values(example: &DialectExample, agent: PeerDialect) -> ThreadValues {
    let names = agent.dialect.mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default();
    let value = |name: &str| example.thread.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    names.iter().map(|name| value(name)).collect()
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
