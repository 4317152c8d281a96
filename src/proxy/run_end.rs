//! How a run comes to its end, and what the client, the log and the metrics hear of that.

use super::clock::Over;
use super::plan::Plan;
use super::upstream::{Cluster, Connector, Session};
use crate::error::{Kind, Rejection};
use crate::event::run::Ending;
use crate::replay::Lost;
use crate::telemetry::label::Outcome;
use crate::translate::{Bound, Fault, Stream};
use std::time::Duration;

/// How long the rest of an agent's response is read after its terminal event, so that the connection can be used again.
const REST: Duration = Duration::from_secs(1);

/// Most bytes of that rest.
const REST_LIMIT: usize = 64 << 10;

/// Why waiting for the agent stopped.
pub(super) enum Interrupt {
    Lost(Lost),
    Cut,
    Over(Over),
}

/// How a run came to its end.
pub(super) enum End {
    /// the terminal event of the agent has left
    Said(Ending),
    /// the gateway had to end it
    Failed(Rejection),
    /// it got as large or as long as the route lets it
    Limited(Rejection),
    /// the caller's credential has expired
    Expired,
    ClientGone,
    /// nobody came for its events in time
    Unread,
    /// its caller stopped it
    Stopped,
    Drained,
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        match lost {
            Lost::Gone => End::ClientGone,
            Lost::Stopped => End::Stopped,
        }
    }
}

impl End {
    /// The end of a run that may not go on.
    pub(super) fn over(over: Over, plan: &Plan) -> End {
        match over {
            Over::Silent => End::Failed(Kind::UpstreamIdle.into()),
            Over::NoEvent => {
                let limit = plan.cluster.first_event().unwrap_or_default();
                let what = format!("The agent sent no event within {limit:?} (`timeouts.first_event` of the route).");
                End::Failed(Rejection::from(Kind::UpstreamTimeout).detail(what))
            }
            Over::Expired => End::Expired,
            Over::Long => {
                let limit = plan.access.run.duration.unwrap_or_default();
                limited(format!("The run took longer than {limit:?} (`run_limits.duration` of the route)."))
            }
        }
    }

    pub(super) fn of_interrupt(interrupt: Interrupt, plan: &Plan) -> End {
        match interrupt {
            Interrupt::Lost(lost) => lost.into(),
            Interrupt::Cut => End::Drained,
            Interrupt::Over(over) => End::over(over, plan),
        }
    }

    /// What was wrong, where something was.
    pub(super) fn failure(&self) -> Option<&Rejection> {
        match self {
            End::Failed(rejection) => Some(rejection),
            _ => None,
        }
    }

    /// The end of a run whose stream cannot be read any further.
    pub(super) fn of_fault(fault: Fault, stream: &Stream, plan: &Plan) -> End {
        let rejection = match fault {
            Fault::Truncated => Kind::UpstreamTruncated.into(),
            Fault::Violation => {
                let rejection = Rejection::from(Kind::ProtocolViolation);
                stream.offence().map_or(rejection.clone(), |offence| rejection.detail(offence.to_string()))
            }
            Fault::Framing(fault) => Rejection::from(Kind::FrameTooLarge)
                .detail(format!("The agent sent more than the gateway takes: {fault}."))
                .cause(fault),
            Fault::Tool => Rejection::from(Kind::ToolNotAllowed).detail(match stream.stranger() {
                None | Some("") => {
                    "The agent called a tool without a name, which is not allowed on this route.".to_owned()
                }
                Some(name) => format!("The agent called the tool `{name}`, which is not allowed on this route."),
            }),
            Fault::Limit(bound) => {
                let (limit, name) = match bound {
                    Bound::Events => (plan.access.run.events, "events"),
                    Bound::Bytes => (plan.access.run.bytes, "bytes"),
                };
                let limit = limit.map_or(0, std::num::NonZero::get);
                return limited(format!("The run has more than {limit} {name} (`run_limits.{name}` of the route)."));
            }
        };
        End::Failed(rejection)
    }

    /// The same; the log also says why the agent did not go on when it was asked to.
    pub(super) fn because(self, failure: Option<Rejection>) -> End {
        match (self, failure) {
            (End::Failed(rejection), Some(failure)) => {
                let own = rejection.cause.clone().unwrap_or_default();
                let other = failure.cause.as_deref().unwrap_or_default();
                let cause = format!("{own}; asked to go on: {} {other}", failure.kind.code());
                End::Failed(rejection.cause(cause.trim_start_matches("; ")))
            }
            (end, _) => end,
        }
    }

    /// What is counted, and what the gateway has to say for it.
    pub(super) fn told(self) -> (Outcome, Option<Rejection>) {
        match self {
            End::Said(Ending::Finished) => (Outcome::Finished, None),
            End::Said(Ending::Cancelled) => (Outcome::Cancelled, None),
            End::Said(Ending::Failed) => (Outcome::AgentError, None),
            End::Failed(rejection) => (Outcome::UpstreamError, Some(rejection)),
            End::Limited(rejection) => (Outcome::Limited, Some(rejection)),
            End::Expired => (Outcome::Expired, Some(Kind::TokenExpired.into())),
            End::ClientGone => (Outcome::ClientGone, None),
            End::Unread => (Outcome::Unread, None),
            End::Stopped => (Outcome::Cancelled, None),
            End::Drained => (Outcome::Drained, Some(Kind::Draining.into())),
        }
    }
}

fn limited(what: String) -> End {
    End::Limited(Rejection::from(Kind::RunLimitReached).detail(what))
}

/// Reads the rest of a response whose run has ended, briefly, so that its connection can serve the next run.
pub(super) async fn put_away(mut session: Box<Session>, cluster: &Cluster, connector: &Connector) {
    let rest = async {
        let mut left = REST_LIMIT;
        while session.body(|bytes| left = left.saturating_sub(bytes.len())).await? {
            if left == 0 {
                return Ok(false);
            }
        }
        Ok::<bool, Box<Rejection>>(true)
    };
    if let Ok(Ok(true)) = tokio::time::timeout(REST, rest).await {
        cluster.release(connector, session).await;
    }
}
