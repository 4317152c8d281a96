//! One run: a task that is fed by the agent and read by the client.
//!
//! ```text
//!   Asking ── head of an event stream ──▶ Streaming ── terminal event, end, failure ──▶ Ended
//!     │ refusal, no event stream                │ the client left, the gateway ends
//!     │                                         ╰ a stream of an agent of two steps broke: it is asked to go on
//!     └──▶ refused (problem document, or RUN_ERROR when the client was answered already)
//! ```
//! While it waits for the agent it also waits for the client to leave (or, on a route whose runs outlive their clients, for
//! nobody to have listened for long, or for its being stopped), for the gateway's end, and for its own clock, which sends
//! keep-alives and ends an agent that fell silent.

use super::agent_client::{AgentClient, AgentEventSource, ReconnectBudget, is_retryable, is_stream_break};
use super::deadlines::{DeadlineKind, RunDeadlines, now_millis};
use super::lifecycle::LifecycleWatch;
use super::run_context::{AgentRequest, RunContext};
use super::run_end::{RunEndReason, RunInterrupt, release_session};
use super::run_output::RunOutput;
use super::upstream::Session;
use crate::config::access::{OnExpiry, RouteErrorFormat};
use crate::error::{Rejection, RejectionKind};
use crate::event::run::RunEnding;
use crate::replay::LogStopReason;
use crate::telemetry::internal_event;
use crate::telemetry::label::RunOutcome;
use crate::translate::{Stream, StreamError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Bytes for the client that are gathered before they are handed over, when the agent has more ready.
const BATCH: usize = 32 << 10;

/// What the client is answered with, as soon as it is known.
pub(super) type StartResult = Result<(), Rejection>;

pub(super) struct RunTask {
    context: RunContext,
    stream: Stream,
    /// where an agent of two steps has its events, and how often it was asked to go on
    reconnect: Option<Box<(Arc<AgentEventSource>, ReconnectBudget)>>,
    output: RunOutput,
    start_tx: Option<oneshot::Sender<StartResult>>,
    deadlines: RunDeadlines,
    out: Vec<u8>,
    /// since when the client has what was said, once something was
    last_write: Option<Instant>,
}

impl RunTask {
    pub(super) fn new(
        context: RunContext,
        stream: Stream,
        output: RunOutput,
        head: oneshot::Sender<StartResult>,
    ) -> Self {
        let deadlines = context.start_deadlines();
        RunTask {
            context,
            stream,
            reconnect: None,
            output,
            start_tx: Some(head),
            deadlines,
            out: Vec::new(),
            last_write: None,
        }
    }

    /// Runs to the end and says how it was.
    ///
    /// Boxed, because a future keeps two places for what it is given by value.
    pub(super) async fn run(mut self: Box<Self>, request: Box<AgentRequest>) {
        // Boxed are what comes before the long part of the run, what ends it, and an end that is kept through it: a run
        // that waits for its agent shall be small.
        let end = match self.send_request(request).boxed().await.map_err(Box::new) {
            Ok(session) => self.relay(session).await,
            Err(end) => *end,
        };
        let (audience, mut lifecycle) = self.close(end).boxed().await;
        // Nothing is left of the run but what its client has not read, and what is held for it.
        tokio::select! {
            // First, because its body ends only once that was begun.
            biased;
            () = audience.finish() => {}
            () = lifecycle.wait_cut() => {}
        }
    }

    /// Sends the request and reads the head of the response that is the stream.
    async fn send_request(&mut self, request: Box<AgentRequest>) -> Result<Box<Session>, RunEndReason> {
        let AgentRequest { fields, spans: calls, body, framings } = *request;
        let cluster = Arc::clone(&self.context.cluster);
        let call = AgentClient {
            cluster: Arc::clone(&cluster),
            connector: Arc::clone(&self.context.connector),
            request_id: self.context.record.request_id.clone(),
            spans: calls,
            fields: Arc::new(fields),
        };
        // From here on it is the agent's time.
        self.deadlines.restart_idle(cluster.first_byte_timeout());
        let Some(template) = cluster.events_template().cloned() else {
            let (session, framing) = self.await_response(call.run_one_step(body, framings).boxed()).await?;
            self.stream.read_as(framing);
            return Ok(session);
        };
        let ids = self.context.record.ids.clone();
        let events = self.await_response(async move { call.run_two_step(body, &ids, &template).await }.boxed()).await?;
        self.stream.follow_run(events.run_id.as_deref());
        let events = Arc::new(events);
        self.reconnect = Some(Box::new((Arc::clone(&events), ReconnectBudget::default())));
        // Each step has the whole time.
        self.deadlines.restart_idle(cluster.first_byte_timeout());
        self.await_response(async move { events.open_stream(None).await }.boxed()).await
    }

    /// Waits for the agent's answer to one request.
    ///
    /// Boxed: connecting is a large future, and it is over before the long part of the run begins.
    async fn await_response<T>(&mut self, asking: BoxFuture<'static, Result<T, Rejection>>) -> Result<T, RunEndReason> {
        match self.await_or_interrupt(asking).await {
            Ok(answer) => answer.map_err(RunEndReason::Failed),
            Err(RunInterrupt::DeadlineExpired(DeadlineKind::AgentIdle)) => {
                Err(RunEndReason::Failed(RejectionKind::UpstreamTimeout.into()))
            }
            Err(interrupt) => Err(RunEndReason::from_interrupt(interrupt, &self.context)),
        }
    }

    /// Passes the stream on until it ends.
    async fn relay(&mut self, mut session: Box<Session>) -> RunEndReason {
        if let Some(head) = self.start_tx.take() {
            // The client may have been answered already, while the agent took its time.
            let _ = head.send(Ok(()));
        }
        self.deadlines.restart_idle(self.context.cluster.idle_timeout());
        self.context.record.upstream = Some(session.upstream_label());
        loop {
            match self.read_batch(&mut session).await {
                Ok(true) if self.stream.ending().is_none() => {}
                // Boxed: it comes once, and is larger than what waits for the next piece.
                last => match self.reconnect_or_end(last).boxed().await {
                    Ok(next) => {
                        session.finish(Some(&RejectionKind::UpstreamReset.into()));
                        session = next;
                        continue;
                    }
                    Err(end) => {
                        // Of every other end the agent is not the cause: the span says that nobody waits for it any more.
                        if matches!(end, RunEndReason::AgentEnded(_) | RunEndReason::Failed(_)) {
                            session.finish(end.failure());
                        }
                        if matches!(end, RunEndReason::AgentEnded(_)) {
                            let (cluster, connector) =
                                (Arc::clone(&self.context.cluster), Arc::clone(&self.context.connector));
                            tokio::spawn(async move { release_session(session, &cluster, &connector).await });
                        }
                        return end;
                    }
                },
            }
            if let Err(lost) = self.flush_output().await {
                return lost.into();
            }
            // An agent that floods never lets the run wait, so the gateway's end and the run's bounds are looked for here
            // as well.
            if self.context.lifecycle.is_cut() {
                return RunEndReason::Drained;
            }
            if let Some(over) = self.deadlines.find_expired() {
                return RunEndReason::from_deadline(over, &self.context);
            }
        }
    }

    /// What follows the last read of a body: another body that goes on from there, or the end.
    async fn reconnect_or_end(&mut self, last: Result<bool, RunEndReason>) -> Result<Box<Session>, RunEndReason> {
        let broke = match &last {
            Ok(more) => !more,
            Err(RunEndReason::Failed(why)) => is_stream_break(why),
            Err(_) => false,
        };
        let mut silence = None;
        if broke && self.reconnect.is_some() && self.stream.ending().is_none() {
            match self.reconnect().await? {
                Ok(next) => return Ok(next),
                Err(why) => silence = why,
            }
        }
        let end = match (last, self.stream.ending()) {
            (Ok(true), Some(ending)) => RunEndReason::AgentEnded(ending),
            (Ok(_), _) => self.finish_stream(),
            (Err(end), _) => end,
        };
        let end = end.with_cause(silence);
        // The terminal event is the end, whatever came behind it.
        let end = self.stream.ending().map_or(end, RunEndReason::AgentEnded);
        self.flush_output().await?;
        Err(end)
    }

    /// Asks an agent whose stream broke for what is behind the last event that came. Otherwise says why it does not go on,
    /// if it was asked.
    async fn reconnect(&mut self) -> Result<Result<Box<Session>, Option<Rejection>>, RunEndReason> {
        // What came is heard first: the agent may take its time.
        self.flush_output().await?;
        let mut failure = None;
        while let (Some(state), Some(id)) = (&mut self.reconnect, self.stream.last_id()) {
            let (events, tries) = &mut **state;
            let Some(wait) = tries.next_delay(id, self.stream.retry()) else { break };
            let (events, id) = (Arc::clone(events), id.to_owned());
            let asking = async move {
                tokio::time::sleep(wait).await;
                events.open_stream(Some(&id)).await
            };
            self.deadlines.restart_idle(wait + self.context.cluster.first_byte_timeout());
            match self.await_response(asking.boxed()).await {
                Ok(session) => {
                    let last_event_id = self.stream.last_id().unwrap_or_default();
                    internal_event::AgentStreamResumed { run: self.context.record.log_fields(), last_event_id }.emit();
                    self.context.record.reconnects += 1;
                    self.stream.resume();
                    self.deadlines.restart_idle(self.context.cluster.idle_timeout());
                    return Ok(Ok(session));
                }
                Err(RunEndReason::Failed(why)) => {
                    let hopeless = !is_retryable(&why);
                    failure = Some(why);
                    if hopeless {
                        break;
                    }
                }
                Err(end) => return Err(end),
            }
        }
        Ok(Err(failure))
    }

    /// Counts what was read and written since the last time.
    fn record_metrics(&mut self) {
        let (account, report) = (&mut self.context.record, self.stream.report_mut());
        if let Some(sign) = account.metrics.count_report(report, &mut account.totals) {
            account.dialects.1 = report.agent;
            let (run, dialect, because) = (account.log_fields(), sign.dialect.name, sign.description);
            internal_event::DialectDetected { run, side: "agent", dialect, because }.emit();
            // The agents of a route are alike, so the first that is told tells for all.
            let _ = self.context.detected_dialect.set(sign.dialect);
        }
    }

    /// Reads at least one piece, and whatever else is there, up to a batch. `false` at the end of the body.
    async fn read_batch(&mut self, session: &mut Session) -> Result<bool, RunEndReason> {
        let mut piece = TranslationSink {
            stream: &mut self.stream,
            out: &mut self.out,
            bytes_read: 0,
            translate_time: Duration::ZERO,
            fault: None,
        };
        // Most reads find bytes at once; only one that does not is worth a wait for everything else.
        let mut first = session.read_body(|bytes| piece.translate(bytes)).now_or_never();
        if first.is_none() {
            let waiting =
                Self::next_interrupt(&self.output, &mut self.context, &mut self.deadlines, &mut self.start_tx);
            first = Some(tokio::select! {
                biased;
                read = session.read_body(|bytes| piece.translate(bytes)) => read,
                interrupt = waiting => return Err(RunEndReason::from_interrupt(interrupt, &self.context)),
            });
        }
        let mut read = first;
        let last = loop {
            match read {
                None => break Ok(true),
                Some(Ok(true))
                    if piece.fault.is_none() && piece.out.len() < BATCH && piece.stream.ending().is_none() => {}
                Some(last) => break last,
            }
            read = session.read_body(|bytes| piece.translate(bytes)).now_or_never();
        };
        let (bytes, took, fault) = (piece.bytes_read, piece.translate_time, piece.fault);
        self.deadlines.on_read();
        // A read that fails at its end has read what came before.
        self.context.record.metrics.inc_bytes_read(bytes);
        self.context.record.bytes.0 += bytes as u64;
        if bytes > 0 {
            self.context.record.metrics.observe_translation(self.stream.report_mut(), took);
        }
        match fault {
            Some(fault) => Err(RunEndReason::from_fault(fault, &self.stream, &self.context)),
            None => last.map_err(|why| RunEndReason::Failed(*why)),
        }
    }

    fn finish_stream(&mut self) -> RunEndReason {
        match self.stream.finish(now_millis(), &mut self.out) {
            Ok(()) => RunEndReason::AgentEnded(self.stream.ending().unwrap_or(RunEnding::Failed)),
            Err(fault) => RunEndReason::from_fault(fault, &self.stream, &self.context),
        }
    }

    /// Waits for `future`, and meanwhile for everything else that can happen to a run.
    async fn await_or_interrupt<F: Future + Unpin>(&mut self, future: F) -> Result<F::Output, RunInterrupt> {
        let waiting = Self::next_interrupt(&self.output, &mut self.context, &mut self.deadlines, &mut self.start_tx);
        tokio::select! {
            biased;
            output = future => Ok(output),
            interrupt = waiting => Err(interrupt),
        }
    }

    async fn next_interrupt(
        output: &RunOutput,
        context: &mut RunContext,
        clock: &mut RunDeadlines,
        head: &mut Option<oneshot::Sender<StartResult>>,
    ) -> RunInterrupt {
        loop {
            tokio::select! {
                lost = output.wait_closed() => return RunInterrupt::Lost(lost),
                () = context.lifecycle.wait_cut() => return RunInterrupt::Cut,
                tick = clock.tick() => {
                    let due = match tick {
                        Err(over) => return RunInterrupt::DeadlineExpired(over),
                        Ok(due) => due,
                    };
                    // The agent may say little, so that there is room for a client that takes nothing.
                    if let Err(lost) = output.drop_stalled() {
                        return RunInterrupt::Lost(lost);
                    }
                    if due {
                        // Before the client was answered there is nothing to keep alive.
                        output.send_keep_alive(head.as_ref().is_none_or(oneshot::Sender::is_closed));
                    }
                }
            }
        }
    }

    /// Gives what was translated to the client, waiting while it is slow.
    async fn flush_output(&mut self) -> Result<(), LogStopReason> {
        self.record_metrics();
        if self.out.is_empty() {
            // An agent that floods with what is no event never lets the run wait for its client's leaving.
            return self.output.wait_closed().now_or_never().map_or(Ok(()), Err);
        }
        let account = &mut self.context.record;
        match self.last_write {
            Some(said) => account.metrics.observe_gap(said.elapsed()),
            None => {
                let first = account.started_at.elapsed();
                account.metrics.observe_first_event(first);
                account.first_event = Some(first);
                self.deadlines.clear_deadline(DeadlineKind::FirstEvent);
            }
        }
        let (length, number) = (self.out.len(), self.stream.last_frame_number());
        tokio::select! {
            biased;
            written = self.output.write(&mut self.out, number) => written?,
            // A client that does not read cannot hold the process back for longer than its drain, and may read yet.
            () = self.context.lifecycle.wait_cut() => self.output.push(&mut self.out, number)?,
            // Nor keep its run beyond a bound.
            () = self.deadlines.wait_expired() => self.output.push(&mut self.out, number)?,
            // Nor at all, when it reads nothing of what waits for it.
            lost = self.output.wait_stalled() => return Err(lost),
        }
        self.last_write = Some(self.deadlines.on_write());
        self.record_bytes_written(length);
        Ok(())
    }

    fn record_bytes_written(&mut self, length: usize) {
        self.context.record.metrics.inc_bytes_written(length);
        self.context.record.bytes.1 += length as u64;
    }

    /// Says the last word to the client, the log and the metrics.
    async fn close(mut self: Box<Self>, end: RunEndReason) -> (RunOutput, LifecycleWatch) {
        let end = match end {
            RunEndReason::ClientGone if self.output.is_unread() => RunEndReason::Unread,
            end => end,
        };
        let cut = matches!(end, RunEndReason::Expired) && self.context.access.on_token_expiry == OnExpiry::Close;
        let stopped = matches!(end, RunEndReason::Stopped);
        let (outcome, mut rejection) = end.into_outcome();
        let refused = match (&rejection, self.start_tx.take()) {
            (Some(rejection), Some(head)) if !head.is_closed() => {
                // Before its client hears of it, which may ask again at once.
                self.output.forget();
                head.send(Err(rejection.clone())).is_ok()
            }
            (None, Some(head)) => {
                // Who waits for the answer hears the end in the stream.
                let _ = head.send(Ok(()));
                false
            }
            _ => false,
        };
        if let Some(rejection) =
            rejection.as_ref().filter(|_| refused && self.context.access.errors == RouteErrorFormat::Http)
        {
            self.context.record.status = rejection.status();
        }
        match &rejection {
            // It was refused to its only client.
            Some(_) if refused && !self.output.is_logged() => {}
            Some(_) if cut => self.output.abort(),
            Some(rejection) => self.fail(rejection).await,
            None if stopped => {
                self.stream.cancel(now_millis(), &mut self.out);
                self.flush_final().await;
            }
            // Who comes back hears why there is no more.
            None if outcome == RunOutcome::ClientGone && self.output.is_logged() => {
                self.fail(rejection.insert(RejectionKind::RunAbandoned.into())).await;
            }
            None => {}
        }
        // What was read and made no event for the client is counted as well.
        self.record_metrics();
        self.context.record.reader_count = self.output.reader_count();
        self.context.record.close(outcome, rejection.as_ref());
        (self.output, self.context.lifecycle)
    }

    /// Ends the run with the gateway's own error.
    async fn fail(&mut self, rejection: &Rejection) {
        self.stream.fail(rejection.kind.code(), rejection.message(), now_millis(), &mut self.out);
        self.flush_final().await;
    }

    /// Says the last words.
    async fn flush_final(&mut self) {
        if self.flush_output().await.is_err() {
            // A client that left meanwhile misses nothing it could hear; one that comes back does.
            self.record_bytes_written(self.out.len());
            let _ = self.output.push(&mut self.out, self.stream.last_frame_number());
        }
    }
}

/// Where a piece of the agent's body goes.
struct TranslationSink<'r> {
    stream: &'r mut Stream,
    out: &'r mut Vec<u8>,
    bytes_read: usize,
    /// how long its translation took
    translate_time: Duration,
    fault: Option<StreamError>,
}

impl TranslationSink<'_> {
    fn translate(&mut self, bytes: &[u8]) {
        self.bytes_read += bytes.len();
        let began = Instant::now();
        if let Err(fault) = self.stream.push(bytes, now_millis(), self.out) {
            self.fault = Some(fault);
        }
        self.translate_time += began.elapsed();
    }
}
