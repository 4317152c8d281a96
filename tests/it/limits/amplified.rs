//! Requests and events of which a translation makes much more, in a process with the default limits.
//!
//! Each body and event here is as long as the limits allow. Before their elements were counted, one of them took up to 2 GiB.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run};
use tokio::task::JoinSet;

/// Memory limit of a typical sidecar, in bytes.
const MEMORY: usize = 256 << 20;

const BODY: usize = 8 << 20;
const EVENT: usize = 10 << 20;

/// Runs at once of ordinary requests and events of the largest size.
const ORDINARY: usize = 4;

const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";
const FINISHED: &str = "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";

/// A list that makes its text this long.
fn list(element: &str, length: usize) -> String {
    format!("[{}]", vec![element; length / (element.len() + 1)].join(","))
}

fn body(members: &str) -> String {
    format!(r#"{{"threadId":"t1","runId":"r1",{members}}}"#)
}

/// An agent that sends a run with one snapshot.
fn start_snapshot_agent(messages: &str) -> Agent {
    let snapshot = format!("data: {{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":{messages}}}\n\n");
    Agent::with_script(vec![Step::Read, write([HEAD, STARTED, &snapshot, FINISHED].concat())])
}

async fn start_gateway(agent: &Agent) -> Gateway {
    let routes = format!("routes: [{{path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\"}}]", agent.url());
    let top = "trusted_proxies: [127.0.0.1]";
    Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await
}

fn assert_small(gateway: &Gateway) {
    let peak = gateway.process.peak_memory();
    assert!(peak < MEMORY, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn refuses_requests_of_tiny_elements_in_little_memory() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent).await;
    let length = BODY - 200;
    let message = |members: &str| format!(r#""messages":[{{"id":"m",{members}}}]"#);
    let rows = [
        ("/context", format!(r#""messages":[],"context":{}"#, list("1", length))),
        ("/context", format!(r#""messages":[],"context":{}"#, list("{}", length))),
        ("/tools", format!(r#""messages":[],"tools":{}"#, list("{}", length))),
        ("/messages/0/toolCalls", message(&format!(r#""role":"assistant","toolCalls":{}"#, list("{}", length)))),
        ("/messages/0/content", message(&format!(r#""role":"user","content":{}"#, list("1", length)))),
    ];
    for (pointer, members) in rows {
        let request = post("/run", "Connection: close\r\n", &body(&members));
        let answer = send_request(gateway.data, request).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(&format!("{pointer}: the lists up to here have ")), "{}", answer.text());
    }
    assert_small(&gateway);
    let message = r#"{"id":"m","role":"user","content":"@"}"#.replace('@', &"x".repeat(2_000));
    let conversation = body(&format!(r#""messages":{}"#, list(&message, length)));
    let mut clients = Vec::new();
    for address in 0..ORDINARY {
        let mut client = Client::connect(gateway.data).await;
        let fields = format!("X-Forwarded-For: 192.0.2.{address}\r\nConnection: close\r\n");
        client.send(post("/run", &fields, &conversation)).await;
        clients.push(client);
    }
    for mut client in clients {
        assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    }
    assert_small(&gateway);
}

#[tokio::test]
async fn ends_runs_at_snapshots_of_tiny_elements_in_little_memory() {
    let length = EVENT - 200;
    let call_list = format!(r#"[{{"id":"m","role":"assistant","toolCalls":{}}}]"#, list("{}", length));
    for messages in [list("{}", length), call_list] {
        let agent = start_snapshot_agent(&messages);
        let gateway = start_gateway(&agent).await;
        let answer = send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
        assert_eq!(answer.text().matches("too_much_open").count(), 1, "{:.1000}", answer.text());
        assert_small(&gateway);
    }
}

#[tokio::test]
async fn translates_large_ordinary_snapshots_one_after_another() {
    let message = r#"{"id":"m","role":"user","content":"@","name":null}"#.replace('@', &"x".repeat(2_000));
    let agent = start_snapshot_agent(&list(&message, EVENT - 200));
    let gateway = start_gateway(&agent).await;
    let mut runs = JoinSet::new();
    for _ in 0..ORDINARY {
        runs.spawn(send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)));
    }
    for answer in runs.join_all().await {
        assert!(answer.text().ends_with(FINISHED), "{:.1000}", answer.text());
    }
    assert_small(&gateway);
}
