//! A run of this replica as the others see it.
//!
//! ```text
//!   Anew ── claimed, summed up ──▶ Copying ── frames, sums ──┐
//!    ▲                              │ │ ▲────────────────────┘
//!    ╰── Redis lost it ─────────────╯ ╰── the end, or it is another one's ──▶ over
//! ```
//! While Redis does not answer nothing is lost: the log keeps what comes, and what it trims meanwhile comes as a sum.

use super::super::log::{LogMirror, MirrorEvent, MirrorSummary, RunLog};
use super::redis_protocol::{self, ReplicaMessage};
use super::{ClaimResult, LEASE_TTL, RETRY_DELAY, ReplicatedRuns, ReplicationUnavailable, RunDescriptor, millis};
use crate::telemetry::internal_event;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the end of a run is kept for a Redis that does not answer. The process may wait for it.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A run that is at home here.
#[derive(Debug)]
pub(super) struct OwnedRun {
    pub(crate) log: Arc<RunLog>,
    /// the processes that follow it, and when each was heard of last
    followers: Mutex<Vec<(String, Instant)>>,
}

impl OwnedRun {
    pub(crate) fn new(log: Arc<RunLog>) -> OwnedRun {
        OwnedRun { log, followers: Mutex::default() }
    }

    /// Somebody listens at another process.
    pub(crate) fn add_follower(&self, process: &str) {
        self.log.reset_abandon_timer();
        let now = Instant::now();
        let mut followers = self.followers.lock();
        followers.retain(|(known, heard)| known != process && now < *heard + LEASE_TTL);
        followers.push((process.to_owned(), now));
    }

    fn followers(&self) -> Vec<String> {
        let followers = self.followers.lock();
        followers.iter().map(|(process, _)| process.clone()).collect()
    }
}

/// Copies one run.
pub(super) struct RunPublisher {
    shared: Arc<ReplicatedRuns>,
    descriptor: RunDescriptor,
    owned_run: Arc<OwnedRun>,
    mirror: LogMirror,
    /// up to which frame it was copied
    sent_through: u64,
    /// whether Redis knows what the conversation held before the run
    has_base: bool,
    /// up to which frame Redis has a sum
    summed_through: u64,
}

/// What is to be done.
enum PublishStep {
    /// everything is to be said from the beginning
    Restart,
    Publish(MirrorEvent),
    /// whether everything still stands
    Verify,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishOutcome {
    Written,
    /// Redis does not have what this stands on
    Missing,
    /// another run has the key
    Superseded,
}

impl RunPublisher {
    pub(crate) fn new(
        shared: Arc<ReplicatedRuns>,
        descriptor: RunDescriptor,
        owned_run: Arc<OwnedRun>,
    ) -> RunPublisher {
        let mirror = LogMirror::new(&owned_run.log);
        RunPublisher { shared, descriptor, owned_run, mirror, sent_through: 0, has_base: false, summed_through: 0 }
    }

    /// Copies until the run ends, or is another one's.
    pub(crate) async fn publish_to_end(mut self, claimed: bool) {
        self.has_base = claimed;
        self.copy_log(claimed).await;
        let mut homes = self.shared.owned_runs();
        if homes.get(&self.descriptor.run).is_some_and(|home| Arc::ptr_eq(home, &self.owned_run)) {
            homes.remove(&self.descriptor.run);
        }
    }

    async fn copy_log(&mut self, claimed: bool) {
        let mut losses = self.shared.data_losses.subscribe();
        let mut todo = (!claimed).then_some(PublishStep::Restart);
        let mut ended: Option<Instant> = None;
        loop {
            let Some(doing) = &todo else {
                todo = Some(tokio::select! {
                    seen = self.mirror.next() => PublishStep::Publish(seen),
                    _ = losses.changed() => PublishStep::Verify,
                    () = sleep(self.shared.run_ttl() / 3) => PublishStep::Verify,
                });
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let copies = shared.copy_permits.acquire().await;
            let is_end = matches!(doing, PublishStep::Publish(MirrorEvent::Finished | MirrorEvent::Cut));
            let done = match doing {
                PublishStep::Restart => self.restart().await,
                PublishStep::Publish(seen) => self.publish(&seen.clone()).await,
                PublishStep::Verify => self.verify().await,
            };
            drop(copies);
            todo = match done {
                Ok(PublishOutcome::Written) if is_end => return,
                Ok(PublishOutcome::Written) => None,
                Ok(PublishOutcome::Missing) => Some(PublishStep::Restart),
                Ok(PublishOutcome::Superseded) => {
                    internal_event::RunReplicationStopped {
                        ids: &self.descriptor.ids,
                        token: self.descriptor.token.as_str(),
                    }
                    .emit();
                    return;
                }
                Err(ReplicationUnavailable) => {
                    let log = &self.owned_run.log;
                    if log.is_open() {
                        tokio::select! {
                            () = self.shared.redis.wait_until_connected() => {}
                            () = log.wait_for_event(u64::MAX) => {}
                        }
                    } else if ended.get_or_insert_with(Instant::now).elapsed() > END_TIMEOUT {
                        return;
                    }
                    sleep(RETRY_DELAY).await;
                    todo
                }
            };
        }
    }

    async fn publish(&mut self, seen: &MirrorEvent) -> Result<PublishOutcome, ReplicationUnavailable> {
        match seen {
            MirrorEvent::Frames { first, last, bytes } => self.append(*first, *last, bytes).await,
            MirrorEvent::Trimmed { through } if *through <= self.sent_through => Ok(PublishOutcome::Written),
            MirrorEvent::Trimmed { .. } => self.write_summary(true).await,
            MirrorEvent::Finished => {
                let kept = self.shared.store.find(&self.descriptor.run);
                let kept = kept.is_some_and(|kept| Arc::ptr_eq(&kept.log, &self.owned_run.log));
                self.record_end(if kept { "ended" } else { "gone" }).await
            }
            MirrorEvent::Cut => self.record_end("cut").await,
        }
    }

    async fn append(
        &mut self,
        first: u64,
        last: u64,
        frames: &Bytes,
    ) -> Result<PublishOutcome, ReplicationUnavailable> {
        if !self.has_base {
            let done = self.write_summary(true).await?;
            if done != PublishOutcome::Written {
                return Ok(done);
            }
        }
        let frames = redis_protocol::frames_after(frames, first, self.sent_through);
        if frames.is_empty() {
            return Ok(PublishOutcome::Written);
        }
        let (shared, about) = (&self.shared, &self.descriptor);
        let mut question = redis_protocol::APPEND.prepare_invoke();
        question.key(shared.keys.run(&about.run)).key(shared.keys.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(first.max(self.sent_through + 1)).arg(last).arg(frames);
        question.arg(millis(shared.run_ttl())).arg(ReplicaMessage::Updated(about.run).to_string());
        for process in self.owned_run.followers() {
            question.arg(shared.keys.process(&process));
        }
        let done = self.outcome(shared.invoke(&question).await?);
        if done == PublishOutcome::Written {
            self.sent_through = last;
            if self.owned_run.log.recap_through() > self.summed_through {
                return self.write_summary(false).await;
            }
        }
        Ok(done)
    }

    /// Says what the log only has a sum of. `anew` where nothing of what Redis has counts.
    async fn write_summary(&mut self, anew: bool) -> Result<PublishOutcome, ReplicationUnavailable> {
        let (through, frames) = match self.mirror.summarize() {
            MirrorSummary::Empty => return Ok(PublishOutcome::Written),
            MirrorSummary::Discarded => (self.owned_run.log.recap_through(), Vec::new()),
            MirrorSummary::Through(through, frames) => (through, frames),
        };
        let (shared, about) = (&self.shared, &self.descriptor);
        let mut question = redis_protocol::SUM.prepare_invoke();
        question.key(shared.keys.run(&about.run)).key(shared.keys.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(through).arg(frames).arg(u8::from(anew)).arg(millis(shared.run_ttl()));
        let done = self.outcome(shared.invoke(&question).await?);
        if done == PublishOutcome::Written {
            self.has_base = true;
            self.summed_through = through;
            self.sent_through = if anew { through } else { self.sent_through.max(through) };
        }
        Ok(done)
    }

    /// Says everything from the beginning.
    async fn restart(&mut self) -> Result<PublishOutcome, ReplicationUnavailable> {
        match self.shared.claim_within(super::ANSWER_DEADLINE, &self.descriptor, None).await {
            ClaimResult::Acquired => {}
            ClaimResult::Duplicate | ClaimResult::Conflict => return Ok(PublishOutcome::Superseded),
            ClaimResult::Unconfirmed => return Err(ReplicationUnavailable),
        }
        self.mirror = LogMirror::new(&self.owned_run.log);
        (self.sent_through, self.summed_through, self.has_base) = (0, 0, false);
        self.write_summary(true).await
    }

    async fn verify(&mut self) -> Result<PublishOutcome, ReplicationUnavailable> {
        let (shared, about) = (&self.shared, &self.descriptor);
        let mut question = redis_protocol::TOUCH.prepare_invoke();
        question.key(shared.keys.run(&about.run)).key(shared.keys.frames(&about.run, about.token));
        question.arg(about.token.as_str()).arg(millis(shared.run_ttl())).arg(self.sent_through);
        Ok(self.outcome(shared.invoke(&question).await?))
    }

    async fn record_end(&self, how: &str) -> Result<PublishOutcome, ReplicationUnavailable> {
        Ok(self.outcome(self.shared.record_end(&self.descriptor, how, &self.owned_run.followers()).await?))
    }

    fn outcome(&self, answer: i64) -> PublishOutcome {
        match answer {
            1 => PublishOutcome::Written,
            2 => {
                self.owned_run.log.stop();
                PublishOutcome::Written
            }
            -1 => PublishOutcome::Missing,
            _ => PublishOutcome::Superseded,
        }
    }
}
