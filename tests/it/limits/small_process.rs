//! A process with little memory and the default limits, while clients push several bounds at once.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup, diglot};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run, run_beginning};
use std::ops::Deref;
use std::process::Command;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};

/// Memory limit of a typical sidecar, in bytes.
pub(super) const MEMORY: usize = 256 << 20;

/// Frames that agents begin and do not end.
const FRAME: usize = 8 << 20;
const UNFINISHED: usize = 12;

/// Events of 32 KiB per flooding agent.
const FLOOD: usize = 600;

const BODY: usize = 2 << 20;
const SLOW_READERS: usize = 100;

pub(super) fn from_address(address: &str) -> String {
    format!("X-Forwarded-For: {address}\r\nConnection: close\r\n")
}

/// Lets one of these tests run at a time: each keeps all processors busy, and has deadlines.
static TURN: Mutex<()> = Mutex::const_new(());

/// A gateway with little memory, and the turn of its test.
pub(super) struct SmallGateway {
    gateway: Gateway,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for SmallGateway {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

pub(super) async fn start_small_gateway(setup: Setup<'_>) -> SmallGateway {
    // Private writable memory, the threads' stacks and what the allocators reserve included, which is about as much again as what
    // is resident; a limit of the address space (`-v`) would also count the program, which is five times as large in a test.
    start_limited_gateway(&format!("-d {}", MEMORY >> 9), setup).await
}

/// Starts a gateway with these arguments of `ulimit`.
pub(super) async fn start_limited_gateway(limit: &str, setup: Setup<'_>) -> SmallGateway {
    let turn = TURN.lock().await;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(diglot().get_program());
    command.env_remove("DIGLOT_CONFIG").env_remove("DIGLOT_LOG");
    SmallGateway { gateway: Gateway::start_by(command, setup).await, _turn: turn }
}

/// Starts an agent that sends the beginning of a large event, and then nothing.
fn start_unfinished_agent() -> Agent {
    let beginning = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"{}", "x".repeat(FRAME));
    Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), write(beginning), Step::Pause])
}

/// Starts an agent that sends 19 MiB: the kept runs exceed their bound together, and more would only take processor time.
pub(super) fn start_flooding_agent() -> Agent {
    let delta = "x".repeat(32 << 10);
    let event = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{delta}\"}}\n\n");
    Agent::with_script(vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        Step::Flood(event.into_bytes(), FLOOD),
    ])
}

pub(super) async fn assert_serves_others(gateway: &Gateway) {
    let run = post("/run", &from_address("192.0.2.200"), INPUT);
    assert_succeeded(&send_request(gateway.data, run).await, COMPLETE_RUN);
    assert_eq!(gateway.get_status("/livez").await.status, 200);
    let resident = gateway.process.resident_memory();
    assert!(resident < MEMORY, "{resident} bytes");
}

#[tokio::test]
async fn serves_others_in_little_memory_while_bounds_are_pushed() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let (flooding, unfinished) = (start_flooding_agent(), start_unfinished_agent());
    let route = |name: &str, agent: &Agent, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{}\"{more}}}\n",
            agent.url()
        )
    };
    let kept = ", on_disconnect: continue for 1s";
    let routes = [
        route("run", &agent, ""),
        route("flood", &flooding, ""),
        route("kept", &flooding, kept),
        route("half", &unfinished, ""),
    ];
    let routes = format!("routes:\n{}", routes.concat());
    let setup = Setup { top: "trusted_proxies: [127.0.0.1]\nreplay: {age: 1s}", routes: &routes, ..Setup::default() };
    let gateway = start_small_gateway(setup).await;
    assert_serves_others(&gateway).await;
    let before = gateway.process.resident_memory();

    let mut connections = Vec::new();
    for _ in 0..1000 {
        connections.push(TcpStream::connect(gateway.data).await.expect("the gateway listens"));
    }
    assert_serves_others(&gateway).await;
    let mut readers = Vec::new();
    for _ in 0..SLOW_READERS {
        let mut reader = Client::connect(gateway.data).await;
        reader.send(post("/flood", "", INPUT)).await;
        readers.push(reader);
    }
    gateway.wait_for_metric(r#"diglot_streams_active{route="flood"}"#, SLOW_READERS as f64).await;
    for run in 0..SLOW_READERS {
        let mut reader = Client::connect(gateway.data).await;
        reader.send(post("/kept", "", &INPUT.replace("\"r1\"", &format!("\"r{run}\"")))).await;
        readers.push(reader);
    }
    gateway.wait_for_metric(r#"diglot_streams_active{route="kept"}"#, SLOW_READERS as f64).await;
    assert_serves_others(&gateway).await;
    let body = post("/run", &from_address("192.0.2.1"), &" ".repeat(BODY));
    let mut bodies = Vec::new();
    for _ in 0..40 {
        let mut client = Client::connect(gateway.data).await;
        client.send(&body[..body.len() - 2]).await;
        bodies.push(client);
    }
    assert_serves_others(&gateway).await;
    eventually("refused bodies", async || {
        (gateway.metric("diglot_refusals_total{reason=\"bodies_full\",route=\"run\"}").await >= 1.0).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
    drop(bodies);
    gateway.wait_for_metric("diglot_request_body_bytes", 0.0).await;
    let mut halves = Vec::new();
    for _ in 0..UNFINISHED {
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/half", "", INPUT)).await;
        halves.push(client);
    }
    eventually("runs that hold much together", async || {
        (gateway.metric("diglot_run_memory_bytes").await >= f64::from(32 << 20)).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;

    drop((connections, readers, halves));
    gateway.wait_for_metric(r#"diglot_streams_active{route="flood"}"#, 0.0).await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="half"}"#, 0.0).await;
    gateway.wait_for_metric("diglot_run_memory_bytes", 0.0).await;
    gateway.wait_for_metric("diglot_replay_bytes", 0.0).await;
    eventually("its size from before", async || {
        (gateway.process.resident_memory() < before + (16 << 20)).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
}
