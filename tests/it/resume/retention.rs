//! Runs without a client, limits on kept runs, and the end of the process.

use super::*;

/// One event of so many bytes, about.
fn text_event(bytes: usize) -> Vec<u8> {
    let text = "x".repeat(bytes);
    format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n").into_bytes()
}

#[tokio::test]
async fn abandons_a_run_without_readers_after_its_time() {
    let mut agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let routes = routes(&agent, "").replace("continue for 5m", "continue for 300ms");
    let mut gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    agent.next_request().await;
    drop(client);
    agent.wait_until_closed().await;
    assert_eq!(gateway.next_log("run ended").await["outcome"], "client_gone");
    // A client that is too late gets the reason.
    let missed = finished_frames(&read_run(gateway.data, "r1", &last_event_id(first[2].id())).await);
    assert_eq!(frame_kinds(&missed), ["RUN_ERROR"]);
    assert_eq!(missed[0].event["code"], "run_abandoned");
}

#[tokio::test]
async fn finishes_a_run_without_readers() {
    let agent = start_paused_agent();
    let mut gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    drop(client);
    agent.resume();
    assert_eq!(gateway.next_log("run ended").await["outcome"], "finished");
    gateway.wait_for_metric("diglot_streams_active{route=\"run\"}", 0.0).await;
    assert_eq!(gateway.metric("diglot_replay_runs").await, 1.0);
    assert!(gateway.metric("diglot_replay_bytes").await > 0.0);
    assert_eq!(finished_frames(&read_run(gateway.data, "r1", &last_event_id(first[2].id())).await).len(), 2);
}

#[tokio::test]
async fn evicts_runs_past_their_replay_age() {
    let agent = Agent::with_response([HEAD, STARTED, FINISHED].concat());
    let gateway = start_gateway_with(&agent, "replay: {age: 300ms}", "").await;
    finished_frames(&send_request(gateway.data, post("/run", "", &input("r1"))).await);
    gateway.wait_for_metric("diglot_replay_evictions_total{reason=\"age\"}", 1.0).await;
    assert_refused(&read_run(gateway.data, "r1", "").await, 404, "run_not_found");
    assert_eq!(gateway.metric("diglot_replay_runs").await, 0.0);
    assert_eq!(gateway.metric("diglot_replay_bytes").await, 0.0);
}

#[tokio::test]
async fn evicts_the_oldest_runs_over_the_run_limit() {
    let agent = Agent::with_response([HEAD, STARTED, FINISHED].concat());
    let gateway = start_gateway_with(&agent, "replay: {runs: 2}", "").await;
    for run in ["r1", "r2", "r3"] {
        finished_frames(&send_request(gateway.data, post("/run", "", &input(run))).await);
    }
    assert_refused(&read_run(gateway.data, "r1", "").await, 404, "run_not_found");
    for run in ["r2", "r3"] {
        finished_frames(&read_run(gateway.data, run, "").await);
    }
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"runs\"}").await, 1.0);
    assert_eq!(gateway.metric("diglot_replay_runs").await, 2.0);
}

#[tokio::test]
async fn evicts_the_oldest_runs_over_the_byte_limit() {
    let event = String::from_utf8(text_event(30_000)).expect("UTF-8");
    let agent = Agent::with_response([HEAD, STARTED, OPENED, &event, CLOSED, FINISHED].concat());
    let gateway = start_gateway_with(&agent, "replay: {bytes: 80KiB, run_bytes: 40KiB}", "").await;
    for run in ["r1", "r2", "r3", "r4"] {
        finished_frames(&send_request(gateway.data, post("/run", "", &input(run))).await);
        assert!(gateway.metric("diglot_replay_bytes").await <= 80.0 * 1024.0);
    }
    assert_refused(&read_run(gateway.data, "r1", "").await, 404, "run_not_found");
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"bytes\"}").await, 2.0);
    // Its recap takes memory, too.
    finished_frames(&read_run(gateway.data, "r4", "").await);
    assert!(gateway.metric("diglot_replay_bytes").await <= 80.0 * 1024.0);
}

/// There is no memory for the recap of another reader, and nothing can be evicted for it. Readers that need none go on.
#[tokio::test]
async fn refuses_readers_if_their_recap_finds_no_memory() {
    let event = String::from_utf8(text_event(45_000)).expect("UTF-8");
    let agent = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED, &event, CONTENT].concat()),
        Step::Pause,
        write([CLOSED, FINISHED].concat()),
    ]);
    let gateway = start_gateway_with(&agent, "replay: {bytes: 80KiB, run_bytes: 60KiB}", "").await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let same_request = || post("/run", "", &input("r1"));
    for again in [get_request(&run_events_path("r1"), ""), same_request()] {
        let refused = send_request(gateway.data, again).await;
        assert_refused(&refused, 503, "replay_memory_full");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(gateway.metric("diglot_refusals_total{reason=\"replay_memory_full\",route=\"run\"}").await, 2.0);
    let last = last_event_id(first.last().expect("an event").id());
    let mut behind = Client::connect(gateway.data).await;
    behind.send(get_request(&run_events_path("r1"), &last)).await;
    assert_eq!(behind.read_head().await.status, 200);
    agent.resume();
    for reader in [client, behind] {
        assert_eq!(frame_kinds(&read_rest(reader).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    assert_refused(&send_request(gateway.data, same_request()).await, 503, "replay_memory_full");
    assert_eq!(agent.connection_count(), 1);
    assert!(gateway.metric("diglot_replay_bytes").await <= 80.0 * 1024.0);
}

/// The sum of all runs stays below the limit while they are in progress. Those without room continue for their clients,
/// but their memory is freed.
#[tokio::test]
async fn bounds_the_memory_of_all_live_runs() {
    const RUNS: usize = 100;
    const LIMIT: f64 = 1024.0 * 1024.0;
    let events = text_event(4000).repeat(64);
    let stream = [[HEAD, STARTED, OPENED].concat().into_bytes(), events, CONTENT.as_bytes().to_vec()].concat();
    let agent = Agent::with_script(vec![Step::Read, write(stream), Step::Pause, write([CLOSED, FINISHED].concat())]);
    let gateway = start_gateway_with(&agent, "replay: {bytes: 1MiB}", "").await;
    let memory = gateway.process.resident_memory();
    let mut clients = Vec::new();
    for run in 0..RUNS {
        clients.push(start_run_until(gateway.data, &format!("r{run}"), END_OF_CONTENT).await.0);
        let bytes = gateway.metric("diglot_replay_bytes").await;
        assert!(bytes <= LIMIT, "{run} runs: {bytes}");
    }
    let growth = gateway.process.resident_memory().saturating_sub(memory);
    assert!(growth < RUNS * (256 << 10) * 3 / 4, "the gateway grew by {growth} bytes");
    assert!(gateway.metric("diglot_replay_evictions_total{reason=\"bytes\"}").await >= 1.0);
    (0..RUNS).for_each(|_| agent.resume());
    for client in clients {
        assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    let mut kept = 0;
    for run in 0..RUNS {
        let status = read_run(gateway.data, &format!("r{run}"), "").await.status;
        assert!([200, 404, 410].contains(&status), "{status}");
        kept += usize::from(status == 200);
        assert!(gateway.metric("diglot_replay_bytes").await <= LIMIT);
    }
    assert!(kept >= 1, "none is kept");
}

/// A run of 64 MiB uses no more memory than its limit, with a slow reader and with none.
#[tokio::test]
async fn bounds_the_memory_of_a_long_run() {
    const TIMES: usize = 2048;
    const GROWTH: usize = 16 << 20;
    let agent = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED].concat()),
        Step::Flood(text_event(32 << 10), TIMES),
        write([CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = start_gateway(&agent).await;
    let memory = gateway.process.resident_memory();
    let mut client = Client::connect_with_small_buffer(gateway.data).await;
    client.send(post("/run", "", &input("r1"))).await;
    client.read_head().await;
    client.read_until("TEXT_MESSAGE_START").await;
    // It reads no more: the agent is made to wait, as on any route.
    let mut same = 0;
    let mut sent = 0;
    super::super::support::eventually("the agent's being held back", async || {
        let now = agent.bytes_sent();
        same = if now == sent && now > 0 { same + 1 } else { 0 };
        sent = now;
        (same == 40).then_some(())
    })
    .await;
    assert!(sent < 16 << 20, "{sent}");
    let growth = gateway.process.resident_memory().saturating_sub(memory);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
    // The client leaves, and the run continues to its end.
    drop(client);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "finished");
    let growth = gateway.process.resident_memory().saturating_sub(memory);
    assert!(growth < GROWTH, "the gateway grew by {growth} bytes");
    assert_refused(&read_run(gateway.data, "r1", "").await, 410, "run_not_kept");
    assert_eq!(gateway.metric("diglot_replay_evictions_total{reason=\"run_bytes\"}").await, 1.0);
}

#[tokio::test]
async fn sends_keep_alives_to_every_reader() {
    let agent = Agent::with_script(vec![Step::Read, write([HEAD, STARTED].concat()), Step::Pause, write(FINISHED)]);
    let gateway = start_gateway_with(&agent, "keep_alive: 100ms", "").await;
    let (mut one, _) = start_run_until(gateway.data, "r1", "RUN_STARTED").await;
    let (mut two, _) = open_stream_until(gateway.data, get_request(&run_events_path("r1"), ""), "RUN_STARTED").await;
    for client in [&mut one, &mut two] {
        client.read_until(": keep-alive\n\n").await;
        client.read_until(": keep-alive\n\n").await;
    }
    agent.resume();
    for client in [one, two] {
        assert_eq!(frame_kinds(&read_rest(client).await), ["RUN_FINISHED"]);
    }
    // None of them is kept.
    let again = read_run(gateway.data, "r1", "").await;
    assert!(!again.text().contains("keep-alive"), "{}", again.text());
}

#[tokio::test]
async fn resumes_clients_during_the_drain_grace() {
    let agent = start_paused_agent();
    let mut gateway = start_gateway_with(&agent, "drain_grace: 1h", "").await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    drop(client);
    gateway.process.signal("TERM");
    gateway.next_log("shutdown started").await;
    let behind = last_event_id(first[2].id());
    let (mut one, mut two) = (Client::connect(gateway.data).await, Client::connect(gateway.data).await);
    one.send(post("/run", &behind, &input("r1"))).await;
    two.send(get_request(&run_events_path("r1"), &behind)).await;
    assert_eq!((one.read_head().await.status, two.read_head().await.status), (200, 200));
    agent.resume();
    for client in [one, two] {
        assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn reports_the_drain_to_every_reader() {
    let agent =
        Agent::with_script(vec![Step::Read, write([HEAD, STARTED, OPENED, CONTENT].concat()), Step::WaitForClose]);
    let mut gateway = start_gateway_with(&agent, "drain_timeout: 200ms", "").await;
    let (one, _) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let (two, _) = open_stream_until(gateway.data, get_request(&run_events_path("r1"), ""), END_OF_CONTENT).await;
    gateway.process.signal("TERM");
    for client in [one, two] {
        let end = read_rest(client).await;
        assert_eq!(end.last().expect("an end").event["code"], "gateway_draining");
    }
    assert_eq!(gateway.next_log("run ended").await["outcome"], "drained");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
