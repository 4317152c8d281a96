//! Event streams: bodies for test agents, and events read from a body.

use super::client::{Answer, End};
use serde_json::Value;

/// The head of an event stream that ends with the connection.
pub const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// The head of an event stream in chunks.
pub const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The last chunk.
pub const LAST_CHUNK: &str = "0\r\n\r\n";

pub const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";
pub const OPENED: &str = "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"a1\",\"role\":\"assistant\"}\n\n";
pub const CONTENT: &str = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"你好\"}\n\n";
pub const CLOSED: &str = "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"a1\"}\n\n";
pub const FINISHED: &str = "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";

/// The events that a client receives of a run that broke off after [`STARTED`], [`OPENED`] and [`CONTENT`].
pub const RUN_BEGINNING: &[&str] = &["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"];

/// The events that a client receives of a complete run.
pub const COMPLETE_RUN: &[&str] =
    &["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];

/// The first three events of a run.
pub fn run_beginning() -> String {
    [STARTED, OPENED, CONTENT].concat()
}

/// A whole run.
pub fn complete_run() -> String {
    [STARTED, OPENED, CONTENT, CLOSED, FINISHED].concat()
}

/// One chunk of a chunked body.
pub fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The events of a body that the gateway wrote; comments are left out.
pub fn events(body: &str) -> Vec<Value> {
    assert!(body.is_empty() || body.ends_with("\n\n"), "the last frame is whole: {body:?}");
    let frames = body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':'));
    let data =
        |frame: &str| -> String { frame.lines().map(|line| line.strip_prefix("data: ").expect(frame)).collect() };
    frames.map(|frame| serde_json::from_str(&data(frame)).expect(frame)).collect()
}

/// The type of every event.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// Requires that a stream has exactly the events `before`, then RUN_ERROR with this code, and ends cleanly. Returns
/// RUN_ERROR.
#[track_caller]
pub fn assert_failed(answer: &Answer, code: &str, before: &[&str]) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = events(answer.text());
    let mut expected = before.to_vec();
    expected.push("RUN_ERROR");
    assert_eq!(types(&events), expected, "{}", answer.text());
    assert_eq!(answer.end, End::Clean);
    let error = events.last().expect("an error").clone();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    error
}

/// Requires that a run is complete.
#[track_caller]
pub fn assert_succeeded(answer: &Answer, expected: &[&str]) {
    assert_eq!((answer.status, answer.end), (200, End::Clean), "{}", answer.text());
    assert_eq!(types(&events(answer.text())), expected, "{}", answer.text());
}

/// The problem type of a code: one of our own, unless draft-ietf-httpapi-ratelimit-headers-10 has registered one.
fn problem_type(code: &str) -> String {
    match code {
        "rate_limited" | "too_many_streams" => {
            "https://iana.org/assignments/http-problem-types#quota-exceeded".to_owned()
        }
        "bodies_full" | "overloaded" | "replay_memory_full" | "run_memory_full" => {
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity".to_owned()
        }
        own => format!("urn:diglot:problem:{own}"),
    }
}

/// Requires that a request was refused with a problem document (RFC 9457). Returns the document.
#[track_caller]
pub fn assert_refused(answer: &Answer, status: u16, code: &str) -> Value {
    let text = answer.text();
    assert_eq!((answer.status, answer.end), (status, End::Clean), "{text}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{text}");
    let problem: Value = serde_json::from_str(text).expect(text);
    assert_eq!(problem["code"], code, "{text}");
    assert_eq!(problem["status"], status, "{text}");
    assert_eq!(problem["type"], problem_type(code), "{text}");
    assert_eq!(problem["instance"].as_str(), answer.header("x-request-id"), "{text}");
    for member in ["title", "detail", "hint"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    }
    // RFC 9209: an intermediary names the side at fault.
    let blamed = code.starts_with("upstream") || matches!(code, "frame_too_large" | "too_much_open");
    assert_eq!(answer.header("proxy-status").is_some(), blamed, "{:?}", answer.headers);
    problem
}
