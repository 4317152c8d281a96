//! The memory of all request bodies together.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};

const ONE: usize = 1 << 20;
const LIMITS: &str =
    "trusted_proxies: [127.0.0.1]\nlimits: {request_body: 1MiB, request_bodies: 4608KiB, body_timeout: 10m}";
const SERIES: &str = "diglot_request_body_bytes";

fn from_address(address: &str) -> String {
    format!("X-Forwarded-For: {address}\r\nConnection: close\r\n")
}

/// Sends a body of one MiB but for its last bytes.
async fn stall(gateway: &Gateway, address: &str) -> Client {
    let whole = post("/run", &from_address(address), &" ".repeat(ONE));
    let mut client = Client::connect(gateway.data).await;
    client.send(&whole[..whole.len() - 2]).await;
    client
}

async fn start_gateway(agent: &Agent) -> Gateway {
    Gateway::start(Setup { upstreams: &[agent.url()], top: LIMITS, ..Setup::default() }).await
}

/// Waits until bodies of this size, and their heads, are counted.
async fn wait_for_bytes(gateway: &Gateway, bytes: usize) {
    eventually("bodies that are counted", async || (gateway.metric(SERIES).await >= bytes as f64).then_some(())).await;
}

#[tokio::test]
async fn refuses_bodies_beyond_the_total_and_recovers() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent).await;
    let mut stalled = Vec::new();
    for number in 1..=4 {
        stalled.push(stall(&gateway, &format!("192.0.2.{number}")).await);
    }
    wait_for_bytes(&gateway, 4 * ONE).await;
    let large = post("/run", &from_address("192.0.2.9"), &" ".repeat(ONE));
    let refused = send_request(gateway.data, &large).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_refused(&refused, 503, "bodies_full");
    assert_eq!(gateway.metric("diglot_refusals_total{reason=\"bodies_full\",route=\"run\"}").await, 1.0);
    drop(stalled);
    gateway.wait_for_metric(SERIES, 0.0).await;
    let run = post("/run", &from_address("192.0.2.9"), INPUT);
    assert_succeeded(&send_request(gateway.data, &run).await, COMPLETE_RUN);
}

#[tokio::test]
async fn lets_one_caller_use_a_quarter() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent).await;
    let _stalled = stall(&gateway, "192.0.2.1").await;
    wait_for_bytes(&gateway, ONE).await;
    let large = post("/run", &from_address("192.0.2.1"), &" ".repeat(ONE));
    assert_refused(&send_request(gateway.data, large).await, 503, "bodies_full");
    let run = post("/run", &from_address("192.0.2.2"), INPUT);
    assert_succeeded(&send_request(gateway.data, run).await, COMPLETE_RUN);
}

#[tokio::test]
async fn counts_a_body_until_the_agent_has_received_it() {
    let agent = Agent::with_script(vec![Step::Read, Step::Pause, write(HEAD.to_owned() + &complete_run())]);
    let gateway = start_gateway(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", &from_address("192.0.2.1"), INPUT)).await;
    wait_for_bytes(&gateway, INPUT.len()).await;
    agent.resume();
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    gateway.wait_for_metric(SERIES, 0.0).await;
}
