//! `diglot check --test`: runs the examples of dialect files.

use super::output::{CliExit, CliResult, print_error, print_line, with_plural};
use super::stream_failure;
use crate::codec::sse::SseLimits;
use crate::config::dialect_file::{DialectExample, ExampleInput};
use crate::config::intern_file_dialect;
use crate::config::load;
use crate::dialect::{AG_UI, PeerDialect, ThreadState, ThreadValues};
use crate::error::RejectionKind;
use crate::event::Json;
use crate::translate::request::translate_input;
use crate::translate::{RunIds, Stream};
use serde_json::Value;
use std::path::PathBuf;

/// Time of events in examples; they are compared without it.
const NOW: i64 = 0;

/// The compared parts of a request.
const REQUEST_PARTS: [&str; 3] = ["body", "path", "headers"];

/// Runs the examples of each file and prints those that differ.
pub(super) fn run(files: &[PathBuf]) -> CliResult {
    let mut exit = CliExit::Ok;
    for path in files {
        let file = match load::load_dialect_file(path) {
            Ok(file) => file,
            Err(problems) => {
                problems.as_slice().iter().all(print_line);
                exit = CliExit::Config;
                continue;
            }
        };
        let agent = PeerDialect::new(intern_file_dialect(file.dialect));
        let failures = file.examples.iter().filter(|example| !passes(path, example, agent)).count();
        let count = with_plural(file.examples.len(), "example");
        match (failures, file.examples.is_empty()) {
            (0, false) => drop(print_line(format_args!("{}: {count} passed", path.display()))),
            (0, true) => drop(print_line(format_args!("{}: no examples; add some under `tests:`", path.display()))),
            (failures, _) => {
                print_error(format_args!("{}: {failures} of {count} failed", path.display()));
                if exit == CliExit::Ok {
                    exit = CliExit::Problems;
                }
            }
        }
    }
    Ok(exit)
}

/// Runs one example and prints how it differs.
fn passes(path: &std::path::Path, example: &DialectExample, agent: PeerDialect) -> bool {
    let (expected, actual) = match &example.input {
        ExampleInput::Stream { bytes, events } => {
            let expected: Vec<Value> = events.iter().map(to_value).collect();
            (expected, translate_stream(bytes, example, agent))
        }
        ExampleInput::Request { input, body, path, headers } => {
            let actual = make_request(input, example, agent).unwrap_or_else(|refused| vec![Value::String(refused)]);
            (vec![to_value(body), Value::from(&**path), to_value(headers)], actual)
        }
    };
    let name = |index: usize| match &example.input {
        ExampleInput::Stream { .. } => format!("event {}", index + 1),
        ExampleInput::Request { .. } => REQUEST_PARTS[index].to_owned(),
    };
    if expected == actual {
        return true;
    }
    let position = format!("{}:{}", path.display(), example.line);
    print_line(format_args!("{position}: `{}` differs", example.name));
    for index in 0..expected.len().max(actual.len()) {
        let (expected, actual) = (expected.get(index), actual.get(index));
        if expected != actual {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            let name = name(index);
            print_line(format_args!("  {name}: expected {}", show(expected)));
            print_line(format_args!("  {:width$}       got {}", "", show(actual), width = name.len()));
            break;
        }
    }
    false
}

fn thread_values(example: &DialectExample, agent: PeerDialect) -> ThreadValues {
    let names = agent.dialect.mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default();
    let value = |name: &str| example.thread.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    names.iter().map(|name| value(name)).collect()
}

/// Translates the agent's bytes into AG-UI's events.
fn translate_stream(bytes: &str, example: &DialectExample, agent: PeerDialect) -> Vec<Value> {
    let ids = RunIds::new("t1", "r1");
    let client = PeerDialect::new(&AG_UI);
    let thread = thread_values(example, agent);
    let mut stream = Stream::new(agent, client, Some(ids.clone()), SseLimits::default())
        .with_thread(&ids, ThreadState { values: thread, is_lost: false });
    let mut out = Vec::new();
    let done = stream.push(bytes.as_bytes(), NOW, &mut out).and_then(|()| stream.finish(NOW, &mut out));
    if let Err(error) = done {
        stream.fail(RejectionKind::from(&error).code(), &stream_failure::message(&error), NOW, &mut out);
    }
    let text = String::from_utf8_lossy(&out).into_owned();
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

/// Makes [`REQUEST_PARTS`]. Fails with the reason if AG-UI's request is refused.
fn make_request(input: &Json<'_>, example: &DialectExample, agent: PeerDialect) -> Result<Vec<Value>, String> {
    let client = PeerDialect::new(&AG_UI);
    let ids = RunIds::new("t1", "r1");
    let thread = |_: &Json<'_>| Some(thread_values(example, agent));
    let request = translate_input(input.as_str().as_bytes(), client, agent, &ids, None, false, &thread);
    let request = request.map_err(|refused| format!("refused: {refused}"))?;
    let body = serde_json::from_str(&request.body).map_err(|error| error.to_string())?;
    let headers = request.target.headers.iter().map(|(name, value)| (name.to_string(), Value::from(&**value)));
    Ok(vec![body, Value::from(request.target.join("")), Value::Object(headers.collect())])
}

fn to_value(value: &Json<'_>) -> Value {
    serde_json::from_str(value.as_str()).unwrap_or_default()
}
