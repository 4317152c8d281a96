//! One long run, and many runs at once. The agents are `diglot mock-agent`, in a process of their own.

use super::support::agent::Agent;
use super::support::client::{Answer, Client, End, post, post_run, send_request};
use super::support::gateway::{Gateway, Process, Setup, diglot};
use super::support::sse::{CLOSED, FINISHED, HEAD, events, run_beginning, types};
use tokio::task::JoinSet;

/// Streams at once.
const STREAMS: usize = 500;

/// Maximum memory of a waiting stream, in bytes. In the release build it is some 10 KiB with 5,000 of them; with fewer
/// streams, each has a larger share of the common memory. Without optimisation the state of every task is larger.
const IDLE_COST: usize = if cfg!(debug_assertions) { 96 << 10 } else { 26 << 10 };

/// Runs at once whose agents send large events, and the maximum number of threads then: those of the pool, and fewer others.
const LARGE_RUNS: usize = 60;
const MOST_THREADS: f64 = 100.0;

/// A mock agent and its URL.
async fn start_mock_agent(dialect: &str) -> (Process, String) {
    let mut process = Process::start(diglot().args(["mock-agent", "--dialect", dialect]), true);
    let line = process.line().await.expect("the agent prints its address");
    let url = line.rsplit(' ').next().expect("a word").to_owned();
    (process, url)
}

async fn start_gateway(url: String) -> Gateway {
    Gateway::start(Setup { upstreams: &[url], ..Setup::default() }).await
}

/// A request that pulls a lever of the mock agent.
fn controlled_request(path: &str, levers: &str) -> String {
    let body = format!(
        r#"{{"threadId":"t1","runId":"r1","state":{{}},"messages":[{{"id":"m1","role":"user","content":"hi"}}],"tools":[],"context":[],"forwardedProps":{{"diglot":{levers}}}}}"#
    );
    post(path, "", &body)
}

/// Returns the numbered pieces of text that a client received, and nothing else.
fn numbered_text(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.end), (200, End::Clean));
    let events = events(answer.text());
    assert_eq!(types(&events).last(), Some(&"RUN_FINISHED"));
    let deltas = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    deltas.map(|event| event["delta"].as_str().expect("text")).collect()
}

fn expected_text(count: usize) -> String {
    (1..=count).map(|number| format!("第{number}段 ")).collect()
}

#[tokio::test]
async fn delivers_ten_thousand_events_complete_and_in_order() {
    for (dialect, path) in [("ag-ui", "/run"), ("hai", "/from-hai")] {
        let (_agent, url) = start_mock_agent(dialect).await;
        let gateway = start_gateway(url).await;
        let answer = send_request(gateway.data, controlled_request(path, r#"{"events":10000}"#)).await;
        assert_eq!(numbered_text(&answer), expected_text(10_000), "{dialect}");
    }
}

#[tokio::test]
async fn serves_five_hundred_concurrent_runs() {
    let (_agent, url) = start_mock_agent("ag-ui").await;
    let gateway = start_gateway(url).await;
    let mut runs = JoinSet::new();
    for _ in 0..STREAMS {
        runs.spawn(send_request(gateway.data, controlled_request("/run", r#"{"events":20}"#)));
    }
    let expected = expected_text(20);
    while let Some(answer) = runs.join_next().await {
        assert_eq!(numbered_text(&answer.expect("a run")), expected);
    }
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, STREAMS as f64).await;
    assert_eq!(gateway.metric(r#"diglot_streams_active{route="run"}"#).await, 0.0);
}

#[tokio::test]
async fn bounds_memory_of_idle_streams_and_frees_it() {
    let (_agent, url) = start_mock_agent("hai").await;
    let gateway = start_gateway(url).await;
    let open = async |count: usize| {
        let mut opening = JoinSet::new();
        for _ in 0..count {
            let data = gateway.data;
            opening.spawn(async move {
                let mut client = Client::connect(data).await;
                client.send(controlled_request("/from-hai", r#"{"idle":true}"#)).await;
                client.read_head().await;
                client.read_until("TEXT_MESSAGE_CONTENT").await;
                client
            });
        }
        opening.join_all().await
    };
    // The first streams pay for what all of them share.
    let _first = open(20).await;
    let before = gateway.process.resident_memory();
    let streams = open(STREAMS).await;
    let cost = gateway.process.resident_memory().saturating_sub(before) / STREAMS;
    assert_eq!(gateway.metric(r#"diglot_streams_active{route="from-hai"}"#).await, (STREAMS + 20) as f64);
    assert!(cost <= IDLE_COST, "{cost} bytes for a stream");
    drop(streams);
    gateway.wait_for_metric(r#"diglot_streams_active{route="from-hai"}"#, 20.0).await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="client_gone",route="from-hai"}"#, STREAMS as f64).await;
}

/// A thread that translates a large event leaves its other runs to another one.
#[tokio::test]
async fn large_events_of_many_runs_need_few_threads() {
    let delta = "x".repeat(700_000);
    let large = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{delta}\"}}\n\n");
    let agent = Agent::with_response([HEAD, &run_beginning(), &large.repeat(3), CLOSED, FINISHED].concat());
    let gateway = Gateway::start_for(&agent).await;
    let mut runs = JoinSet::new();
    for _ in 0..LARGE_RUNS {
        let data = gateway.data;
        runs.spawn(async move { post_run(data, "/run").await });
    }
    while let Some(answer) = runs.join_next().await {
        assert_eq!(answer.expect("a run").status, 200);
    }
    // An idle thread lives on for some seconds.
    let threads = gateway.metric("process_threads").await;
    assert!(threads <= MOST_THREADS, "{threads} threads");
}

/// pingora's own timers have a thread that wakes every 10 ms, whether there is work or not.
#[tokio::test]
async fn starts_no_timer_thread_of_pingora() {
    let agent = Agent::with_response([HEAD, &run_beginning(), CLOSED, FINISHED].concat());
    let gateway = Gateway::start_for(&agent).await;
    assert_eq!(post_run(gateway.data, "/run").await.status, 200);
    let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.process.id())).expect("the process runs");
    let names: Vec<_> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "data"), "{names:?}");
    assert!(!names.iter().any(|name| name == "Timer thread"), "{names:?}");
}
