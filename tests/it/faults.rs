//! What an agent can do wrong, and what its client hears of it: a problem document or one RUN_ERROR with the right code,
//! everything that was said before, and an end of the body that is no cut.
//!
//! - `answers`: no stream comes: connections that fail, statuses, content types, codings.
//! - `breaks`: a stream that comes and breaks, or is written in an odd way.
//! - `odd`: answers that are HTTP, more or less, and that few agents would give.
//! - `silence`: agents that take their time, for ever too.

mod answers;
mod broken_streams;
mod silent_agents;
mod unusual_responses;

use super::support::agent::{Agent, Step};
use super::support::client::{Answer, post_run};
use super::support::gateway::Gateway;

/// What a client hears when the agent reads the request and answers `response`.
async fn answer_to_response(response: impl AsRef<[u8]>) -> Answer {
    let agent = Agent::with_response(response);
    post_run(Gateway::start_for(&agent).await.data, "/run").await
}

/// What a client hears when the agent plays `steps`.
async fn answer_to_steps(steps: Vec<Step>) -> Answer {
    let agent = Agent::with_script(steps);
    post_run(Gateway::start_for(&agent).await.data, "/run").await
}
