//! Faults between a client and the gateway.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{End, INPUT, post, try_request};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run};
use super::super::support::{eventually, within_deadline};
use super::{assert_one_end, assert_recovered, body_end, connect_h2, metric_total, start_h2_run};
use http_body_util::BodyExt;
use std::time::Duration;

/// Between two cuts.
const STRIDE: usize = 7;

/// More than the gateway answers a plain run with, head and chunks included.
const ANSWER: usize = 900;

/// Waits that end within a test, and a drain that does not.
const TOP: &str = "drain_timeout: 10m\nlimits: {head_timeout: 500ms, body_timeout: 500ms, max_streams: 32}";

async fn start_behind_proxy() -> (Agent, FaultProxy, Gateway) {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: TOP, ..Setup::default() }).await;
    let proxy = FaultProxy::start(gateway.data).await;
    (agent, proxy, gateway)
}

fn run_request() -> String {
    post("/run", "Connection: close\r\n", INPUT)
}

#[tokio::test]
async fn leaves_no_run_after_a_truncated_client_connection() {
    let (agent, proxy, gateway) = start_behind_proxy().await;
    let (mut runs, mut whole) = (0, 0);
    for (direction, length) in [(Direction::Towards, run_request().len()), (Direction::Back, ANSWER)] {
        for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
            for at in (0..length).step_by(STRIDE) {
                proxy.set(direction, fault(at));
                let answer = try_request(proxy.address(), run_request()).await;
                runs += 1;
                if let Some(answer) = answer.filter(|answer| answer.status == 200 && answer.end == End::Clean) {
                    assert_eq!(assert_one_end(&answer), "", "{:?}", fault(at));
                    whole += 1;
                }
            }
        }
    }
    assert!(whole < runs / 2, "{whole} of {runs} were received whole");
    proxy.wait_until_idle().await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    // Each run that reached the agent is counted once.
    let counted = metric_total(&gateway, "diglot_streams_total").await;
    assert!(agent.connection_count() as f64 <= counted && counted <= f64::from(runs), "{counted} of {runs}");
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn leaves_no_run_after_a_truncated_h2_connection() {
    let (agent, proxy, gateway) = start_behind_proxy().await;
    let (mut runs, mut whole) = (0, 0);
    for fault in [Fault::Cut, Fault::Reset] {
        // The preface and the settings come first, each way.
        for at in (60..ANSWER + 100).step_by(2 * STRIDE) {
            proxy.set(Direction::Back, fault(at));
            let mut sender = connect_h2(proxy.address(), 1 << 16).await;
            runs += 1;
            if let Ok(response) = within_deadline("an answer", start_h2_run(&mut sender)).await {
                let body = within_deadline("an end", response.into_body().collect()).await;
                if body_end(&body) == End::Clean {
                    let body = body.expect("received").to_bytes();
                    assert!(String::from_utf8_lossy(&body).contains("RUN_FINISHED"), "{:?}", fault(at));
                    whole += 1;
                }
            }
        }
    }
    assert!(whole < runs, "nothing was cut");
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    let counted = metric_total(&gateway, "diglot_streams_total").await;
    assert!(agent.connection_count() as f64 <= counted && counted <= f64::from(runs), "{counted} of {runs}");
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn releases_runs_of_clients_that_stop_reading_or_sending() {
    let (_agent, proxy, gateway) = start_behind_proxy().await;
    for at in [0, 10, 100, run_request().len() - 1] {
        proxy.set(Direction::Towards, Fault::Stall(at));
        let answer = try_request(proxy.address(), run_request()).await;
        // A head that is late is not answered, and a body that is late is.
        assert!(answer.is_none_or(|answer| answer.status == 408), "at {at}");
    }
    // The gateway writes into the void, and waits for no client.
    for at in [0, 10, 300] {
        proxy.set(Direction::Back, Fault::Stall(at));
        let before = metric_total(&gateway, "diglot_streams_total").await;
        let client = tokio::spawn(try_request(proxy.address(), run_request()));
        eventually("a run that is counted", async || {
            (metric_total(&gateway, "diglot_streams_total").await > before).then_some(())
        })
        .await;
        gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
        client.abort();
    }
    assert_recovered(gateway).await;
}

#[tokio::test]
async fn serves_slow_and_fragmented_requests() {
    let (_agent, proxy, gateway) = start_behind_proxy().await;
    let short = Duration::from_millis(20);
    for direction in [Direction::Towards, Direction::Back] {
        for fault in [Fault::Delay(short), Fault::Jitter(short), Fault::Trickle] {
            proxy.set(direction, fault);
            let answer = try_request(proxy.address(), run_request()).await.expect("an answer");
            assert_succeeded(&answer, COMPLETE_RUN);
        }
    }
    for at in 1..run_request().len() {
        proxy.set(Direction::Towards, Fault::Split(at));
        let answer = try_request(proxy.address(), run_request()).await.expect("an answer");
        assert_succeeded(&answer, COMPLETE_RUN);
    }
    assert_recovered(gateway).await;
}
