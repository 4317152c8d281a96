//! One run's event stream, translated as it comes.

use super::allowed_tools::{AllowedTools, ToolCallFilter};
use super::budget::OutputBudget;
use super::event_repair::EventLoss;
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
use crate::event::{Event, EventType, Field, Json};
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
    /// how many bytes of events may wait
    buffer_limit: usize,
}

/// Code and text of the error that ends a run which was stopped and cannot be closed in order.
const CANCELLED_ERROR: (&str, &str) = ("cancelled", "The run was stopped.");

/// The agent's dialect and the client's.
type DialectPair = (&'static Dialect, &'static Dialect);

impl Stream {
    /// A stream from `agent` to `client`. Without `ids` the run keeps those that the agent says.
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

    /// The same stream with another mode of the run guard.
    #[must_use]
    pub fn with_guard_mode(mut self, mode: GuardMode) -> Self {
        self.guard.mode = mode;
        self
    }

    /// The same stream in a conversation that holds something already.
    #[must_use]
    pub fn with_conversation(mut self, mut conversation: ConversationState) -> Self {
        self.tool_filter.set_prior_calls(std::mem::take(&mut conversation.prior_calls));
        self.guard.set_conversation(conversation);
        self
    }

    /// The same stream of an agent that may call these tools alone; any where it is `None`.
    #[must_use]
    pub fn with_allowed_tools(mut self, tools: Option<Arc<AllowedTools>>) -> Self {
        self.tool_filter.allow(tools);
        self
    }

    /// The same stream, of which the client gets at most so many events and bytes, and [`Stream::fail`].
    #[must_use]
    pub(crate) fn with_budget(mut self, events: Option<u64>, bytes: Option<u64>) -> Self {
        self.writer.budget = OutputBudget::new(events, bytes);
        self
    }

    /// The same stream whose frames have ids, `<token>-<n>` with n = 1, 2, 3 …, by which a client can say how far it came. The
    /// token is of `[0-9a-z]`. Comments have none, and neither have frames of protobuf.
    #[must_use]
    pub fn with_frame_ids(mut self, token: &str) -> Self {
        self.writer.frame_ids = Some(Box::new(FrameIds { token: token.into(), last_number: 0 }));
        self
    }

    /// The number of the last frame that was written; 0 before the first, and where frames have none.
    #[must_use]
    pub fn last_frame_number(&self) -> u64 {
        self.writer.frame_ids.as_ref().map_or(0, |numbers| numbers.last_number)
    }

    /// Reads from a stream of the agent's that outlives the run, to be said before its first byte. Of its events those that
    /// say another run than `run_id` are left out, and with them what says none between them and the first that says
    /// ours. Without an id all are taken.
    pub(crate) fn follow_run(&mut self, run_id: Option<&str>) {
        self.follower = Some(Box::new(StreamFollower::new(run_id)));
    }

    /// The `id` of the last frame of a stream that is [followed](Stream::follow): the agent can be asked for what is
    /// behind it. `None` where that frame had none, and what came since the last id would come twice.
    #[must_use]
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.follower.as_ref().and_then(|follow| follow.last_id())
    }

    /// How long the agent asks to wait before that (`retry`).
    #[must_use]
    pub(crate) fn retry(&self) -> Option<std::time::Duration> {
        self.frame_reader.retry()
    }

    /// Another body begins that was asked for behind [`Stream::last_id`]. What the last one left unfinished comes again,
    /// and what the agent repeats is left out.
    pub(crate) fn resume(&mut self) {
        self.frame_reader.restart();
        if let Some(follow) = &mut self.follower {
            follow.resume();
        }
    }

    /// Reads the agent's body in another framing than SSE. To be said before the first byte.
    pub fn read_as(&mut self, framing: Framing) {
        self.frame_reader = FrameReader::new(framing, self.frame_reader.limits());
    }

    /// Writes for the client in another framing than SSE; [`Framing::Proto`] is for the canonical dialect alone. To be said
    /// before the first event.
    pub fn write_as(&mut self, framing: Framing) {
        self.writer.framing = framing;
    }

    /// Takes bytes as they came and appends what they say to `out`, at `now` ms since the epoch.
    ///
    /// # Errors
    /// When a frame is over the limit, on either side, or what waits for later events is, or the route is strict and the
    /// agent broke a rule, or it called a tool that is not allowed, or said more than the client may get; everything before that was written, and nothing after it will be. [`Stream::fail`] has to say so.
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

    /// Takes one event that needs no framing (a line of NDJSON).
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

    /// The agent's body has ended: says what it still held. A last event may lack its blank line; half of one is none, and no
    /// rule is broken by it but that the run had no end.
    ///
    /// # Errors
    /// When the run had no terminal event, or as [`Stream::push`]: then [`Stream::fail`] has to say one.
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

    /// Ends the run with RUN_ERROR, unless it has ended. What the agent said before stands.
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
        // Whatever found no room, the error does, and behind a terminal event that found none as well.
        sink.writer.is_full = false;
        sink.writer.budget.allow_final_error();
        sink.tool_filter.acknowledge_stop();
        sink.write_gateway_error(error.with(Field::Code, Json::string(code)));
    }

    /// Ends a run that was stopped on purpose, unless it has ended: closes what is open, in order, and finishes it with the
    /// outcome `cancelled`, as far as the client's dialect has a word for that. Where it cannot be closed in order, because the
    /// client heard what breaks the rules or may get no more, it ends with RUN_ERROR.
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

    /// Whether everything that was said found room in a frame.
    fn check_room(&self) -> Result<(), StreamError> {
        check_continue(&self.tool_filter, &self.writer)?;
        if !self.writer.is_full {
            return Ok(());
        }
        Err(StreamError::Framing(sse::SseError::FrameTooLarge { limit: proto::FRAME_LIMIT }))
    }

    /// How the run ended, once its terminal event was written.
    #[must_use]
    pub fn ending(&self) -> Option<RunEnding> {
        self.guard.ending().filter(|_| !self.writer.is_full && check_continue(&self.tool_filter, &self.writer).is_ok())
    }

    /// The tool that the agent called and may not, as far as an error may repeat it.
    #[must_use]
    pub fn forbidden_tool(&self) -> Option<&str> {
        self.tool_filter.forbidden_tool()
    }

    /// The first rule that the agent broke, on a strict route.
    #[must_use]
    pub fn violation(&self) -> Option<&StrictViolation> {
        self.guard.violation()
    }

    /// What was read, written, mended and left out, since the start or since somebody took it out of there.
    #[must_use]
    pub fn report(&self) -> &TranslationReport {
        &self.report
    }

    /// The same, for taking out what is counted elsewhere.
    pub(crate) fn report_mut(&mut self) -> &mut TranslationReport {
        &mut self.report
    }
}

/// Guard and writer behind the reader.
struct StreamPipe<'p, 'o> {
    guard: &'p mut RunGuard,
    tool_filter: &'p mut ToolCallFilter,
    writer: &'p mut EventWriter,
    output: OutputContext<'o>,
    dialects: DialectPair,
    /// how many bytes may wait
    buffer_limit: usize,
}

impl StreamPipe<'_, '_> {
    /// Takes a frame if it is the run's.
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

    /// The limit that is passed by what this run has the gateway hold.
    fn exceeded_limit(&self, reader: &EventReader) -> Option<usize> {
        let is_beyond = |(held, limit): &(usize, usize)| held > limit;
        let held = [
            (reader.retained_bytes() + self.writer.buffered_bytes(), self.buffer_limit),
            (self.guard.retained_bytes, memory_limits::RETAINED_IDS_LIMIT),
        ];
        let beyond = held.into_iter().find(is_beyond).map(|(_, limit)| limit);
        beyond.filter(|_| self.guard.ending().is_none())
    }

    /// Closes what is open and says that the run was stopped.
    fn cancel(&mut self) {
        let OutputContext { out, report, now_ms: now } = &mut self.output;
        let (writer, now, dialects) = (&mut *self.writer, *now, self.dialects);
        self.guard.cancel(report, &mut |event, report| {
            write_traced(writer, event, dialects, &mut OutputContext { out, report, now_ms: now });
        });
    }

    /// Says the gateway's own error.
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

/// Whether what was said so far lets the run go on.
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
