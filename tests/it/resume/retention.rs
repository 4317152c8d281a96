//! How long a run goes on alone, how much is kept of it, and the end of the process.

use super::*;

/// One event of so many bytes, about.
fn event(bytes: usize) -> Vec<u8> {
    let text = "x".repeat(bytes);
    format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n").into_bytes()
}

#[tokio::test]
async fn a_run_goes_on_alone_and_no_longer_than_it_may() {
    let mut agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let routes = routes(&agent, "").replace("continue for 5m", "continue for 300ms");
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    agent.request().await;
    drop(client);
    agent.left().await;
    assert_eq!(gateway.logged("run ended").await["outcome"], "client_gone");
    // Who comes too late hears why there is no more.
    let missed = heard(&read(gateway.data, "r1", &cursor(first[2].id())).await);
    assert_eq!(kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "run_abandoned");
}

#[tokio::test]
async fn a_run_ends_well_while_nobody_listens() {
    let agent = waiting();
    let mut gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    drop(client);
    agent.go();
    assert_eq!(gateway.logged("run ended").await["outcome"], "finished");
    gateway.reaches("diglot_streams_active{route=\"run\"}", 0.0).await;
    assert_eq!(gateway.metric("diglot_replay_runs").await, 1.0);
    assert!(gateway.metric("diglot_replay_bytes").await > 0.0);
    assert_eq!(heard(&read(gateway.data, "r1", &cursor(first[2].id())).await).len(), 2);
}

#[tokio::test]
async fn what_ended_long_ago_is_gone() {
    let agent = Agent::answering([HEAD, STARTED, FINISHED].concat());
    let gateway = with(&agent, "replay: {age: 300ms}", "").await;
    heard(&ask(gateway.data, post("/run", "", &input("r1"))).await);
    gateway.reaches("diglot_replay_evictions_total{reason=\"age\"}", 1.0).await;
    refused(&read(gateway.data, "r1", "").await, 404, "run_not_found");
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
    assert_eq!(gateway.metric("diglot_replay_bytes").await, 0.0);
}

#[tokio::test]
async fn only_so_many_are_kept() {
    let agent = Agent::answering([HEAD, STARTED, FINISHED].concat());
    let gateway = with(&agent, "replay: {runs: 2}", "").await;
    for run in ["r1", "r2", "r3"] {
        heard(&ask(gateway.data, post("/run", "", &input(run))).await);
    }
    refused(&read(gateway.data, "r1", "").await, 404, "run_not_found");
    for run in ["r2", "r3"] {
        heard(&read(gateway.data, run, "").await);
    }
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"runs\"}").await, 1.0);
    assert_eq!(gateway.metric("diglot_replay_runs").await, 2.0);
}

#[tokio::test]
async fn all_together_take_only_so_much() {
    let said = String::from_utf8(event(30_000)).expect("UTF-8");
    let agent = Agent::answering([HEAD, STARTED, OPENED, &said, CLOSED, FINISHED].concat());
    let gateway = with(&agent, "replay: {bytes: 80KiB, run_bytes: 40KiB}", "").await;
    for run in ["r1", "r2", "r3", "r4"] {
        heard(&ask(gateway.data, post("/run", "", &input(run))).await);
        assert!(gateway.metric("diglot_replay_bytes").await <= 80.0 * 1024.0);
    }
    refused(&read(gateway.data, "r1", "").await, 404, "run_not_found");
    heard(&read(gateway.data, "r4", "").await);
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"bytes\"}").await, 2.0);
}

/// A run of 64 MiB costs no more than its bound, whether its reader is slow or there is none.
#[tokio::test]
async fn a_long_run_costs_its_bound_and_no_more() {
    const TIMES: usize = 2048;
    const GROWTH: usize = 16 << 20;
    let agent = Agent::playing(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED].concat()),
        Step::Flood(event(32 << 10), TIMES),
        write([CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = before(&agent).await;
    let memory = gateway.process.resident();
    let mut client = Client::narrow(gateway.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    client.head().await;
    client.until("TEXT_MESSAGE_START").await;
    // It reads no more: the agent is made to wait, as on any route.
    let mut same = 0;
    let mut sent = 0;
    super::super::support::eventually("the agent's being held back", async || {
        let now = agent.sent();
        same = if now == sent && now > 0 { same + 1 } else { 0 };
        sent = now;
        (same == 40).then_some(())
    })
    .await;
    assert!(sent < 16 << 20, "{sent}");
    let growth = gateway.process.resident().saturating_sub(memory);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
    // It leaves, and the agent goes on alone to its end.
    drop(client);
    assert_eq!(gateway.logged("run ended").await["outcome"], "finished");
    let growth = gateway.process.resident().saturating_sub(memory);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
    refused(&read(gateway.data, "r1", "").await, 410, "run_not_kept");
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"run_bytes\"}").await, 1.0);
}

#[tokio::test]
async fn keep_alives_go_to_everybody_who_waits() {
    let agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED].concat()), Step::Pause, write(FINISHED)]);
    let gateway = with(&agent, "keep_alive: 100ms", "").await;
    let (mut one, _) = begun(gateway.data, "r1", "RUN_STARTED").await;
    let (mut two, _) = opened(gateway.data, get(&events_of("r1"), ""), "RUN_STARTED").await;
    for client in [&mut one, &mut two] {
        client.until(": keep-alive\n\n").await;
        client.until(": keep-alive\n\n").await;
    }
    agent.go();
    for client in [one, two] {
        assert_eq!(kinds(&rest(client).await), ["RUN_FINISHED"]);
    }
    // None of them is kept.
    let again = read(gateway.data, "r1", "").await;
    assert!(!again.text().contains("keep-alive"), "{}", again.text());
}

#[tokio::test]
async fn a_gateway_that_leaves_lets_clients_come_back() {
    let agent = waiting();
    let mut gateway = with(&agent, "drain_grace: 1h", "").await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    drop(client);
    gateway.process.signal("TERM");
    gateway.logged("leaving").await;
    let behind = cursor(first[2].id());
    let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
    one.send(post("/run", &behind, &input("r1"))).await;
    two.send(get(&events_of("r1"), &behind)).await;
    assert_eq!((one.head().await.status, two.head().await.status), (200, 200));
    agent.go();
    for client in [one, two] {
        assert_eq!(kinds(&rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_process_that_ends_tells_everybody() {
    let agent = Agent::playing(vec![Step::Read, write([HEAD, STARTED, OPENED, SAID].concat()), Step::Stay]);
    let mut gateway = with(&agent, "drain_timeout: 200ms", "").await;
    let (one, _) = begun(gateway.data, "r1", HEARD).await;
    let (two, _) = opened(gateway.data, get(&events_of("r1"), ""), HEARD).await;
    gateway.process.signal("TERM");
    for client in [one, two] {
        let end = rest(client).await;
        assert_eq!(end.last().expect("an end").event["code"], "gateway_draining");
    }
    assert_eq!(gateway.logged("run ended").await["outcome"], "drained");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
