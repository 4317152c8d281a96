//! Why a run's event stream ends early.

use super::budget::BudgetLimit;
use crate::codec::sse::SseError;

/// Why the stream of an agent cannot be read to a good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The bytes are beyond a limit of the framing.
    Framing(SseError),
    /// The stream ended without a terminal event.
    Truncated,
    /// The agent broke a rule, and the route is strict; [`Stream::offence`] says which.
    Violation,
    /// The agent called a tool that is not allowed; [`Stream::stranger`] says which.
    ForbiddenTool,
    /// The run would get larger for its client than it may.
    OverBudget(BudgetLimit),
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Framing(error) => error.fmt(f),
            StreamError::Truncated => f.write_str("the stream ended without a terminal event"),
            StreamError::Violation => f.write_str("the agent broke a rule of the protocol"),
            StreamError::ForbiddenTool => f.write_str("the agent called a tool that is not allowed"),
            StreamError::OverBudget(BudgetLimit::Events) => f.write_str("the run has as many events as it may have"),
            StreamError::OverBudget(BudgetLimit::Bytes) => f.write_str("the run has as many bytes as it may have"),
        }
    }
}

impl std::error::Error for StreamError {}
