//! `diglot tap` with less than all runs: those that it was too slow for, and the one that was chosen.

use super::super::support::agent::Agent;
use super::super::support::client::{INPUT, post, post_run, send_request};
use super::super::support::gateway::{Gateway, TempFile};
use super::super::support::sse::{FINISHED, HEAD, STARTED};
use super::super::support::temp_folder::TempFolder;
use super::{InspectSetup, Tap, start_agent};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Runs whose rows do not all fit into the sockets and pipes between the gateway and a tap.
const RUNS: u64 = 60;

/// Starts a gateway that keeps two runs, for an agent whose runs have 128 KiB.
async fn start_small(agent: &Agent) -> (InspectSetup, Gateway) {
    let run_dir = TempFolder::new();
    let text = format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\ndrain_grace: 0s\nrun_dir: {}\ninspect: {{runs: 2}}\n\
         routes:\n  - {{name: chat, path: /chat, client: ag-ui, agent: ag-ui, inspect: events, upstream: \"{}\"}}\n",
        run_dir.path().display(),
        agent.url()
    );
    let setup = InspectSetup { file: TempFile::new(&text), run_dir };
    let gateway = setup.start(&[]).await;
    (setup, gateway)
}

fn large_run() -> String {
    let delta = "x".repeat(128 << 10);
    let text = format!("data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"{delta}\"}}\n\n");
    HEAD.to_owned() + STARTED + &text + FINISHED
}

/// A run never waits for its readers, so a reader that stops loses runs, and learns how many.
#[tokio::test]
async fn tap_counts_the_runs_that_it_was_too_slow_for() {
    let agent = Agent::with_response(large_run());
    let (setup, mut gateway) = start_small(&agent).await;
    let mut tap = Tap::start(&setup, &mut gateway, &[]).await;
    tap.process.signal("STOP");
    for _ in 0..RUNS {
        post_run(gateway.data, "/chat").await;
    }
    tap.process.signal("CONT");
    // Each run has begun and ended, was cut, or is among those that were missed.
    let (mut begun, mut ended, mut cut, mut missed) = (BTreeSet::new(), 0, 0, 0);
    while ended + cut + missed < RUNS {
        let line = tap.next().await;
        if let Some(runs) = line["missed_runs"].as_u64() {
            missed += runs;
        } else if line["gone"] == true {
            assert!(line["last_row"].is_u64() && begun.contains(&line["id"].as_u64()), "{line}");
            cut += 1;
        } else if line["run"].is_object() && !begun.insert(line["run"]["id"].as_u64()) {
            ended += 1;
        }
    }
    assert!(missed > 0, "the sockets hold {RUNS} runs");
    assert_eq!(gateway.metric("diglot_inspect_missed_runs_total").await, (missed + cut) as f64);
    assert_eq!(tap.interrupt().await, "");
}

#[tokio::test]
async fn tap_prints_how_many_runs_it_missed() {
    let agent = Agent::with_response(large_run());
    let (setup, mut gateway) = start_small(&agent).await;
    let mut tap = Tap::start(&setup, &mut gateway, &["--format", "text"]).await;
    tap.process.signal("STOP");
    // The lines of text are short, and what the gateway sends is not.
    for _ in 0..RUNS {
        post_run(gateway.data, "/chat").await;
    }
    tap.process.signal("CONT");
    loop {
        let line = tap.process.line().await.expect("a line of the tap");
        if line.starts_with("-    missed ") {
            let cause = "the gateway evicted what tap had not read yet; read faster, or raise `inspect.bytes` or `inspect.runs`";
            assert!(line.ends_with(cause), "{line}");
            break;
        }
    }
}

#[tokio::test]
async fn tap_shows_the_run_that_is_chosen() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let mut gateway = setup.start(&[]).await;
    for run in ["r1", "r2", "7"] {
        let body = INPUT.replace("\"r1\"", &json!(run).to_string());
        send_request(gateway.data, post("/chat", "Connection: close\r\n", &body)).await;
    }
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="chat"}"#, 3.0).await;
    let ids = |arguments: &[&str]| -> BTreeSet<u64> {
        let text = setup.text(&[&["tap", "--kept"], arguments].concat());
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter_map(|line| line["run"]["id"].as_u64()).collect()
    };
    for (id, expected) in [("r2", 2), ("#2", 2), ("2", 2), ("7", 3)] {
        assert_eq!(ids(&["--run", id]), BTreeSet::from([expected]), "{id}");
    }
    let unknown = setup.run(&["tap", "--kept", "--run", "r9"]);
    let errors = String::from_utf8(unknown.stderr).expect("UTF-8");
    assert_eq!(unknown.status.code(), Some(1), "{errors}");
    assert!(errors.contains("no kept run is `r9`; the latest are #3 7, #2 r2, #1 r1"), "{errors}");

    // A run that is kept already is shown without --kept, too, and others are not.
    let mut tap = Tap::start(&setup, &mut gateway, &["--route", "c*", "--run", "r2"]).await;
    assert_eq!(tap.next_run().await.1["id"], 2);
    // Nothing of it can follow.
    assert_eq!(tap.process.exit().await.code(), Some(0));
    let tap = Tap::start(&setup, &mut gateway, &["--route", "ch*", "--run", "r9"]).await;
    let errors = tap.interrupt().await;
    assert!(errors.contains("no kept run is `r9`; waiting for it; the latest are #3 7"), "{errors}");
}

/// The first run of the next process has the number of this one's.
#[tokio::test]
async fn a_tap_of_a_number_takes_no_run_of_another_process() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let mut gateway = setup.start(&[]).await;
    let mut tap = Tap::start(&setup, &mut gateway, &["--run", "#1"]).await;
    gateway.terminate().await;
    let gateway = setup.start(&[]).await;
    post_run(gateway.data, "/chat").await;
    assert_eq!(tap.process.exit().await.code(), Some(1));
    let errors = std::fs::read_to_string(tap.errors.path()).expect("a file");
    assert!(errors.contains("the gateway of this run has ended, and another one begins its numbers again"), "{errors}");
}

/// Types are compared as on the page: without case, and one of several is enough.
#[tokio::test]
async fn tap_selects_rows_by_several_types() {
    let agent = start_agent();
    let setup = InspectSetup::new(&agent, ", inspect: events");
    let gateway = setup.start(&[]).await;
    post_run(gateway.data, "/chat").await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="chat"}"#, 1.0).await;
    let text = setup.text(&["tap", "--kept", "--type", "business_*_end,text_message_content"]);
    assert_eq!(text.lines().filter(|line| line.contains("\"row\"")).count(), 2, "{text}");
}

/// A number that the gateway has given is not waited for: the run does not come back.
#[tokio::test]
async fn tap_of_an_evicted_run_names_the_bound() {
    let agent = Agent::with_response(large_run());
    let (setup, gateway) = start_small(&agent).await;
    for _ in 0..3 {
        post_run(gateway.data, "/chat").await;
    }
    for arguments in [&["tap", "--run", "#1"][..], &["tap", "--run", "1", "--kept"]] {
        let output = setup.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("run #1 is not kept any more: it was evicted because of `inspect.runs`"), "{error}");
    }
    let error = String::from_utf8_lossy(&setup.run(&["tap", "--run", "9", "--kept"]).stderr).into_owned();
    assert!(error.contains("no kept run is `9`; the latest are #3 "), "{error}");
}
