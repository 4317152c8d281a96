//! What a client can do to its run: leave, reset, stop reading. The agent must feel it, and the gateway must not.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, post};
use super::support::gateway::Gateway;
use super::support::sse::{CLOSED, FINISHED, HEAD, begun, events, types};
use super::support::{eventually, soon};
use std::time::{Duration, Instant};

/// How soon an agent hears that nobody listens any more.
const LEAVING: Duration = Duration::from_secs(1);

async fn started(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client
}

fn leave(client: Client, reset: bool) {
    if reset {
        client.reset();
    }
}

/// Waits until the agent was left, no later than it should be, and until that is counted.
async fn left(agent: &mut Agent, gateway: &Gateway, since: Instant) {
    agent.left().await;
    assert!(since.elapsed() < LEAVING, "the agent was left after {:?}", since.elapsed());
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    gateway.reaches(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
}

#[tokio::test]
async fn a_client_leaves_before_the_agent_answers() {
    for reset in [false, true] {
        let mut agent = Agent::playing(vec![Step::Read, Step::Stay]);
        let gateway = Gateway::before(&agent).await;
        let client = started(&gateway).await;
        agent.request().await;
        let since = Instant::now();
        leave(client, reset);
        left(&mut agent, &gateway, since).await;
    }
}

#[tokio::test]
async fn a_client_leaves_in_mid_stream() {
    for reset in [false, true] {
        let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
        let gateway = Gateway::before(&agent).await;
        let mut client = started(&gateway).await;
        agent.request().await;
        client.head().await;
        client.until("你好").await;
        assert_eq!(gateway.metric(r#"diglot_streams_active{route="run"}"#).await, 1.0);
        let since = Instant::now();
        leave(client, reset);
        left(&mut agent, &gateway, since).await;
    }
}

#[tokio::test]
async fn a_client_leaves_while_its_agent_floods() {
    let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), flood(), Step::Stay]);
    let gateway = Gateway::before(&agent).await;
    let mut client = started(&gateway).await;
    agent.request().await;
    client.head().await;
    client.until("xxx").await;
    drop(client);
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    gateway.reaches(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
}

/// One event of the flood, in bytes.
const EVENT: usize = 32 << 10;

/// Events of the flood: 64 MiB.
const EVENTS: usize = 2048;

/// What may be on its way between an agent and a client that does not read: the gateway's own bound is 64 KiB, the rest
/// is what the system takes on four sockets. Without a bound it would be the whole flood.
const ON_ITS_WAY: usize = 16 << 20;

/// What a stalled stream may cost the gateway.
const GROWTH: usize = 4 << 20;

fn flood() -> Step {
    let head = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"";
    let text = "x".repeat(EVENT - head.len() - 4);
    Step::Flood(format!("{head}{text}\"}}\n\n").into_bytes(), EVENTS)
}

/// Waits until nothing more leaves the agent: the same count, often asked.
async fn stalled(agent: &Agent) -> usize {
    let (mut sent, mut same) = (0, 0);
    eventually("the agent's being held back", async || {
        let now = agent.sent();
        same = if now == sent && now > 0 { same + 1 } else { 0 };
        sent = now;
        (same == 40).then_some(sent)
    })
    .await
}

#[tokio::test]
async fn a_client_that_does_not_read_makes_the_agent_wait() {
    let steps = vec![Step::Read, write(HEAD.to_owned() + &begun()), flood(), write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::playing(steps);
    let gateway = Gateway::before(&agent).await;
    let before = gateway.process.resident();
    let mut client = Client::narrow(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;

    let sent = stalled(&agent).await;
    assert!(sent < ON_ITS_WAY, "{sent} bytes left the agent");
    let growth = gateway.process.resident().saturating_sub(before);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");

    // It is only slow: nothing is lost once it reads on.
    assert_eq!(client.head().await.status, 200);
    let (body, end) = soon("the whole flood", client.rest()).await;
    assert_eq!(end, End::Clean);
    assert!(body.len() > EVENT * EVENTS);
    let events = events(std::str::from_utf8(&body).expect("UTF-8"));
    assert_eq!(events.len(), 3 + EVENTS + 2);
    assert_eq!(types(&events[EVENTS + 2..]), ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    let growth = gateway.process.resident().saturating_sub(before);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
}
