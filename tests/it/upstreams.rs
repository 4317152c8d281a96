//! Agents behind a route: the choice of an endpoint, connections, and failures. The agents are hyper's server
//! (`test_agent`), or the scripted agent if the exact bytes matter.
//!
//! - `certificates`: an authority made by `openssl`, and its certificates.
//! - `early_answers`: responses before the whole request was read.
//! - `failover`: fail-over, ejection, health checks, and requests that are never sent twice.
//! - `http2`: many runs on one connection, cancellation, and requests that the agent has not processed.
//! - `load_balancing`: weights, fewest runs, reused connections, Unix sockets.
//! - `test_agent`: the agent on hyper's server.
//! - `tls`: trusted certificates, the gateway's own, and files that change.

mod certificates;
mod early_answers;
mod failover;
mod http2;
mod load_balancing;
mod test_agent;
mod tls;

use self::test_agent::TestAgent;
use super::support::client::{Client, INPUT, post};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{COMPLETE_RUN, RUN_BEGINNING, assert_succeeded};
use super::support::{client, eventually};

/// A gateway with one route, `/run`, to `upstream` (YAML) and with more keys of the route.
async fn start_gateway(upstream: &str, more: &str) -> Gateway {
    let routes =
        format!("routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: {upstream}{more}}}\n");
    Gateway::start(Setup { routes: &routes, ..Setup::default() }).await
}

/// One run, which has to be whole.
async fn assert_run(gateway: &Gateway) {
    assert_succeeded(&client::post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

/// Runs at the same time, each of which has to be whole.
async fn assert_concurrent_runs(gateway: &Gateway, count: usize) {
    futures_util::future::join_all((0..count).map(|_| assert_run(gateway))).await;
}

/// Returns a client whose run has begun and is kept open by the agent.
async fn open_held_run(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until(RUN_BEGINNING[2]).await;
    client
}

async fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(what, async || is().then_some(())).await;
}

fn requests_series(agent: &TestAgent, outcome: &str) -> String {
    format!(r#"diglot_upstream_requests_total{{outcome="{outcome}",upstream="{}"}}"#, agent.label())
}

fn up_series(agent: &TestAgent) -> String {
    format!(r#"diglot_upstream_up{{route="run",upstream="{}"}}"#, agent.label())
}
