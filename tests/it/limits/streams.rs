//! Limits on concurrent runs.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, Client, INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{
    CLOSED, COMPLETE_RUN, FINISHED, HEAD, assert_refused, assert_succeeded, run_beginning,
};
use super::{api_keys, post_run_with, start_gateway, violated_policies};

/// Starts an agent that pauses in the middle of a run until the test resumes it.
fn start_paused_agent() -> Agent {
    Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        Step::Pause,
        write(CLOSED.to_owned() + FINISHED),
    ])
}

/// A client in the middle of a run.
async fn start_run(gateway: &Gateway, fields: &str) -> (Client, Answer) {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", fields, INPUT)).await;
    let mut answer = client.read_head().await;
    assert_eq!(answer.status, 200);
    answer.body = client.read_until("你好\"}\n\n").await.into_bytes();
    (client, answer)
}

/// Asks until a run begins.
async fn wait_for_admission(gateway: &Gateway, fields: &str) -> Client {
    eventually("room for a run", async || {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", fields, INPUT)).await;
        let answer = client.read_head().await;
        (answer.status == 200).then_some(client)
    })
    .await
}

#[tokio::test]
async fn limits_concurrent_runs_per_caller() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent, &api_keys(&[("ada", None), ("eve", None)]), "max_streams_per_caller: 2").await;
    let ada = "X-Api-Key: ada\r\n";
    let (one, received) = start_run(&gateway, ada).await;
    let (two, _) = start_run(&gateway, ada).await;
    let answer = post_run_with(&gateway, ada).await;
    let problem = assert_refused(&answer, 429, "too_many_streams");
    assert_eq!(violated_policies(&problem), ["streams:caller"]);
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("streams:caller")), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""streams:caller";q=2;qu="concurrent-requests""#));
    assert_eq!(answer.header("ratelimit"), Some(r#""streams:caller";r=0;t=1"#));
    let _eve = start_run(&gateway, "X-Api-Key: eve\r\n").await;
    let series = "diglot_ratelimit_total{decision=\"refused\",policy=\"streams:caller\"}";
    assert_eq!(gateway.metric(series).await, 1.0);

    // A client that leaves makes room,
    two.reset();
    let _three = wait_for_admission(&gateway, ada).await;
    assert_refused(&post_run_with(&gateway, ada).await, 429, "too_many_streams");
    // and so does a run that ends.
    (0..4).for_each(|_| agent.resume());
    let (mut one, mut received) = (one, received);
    let (body, end) = one.read_rest().await;
    received.body.extend(body);
    assert_succeeded(&Answer { end, ..received }, COMPLETE_RUN);
    wait_for_admission(&gateway, ada).await;
}

#[tokio::test]
async fn limits_concurrent_runs_by_address_without_authentication() {
    let gateway = start_gateway(&start_paused_agent(), "", "max_streams_per_caller: 1").await;
    let _one = start_run(&gateway, "").await;
    assert_refused(&post_run_with(&gateway, "X-Forwarded-For: 10.0.0.1\r\n").await, 429, "too_many_streams");
}

#[tokio::test]
async fn releases_the_slot_of_a_request_refused_later() {
    let gateway = start_gateway(&start_paused_agent(), "", "max_streams: 1, max_streams_per_caller: 1").await;
    for _ in 0..3 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", "{no json")).await;
        assert_refused(&client.read_answer().await, 400, "invalid_request");
    }
    let _one = start_run(&gateway, "").await;
}

#[tokio::test]
async fn limits_concurrent_runs_per_route_and_gateway() {
    let agent = start_paused_agent();
    let route = |name: &str, most: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{most}}}\n",
            agent.url()
        )
    };
    let routes = format!("routes:\n{}{}", route("run", ", max_streams: 1"), route("other", ""));
    let top = "limits: {max_streams: 2}";
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    let (first, _) = start_run(&gateway, "").await;
    let refusal = |answer: &Answer, name: &str| {
        assert_eq!(violated_policies(&assert_refused(answer, 503, "overloaded")), [name]);
        assert_eq!(answer.header("retry-after"), Some("1"));
    };
    refusal(&post_run_with(&gateway, "").await, "streams:route");
    let mut other = Client::connect(gateway.data).await;
    other.send(post("/other", "", INPUT)).await;
    assert_eq!(other.read_head().await.status, 200);
    let mut third = Client::connect(gateway.data).await;
    third.send(post("/other", "", INPUT)).await;
    refusal(&third.read_answer().await, "streams:all");
    for scope in ["route", "all"] {
        let series = format!("diglot_ratelimit_total{{decision=\"refused\",policy=\"streams:{scope}\"}}");
        assert_eq!(gateway.metric(&series).await, 1.0, "{scope}");
    }
    first.reset();
    let _second = wait_for_admission(&gateway, "").await;
}

#[tokio::test]
async fn counts_a_pending_run_once() {
    let agent = start_paused_agent();
    let top = "rate_limits: [{name: few, key: address, requests: 3, per: 24h}]";
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, events_path: \"/run/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: \"{}\", rate_limits: [few], max_streams_per_caller: 1}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    let start = async || send_request(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
    let started = start().await;
    assert_eq!(
        (started.status, started.header("ratelimit")),
        (202, Some(r#""few";r=2;t=28800"#)),
        "{}",
        started.text()
    );
    assert_refused(&start().await, 429, "too_many_streams");
    let mut reader = Client::connect(gateway.data).await;
    reader.send("GET /run/t1/events HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n\r\n").await;
    let answer = reader.read_head().await;
    assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    assert_refused(&start().await, 429, "too_many_streams");
    // Each start was counted once, and reading was not: the quota of three is used up when there is room again.
    agent.resume();
    reader.read_rest().await;
    let answer = eventually("another refusal", async || {
        let answer = start().await;
        (answer.header("retry-after") != Some("1")).then_some(answer)
    })
    .await;
    assert_refused(&answer, 429, "rate_limited");
}
