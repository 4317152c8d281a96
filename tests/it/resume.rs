//! Runs that outlive their clients.
//!
//! - `h2`: over HTTP/2.
//! - `join`: coming back after any event and without one, by POST and by GET; invalid attempts.
//! - `ownership`: runs belong to the caller that started them.
//! - `redis_bounds`: what kept runs take in Redis, and on the replicas that read them.
//! - `retention`: how long a run continues alone, limits on kept runs, and the end of the process.
//! - `shared`: coming back to another replica, over a real Redis.
//! - `stop`: ending a run.
//! - `two_steps`: two-step clients.

mod h2;
mod join;
mod ownership;
mod redis_bounds;
mod retention;
mod shared;
mod stop;
mod two_steps;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, End, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{CLOSED, CONTENT, FINISHED, HEAD, OPENED, STARTED, assert_refused};
use diglot::dialect::{self, PeerDialect};
use diglot::translate::verify::{RuleSeverity, Verifier};
use serde_json::Value;
use std::net::SocketAddr;

/// Routes to one agent whose runs outlive their clients: `/run` for AG-UI and `/hai` for HAI, with further keys.
fn routes(agent: &Agent, more: &str) -> String {
    let route = |name, client| {
        format!(
            "  - {{name: {name}, path: /{name}, client: {client}, agent: ag-ui, upstream: {}, on_disconnect: continue for 5m{more}}}\n",
            agent.url()
        )
    };
    format!("routes:\n{}{}", route("run", "ag-ui"), route("hai", "hai"))
}

async fn start_gateway(agent: &Agent) -> Gateway {
    start_gateway_with(agent, "", "").await
}

/// The same, with keys of the top level and of the routes.
async fn start_gateway_with(agent: &Agent, top: &str, more: &str) -> Gateway {
    Gateway::start(Setup { routes: &routes(agent, more), top, ..Setup::default() }).await
}

/// A run's body, by its id.
fn input(run: &str) -> String {
    INPUT.replace(r#""runId":"r1""#, &format!(r#""runId":"{run}""#))
}

fn get_request(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n{more}\r\n")
}

fn run_events_path(run: &str) -> String {
    format!("/run/runs/{run}/events")
}

fn last_event_id(id: &str) -> String {
    format!("Last-Event-ID: {id}\r\n")
}

/// One frame of a body: its id and its event.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    id: Option<String>,
    event: Value,
}

impl Frame {
    fn id(&self) -> &str {
        self.id.as_deref().expect("an id")
    }

    fn kind(&self) -> &str {
        self.event["type"].as_str().expect("a type")
    }
}

/// The frames of a body; comments are left out.
fn frames(body: &str) -> Vec<Frame> {
    assert!(body.is_empty() || body.ends_with("\n\n"), "the last frame is whole: {body:?}");
    let frames = body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':'));
    let line = |frame: &str, name: &str| frame.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    let read = |frame: &str| Frame {
        id: line(frame, "id: "),
        event: serde_json::from_str(&line(frame, "data: ").expect(frame)).expect(frame),
    };
    frames.map(read).collect()
}

fn frame_kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}

/// The frames of a stream that was answered and ended well.
#[track_caller]
fn finished_frames(answer: &Answer) -> Vec<Frame> {
    assert_eq!((answer.status, answer.end), (200, End::Clean), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    frames(answer.text())
}

/// The end of [`CONTENT`].
const END_OF_CONTENT: &str = "你好\"}\n\n";

/// Starts a run and reads it up to a text; also returns the client.
async fn start_run_until(to: SocketAddr, run: &str, text: &str) -> (Client, Vec<Frame>) {
    open_stream_until(to, post("/run", "", &input(run)), text).await
}

/// Sends a request and reads its stream up to the end of the frame with a text.
async fn open_stream_until(to: SocketAddr, request: String, text: &str) -> (Client, Vec<Frame>) {
    let mut client = Client::connect(to).await;
    client.send(request).await;
    let answer = client.read_head().await;
    assert_eq!(answer.status, 200);
    let body = client.read_until(text).await;
    (client, complete_frames(&body))
}

/// Reads the rest of a stream, which ends cleanly.
async fn read_rest(mut client: Client) -> Vec<Frame> {
    let (body, end) = client.read_rest().await;
    assert_eq!(end, End::Clean);
    frames(std::str::from_utf8(&body).expect("UTF-8"))
}

/// Reads a run with GET to its end.
async fn read_run(to: SocketAddr, run: &str, more: &str) -> Answer {
    send_request(to, get_request(&run_events_path(run), more)).await
}

/// Starts an agent that sends a few events, waits, and ends the run.
fn start_paused_agent() -> Agent {
    Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED, CONTENT].concat()),
        Step::Pause,
        write([CLOSED, FINISHED].concat()),
    ])
}

/// Returns the final text of each message of an AG-UI client, by id.
fn message_texts(frames: &[Frame]) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for Frame { event, .. } in frames {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().expect("a type") {
            "MESSAGES_SNAPSHOT" => {
                let messages = event["messages"].as_array().expect("messages");
                let is_assistant = |message: &Value| message["role"] == "assistant";
                texts = messages
                    .iter()
                    .filter(|message| is_assistant(message))
                    .map(|message| {
                        (
                            message["id"].as_str().expect("an id").to_owned(),
                            message["content"].as_str().unwrap_or_default().to_owned(),
                        )
                    })
                    .collect();
            }
            "TEXT_MESSAGE_START" => texts.push((text("messageId"), String::new())),
            "TEXT_MESSAGE_CONTENT" => {
                let id = text("messageId");
                let (_, whole) = texts.iter_mut().rev().find(|(own, _)| *own == id).expect("an open message");
                whole.push_str(&text("delta"));
            }
            _ => {}
        }
    }
    texts
}

/// Requires that the client would accept a stream, as judged by `diglot verify`.
#[track_caller]
fn assert_legal(body: &str, dialect: &str) {
    let side = PeerDialect::new(dialect::find_by_name(dialect).expect("a dialect"));
    let (mut verifier, mut findings) = (Verifier::new(side), Vec::new());
    verifier.push(body.as_bytes(), &mut findings);
    verifier.finish(&mut findings);
    findings.retain(|finding| finding.rule.severity() == RuleSeverity::Violation);
    assert!(findings.is_empty(), "{findings:?}\n{body}");
}

/// Returns the complete frames of a body that was cut off.
fn complete_frames(body: &str) -> Vec<Frame> {
    frames(&body[..body.rfind("\n\n").map_or(0, |at| at + 2)])
}
