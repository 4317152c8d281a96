//! Faults between the gateway and its Redis, which counts a quota here.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::post_run;
use super::super::support::fault_proxy::{Direction, Fault, FaultProxy};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::redis::Redis;
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run};
use super::{assert_recovered, metric_total};
use std::time::{Duration, Instant};

/// Maximum duration of one request, whatever Redis does: 1 s [failures.md, row 64], plus the delay of a busy machine.
const LONGEST: Duration = Duration::from_secs(3);

/// Requests per fault: enough that some come while the gateway takes Redis for there, and some while not.
const REQUESTS: usize = 5;

/// Starts a gateway whose quota, larger than a test needs, is counted in the Redis behind the proxy.
async fn start_gateway(proxy: &FaultProxy, agent: &Agent) -> Gateway {
    let top = format!(
        "drain_timeout: 10m\nredis: {{url: \"redis://{}\"}}\nrate_limits: [{{name: many, key: address, requests: 100000, per: 1m, shared: true}}]",
        proxy.address()
    );
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", rate_limits: [many]}}\n",
        agent.url()
    );
    Gateway::start(Setup { top: &top, routes: &routes, unready: true, ..Setup::default() }).await
}

#[tokio::test]
async fn serves_every_request_while_redis_connections_fail() {
    let redis = Redis::start().await;
    let proxy = FaultProxy::start(([127, 0, 0, 1], redis.port()).into()).await;
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let short = Duration::from_millis(5);
    let mut faults = vec![
        (Direction::Back, Fault::Trickle),
        (Direction::Towards, Fault::Trickle),
        (Direction::Back, Fault::Delay(short)),
        (Direction::Back, Fault::Jitter(short)),
        (Direction::Towards, Fault::HalfClose(0)),
        (Direction::Back, Fault::HalfClose(0)),
    ];
    // Inside the handshake of the connection, inside the first responses, and later.
    for at in [0, 1, 7, 40, 150, 400] {
        for direction in [Direction::Towards, Direction::Back] {
            faults.extend([Fault::Cut(at), Fault::Reset(at), Fault::Stall(at)].map(|fault| (direction, fault)));
        }
    }
    let mut slowest = Duration::ZERO;
    for chunk in faults.chunks(9) {
        // One gateway for several faults: it has to come back from each.
        proxy.clear_faults();
        let mut gateway = start_gateway(&proxy, &agent).await;
        gateway.next_log("redis answers").await;
        let mut runs = 0;
        for (direction, fault) in chunk {
            proxy.set(*direction, *fault);
            proxy.disconnect_all();
            for _ in 0..REQUESTS {
                let requested_at = Instant::now();
                assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
                slowest = slowest.max(requested_at.elapsed());
                runs += 1;
            }
        }
        proxy.clear_faults();
        proxy.disconnect_all();
        let decided = async |decision: &str| {
            gateway.metric(&format!("diglot_ratelimit_total{{decision=\"{decision}\",policy=\"many\"}}")).await
        };
        // Counted by Redis again, which may take an attempt or two.
        super::super::support::eventually("a quota that is shared again", async || {
            let before = decided("allowed").await;
            assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
            runs += 1;
            (decided("allowed").await > before).then_some(())
        })
        .await;
        assert_eq!(decided("allowed").await + decided("local").await, f64::from(runs));
        assert_eq!(metric_total(&gateway, "diglot_streams_total").await, f64::from(runs));
        assert_recovered(gateway).await;
    }
    assert!(slowest < LONGEST, "a request took {slowest:?}");
}
