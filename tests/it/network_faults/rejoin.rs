//! Faults between the gateway and a client that comes back: it receives all missed events, once.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, End, INPUT, post, send_request, try_request};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{HEAD, complete_run};
use super::metric_total;

/// Between two cuts.
const STRIDE: usize = 3;

/// More than the gateway answers a plain run with, ids, head and chunks included.
const ANSWER: usize = 1100;

/// The frames of a body that are whole.
fn complete_frames(answer: &Answer) -> Vec<String> {
    let text = String::from_utf8_lossy(&answer.body);
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
    whole.split_inclusive("\n\n").map(str::to_owned).collect()
}

fn frame_id(frame: &str) -> Option<&str> {
    frame.lines().find_map(|line| line.strip_prefix("id: "))
}

/// The frames without what differs from run to run, the token and the run's id, and without the agent's own id for it.
fn normalize_frames(frames: &[String], run: &str) -> Vec<String> {
    let alike = |frame: &String| {
        let token = frame_id(frame).and_then(|id| id.rsplit_once('-')).map_or("", |(token, _)| token);
        let frame = frame.replace(&format!("id: {token}-"), "id: token-");
        frame.replace(r#","metadata":{"diglot":{"runId":"r1"}}"#, "").replace(run, "r1")
    };
    frames.iter().map(alike).collect()
}

#[tokio::test]
async fn resumes_after_the_connection_breaks_at_any_byte() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let routes = format!(
        "routes: [{{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", on_disconnect: continue for 10m}}]",
        agent.url()
    );
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let proxy = FaultProxy::start(gateway.data).await;
    let request = |run: &str, more: &str| {
        post("/run", &format!("Connection: close\r\n{more}"), &INPUT.replace("\"r1\"", &format!("\"{run}\"")))
    };
    let mut runs = 0;
    let (mut with_cursor, mut without) = (0, 0);
    for fault in [Fault::Cut, Fault::Reset] {
        for at in (0..ANSWER).step_by(STRIDE) {
            let run = format!("r{runs}-1");
            runs += 1;
            proxy.set(Direction::Back, fault(at));
            let first = try_request(proxy.address(), request(&run, "")).await;
            let is_whole = first.as_ref().is_some_and(|answer| answer.end == End::Clean);
            let mut received = first.as_ref().map(complete_frames).unwrap_or_default();
            if !is_whole {
                let behind = received.iter().rev().find_map(|frame| frame_id(frame));
                let field = behind.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
                let rest = send_request(gateway.data, request(&run, &field)).await;
                assert_eq!((rest.status, rest.end), (200, End::Clean), "{:?}: {}", fault(at), rest.text());
                if behind.is_none() {
                    // A client that has received nothing gets the current state of the run.
                    without += 1;
                    let text = rest.text();
                    assert!(text.contains("RUN_STARTED") && text.contains("你好"), "{:?}: {text}", fault(at));
                    assert_eq!(text.matches("RUN_FINISHED").count(), 1, "{:?}: {text}", fault(at));
                    continue;
                }
                with_cursor += 1;
                received.extend(complete_frames(&rest));
            }
            let frames = complete_run();
            let numbered = |(at, frame)| format!("id: token-{}\n{frame}", at + 1);
            let expected: Vec<_> = frames.split_inclusive("\n\n").enumerate().map(numbered).collect();
            assert_eq!(normalize_frames(&received, &run), expected, "{:?}", fault(at));
        }
    }
    assert!(with_cursor > 50 && without > 50, "{with_cursor} came back with a cursor, {without} without");
    // The agent got each run once, however many clients came back.
    assert_eq!((agent.connection_count(), metric_total(&gateway, "diglot_streams_total").await), (runs, runs as f64));
}
