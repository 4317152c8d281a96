//! Translates one run's event stream as it arrives.
//!
//! ```text
//!               terminal event, cancel, fail
//!   Running ─────────────────────────────────────▶ Closed(ending)
//!      │                                             ▲
//!      │ an event is withheld (StreamError)          │ fail
//!      ╰─────────────────▶ Stopped(error) ───────────╯
//! ```
//! An error in the agent's framing leaves the stream `Running`: what was read before it may still be sent.

mod client_output;
mod memory;
mod repetition;
mod mapped_agent;

use super::agent_error::AgentError;
use super::allowed_tools::{AllowedTools, ToolCallFilter};
use super::budget::OutputBudget;
use super::frame_reader::{AgentFrame, FrameReader};
use super::list_budget;
use super::reader::EventReader;
use super::repeated_frames::RepeatedFrames;
use super::report::{EventCounts, TranslationReport};
use super::run_guard::{ConversationState, GuardMode, RunGuard, StrictViolation};
use super::stream_error::{RunStateLimit, StreamError};
use super::stream_follower::StreamFollower;
use super::writer::{EventWriter, FrameIds, OutputContext};
use super::{EventSink, RunIds, memory_limits, not_shown, run_guard};
use crate::codec::sse::SseLimits;
use crate::codec::{Framing, json};
use crate::dialect::{CarryLocation, Dialect, PeerDialect};
use crate::event::run::RunEnding;
use crate::event::{Event, EventLoss};
use client_output::{ClientOutput, StreamState};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Translates the event stream of one run from the agent's dialect to the client's.
///
/// ```
/// use diglot::{codec::sse::SseLimits, dialect::{self, PeerDialect}, translate::{RunIds, Stream}};
///
/// let side = |name| PeerDialect::new(dialect::find_by_name(name).expect("a dialect"));
/// let mut stream = Stream::new(side("hai"), side("ag-ui"), Some(RunIds::new("t1", "r1")), SseLimits::default());
/// let mut out = Vec::new();
/// stream.push(b"data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m\"}\n\n", 0, &mut out)?;
/// assert!(String::from_utf8_lossy(&out).contains(r#""threadId":"t1","runId":"r1""#));
/// # Ok::<(), diglot::translate::StreamError>(())
/// ```
#[derive(Debug)]
// In this order in memory: what every event touches comes first.
#[repr(C)]
pub struct Stream {
    /// only for a stream that outlives the run
    follower: Option<Box<StreamFollower>>,
    frame_reader: FrameReader,
    stages: StreamStages,
    reader: EventReader,
}

#[derive(Debug)]
// In this order in memory: what every event touches comes first.
#[repr(C)]
struct StreamStages {
    frames_read: u64,
    /// the frame before this one, if the next may repeat it
    repeated: Option<Box<RepeatedFrames>>,
    /// what the run retains besides an unfinished frame, unless it has changed: looking at it costs more than
    /// translating a frame that repeats another
    retained_bytes: Option<usize>,
    agent: &'static Dialect,
    may_repeat: bool,
    report: TranslationReport,
    output: ClientOutput,
    guard: RunGuard,
    buffer_limit: usize,
}

impl Stream {
    /// Creates a stream from `agent` to `client`. Without `ids`, the run keeps the agent's.
    #[must_use]
    pub fn new(agent: PeerDialect, client: PeerDialect, ids: Option<RunIds>, limits: SseLimits) -> Self {
        let labels = |side: PeerDialect| EventCounts::new(side.dialect.other_label_index() + 1);
        let buffer_limit = limits.frame.max(memory_limits::MIN_BUFFER_LIMIT);
        let run_id = ids.as_ref().map(|ids| ids.run_id.clone());
        Stream {
            frame_reader: FrameReader::new(Framing::Sse, limits),
            follower: None,
            reader: EventReader::new(agent, run_id).with_ids(ids.as_ref()),
            stages: StreamStages {
                output: ClientOutput {
                    state: StreamState::Running,
                    tool_filter: ToolCallFilter::default(),
                    writer: EventWriter::new(client, ids.as_ref(), buffer_limit),
                    client: client.dialect,
                },
                guard: RunGuard::new(ids, agent.dialect, client),
                report: TranslationReport {
                    agent: agent.dialect.name,
                    client: client.dialect.name,
                    events_read: labels(agent),
                    events_written: labels(client),
                    ..TranslationReport::default()
                },
                agent: agent.dialect,
                buffer_limit,
                frames_read: 0,
                repeated: None,
                may_repeat: true,
                retained_bytes: None,
            },
        }
    }

    /// Sets the mode of the run guard.
    #[must_use]
    pub fn with_guard_mode(mut self, mode: GuardMode) -> Self {
        self.stages.guard.mode = mode;
        self
    }

    /// Sets the conversation that the run continues.
    #[must_use]
    pub fn with_conversation(mut self, mut conversation: ConversationState) -> Self {
        self.stages.output.tool_filter.prior_calls = std::mem::take(&mut conversation.prior_calls);
        self.stages.output.writer.record_earlier(std::mem::take(&mut conversation.earlier_messages));
        self.stages.guard.conversation = conversation;
        self
    }

    /// Begins a conversation with this agent, which may use an id more than once. Without it, the ids are those of
    /// another gateway.
    #[must_use]
    pub fn with_agent(self, agent: PeerDialect) -> Self {
        self.with_conversation(ConversationState::of_agent(agent))
    }

    /// Restricts the tools that the agent may call; `None` allows any.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: Option<Arc<AllowedTools>>) -> Self {
        self.stages.output.tool_filter.allowed = tools;
        self
    }

    /// Translates every frame in full, also one that repeats the one before it.
    #[must_use]
    pub fn without_shortcut(mut self) -> Self {
        self.stages.may_repeat = false;
        self
    }

    /// Limits the events and bytes sent to the client; [`Stream::fail`] is exempt.
    pub(crate) fn with_budget(mut self, events: Option<u64>, bytes: Option<u64>) -> Self {
        self.stages.output.writer.budget = OutputBudget::new(events, bytes);
        self
    }

    /// Gives frames the ids `<token>-<n>` with n = 1, 2, 3 …, from which a client can resume. The token matches
    /// `[0-9a-z]+`. Comments and protobuf frames have no id.
    #[must_use]
    pub fn with_frame_ids(mut self, token: &str) -> Self {
        self.stages.output.writer.frame_ids = Some(Box::new(FrameIds { token: token.into(), last_number: 0 }));
        self
    }

    /// Returns the number of the last frame written, or 0 if there is none or frames have no ids.
    #[must_use]
    pub fn last_frame_number(&self) -> u64 {
        self.stages.output.writer.frame_ids.as_ref().map_or(0, |numbers| numbers.last_number)
    }

    /// Reads a stream that outlives the run; call before the first byte. Drops events of other runs, and events without
    /// a run id before this run begins. `None` reads everything.
    pub(crate) fn follow_run(&mut self, run_id: Option<&str>) {
        self.follower = Some(Box::new(StreamFollower::new(run_id)));
    }

    pub(crate) fn follows_run(&self) -> bool {
        self.follower.is_some()
    }

    /// Returns the last frame's `id`, from which to resume a [followed](Stream::follow_run) stream.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.follower.as_ref().and_then(|follow| follow.last_id())
    }

    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        self.frame_reader.retry()
    }

    /// Returns the number of the agent's events so far. Comments and events of other runs do not count.
    pub(crate) fn frames_read(&self) -> u64 {
        self.stages.frames_read
    }

    /// Continues with another body, requested from [`Stream::last_id`]. Repeated frames are dropped.
    pub(crate) fn resume(&mut self) {
        self.frame_reader.restart();
        if let Some(follow) = &mut self.follower {
            follow.resume();
        }
    }

    /// Reads the agent's body in a framing other than SSE. Call before the first byte.
    pub fn read_as(&mut self, framing: Framing) {
        self.frame_reader = FrameReader::new(framing, self.frame_reader.limits());
    }

    /// Writes to the client in a framing other than SSE; [`Framing::Proto`] is only for the canonical dialect. Call
    /// before the first event.
    pub fn write_as(&mut self, framing: Framing) {
        self.stages.output.writer.framing = framing;
    }

    /// Reads bytes as received and appends the translated events to `out`, at `now` ms since the epoch.
    ///
    /// # Errors
    /// Fails if a frame on either side or the pending events exceed the limit, the agent broke a rule on a strict route
    /// or called a forbidden tool, or the output exceeds its budget; everything before that was written, and nothing
    /// after it will be. The caller must then report the error with [`Stream::fail`].
    pub fn push(&mut self, bytes: &[u8], now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        self.push_until(usize::MAX, bytes, now, out).map(drop)
    }

    /// Does the same until `out` is at least this long, and returns the bytes that are left: a few of them may become
    /// megabytes.
    pub(crate) fn push_until<'b>(
        &mut self,
        full: usize,
        bytes: &'b [u8],
        now: i64,
        out: &mut Vec<u8>,
    ) -> Result<&'b [u8], StreamError> {
        let Stream { frame_reader: frames, follower: follow, reader, stages } = self;
        let mut sink = stages.pipe(now, out);
        let rest = frames.push(bytes, &mut |frame| {
            sink.follow_frame(follow, reader, frame)?;
            Ok(if sink.out.len() < full { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
        sink.report().count_loss_times(EventLoss::MarkedLine, frames.take_marked_lines());
        rest
    }

    /// Reads one unframed event (a line of NDJSON).
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::push`] does.
    pub(crate) fn push_event(&mut self, data: &str, now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        self.push_named_event(None, data, now, out)
    }

    /// Ends the agent's body and writes pending events. The last event may lack its blank line; an incomplete one is
    /// dropped, and breaks no rule except that the run had no end.
    ///
    /// # Errors
    /// Fails if the run had no terminal event, or as [`Stream::push`] does: the caller must then end it with
    /// [`Stream::fail`].
    pub fn finish(&mut self, now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let over = self.ending().is_some();
        let Stream { frame_reader: frames, follower: follow, reader, stages } = self;
        stages.retained_bytes = None;
        let mut sink = stages.pipe(now, out);
        frames.finish(&mut |frame| match json::parse_open_object(frame.data) {
            Err(_) if !over && reader.drops_cut_frame(frame.event_line, frame.data) => Ok(()),
            _ => sink.follow_frame(follow, reader, frame),
        })?;
        sink.report().count_loss_times(EventLoss::MarkedLine, frames.take_marked_lines());
        reader.end_stream(&mut sink);
        reader.finish(&mut sink);
        match &stages.output.state {
            StreamState::Running if reader.unknown_frames().is_some() => Err(StreamError::UnknownDialect),
            StreamState::Running => Err(StreamError::Truncated { last_event_type: reader.last_event_type() }),
            StreamState::Stopped(error) => Err(error.clone()),
            StreamState::Closed(_) => Ok(()),
        }
    }

    /// Ends the run with RUN_ERROR, unless it has already ended. Earlier agent output remains.
    pub fn fail(&mut self, code: &str, message: &str, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        let Stream { reader, stages, .. } = self;
        stages.retained_bytes = None;
        let mut sink = stages.pipe(now, out);
        reader.finish(&mut sink);
        sink.write_final_error(run_guard::make_error(code, message));
    }

    /// Ends a run that was stopped on purpose, unless it has ended: closes all items, and sends RUN_FINISHED with the
    /// outcome `cancelled` to AG-UI 1.0, RUN_ERROR `cancelled` to other dialects. Sends only RUN_ERROR if items cannot
    /// be closed (rules were broken, or the budget is exhausted).
    pub fn cancel(&mut self, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        let Stream { reader, stages, .. } = self;
        stages.retained_bytes = None;
        let mut sink = stages.pipe(now, out);
        reader.finish(&mut sink);
        sink.cancel();
        let (code, message) = run_guard::CANCELLED_ERROR;
        self.fail(code, message, now, out);
    }

    /// Returns how the run ended, once its terminal event was written.
    #[must_use]
    pub fn ending(&self) -> Option<RunEnding> {
        match self.stages.output.state {
            StreamState::Closed(ending) => Some(ending),
            StreamState::Running | StreamState::Stopped(_) => None,
        }
    }

    /// Returns the error with which the agent ended the run.
    pub(crate) fn take_agent_error(&mut self) -> Option<Box<AgentError>> {
        self.stages.guard.agent_error.take()
    }

    /// Returns the counts of events, repairs and losses since the start or since they were last taken.
    #[must_use]
    pub fn report(&self) -> &TranslationReport {
        &self.stages.report
    }

    pub(crate) fn report_mut(&mut self) -> &mut TranslationReport {
        &mut self.stages.report
    }
}

impl StreamStages {
    fn pipe<'p>(&'p mut self, now_ms: i64, out: &'p mut Vec<u8>) -> StreamPipe<'p> {
        StreamPipe { stages: self, frame_start: out.len(), out, now_ms }
    }

    /// Returns an error if the run must end after the frame `data`.
    fn check_frame(&mut self, data: &str, reader: &EventReader) -> Result<(), StreamError> {
        match &self.output.state {
            StreamState::Running => {}
            StreamState::Stopped(error) => return Err(error.clone()),
            StreamState::Closed(_) => return Ok(()),
        }
        if let Some(limit) = self.exceeded_limit(reader) {
            return Err(StreamError::TooMuchState(limit));
        }
        let Some(rule) = self.report.broken_rule.filter(|_| self.guard.mode == GuardMode::Strict) else {
            return Ok(());
        };
        let error = StreamError::Violation(Box::new(StrictViolation::new(rule, data)));
        self.output.state = StreamState::Stopped(error.clone());
        Err(error)
    }
}

struct StreamPipe<'p> {
    stages: &'p mut StreamStages,
    out: &'p mut Vec<u8>,
    /// length of the output before the agent's frame
    frame_start: usize,
    now_ms: i64,
}

impl StreamPipe<'_> {
    fn follow_frame(
        &mut self,
        follow: &mut Option<Box<StreamFollower>>,
        reader: &mut EventReader,
        frame: AgentFrame<'_>,
    ) -> Result<(), StreamError> {
        match follow.as_mut().and_then(|follow| follow.skip_reason(&frame)) {
            None => self.process_frame(reader, frame),
            Some(loss) => {
                self.report().count_loss(loss);
                Ok(())
            }
        }
    }

    fn process_frame(&mut self, reader: &mut EventReader, frame: AgentFrame<'_>) -> Result<(), StreamError> {
        self.stages.frames_read += u64::from(!frame.data.is_empty());
        self.stages.output.writer.growth.add(frame.sse_length());
        if frame.dropped_parts == 0 && self.repeat_frame(reader, &frame) {
            return Ok(());
        }
        self.stages.retained_bytes = None;
        let before = self.stages.repeated.take();
        let marks = self.stages.marks(reader);
        let out_before = self.out.len();
        self.frame_start = out_before;
        let frames_before = self.stages.output.writer.frames_written;
        (0..frame.dropped_parts).for_each(|_| self.report().count_loss(EventLoss::UnknownPart));
        if list_budget::exceeds_limit(frame.data) && matches!(self.stages.output.state, StreamState::Running) {
            return Err(StreamError::TooMuchState(RunStateLimit::ListElements));
        }
        let agent = self.stages.agent;
        if let Some(trace) = &mut self.report().trace {
            trace.record_frame(frame.data, agent);
        }
        reader.read_frame(frame.event_line, frame.data, self);
        self.stages.check_frame(frame.data, reader)?;
        let is_one_frame = self.stages.output.writer.frames_written == frames_before + 1;
        if is_one_frame && self.stages.marks(reader) == marks {
            self.stages.repeated = self.stages.learn_frame(before, reader, &frame, &self.out[out_before..]);
        }
        Ok(())
    }

    fn cancel(&mut self) {
        let StreamPipe { stages: StreamStages { guard, output, report, .. }, out, frame_start, now_ms } = self;
        if !matches!(output.state, StreamState::Running) {
            return;
        }
        let reads_outcome = output.client.carry_location == CarryLocation::Native;
        let ending = guard.cancel(reads_outcome, report, &mut |event, report| {
            output.send(
                event,
                &mut OutputContext { out, frame_start: *frame_start, report, now_ms: *now_ms, is_final_error: false },
            );
        });
        output.close(ending);
    }

    fn write_final_error(&mut self, error: Event<'_>) {
        let StreamPipe { stages: StreamStages { output, report, .. }, out, frame_start, now_ms } = self;
        let mut to = OutputContext { out, frame_start: *frame_start, report, now_ms: *now_ms, is_final_error: true };
        // A RUN_ERROR of the gateway is small enough for any frame.
        let _ = output.write(error, &mut to);
        output.state = StreamState::Closed(RunEnding::Failed);
    }
}

impl EventSink for StreamPipe<'_> {
    fn emit(&mut self, event: Event<'_>) {
        let StreamPipe { stages: StreamStages { guard, output, report, agent, .. }, out, frame_start, now_ms } = self;
        if let Some(trace) = &mut report.trace {
            trace.record_canonical(&event, agent);
        }
        if matches!(output.state, StreamState::Closed(_)) {
            return report.count_loss(EventLoss::AfterTerminal);
        }
        if !agent.shown_members.is_empty() && *agent != output.client {
            report.count_loss_times(EventLoss::TextNotShown, not_shown::count_shown_members(&event, agent));
        }
        let ending = guard.process(event, report, &mut |event, report| {
            output.send(
                event,
                &mut OutputContext { out, frame_start: *frame_start, report, now_ms: *now_ms, is_final_error: false },
            );
        });
        output.close(ending);
    }

    fn report(&mut self) -> &mut TranslationReport {
        &mut self.stages.report
    }
}
