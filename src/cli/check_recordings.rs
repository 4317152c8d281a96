//! `check --against`: what clients and agents of recorded runs would get differently under a changed configuration.

use super::event_diff::{EventDifference, compare_events, compare_requests, read_events};
use super::output::{CliExit, CliFailure, CliResult, print_error, print_line, with_plural};
use super::recorded_agent::read_recording_file;
use super::stream_failure;
use crate::codec::Framing;
use crate::config::dialect_text::format_dialect;
use crate::config::{Config, RouteConfig};
use crate::error::RejectionKind;
use crate::event::Json;
use crate::inspect::{CaptureStep, RECORDING_START, RecordedRun, ReplayedStream, StreamSettings};
use crate::translate::{AllowedTools, ConversationState, request};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason for which a recording has no differences by event.
enum ComparisonFailure {
    /// the request would be refused, which is a difference
    Refused(String),
    Incomparable(String),
}

impl From<String> for ComparisonFailure {
    fn from(why: String) -> ComparisonFailure {
        ComparisonFailure::Incomparable(why)
    }
}

pub(super) fn run(config: &Config, folder: &Path) -> CliResult {
    let files = list_recordings(folder)?;
    let (mut differing, mut incomparable) = (0, 0);
    for file in &files {
        let name = file.display();
        let recorded = match read_recording_file(file) {
            Ok(run) => run,
            Err(failure) => {
                incomparable += 1;
                print_line(format_args!("{failure}; not compared"));
                continue;
            }
        };
        match compare(config, &recorded) {
            Ok((route, differences)) if differences.is_empty() => {
                print_line(format_args!("{name}: route {route}: the same"));
            }
            Ok((route, differences)) => {
                differing += 1;
                let count = with_plural(differences.len(), "difference");
                print_line(format_args!("{name}: route {route}: {count}"));
                differences.iter().all(print_line);
            }
            Err(ComparisonFailure::Refused(why)) => {
                differing += 1;
                print_line(format_args!("{name}: {why}"));
            }
            Err(ComparisonFailure::Incomparable(why)) => {
                incomparable += 1;
                print_line(format_args!("{name}: {why}; not compared"));
            }
        }
    }
    let not_compared =
        if incomparable > 0 { format!(", and {incomparable} could not be compared") } else { String::new() };
    print_error(format_args!(
        "{}: {}, of which {differing} would be different{not_compared}; `-` as recorded, `+` with this configuration",
        folder.display(),
        with_plural(files.len(), "recording")
    ));
    Ok(if differing + incomparable > 0 { CliExit::Problems } else { CliExit::Ok })
}

/// Lists the recordings of a folder by name. Other files are skipped.
fn list_recordings(folder: &Path) -> Result<Vec<PathBuf>, CliFailure> {
    let unreadable = |error| {
        CliExit::Unavailable
            .failure(format_args!("{}: {error}; name a folder of recordings that this user may read", folder.display()))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_file() && is_recording(&path) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(CliExit::Unavailable.failure(format_args!(
            "{}: no recordings in this folder; make some with `diglot record -o {0}/`",
            folder.display()
        )));
    }
    Ok(files)
}

/// Returns whether a file begins as a recording does, or cannot be read, which is reported later.
fn is_recording(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(RECORDING_START.len() as u64).read_to_end(&mut first));
    read.is_err() || first == RECORDING_START
}

/// Compares what the client was sent with what it would be sent. Returns the route's name and the differences.
fn compare(config: &Config, run: &RecordedRun) -> Result<(String, Vec<EventDifference>), ComparisonFailure> {
    let route = find_route(config, run)?;
    let settings = route_settings(config, route, run)?;
    let (conversation, request) = conversation(&settings, run)?;
    let unreadable = |_| "the client's stream cannot be read as events".to_owned();
    let recorded = read_events(&run.client_bytes()).map_err(unreadable)?;
    let now = read_events(&translate(&settings, conversation, run)).map_err(unreadable)?;
    let recorded_request = run.agent_request.as_deref();
    let requests =
        recorded_request.zip(request.as_deref()).map(|(before, after)| (to_value(before), to_value(after.as_bytes())));
    let differences = requests.and_then(|(before, after)| compare_requests(&before, &after));
    let differences = differences.into_iter().chain(compare_events(&recorded, &now, &mut None));
    Ok((route.name.clone(), differences.collect()))
}

/// Finds the route of the same name, or the only one with the same dialects.
fn find_route<'c>(config: &'c Config, run: &RecordedRun) -> Result<&'c RouteConfig, String> {
    let head = &run.head;
    if let Some(route) = config.routes.iter().find(|route| route.name == head.route) {
        return Ok(route);
    }
    let has_dialects =
        |route: &&RouteConfig| format_dialect(route.client) == head.client && format_dialect(route.agent) == head.agent;
    let mut alike = config.routes.iter().filter(has_dialects);
    match (alike.next(), alike.next()) {
        (Some(route), None) => Ok(route),
        (None, _) => Err(format!(
            "no route: none is called `{}`, and none has clients of {} and an agent of {}",
            head.route, head.client, head.agent
        )),
        (Some(one), Some(other)) => Err(format!(
            "no route: none is called `{}`, and more than one has its dialects, such as `{}` and `{}`",
            head.route, one.name, other.name
        )),
    }
}

/// Returns the settings that the run would have on this route.
fn route_settings(config: &Config, route: &RouteConfig, run: &RecordedRun) -> Result<StreamSettings, String> {
    // A client whose dialect is detected is what it was found to be.
    let client = if route.client.is_auto { run.head.client_side("--to")? } else { route.client };
    let recorded = run.settings_with(Some(route.agent), Some(client), false)?;
    let framing = if client.dialect.is_canonical() { recorded.framing } else { Framing::Sse };
    let tools = route.access.tools.as_ref();
    let tools = tools.map(|names| Arc::new(AllowedTools::new(names.iter().map(String::as_str))));
    let StreamSettings { client, agent, ids, frame_token, thread, .. } = recorded;
    let settings = StreamSettings::for_route(route, config.limits.frame, tools, client, agent, ids);
    Ok(StreamSettings { framing, frame_token, thread, ..settings })
}

fn to_value(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(body)))
}

/// Returns what would be known of the thread's earlier runs, which depends on the dialects if there is a request, and
/// the request's body for the agent.
fn conversation(
    settings: &StreamSettings,
    run: &RecordedRun,
) -> Result<(ConversationState, Option<String>), ComparisonFailure> {
    let Some(body) = &run.client_request else { return Ok((run.conversation(), None)) };
    let tools = settings.tools.as_deref();
    let thread = |_: &Json<'_>| (!settings.thread.is_lost).then(|| settings.thread.values.clone());
    request::translate_input(body, settings.client, settings.agent, &settings.ids, tools, false, &thread)
        .map(|translated| (translated.conversation, Some(translated.body)))
        .map_err(|refusal| ComparisonFailure::Refused(format!("the client's request would be refused: {refusal}")))
}

/// Returns what the client would be sent.
fn translate(settings: &StreamSettings, conversation: ConversationState, run: &RecordedRun) -> Vec<u8> {
    let mut stream = ReplayedStream::new(settings, conversation);
    let mut out = Vec::new();
    for (now_ms, step, bytes) in run.steps() {
        if let Err(fault) = stream.apply(now_ms, step, bytes, &mut out) {
            let code = RejectionKind::from(&fault).code().to_owned();
            // The gateway's own message, unless the recording has another.
            let failure = recorded_failure(run, &code).unwrap_or_else(|| (code, stream_failure::message(&fault)));
            let _ = stream.apply(now_ms, &CaptureStep::Failed(Box::new(failure)), &[], &mut out);
        }
    }
    out
}

/// Returns the code and message with which the gateway ended the recorded run, if for the same reason.
fn recorded_failure(run: &RecordedRun, code: &str) -> Option<(String, String)> {
    run.steps().find_map(|(_, step, _)| match step {
        CaptureStep::Failed(failure) if failure.0 == code => Some((**failure).clone()),
        _ => None,
    })
}
