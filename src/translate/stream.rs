//! One run's event stream, translated as it comes.

use super::budget::{Bound, Budget};
use super::follow::Follow;
use super::framed::{Frame, Frames};
use super::guard::{Guard, Known, Mode, Offence};
use super::read::Reader;
use super::report::{Loss, Report};
use super::tools::{Tools, Watch};
use super::write::{Numbers, Outlet, Writer};
use super::{Ids, Sink, held};
use crate::codec::sse::{self, Limits};
use crate::codec::{Framing, json, proto};
use crate::dialect::{Dialect, Side};
use crate::event::run::Ending;
use crate::event::{Event, Field, Json, Kind};
use std::sync::Arc;

/// Translates the event stream of one run from the agent's dialect to the client's.
///
/// ```
/// use diglot::{codec::sse::Limits, dialect::{self, Side}, translate::{Ids, Stream}};
///
/// let side = |name| Side::new(dialect::by_name(name).expect("a dialect"));
/// let mut stream = Stream::new(side("hai"), side("ag-ui"), Some(Ids::new("t1", "r1")), Limits::default());
/// let mut out = Vec::new();
/// stream.push(b"data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m\"}\n\n", 0, &mut out)?;
/// assert!(String::from_utf8_lossy(&out).contains(r#""threadId":"t1","runId":"r1""#));
/// # Ok::<(), diglot::translate::Fault>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    frames: Frames,
    /// for a stream that outlives the run
    follow: Option<Box<Follow>>,
    reader: Reader,
    guard: Guard,
    tools: Watch,
    writer: Writer,
    report: Report,
    dialects: Dialects,
    /// how many bytes of events may wait
    waiting: usize,
}

/// Code and text of the error that ends a run which was stopped and cannot be closed in order.
const CANCELLED: (&str, &str) = ("cancelled", "The run was stopped.");

/// The agent's dialect and the client's.
type Dialects = (&'static Dialect, &'static Dialect);

/// Why the stream of an agent cannot be read to a good end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are beyond a limit of the framing.
    Framing(sse::Fault),
    /// The stream ended without a terminal event.
    Truncated,
    /// The agent broke a rule, and the route is strict; [`Stream::offence`] says which.
    Violation,
    /// The agent called a tool that is not allowed; [`Stream::stranger`] says which.
    Tool,
    /// The run would get larger for its client than it may.
    Limit(Bound),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Framing(fault) => fault.fmt(f),
            Fault::Truncated => f.write_str("the stream ended without a terminal event"),
            Fault::Violation => f.write_str("the agent broke a rule of the protocol"),
            Fault::Tool => f.write_str("the agent called a tool that is not allowed"),
            Fault::Limit(Bound::Events) => f.write_str("the run has as many events as it may have"),
            Fault::Limit(Bound::Bytes) => f.write_str("the run has as many bytes as it may have"),
        }
    }
}

impl std::error::Error for Fault {}

impl Stream {
    /// A stream from `agent` to `client`. Without `ids` the run keeps those that the agent says.
    #[must_use]
    pub fn new(agent: Side, client: Side, ids: Option<Ids>, limits: Limits) -> Self {
        let labels = |side: Side| vec![0; side.dialect.other() + 1].into_boxed_slice();
        Stream {
            frames: Frames::new(Framing::Sse, limits),
            follow: None,
            reader: Reader::new(agent),
            writer: Writer::new(client, ids.as_ref()),
            guard: Guard::new(ids, agent.dialect, client.dialect),
            tools: Watch::default(),
            report: Report {
                agent: agent.dialect.name,
                client: client.dialect.name,
                read: labels(agent),
                written: labels(client),
                ..Report::default()
            },
            dialects: (agent.dialect, client.dialect),
            waiting: limits.frame.max(held::WAITING),
        }
    }

    /// The same stream with another mode of the run guard.
    #[must_use]
    pub fn guarded(mut self, mode: Mode) -> Self {
        self.guard.mode = mode;
        self
    }

    /// The same stream in a conversation that holds something already.
    #[must_use]
    pub fn knowing(mut self, mut known: Known) -> Self {
        self.tools.know(std::mem::take(&mut known.made));
        self.guard.know(known);
        self
    }

    /// The same stream of an agent that may call these tools alone; any where it is `None`.
    #[must_use]
    pub fn allowing(mut self, tools: Option<Arc<Tools>>) -> Self {
        self.tools.allow(tools);
        self
    }

    /// The same stream, of which the client gets at most so many events and bytes, and [`Stream::fail`].
    #[must_use]
    pub fn within(mut self, events: Option<u64>, bytes: Option<u64>) -> Self {
        self.writer.budget = Budget::of(events, bytes);
        self
    }

    /// The same stream whose frames have ids, `<token>-<n>` with n = 1, 2, 3 …, by which a client can say how far it came. The
    /// token is of `[0-9a-z]`. Comments have none, and neither have frames of protobuf.
    #[must_use]
    pub fn numbered(mut self, token: &str) -> Self {
        self.writer.numbers = Some(Box::new(Numbers { token: token.into(), last: 0 }));
        self
    }

    /// The number of the last frame that was written; 0 before the first, and where frames have none.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.writer.numbers.as_ref().map_or(0, |numbers| numbers.last)
    }

    /// Reads from a stream of the agent's that outlives the run, to be said before its first byte. Of its events those that
    /// say another run than `run_id` are left out, and with them what says none between them and the first that says
    /// ours. Without an id all are taken.
    pub fn follow(&mut self, run_id: Option<&str>) {
        self.follow = Some(Box::new(Follow::new(run_id)));
    }

    /// The `id` of the last frame of a stream that is [followed](Stream::follow): the agent can be asked for what is
    /// behind it. `None` where that frame had none, and what came since the last id would come twice.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.follow.as_ref().and_then(|follow| follow.last())
    }

    /// How long the agent asks to wait before that (`retry`).
    #[must_use]
    pub fn retry(&self) -> Option<std::time::Duration> {
        self.frames.retry()
    }

    /// Another body begins that was asked for behind [`Stream::last_id`]. What the last one left unfinished comes again,
    /// and what the agent repeats is left out.
    pub fn resume(&mut self) {
        self.frames.restart();
        if let Some(follow) = &mut self.follow {
            follow.resume();
        }
    }

    /// Reads the agent's body in another framing than SSE. To be said before the first byte.
    pub fn read_as(&mut self, framing: Framing) {
        self.frames = Frames::new(framing, self.frames.limits());
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
    pub fn push(&mut self, bytes: &[u8], now: i64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Stream { frames, follow, reader, guard, tools, writer, report, dialects, waiting } = self;
        let to = Outlet { out, report, now };
        let mut sink = Pipe { guard, tools, writer, to, dialects: *dialects, waiting: *waiting };
        frames.push(bytes, &mut |frame| sink.followed(follow, reader, frame))?;
        self.room()
    }

    /// Takes one event that needs no framing (a line of NDJSON).
    ///
    /// # Errors
    /// As [`Stream::push`].
    pub fn push_event(&mut self, data: &str, now: i64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Stream { reader, guard, tools, writer, report, dialects, waiting, .. } = self;
        let to = Outlet { out, report, now };
        let mut sink = Pipe { guard, tools, writer, to, dialects: *dialects, waiting: *waiting };
        sink.frame(reader, Frame::whole(data))?;
        self.room()
    }

    /// The agent's body has ended: says what it still held. A last event may lack its blank line; half of one is none, and no
    /// rule is broken by it but that the run had no end.
    ///
    /// # Errors
    /// When the run had no terminal event, or as [`Stream::push`]: then [`Stream::fail`] has to say one.
    pub fn finish(&mut self, now: i64, out: &mut Vec<u8>) -> Result<(), Fault> {
        let over = self.ending().is_some();
        let Stream { frames, follow, reader, guard, tools, writer, report, dialects, waiting } = self;
        let to = Outlet { out, report, now };
        let mut sink = Pipe { guard, tools, writer, to, dialects: *dialects, waiting: *waiting };
        frames.finish(&mut |frame| match json::open_object(frame.data) {
            Err(_) if !over => Ok(()),
            _ => sink.followed(follow, reader, frame),
        })?;
        reader.finish(&mut sink);
        self.room()?;
        if self.ending().is_some() { Ok(()) } else { Err(Fault::Truncated) }
    }

    /// Ends the run with RUN_ERROR, unless it has ended. What the agent said before stands.
    pub fn fail(&mut self, code: &str, message: &str, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        let Stream { reader, guard, tools, writer, report, dialects, waiting, .. } = self;
        let to = Outlet { out, report, now };
        let mut sink = Pipe { guard, tools, writer, to, dialects: *dialects, waiting: *waiting };
        reader.finish(&mut sink);
        let error = Event::new(Kind::RunError).with(Field::Message, Json::string(message));
        // Whatever found no room, the error does, and behind a terminal event that found none as well.
        sink.writer.full = false;
        sink.writer.budget.last_word();
        sink.tools.said();
        sink.last_word(error.with(Field::Code, Json::string(code)));
    }

    /// Ends a run that was stopped on purpose, unless it has ended: closes what is open, in order, and finishes it with the
    /// outcome `cancelled`, as far as the client's dialect has a word for that. Where it cannot be closed in order, because the
    /// client heard what breaks the rules or may get no more, it ends with RUN_ERROR.
    pub fn cancel(&mut self, now: i64, out: &mut Vec<u8>) {
        if self.ending().is_some() {
            return;
        }
        if self.room().is_ok() {
            let Stream { reader, guard, tools, writer, report, dialects, waiting, .. } = self;
            let to = Outlet { out, report, now };
            let mut sink = Pipe { guard, tools, writer, to, dialects: *dialects, waiting: *waiting };
            reader.finish(&mut sink);
            sink.cancel();
        }
        let (code, message) = CANCELLED;
        self.fail(code, message, now, out);
    }

    /// Whether everything that was said found room in a frame.
    fn room(&self) -> Result<(), Fault> {
        go_on(&self.tools, &self.writer)?;
        if !self.writer.full {
            return Ok(());
        }
        Err(Fault::Framing(sse::Fault::FrameTooLarge { limit: proto::FRAME_LIMIT }))
    }

    /// How the run ended, once its terminal event was written.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.guard.ending().filter(|_| !self.writer.full && go_on(&self.tools, &self.writer).is_ok())
    }

    /// The tool that the agent called and may not, as far as an error may repeat it.
    #[must_use]
    pub fn stranger(&self) -> Option<&str> {
        self.tools.stranger()
    }

    /// The first rule that the agent broke, on a strict route.
    #[must_use]
    pub fn offence(&self) -> Option<&Offence> {
        self.guard.offence()
    }

    /// What was read, written, mended and left out, since the start or since somebody took it out of there.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The same, for taking out what is counted elsewhere.
    pub fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }
}

/// Guard and writer behind the reader.
struct Pipe<'p, 'o> {
    guard: &'p mut Guard,
    tools: &'p mut Watch,
    writer: &'p mut Writer,
    to: Outlet<'o>,
    dialects: Dialects,
    /// how many bytes may wait
    waiting: usize,
}

impl Pipe<'_, '_> {
    /// Takes a frame if it is the run's.
    fn followed(
        &mut self,
        follow: &mut Option<Box<Follow>>,
        reader: &mut Reader,
        frame: Frame<'_>,
    ) -> Result<(), Fault> {
        match follow.as_mut().and_then(|follow| follow.left_out(&frame)) {
            None => self.frame(reader, frame),
            Some(loss) => {
                self.to.report.loss(loss);
                Ok(())
            }
        }
    }

    fn frame(&mut self, reader: &mut Reader, Frame { data, dropped, .. }: Frame<'_>) -> Result<(), Fault> {
        (0..dropped).for_each(|_| self.to.report.loss(Loss::UnknownPart));
        if let Some(trace) = &mut self.to.report.trace {
            trace.frame(data, self.dialects.0);
        }
        reader.frame(data, self);
        go_on(self.tools, self.writer)?;
        if let Some(limit) = self.beyond(reader) {
            return Err(Fault::Framing(sse::Fault::FrameTooLarge { limit }));
        }
        if self.guard.goes_on(data, self.to.report) { Ok(()) } else { Err(Fault::Violation) }
    }

    /// The limit that is passed by what this run has the gateway hold.
    fn beyond(&self, reader: &Reader) -> Option<usize> {
        let is_beyond = |(held, limit): &(usize, usize)| held > limit;
        let held = [(reader.held() + self.writer.held(), self.waiting), (self.guard.kept, held::KEPT)];
        let beyond = held.into_iter().find(is_beyond).map(|(_, limit)| limit);
        beyond.filter(|_| self.guard.ending().is_none())
    }

    /// Closes what is open and says that the run was stopped.
    fn cancel(&mut self) {
        let Outlet { out, report, now } = &mut self.to;
        let (writer, now, dialects) = (&mut *self.writer, *now, self.dialects);
        self.guard.cancel(report, &mut |event, report| {
            write(writer, event, dialects, &mut Outlet { out, report, now });
        });
    }

    /// Says the gateway's own error.
    fn last_word(&mut self, error: Event<'_>) {
        let Outlet { out, report, now } = &mut self.to;
        self.guard.last_word();
        write(self.writer, error, self.dialects, &mut Outlet { out, report, now: *now });
    }
}

impl Sink for Pipe<'_, '_> {
    fn event(&mut self, event: Event<'_>) {
        let Outlet { out, report, now } = &mut self.to;
        let (tools, writer, now, dialects) = (&mut *self.tools, &mut *self.writer, *now, self.dialects);
        if let Some(trace) = &mut report.trace {
            trace.canonical(&event, dialects.0);
        }
        self.guard.event(event, report, &mut |event, report| {
            if tools.passes(&event) {
                write(writer, event, dialects, &mut Outlet { out, report, now });
            }
        });
    }

    fn report(&mut self) -> &mut Report {
        self.to.report
    }
}

/// Whether what was said so far lets the run go on.
fn go_on(tools: &Watch, writer: &Writer) -> Result<(), Fault> {
    match writer.budget.passed() {
        _ if tools.stopped() => Err(Fault::Tool),
        Some(bound) => Err(Fault::Limit(bound)),
        None => Ok(()),
    }
}

fn write(writer: &mut Writer, event: Event<'_>, (_, client): Dialects, to: &mut Outlet<'_>) {
    let (before, kind) = (to.out.len(), event.kind);
    if let Some(trace) = &mut to.report.trace {
        trace.passed(&event);
    }
    writer.event(event, to);
    if let Some(trace) = &mut to.report.trace {
        match writer.framing {
            Framing::Sse => trace.written(&to.out[before..], client),
            Framing::Proto => trace.message(kind),
        }
    }
}
