//! The reasons why a run ends, and their effects on the client, log and metrics.

use super::deadlines::DeadlineKind;
use super::run_context::RunContext;
use super::run_memory::RunMemoryFull;
use super::upstream::Session;
use crate::config::load;
use crate::dialect;
use crate::error::{Rejection, RejectionKind};
use crate::event::run::RunEnding;
use crate::replay::LogStopReason;
use crate::telemetry::label::RunOutcome;
use crate::translate::foreign_stream::ForeignStream;
use crate::translate::{BudgetLimit, Stream, StreamError};

pub(super) enum RunInterrupt {
    Stopped(LogStopReason),
    Cut,
    DeadlineExpired(DeadlineKind),
}

pub(super) enum RunEndReason {
    /// the client has received the agent's terminal event
    AgentEnded(RunEnding),
    Failed(Rejection),
    Limited(Rejection),
    Expired,
    ClientGone,
    /// no client requested the events in time
    Unread,
    /// stopped by its caller
    Stopped,
    Drained,
}

/// The reason why reading from a session ends.
pub(super) enum ReadEnd {
    /// the agent's terminal event was read, perhaps before the end of the body
    Terminal(RunEnding),
    BodyEnded,
    /// the body broke, or the run must end
    Interrupted(RunEndReason),
}

impl From<RunMemoryFull> for RunEndReason {
    fn from(_: RunMemoryFull) -> RunEndReason {
        RunEndReason::Limited(RejectionKind::RunMemoryFull.into())
    }
}

impl From<LogStopReason> for RunEndReason {
    fn from(reason: LogStopReason) -> RunEndReason {
        match reason {
            LogStopReason::Abandoned => RunEndReason::ClientGone,
            LogStopReason::Stopped => RunEndReason::Stopped,
        }
    }
}

/// The result of attempts to reach the agent again.
pub(super) enum ReconnectOutcome {
    Resumed(Box<Session>),
    /// the last failure, if a request was sent
    Exhausted(Option<Rejection>),
    Interrupted(RunEndReason),
}

impl RunEndReason {
    pub(super) fn from_deadline(kind: DeadlineKind, context: &RunContext) -> RunEndReason {
        match kind {
            DeadlineKind::AgentIdle => {
                let limit = context.cluster.settings.timeouts.idle;
                RunEndReason::Failed(
                    Rejection::from(RejectionKind::UpstreamIdle).with_detail(format!(
                        "The agent sent nothing within {limit:?} (`timeouts.idle` of the route)."
                    )),
                )
            }
            DeadlineKind::PingsOnly => {
                let limit = context.cluster.settings.timeouts.ping_only_limit();
                RunEndReason::Failed(Rejection::from(RejectionKind::UpstreamIdle).with_detail(format!(
                    "The agent sent no event within {limit:?}, only comments or parts of one (`timeouts.ping_only` of the route)."
                )))
            }
            DeadlineKind::FirstEvent => {
                let settings = &context.cluster.settings;
                let limit = settings.timeouts.first_event_limit(settings.events.is_some());
                RunEndReason::Failed(Rejection::from(RejectionKind::UpstreamTimeout).with_detail(format!(
                    "The agent sent no event within {limit:?} (`timeouts.first_event` of the route)."
                )))
            }
            DeadlineKind::Credential => RunEndReason::Expired,
            DeadlineKind::RunDuration => {
                let limit = context.access.run.duration.unwrap_or_default();
                limit_reached(format!("The run took longer than {limit:?} (`run_limits.duration` of the route)."))
            }
        }
    }

    pub(super) fn from_interrupt(interrupt: RunInterrupt, context: &RunContext) -> RunEndReason {
        match interrupt {
            RunInterrupt::Stopped(reason) => reason.into(),
            RunInterrupt::Cut => RunEndReason::Drained,
            RunInterrupt::DeadlineExpired(kind) => RunEndReason::from_deadline(kind, context),
        }
    }

    /// Converts an error in the agent's stream to a reason.
    pub(super) fn from_fault(error: StreamError, context: &RunContext) -> RunEndReason {
        let rejection = Rejection::from(RejectionKind::from(&error));
        let rejection = match error {
            StreamError::Truncated { last_event_type } => rejection.with_cause(format_args!(
                "the stream ended after {}, without the end of the run",
                last_event_type.unwrap_or("no known event")
            )),
            // Its cause is named when the run is closed.
            StreamError::UnknownDialect => rejection,
            StreamError::Violation(violation) => rejection.with_detail(violation.to_string()),
            StreamError::Framing(fault) => rejection
                .with_detail(format!("The agent sent more than the gateway accepts: {fault} (`limits.frame`)."))
                .with_cause(fault),
            StreamError::TooMuchState(limit) => {
                let detail = format!("The agent sent more than the gateway accepts: {limit}.");
                rejection.with_detail(detail).with_cause(limit)
            }
            StreamError::ForbiddenTool(name) => {
                let mut rejection = rejection.with_detail(match name.as_str() {
                    "" => "The agent called a tool without a name, which is not allowed on this route.".to_owned(),
                    name => format!("The agent called the tool `{name}`, which is not allowed on this route."),
                });
                rejection.hint = Some("Add it to `tools` of the route, or keep the agent from calling it.".into());
                rejection
            }
            StreamError::OverBudget(limit) => {
                let value = |limit: Option<std::num::NonZero<u64>>| limit.map_or(0, std::num::NonZero::get);
                let run = &context.access.run;
                return limit_reached(match limit {
                    BudgetLimit::Events => {
                        let most = value(run.events);
                        format!("The run has more than {most} events (`run_limits.events` of the route).")
                    }
                    BudgetLimit::Bytes => {
                        let most = value(run.bytes);
                        format!("The run has more than {most} bytes (`run_limits.bytes` of the route).")
                    }
                });
            }
        };
        RunEndReason::Failed(rejection)
    }

    /// Adds the cause of a failed reconnect for the log.
    pub(super) fn with_cause(self, failure: Option<Rejection>) -> RunEndReason {
        match (self, failure) {
            (RunEndReason::Failed(rejection), Some(failure)) => {
                let own = rejection.cause.clone().unwrap_or_default();
                let other = failure.cause.as_deref().unwrap_or_default();
                let cause = format!("{own}; reconnect: {} {other}", failure.kind.code());
                RunEndReason::Failed(rejection.with_cause(cause.trim_start_matches("; ")))
            }
            (reason, _) => reason,
        }
    }

    pub(super) fn into_outcome(self) -> (RunOutcome, Option<Rejection>) {
        match self {
            RunEndReason::AgentEnded(RunEnding::Finished) => (RunOutcome::Finished, None),
            RunEndReason::AgentEnded(RunEnding::Cancelled) => (RunOutcome::Cancelled, None),
            RunEndReason::AgentEnded(RunEnding::Failed) => (RunOutcome::AgentError, None),
            RunEndReason::Failed(rejection) => (RunOutcome::UpstreamError, Some(rejection)),
            RunEndReason::Limited(rejection) => (RunOutcome::Limited, Some(rejection)),
            RunEndReason::Expired => (RunOutcome::Expired, Some(RejectionKind::TokenExpired.into())),
            RunEndReason::ClientGone => (RunOutcome::ClientGone, None),
            RunEndReason::Unread => (RunOutcome::Unread, None),
            RunEndReason::Stopped => (RunOutcome::Cancelled, None),
            RunEndReason::Drained => (RunOutcome::Drained, Some(RejectionKind::Draining.into())),
        }
    }
}

/// Finds another dialect as the cause of a failure: the one of the route knows nothing that the agent has sent. An
/// agent that falls silent is only slow, unless another dialect is recognized.
pub(super) fn find_foreign_stream(failure: &Rejection, stream: &Stream) -> Option<ForeignStream> {
    let find = || Some(stream.unknown_frames()?.explain(&load::known_file_dialects()));
    match failure.kind {
        RejectionKind::UpstreamDialect => find(),
        RejectionKind::UpstreamIdle => find().filter(|foreign| foreign.looks_like.is_some()),
        _ => None,
    }
}

/// Names the dialect in place of the failure to which it leads.
pub(super) fn explain_by_dialect(foreign: ForeignStream, missing_payload: Option<&str>) -> Rejection {
    let way_out = match foreign.looks_like {
        None if let Some(path) = missing_payload => format!("; no event has a value at its `payload: {path}`"),
        Some(name) if dialect::find_by_name(name).is_some() => format!(": set `agent: {name}`"),
        Some(name) => format!(": set `agent: {name}`, and name its file in `dialect_files`"),
        None => "; `diglot detect` looks for the dialect of a recording".to_owned(),
    };
    Rejection::from(RejectionKind::UpstreamDialect).with_cause(format_args!("{foreign}{way_out}"))
}

fn limit_reached(detail: String) -> RunEndReason {
    RunEndReason::Limited(Rejection::from(RejectionKind::RunLimitReached).with_detail(detail))
}
