//! Translates one run's event stream as it arrives.

use super::agent_error::AgentError;
use super::allowed_tools::{AllowedTools, ToolCallFilter};
use super::budget::OutputBudget;
use super::frame_reader::{AgentFrame, FrameReader};
use super::reader::EventReader;
use super::report::TranslationReport;
use super::run_guard::{ConversationState, GuardMode, RunGuard, StrictViolation};
use super::stream_error::StreamError;
use super::stream_follower::StreamFollower;
use super::writer::{EventWriter, FrameIds, OutputContext};
use super::{EventSink, RunIds, memory_limits};
use crate::codec::sse::{self, SseLimits};
use crate::codec::{Framing, json, proto};
use crate::dialect::{Dialect, PeerDialect};
use crate::event::run::RunEnding;
use crate::event::{Event, EventLoss, EventType, Field, Json};
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
pub struct Stream {
    frame_reader: FrameReader,
    /// only for a stream that outlives the run
    follower: Option<Box<StreamFollower>>,
    reader: EventReader,
    stages: StreamStages,
}

#[derive(Debug)]
struct StreamStages {
    guard: RunGuard,
    tool_filter: ToolCallFilter,
    writer: EventWriter,
    report: TranslationReport,
    agent: &'static Dialect,
    client: &'static Dialect,
    buffer_limit: usize,
}

/// Code and message for a stopped run that cannot be closed properly.
const CANCELLED_ERROR: (&str, &str) = ("cancelled", "The run was stopped.");

impl Stream {
    /// Creates a stream from `agent` to `client`. Without `ids`, the run keeps the agent's.
    #[must_use]
    pub fn new(agent: PeerDialect, client: PeerDialect, ids: Option<RunIds>, limits: SseLimits) -> Self {
        let labels = |side: PeerDialect| vec![0; side.dialect.other_label_index() + 1].into_boxed_slice();
        Stream {
            frame_reader: FrameReader::new(Framing::Sse, limits),
            follower: None,
            reader: EventReader::new(agent),
            stages: StreamStages {
                writer: EventWriter::new(client, ids.as_ref()),
                guard: RunGuard::new(ids, agent.dialect, client.dialect),
                tool_filter: ToolCallFilter::default(),
                report: TranslationReport {
                    agent: agent.dialect.name,
                    client: client.dialect.name,
                    events_read: labels(agent),
                    events_written: labels(client),
                    ..TranslationReport::default()
                },
                agent: agent.dialect,
                client: client.dialect,
                buffer_limit: limits.frame.max(memory_limits::MIN_BUFFER_LIMIT),
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
        self.stages.tool_filter.set_prior_calls(std::mem::take(&mut conversation.prior_calls));
        self.stages.guard.set_conversation(conversation);
        self
    }

    /// Restricts the tools that the agent may call; `None` allows any.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: Option<Arc<AllowedTools>>) -> Self {
        self.stages.tool_filter.allow(tools);
        self
    }

    /// Limits the events and bytes sent to the client; [`Stream::fail`] is exempt.
    pub(crate) fn with_budget(mut self, events: Option<u64>, bytes: Option<u64>) -> Self {
        self.stages.writer.budget = OutputBudget::new(events, bytes);
        self
    }

    /// Gives frames the ids `<token>-<n>` with n = 1, 2, 3 …, from which a client can resume. The token matches
    /// `[0-9a-z]+`. Comments and protobuf frames have no id.
    #[must_use]
    pub fn with_frame_ids(mut self, token: &str) -> Self {
        self.stages.writer.frame_ids = Some(Box::new(FrameIds { token: token.into(), last_number: 0 }));
        self
    }

    /// Returns the number of the last frame written, or 0 if there is none or frames have no ids.
    #[must_use]
    pub fn last_frame_number(&self) -> u64 {
        self.stages.writer.frame_ids.as_ref().map_or(0, |numbers| numbers.last_number)
    }

    /// Reads a stream that outlives the run; call before the first byte. Drops events of other runs, and events without
    /// a run id before this run begins. `None` reads everything.
    pub(crate) fn follow_run(&mut self, run_id: Option<&str>) {
        self.follower = Some(Box::new(StreamFollower::new(run_id)));
    }

    /// Returns the last frame's `id`, from which to resume a [followed](Stream::follow_run) stream.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.follower.as_ref().and_then(|follow| follow.last_id())
    }

    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        self.frame_reader.retry()
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
        self.stages.writer.framing = framing;
    }

    /// Reads bytes as received and appends the translated events to `out`, at `now` ms since the epoch.
    ///
    /// # Errors
    /// Fails if a frame on either side or the pending events exceed the limit, the agent broke a rule on a strict route
    /// or called a forbidden tool, or the output exceeds its budget; everything before that was written, and nothing
    /// after it will be. The caller must then report the error with [`Stream::fail`].
    pub fn push(&mut self, bytes: &[u8], now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let Stream { frame_reader: frames, follower: follow, reader, stages } = self;
        let mut sink = stages.pipe(now, out);
        frames.push(bytes, &mut |frame| sink.follow_frame(follow, reader, frame))?;
        self.check_room()
    }

    /// Reads one unframed event (a line of NDJSON).
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::push`] does.
    pub(crate) fn push_event(&mut self, data: &str, now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let Stream { reader, stages, .. } = self;
        let mut sink = stages.pipe(now, out);
        sink.process_frame(reader, AgentFrame::from_data(data))?;
        self.check_room()
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
        let mut sink = stages.pipe(now, out);
        frames.finish(&mut |frame| match json::parse_open_object(frame.data) {
            Err(_) if !over => Ok(()),
            _ => sink.follow_frame(follow, reader, frame),
        })?;
        reader.finish(&mut sink);
        self.check_room()?;
        if self.ending().is_some() { Ok(()) } else { Err(StreamError::Truncated) }
    }

    /// Ends the run with RUN_ERROR, unless it has already ended. Earlier agent output remains.
    pub fn fail(&mut self, code: &str, message: &str, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        let Stream { reader, stages, .. } = self;
        let mut sink = stages.pipe(now, out);
        reader.finish(&mut sink);
        let error = Event::new(EventType::RunError).with(Field::Message, Json::string(message));
        // The error fits even if another event did not, and also after a terminal event that did not fit.
        sink.stages.writer.is_full = false;
        sink.stages.writer.budget.allow_final_error();
        sink.stages.tool_filter.acknowledge_stop();
        sink.write_gateway_error(error.with(Field::Code, Json::string(code)));
    }

    /// Ends a run that was stopped on purpose, unless it has ended: closes all items with the outcome `cancelled`, or
    /// sends RUN_ERROR if that is impossible (rules were broken, or the budget is exhausted).
    pub fn cancel(&mut self, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        if self.check_room().is_ok() {
            let Stream { reader, stages, .. } = self;
            let mut sink = stages.pipe(now, out);
            reader.finish(&mut sink);
            sink.cancel();
        }
        let (code, message) = CANCELLED_ERROR;
        self.fail(code, message, now, out);
    }

    fn check_room(&self) -> Result<(), StreamError> {
        self.stages.check_continue()?;
        if !self.stages.writer.is_full {
            return Ok(());
        }
        Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit: proto::FRAME_LIMIT }))
    }

    /// Returns how the run ended, once its terminal event was written.
    #[must_use]
    pub fn ending(&self) -> Option<RunEnding> {
        self.stages.guard.ending().filter(|_| !self.stages.writer.is_full && self.stages.check_continue().is_ok())
    }

    /// Returns the forbidden tool that the agent called, truncated for error messages.
    #[must_use]
    pub fn forbidden_tool(&self) -> Option<&str> {
        self.stages.tool_filter.forbidden_tool()
    }

    /// Returns the first rule that the agent broke on a strict route.
    #[must_use]
    pub fn violation(&self) -> Option<&StrictViolation> {
        self.stages.guard.violation()
    }

    /// Returns the error with which the agent ended the run.
    pub(crate) fn take_agent_error(&mut self) -> Option<Box<AgentError>> {
        self.stages.guard.agent_error.take()
    }

    /// Returns the type of the last event that the agent's dialect has.
    pub(crate) fn last_event_type(&self) -> Option<&'static str> {
        self.reader.last_event_type()
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
        StreamPipe { stages: self, out, now_ms }
    }

    fn check_continue(&self) -> Result<(), StreamError> {
        match self.writer.budget.exceeded() {
            _ if self.tool_filter.is_stopped() => Err(StreamError::ForbiddenTool),
            Some(bound) => Err(StreamError::OverBudget(bound)),
            None => Ok(()),
        }
    }
}

struct StreamPipe<'p> {
    stages: &'p mut StreamStages,
    out: &'p mut Vec<u8>,
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
        (0..frame.dropped_parts).for_each(|_| self.report().count_loss(EventLoss::UnknownPart));
        let agent = self.stages.agent;
        if let Some(trace) = &mut self.report().trace {
            trace.record_frame(frame.data, agent);
        }
        reader.read_frame(frame.data, self);
        self.stages.check_continue()?;
        if let Some(limit) = self.exceeded_limit(reader) {
            return Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit }));
        }
        let StreamStages { guard, report, .. } = &mut *self.stages;
        if guard.may_continue(frame.data, report) { Ok(()) } else { Err(StreamError::Violation) }
    }

    fn exceeded_limit(&self, reader: &EventReader) -> Option<usize> {
        let StreamStages { guard, writer, buffer_limit, .. } = &*self.stages;
        let held = [
            (reader.retained_bytes() + writer.buffered_bytes(), *buffer_limit),
            (guard.retained_bytes, memory_limits::RETAINED_IDS_LIMIT),
        ];
        let beyond = held.into_iter().find(|(held, limit)| held > limit).map(|(_, limit)| limit);
        beyond.filter(|_| guard.ending().is_none())
    }

    fn cancel(&mut self) {
        let now_ms = self.now_ms;
        let StreamPipe { stages: StreamStages { guard, writer, report, client, .. }, out, .. } = self;
        guard.cancel(report, &mut |event, report| {
            write_traced(writer, event, client, &mut OutputContext { out, report, now_ms });
        });
    }

    fn write_gateway_error(&mut self, error: Event<'_>) {
        let now_ms = self.now_ms;
        let StreamPipe { stages: StreamStages { guard, writer, report, client, .. }, out, .. } = self;
        guard.record_gateway_error();
        write_traced(writer, error, client, &mut OutputContext { out, report, now_ms });
    }
}

impl EventSink for StreamPipe<'_> {
    fn emit(&mut self, event: Event<'_>) {
        let now_ms = self.now_ms;
        let StreamPipe { stages: StreamStages { guard, tool_filter, writer, report, agent, client, .. }, out, .. } =
            self;
        if let Some(trace) = &mut report.trace {
            trace.record_canonical(&event, agent);
        }
        guard.process(event, report, &mut |event, report| {
            if tool_filter.admit_event(&event) {
                write_traced(writer, event, client, &mut OutputContext { out, report, now_ms });
            }
        });
    }

    fn report(&mut self) -> &mut TranslationReport {
        &mut self.stages.report
    }
}

fn write_traced(writer: &mut EventWriter, event: Event<'_>, client: &'static Dialect, to: &mut OutputContext<'_>) {
    let before = to.out.len();
    let kind = event.kind;
    if let Some(trace) = &mut to.report.trace {
        trace.record_guarded(&event);
    }
    writer.write_event(event, to);
    if let Some(trace) = &mut to.report.trace {
        match writer.framing {
            Framing::Sse => trace.record_written(&to.out[before..], client),
            Framing::Proto => trace.record_protobuf(kind),
        }
    }
}
