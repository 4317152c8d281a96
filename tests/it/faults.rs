//! Agents that fail. The client receives a problem document or one RUN_ERROR with the right code, all events before the
//! failure, and a clean end of the body.
//!
//! - `answers`: no stream: failed connections, statuses, content types, codings.
//! - `broken_streams`: streams that break, and valid streams in unusual forms.
//! - `silent_agents`: agents that are slow or never send.
//! - `unusual_responses`: valid or nearly valid HTTP that few agents send.

mod answers;
mod broken_streams;
mod silent_agents;
mod unusual_responses;

use super::support::agent::{Agent, Step};
use super::support::client::{Answer, post_run};
use super::support::gateway::Gateway;

/// Returns the client's response when the agent reads the request and answers `response`.
async fn answer_to_response(response: impl AsRef<[u8]>) -> Answer {
    let agent = Agent::with_response(response);
    post_run(Gateway::start_for(&agent).await.data, "/run").await
}

/// Returns the client's response when the agent follows `steps`.
async fn answer_to_steps(steps: Vec<Step>) -> Answer {
    let agent = Agent::with_script(steps);
    post_run(Gateway::start_for(&agent).await.data, "/run").await
}
