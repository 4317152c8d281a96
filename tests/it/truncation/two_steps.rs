//! Two-step agents that stop and resume: the client notices nothing.

use super::super::support::client::{INPUT, post, send_request};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::{assert_failed, assert_succeeded};
use super::super::two_steps::{EXPECTED_EVENTS, frames};
use super::agent::{AgentAction, AgentScripts, CutKind, start_agent};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

/// The answer to the first step.
const FIRST_STEP_ANSWER: &str = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 30\r\n\r\n{\"threadId\":\"T9\",\"runId\":\"R9\"}";

/// Concurrent clients. Most of the time each waits until the agent is called again.
const CLIENTS: usize = 24;

/// The ways that two steps make something else of than one. Resets are in `two_steps`.
const CUTS: [CutKind; 3] = [CutKind::LastChunk, CutKind::NoLastChunk, CutKind::InsideChunk];

/// The second step is cut behind every byte. Behind the first event the third brings the rest, and nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumes_a_second_step_cut_at_any_byte() {
    let orders = Arc::<AgentScripts>::default();
    let upstream = start_agent(&orders).await;
    let routes = format!(
        "routes: [{{name: run, path: /run, client: ag-ui, agent: social-app, upstream: [{upstream}], events: \"/events/{{thread_id}}\"}}]"
    );
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let all = frames("R9");
    let (first, length) = (all[0].len(), all.concat().len());
    let trials: Vec<_> = (0..length).map(|at| (at, CUTS[at % CUTS.len()])).collect();
    let trials = Arc::new(Mutex::new(trials));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (orders, trials, all, data) = (Arc::clone(&orders), Arc::clone(&trials), all.clone(), gateway.data);
        clients.spawn(async move {
            while let Some((at, way)) = { trials.lock().expect("whole").pop() } {
                let id = format!("{at}-{way:?}");
                let second = AgentAction::Send(way.response(&all.concat().as_bytes()[..at]));
                orders.add(
                    &id,
                    [AgentAction::Send(FIRST_STEP_ANSWER.into()), second, AgentAction::ResumeAfter(all.clone())],
                );
                let request = post("/run", &format!("X-Request-Id: {id}\r\nConnection: close\r\n"), INPUT);
                let answer = send_request(data, request).await;
                if at < first {
                    // Without an id there is nothing to go on from. A last event may lack its blank line.
                    let expected = if answer.text().contains("RUN_STARTED") { &EXPECTED_EVENTS[..1] } else { &[] };
                    assert_failed(&answer, "upstream_truncated", expected);
                    assert!(expected.is_empty() || way == CutKind::LastChunk && at + 2 >= first, "{id}");
                } else {
                    assert_succeeded(&answer, EXPECTED_EVENTS);
                }
            }
        });
    }
    clients.join_all().await;
    let finished = gateway.metric(r#"diglot_streams_total{outcome="finished",route="run"}"#).await;
    let failed = gateway.metric(r#"diglot_streams_total{outcome="upstream_error",route="run"}"#).await;
    assert_eq!((finished, failed), ((length - first) as f64, first as f64));
}
