//! Rate limits and limits on concurrent runs.
//!
//! - `all_bounds`: all bounds at once, in a process with little memory.
//! - `amplified`: requests and events that would grow when they are repaired.
//! - `grown_output`: a few bytes of which a translation makes many.
//! - `bodies`: the memory of request bodies.
//! - `rates`: quotas that one gateway counts.
//! - `shared`: quotas of several gateways in a real Redis, which is killed, stopped and restarted.
//! - `small_process`: several bounds at once, in a process with little memory.
//! - `small_process_http2`: the bounds of many requests, in such a process.
//! - `small_process_runs`: what many runs hold and keep together, in such a process.
//! - `streams`: concurrent runs.

mod all_bounds;
mod amplified;
mod bodies;
mod grown_output;
mod rates;
mod shared;
mod small_process;
mod small_process_http2;
mod small_process_runs;
mod streams;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sha256;
use super::support::sse::{HEAD, complete_run};
use serde_json::Value;

/// An agent that answers every request with a whole run.
fn start_agent() -> Agent {
    Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())])
}

/// Starts a gateway with one route, `/run`, to this agent.
async fn start_gateway(agent: &Agent, top: &str, route: &str) -> Gateway {
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", {route}}}\n",
        agent.url()
    );
    Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await
}

/// Starts a run with fields (each with its CRLF), and reads the whole response.
async fn post_run_with(gateway: &Gateway, fields: &str) -> Answer {
    send_request(gateway.data, post("/run", fields, INPUT)).await
}

/// Returns how many of so many consecutive runs are accepted. All others must be refused by a limit.
async fn count_admitted(gateway: &Gateway, fields: &str, runs: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..runs {
        admitted += is_admitted(&post_run_with(gateway, fields).await);
    }
    admitted
}

/// 1 for a run that was let in, 0 for one that was refused for its number.
#[track_caller]
fn is_admitted(answer: &Answer) -> usize {
    match answer.status {
        200 => 1,
        429 => 0,
        other => panic!("{other}: {}", answer.text()),
    }
}

/// Sends so many requests over 64 connections at once, in turn to each of these gateways. Gives how many were let in.
async fn send_concurrently(gateways: &[&Gateway], requests: usize) -> usize {
    let callers = (0..64).map(|caller| {
        let to = gateways[caller % gateways.len()].data;
        let mine = (caller..requests).step_by(64).count();
        tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..mine {
                admitted += is_admitted(&send_request(to, post("/run", "", INPUT)).await);
            }
            admitted
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.expect("a caller");
    }
    admitted
}

/// `auth` of a configuration with API keys: each is its owner's name; of some a tier.
fn api_keys(owners: &[(&str, Option<&str>)]) -> String {
    let key = |(owner, tier): &(&str, Option<&str>)| {
        let digest = sha256(owner);
        let tier = tier.map(|tier| format!(", tier: {tier}")).unwrap_or_default();
        format!("{{id: {owner}, sha256: {digest}{tier}}}")
    };
    let keys: Vec<_> = owners.iter().map(key).collect();
    format!("auth: {{api_keys: [{{name: keys, keys: [{}]}}]}}\n", keys.join(", "))
}

/// Returns the names of the exceeded limits in a problem document.
fn violated_policies(problem: &Value) -> Vec<&str> {
    problem["violated-policies"].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}
