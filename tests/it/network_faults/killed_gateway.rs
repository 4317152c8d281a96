//! A gateway that is killed, and one with little memory.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, End, INPUT, post, post_run};
use super::super::support::gateway::{Process, TempFile, diglot};
use super::super::support::sse::{
    COMPLETE_RUN, HEAD, OPENED, STARTED, assert_succeeded, complete_run, events, run_beginning, types,
};
use super::super::support::within;
use super::{connect_h2, start_h2_run};
use http_body_util::BodyExt;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Clients of each HTTP version whose gateway is killed.
const CLIENTS: usize = 250;

/// Streams of one connection of HTTP/2.
const SHARE: usize = 50;

/// From the death of a gateway to the first answer of the next one [failures.md, row 58].
const RECOVERY_TIME: Duration = Duration::from_secs(5);

/// Starts a gateway on an address, or on a port that the system chooses; returns that address.
async fn start_listening(command: &mut Command, data: &str, agent: &Agent) -> (Process, SocketAddr, TempFile) {
    let route = format!("{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\"}}", agent.url());
    let file = TempFile::new(&format!("listeners: {{data: \"{data}\", status: []}}\nroutes: [{route}]\n"));
    let mut process = Process::start(command.arg(file.path()), false);
    loop {
        let line = process.line().await.expect("the gateway goes on");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if line["message"] == "listening" {
            let address = line["address"].as_str().and_then(|text| text.parse().ok()).expect("an address");
            return (process, address, file);
        }
    }
}

/// A killed gateway sends no terminal event, so no client may get a clean end.
#[tokio::test]
async fn cuts_streams_when_killed_and_serves_again_at_once() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let serve = || {
        let mut command = diglot();
        command.args(["serve", "--config"]);
        command
    };
    let (mut process, data, _file) = start_listening(&mut serve(), "127.0.0.1:0", &agent).await;

    let mut ends = JoinSet::new();
    let (ready, mut all) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..CLIENTS {
        let ready = ready.clone();
        ends.spawn(async move {
            let mut client = Client::connect(data).await;
            client.send(post("/run", "", INPUT)).await;
            client.read_head().await;
            client.read_until("你好\"}\n\n").await;
            ready.send(()).expect("awaited");
            client.read_rest().await.1
        });
    }
    for _ in 0..CLIENTS / SHARE {
        let mut sender = connect_h2(data, 1 << 16).await;
        for _ in 0..SHARE {
            let mut body = start_h2_run(&mut sender).await.expect("an answer").into_body();
            let (ready, sender) = (ready.clone(), sender.clone());
            ends.spawn(async move {
                let mut received = Vec::new();
                while !String::from_utf8_lossy(&received).ends_with("你好\"}\n\n") {
                    let frame = body.frame().await.expect("more").expect("no reset");
                    received.extend_from_slice(&frame.into_data().expect("data"));
                }
                ready.send(()).expect("awaited");
                let end = super::body_end(&body.collect().await);
                drop(sender);
                end
            });
        }
    }
    for _ in 0..2 * CLIENTS {
        within(Duration::from_secs(60), "500 streams", all.recv()).await;
    }
    process.signal("KILL");
    let died = Instant::now();
    process.exit().await;
    // The same port, although the connections of the dead are still on it.
    let healthy = Agent::with_response(HEAD.to_owned() + &complete_run());
    let (_successor, again, _file) = start_listening(&mut serve(), &data.to_string(), &healthy).await;
    assert_eq!(again, data);
    assert_succeeded(&post_run(data, "/run").await, COMPLETE_RUN);
    assert!(died.elapsed() < RECOVERY_TIME, "back after {:?}", died.elapsed());
    for end in ends.join_all().await {
        assert_eq!(end, End::Cut);
    }
}

/// Address space for the process, in KiB: 2 GiB [failures.md, row 63].
const MEMORY_LIMIT_KIB: usize = 2 << 20;

#[tokio::test]
async fn serves_large_events_in_little_memory() {
    // An event as large as they may be, in many runs at once.
    let text = format!(
        "data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{}\"}}\n\n",
        "x".repeat(9 << 20)
    );
    let response = [HEAD, STARTED, OPENED, &text, &complete_run()[(STARTED.len() + OPENED.len())..]].concat();
    let agent = Agent::with_response(response);
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {MEMORY_LIMIT_KIB} && exec \"$0\" serve --config \"$1\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_diglot")]);
    let (process, data, _file) = start_listening(&mut command, "127.0.0.1:0", &agent).await;
    let mut runs = JoinSet::new();
    for _ in 0..16 {
        runs.spawn(async move { post_run(data, "/run").await });
    }
    for answer in within(Duration::from_secs(60), "the runs", runs.join_all()).await {
        assert_eq!((answer.status, answer.end), (200, End::Clean));
        let types = types(&events(answer.text())).join(" ");
        assert_eq!(
            types,
            "RUN_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED"
        );
    }
    // The process has not restarted: its parent would have noticed.
    process.signal("TERM");
    let mut process = process;
    assert_eq!(process.exit().await.code(), Some(0));
}
