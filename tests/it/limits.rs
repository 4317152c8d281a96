//! How often callers may call and how much at once.
//!
//! - `rates`: quotas that the gateway counts by itself.
//! - `shared`: quotas of several gateways over one real Redis, which is killed, stopped and brought back.
//! - `streams`: runs that are open at once.

mod rates;
mod shared;
mod streams;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, INPUT, ask, post};
use super::support::gateway::{Gateway, Setup};
use super::support::sha256;
use super::support::sse::{HEAD, whole};
use serde_json::Value;

/// An agent that answers every request with a whole run.
fn prompt() -> Agent {
    Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &whole())])
}

/// A gateway with one route, `/run`, whose agent is this one.
async fn gateway(agent: &Agent, top: &str, route: &str) -> Gateway {
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", {route}}}\n",
        agent.url()
    );
    Gateway::start(Setup { top, routes: &routes, ..Setup::default() }).await
}

/// Asks for a run, with fields (each with its CRLF), and hears the whole answer.
async fn run(gateway: &Gateway, fields: &str) -> Answer {
    ask(gateway.data, post("/run", fields, INPUT)).await
}

/// How many of so many runs, one after the other, are let in. All others are refused for their number.
async fn admitted(gateway: &Gateway, fields: &str, runs: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..runs {
        admitted += counted(&run(gateway, fields).await);
    }
    admitted
}

/// 1 for a run that was let in, 0 for one that was refused for its number.
#[track_caller]
fn counted(answer: &Answer) -> usize {
    match answer.status {
        200 => 1,
        429 => 0,
        other => panic!("{other}: {}", answer.text()),
    }
}

/// Sends so many requests over 64 connections at once, in turn to each of these gateways. Gives how many were let in.
async fn storm(gateways: &[&Gateway], requests: usize) -> usize {
    let callers = (0..64).map(|caller| {
        let to = gateways[caller % gateways.len()].data;
        let mine = (caller..requests).step_by(64).count();
        tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..mine {
                admitted += counted(&ask(to, post("/run", "", INPUT)).await);
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

/// The names of limits that a problem document says were broken.
fn violated(problem: &Value) -> Vec<&str> {
    problem["violated-policies"].as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}
