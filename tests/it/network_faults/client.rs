//! Between a client and the gateway.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{End, INPUT, attempt, post};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{HEAD, WHOLE, succeeded, whole};
use super::super::support::{eventually, soon};
use super::{ended, h2, one_end, start, total, unhurt};
use http_body_util::BodyExt;
use std::time::Duration;

/// Between two cuts.
const STRIDE: usize = 7;

/// More than the gateway answers a plain run with, head and chunks included.
const ANSWER: usize = 900;

/// Waits that end within a test, and a drain that does not.
const TOP: &str = "drain_timeout: 10m\nlimits: {head_timeout: 500ms, body_timeout: 500ms, max_streams: 32}";

async fn set_up() -> (Agent, FaultProxy, Gateway) {
    let agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &whole())]);
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: TOP, ..Setup::default() }).await;
    let proxy = FaultProxy::before(gateway.data).await;
    (agent, proxy, gateway)
}

fn request() -> String {
    post("/run", "Connection: close\r\n", INPUT)
}

#[tokio::test]
async fn a_connection_that_is_cut_anywhere_is_no_whole_run_and_leaves_none() {
    let (agent, proxy, gateway) = set_up().await;
    let (mut runs, mut whole) = (0, 0);
    for (direction, length) in [(Direction::Towards, request().len()), (Direction::Back, ANSWER)] {
        for fault in [Fault::Cut, Fault::Reset, Fault::HalfClose] {
            for at in (0..length).step_by(STRIDE) {
                proxy.set(direction, fault(at));
                let answer = attempt(proxy.address(), request()).await;
                runs += 1;
                if let Some(answer) = answer.filter(|answer| answer.status == 200 && answer.end == End::Clean) {
                    assert_eq!(one_end(&answer), "", "{:?}", fault(at));
                    whole += 1;
                }
            }
        }
    }
    assert!(whole < runs / 2, "{whole} of {runs} were heard whole");
    proxy.idle().await;
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    // What reached the agent was a run, and each is counted once.
    let counted = total(&gateway, "diglot_streams_total").await;
    assert!(agent.connections() as f64 <= counted && counted <= f64::from(runs), "{counted} of {runs}");
    unhurt(gateway).await;
}

#[tokio::test]
async fn the_same_over_http2() {
    let (agent, proxy, gateway) = set_up().await;
    let (mut runs, mut whole) = (0, 0);
    for fault in [Fault::Cut, Fault::Reset] {
        // The preface and the settings come first, each way.
        for at in (60..ANSWER + 100).step_by(2 * STRIDE) {
            proxy.set(Direction::Back, fault(at));
            let mut sender = h2(proxy.address(), 1 << 16).await;
            runs += 1;
            if let Ok(response) = soon("an answer", start(&mut sender)).await {
                let body = soon("an end", response.into_body().collect()).await;
                if ended(&body) == End::Clean {
                    let body = body.expect("heard").to_bytes();
                    assert!(String::from_utf8_lossy(&body).contains("RUN_FINISHED"), "{:?}", fault(at));
                    whole += 1;
                }
            }
        }
    }
    assert!(whole < runs, "nothing was cut");
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    let counted = total(&gateway, "diglot_streams_total").await;
    assert!(agent.connections() as f64 <= counted && counted <= f64::from(runs), "{counted} of {runs}");
    unhurt(gateway).await;
}

#[tokio::test]
async fn a_client_behind_a_hole_holds_nothing() {
    let (_agent, proxy, gateway) = set_up().await;
    for at in [0, 10, 100, request().len() - 1] {
        proxy.set(Direction::Towards, Fault::Stall(at));
        let answer = attempt(proxy.address(), request()).await;
        // A head that is late is not answered, and a body that is late is.
        assert!(answer.is_none_or(|answer| answer.status == 408), "at {at}");
    }
    // The gateway says everything into the hole, and waits for nobody.
    for at in [0, 10, 300] {
        proxy.set(Direction::Back, Fault::Stall(at));
        let before = total(&gateway, "diglot_streams_total").await;
        let client = tokio::spawn(attempt(proxy.address(), request()));
        eventually("a run that is counted", async || {
            (total(&gateway, "diglot_streams_total").await > before).then_some(())
        })
        .await;
        gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
        client.abort();
    }
    unhurt(gateway).await;
}

#[tokio::test]
async fn what_is_only_slow_or_in_pieces_is_served() {
    let (_agent, proxy, gateway) = set_up().await;
    let short = Duration::from_millis(20);
    for direction in [Direction::Towards, Direction::Back] {
        for fault in [Fault::Delay(short), Fault::Jitter(short), Fault::Trickle] {
            proxy.set(direction, fault);
            let answer = attempt(proxy.address(), request()).await.expect("an answer");
            succeeded(&answer, WHOLE);
        }
    }
    for at in 1..request().len() {
        proxy.set(Direction::Towards, Fault::Split(at));
        let answer = attempt(proxy.address(), request()).await.expect("an answer");
        succeeded(&answer, WHOLE);
    }
    unhurt(gateway).await;
}
