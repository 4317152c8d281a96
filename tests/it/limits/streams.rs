//! Runs that are open at once.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, Client, INPUT, ask, post};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{CLOSED, FINISHED, HEAD, WHOLE, begun, refused, succeeded};
use super::{api_keys, gateway, run, violated};

/// An agent in the middle of a run, until it is told to finish it.
fn halfway() -> Agent {
    Agent::playing(vec![
        Step::Read,
        write(HEAD.to_owned() + &begun()),
        Step::Pause,
        write(CLOSED.to_owned() + FINISHED),
    ])
}

/// A client in the middle of a run.
async fn listening(gateway: &Gateway, fields: &str) -> (Client, Answer) {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", fields, INPUT)).await;
    let mut answer = client.head().await;
    assert_eq!(answer.status, 200);
    answer.body = client.until("你好\"}\n\n").await.into_bytes();
    (client, answer)
}

/// Asks until a run begins.
async fn room(gateway: &Gateway, fields: &str) -> Client {
    eventually("room for a run", async || {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", fields, INPUT)).await;
        let answer = client.head().await;
        (answer.status == 200).then_some(client)
    })
    .await
}

#[tokio::test]
async fn a_caller_has_so_many_runs_at_once_and_others_have_theirs() {
    let agent = halfway();
    let gateway = gateway(&agent, &api_keys(&[("ada", None), ("eve", None)]), "max_streams_per_caller: 2").await;
    let ada = "X-Api-Key: ada\r\n";
    let (one, heard) = listening(&gateway, ada).await;
    let (two, _) = listening(&gateway, ada).await;
    let answer = run(&gateway, ada).await;
    let problem = refused(&answer, 429, "too_many_streams");
    assert_eq!(violated(&problem), ["streams:caller"]);
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("streams:caller")), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""streams:caller";q=2;qu="concurrent-requests""#));
    assert_eq!(answer.header("ratelimit"), Some(r#""streams:caller";r=0;t=1"#));
    let _eve = listening(&gateway, "X-Api-Key: eve\r\n").await;
    let series = "diglot_ratelimit_total{decision=\"refused\",policy=\"streams:caller\"}";
    assert_eq!(gateway.metric(series).await, 1.0);

    // A client that leaves makes room,
    two.reset();
    let _three = room(&gateway, ada).await;
    refused(&run(&gateway, ada).await, 429, "too_many_streams");
    // and so does a run that ends.
    (0..4).for_each(|_| agent.go());
    let (mut one, mut heard) = (one, heard);
    let (body, end) = one.rest().await;
    heard.body.extend(body);
    succeeded(&Answer { end, ..heard }, WHOLE);
    room(&gateway, ada).await;
}

#[tokio::test]
async fn where_nobody_has_to_say_who_it_is_an_address_is_a_caller() {
    let gateway = gateway(&halfway(), "", "max_streams_per_caller: 1").await;
    let _one = listening(&gateway, "").await;
    refused(&run(&gateway, "X-Forwarded-For: 10.0.0.1\r\n").await, 429, "too_many_streams");
}

#[tokio::test]
async fn a_request_that_is_refused_later_gives_its_room_back() {
    let gateway = gateway(&halfway(), "", "max_streams: 1, max_streams_per_caller: 1").await;
    for _ in 0..3 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", "{no json")).await;
        refused(&client.answer().await, 400, "invalid_request");
    }
    let _one = listening(&gateway, "").await;
}

#[tokio::test]
async fn a_route_and_the_gateway_have_so_many_runs_at_once() {
    let agent = halfway();
    let route = |name: &str, most: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{most}}}\n",
            agent.url()
        )
    };
    let routes = format!("routes:\n{}{}", route("run", ", max_streams: 1"), route("other", ""));
    let top = "limits: {max_streams: 2}";
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    let (first, _) = listening(&gateway, "").await;
    let refusal = |answer: &Answer, name: &str| {
        assert_eq!(violated(&refused(answer, 503, "overloaded")), [name]);
        assert_eq!(answer.header("retry-after"), Some("1"));
    };
    refusal(&run(&gateway, "").await, "streams:route");
    let mut other = Client::connect(gateway.data).await;
    other.send(post("/other", "", INPUT)).await;
    assert_eq!(other.head().await.status, 200);
    let mut third = Client::connect(gateway.data).await;
    third.send(post("/other", "", INPUT)).await;
    refusal(&third.answer().await, "streams:all");
    for scope in ["route", "all"] {
        let series = format!("diglot_ratelimit_total{{decision=\"refused\",policy=\"streams:{scope}\"}}");
        assert_eq!(gateway.metric(&series).await, 1.0, "{scope}");
    }
    first.reset();
    let _second = room(&gateway, "").await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_reader_is_open_and_reading_it_is_no_second_one() {
    let agent = halfway();
    let top = "rate_limits: [{name: few, key: address, requests: 3, per: 24h}]";
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, events_path: \"/run/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: \"{}\", rate_limits: [few], max_streams_per_caller: 1}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await;
    let start = async || ask(gateway.data, post("/run", "Connection: close\r\n", INPUT)).await;
    let started = start().await;
    assert_eq!(
        (started.status, started.header("ratelimit")),
        (202, Some(r#""few";r=2;t=28800"#)),
        "{}",
        started.text()
    );
    refused(&start().await, 429, "too_many_streams");
    let mut reader = Client::connect(gateway.data).await;
    reader.send("GET /run/t1/events HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n\r\n").await;
    let answer = reader.head().await;
    assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    refused(&start().await, 429, "too_many_streams");
    // Each start was counted once, and reading was not: the quota of three is used up when there is room again.
    agent.go();
    reader.rest().await;
    let answer = eventually("another refusal", async || {
        let answer = start().await;
        (answer.header("retry-after") != Some("1")).then_some(answer)
    })
    .await;
    refused(&answer, 429, "rate_limited");
}
