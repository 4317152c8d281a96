//! Copies a run of this replica to Redis.
//!
//! ```text
//!   Restart ── claimed, summarised ──▶ copying ── frames, summaries ──┐
//!    ▲                                  │ │ ▲─────────────────────────┘
//!    ╰── Redis lost the run ────────────╯ ╰── the end, or another run has the key ──▶ done
//! ```
//! Nothing is lost while Redis is down: the log retains new frames, and trimmed ones are copied as a summary. A run
//! that ends meanwhile is copied as long as it is kept.

use super::super::log::{LogMirror, MirrorEvent, MirrorSummary, RunLog};
use super::owned_run::OwnedRun;
use super::redis_protocol::{self, ReplicaMessage};
use super::{ClaimResult, RETRY_DELAY, ReplicatedRuns, ReplicationUnavailable, RunDescriptor, millis};
use crate::telemetry::internal_event;
use crate::translate::recap::RecapInput;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Time for which an ended run's copy delays the end of the process.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of the check whether an ended run is still kept.
const KEPT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl ReplicatedRuns {
    pub(crate) fn replicate(
        self: &Arc<Self>,
        descriptor: RunDescriptor,
        log: &Arc<RunLog>,
        claimed: ClaimResult,
        resource: impl Send + 'static,
    ) {
        let owned_run = Arc::new(OwnedRun::new(Arc::clone(log)));
        self.owned_runs.lock().insert(descriptor.keys.run, Arc::clone(&owned_run));
        let publisher = RunPublisher {
            mirror: LogMirror::new(log),
            shared: Arc::clone(self),
            descriptor,
            owned_run,
            sent_through: 0,
            has_base: claimed == ClaimResult::Acquired,
            summed_through: 0,
            bytes_since_summary: 0,
        };
        tokio::spawn(publisher.publish_to_end(resource));
    }
}

struct RunPublisher {
    shared: Arc<ReplicatedRuns>,
    descriptor: RunDescriptor,
    owned_run: Arc<OwnedRun>,
    mirror: LogMirror,
    /// number of the last copied frame
    sent_through: u64,
    has_base: bool,
    summed_through: u64,
    /// since the last summary
    bytes_since_summary: usize,
}

enum PublishStep {
    /// copy everything again
    Restart,
    Publish(MirrorEvent),
    /// check that Redis still has everything
    Verify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishOutcome {
    Written,
    /// Redis lacks earlier frames or the run
    Missing,
    /// another run has the key
    Superseded,
}

impl RunPublisher {
    /// Copies until the run has ended or another run takes its key. The resource is dropped earlier if Redis is down.
    async fn publish_to_end(mut self, resource: impl Send) {
        self.copy_log(&mut Some(resource)).await;
        let mut owned_runs = self.shared.owned_runs.lock();
        if owned_runs.get(&self.descriptor.keys.run).is_some_and(|owned| Arc::ptr_eq(owned, &self.owned_run)) {
            owned_runs.remove(&self.descriptor.keys.run);
        }
    }

    async fn copy_log(&mut self, resource: &mut Option<impl Send>) {
        let mut losses = self.shared.data_losses.subscribe();
        let mut step = (!self.has_base).then_some(PublishStep::Restart);
        let mut ended: Option<Instant> = None;
        loop {
            let Some(current) = &step else {
                step = Some(tokio::select! {
                    event = self.mirror.next() => PublishStep::Publish(event),
                    _ = losses.changed() => PublishStep::Verify,
                    () = sleep(self.shared.run_ttl() / 3) => PublishStep::Verify,
                });
                continue;
            };
            let shared = Arc::clone(&self.shared);
            let permit = shared.copy_permits.acquire().await;
            let is_end = matches!(current, PublishStep::Publish(MirrorEvent::Finished | MirrorEvent::Cut));
            let outcome = match current {
                PublishStep::Restart => self.restart().await,
                PublishStep::Publish(event) => self.publish(&event.clone()).await,
                PublishStep::Verify => self.verify().await,
            };
            drop(permit);
            step = match outcome {
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
                        drop(resource.take());
                        if !self.is_kept() {
                            return;
                        }
                        let _ = timeout(KEPT_CHECK_INTERVAL, self.shared.redis.wait_until_connected()).await;
                    }
                    sleep(RETRY_DELAY).await;
                    step
                }
            };
        }
    }

    async fn publish(&mut self, event: &MirrorEvent) -> Result<PublishOutcome, ReplicationUnavailable> {
        match event {
            MirrorEvent::Frames { first, last, bytes } => self.append(*first, *last, bytes).await,
            MirrorEvent::Trimmed { through } if *through <= self.sent_through => Ok(PublishOutcome::Written),
            MirrorEvent::Trimmed { .. } => self.write_summary(true).await,
            MirrorEvent::Finished => self.record_end(if self.is_kept() { "ended" } else { "gone" }).await,
            MirrorEvent::Cut => self.record_end("cut").await,
        }
    }

    fn is_kept(&self) -> bool {
        let stored = self.shared.store.find(&self.descriptor.keys.run);
        stored.is_some_and(|stored| Arc::ptr_eq(&stored.log, &self.owned_run.log))
    }

    async fn append(
        &mut self,
        first: u64,
        last: u64,
        frames: &Bytes,
    ) -> Result<PublishOutcome, ReplicationUnavailable> {
        if !self.has_base {
            let outcome = self.write_summary(true).await?;
            if outcome != PublishOutcome::Written {
                return Ok(outcome);
            }
        }
        let frames = redis_protocol::frames_after(frames, first, self.sent_through);
        if frames.is_empty() {
            return Ok(PublishOutcome::Written);
        }
        let length = frames.len();
        let shared = &self.shared;
        let mut call = shared.prepare_run_call(&redis_protocol::APPEND, &self.descriptor);
        call.arg(first.max(self.sent_through + 1)).arg(last).arg(frames).arg(millis(shared.run_ttl()));
        call.arg(ReplicaMessage::Updated(self.descriptor.keys.run).to_string());
        for process in self.owned_run.followers() {
            call.arg(shared.keys.process(&process));
        }
        let outcome = self.outcome(shared.invoke(&call).await?);
        if outcome == PublishOutcome::Written {
            self.sent_through = last;
            self.bytes_since_summary += length;
            if self.owned_run.log.recap_through() > self.summed_through {
                return self.write_summary(false).await;
            }
        }
        Ok(outcome)
    }

    async fn write_summary(&mut self, anew: bool) -> Result<PublishOutcome, ReplicationUnavailable> {
        let (through, frames) = match self.mirror.summarize() {
            MirrorSummary::Empty => return Ok(PublishOutcome::Written),
            // This process has discarded the log, for lack of memory; others can join while Redis has all frames.
            MirrorSummary::Discarded if !anew && self.bytes_since_summary <= 2 * self.owned_run.log.max_bytes() => {
                return Ok(PublishOutcome::Written);
            }
            MirrorSummary::Discarded => (self.owned_run.log.recap_through(), Vec::new()),
            MirrorSummary::Through(through, frames) => (through, frames),
        };
        let shared = &self.shared;
        let mut call = shared.prepare_run_call(&redis_protocol::SUM, &self.descriptor);
        call.arg(through).arg(frames).arg(u8::from(anew)).arg(millis(shared.run_ttl()));
        let outcome = self.outcome(shared.invoke(&call).await?);
        if outcome == PublishOutcome::Written {
            self.has_base = true;
            self.summed_through = through;
            self.bytes_since_summary = 0;
            self.sent_through = if anew { through } else { self.sent_through.max(through) };
        }
        Ok(outcome)
    }

    /// Copies everything from the beginning.
    async fn restart(&mut self) -> Result<PublishOutcome, ReplicationUnavailable> {
        match self.shared.claim_within(super::ANSWER_DEADLINE, &self.descriptor, &RecapInput::default()).await {
            ClaimResult::Acquired => {}
            ClaimResult::Duplicate | ClaimResult::Conflict => return Ok(PublishOutcome::Superseded),
            ClaimResult::Unconfirmed => return Err(ReplicationUnavailable),
        }
        self.mirror = LogMirror::new(&self.owned_run.log);
        self.sent_through = 0;
        self.summed_through = 0;
        self.has_base = false;
        self.write_summary(true).await
    }

    async fn verify(&mut self) -> Result<PublishOutcome, ReplicationUnavailable> {
        let shared = &self.shared;
        let mut call = shared.prepare_run_call(&redis_protocol::TOUCH, &self.descriptor);
        call.arg(millis(shared.run_ttl())).arg(self.sent_through);
        Ok(self.outcome(shared.invoke(&call).await?))
    }

    async fn record_end(&self, how: &str) -> Result<PublishOutcome, ReplicationUnavailable> {
        let followers = self.owned_run.followers();
        Ok(self.outcome(self.shared.record_end(&self.descriptor, how, self.sent_through, &followers).await?))
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
