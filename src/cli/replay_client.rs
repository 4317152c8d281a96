//! The client of a recording, for `replay --as client`.

use super::event_diff::{RunTolerance, compare_events, read_events};
use super::local_gateway::block_on;
use super::output::{CliExit, CliFailure, CliResult, print_line, with_plural};
use super::recorded_agent::read_recording_file;
use super::recorded_input::NO_REQUEST;
use super::terminal_text::escape_text;
use crate::codec::Framing;
use crate::config;
use crate::inspect::{RecordedRun, RecordingEnd};
use crate::net::http_client::{HttpClient, HttpLimits};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Longest stream that is read.
const MAX_STREAM: usize = 256 << 20;

/// Most that is read of a refusal, which is a problem document.
const MAX_PROBLEM: usize = 64 << 10;

/// The cause and the way out for a recording of a request that was not read.
const REFUSED_BEFORE: &str =
    "its request was refused before it was read, so there is none to send again; see its run in `diglot tap --kept`";

#[derive(clap::Args)]
pub(super) struct ClientArgs {
    /// URL to which the client sends its request: a route of a gateway, or an agent
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Header of the client's request, such as `authorization: Bearer x`; may be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    headers: Vec<String>,

    /// Longest time of the client's run
    #[arg(long, value_parser = config::parse_duration, value_name = "DURATION", default_value = "10m")]
    timeout: Duration,
}

impl ClientArgs {
    pub(super) const fn is_used(&self) -> bool {
        self.to.is_some() || !self.headers.is_empty()
    }
}

pub(super) fn run(file: &Path, arguments: &ClientArgs) -> CliResult {
    let Some(to) = &arguments.to else {
        return Err(CliExit::Usage.failure("--as client needs --to URL, such as --to http://127.0.0.1:8787/chat"));
    };
    let run = read_recording_file(file)?;
    let name = file.display();
    let body = run.client_request.clone();
    let was_refused = run.items.is_empty() && run.end == RecordingEnd::Ended { missed_bytes: 0 };
    let lacks_request = if was_refused { REFUSED_BEFORE } else { NO_REQUEST };
    let body = body.ok_or_else(|| CliExit::Problems.failure(format_args!("{name}: {lacks_request}")))?;
    let request = build_request(to, &arguments.headers, &run, body.clone())?;
    let as_recorded = if was_refused { "; the recorded request was refused, too" } else { "" };
    let stream = block_on(send(to, request, arguments.timeout, as_recorded))?;
    let unreadable = |_| CliExit::Problems.failure(format_args!("{to}: the answer cannot be read as events"));
    let recorded = read_events(&run.client_bytes()).map_err(unreadable)?;
    let came = read_events(&stream).map_err(unreadable)?;
    let mut tolerance = RunTolerance::default();
    if let Ok(request) = serde_json::from_slice(&body) {
        collect_texts(&request, &mut tolerance);
    }
    let differences = compare_events(&recorded, &came, &mut Some(tolerance));
    if differences.is_empty() {
        print_line(format_args!("{name}: {} came as recorded", with_plural(came.len(), "event")));
        return Ok(CliExit::Ok);
    }
    let count = with_plural(differences.len(), "difference");
    let refused = if was_refused { "the recorded request was refused, this was not; " } else { "" };
    print_line(format_args!("{name}: {refused}{count}; `-` recorded, `+` came from {to}"));
    differences.iter().all(print_line);
    Ok(CliExit::Problems)
}

fn build_request(to: &str, headers: &[String], run: &RecordedRun, body: Vec<u8>) -> Result<Request<Bytes>, CliFailure> {
    let usage = |why: String| CliExit::Usage.failure(why);
    let accept = match run.head.framing.as_str() {
        "proto" => Framing::Proto.media_type(),
        _ => Framing::Sse.media_type(),
    };
    let mut request = Request::post(to).header(header::CONTENT_TYPE, "application/json").header(header::ACCEPT, accept);
    for field in headers {
        let (field_name, value) =
            field.split_once(':').ok_or_else(|| usage(format!("`{field}` is not a header: write NAME: VALUE")))?;
        request = request.header(field_name.trim(), value.trim());
    }
    request.body(body.into()).map_err(|error| usage(format!("--to or --header: {error}")))
}

async fn send(to: &str, request: Request<Bytes>, timeout: Duration, as_recorded: &str) -> Result<Bytes, CliFailure> {
    let limits = HttpLimits {
        timeout,
        max_body: MAX_STREAM,
        max_error_body: MAX_PROBLEM,
        // Chunk framing may be as long as the events.
        max_read: 2 * MAX_STREAM as u64,
        plain_only_to_loopback: false,
    };
    let response = HttpClient::new(limits).send(request).await;
    let response = response.map_err(|error| CliExit::Unavailable.failure(format_args!("{to}: {error}")))?;
    let status = response.status();
    if !status.is_success() {
        let refusal = describe_refusal(status, response.body());
        return Err(CliExit::Problems.failure(format_args!("{to}: refused with {refusal}{as_recorded}")));
    }
    Ok(response.into_body())
}

fn describe_refusal(status: StatusCode, body: &[u8]) -> String {
    let way_out = match status.as_u16() {
        401 | 403 => "; give the credentials of a caller with --header",
        404 => "; name the path of a route with --to",
        _ => "",
    };
    let cause = describe_problem(body).map_or_else(String::new, |problem| format!(": {problem}"));
    // The way out continues the sentence.
    let cause = if way_out.is_empty() { &cause } else { cause.trim_end_matches('.') };
    format!("{status}{cause}{way_out}")
}

/// Returns what a problem document says of the cause and the way out.
fn describe_problem(body: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(body).ok()?;
    let [code, detail, hint] = ["code", "detail", "hint"].map(|name| problem[name].as_str().unwrap_or_default());
    (!code.is_empty()).then(|| escape_text(format!("{code}: {detail} {hint}").trim_end()))
}

/// Collects every string of the request: an id among them is the same in each run.
fn collect_texts(value: &Value, tolerance: &mut RunTolerance) {
    match value {
        Value::String(text) => drop(tolerance.fixed.insert(text.clone())),
        Value::Array(elements) => elements.iter().for_each(|element| collect_texts(element, tolerance)),
        Value::Object(members) => members.values().for_each(|member| collect_texts(member, tolerance)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_draws_nothing_but_text() {
        let problem = serde_json::json!({"code": "no\u{1b}[2J", "detail": "a\u{202e}b\u{9b}5A", "hint": "c\r\nd"});
        let text = describe_problem(problem.to_string().as_bytes());
        assert_eq!(text.as_deref(), Some("no␛[2J: a<U+202E>b<U+009B>5A c␍␊d"));
        for other in ["{}", "<html>", r#"{"code":7}"#] {
            assert_eq!(describe_problem(other.as_bytes()), None);
        }
    }

    #[test]
    fn the_way_out_continues_the_sentence() {
        let problem = br#"{"code":"forbidden","detail":"No.","hint":"Use another."}"#;
        let text = describe_refusal(StatusCode::FORBIDDEN, problem);
        let way_out = "; give the credentials of a caller with --header";
        assert_eq!(text, format!("403 Forbidden: forbidden: No. Use another{way_out}"));
        assert_eq!(describe_refusal(StatusCode::CONFLICT, problem), "409 Conflict: forbidden: No. Use another.");
    }
}
