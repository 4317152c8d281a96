//! Faults on both sides of the gateway at once: many clients and agents, in random order.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{End, INPUT, post, try_request};
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{CHUNKED, LAST_CHUNK, chunk, complete_run, run_beginning};
use super::super::support::{eventually, within};
use super::{assert_one_end, assert_recovered, metric_total};
use std::time::Duration;
use tokio::task::JoinSet;

/// Clients at once, and runs of each.
const CLIENTS: usize = 24;
const RUNS: usize = 30;

/// Maximum growth of the gateway after the test: nothing is kept of a run, but buffers of a library may be.
const GROWTH: usize = 8 << 20;

/// Faults of one side. The numbers of the two sides have no common factor with each other, so every pair is met.
fn make_faults(count: usize, length: usize) -> Vec<(Direction, Fault)> {
    let directions = [Direction::Towards, Direction::Back];
    let fault = |turn: usize| {
        let at = turn * 37 % length;
        let short = Duration::from_millis(3);
        let fault = match turn % 8 {
            0 => Fault::Cut(at),
            1 => Fault::Reset(at),
            2 => Fault::HalfClose(at),
            3 => Fault::Stall(at),
            4 => Fault::Split(at),
            5 => Fault::Jitter(short),
            6 => Fault::Trickle,
            _ => Fault::None,
        };
        (directions[turn / 8 % 2], fault)
    };
    (0..count).map(fault).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaks_no_run_when_both_sides_fail() {
    let (first, rest) = (run_beginning(), complete_run().split_off(run_beginning().len()));
    let response = [CHUNKED.as_bytes(), &chunk(first), &chunk(rest), LAST_CHUNK.as_bytes()].concat();
    let length = response.len();
    let agent = Agent::with_script(vec![Step::Read, write(response), Step::Restart]);
    let behind = FaultProxy::start(agent.address()).await;
    let upstreams = [format!("http://{}/", behind.address())];
    let top = "drain_timeout: 10m\nlimits: {head_timeout: 1s, body_timeout: 1s, max_streams: 64}";
    let timeouts = "{first_byte: 300ms, idle: 300ms}";
    let setup = Setup { upstreams: &upstreams, top, timeouts, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let front = FaultProxy::start(gateway.data).await;
    behind.set_sequence(make_faults(61, length));
    front.set_sequence(make_faults(47, length + 300));

    let round = async || {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let to = front.address();
            clients.spawn(async move {
                let mut outcomes = Vec::new();
                for _ in 0..RUNS {
                    let request = post("/run", "Connection: close\r\n", INPUT);
                    // A client behind a hole gives up by itself.
                    let answer = tokio::time::timeout(Duration::from_secs(2), try_request(to, request)).await;
                    let answer = answer.ok().flatten();
                    if let Some(answer) = answer.filter(|answer| answer.end == End::Clean) {
                        outcomes.push(match answer.status {
                            200 => assert_one_end(&answer),
                            status => status.to_string(),
                        });
                    }
                }
                outcomes
            });
        }
        let outcomes = within(Duration::from_secs(120), "the clients", clients.join_all()).await.concat();
        // Requests whose client gave up may still be on their way, a byte at a time.
        front.wait_until_idle().await;
        gateway.wait_for_metric(r#"diglot_connections_active{listener="127.0.0.1:0",plane="data"}"#, 0.0).await;
        gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
        outcomes
    };
    let mut outcomes = round().await;
    let before = gateway.process.resident_memory();
    outcomes.extend(round().await);
    // Freed memory is returned a little later.
    eventually("the second half keeps no memory", async || {
        (gateway.process.resident_memory() < before + GROWTH).then_some(())
    })
    .await;

    // All events were received, and nothing else.
    outcomes.sort();
    outcomes.dedup();
    // Which faults meet depends on the time that each takes.
    assert!(outcomes.len() >= 4 && outcomes[0].is_empty(), "{outcomes:?}");
    let known = ["", "408", "502", "504", "upstream_truncated", "upstream_idle", "upstream_reset"];
    assert!(outcomes.iter().all(|one| known.contains(&one.as_str())), "{outcomes:?}");

    // Every run is counted once; an incomplete request is no run.
    let runs = metric_total(&gateway, "diglot_streams_total").await;
    assert!(runs > (CLIENTS * RUNS) as f64 && runs <= (2 * CLIENTS * RUNS) as f64, "{runs}");
    behind.clear_faults();
    behind.disconnect_all();
    eventually("the end of what was severed", async || {
        (metric_total(&gateway, "diglot_streams_total").await == runs).then_some(())
    })
    .await;
    assert_recovered(gateway).await;
}
