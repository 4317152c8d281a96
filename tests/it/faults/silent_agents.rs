//! Agents that are slow or never send: timeouts, and keep-alives for the client meanwhile.

use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, INPUT, post, post_run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{
    CLOSED, COMPLETE_RUN, FINISHED, HEAD, RUN_BEGINNING, assert_failed, assert_refused, assert_succeeded, complete_run,
    run_beginning,
};
use std::time::{Duration, Instant};

/// Keep-alives that come often, and time-outs that do not.
const FAST_KEEP_ALIVE: &str = "keep_alive: 50ms";

const COMMENT: &str = ": keep-alive\n\n";

#[tokio::test]
async fn times_out_an_agent_that_never_answers() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{first_byte: 200ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    assert_refused(&post_run(gateway.data, "/run").await, 504, "upstream_timeout");
    agent.next_request().await;
    agent.wait_until_closed().await;
}

#[tokio::test]
async fn reports_the_timeout_as_an_event_after_keep_alives() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let setup =
        Setup { upstreams: &[agent.url()], top: FAST_KEEP_ALIVE, timeouts: "{first_byte: 500ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let answer = post_run(gateway.data, "/run").await;
    assert!(answer.text().starts_with(COMMENT), "{}", answer.text());
    assert_failed(&answer, "upstream_timeout", &[]);
    agent.next_request().await;
    agent.wait_until_closed().await;
}

#[tokio::test]
async fn ends_the_run_of_an_idle_agent() {
    let mut agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{idle: 200ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let since = Instant::now();
    assert_failed(&post_run(gateway.data, "/run").await, "upstream_idle", RUN_BEGINNING);
    // By its own limit, not by that of the first byte or the next keep-alive, which come later.
    assert!(since.elapsed() < Duration::from_secs(10), "given up after {:?}", since.elapsed());
    agent.next_request().await;
    agent.wait_until_closed().await;
}

/// As sse-starlette does: a task of its own sends comments while the agent hangs.
#[tokio::test]
async fn ends_the_run_of_an_agent_that_only_pings() {
    let ping = b": ping - 2026-01-01 00:00:00\r\n\r\n";
    let partial = b"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",";
    for more in [&ping[..], partial] {
        // Enough single bytes that some arrive until the end, whatever the machine's speed.
        let steps = vec![
            Step::Read,
            write(HEAD.to_owned() + &run_beginning()),
            write(more),
            Step::Dribble(more[..1].repeat(1 << 20)),
            Step::WaitForClose,
        ];
        let agent = Agent::with_script(steps);
        let timeouts = "{idle: 10s, ping_only: 300ms}";
        let setup = Setup { upstreams: &[agent.url()], timeouts, ..Setup::default() };
        let mut gateway = Gateway::start(setup).await;
        assert_failed(&post_run(gateway.data, "/run").await, "upstream_idle", RUN_BEGINNING);
        let line = gateway.next_log("run ended").await;
        assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("timeouts.ping_only")), "{line}");
    }
}

/// Without `first_event`, an agent that only pings from the beginning is ended by its default.
#[tokio::test]
async fn limits_the_time_to_the_first_event_by_default() {
    let steps = vec![Step::Read, write(HEAD), Step::Flood(b": ping\n\n".repeat(500), usize::MAX)];
    let agent = Agent::with_script(steps);
    let timeouts = "{first_byte: 200ms, idle: 300ms, ping_only: 1h}";
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], timeouts, ..Setup::default() }).await;
    let error = assert_failed(&post_run(gateway.data, "/run").await, "upstream_timeout", &[]);
    assert!(error["message"].as_str().is_some_and(|message| message.contains("500ms")), "{error}");
}

/// Frames without data reach the client as something malformed, but are no events either.
#[tokio::test]
async fn ends_the_run_of_an_agent_that_pings_with_empty_events() {
    let ping = "event: ping\ndata:\n\n";
    for (beginning, timeouts, code) in [
        (run_beginning(), "{idle: 10s, ping_only: 300ms}", "upstream_idle"),
        (String::new(), "{idle: 10s, ping_only: 1h, first_event: 300ms}", "upstream_timeout"),
    ] {
        let body = HEAD.to_owned() + &beginning + ping;
        let steps = vec![Step::Read, write(body), Step::Dribble(ping.repeat(1 << 16).into()), Step::WaitForClose];
        let agent = Agent::with_script(steps);
        let gateway = Gateway::start(Setup { upstreams: &[agent.url()], timeouts, ..Setup::default() }).await;
        let answer = post_run(gateway.data, "/run").await;
        assert!(answer.text().contains("diglot.malformed"), "{}", answer.text());
        assert_eq!(answer.text().matches(code).count(), 1, "{}", answer.text());
    }
}

#[tokio::test]
async fn sends_keep_alives_while_the_agent_is_silent() {
    let steps =
        vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Pause, write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::with_script(steps);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: FAST_KEEP_ALIVE, ..Setup::default() }).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.read_head().await;
    let received = client.read_until(&COMMENT.repeat(3)).await;
    agent.resume();
    (answer.body, answer.end) = client.read_rest().await;
    answer.body = [received.as_bytes(), &answer.body].concat();
    assert_succeeded(&answer, COMPLETE_RUN);
}

/// The head of a response, and the bytes received before the first event of the agent.
async fn start_before_answer(agent: &Agent, gateway: &Gateway) -> crate::support::client::Answer {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.read_head().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let received = client.read_until(COMMENT).await;
    agent.resume();
    (answer.body, answer.end) = client.read_rest().await;
    answer.body = [received.as_bytes(), &answer.body].concat();
    answer
}

/// Once the client was answered a refusal can only be an event.
#[tokio::test]
async fn sends_keep_alives_before_the_agent_answers() {
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n{\"message\":\"overloaded\"}";
    let agent = Agent::with_script(vec![Step::Read, Step::Pause, write(refusal)]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: FAST_KEEP_ALIVE, ..Setup::default() }).await;
    let error = assert_failed(&start_before_answer(&agent, &gateway).await, "upstream_status", &[]);
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("The agent answered with status 503. Reference: "), "{message}");
}

#[tokio::test]
async fn accepts_a_late_answer() {
    let agent = Agent::with_script(vec![Step::Read, Step::Pause, write(HEAD.to_owned() + &complete_run())]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: FAST_KEEP_ALIVE, ..Setup::default() }).await;
    assert_succeeded(&start_before_answer(&agent, &gateway).await, COMPLETE_RUN);
}

/// Slow is not silent: the limit is between two pieces, not on the run.
#[tokio::test]
async fn does_not_time_out_a_slow_stream() {
    let steps = vec![Step::Read, write(HEAD), Step::Dribble(complete_run().into_bytes())];
    let agent = Agent::with_script(steps);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{idle: 2s}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}
