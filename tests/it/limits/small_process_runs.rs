//! A process with little memory and the default limits, while many runs together hold and keep what each may.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::Setup;
use super::super::support::sse::{CLOSED, FINISHED, HEAD, complete_run, run_beginning};
use super::small_process::{SmallGateway, assert_serves_others, start_small_gateway};
use tokio::task::JoinSet;

/// The memory of kept runs by default.
const KEPT: usize = 32 << 20;

/// Starts a gateway with an agent at `/other`, which `on_disconnect` keeps, and a healthy one at `/run`.
async fn start_gateway(other: &Agent, healthy: &Agent, top: &str) -> SmallGateway {
    let route = |name: &str, agent: &Agent, more: &str| {
        let url = agent.url();
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"{more}}}\n")
    };
    let routes = [route("run", healthy, ""), route("other", other, ", on_disconnect: continue for 1m")];
    let routes = format!("routes:\n{}", routes.concat());
    let top = format!("trusted_proxies: [127.0.0.1]\n{top}");
    start_small_gateway(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

/// A request of a run of its own.
fn input(run: usize, messages: &str) -> String {
    let ids = INPUT.replace("\"t1\"", &format!("\"t{run}\"")).replace("\"r1\"", &format!("\"r{run}\""));
    let (before, rest) = ids.split_once("\"messages\":[").expect("messages");
    let (_, after) = rest.split_once(']').expect("a list of plain messages");
    format!("{before}\"messages\":[{messages}]{after}")
}

#[tokio::test]
async fn survives_kept_runs_of_many_tiny_messages() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &agent, "").await;
    assert_serves_others(&gateway).await;
    let before = gateway.process.resident_memory();
    let messages: Vec<_> =
        (0..900).map(|id| format!("{{\"id\":\"u{id}\",\"role\":\"user\",\"content\":\"\"}}")).collect();
    let messages = messages.join(",");
    for run in 0..120 {
        let answer = send_request(gateway.data, post("/other", "Connection: close\r\n", &input(run, &messages))).await;
        assert!(answer.text().contains("RUN_FINISHED"), "{:.1000}", answer.text());
    }
    let kept = gateway.metric("diglot_replay_bytes").await;
    assert!(kept > (KEPT / 2) as f64 && kept <= KEPT as f64, "{kept}");
    eventually("about as much memory as is counted", async || {
        (gateway.process.resident_memory().saturating_sub(before) < 2 * KEPT).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
}

/// The elements of a list take thirty times their text once a patch has opened it.
#[tokio::test]
async fn survives_patches_of_long_lists() {
    let list = format!("[{}0]", "0,".repeat(1_500_000));
    let snapshot = format!("data: {{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{list}}}\n\n");
    let patch = r#"[{"op":"replace","path":"/0","value":1}]"#;
    let delta = format!("data: {{\"type\":\"STATE_DELTA\",\"delta\":{patch}}}\n\n");
    // The first is folded when the second arrives.
    let events = [snapshot, delta].concat().repeat(3);
    let agent = Agent::with_response([HEAD, &run_beginning(), &events, CLOSED, FINISHED].concat());
    let healthy = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &healthy, "replay: {run_bytes: 4MiB}").await;
    let mut runs = JoinSet::new();
    for run in 0..3 {
        let input = INPUT.replace("\"r1\"", &format!("\"r{run}\""));
        runs.spawn(send_request(gateway.data, post("/other", "Connection: close\r\n", &input)));
    }
    for answer in runs.join_all().await {
        assert!(answer.text().contains("RUN_FINISHED"), "{:.1000}", answer.text());
    }
    assert!(gateway.process.peak_memory() < 256 << 20, "{}", gateway.process.peak_memory());
    assert_serves_others(&gateway).await;
}

/// Each run is far below what one may hold.
#[tokio::test]
async fn bounds_the_unfinished_events_of_many_runs_together() {
    let unfinished = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"{}", "x".repeat(60_000));
    let agent =
        Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), write(unfinished), Step::Pause]);
    let healthy = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &healthy, "limits: {run_memory: 16MiB}").await;
    let mut clients = Vec::new();
    for run in 0..400 {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/other", "", &INPUT.replace("\"r1\"", &format!("\"r{run}\"")))).await;
        clients.push(client);
    }
    eventually("runs that hold much together", async || {
        (gateway.metric("diglot_run_memory_bytes").await >= f64::from(10 << 20)).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
    let held = gateway.metric("diglot_run_memory_bytes").await;
    assert!(held <= f64::from(17 << 20), "{held}");
    drop(clients);
}
