//! Faults between the gateway and its agent.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, End, post_run};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{
    CHUNKED, COMPLETE_RUN, LAST_CHUNK, assert_succeeded, chunk, complete_run, run_beginning,
};
use super::{TOP, assert_one_end, assert_recovered, metric_total};
use serde_json::Value;
use std::time::Duration;

/// Between two cuts. Every byte of a head and of a chunk is what another cut of another run comes to.
const STRIDE: usize = 5;

/// Returns the response of an agent that sends a run in two chunks.
fn agent_response() -> Vec<u8> {
    let (first, rest) = (run_beginning(), complete_run().split_off(run_beginning().len()));
    [CHUNKED.as_bytes(), &chunk(first), &chunk(rest), LAST_CHUNK.as_bytes()].concat()
}

async fn start_behind_proxy(timeouts: &str) -> (Agent, FaultProxy, Gateway) {
    let agent = Agent::with_script(vec![Step::Read, write(agent_response()), Step::Restart]);
    let proxy = FaultProxy::start(agent.address()).await;
    let upstreams = [format!("http://{}/", proxy.address())];
    let gateway = Gateway::start(Setup { upstreams: &upstreams, top: TOP, timeouts, ..Setup::default() }).await;
    (agent, proxy, gateway)
}

/// Returns the code of a refusal or of the end of a stream; empty for a complete run.
#[track_caller]
fn error_code(answer: &Answer) -> String {
    // For each fault of the agent's side, the client's body ends cleanly.
    assert_eq!(answer.end, End::Clean, "{}", answer.text());
    if answer.status == 200 {
        return assert_one_end(answer);
    }
    let problem: Value = serde_json::from_str(answer.text()).expect("a problem document");
    problem["code"].as_str().expect("a code").to_owned()
}

/// Runs that are counted once each, whatever became of them.
async fn assert_counted(gateway: &Gateway, runs: usize) {
    assert_eq!(metric_total(gateway, "diglot_streams_total").await, runs as f64);
    assert_eq!(metric_total(gateway, "diglot_requests_total").await, runs as f64);
}

#[tokio::test]
async fn ends_a_truncated_answer_exactly_once() {
    let (_agent, proxy, gateway) = start_behind_proxy("").await;
    // After the last chunk's own bytes nothing is missing but the end of the trailer section.
    let (length, last_event_end) = (agent_response().len(), agent_response().len() - LAST_CHUNK.len());
    let mut runs = 0;
    for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
        for at in (0..length).step_by(STRIDE) {
            proxy.set(Direction::Back, fault(at));
            let answer = post_run(gateway.data, "/run").await;
            runs += 1;
            let code = error_code(&answer);
            let shown = format!("{:?}: {code:?}, status {}", fault(at), answer.status);
            match (fault(at), code.as_str()) {
                // Reset before we can look at it: as good as never accepted.
                (Fault::Reset(0), "upstream_unreachable") => {}
                (_, "") => assert!(at + LAST_CHUNK.len() > last_event_end, "{shown}"),
                (Fault::Cut(_) | Fault::HalfClose(_), "upstream_truncated") => assert!(at >= CHUNKED.len(), "{shown}"),
                (_, "upstream_reset") if answer.status == 502 => assert!(at < CHUNKED.len(), "{shown}"),
                // A reset that falls between two reads may look like an end to the second.
                (Fault::Reset(_), "upstream_reset" | "upstream_truncated") => assert!(at >= CHUNKED.len(), "{shown}"),
                _ => panic!("{shown}"),
            }
            // A connection that broke serves no other run.
            proxy.wait_until_idle().await;
        }
    }
    assert_counted(&gateway, runs).await;
    proxy.clear_faults();
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn refuses_a_truncated_request_without_retrying() {
    let (mut agent, proxy, gateway) = start_behind_proxy("").await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    let request = agent.next_request().await;
    let length = request.head.len() + 4 + request.body.len();
    let mut runs = 1;
    for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
        for at in (0..length).step_by(STRIDE) {
            proxy.wait_until_idle().await;
            proxy.set(Direction::Towards, fault(at));
            let before = proxy.accepted();
            let answer = post_run(gateway.data, "/run").await;
            runs += 1;
            let code = error_code(&answer);
            // Reset before we can look at it: as good as never accepted.
            let known = code == "upstream_reset" || at == 0 && code == "upstream_unreachable";
            assert!(known && answer.status == 502, "{:?}: {code}, status {}", fault(at), answer.status);
            // The agent may have begun, so no other is called.
            assert_eq!(proxy.accepted(), before + 1);
        }
    }
    assert_counted(&gateway, runs).await;
    proxy.clear_faults();
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn times_out_an_agent_that_stops_sending() {
    let (_agent, proxy, gateway) = start_behind_proxy("{first_byte: 300ms, idle: 300ms}").await;
    let mut runs = 0;
    // In the head, after it, in the first chunk, between the chunks, and before the last.
    let begun = CHUNKED.len() + chunk(run_beginning()).len();
    for at in [0, 20, CHUNKED.len(), begun - 9, begun, begun + 20] {
        proxy.set(Direction::Back, Fault::Stall(at));
        let answer = post_run(gateway.data, "/run").await;
        runs += 1;
        let expected = if at < CHUNKED.len() { "upstream_timeout" } else { "upstream_idle" };
        assert_eq!(error_code(&answer), expected, "at {at}");
        proxy.wait_until_idle().await;
    }
    for at in [0, 20, 200] {
        proxy.set(Direction::Towards, Fault::Stall(at));
        let answer = post_run(gateway.data, "/run").await;
        runs += 1;
        assert_eq!((answer.status, error_code(&answer).as_str()), (504, "upstream_timeout"), "at {at}");
        proxy.wait_until_idle().await;
    }
    assert_counted(&gateway, runs).await;
    proxy.clear_faults();
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn delivers_slow_and_fragmented_answers_whole() {
    let (_agent, proxy, gateway) = start_behind_proxy("").await;
    let (short, length) = (Duration::from_millis(20), agent_response().len());
    let slow = [Fault::Delay(short), Fault::Jitter(short), Fault::Trickle];
    let mut runs = 0;
    for direction in [Direction::Towards, Direction::Back] {
        for fault in slow.into_iter().chain((1..length).map(Fault::Split)) {
            // A kept connection has the fault that it was opened with.
            proxy.set(direction, fault);
            assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
            runs += 1;
        }
    }
    assert_counted(&gateway, runs).await;
    assert_recovered(gateway).await;
}
