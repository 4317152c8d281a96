//! One run: a future that reads from the agent and writes to the client.
//!
//! ```text
//!                send_request: head of an event stream                relay: terminal event, end, failure
//!   Requesting ───────────────────────────────────────▶ Streaming ──────────────────────────────────────────▶ Ended
//!       │                                                │     ▲                                                │
//!       │                                                ╰─────╯ reconnect: a two-step agent's stream broke     │ close
//!       ╰── refusal, no event stream ──▶ Unstarted ─────────────────────────────────────────────────────────────┴──▶
//! ```
//! `close` sends the terminal event, or a rejection if the client has no response yet. Until then the run may also be
//! ended by a disconnect (or, if it survives that, by a stop or a lack of readers), by shutdown or by a deadline.

mod capture;
mod late_events;
mod close;
mod interrupt;
mod prefetch;

pub(super) use capture::OptionalCapture;
use interrupt::InterruptSources;

use super::agent_client::{ReconnectBudget, ReconnectSource, is_retryable, is_stream_break};
use super::deadlines::{DeadlineKind, RunDeadlines, now_millis};
use super::read_pace::ReadPace;
use super::registered_waker::RegisteredWaker;
use super::run_context::{AgentRequest, RunContext, StartSender};
use super::run_end::{ReadEnd, ReconnectOutcome, RunEndReason, RunInterrupt};
use super::run_memory::RunMemoryShare;
use super::run_output::RunOutput;
use super::slow_clients::AGENT_READ_BUFFER;
use super::spare_buffer;
use super::translation_sink::{AgentBacklog, TranslationSink};
use super::upstream::Session;
use crate::error::{Rejection, RejectionKind};
use crate::event::run::RunEnding;
use crate::inspect::CaptureStep;
use crate::replay::LogStopReason;
use crate::telemetry::internal_event;
use crate::telemetry::label::EventDirection;
use crate::translate::Stream;
use futures_util::future::{BoxFuture, FutureExt};
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::time::Instant;

/// The states in the diagram above.
enum RunState {
    Requesting {
        request: Box<AgentRequest>,
        start_tx: StartSender,
    },
    Streaming {
        session: Box<Session>,
        source: Option<Box<ReconnectSource>>,
    },
    /// ended before its stream began
    Unstarted {
        reason: Box<RunEndReason>,
        start_tx: StartSender,
    },
    Ended {
        reason: Box<RunEndReason>,
        /// present if the agent ended the run
        session: Option<Box<Session>>,
    },
}

// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct RunTask {
    output: RunOutput,
    capture: OptionalCapture,
    /// as of the last read or wait: reading the clock for each use would cost more than some translations
    now: Instant,
    /// whether this batch waited for its agent, and so has looked for a cut and at the deadlines
    has_waited: bool,
    waits_for_event: bool,
    interrupt_waker: RegisteredWaker,
    last_write: Option<Instant>,
    out: Vec<u8>,
    pace: ReadPace,
    backlog: AgentBacklog,
    deadlines: RunDeadlines,
    context: RunContext,
    memory: RunMemoryShare,
    stream: Stream,
}

impl RunTask {
    pub(super) fn new(
        context: RunContext,
        capture: OptionalCapture,
        mut stream: Stream,
        output: RunOutput,
        memory: RunMemoryShare,
    ) -> Self {
        stream.report_mut().agent_names = capture.names_types().then(Box::default);
        RunTask {
            deadlines: context.start_deadlines(),
            context,
            capture,
            stream,
            output,
            backlog: AgentBacklog::default(),
            pace: ReadPace::default(),
            memory,
            out: Vec::new(),
            last_write: None,
            now: Instant::now(),
            has_waited: false,
            waits_for_event: true,
            interrupt_waker: RegisteredWaker::default(),
        }
    }

    /// Executes the run to its end and records the outcome. To keep a waiting run small, everything except relaying is
    /// boxed, and a block is used because an `async fn` stores its arguments twice.
    pub(super) fn run(
        mut self: Box<Self>,
        request: Box<AgentRequest>,
        start_tx: StartSender,
    ) -> impl Future<Output = ()> + Send {
        let mut state = RunState::Requesting { request, start_tx };
        async move {
            let closed = loop {
                state = match state {
                    RunState::Requesting { request, start_tx } => self.send_request(request, start_tx).boxed().await,
                    RunState::Streaming { session, source } => self.relay(session, source).await,
                    RunState::Unstarted { reason, start_tx } => {
                        break self.close(*reason, Some(start_tx), None).boxed().await;
                    }
                    RunState::Ended { reason, session } => break self.close(*reason, None, session).boxed().await,
                };
            };
            closed.finish().boxed().await;
        }
    }

    async fn send_request(&mut self, request: Box<AgentRequest>, start_tx: StartSender) -> RunState {
        match self.open_stream(request, &start_tx).await {
            Ok((session, source)) => {
                // Fails if the client's response has already begun because the agent was slow.
                let _ = start_tx.send(Ok(()));
                self.restart_stream_timeouts();
                self.context.record.summary.upstream = Some(session.in_flight.upstream_label());
                RunState::Streaming { session, source }
            }
            Err(reason) => RunState::Unstarted { reason: Box::new(reason), start_tx },
        }
    }

    fn restart_stream_timeouts(&mut self) {
        let timeouts = &self.context.cluster.settings.timeouts;
        self.deadlines.restart_stream(timeouts.idle, timeouts.ping_only_limit());
    }

    async fn open_stream(
        &mut self,
        request: Box<AgentRequest>,
        start_tx: &StartSender,
    ) -> Result<(Box<Session>, Option<Box<ReconnectSource>>), RunEndReason> {
        let AgentRequest { client, body, target, body_permit: _body_permit, framings } = *request;
        self.capture.moment("sent", || Some(format!("{} bytes", body.len())));
        let cluster = Arc::clone(&self.context.cluster);
        self.deadlines.restart_idle(cluster.settings.timeouts.first_byte);
        let Some(template) = cluster.settings.events.clone() else {
            let response = async move { client.run_one_step(body, &target, framings).await }.boxed();
            let (session, framing) = self.await_response(response, Some(start_tx)).await?;
            self.stream.read_as(framing);
            self.capture.step(|| CaptureStep::Responded(framing));
            return Ok((session, None));
        };
        let ids = self.context.record.ids.clone();
        let started = async move { client.run_two_step(body, &target, &ids, &template).await }.boxed();
        let events = Arc::new(self.await_response(started, Some(start_tx)).await?);
        self.stream.follow_run(events.run_id.as_deref());
        self.capture.step(|| CaptureStep::Followed(events.run_id.as_deref().map(Into::into)));
        // Each step may use the entire timeout.
        self.deadlines.restart_idle(cluster.settings.timeouts.first_byte);
        let source = Box::new(ReconnectSource { events: Arc::clone(&events), budget: ReconnectBudget::default() });
        let response = async move { events.open_stream(None).await }.boxed();
        Ok((self.await_response(response, Some(start_tx)).await?, Some(source)))
    }

    /// Waits for the agent's response. `start_tx` is present if the client has no response yet. Boxed, since connecting
    /// needs a large future, but only early in the run.
    async fn await_response<T>(
        &mut self,
        response: BoxFuture<'static, Result<T, Rejection>>,
        start_tx: Option<&StartSender>,
    ) -> Result<T, RunEndReason> {
        let interrupt = tokio::select! {
            biased;
            response = response => return response.map_err(RunEndReason::Failed),
            interrupt = self.next_interrupt(start_tx) => interrupt,
        };
        Err(match interrupt {
            RunInterrupt::DeadlineExpired(DeadlineKind::AgentIdle) => {
                let limit = self.context.cluster.settings.timeouts.first_byte;
                RunEndReason::Failed(Rejection::from(RejectionKind::UpstreamTimeout).with_detail(format!(
                    "The agent did not answer within {limit:?} (`timeouts.first_byte` of the route)."
                )))
            }
            interrupt => RunEndReason::from_interrupt(interrupt, &self.context),
        })
    }

    async fn next_interrupt(&mut self, start_tx: Option<&StartSender>) -> RunInterrupt {
        let Self { interrupt_waker, output, capture, context, deadlines, .. } = self;
        let mut sources = InterruptSources { output, capture, context, deadlines, start_tx };
        poll_fn(|cx| sources.poll(interrupt_waker, cx)).await
    }

    async fn relay(&mut self, mut session: Box<Session>, source: Option<Box<ReconnectSource>>) -> RunState {
        let reason = loop {
            if let ControlFlow::Break(end) = self.read_batch(&mut session).await {
                // Boxed: it runs once, and is larger than waiting for the next piece.
                return self.end_body(session, source, end).boxed().await;
            }
            if let Err(stopped) = self.flush_output().await {
                break stopped.into();
            }
            if std::mem::take(&mut self.has_waited) {
                continue;
            }
            // If the agent floods the gateway, the run never waits, so shutdown and deadlines are checked here as well.
            if self.context.lifecycle.is_cut() {
                break RunEndReason::Drained;
            }
            if let Some(expired) = self.deadlines.find_expired(self.now) {
                break RunEndReason::from_deadline(expired, &self.context);
            }
        };
        RunState::Ended { reason: Box::new(reason), session: None }
    }

    /// Reconnects to the agent, or ends the run.
    async fn end_body(
        &mut self,
        mut session: Box<Session>,
        mut source: Option<Box<ReconnectSource>>,
        end: ReadEnd,
    ) -> RunState {
        let broke = match &end {
            ReadEnd::BodyEnded => true,
            ReadEnd::Interrupted(RunEndReason::Failed(rejection)) => is_stream_break(rejection),
            ReadEnd::Interrupted(_) | ReadEnd::Terminal(_) => false,
        };
        let reconnected = match source.as_deref_mut().filter(|_| broke && self.stream.ending().is_none()) {
            Some(source) => self.reconnect(source).await,
            None => ReconnectOutcome::Exhausted(None),
        };
        let reason = match reconnected {
            ReconnectOutcome::Resumed(next) => {
                session.finish(Some(&RejectionKind::UpstreamReset.into()));
                return RunState::Streaming { session: next, source };
            }
            ReconnectOutcome::Exhausted(failure) => self.finish_body(end, failure).await,
            ReconnectOutcome::Interrupted(reason) => reason,
        };
        // The agent causes no other kind of end; for the others, the span records that the gateway stopped reading.
        match &reason {
            RunEndReason::AgentEnded(_) => session.finish(None),
            RunEndReason::Failed(rejection) => session.finish(Some(rejection)),
            _ => {}
        }
        let is_released = matches!(reason, RunEndReason::AgentEnded(_));
        RunState::Ended { reason: Box::new(reason), session: is_released.then_some(session) }
    }

    async fn finish_body(&mut self, end: ReadEnd, reconnect_failure: Option<Rejection>) -> RunEndReason {
        let reason = match end {
            ReadEnd::Terminal(ending) => RunEndReason::AgentEnded(ending),
            ReadEnd::BodyEnded => {
                self.capture.step(|| CaptureStep::BodyEnded);
                match self.stream.finish(now_millis(), &mut self.out) {
                    Ok(()) => RunEndReason::AgentEnded(self.stream.ending().unwrap_or(RunEnding::Failed)),
                    Err(fault) => RunEndReason::from_fault(fault, &self.context),
                }
            }
            ReadEnd::Interrupted(reason) => reason,
        };
        let reason = reason.with_cause(reconnect_failure);
        // The terminal event ends the run, whatever follows it.
        let reason = self.stream.ending().map_or(reason, RunEndReason::AgentEnded);
        self.flush_output().await.map_or_else(RunEndReason::from, |()| reason)
    }

    /// Requests the events after the last one received.
    async fn reconnect(&mut self, source: &mut ReconnectSource) -> ReconnectOutcome {
        // The client gets what has arrived so far, since the agent may take its time.
        if let Err(stopped) = self.flush_output().await {
            return ReconnectOutcome::Interrupted(stopped.into());
        }
        let mut failure = None;
        while let Some(id) = self.stream.last_id() {
            let Some(delay) = source.budget.next_delay(id, self.stream.retry()) else { break };
            let id = id.to_owned();
            let events = Arc::clone(&source.events);
            let response = async move {
                tokio::time::sleep(delay).await;
                events.open_stream(Some(&id)).await
            };
            self.deadlines.restart_idle(delay + self.context.cluster.settings.timeouts.first_byte);
            match self.await_response(response.boxed(), None).await {
                Ok(session) => {
                    let last_event_id = self.stream.last_id().unwrap_or_default();
                    internal_event::AgentStreamResumed { run: self.context.record.log_fields(), last_event_id }.emit();
                    self.context.record.summary.reconnects += 1;
                    self.stream.resume();
                    self.capture.step(|| CaptureStep::Reconnected);
                    self.restart_stream_timeouts();
                    return ReconnectOutcome::Resumed(session);
                }
                Err(RunEndReason::Failed(rejection)) => {
                    let retryable = is_retryable(&rejection);
                    failure = Some(rejection);
                    if !retryable {
                        break;
                    }
                }
                Err(reason) => return ReconnectOutcome::Interrupted(reason),
            }
        }
        ReconnectOutcome::Exhausted(failure)
    }

    /// Reads at least one piece of the body, plus any others that are ready.
    async fn read_batch(&mut self, session: &mut Session) -> ControlFlow<ReadEnd> {
        self.backlog.wait_for_turn().await;
        self.pace.wait_for_events(|| session.raise_low_water_mark()).await;
        if !self.memory.try_grow()
            && let Err(reason) = self.wait_for_memory().boxed().await
        {
            return ControlFlow::Break(ReadEnd::Interrupted(reason));
        }
        if self.backlog.has_large_event() {
            self.backlog.wait_for_large_work().boxed().await;
        }
        poll_fn(|cx| self.poll_batch(session, cx)).await
    }

    /// Keeps nothing between two polls, so that a wake-up finds all of a waiting run in its fields.
    fn poll_batch(&mut self, session: &mut Session, cx: &mut Context<'_>) -> Poll<ControlFlow<ReadEnd>> {
        self.prefetch(session);
        let frames_before = self.stream.frames_read();
        let mut sink = TranslationSink::new(&mut self.stream, &mut self.memory, &mut self.out, &mut self.backlog);
        sink.capture = self.capture.0.as_deref();
        session.limit_reads(sink.max_read());
        let mut read = if sink.translate_backlog() {
            Poll::Ready(Ok(true))
        } else {
            session.poll_body(cx, &mut |bytes| sink.translate(bytes))
        };
        if read.is_pending() {
            self.has_waited = true;
            let Self { interrupt_waker, output, capture, context, deadlines, .. } = self;
            let mut sources = InterruptSources { output, capture, context, deadlines, start_tx: None };
            let interrupt = ready!(sources.poll(interrupt_waker, cx));
            let reason = RunEndReason::from_interrupt(interrupt, &self.context);
            return Poll::Ready(ControlFlow::Break(ReadEnd::Interrupted(reason)));
        }
        let (last, is_drained) = loop {
            match read {
                Poll::Pending => break (Ok(true), true),
                Poll::Ready(Ok(true)) if !session.may_have_more() => break (Ok(true), true),
                Poll::Ready(Ok(true)) if sink.has_room() => session.limit_reads(sink.max_read()),
                Poll::Ready(last) => break (last, false),
            }
            // The run polls again before it waits.
            read = session.poll_body(&mut Context::from_waker(Waker::noop()), &mut |bytes| sink.translate(bytes));
        };
        let TranslationSink { bytes_read, translate_time, ended_at, fault, .. } = sink;
        let events = self.stream.frames_read() - frames_before;
        self.now = ended_at.unwrap_or_else(Instant::now);
        self.deadlines.on_read(self.now, events > 0);
        self.pace.on_read(events, is_drained);
        // A read that fails has still delivered the bytes before the failure.
        self.context.record.metrics.series.bytes.get(EventDirection::FromAgent).inc_by(bytes_read as u64);
        self.context.record.summary.bytes_read += bytes_read as u64;
        if bytes_read > 0 {
            self.context.record.metrics.observe_translation(self.stream.report_mut(), translate_time);
        }
        Poll::Ready(ControlFlow::Break(match (fault, last) {
            (Some(fault), _) => ReadEnd::Interrupted(RunEndReason::from_fault(fault, &self.context)),
            (None, Err(rejection)) => ReadEnd::Interrupted(RunEndReason::Failed(*rejection)),
            (None, Ok(false)) => ReadEnd::BodyEnded,
            (None, Ok(true)) => match self.stream.ending() {
                Some(ending) => ReadEnd::Terminal(ending),
                None => return Poll::Ready(ControlFlow::Continue(())),
            },
        }))
    }

    /// Waits until other runs hold less.
    async fn wait_for_memory(&mut self) -> Result<(), RunEndReason> {
        self.deadlines.pause_agent();
        let Self { interrupt_waker, output, capture, context, deadlines, memory, .. } = self;
        let mut sources = InterruptSources { output, capture, context, deadlines, start_tx: None };
        let waited = tokio::select! {
            biased;
            room = memory.wait_for_room() => room.map_err(RunEndReason::from),
            interrupt = poll_fn(|cx| sources.poll(interrupt_waker, cx)) => {
                Err(RunEndReason::from_interrupt(interrupt, sources.context))
            }
        };
        self.deadlines.resume_agent();
        waited
    }

    async fn flush_output(&mut self) -> Result<(), LogStopReason> {
        // Before the client can send the thread's next request.
        if let Some(thread) = &mut self.context.thread {
            if self.last_write.is_none() && self.stream.frames_read() > 0 {
                thread.begin();
            }
            if let Some(change) = self.stream.take_thread_change() {
                // Boxed: it is rare, and every run would have room for it.
                Box::pin(thread.change(change)).await;
            }
        }
        self.capture.types(self.stream.report_mut());
        self.context.record_metrics(self.stream.report_mut());
        self.capture.update(&self.context.record);
        if self.out.is_empty() {
            spare_buffer::put_back(std::mem::take(&mut self.out));
            // While an agent floods the gateway with bytes that form no events, the run never waits for the client to
            // disconnect.
            return self.output.find_stop().map_or(Ok(()), Err);
        }
        let record = &mut self.context.record;
        match self.last_write {
            Some(last_write) => {
                let gap = self.now.saturating_duration_since(last_write);
                record.metrics.series.gap.observe(gap);
                self.pace.on_write(gap);
            }
            None => {
                let latency = self.now.saturating_duration_since(record.started_at);
                record.metrics.series.first_event.observe(latency);
                record.summary.first_event = Some(latency);
            }
        }
        // Frames without data are passed on, but are no events.
        if self.waits_for_event && self.stream.frames_read() > 0 {
            self.waits_for_event = false;
            self.deadlines.clear_deadline(DeadlineKind::FirstEvent);
        }
        let length = self.out.len();
        let number = self.stream.last_frame_number();
        match self.output.write(&mut self.out, number).now_or_never() {
            Some(written) => written?,
            // Boxed: most clients read in time.
            None => {
                self.memory.resize(self.stream.retained_bytes() + length);
                let began = Instant::now();
                let waited = self.wait_for_client(number).boxed().await;
                self.capture.client_wait(began);
                waited?;
                self.memory.resize(self.stream.retained_bytes());
                self.now = Instant::now();
                self.has_waited = false;
            }
        }
        spare_buffer::put_back(std::mem::take(&mut self.out));
        self.last_write = Some(self.now);
        self.deadlines.on_write(self.now);
        self.context.record.count_written(length);
        Ok(())
    }

    /// Writes as soon as the client has read enough, or without it.
    async fn wait_for_client(&mut self, number: u64) -> Result<(), LogStopReason> {
        let slow_clients = Arc::clone(&self.context.slow_clients);
        let bytes = self.output.unread_bytes() + self.out.capacity() + AGENT_READ_BUFFER;
        let waiting = slow_clients.wait(self.context.caller_key, bytes);
        tokio::select! {
            biased;
            written = self.output.write(&mut self.out, number) => return written,
            // A client that does not read cannot delay the process beyond its drain, but may still read later.
            () = self.context.lifecycle.wait_cut() => {}
            // Nor can it keep its run open beyond a deadline,
            () = self.deadlines.wait_expired() => {}
            // nor keep it open at all if it reads nothing,
            reason = self.output.wait_stalled() => return Err(reason),
            // or if many others wait, too.
            () = waiting.wait_cut_off() => {
                internal_event::SlowClientCutOff { run: self.context.record.log_fields() }
                    .emit(&self.context.slow_clients.metrics);
                self.output.cut_off_clients()?;
            }
        }
        self.output.push(&mut self.out, number)
    }
}

#[cfg(test)]
mod tests;
