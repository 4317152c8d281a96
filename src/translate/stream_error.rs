//! Errors that end a run's event stream early.

use super::budget::{self, BudgetLimit};
use super::list_budget;
use super::run_guard::StrictViolation;
use crate::codec::sse::SseError;
use crate::dialect::memory_limits;

/// A failure to read an agent's stream to its proper end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The input exceeds a framing limit.
    Framing(SseError),
    /// The stream ended without a terminal event.
    Truncated {
        /// the type of the last event that the agent's dialect has
        last_event_type: Option<&'static str>,
    },
    /// The stream ended, and the agent's dialect knows none of its events.
    UnknownDialect,
    /// The agent broke a rule on a strict route.
    Violation(Box<StrictViolation>),
    /// The agent called a forbidden tool with this name, which is truncated for error messages.
    ForbiddenTool(String),
    /// The run's output would exceed a limit.
    OverBudget(BudgetLimit),
    /// The gateway would have to remember too much of the run.
    TooMuchState(RunStateLimit),
}

/// The part of a run's state that exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStateLimit {
    /// Text and arguments that are sent when their message or call ends, and what the rules of a dialect file keep.
    PendingText {
        /// The exceeded limit in bytes.
        limit: usize,
    },
    /// Messages, calls, steps and subagents without an end.
    OpenItems,
    /// Elements of the lists of one event: messages, calls, parts, operations and interrupts.
    ListElements,
    /// One event for the client.
    WrittenEvent {
        /// The exceeded limit in bytes.
        limit: usize,
    },
    /// All events for the client, compared with those of the agent.
    Growth,
    /// Ids of messages, calls, steps and subagents, ended ones included.
    RetainedIds,
}

impl std::fmt::Display for RunStateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunStateLimit::PendingText { limit } => {
                write!(
                    f,
                    "what rules keep, and the messages and calls that wait for their end, are larger than {limit} bytes"
                )
            }
            RunStateLimit::OpenItems => {
                let limit = memory_limits::OPEN_ITEMS_LIMIT;
                write!(f, "more than {limit} messages, calls, steps and subagents are open at once")
            }
            RunStateLimit::ListElements => {
                let limit = list_budget::ELEMENTS_LIMIT;
                write!(
                    f,
                    "the lists of one event have more than {limit} messages, calls, parts and other elements, or become too long"
                )
            }
            RunStateLimit::WrittenEvent { limit } => {
                write!(f, "what an event becomes for the client is larger than {limit} bytes")
            }
            RunStateLimit::Growth => {
                let limit = budget::GROWTH_LIMIT;
                write!(
                    f,
                    "the events for the client are more than {limit} times as long, since they repeat a long id or text, which should be shorter"
                )
            }
            RunStateLimit::RetainedIds => {
                let limit = memory_limits::RETAINED_IDS_LIMIT;
                write!(f, "the ids of the run's messages, calls, steps and subagents need more than {limit} bytes")
            }
        }
    }
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Framing(error) => error.fmt(f),
            StreamError::Truncated { .. } => f.write_str("the stream ended without a terminal event"),
            StreamError::UnknownDialect => f.write_str("the dialect of the agent knows none of the events"),
            StreamError::Violation(violation) => violation.fmt(f),
            StreamError::ForbiddenTool(_) => f.write_str("the agent called a tool that is not allowed"),
            StreamError::TooMuchState(limit) => limit.fmt(f),
            StreamError::OverBudget(BudgetLimit::Events) => f.write_str("the run has reached its limit of events"),
            StreamError::OverBudget(BudgetLimit::Bytes) => f.write_str("the run has reached its limit of bytes"),
        }
    }
}

impl std::error::Error for StreamError {}
