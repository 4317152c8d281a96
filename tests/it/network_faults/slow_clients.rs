//! Clients that read slowly, with agents that send fast: buffered data is bounded, per stream and in total.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{CLOSED, FINISHED, HEAD, run_beginning};
use super::super::support::{eventually, within_deadline};
use super::{connect_h2, metric_total, start_h2_run};
use http_body_util::BodyExt;

/// One event of a flood, in bytes.
const EVENT: usize = 32 << 10;

/// A flood of 64 MiB.
const EVENTS: usize = (64 << 20) / EVENT;

/// Maximum memory of one of them [failures.md, row 25].
const COST: usize = 1 << 20;

/// Clients of each version that do not read.
const CLIENTS: usize = 8;

/// A window of HTTP/2 that is as small as a client's may be by default.
const WINDOW: u32 = (1 << 16) - 1;

fn flood_step() -> Step {
    let head = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"";
    let text = "x".repeat(EVENT - head.len() - 4);
    Step::Flood(format!("{head}{text}\"}}\n\n").into_bytes(), EVENTS)
}

/// Waits until nothing more leaves the agent, and gives how much did.
async fn sent_when_stalled(agent: &Agent) -> usize {
    let (mut sent, mut same) = (0, 0);
    eventually("the agent's being held back", async || {
        let now = agent.bytes_sent();
        same = if now == sent && now > 0 { same + 1 } else { 0 };
        sent = now;
        (same == 50).then_some(sent)
    })
    .await
}

#[tokio::test]
async fn bounds_memory_per_stalled_client_and_loses_nothing() {
    let agent = Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        flood_step(),
        write(CLOSED.to_owned() + FINISHED),
    ]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], ..Setup::default() }).await;
    // Memory that the first stream allocates is shared by all.
    let mut first = Client::connect_with_small_buffer(gateway.data).await;
    first.send(post("/run", "", INPUT)).await;
    first.read_head().await;
    let sent = sent_when_stalled(&agent).await;
    let before = gateway.process.resident_memory();

    let mut narrow = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = Client::connect_with_small_buffer(gateway.data).await;
        client.send(post("/run", "", INPUT)).await;
        client.read_head().await;
        narrow.push(client);
    }
    // Half of them share one connection, which must not block the others.
    let (mut shared, mut streams) = (connect_h2(gateway.data, WINDOW).await, Vec::new());
    for one in 0..CLIENTS {
        let mut own = connect_h2(gateway.data, WINDOW).await;
        let sender = if one < CLIENTS / 2 { &mut shared } else { &mut own };
        let response = within_deadline("an answer", start_h2_run(sender)).await.expect("an answer");
        streams.push((response.into_body(), own));
    }
    assert!(sent_when_stalled(&agent).await > sent);
    let growth = gateway.process.resident_memory().saturating_sub(before);
    let cost = growth / (2 * CLIENTS);
    assert!(cost < COST, "{cost} bytes for each of them");
    assert_eq!(gateway.metric(r#"diglot_streams_active{route="run"}"#).await, (2 * CLIENTS + 1) as f64);

    // They are only slow: one of each reads on, while the others stay where they are.
    let (body, end) = within_deadline("the whole flood", narrow.remove(0).read_rest()).await;
    assert!(body.len() > EVENT * EVENTS && String::from_utf8_lossy(&body).ends_with(FINISHED), "{end:?}");
    let mut received = 0;
    let (mut body, _connection) = streams.remove(0);
    let mut last = Vec::new();
    while let Some(frame) = within_deadline("a frame", body.frame()).await {
        let data = frame.expect("no reset").into_data().expect("data");
        received += data.len();
        last.extend_from_slice(&data);
        last.drain(..last.len().saturating_sub(FINISHED.len()));
    }
    assert!(received > EVENT * EVENTS);
    assert_eq!(String::from_utf8_lossy(&last), FINISHED);
    let growth = gateway.process.resident_memory().saturating_sub(before);
    assert!(growth < 2 * CLIENTS * COST, "{growth} bytes while two were read to");

    // A client that leaves releases its agent, and every run is counted once.
    drop((first, narrow, streams, shared));
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    assert_eq!(gateway.metric(r#"diglot_streams_total{outcome="finished",route="run"}"#).await, 2.0);
    let runs = (2 * CLIENTS + 1) as f64;
    eventually("the last count", async || (metric_total(&gateway, "diglot_streams_total").await == runs).then_some(()))
        .await;
}
