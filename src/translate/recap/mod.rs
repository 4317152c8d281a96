//! The recap of a run: what a client that joins late has to hear so that it goes on with the run's next frames.
//!
//! ```text
//!   frames 1 … n as the client got them ─▶ fold ─▶ prelude ─▶ frames n+1 … as they are
//!
//!   prelude   RUN_STARTED  as it was
//!             MESSAGES_SNAPSHOT  the messages of the input, and those that the run made and finished      (`list`)
//!             STATE_SNAPSHOT, STATE_DELTA*  as they were since the last snapshot                          (`state`)
//!             CUSTOM, RAW, steps, subagents …  what no snapshot tells, again in its order                 (`again`)
//!             START, what was said  of everything that is open, and of calls without a result             (`open`)
//!             the terminal event  as it was
//! ```
//! The fold reads the words of the client's own dialect, not canonical events: a client of another dialect has other messages
//! than one of AG-UI (a HAI client has blocks, a client before 1.0 has messages that were taken apart), and what it heard is
//! what it has to hear again. So frames come back as they were, but for pieces of one text, which become one piece.
//!
//! What is open is not in the snapshot with what it has said since, because a client appends to a message that is opened again
//! (`specs/ag-ui-1.0.md` §3.3); where something stands behind it, it holds its place there. A call whose result has not come is
//! said as events even when it has ended: a client takes for pending what it saw start, and runs a tool when its call ends.
//!
//! A dialect that says its messages whole (`Shape::Answer`), and with more than a message can hold, hears all of them again.

mod frame;
mod list;
mod open;

use super::{Ids, carry};
use crate::codec::json;
use crate::codec::sse::{self, Decoder, Limits, Step};
use crate::dialect::{Home, Row, Shape, Side};
use crate::event::lane::{ChunkStream, Lanes, Piece};
use crate::event::{Event, Field, Json, Kind};
use frame::{Kept, keep};
use list::List;
use open::{Open, Opens, What};

/// What a run has said so far, folded from the frames that its client got.
///
/// ```
/// use diglot::{dialect::{self, Side}, translate::{Ids, recap::Recap}};
///
/// let client = Side::new(dialect::by_name("ag-ui").expect("a dialect"));
/// let mut recap = Recap::new(client, &Ids::new("t", "r"), Some(r#"[{"id":"u","role":"user","content":"hi"}]"#.into()));
/// recap.push(b"id: k-1\ndata: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n");
/// let mut out = Vec::new();
/// recap.prelude(0, Some("k-1"), &mut out);
/// assert!(String::from_utf8_lossy(&out).contains(r#""messages":[{"id":"u","role":"user","content":"hi"}]"#));
/// ```
#[derive(Clone, Debug)]
pub struct Recap {
    side: Side,
    /// members that every event of the dialect says
    stamps: Vec<(Field, Json<'static>)>,
    /// whether the dialect says messages whole: then no snapshot tells them
    whole: bool,
    start: Option<Kept>,
    list: List,
    /// the last snapshot of the state, and the changes since
    state: Vec<Kept>,
    again: Vec<Kept>,
    opens: Opens,
    lanes: Lanes,
    end: Option<Kept>,
}

impl Recap {
    /// Nothing was said yet to `client` in the run of these ids. `messages` are those of its input, canonical and a JSON array
    /// ([`super::request::Translated::messages`]); without them the conversation begins with the run.
    #[must_use]
    pub fn new(client: Side, ids: &Ids, messages: Option<Box<str>>) -> Self {
        let stamp = |field: &Field| match field {
            Field::ThreadId => Some((*field, ids.thread_id.clone())),
            Field::RunId => Some((*field, ids.run_id.clone())),
            _ => None,
        };
        Recap {
            side: client,
            stamps: client.dialect.stamps.iter().filter_map(stamp).collect(),
            whole: client.dialect.row_of_shape(Shape::Answer).is_some(),
            start: None,
            list: List::of_input(client, messages),
            state: Vec::new(),
            again: Vec::new(),
            opens: Opens::default(),
            lanes: Lanes::default(),
            end: None,
        }
    }

    /// Takes whole SSE frames as the client got them, ids and comments included, in order.
    pub fn push(&mut self, frames: &[u8]) {
        // They were written here, so they are within the limits that were in force.
        let mut decoder = Decoder::new(Limits { line: usize::MAX, frame: usize::MAX });
        let mut rest = frames;
        while let Step::Frame(frame) = decoder.next(&mut rest) {
            self.frame(&frame.data);
        }
    }

    /// What is held, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        let kept = self.start.iter().chain(&self.state).chain(&self.again).chain(&self.end);
        size_of::<Self>() + kept.map(Kept::held).sum::<usize>() + self.list.held() + self.opens.held()
    }

    /// Writes the frames from which a client goes on with the run's next ones, at `now` ms since the epoch. The last of them has
    /// the `id`, and no other has one: who is cut off before it has no cursor, and asks for all of this again.
    ///
    /// Writes nothing before the run has begun: whoever joins then hears all of it.
    pub fn prelude(&self, now: i64, id: Option<&str>, out: &mut Vec<u8>) {
        let mut writer = Frames { side: self.side, out, last: None };
        if let Some(start) = &self.start {
            writer.put(start);
            let (open, lost): (Vec<&Open>, Vec<&Open>) = self.opens.all().partition(|open| self.list.has(open));
            // What a snapshot of the agent's took away while it was open: it is opened, and taken away again.
            lost.iter().for_each(|open| writer.put(open.opener()));
            self.snapshot(now, &mut writer);
            self.state.iter().chain(self.list.changes()).chain(&self.again).for_each(|kept| writer.put(kept));
            // Chunks are last, because whatever their speaker says closes them.
            let (chunks, started): (Vec<&Open>, Vec<&Open>) = open.into_iter().partition(|open| open.is_chunk());
            started.into_iter().chain(chunks).flat_map(Open::frames).for_each(|kept| writer.put(kept));
        }
        self.end.iter().for_each(|end| writer.put(end));
        if let (Some(id), Some(at)) = (id, writer.last) {
            let mut head = Vec::new();
            if sse::head(&mut head, Some(id), None).is_ok() {
                out.splice(at..at, head);
            }
        }
    }

    /// The conversation, in the dialect's word for it.
    fn snapshot(&self, now: i64, writer: &mut Frames<'_>) {
        let Some((_, row)) = self.side.dialect.row_of(Kind::MessagesSnapshot, self.side.pin) else { return };
        let snake = self.side.fields == crate::dialect::Spelling::Snake;
        let said = self.list.said(self.side);
        let data = json::build(|object| {
            object.word(json::TYPE, row.wire);
            self.stamps.iter().for_each(|(field, value)| object.member(field.spelt(snake), value.as_str()));
            object.member(row.name(Field::Messages, snake), said.messages.as_str());
            object.member(row.name(Field::Timestamp, snake), super::spell::time(self.side, now).as_str());
            if self.side.dialect.is_canonical() && said.shares_activities {
                object.member(Field::Metadata.camel(), list::SHARED_ACTIVITIES);
            }
        });
        writer.put(&Kept::whole(row.wire, data.as_str()));
    }

    /// One frame's data.
    fn frame(&mut self, data: &str) {
        let Ok(object) = json::object(data) else { return };
        let Some(wire) = object.kind.as_ref().and_then(Json::text) else { return };
        let Some((_, row)) = self.side.dialect.row(&wire) else {
            return self.again.push(Kept::whole(&wire, data));
        };
        let mut members = object.members;
        super::spell::read_names(row.names, &mut members);
        let event = Event { kind: row.kind, members, source: None };
        self.lanes.pass(&event);
        self.opens.end_chunks(&self.lanes, &mut self.list, self.side);
        match event.kind {
            Kind::RunStarted => {
                for (field, value) in &mut self.stamps {
                    if let Some(said) = event.get(*field) {
                        *value = said.clone().into_owned();
                    }
                }
                self.list.echo(event.get(Field::Input), self.side);
                self.start = Some(Kept::whole(&wire, data));
            }
            Kind::RunFinished | Kind::RunError => self.end = Some(Kept::whole(&wire, data)),
            Kind::StateSnapshot => self.state = vec![Kept::whole(&wire, data)],
            Kind::StateDelta => self.state.push(Kept::whole(&wire, data)),
            _ if !self.tells(row) => keep(&mut self.again, Kept::of(row, &event, data, self.side)),
            Kind::MessagesSnapshot => {
                let untold = self.list.replace(&event, self.side);
                self.opens.forget_said(&self.list, &untold);
            }
            _ => self.told(row, &event, data),
        }
    }

    /// Whether a snapshot of messages can tell what an event of this row says.
    fn tells(&self, row: &Row) -> bool {
        let nameless = matches!(row.shape, Shape::Nameless | Shape::Spanless | Shape::Collaboration(_) | Shape::Whole);
        !self.whole
            && !nameless
            && !matches!(
                row.kind,
                Kind::Raw
                    | Kind::Custom
                    | Kind::StepStarted
                    | Kind::StepFinished
                    | Kind::SubagentStarted
                    | Kind::SubagentFinished
                    | Kind::SubagentError
            )
    }

    /// An event that makes a message, or goes on with one.
    fn told(&mut self, row: &'static Row, event: &Event<'_>, data: &str) {
        let Recap { side, list, opens, lanes, .. } = self;
        let kept = || Kept::of(row, event, data, *side);
        match event.kind {
            Kind::TextMessageStart | Kind::ReasoningMessageStart | Kind::ToolCallStart | Kind::ReasoningStart => {
                let Some(what) = What::of(event.kind) else { return };
                list.open(what, event, *side);
                opens.open(what, event, kept(), list, *side);
            }
            Kind::TextMessageContent | Kind::ReasoningMessageContent | Kind::ToolCallArgs => {
                opens.piece(event, kept());
            }
            Kind::TextMessageEnd | Kind::ReasoningMessageEnd | Kind::ReasoningEnd | Kind::ToolCallEnd => {
                // A call is left to be said until its result comes; to a peer with versions one call would be two.
                let waits = event.kind == Kind::ToolCallEnd && !side.dialect.is_versioned();
                opens.end(event, kept(), waits, list, *side);
            }
            Kind::TextMessageChunk | Kind::ReasoningMessageChunk | Kind::ToolCallChunk => {
                if let Some(stream) = stream_of(event, lanes) {
                    let (what, id) = (What::of_piece(stream.piece), stream.id.clone());
                    let named = event.clone().with(stream.piece.id(), id);
                    if !opens.has_chunk(what, &stream.id) {
                        list.open(what, &named, *side);
                    }
                    lanes.used(stream);
                    // Another stream of its lane ends with this one.
                    opens.end_chunks(lanes, list, *side);
                    opens.chunk(what, &named, Kept::of(row, &named, data, *side), list, *side);
                }
            }
            Kind::ToolCallResult => {
                list.result(event, *side);
                opens.answered(event.get(Field::ToolCallId), list, *side);
            }
            Kind::ActivitySnapshot => list.activity(event),
            Kind::ActivityDelta => list.change(event, kept()),
            Kind::ReasoningEncryptedValue => {
                list.encrypted(event);
                opens.encrypted(event, kept());
            }
            _ => {}
        }
    }
}

/// The chunk stream that a chunk is a piece of.
fn stream_of(event: &Event<'_>, lanes: &Lanes) -> Option<ChunkStream> {
    let piece = Piece::of(event.kind)?;
    let owner = event.get(Field::SubagentRunId).cloned().map(Json::into_owned);
    let said = event.get(piece.id()).cloned().map(Json::into_owned);
    let mut open = lanes.open(piece).filter(|stream| match &said {
        Some(id) => stream.id.same(id),
        None => owner.is_none() || stream.owner == owner,
    });
    match (open.next_back().cloned(), said) {
        (Some(stream), _) => Some(stream),
        (None, Some(id)) => Some(ChunkStream { piece, id, owner, settled: Vec::new() }),
        (None, None) => None,
    }
}

/// Writes frames, and knows where the last one begins.
struct Frames<'o> {
    side: Side,
    out: &'o mut Vec<u8>,
    last: Option<usize>,
}

impl Frames<'_> {
    fn put(&mut self, kept: &Kept) {
        self.last = Some(self.out.len());
        let data = kept.data();
        if !self.side.dialect.event_line || sse::frame_with(self.out, None, Some(kept.wire()), &data).is_err() {
            sse::frame(self.out, &data);
        }
    }
}

/// What a message of this side has of the metadata of an event that made it. What is carried for a dialect without versions is
/// about the event, and would be read as if it were about the message.
fn metadata_of(event: Option<Json<'_>>, side: Side) -> Option<Json<'static>> {
    let metadata = event.map(Json::into_owned)?;
    match side.dialect.home {
        Home::Native => Some(metadata),
        Home::Metadata if side.dialect.is_versioned() => Some(metadata),
        Home::Metadata => {
            let key = side.dialect.home.place().map_or("", |(_, key)| key);
            let mut members = json::members(&metadata)?;
            members.retain(|(own, _)| !carry::is_named(own, key));
            (!members.is_empty()).then(|| json::to_object(&members))
        }
        Home::Extra => None,
    }
}
