//! What is open, with the frames that said it.
//!
//! ```text
//!   START ─▶ Open ── END ──▶ (folded into its message)
//!              │               ▲
//!              │ END of a call │ its result, or another start
//!              └─▶ Ended ──────┘
//!   chunk ─▶ Chunk ── whatever closes its lane ──▶ as END does
//! ```

use super::frame::{Kept, keep};
use super::list::List;
use crate::codec::json;
use crate::dialect::Side;
use crate::event::lane::{Lanes, Piece};
use crate::event::{Event, Field, Json, Kind, Members, get, remove};

/// What can be open and makes a message, or stands around one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// a text
    Text,
    /// a message of reasoning
    Reasoning,
    /// what stands around that
    Span,
    /// a call of a tool
    Call,
}

/// Something open.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub what: What,
    pub id: Json<'static>,
    /// the start, or the first chunk with all that came since
    opener: Kept,
    said: Vec<Kept>,
    /// encrypted values, which are told to a message and are no piece of it
    sealed: Vec<Kept>,
    stage: Stage,
}

/// Where it stands.
#[derive(Clone, Debug)]
enum Stage {
    /// its end has not come; of a call, whether its result has
    Open { answered: bool },
    /// the end of a call that has no result yet
    Ended(Kept),
    /// chunks that go on; of a call, whether its result has come
    Chunk { answered: bool },
}

/// All that is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Opens {
    /// in the order of opening
    all: Vec<Open>,
}

impl What {
    /// What an event of this kind is about.
    pub const fn of(kind: Kind) -> Option<What> {
        Some(match kind {
            Kind::TextMessageStart | Kind::TextMessageContent | Kind::TextMessageEnd => What::Text,
            Kind::ReasoningMessageStart | Kind::ReasoningMessageContent | Kind::ReasoningMessageEnd => What::Reasoning,
            Kind::ReasoningStart | Kind::ReasoningEnd => What::Span,
            Kind::ToolCallStart | Kind::ToolCallArgs | Kind::ToolCallEnd => What::Call,
            _ => return None,
        })
    }

    /// What a chunk is a piece of.
    pub const fn of_piece(piece: Piece) -> What {
        match piece {
            Piece::Text => What::Text,
            Piece::Reasoning => What::Reasoning,
            Piece::ToolCall => What::Call,
        }
    }

    const fn piece(self) -> Option<Piece> {
        match self {
            What::Text => Some(Piece::Text),
            What::Reasoning => Some(Piece::Reasoning),
            What::Call => Some(Piece::ToolCall),
            What::Span => None,
        }
    }

    /// Its id, as an event says it.
    pub fn id(self, event: &Event<'_>) -> Json<'static> {
        let field = if self == What::Call { Field::ToolCallId } else { Field::MessageId };
        event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned)
    }
}

impl Open {
    /// The frame that opens it.
    pub fn opener(&self) -> &Kept {
        &self.opener
    }

    /// Whether it goes on in chunks.
    pub fn is_chunk(&self) -> bool {
        matches!(self.stage, Stage::Chunk { .. })
    }

    /// Everything that was said of it.
    pub fn frames(&self) -> impl Iterator<Item = &Kept> {
        let end = match &self.stage {
            Stage::Ended(end) => Some(end),
            Stage::Open { .. } | Stage::Chunk { .. } => None,
        };
        std::iter::once(&self.opener).chain(&self.said).chain(&self.sealed).chain(end)
    }

    /// The same without what is no piece of it.
    pub fn pieces(&self) -> impl Iterator<Item = &Kept> {
        std::iter::once(&self.opener).chain(&self.said)
    }
}

impl Opens {
    /// All of them, in the order of opening.
    pub fn all(&self) -> impl Iterator<Item = &Open> {
        self.all.iter()
    }

    /// Most events are about what was opened last.
    fn position(&self, what: What, id: &Json<'_>) -> Option<usize> {
        self.all.iter().rposition(|open| open.what == what && open.id.same(id))
    }

    /// Something is started.
    pub fn open(&mut self, what: What, event: &Event<'_>, start: Kept, list: &mut List, side: Side) {
        let id = what.id(event);
        match self.position(what, &id) {
            Some(at) if matches!(self.all[at].stage, Stage::Ended(_)) => self.fold(at, list, side),
            // It is open already: no client takes that, so nothing that was told can depend on it.
            Some(_) => return,
            None => {}
        }
        self.push(what, id, start, Stage::Open { answered: false });
    }

    fn push(&mut self, what: What, id: Json<'static>, opener: Kept, stage: Stage) {
        self.all.push(Open { what, id, opener, said: Vec::new(), sealed: Vec::new(), stage });
    }

    /// A piece of something that was started.
    pub fn piece(&mut self, event: &Event<'_>, piece: Kept) {
        let open = What::of(event.kind).and_then(|what| self.position(what, &what.id(event)));
        if let Some(at) = open {
            keep(&mut self.all[at].said, piece);
        }
    }

    /// Something that was started ends. `waits`: a call is said again until its result has come.
    pub fn end(&mut self, event: &Event<'_>, end: Kept, waits: bool, list: &mut List, side: Side) {
        let Some(at) = What::of(event.kind).and_then(|what| self.position(what, &what.id(event))) else { return };
        let unanswered = matches!(self.all[at].stage, Stage::Open { answered: false });
        if waits && unanswered && list.has(&self.all[at]) {
            self.all[at].stage = Stage::Ended(end);
        } else {
            self.all[at].said.push(end);
            self.fold(at, list, side);
        }
    }

    /// The result of a call has come.
    pub fn answered(&mut self, id: Option<&Json<'_>>, list: &mut List, side: Side) {
        let Some(at) = id.and_then(|id| self.position(What::Call, id)) else { return };
        match &mut self.all[at].stage {
            Stage::Open { answered } | Stage::Chunk { answered } => *answered = true,
            Stage::Ended(_) => self.fold(at, list, side),
        }
    }

    /// Whether chunks of it go on.
    pub fn has_chunk(&self, what: What, id: &Json<'_>) -> bool {
        self.position(what, id).is_some_and(|at| self.all[at].is_chunk())
    }

    /// A chunk, the first of its stream or one more.
    pub fn chunk(&mut self, what: What, event: &Event<'_>, chunk: Kept, list: &mut List, side: Side) {
        let id = what.id(event);
        match self.position(what, &id) {
            Some(at) if self.all[at].is_chunk() => return self.all[at].opener.take_chunk(chunk),
            Some(at) if matches!(self.all[at].stage, Stage::Ended(_)) => self.fold(at, list, side),
            Some(_) => return,
            None => {}
        }
        self.push(what, id, chunk, Stage::Chunk { answered: false });
    }

    /// Whether a message, or one of the calls in it, is made by chunks that go on.
    pub fn makes_in_chunks<'c>(&self, id: &Json<'_>, mut calls: impl Iterator<Item = &'c Json<'static>>) -> bool {
        self.has_chunk(What::Text, id)
            || self.has_chunk(What::Reasoning, id)
            || calls.any(|call| self.has_chunk(What::Call, call))
    }

    /// Ends the chunks whose lanes are closed.
    pub fn end_chunks(&mut self, lanes: &Lanes, list: &mut List, side: Side) {
        let mut at = 0;
        while at < self.all.len() {
            let open = &self.all[at];
            let goes_on = |piece| lanes.open(piece).any(|stream| stream.id.same(&open.id));
            if !open.is_chunk() || open.what.piece().is_some_and(goes_on) {
                at += 1;
                continue;
            }
            let waits = matches!(open.stage, Stage::Chunk { answered: false }) && list.has(open);
            let started =
                (open.what == What::Call && waits && !side.dialect.is_versioned()).then(|| started(open, side));
            match started.flatten() {
                Some((start, args, end)) => {
                    let open = &mut self.all[at];
                    (open.opener, open.said, open.stage) = (start, vec![args], Stage::Ended(end));
                    at += 1;
                }
                None => self.fold(at, list, side),
            }
        }
    }

    /// A value that is told to something open.
    pub fn encrypted(&mut self, event: &Event<'_>, frame: Kept) {
        let Some(id) = event.get(Field::EntityId) else { return };
        let calls = event.get(Field::Subtype).is_some_and(|subtype| subtype.is("tool-call"));
        let is_it =
            |open: &&mut Open| (open.what == What::Call) == calls && open.what != What::Span && open.id.same(id);
        if let Some(open) = self.all.iter_mut().rev().find(is_it) {
            open.sealed.push(frame);
        }
    }

    /// A snapshot of the agent's tells what messages hold now: what was said before is in there, or is gone, but for messages
    /// that it does not speak of.
    pub fn forget_said(&mut self, list: &List, untold: &[Json<'_>]) {
        self.all.retain(|open| !matches!(open.stage, Stage::Ended(_)) || list.has(open));
        let stays = |open: &Open| open.what == What::Reasoning && untold.iter().any(|id| id.same(&open.id));
        for open in self.all.iter_mut().filter(|open| !stays(open)) {
            open.said.clear();
            open.sealed.clear();
        }
    }

    fn fold(&mut self, at: usize, list: &mut List, side: Side) {
        let mut open = self.all.remove(at);
        if let Stage::Ended(end) = std::mem::replace(&mut open.stage, Stage::Open { answered: true }) {
            open.said.push(end);
        }
        list.take_in(&open, side);
    }

    /// What is held, in bytes.
    pub fn held(&self) -> usize {
        let frames = self.all.iter().flat_map(Open::frames).map(Kept::held).sum::<usize>();
        frames + self.all.iter().map(|open| size_of::<Open>() + open.id.as_str().len()).sum::<usize>()
    }
}

/// A call that came in chunks as start, arguments and end: chunks alone would not say that it has ended.
fn started(open: &Open, side: Side) -> Option<(Kept, Kept, Kept)> {
    let data = open.opener.data();
    let mut members = json::object(&data).ok()?.members;
    let delta = remove(&mut members, Field::Delta).unwrap_or_else(|| Json::string(""));
    let frame = |kind: Kind, members: Members<'_>| {
        let (_, row) = side.dialect.row_of(kind, side.pin)?;
        let event = Event { kind, members, source: None };
        let data = json::build(|object| {
            object.word(json::TYPE, row.wire);
            event.members.iter().for_each(|member| object.copy(member, false));
        });
        Some(Kept::of(row, &event, data.as_str(), side))
    };
    let named = || -> Members<'_> {
        [Field::ToolCallId, Field::SubagentRunId]
            .into_iter()
            .filter_map(|field| Some((crate::event::Key::Known(field), get(&members, field)?.clone())))
            .collect()
    };
    let mut args = named();
    args.push((crate::event::Key::Known(Field::Delta), delta));
    let (args, end) = (frame(Kind::ToolCallArgs, args)?, frame(Kind::ToolCallEnd, named())?);
    Some((frame(Kind::ToolCallStart, members.clone())?, args, end))
}
