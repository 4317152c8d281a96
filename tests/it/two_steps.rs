//! Two-step runs (`seeds/004`, §1 and §2): POST starts one, GET reads its events.
//!
//! - `agent`: two-step agents, and their faults at each step.
//! - `client`: two-step clients, and their faults.
//! - `ownership`: whose run a waiting run is.

mod agent;
mod client;
mod ownership;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, send_request};
use super::support::gateway::{Gateway, Setup};
use serde_json::Value;
use std::net::SocketAddr;

/// The committed example, with agents of the test in it: what an operator copies is what is tested.
fn example(agents: &[(&str, &Agent)]) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/examples/social-app.yaml");
    let mut text = std::fs::read_to_string(path).expect("the example");
    for (placed, agent) in agents {
        assert!(text.contains(placed), "{placed}");
        text = text.replace(placed, &agent.address().to_string());
    }
    text
}

/// Starts the gateway of the example with this two-step agent.
async fn start_for_two_step_agent(agent: &Agent) -> Gateway {
    start_for_two_step_agent_with(agent, "").await
}

/// The same, with lines of the top level, and `timeouts` of the first route.
async fn start_for_two_step_agent_with(agent: &Agent, top: &str) -> Gateway {
    Gateway::start(Setup { routes: &example(&[("127.0.0.1:9001", agent)]), top, ..Setup::default() }).await
}

/// Starts the gateway of the example for two-step clients, with this AG-UI agent.
async fn start_for_two_step_clients(agent: &Agent) -> Gateway {
    Gateway::start(Setup { routes: &example(&[("127.0.0.1:9002", agent)]), ..Setup::default() }).await
}

/// A frame as §2 prints it.
fn frame(id: &str, run: &str, kind: &str, more: &str) -> String {
    format!("id: {id}\nevent: {kind}\ndata: {{\"type\":\"{kind}\",\"threadId\":\"T9\",\"runId\":\"{run}\"{more}}}\n\n")
}

/// The frames of a run, ids from 1 on.
pub fn frames(run: &str) -> Vec<String> {
    let answer = r#","messageId":"a1","role":"assistant","stage":"worker","status":"success","answer":"你好","key_points":[],"result_type":"unknown","suggested_actions":[],"error":null,"ui_schema":{}"#;
    let step = r#","stepName":"worker""#;
    vec![
        frame("1-0", run, "RUN_STARTED", ""),
        frame("2-0", run, "STEP_STARTED", step),
        frame("3-0", run, "TEXT_MESSAGE_END", answer),
        frame("4-0", run, "STEP_FINISHED", step),
        frame("5-0", run, "RUN_FINISHED", ""),
    ]
}

/// The events that an AG-UI client receives.
pub const EXPECTED_EVENTS: &[&str] = &[
    "RUN_STARTED",
    "STEP_STARTED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "STEP_FINISHED",
    "RUN_FINISHED",
];

/// A response with a length that ends its connection.
fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// Reads the POST and answers it so.
fn answer_steps(response: impl AsRef<[u8]>) -> Vec<Step> {
    vec![Step::Read, write(response)]
}

/// Reads the POST and names the run.
fn accepted_steps() -> Vec<Step> {
    answer_steps(response("202 Accepted", "application/json", r#"{"threadId":"T9","runId":"R9","created":true}"#))
}

fn get_request(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n{more}\r\n")
}

/// Returns the events of a `social-app` client. An `event:` line must repeat the type (§2).
fn events(body: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for frame in body.split_terminator("\n\n").filter(|frame| !frame.starts_with(':')) {
        let name = frame.lines().find_map(|line| line.strip_prefix("event: "));
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect(frame);
        let event: Value = serde_json::from_str(data).expect(frame);
        assert!(name.is_none_or(|name| event["type"] == name), "{frame}");
        events.push(event);
    }
    events
}

/// The body of a run in a thread.
fn input(thread: &str) -> String {
    format!(
        r#"{{"threadId":"{thread}","runId":"r-{thread}","state":{{}},"messages":[{{"id":"m1","role":"user","content":"hi"}}],"tools":[],"context":[],"forwardedProps":{{}}}}"#
    )
}

/// Requests the events of a thread, and reads them to their end.
async fn read_events(to: SocketAddr, thread: &str) -> Answer {
    send_request(to, get_request(&format!("/api/v1/agent/runs/{thread}/events"), "Connection: close\r\n")).await
}

/// Opens the second step; returns the client, and the events up to `text`.
async fn open_reader(to: SocketAddr, thread: &str, text: &str) -> (Client, Answer) {
    let mut client = Client::connect(to).await;
    client.send(get_request(&format!("/api/v1/agent/runs/{thread}/events"), "")).await;
    let mut answer = client.read_head().await;
    answer.body = client.read_until(text).await.into_bytes();
    (client, answer)
}
