//! A run's hold on an address: it counts as one of its runs, and its fate before the answer says how the address is.

use super::failure;
use super::roster::Roster;
use super::target::{Change, Target};
use crate::config::Ejection;
use crate::error::Rejection;
use crate::telemetry::label::UpstreamOutcome;
use crate::telemetry::{UpstreamMetrics, occurrence};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One run at one address.
pub(super) struct Lease {
    roster: Arc<Roster>,
    target: Arc<Target>,
    rule: Ejection,
    fate: Fate,
}

/// What is known of it.
enum Fate {
    /// no answer yet, to a request that began then and may take that long
    Open { since: Instant, patience: Duration },
    /// it was told
    Told,
}

impl Lease {
    /// Sends a run to `target`; its request began at `since` and may wait for an answer for `patience`.
    pub(super) fn new(
        roster: &Arc<Roster>,
        target: &Arc<Target>,
        rule: Ejection,
        since: Instant,
        patience: Duration,
    ) -> Self {
        target.take(Instant::now());
        let fate = Fate::Open { since, patience };
        Lease { roster: Arc::clone(roster), target: Arc::clone(target), rule, fate }
    }

    pub(super) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// The upstream of the address, as metrics call it.
    pub(super) fn upstream(&self) -> Arc<str> {
        Arc::clone(&self.roster.member(&self.target).label)
    }

    /// The agent answered with that status.
    pub(super) fn answered(&mut self, status: Option<http::StatusCode>) {
        // What agents, and proxies in front of them, say when nobody is there to answer.
        match status.map(|status| status.as_u16()) {
            Some(status @ (502..=504)) => {
                self.tell(UpstreamOutcome::Unavailable, Some(&format!("it answered {status}")));
            }
            _ => self.tell(UpstreamOutcome::Answered, None),
        }
    }

    /// There was no answer. `blameless` is for what happens to kept connections of an agent that is well: it closed one.
    pub(super) fn failed(&mut self, rejection: &Rejection, blameless: bool) {
        let outcome = failure::outcome(rejection);
        if blameless {
            self.metrics().answered(outcome);
            self.target.unknown(Instant::now());
            self.fate = Fate::Told;
            return;
        }
        let cause = rejection.cause.as_deref().unwrap_or_else(|| rejection.message());
        self.tell(outcome, Some(cause));
    }

    /// Notes how it went: what failed, if it did.
    fn tell(&mut self, outcome: UpstreamOutcome, failed: Option<&str>) {
        self.fate = Fate::Told;
        self.metrics().answered(outcome);
        let change = match failed {
            Some(_) => self.target.failed(&self.rule, Instant::now()),
            None => self.target.succeeded(),
        };
        let (route, upstream) = (&*self.roster.route, &*self.roster.member(&self.target).label);
        let address = &self.target.address;
        match change {
            Change::None => return,
            Change::Out(duration) => {
                let cause = failed.unwrap_or_default();
                occurrence::Ejected { route, upstream, address, duration, cause }.emit(self.metrics());
            }
            Change::Back => occurrence::Returned { route, upstream, address }.emit(),
        }
        self.roster.show();
    }

    fn metrics(&self) -> &UpstreamMetrics {
        &self.roster.member(&self.target).metrics
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Fate::Open { since, patience } = self.fate {
            // Whoever waits gives up at the end of the patience, and by then it was the agent that failed. The clock of the
            // run began a moment before this one, so the last tenth belongs to the end.
            if since.elapsed() >= patience.mul_f32(0.9) {
                self.tell(UpstreamOutcome::TimedOut, Some("no answer in time"));
            } else {
                self.metrics().answered(UpstreamOutcome::Abandoned);
                self.target.unknown(Instant::now());
            }
        }
        self.target.leave();
    }
}
