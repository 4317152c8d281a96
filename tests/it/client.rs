//! Clients that leave, reset or stop reading: the agent notices it, and the gateway stays unaffected.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, post};
use super::support::gateway::Gateway;
use super::support::sse::{CLOSED, FINISHED, HEAD, events, run_beginning, types};
use super::support::{eventually, within_deadline};
use std::time::{Duration, Instant};

/// Deadline for the agent to notice that its client has left.
const RELEASE_DEADLINE: Duration = Duration::from_secs(1);

async fn start_run(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client
}

fn disconnect(client: Client, reset: bool) {
    if reset {
        client.reset();
    }
}

/// Waits until the agent was left, no later than it should be, and until that is counted.
async fn assert_agent_released(agent: &mut Agent, gateway: &Gateway, since: Instant) {
    agent.wait_until_closed().await;
    assert!(since.elapsed() < RELEASE_DEADLINE, "the agent was left after {:?}", since.elapsed());
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
}

#[tokio::test]
async fn releases_the_agent_when_a_client_leaves_before_the_answer() {
    for reset in [false, true] {
        let mut agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
        let gateway = Gateway::start_for(&agent).await;
        let client = start_run(&gateway).await;
        agent.next_request().await;
        let since = Instant::now();
        disconnect(client, reset);
        assert_agent_released(&mut agent, &gateway, since).await;
    }
}

#[tokio::test]
async fn releases_the_agent_when_a_client_leaves_mid_stream() {
    for reset in [false, true] {
        let mut agent =
            Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
        let gateway = Gateway::start_for(&agent).await;
        let mut client = start_run(&gateway).await;
        agent.next_request().await;
        client.read_head().await;
        client.read_until("你好").await;
        assert_eq!(gateway.metric(r#"diglot_streams_active{route="run"}"#).await, 1.0);
        let since = Instant::now();
        disconnect(client, reset);
        assert_agent_released(&mut agent, &gateway, since).await;
    }
}

#[tokio::test]
async fn ends_the_run_when_a_client_leaves_a_flooding_agent() {
    let mut agent = Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        flood_step(),
        Step::WaitForClose,
    ]);
    let gateway = Gateway::start_for(&agent).await;
    let mut client = start_run(&gateway).await;
    agent.next_request().await;
    client.read_head().await;
    client.read_until("xxx").await;
    drop(client);
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
}

/// One event of the flood, in bytes.
const EVENT: usize = 32 << 10;

/// Events of the flood: 64 MiB.
const EVENTS: usize = 2048;

/// Maximum data in flight between an agent and a client that does not read: the gateway's own limit is 64 KiB, the rest
/// is in the buffers of four sockets. Without a limit it would be the whole flood.
const IN_FLIGHT_LIMIT: usize = 16 << 20;

/// Maximum memory of a stalled stream.
const GROWTH: usize = 4 << 20;

fn flood_step() -> Step {
    let head = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"";
    let text = "x".repeat(EVENT - head.len() - 4);
    Step::Flood(format!("{head}{text}\"}}\n\n").into_bytes(), EVENTS)
}

/// Waits until the agent sends no more, and returns the number of bytes.
async fn sent_when_stalled(agent: &Agent) -> usize {
    let (mut sent, mut same) = (0, 0);
    eventually("the agent's being held back", async || {
        let now = agent.bytes_sent();
        same = if now == sent && now > 0 { same + 1 } else { 0 };
        sent = now;
        (same == 40).then_some(sent)
    })
    .await
}

#[tokio::test]
async fn applies_backpressure_for_a_client_that_does_not_read() {
    let steps =
        vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), flood_step(), write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::with_script(steps);
    let gateway = Gateway::start_for(&agent).await;
    let before = gateway.process.anonymous_memory();
    let mut client = Client::connect_with_small_buffer(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;

    let sent = sent_when_stalled(&agent).await;
    assert!(sent < IN_FLIGHT_LIMIT, "{sent} bytes left the agent");
    let growth = gateway.process.anonymous_memory().saturating_sub(before);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");

    // It is only slow: nothing is lost once it reads on.
    assert_eq!(client.read_head().await.status, 200);
    let (body, end) = within_deadline("the whole flood", client.read_rest()).await;
    assert_eq!(end, End::Clean);
    assert!(body.len() > EVENT * EVENTS);
    let events = events(std::str::from_utf8(&body).expect("UTF-8"));
    assert_eq!(events.len(), 3 + EVENTS + 2);
    assert_eq!(types(&events[EVENTS + 2..]), ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
    let growth = gateway.process.anonymous_memory().saturating_sub(before);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
}
