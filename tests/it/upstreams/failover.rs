//! Agents that fail: who is asked instead, who is left out, and what is never sent twice.

use super::choice::idle;
use super::served::{Served, Way};
use super::{all_run, before, held, requests, runs, until, up};
use crate::support::agent::{Agent, Step, refusing, write};
use crate::support::client::{Client, INPUT, post, run};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::sse::{HEAD, refused, whole};

const TWO: &str = "[{url: FIRST, weight: 1000}, SECOND]";

/// A gateway before two agents of which the first is asked by nearly everybody.
async fn with_favourite(first: &str, second: &str, more: &str) -> Gateway {
    let quoted = |url: &str| format!("\"{url}\"");
    before(&TWO.replace("FIRST", &quoted(first)).replace("SECOND", &quoted(second)), more).await
}

#[tokio::test]
async fn an_agent_that_is_killed_and_comes_back_over_and_over_costs_no_run() {
    let mut agents = [Served::plain().await, Served::plain().await];
    let gateway = before(&format!("[{}, {}]", agents[0].url(), agents[1].url()), "").await;
    for turn in 0..20 {
        all_run(&gateway, 10).await;
        // Kept connections of it are closed with it.
        agents[turn % 2].kill().await;
        all_run(&gateway, 10).await;
        agents[turn % 2].restart().await;
    }
    all_run(&gateway, 10).await;
    let all = agents.iter().map(Served::runs).sum::<usize>();
    assert_eq!(all, 20 * 20 + 10, "no run was sent twice");
}

#[tokio::test]
async fn an_agent_that_fails_is_left_out_and_comes_back() {
    let agents = [Served::plain().await, Served::plain().await];
    agents[0].says(Way::Status(503));
    let ejection = ", ejection: {failures: 3, for: 1h}";
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), ejection).await;
    for _ in 0..3 {
        refused(&run(gateway.data, "/run").await, 503, "upstream_status");
    }
    let line = gateway.logged("upstream left out").await;
    assert_eq!((line["upstream"].as_str(), line["route"].as_str()), (Some(&*agents[0].label()), Some("run")), "{line}");
    assert_eq!((line["cause"].as_str(), line["for_ms"].as_u64()), (Some("it answered 503"), Some(3_600_000)), "{line}");
    all_run(&gateway, 20).await;
    assert_eq!((agents[0].runs(), agents[1].runs()), (3, 20));
    assert_eq!((gateway.metric(&up(&agents[0])).await, gateway.metric(&up(&agents[1])).await), (0.0, 1.0));
    assert_eq!(gateway.metric(&requests(&agents[0], "unavailable")).await, 3.0);
    let ejections = format!(r#"diglot_upstream_ejections_total{{route="run",upstream="{}"}}"#, agents[0].label());
    assert_eq!(gateway.metric(&ejections).await, 1.0);
    let report = gateway.ask("/readyz?verbose").await;
    let line =
        format!("[-] upstream {} of run 0 of 1 addresses, 0 unhealthy, 1 left out, 0 run(s)\n", agents[0].label());
    assert!(report.text().contains(&line), "{}", report.text());
    // Agents are no part of readiness.
    assert_eq!(report.status, 200);
}

#[tokio::test]
async fn an_agent_that_was_left_out_is_tried_by_one_run_when_its_time_has_passed() {
    let agents = [Served::plain().await, Served::plain().await];
    agents[0].says(Way::Status(502));
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), ", ejection: {failures: 1, for: 50ms}").await;
    refused(&run(gateway.data, "/run").await, 502, "upstream_status");
    gateway.logged("upstream left out").await;
    agents[0].says(Way::Whole);
    // Some of these come before its time has passed and are for the other one; none fails.
    until_back(&gateway, &agents[0], 1).await;
    gateway.logged("upstream answers again").await;
    gateway.reaches(&up(&agents[0]), 1.0).await;
}

async fn until_back(gateway: &Gateway, agent: &Served, before: usize) {
    while agent.runs() == before {
        runs(gateway).await;
    }
}

#[tokio::test]
async fn when_every_agent_is_left_out_all_are_tried() {
    let agents = [Served::plain().await, Served::plain().await];
    agents.iter().for_each(|agent| agent.says(Way::Status(504)));
    let ejection = ", ejection: {failures: 1, for: 1h}";
    let mut gateway = before(&format!("[{}, {}]", agents[0].url(), agents[1].url()), ejection).await;
    for _ in 0..6 {
        refused(&run(gateway.data, "/run").await, 502, "upstream_status");
    }
    gateway.logged("every upstream is unhealthy or left out; all are tried").await;
    assert_eq!(gateway.metric(r#"diglot_upstream_none_fit_total{route="run"}"#).await, 4.0);
    assert_eq!(agents[0].runs() + agents[1].runs(), 6, "each is sent once");
    assert!(agents[0].runs() >= 2 && agents[1].runs() >= 2, "{} and {}", agents[0].runs(), agents[1].runs());
    // An hour has not passed, but whoever answers is trusted again.
    agents.iter().for_each(|agent| agent.says(Way::Whole));
    runs(&gateway).await;
    gateway.logged("upstream answers again").await;
}

#[tokio::test]
async fn an_agent_that_takes_runs_and_never_answers_is_left_out() {
    let agents = [Served::plain().await, Served::plain().await];
    agents[0].says(Way::Silent);
    let more = ", ejection: {failures: 2, for: 1h}, timeouts: {first_byte: 300ms}";
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), more).await;
    for _ in 0..2 {
        refused(&run(gateway.data, "/run").await, 504, "upstream_timeout");
    }
    let line = gateway.logged("upstream left out").await;
    assert_eq!(line["cause"], "no answer in time", "{line}");
    assert_eq!(gateway.metric(&requests(&agents[0], "timed_out")).await, 2.0);
    all_run(&gateway, 5).await;
    assert_eq!((agents[0].runs(), agents[1].runs()), (2, 5));
}

#[tokio::test]
async fn a_client_that_leaves_says_nothing_about_the_agent() {
    let agent = Served::plain().await;
    agent.says(Way::Silent);
    let gateway = before(&agent.url(), ", ejection: {failures: 1, for: 1h}").await;
    for left in 1..=3 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        until("the run", || agent.runs() == left).await;
        drop(client);
        gateway.reaches(&requests(&agent, "abandoned"), left as f64).await;
    }
    assert_eq!(gateway.metric(&up(&agent)).await, 1.0);
}

#[tokio::test]
async fn health_checks_take_an_agent_out_and_back() {
    let agents = [Served::plain().await, Served::plain().await];
    let health = ", health: {path: /healthz, interval: 20ms, healthy: 2, unhealthy: 2}";
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), health).await;
    until("checks", || agents.iter().all(|agent| agent.checks() >= 3)).await;
    runs(&gateway).await;
    assert_eq!(agents[0].runs(), 1);
    for turn in 1..=2 {
        agents[0].is_well(500);
        let line = gateway.logged("upstream unhealthy").await;
        assert_eq!(line["upstream"], agents[0].label(), "{line}");
        assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("it answered 500")), "{line}");
        gateway.reaches(&up(&agents[0]), 0.0).await;
        all_run(&gateway, 5).await;
        assert_eq!((agents[0].runs(), agents[1].runs()), (turn, 5 * turn));
        agents[0].is_well(204);
        gateway.logged("upstream healthy").await;
        gateway.reaches(&up(&agents[0]), 1.0).await;
        runs(&gateway).await;
        assert_eq!(agents[0].runs(), turn + 1);
    }
    // Checks are not runs.
    assert_eq!(gateway.metric(&requests(&agents[0], "answered")).await, 3.0);
}

#[tokio::test]
async fn without_a_path_a_connection_is_health_enough() {
    let mut agents = [Served::plain().await, Served::plain().await];
    let health = ", health: {interval: 20ms, healthy: 1, unhealthy: 1}";
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), health).await;
    agents[0].kill().await;
    gateway.logged("upstream unhealthy").await;
    agents[0].restart().await;
    gateway.logged("upstream healthy").await;
    assert_eq!(agents[0].checks(), 0);
    runs(&gateway).await;
    assert_eq!(agents[0].runs(), 1);
}

#[tokio::test]
async fn a_run_that_is_open_survives_that_its_agent_is_left_out() {
    let agents = [Served::plain().await, Served::plain().await];
    agents[0].says(Way::Hold);
    let mut gateway = with_favourite(&agents[0].url(), &agents[1].url(), ", ejection: {failures: 1, for: 1h}").await;
    let mut client = held(&gateway).await;
    agents[0].says(Way::Status(503));
    // The second has no run and the first has one, so weight decides for the first.
    while agents[0].runs() < 2 {
        run(gateway.data, "/run").await;
    }
    gateway.logged("upstream left out").await;
    agents[0].finish();
    client.until("RUN_FINISHED").await;
}

/// Row 65: "a POST is retried only if no byte was sent".
#[tokio::test]
async fn a_run_that_an_agent_may_have_begun_is_not_sent_again() {
    for (how, code) in [(Step::Reset, "upstream_reset"), (write(""), "upstream_reset")] {
        let mut first = Agent::playing(vec![Step::Read, how]);
        let second = Served::plain().await;
        let gateway = with_favourite(&first.url(), &second.url(), "").await;
        refused(&run(gateway.data, "/run").await, 502, code);
        first.request().await;
        assert_eq!((first.connections(), second.runs()), (1, 0));
    }
}

/// A 503 is an answer, whatever it says about later.
#[tokio::test]
async fn a_refusal_of_the_agent_is_passed_on() {
    let first =
        Agent::answering("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let second = Served::plain().await;
    let gateway = with_favourite(&first.url(), &second.url(), "").await;
    let answer = run(gateway.data, "/run").await;
    refused(&answer, 503, "upstream_status");
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(second.runs(), 0);
}

/// Whether it closes it with its answer or a while later, the next run has another one.
#[tokio::test]
async fn a_kept_connection_that_the_agent_closed_costs_no_run() {
    let body = whole();
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let agent = Agent::playing(vec![Step::Read, write(answer), Step::Pause]);
    let gateway = Gateway::before(&agent).await;
    for turn in 1..=10 {
        runs(&gateway).await;
        let label = agent.url().trim_end_matches("/agent?kept=1").to_owned();
        let idle = format!("[+] upstream {label} of run ok, 0 run(s)\n");
        eventually("no run", async || gateway.ask("/readyz?verbose").await.text().contains(&idle).then_some(())).await;
        agent.go();
        assert_eq!(agent.connections(), turn);
    }
}

#[tokio::test]
async fn nobody_there_is_said_after_each_was_tried_once() {
    let all: Vec<_> = (0..3).map(|_| refusing()).collect();
    let urls: Vec<_> = all.iter().map(|(_, url)| url.as_str()).collect();
    let gateway = before(&format!("[{}]", urls.join(", ")), "").await;
    refused(&run(gateway.data, "/run").await, 502, "upstream_unreachable");
    for url in urls {
        let series = format!(
            r#"diglot_upstream_requests_total{{outcome="unreachable",upstream="{}"}}"#,
            url.trim_end_matches('/')
        );
        assert_eq!(gateway.metric(&series).await, 1.0);
    }
}

/// The head of a stream, then nothing: what came is what counts.
#[tokio::test]
async fn a_stream_that_breaks_in_the_middle_is_no_failure_of_the_address() {
    let agent = Agent::answering(HEAD);
    let gateway = before(&format!("\"{}\"", agent.url()), ", ejection: {failures: 1, for: 1h}").await;
    for _ in 0..3 {
        run(gateway.data, "/run").await;
    }
    let label = agent.url().trim_end_matches("/agent?kept=1").to_owned();
    assert_eq!(gateway.metric(&format!(r#"diglot_upstream_up{{route="run",upstream="{label}"}}"#)).await, 1.0);
    idle(&gateway).await;
}
