//! Agents that fail: fail-over, exclusion, and requests that are never sent twice.

use super::load_balancing::wait_until_idle;
use super::test_agent::{AnswerMode, TestAgent};
use super::{assert_concurrent_runs, assert_run, open_held_run, requests_series, start_gateway, up_series, wait_until};
use crate::support::agent::{Agent, Step, refusing_address, write};
use crate::support::client::{Client, INPUT, post, post_run};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::sse::{HEAD, assert_refused, complete_run};

const TWO: &str = "[{url: FIRST, weight: 1000}, SECOND]";

/// Starts a gateway with two agents, of which the first gets nearly all runs.
async fn start_preferring_first(first: &str, second: &str, more: &str) -> Gateway {
    let quoted = |url: &str| format!("\"{url}\"");
    start_gateway(&TWO.replace("FIRST", &quoted(first)).replace("SECOND", &quoted(second)), more).await
}

#[tokio::test]
async fn loses_no_run_while_agents_restart() {
    let mut agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    let gateway = start_gateway(&format!("[{}, {}]", agents[0].url(), agents[1].url()), "").await;
    for turn in 0..20 {
        assert_concurrent_runs(&gateway, 10).await;
        // Kept connections of it are closed with it.
        agents[turn % 2].kill().await;
        assert_concurrent_runs(&gateway, 10).await;
        agents[turn % 2].restart().await;
    }
    assert_concurrent_runs(&gateway, 10).await;
    let all = agents.iter().map(TestAgent::run_count).sum::<usize>();
    assert_eq!(all, 20 * 20 + 10, "no run was sent twice");
}

#[tokio::test]
async fn ejects_an_agent_that_fails() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents[0].set_answer(AnswerMode::Status(503));
    let ejection = ", ejection: {failures: 3, for: 1h}";
    let mut gateway = start_preferring_first(&agents[0].url(), &agents[1].url(), ejection).await;
    for _ in 0..3 {
        assert_refused(&post_run(gateway.data, "/run").await, 503, "upstream_status");
    }
    let line = gateway.next_log("upstream ejected").await;
    assert_eq!((line["upstream"].as_str(), line["route"].as_str()), (Some(&*agents[0].label()), Some("run")), "{line}");
    assert_eq!((line["cause"].as_str(), line["for_ms"].as_u64()), (Some("it answered 503"), Some(3_600_000)), "{line}");
    assert_concurrent_runs(&gateway, 20).await;
    assert_eq!((agents[0].run_count(), agents[1].run_count()), (3, 20));
    assert_eq!(
        (gateway.metric(&up_series(&agents[0])).await, gateway.metric(&up_series(&agents[1])).await),
        (0.0, 1.0)
    );
    assert_eq!(gateway.metric(&requests_series(&agents[0], "unavailable")).await, 3.0);
    let ejections = format!(r#"diglot_upstream_ejections_total{{route="run",upstream="{}"}}"#, agents[0].label());
    assert_eq!(gateway.metric(&ejections).await, 1.0);
    let report = gateway.get_status("/readyz?verbose").await;
    let line = format!("[-] upstream {} of run 0 of 1 addresses, 0 unhealthy, 1 ejected, 0 runs\n", agents[0].label());
    assert!(report.text().contains(&line), "{}", report.text());
    // Agents are no part of readiness.
    assert_eq!(report.status, 200);
}

#[tokio::test]
async fn probes_an_ejected_agent_with_one_run_after_its_time() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents[0].set_answer(AnswerMode::Status(502));
    let mut gateway =
        start_preferring_first(&agents[0].url(), &agents[1].url(), ", ejection: {failures: 1, for: 50ms}").await;
    assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_status");
    gateway.next_log("upstream ejected").await;
    agents[0].set_answer(AnswerMode::Whole);
    // Some of these come before its time has passed and are for the other one; none fails.
    run_until_used_again(&gateway, &agents[0], 1).await;
    gateway.next_log("upstream answers again").await;
    gateway.wait_for_metric(&up_series(&agents[0]), 1.0).await;
}

async fn run_until_used_again(gateway: &Gateway, agent: &TestAgent, before: usize) {
    while agent.run_count() == before {
        assert_run(gateway).await;
    }
}

#[tokio::test]
async fn tries_all_agents_when_every_one_is_ejected() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents.iter().for_each(|agent| agent.set_answer(AnswerMode::Status(504)));
    let ejection = ", ejection: {failures: 1, for: 1h}";
    let mut gateway = start_gateway(&format!("[{}, {}]", agents[0].url(), agents[1].url()), ejection).await;
    for _ in 0..6 {
        assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_status");
    }
    gateway.next_log("every upstream is unhealthy or ejected; all are tried").await;
    assert_eq!(gateway.metric(r#"diglot_upstream_none_fit_total{route="run"}"#).await, 4.0);
    assert_eq!(agents[0].run_count() + agents[1].run_count(), 6, "each is sent once");
    assert!(
        agents[0].run_count() >= 2 && agents[1].run_count() >= 2,
        "{} and {}",
        agents[0].run_count(),
        agents[1].run_count()
    );
    // An hour has not passed, but an address that answers is used again.
    agents.iter().for_each(|agent| agent.set_answer(AnswerMode::Whole));
    assert_run(&gateway).await;
    gateway.next_log("upstream answers again").await;
}

#[tokio::test]
async fn ejects_an_agent_that_never_answers() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents[0].set_answer(AnswerMode::Silent);
    let more = ", ejection: {failures: 2, for: 1h}, timeouts: {first_byte: 300ms}";
    let mut gateway = start_preferring_first(&agents[0].url(), &agents[1].url(), more).await;
    for _ in 0..2 {
        assert_refused(&post_run(gateway.data, "/run").await, 504, "upstream_timeout");
    }
    let line = gateway.next_log("upstream ejected").await;
    assert_eq!(line["cause"], "no answer in time", "{line}");
    assert_eq!(gateway.metric(&requests_series(&agents[0], "timed_out")).await, 2.0);
    assert_concurrent_runs(&gateway, 5).await;
    assert_eq!((agents[0].run_count(), agents[1].run_count()), (2, 5));
}

#[tokio::test]
async fn does_not_count_departed_clients_as_agent_failures() {
    let agent = TestAgent::start_plain().await;
    agent.set_answer(AnswerMode::Silent);
    let gateway = start_gateway(&agent.url(), ", ejection: {failures: 1, for: 1h}").await;
    for left in 1..=3 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        wait_until("the run", || agent.run_count() == left).await;
        drop(client);
        gateway.wait_for_metric(&requests_series(&agent, "abandoned"), left as f64).await;
    }
    assert_eq!(gateway.metric(&up_series(&agent)).await, 1.0);
}

#[tokio::test]
async fn health_checks_remove_and_restore_an_agent() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    let health = ", health: {path: /healthz, interval: 20ms, healthy: 2, unhealthy: 2}";
    let mut gateway = start_preferring_first(&agents[0].url(), &agents[1].url(), health).await;
    wait_until("checks", || agents.iter().all(|agent| agent.health_check_count() >= 3)).await;
    assert_run(&gateway).await;
    assert_eq!(agents[0].run_count(), 1);
    for turn in 1..=2 {
        agents[0].set_health_status(500);
        let line = gateway.next_log("upstream unhealthy").await;
        assert_eq!(line["upstream"], agents[0].label(), "{line}");
        assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("it answered 500")), "{line}");
        gateway.wait_for_metric(&up_series(&agents[0]), 0.0).await;
        assert_concurrent_runs(&gateway, 5).await;
        assert_eq!((agents[0].run_count(), agents[1].run_count()), (turn, 5 * turn));
        agents[0].set_health_status(204);
        gateway.next_log("upstream healthy").await;
        gateway.wait_for_metric(&up_series(&agents[0]), 1.0).await;
        assert_run(&gateway).await;
        assert_eq!(agents[0].run_count(), turn + 1);
    }
    // Checks are not runs.
    assert_eq!(gateway.metric(&requests_series(&agents[0], "answered")).await, 3.0);
}

#[tokio::test]
async fn checks_health_by_connecting_without_a_path() {
    let mut agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    let health = ", health: {interval: 20ms, healthy: 1, unhealthy: 1}";
    let mut gateway = start_preferring_first(&agents[0].url(), &agents[1].url(), health).await;
    agents[0].kill().await;
    gateway.next_log("upstream unhealthy").await;
    agents[0].restart().await;
    gateway.next_log("upstream healthy").await;
    assert_eq!(agents[0].health_check_count(), 0);
    assert_run(&gateway).await;
    assert_eq!(agents[0].run_count(), 1);
}

#[tokio::test]
async fn keeps_open_runs_of_an_ejected_agent() {
    let agents = [TestAgent::start_plain().await, TestAgent::start_plain().await];
    agents[0].set_answer(AnswerMode::Hold);
    let mut gateway =
        start_preferring_first(&agents[0].url(), &agents[1].url(), ", ejection: {failures: 1, for: 1h}").await;
    let mut client = open_held_run(&gateway).await;
    agents[0].set_answer(AnswerMode::Status(503));
    // The second has no run and the first has one, so weight decides for the first.
    while agents[0].run_count() < 2 {
        post_run(gateway.data, "/run").await;
    }
    gateway.next_log("upstream ejected").await;
    agents[0].finish_runs();
    client.read_until("RUN_FINISHED").await;
}

/// Row 65: "a POST is retried only if no byte was sent".
#[tokio::test]
async fn does_not_resend_a_run_that_may_have_started() {
    for (how, code) in [(Step::Reset, "upstream_reset"), (write(""), "upstream_reset")] {
        let mut first = Agent::with_script(vec![Step::Read, how]);
        let second = TestAgent::start_plain().await;
        let gateway = start_preferring_first(&first.url(), &second.url(), "").await;
        assert_refused(&post_run(gateway.data, "/run").await, 502, code);
        first.next_request().await;
        assert_eq!((first.connection_count(), second.run_count()), (1, 0));
    }
}

/// A 503 is a response, whatever its `Retry-After`.
#[tokio::test]
async fn passes_on_a_refusal_without_failover() {
    let first =
        Agent::with_response("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let second = TestAgent::start_plain().await;
    let gateway = start_preferring_first(&first.url(), &second.url(), "").await;
    let answer = post_run(gateway.data, "/run").await;
    assert_refused(&answer, 503, "upstream_status");
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(second.run_count(), 0);
}

/// If it closes the connection with its response or later, the next run gets another one.
#[tokio::test]
async fn reconnects_when_a_kept_connection_was_closed() {
    let body = complete_run();
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let agent = Agent::with_script(vec![Step::Read, write(answer), Step::Pause]);
    let gateway = Gateway::start_for(&agent).await;
    for turn in 1..=10 {
        assert_run(&gateway).await;
        let label = agent.url().trim_end_matches("/agent?kept=1").to_owned();
        let idle = format!("[+] upstream {label} of run ok, 0 runs\n");
        eventually("no run", async || gateway.get_status("/readyz?verbose").await.text().contains(&idle).then_some(()))
            .await;
        agent.resume();
        assert_eq!(agent.connection_count(), turn);
    }
}

#[tokio::test]
async fn answers_502_after_trying_each_address_once() {
    let all: Vec<_> = (0..3).map(|_| refusing_address()).collect();
    let urls: Vec<_> = all.iter().map(|(_, url)| url.as_str()).collect();
    let gateway = start_gateway(&format!("[{}]", urls.join(", ")), "").await;
    assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_unreachable");
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
async fn does_not_eject_an_address_for_a_broken_stream() {
    let agent = Agent::with_response(HEAD);
    let gateway = start_gateway(&format!("\"{}\"", agent.url()), ", ejection: {failures: 1, for: 1h}").await;
    for _ in 0..3 {
        post_run(gateway.data, "/run").await;
    }
    let label = agent.url().trim_end_matches("/agent?kept=1").to_owned();
    assert_eq!(gateway.metric(&format!(r#"diglot_upstream_up{{route="run",upstream="{label}"}}"#)).await, 1.0);
    wait_until_idle(&gateway).await;
}
