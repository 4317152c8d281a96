//! Between the gateway and its agent.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, End, run};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{CHUNKED, LAST, WHOLE, begun, chunk, succeeded, whole};
use super::{TOP, one_end, total, unhurt};
use serde_json::Value;
use std::time::Duration;

/// Between two cuts. Every byte of a head and of a chunk is what another cut of another run comes to.
const STRIDE: usize = 5;

/// An agent that says a run in two chunks.
fn response() -> Vec<u8> {
    let (first, rest) = (begun(), whole().split_off(begun().len()));
    [CHUNKED.as_bytes(), &chunk(first), &chunk(rest), LAST.as_bytes()].concat()
}

async fn set_up(timeouts: &str) -> (Agent, FaultProxy, Gateway) {
    let agent = Agent::playing(vec![Step::Read, write(response()), Step::Again]);
    let proxy = FaultProxy::before(agent.address()).await;
    let upstreams = [format!("http://{}/", proxy.address())];
    let gateway = Gateway::start(Setup { upstreams: &upstreams, top: TOP, timeouts, ..Setup::default() }).await;
    (agent, proxy, gateway)
}

/// The code that a client heard: of a refusal, or of the end of its stream; empty where the run was heard whole.
#[track_caller]
fn code(answer: &Answer) -> String {
    // Whatever the agent's side does, the client's ends well.
    assert_eq!(answer.end, End::Clean, "{}", answer.text());
    if answer.status == 200 {
        return one_end(answer);
    }
    let problem: Value = serde_json::from_str(answer.text()).expect("a problem document");
    problem["code"].as_str().expect("a code").to_owned()
}

/// Runs that are counted once each, whatever became of them.
async fn counted(gateway: &Gateway, runs: usize) {
    assert_eq!(total(gateway, "diglot_streams_total").await, runs as f64);
    assert_eq!(total(gateway, "diglot_requests_total").await, runs as f64);
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_has_one_end() {
    let (_agent, proxy, gateway) = set_up("").await;
    // After the last chunk's own bytes nothing is missing but the end of the trailer section.
    let (length, said) = (response().len(), response().len() - LAST.len());
    let mut runs = 0;
    for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
        for at in (0..length).step_by(STRIDE) {
            proxy.set(Direction::Back, fault(at));
            let answer = run(gateway.data, "/run").await;
            runs += 1;
            let heard = code(&answer);
            let shown = format!("{:?}: {heard:?}, status {}", fault(at), answer.status);
            match (fault(at), heard.as_str()) {
                // Reset before we can look at it: as good as never accepted.
                (Fault::Reset(0), "upstream_unreachable") => {}
                (_, "") => assert!(at + LAST.len() > said, "{shown}"),
                (Fault::Cut(_) | Fault::HalfClose(_), "upstream_truncated") => assert!(at >= CHUNKED.len(), "{shown}"),
                (_, "upstream_reset") if answer.status == 502 => assert!(at < CHUNKED.len(), "{shown}"),
                // A reset that falls between two reads may look like an end to the second.
                (Fault::Reset(_), "upstream_reset" | "upstream_truncated") => assert!(at >= CHUNKED.len(), "{shown}"),
                _ => panic!("{shown}"),
            }
            // A connection that broke serves no other run.
            proxy.idle().await;
        }
    }
    counted(&gateway, runs).await;
    proxy.heal();
    unhurt(gateway).await;
}

#[tokio::test]
async fn a_request_that_is_cut_anywhere_is_refused_and_asked_once() {
    let (mut agent, proxy, gateway) = set_up("").await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    let request = agent.request().await;
    let length = request.head.len() + 4 + request.body.len();
    let mut runs = 1;
    for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
        for at in (0..length).step_by(STRIDE) {
            proxy.idle().await;
            proxy.set(Direction::Towards, fault(at));
            let before = proxy.accepted();
            let answer = run(gateway.data, "/run").await;
            runs += 1;
            let code = code(&answer);
            // Reset before we can look at it: as good as never accepted.
            let known = code == "upstream_reset" || at == 0 && code == "upstream_unreachable";
            assert!(known && answer.status == 502, "{:?}: {code}, status {}", fault(at), answer.status);
            // Whether the agent has begun is not known, so nobody else is asked.
            assert_eq!(proxy.accepted(), before + 1);
        }
    }
    counted(&gateway, runs).await;
    proxy.heal();
    unhurt(gateway).await;
}

#[tokio::test]
async fn an_agent_behind_a_hole_is_given_up() {
    let (_agent, proxy, gateway) = set_up("{first_byte: 300ms, idle: 300ms}").await;
    let mut runs = 0;
    // In the head, behind it, in the first chunk, between the chunks, and before the last.
    let begun = CHUNKED.len() + chunk(begun()).len();
    for at in [0, 20, CHUNKED.len(), begun - 9, begun, begun + 20] {
        proxy.set(Direction::Back, Fault::Stall(at));
        let answer = run(gateway.data, "/run").await;
        runs += 1;
        let expected = if at < CHUNKED.len() { "upstream_timeout" } else { "upstream_idle" };
        assert_eq!(code(&answer), expected, "at {at}");
        proxy.idle().await;
    }
    for at in [0, 20, 200] {
        proxy.set(Direction::Towards, Fault::Stall(at));
        let answer = run(gateway.data, "/run").await;
        runs += 1;
        assert_eq!((answer.status, code(&answer).as_str()), (504, "upstream_timeout"), "at {at}");
        proxy.idle().await;
    }
    counted(&gateway, runs).await;
    proxy.heal();
    unhurt(gateway).await;
}

#[tokio::test]
async fn what_is_only_slow_or_in_pieces_is_heard_whole() {
    let (_agent, proxy, gateway) = set_up("").await;
    let (short, length) = (Duration::from_millis(20), response().len());
    let slow = [Fault::Delay(short), Fault::Jitter(short), Fault::Trickle];
    let mut runs = 0;
    for direction in [Direction::Towards, Direction::Back] {
        for fault in slow.into_iter().chain((1..length).map(Fault::Split)) {
            // A kept connection has the fault that it was opened with.
            proxy.set(direction, fault);
            succeeded(&run(gateway.data, "/run").await, WHOLE);
            runs += 1;
        }
    }
    counted(&gateway, runs).await;
    unhurt(gateway).await;
}
