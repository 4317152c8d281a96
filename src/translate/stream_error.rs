//! Errors that end a run's event stream early.

use super::budget::BudgetLimit;
use crate::codec::sse::SseError;

/// A failure to read an agent's stream to its proper end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The input exceeds a framing limit.
    Framing(SseError),
    /// The stream ended without a terminal event.
    Truncated,
    /// The agent broke a rule on a strict route; [`Stream::violation`](super::Stream::violation) returns it.
    Violation,
    /// The agent called a forbidden tool; [`Stream::forbidden_tool`](super::Stream::forbidden_tool) returns its name.
    ForbiddenTool,
    /// The run's output would exceed a limit.
    OverBudget(BudgetLimit),
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Framing(error) => error.fmt(f),
            StreamError::Truncated => f.write_str("the stream ended without a terminal event"),
            StreamError::Violation => f.write_str("the agent broke a rule of the protocol"),
            StreamError::ForbiddenTool => f.write_str("the agent called a tool that is not allowed"),
            StreamError::OverBudget(BudgetLimit::Events) => f.write_str("the run has reached its limit of events"),
            StreamError::OverBudget(BudgetLimit::Bytes) => f.write_str("the run has reached its limit of bytes"),
        }
    }
}

impl std::error::Error for StreamError {}
