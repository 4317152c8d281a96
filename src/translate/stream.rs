//! Translates one run's event stream as it arrives.

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
    /// for a stream that outlives the run
    follower: Option<Box<StreamFollower>>,
    reader: EventReader,
    guard: RunGuard,
    tool_filter: ToolCallFilter,
    writer: EventWriter,
    report: TranslationReport,
    dialects: DialectPair,
    buffer_limit: usize,
}

/// Code and message of the error that ends a stopped run which cannot be closed in order.
const CANCELLED_ERROR: (&str, &str) = ("cancelled", "The run was stopped.");

type DialectPair = (&'static Dialect, &'static Dialect);

impl Stream {
    /// Creates a stream from `agent` to `client`. Without `ids` the run keeps the agent's.
    #[must_use]
    pub fn new(agent: PeerDialect, client: PeerDialect, ids: Option<RunIds>, limits: SseLimits) -> Self {
        let labels = |side: PeerDialect| vec![0; side.dialect.other_label_index() + 1].into_boxed_slice();
        Stream {
            frame_reader: FrameReader::new(Framing::Sse, limits),
            follower: None,
            reader: EventReader::new(agent),
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
            dialects: (agent.dialect, client.dialect),
            buffer_limit: limits.frame.max(memory_limits::MIN_BUFFER_LIMIT),
        }
    }

    /// Sets the mode of the run guard.
    #[must_use]
    pub fn with_guard_mode(mut self, mode: GuardMode) -> Self {
        self.guard.mode = mode;
        self
    }

    /// Sets the conversation that the run continues.
    #[must_use]
    pub fn with_conversation(mut self, mut conversation: ConversationState) -> Self {
        self.tool_filter.set_prior_calls(std::mem::take(&mut conversation.prior_calls));
        self.guard.set_conversation(conversation);
        self
    }

    /// Restricts the tools that the agent may call; `None` allows any.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: Option<Arc<AllowedTools>>) -> Self {
        self.tool_filter.allow(tools);
        self
    }

    /// Limits the events and bytes sent to the client; [`Stream::fail`] is exempt.
    #[must_use]
    pub(crate) fn with_budget(mut self, events: Option<u64>, bytes: Option<u64>) -> Self {
        self.writer.budget = OutputBudget::new(events, bytes);
        self
    }

    /// Gives frames the ids `<token>-<n>` with n = 1, 2, 3 …, from which a client can resume. The token consists of
    /// `[0-9a-z]`. Comments and protobuf frames have no id.
    #[must_use]
    pub fn with_frame_ids(mut self, token: &str) -> Self {
        self.writer.frame_ids = Some(Box::new(FrameIds { token: token.into(), last_number: 0 }));
        self
    }

    /// Returns the number of the last frame written; 0 before the first, and where frames have no ids.
    #[must_use]
    pub fn last_frame_number(&self) -> u64 {
        self.writer.frame_ids.as_ref().map_or(0, |numbers| numbers.last_number)
    }

    /// Reads from an agent's stream that outlives the run; call before the first byte. Events naming another run than
    /// `run_id` are left out, along with those naming none between them and the first that names this run. Without an
    /// id all are read.
    pub(crate) fn follow_run(&mut self, run_id: Option<&str>) {
        self.follower = Some(Box::new(StreamFollower::new(run_id)));
    }

    /// Returns the `id` of the last frame of a [followed](Stream::follow_run) stream, from which the agent can resume.
    /// `None` where that frame had none: the events since the last id would be repeated.
    #[must_use]
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.follower.as_ref().and_then(|follow| follow.last_id())
    }

    #[must_use]
    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        self.frame_reader.retry()
    }

    /// Begins another body, requested from [`Stream::last_id`] on. Unfinished data of the last body comes again, and
    /// repeated frames are left out.
    pub(crate) fn resume(&mut self) {
        self.frame_reader.restart();
        if let Some(follow) = &mut self.follower {
            follow.resume();
        }
    }

    /// Reads the agent's body in another framing than SSE. Call before the first byte.
    pub fn read_as(&mut self, framing: Framing) {
        self.frame_reader = FrameReader::new(framing, self.frame_reader.limits());
    }

    /// Writes for the client in another framing than SSE; [`Framing::Proto`] is for the canonical dialect alone. Call
    /// before the first event.
    pub fn write_as(&mut self, framing: Framing) {
        self.writer.framing = framing;
    }

    /// Reads bytes as received and appends the translated events to `out`, at `now` ms since the epoch.
    ///
    /// # Errors
    /// Fails if a frame on either side or the pending events exceed the limit, the agent broke a rule on a strict route, it
    /// called a forbidden tool, or the output exceeds its budget; everything before that was written, and nothing after
    /// it will be. The caller must then report the error with [`Stream::fail`].
    pub fn push(&mut self, bytes: &[u8], now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let Stream {
            frame_reader: frames,
            follower: follow,
            reader,
            guard,
            tool_filter: tools,
            writer,
            report,
            dialects,
            buffer_limit: waiting,
        } = self;
        let to = OutputContext { out, report, now_ms: now };
        let mut sink =
            StreamPipe { guard, tool_filter: tools, writer, output: to, dialects: *dialects, buffer_limit: *waiting };
        frames.push(bytes, &mut |frame| sink.follow_frame(follow, reader, frame))?;
        self.check_room()
    }

    /// Reads one event without framing (a line of NDJSON).
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub(crate) fn push_event(&mut self, data: &str, now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let Stream { reader, guard, tool_filter: tools, writer, report, dialects, buffer_limit: waiting, .. } = self;
        let to = OutputContext { out, report, now_ms: now };
        let mut sink =
            StreamPipe { guard, tool_filter: tools, writer, output: to, dialects: *dialects, buffer_limit: *waiting };
        sink.process_frame(reader, AgentFrame::from_data(data))?;
        self.check_room()
    }

    /// Ends the agent's body: writes pending events. A last event may lack its blank line; an incomplete one is
    /// dropped, and breaks no rule except that the run had no end.
    ///
    /// # Errors
    /// Fails if the run had no terminal event, or as [`Stream::push`] does: the caller must then end it with [`Stream::fail`].
    pub fn finish(&mut self, now: i64, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let over = self.ending().is_some();
        let Stream {
            frame_reader: frames,
            follower: follow,
            reader,
            guard,
            tool_filter: tools,
            writer,
            report,
            dialects,
            buffer_limit: waiting,
        } = self;
        let to = OutputContext { out, report, now_ms: now };
        let mut sink =
            StreamPipe { guard, tool_filter: tools, writer, output: to, dialects: *dialects, buffer_limit: *waiting };
        frames.finish(&mut |frame| match json::parse_open_object(frame.data) {
            Err(_) if !over => Ok(()),
            _ => sink.follow_frame(follow, reader, frame),
        })?;
        reader.finish(&mut sink);
        self.check_room()?;
        if self.ending().is_some() { Ok(()) } else { Err(StreamError::Truncated) }
    }

    /// Ends the run with RUN_ERROR, unless it has ended. Earlier output of the agent remains.
    pub fn fail(&mut self, code: &str, message: &str, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        let Stream { reader, guard, tool_filter: tools, writer, report, dialects, buffer_limit: waiting, .. } = self;
        let to = OutputContext { out, report, now_ms: now };
        let mut sink =
            StreamPipe { guard, tool_filter: tools, writer, output: to, dialects: *dialects, buffer_limit: *waiting };
        reader.finish(&mut sink);
        let error = Event::new(EventType::RunError).with(Field::Message, Json::string(message));
        // The error fits even where another event did not, and also after a terminal event that did not fit.
        sink.writer.is_full = false;
        sink.writer.budget.allow_final_error();
        sink.tool_filter.acknowledge_stop();
        sink.write_gateway_error(error.with(Field::Code, Json::string(code)));
    }

    /// Ends a run that was stopped on purpose, unless it has ended: closes open items in order, and finishes it with
    /// the outcome `cancelled`, as far as the client's dialect has one. Where it cannot be closed in order, because the
    /// client received rule-breaking events or its budget is exhausted, it ends with RUN_ERROR.
    pub fn cancel(&mut self, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        if self.check_room().is_ok() {
            let Stream { reader, guard, tool_filter: tools, writer, report, dialects, buffer_limit: waiting, .. } =
                self;
            let to = OutputContext { out, report, now_ms: now };
            let mut sink = StreamPipe {
                guard,
                tool_filter: tools,
                writer,
                output: to,
                dialects: *dialects,
                buffer_limit: *waiting,
            };
            reader.finish(&mut sink);
            sink.cancel();
        }
        let (code, message) = CANCELLED_ERROR;
        self.fail(code, message, now, out);
    }

    fn check_room(&self) -> Result<(), StreamError> {
        check_continue(&self.tool_filter, &self.writer)?;
        if !self.writer.is_full {
            return Ok(());
        }
        Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit: proto::FRAME_LIMIT }))
    }

    /// Returns the ending of the run once its terminal event was written.
    #[must_use]
    pub fn ending(&self) -> Option<RunEnding> {
        self.guard.ending().filter(|_| !self.writer.is_full && check_continue(&self.tool_filter, &self.writer).is_ok())
    }

    /// Returns the forbidden tool that the agent called, shortened for error messages.
    #[must_use]
    pub fn forbidden_tool(&self) -> Option<&str> {
        self.tool_filter.forbidden_tool()
    }

    /// Returns the first rule that the agent broke, on a strict route.
    #[must_use]
    pub fn violation(&self) -> Option<&StrictViolation> {
        self.guard.violation()
    }

    /// Returns the counts of events, repairs and losses since the start or since they were last taken.
    #[must_use]
    pub fn report(&self) -> &TranslationReport {
        &self.report
    }

    pub(crate) fn report_mut(&mut self) -> &mut TranslationReport {
        &mut self.report
    }
}

struct StreamPipe<'p, 'o> {
    guard: &'p mut RunGuard,
    tool_filter: &'p mut ToolCallFilter,
    writer: &'p mut EventWriter,
    output: OutputContext<'o>,
    dialects: DialectPair,
    buffer_limit: usize,
}

impl StreamPipe<'_, '_> {
    fn follow_frame(
        &mut self,
        follow: &mut Option<Box<StreamFollower>>,
        reader: &mut EventReader,
        frame: AgentFrame<'_>,
    ) -> Result<(), StreamError> {
        match follow.as_mut().and_then(|follow| follow.skip_reason(&frame)) {
            None => self.process_frame(reader, frame),
            Some(loss) => {
                self.output.report.count_loss(loss);
                Ok(())
            }
        }
    }

    fn process_frame(
        &mut self,
        reader: &mut EventReader,
        AgentFrame { data, dropped_parts: dropped, .. }: AgentFrame<'_>,
    ) -> Result<(), StreamError> {
        (0..dropped).for_each(|_| self.output.report.count_loss(EventLoss::UnknownPart));
        if let Some(trace) = &mut self.output.report.trace {
            trace.record_frame(data, self.dialects.0);
        }
        reader.read_frame(data, self);
        check_continue(self.tool_filter, self.writer)?;
        if let Some(limit) = self.exceeded_limit(reader) {
            return Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit }));
        }
        if self.guard.may_continue(data, self.output.report) { Ok(()) } else { Err(StreamError::Violation) }
    }

    /// Returns the limit exceeded by the data held for this run.
    fn exceeded_limit(&self, reader: &EventReader) -> Option<usize> {
        let is_beyond = |(held, limit): &(usize, usize)| held > limit;
        let held = [
            (reader.retained_bytes() + self.writer.buffered_bytes(), self.buffer_limit),
            (self.guard.retained_bytes, memory_limits::RETAINED_IDS_LIMIT),
        ];
        let beyond = held.into_iter().find(is_beyond).map(|(_, limit)| limit);
        beyond.filter(|_| self.guard.ending().is_none())
    }

    /// Closes open items and reports the run as stopped.
    fn cancel(&mut self) {
        let OutputContext { out, report, now_ms: now } = &mut self.output;
        let (writer, now, dialects) = (&mut *self.writer, *now, self.dialects);
        self.guard.cancel(report, &mut |event, report| {
            write_traced(writer, event, dialects, &mut OutputContext { out, report, now_ms: now });
        });
    }

    fn write_gateway_error(&mut self, error: Event<'_>) {
        let OutputContext { out, report, now_ms: now } = &mut self.output;
        self.guard.record_gateway_error();
        write_traced(self.writer, error, self.dialects, &mut OutputContext { out, report, now_ms: *now });
    }
}

impl EventSink for StreamPipe<'_, '_> {
    fn emit(&mut self, event: Event<'_>) {
        let OutputContext { out, report, now_ms: now } = &mut self.output;
        let (tools, writer, now, dialects) = (&mut *self.tool_filter, &mut *self.writer, *now, self.dialects);
        if let Some(trace) = &mut report.trace {
            trace.record_canonical(&event, dialects.0);
        }
        self.guard.process(event, report, &mut |event, report| {
            if tools.admit_event(&event) {
                write_traced(writer, event, dialects, &mut OutputContext { out, report, now_ms: now });
            }
        });
    }

    fn report(&mut self) -> &mut TranslationReport {
        self.output.report
    }
}

fn check_continue(tools: &ToolCallFilter, writer: &EventWriter) -> Result<(), StreamError> {
    match writer.budget.exceeded() {
        _ if tools.is_stopped() => Err(StreamError::ForbiddenTool),
        Some(bound) => Err(StreamError::OverBudget(bound)),
        None => Ok(()),
    }
}

fn write_traced(writer: &mut EventWriter, event: Event<'_>, (_, client): DialectPair, to: &mut OutputContext<'_>) {
    let (before, kind) = (to.out.len(), event.kind);
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
