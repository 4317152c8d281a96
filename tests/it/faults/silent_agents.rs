//! Agents that take their time, for ever too: time-outs, and what keeps the client's connection alive meanwhile.

use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, INPUT, post, run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{BEGUN, CLOSED, FINISHED, HEAD, WHOLE, begun, failed, refused, succeeded, whole};
use std::time::{Duration, Instant};

/// Keep-alives that come often, and time-outs that do not.
const LIVELY: &str = "keep_alive: 50ms";

const COMMENT: &str = ": keep-alive\n\n";

#[tokio::test]
async fn an_agent_that_never_answers_is_given_up() {
    let mut agent = Agent::playing(vec![Step::Read, Step::Stay]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{first_byte: 200ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    refused(&run(gateway.data, "/run").await, 504, "upstream_timeout");
    agent.request().await;
    agent.left().await;
}

#[tokio::test]
async fn an_agent_that_never_answers_a_client_that_was_answered() {
    let mut agent = Agent::playing(vec![Step::Read, Step::Stay]);
    let setup = Setup { upstreams: &[agent.url()], top: LIVELY, timeouts: "{first_byte: 500ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let answer = run(gateway.data, "/run").await;
    assert!(answer.text().starts_with(COMMENT), "{}", answer.text());
    failed(&answer, "upstream_timeout", &[]);
    agent.request().await;
    agent.left().await;
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_given_up() {
    let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{idle: 200ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let since = Instant::now();
    failed(&run(gateway.data, "/run").await, "upstream_idle", BEGUN);
    // By its own limit, not by that of the first byte or the next keep-alive, which come later.
    assert!(since.elapsed() < Duration::from_secs(10), "given up after {:?}", since.elapsed());
    agent.request().await;
    agent.left().await;
}

#[tokio::test]
async fn keep_alives_flow_while_the_agent_is_silent() {
    let steps = vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Pause, write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::playing(steps);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: LIVELY, ..Setup::default() }).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.head().await;
    let heard = client.until(&COMMENT.repeat(3)).await;
    agent.go();
    (answer.body, answer.end) = client.rest().await;
    answer.body = [heard.as_bytes(), &answer.body].concat();
    succeeded(&answer, WHOLE);
}

/// The head of an answer, and what was heard before the agent said a word.
async fn early(agent: &Agent, gateway: &Gateway) -> crate::support::client::Answer {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.head().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let heard = client.until(COMMENT).await;
    agent.go();
    (answer.body, answer.end) = client.rest().await;
    answer.body = [heard.as_bytes(), &answer.body].concat();
    answer
}

/// Once the client was answered a refusal can only be an event.
#[tokio::test]
async fn keep_alives_flow_before_the_agent_answers() {
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n{\"message\":\"overloaded\"}";
    let agent = Agent::playing(vec![Step::Read, Step::Pause, write(refusal)]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: LIVELY, ..Setup::default() }).await;
    let error = failed(&early(&agent, &gateway).await, "upstream_status", &[]);
    assert_eq!(error["message"], "overloaded");
}

#[tokio::test]
async fn a_late_answer_is_as_good_as_an_early_one() {
    let agent = Agent::playing(vec![Step::Read, Step::Pause, write(HEAD.to_owned() + &whole())]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: LIVELY, ..Setup::default() }).await;
    succeeded(&early(&agent, &gateway).await, WHOLE);
}

/// Slow is not silent: the limit is between two pieces, not on the run.
#[tokio::test]
async fn a_trickle_is_no_silence() {
    let steps = vec![Step::Read, write(HEAD), Step::Dribble(whole().into_bytes())];
    let agent = Agent::playing(steps);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{idle: 2s}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}
