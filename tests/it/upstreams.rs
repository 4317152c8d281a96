//! Agents as the gateway sees them: which one is asked, over which connection, and what happens when one fails. The agents
//! are hyper's server (`served`), or the scripted one where the wire itself matters.
//!
//! - `choice`: weights, fewest runs, connections that are used again, Unix sockets.
//! - `failing`: fail-over, ejection, health checks, what is sent twice and what is not.
//! - `http2`: many runs on one connection, cancelling, what an agent says that it has not processed.
//! - `tls`: whose certificates are believed, our own, and files that change.

mod certificates;
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

/// A client whose run has begun at an agent that holds it.
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
