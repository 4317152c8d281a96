//! Writing: a canonical event becomes a frame of the client's dialect.
//!
//! One arm per [`Shape`]; which shape an event has is the dialect table's business.

use super::answer::{self, Taken};
use super::budget::Budget;
use super::call::{self, Calls, Gathered};
use super::chunk::Chunks;
use super::collaboration::Talks;
use super::failure;
use super::report::{Loss, Report};
use super::sequence::{self, Sequence};
use super::shape::{as_json, boundary, flatten_parts, marked, to_value, unname_result};
use super::shown::is_reasoning;
use super::spell::{self, Stamps};
use super::subagent::Subagents;
use super::text::Writing;
use super::thought::{self, Fold, Leaves, Spans};
use super::{CANONICAL_PREFIX, Ids, carry, message, older, patch, read};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{Framing, proto, sse};
use crate::dialect::{Content, Home, Pin, Row, Shape, Side, Spelling};
use crate::event::{Event, Field, Json, Key, Kind, Members, PROTOCOL_VERSION};

/// Notes that mean nothing to some peers of the dialect that has them.
const NOTES: &[&str] = &[failure::CUSTOM, read::UNNAMED, thought::NAMELESS, thought::ROLE];

/// Members that no version takes as they were said: they stay where they were carried. The echo of an input needs members that
/// it may not have (measured), and content is a text.
const REFUSED: &[&str] = &[carry::AS_JSON, Field::Input.camel()];

/// Writes one side of a route.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) side: Side,
    /// what writes each kind, by its number: the label of its row, looked up once. Streams are many, so it is a small number
    labels: Box<[Option<u16>]>,
    patience: Patience,
    /// the row of content, where the dialect has output blocks
    pub(super) blocks: Option<&'static Row>,
    pub(super) texts: Writing,
    pub(super) talks: Talks,
    pub(super) subagents: Subagents,
    chunks: Chunks,
    thoughts: Fold,
    spans: Spans,
    start: call::Start,
    calls: Calls,
    args: Gathered,
    answers: answer::Writing,
    stamps: Stamps,
    sequence: Sequence,
    scratch: String,
    /// how canonical events are framed; every other dialect has SSE alone
    pub framing: Framing,
    /// whether an event found no room in a frame: nothing is written any more
    pub full: bool,
    /// how much may still leave
    pub budget: Budget,
    /// numbers the frames, on a route whose clients may come back
    pub numbers: Option<Box<Numbers>>,
}

/// The ids of frames: a token of the run, and a number that counts them.
#[derive(Debug)]
pub(super) struct Numbers {
    /// what tells this run's ids from any other's
    pub token: Box<str>,
    /// the number of the last frame that left; 0 before the first
    pub last: u64,
}

/// An event on its way out, sorted by what the dialect's row says.
pub(super) struct Said<'a> {
    /// members that the dialect says as they are
    pub members: Members<'a>,
    /// the dialect's own, carried until now
    pub own: Members<'static>,
    /// members that only canonical AG-UI has
    pub canonical: Members<'a>,
    /// the canonical event that this one stands for, when it is not the row's own
    pub stands_for: Option<&'static str>,
}

/// Where frames go, and what else writing touches.
pub(super) struct Outlet<'o> {
    /// bytes for the client
    pub out: &'o mut Vec<u8>,
    /// counts
    pub report: &'o mut Report,
    /// ms since the epoch, for durations that a dialect wants said
    pub now: i64,
}

/// What has to wait for later events, or needs others around it, on one side of a route.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// nothing: every event leaves as it comes
    None,
    /// the start of a call, for its arguments
    Start,
    /// text and arguments, until they are whole
    Whole,
    /// a span of thinking, for its message
    Fold,
    /// everything but what is open
    Sequence,
    /// nothing, but thinking has a span
    Spans,
}

impl Patience {
    fn of(side: Side) -> Self {
        let has = |shape| side.dialect.row_of_shape(shape).is_some();
        match side.pin {
            _ if has(Shape::StartWithArgs) => Patience::Start,
            _ if has(Shape::Answer) => Patience::Whole,
            _ if has(Shape::Spanless) => Patience::Fold,
            Pin::Any | Pin::V0_1 | Pin::V0_0_35 => Patience::Sequence,
            Pin::V0_0_39 | Pin::V0_0_42 => Patience::Spans,
            _ => Patience::None,
        }
    }
}

/// The label of the row that writes `kind` for this side.
fn label_of(side: Side, kind: Kind) -> Option<u16> {
    let (label, _) = side.dialect.row_of(kind, side.pin)?;
    u16::try_from(label).ok()
}

impl Writer {
    /// A writer for `side`, of a run whose ids may be known before it says them.
    pub fn new(side: Side, ids: Option<&Ids>) -> Self {
        let content = side.dialect.row_of(Kind::TextMessageContent, side.pin).map(|(_, row)| row);
        Writer {
            side,
            labels: Kind::ALL.iter().map(|kind| label_of(side, *kind)).collect(),
            patience: Patience::of(side),
            blocks: content.filter(|row| row.shape == Shape::Output),
            texts: Writing::default(),
            talks: Talks::default(),
            subagents: Subagents::default(),
            chunks: Chunks::default(),
            thoughts: Fold::default(),
            spans: Spans::default(),
            start: call::Start::default(),
            calls: Calls::default(),
            args: Gathered::default(),
            answers: answer::Writing::default(),
            stamps: Stamps::known(side.dialect, ids),
            sequence: Sequence::default(),
            scratch: String::new(),
            framing: Framing::Sse,
            full: false,
            budget: Budget::default(),
            numbers: None,
        }
    }

    /// What waits, and what is remembered of calls that have no result yet, in bytes.
    pub fn held(&self) -> usize {
        self.calls.held() + self.args.held() + self.answers.held() + self.sequence.held()
    }

    /// Writes one event.
    pub fn event(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        if self.side.dialect.home == Home::Native {
            return self.canonical(event, to);
        }
        if let Some((closer, mark)) = self.chunks.closer(&event) {
            self.mapped(closer, mark, to);
        }
        self.ask(&event, to);
        if !self.unfolds(event.kind) {
            return self.mapped(event, None, to);
        }
        let (opener, (event, mark)) = self.chunks.unfold(event);
        if let Some((opener, mark)) = opener {
            self.mapped(opener, mark, to);
        }
        self.mapped(event, mark, to);
    }

    /// Whether a chunk has to become start, content and end.
    fn unfolds(&self, kind: Kind) -> bool {
        match self.row_of(kind) {
            Some((_, row)) => row.shape == Shape::Unfolded,
            // Where text is written as strings there is no thinking block that a chunk could unfold to.
            None => kind != Kind::ReasoningMessageChunk || self.side.content == Content::Blocks,
        }
    }

    pub(super) fn row_of(&self, kind: Kind) -> Option<(usize, &'static Row)> {
        let label = usize::from(self.labels[kind as usize]?);
        Some((label, self.side.dialect.row_at(label, kind)))
    }

    fn canonical(&mut self, mut event: Event<'_>, to: &mut Outlet<'_>) {
        if self.full {
            return;
        }
        let (before, label) = (to.out.len(), self.side.dialect.label_of(event.kind));
        // "a proxy that forwards a run untranslated declares what the original producer spoke, and one that translates
        // declares what it emits" [spec versioning]
        if event.kind == Kind::RunStarted && to.report.agent != to.report.client {
            event.set(Field::ProtocolVersion, Json::string(PROTOCOL_VERSION));
        }
        match event.source {
            _ if self.framing == Framing::Proto => self.message(&event, to),
            Some(source) => {
                self.number(to.out);
                sse::frame(to.out, source);
            }
            None => self.frame(to.out, event.kind.wire(), |object| {
                event.members.iter().for_each(|member| object.copy(member, false));
            }),
        }
        self.count((label, event.kind), before, to);
    }

    /// Counts the frame that was written from `before` on, or takes it back where the run may not get so large.
    fn count(&mut self, (label, kind): (usize, Kind), before: usize, to: &mut Outlet<'_>) {
        if self.budget.admits(kind, to.out.len() - before) {
            to.report.written[label] += 1;
            if let Some(numbers) = &mut self.numbers {
                numbers.last += 1;
            }
        } else {
            to.out.truncate(before);
        }
    }

    fn message(&mut self, event: &Event<'_>, to: &mut Outlet<'_>) {
        match proto::frame(to.out, event.kind, &event.members) {
            Ok(proto::Told::Exactly | proto::Told::Carried) => {}
            Ok(proto::Told::Rounded) => to.report.loss(Loss::Rounded),
            Err(proto::TooLarge) => self.full = true,
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, wire: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.scratch.clear();
        let mut object = ObjectWriter::begin(&mut self.scratch);
        object.word(json::TYPE, wire);
        fill(&mut object);
        object.end();
        self.send(out, wire, &self.scratch);
    }

    /// One frame, which also says its type where the dialect wants that: unless it fits on no line, but it stands in the data.
    fn send(&self, out: &mut Vec<u8>, wire: &str, data: &str) {
        self.number(out);
        if !self.side.dialect.event_line || sse::frame_with(out, None, Some(wire), data).is_err() {
            sse::frame(out, data);
        }
    }

    /// The id of the frame that comes next, where frames have one.
    fn number(&self, out: &mut Vec<u8>) {
        if let Some(numbers) = &self.numbers {
            sse::number(out, &numbers.token, numbers.last + 1);
        }
    }

    pub(super) fn mapped(&mut self, mut event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        if event.kind == Kind::Custom && self.restore(&event, to) {
            return;
        }
        // What a hop speaks is said by whoever speaks on it.
        if event.kind == Kind::RunStarted && self.side.dialect.home == Home::Metadata {
            event.remove(Field::ProtocolVersion);
        }
        match self.patience {
            Patience::None => self.placed(event, stands_for, to),
            Patience::Start => {
                let (waited, now) = self.start.next(event, self.side.dialect.name);
                waited.into_iter().for_each(|start| self.placed(start, None, to));
                now.into_iter().for_each(|event| self.placed(event, stands_for, to));
            }
            Patience::Whole => self.gathered(event, stands_for, to),
            Patience::Fold => self.folded(event, stands_for, to),
            Patience::Sequence => self.sequenced(event, stands_for, to),
            Patience::Spans => self.spanned(event, stands_for, to),
        }
    }

    /// Thinking without ids is only taken in spans.
    fn spanned(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        if !self.spans.admits(&event, self.side) {
            return self.unsaid(event, stands_for, to);
        }
        let (before, after) = self.spans.around(&event, self.side);
        before.into_iter().for_each(|made| self.placed(made, Some(""), to));
        self.placed(event, stands_for, to);
        after.into_iter().for_each(|made| self.placed(made, Some(""), to));
    }

    /// One thing at a time.
    fn sequenced(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        let mut sequence = std::mem::take(&mut self.sequence);
        sequence.next(event, &mut |leaves| match leaves {
            sequence::Leaves::Said(event) => self.spanned(event, stands_for, to),
            sequence::Leaves::Made(event) => self.placed(event, Some(""), to),
            sequence::Leaves::Whole(event) => self.whole(event, to),
        });
        self.sequence = sequence;
    }

    /// Text and arguments wait until they are whole.
    fn gathered(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        if event.kind.is_terminal() {
            let rest = [self.answers.rest(), self.args.rest()].concat();
            rest.into_iter().for_each(|whole| self.placed(whole, None, to));
        }
        let event = match self.answers.take(event, stands_for) {
            Taken::Waits => return,
            Taken::Ends(whole) => return self.placed(whole, None, to),
            Taken::Other(event) => event,
        };
        if event.kind == Kind::ToolCallArgs {
            return self.args.args(call::id(&event), marked(event, stands_for));
        }
        // A result may come before the end, and no result before the arguments.
        if matches!(event.kind, Kind::ToolCallEnd | Kind::ToolCallResult)
            && let Some(whole) = self.args.end(&call::id(&event))
        {
            self.placed(whole, None, to);
        }
        self.placed(event, stands_for, to);
    }

    /// A span of thinking is folded into its message.
    fn folded(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        let mut fold = std::mem::take(&mut self.thoughts);
        let mut out = |leaves: Leaves<'_>| match leaves {
            Leaves::Said(event) => self.placed(event, None, to),
            Leaves::Alone(event) => {
                let stands_for = event.kind.wire();
                self.placed(event, Some(stands_for), to);
            }
            Leaves::Whole(event) => self.whole(event, to),
        };
        // What a chunk was unfolded to has no span.
        if stands_for.is_some() {
            fold.flush(&mut out);
            self.placed(event, stands_for, to);
        } else {
            fold.next(event, &mut out);
        }
        self.thoughts = fold;
    }

    pub(super) fn placed(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        match (self.blocks, self.row_of(event.kind)) {
            (_, Some((label, row))) => {
                if older::is_unsaid(self.side, row.shape, &event) {
                    return self.unsaid(event, stands_for, to);
                }
                if row.shape == Shape::RoleEnd && self.side.content == Content::Blocks && self.texts.ends_empty(&event)
                {
                    let id = crate::event::message_id(&event.members);
                    let empty = Event::new(Kind::TextMessageContent).with(Field::MessageId, id);
                    self.placed(empty.with(Field::Delta, Json::string("")), Some(""), to);
                }
                let said = self.sort(row, event, stands_for);
                self.row(label, row, said, to);
            }
            (Some(content), None) if is_reasoning(event.kind) => self.reasoning(content, event, stands_for, to),
            (_, None) if Writer::is_shown(event.kind) => self.shown(event, to),
            (_, None) => self.whole(event, to),
        }
    }

    /// CUSTOM `<dialect>.<TYPE>` holds an event of this very dialect: it leaves as what it was.
    fn restore(&mut self, event: &Event<'_>, to: &mut Outlet<'_>) -> bool {
        let dialect = self.side.dialect;
        let (Some(name), Some(value)) = (event.text(Field::Name), event.get(Field::Value)) else {
            return false;
        };
        let Some(wire) = name.strip_prefix(dialect.name).and_then(|rest| rest.strip_prefix('.')) else {
            return false;
        };
        // Only what reading wraps is unwrapped; anything else would pass the run guard by.
        let Ok(held) = json::object(value.as_str()) else {
            return false;
        };
        // "Unknown event types are fatal in every client before 1.0.0" [specs §3.6]
        let wrapped = match dialect.row(wire) {
            Some((_, row)) => self.is_wrapped(row, &held),
            None => !dialect.is_versioned(),
        };
        if !wrapped || event.members.len() != 2 || !held.kind.is_some_and(|kind| kind.is(wire)) {
            return false;
        }
        let (before, label) = (to.out.len(), dialect.row(wire).map_or_else(|| dialect.other(), |(label, _)| label));
        self.send(to.out, wire, value.as_str());
        self.count((label, event.kind), before, to);
        true
    }

    pub(super) fn row(&mut self, label: usize, row: &'static Row, mut said: Said<'_>, to: &mut Outlet<'_>) {
        match row.shape {
            Shape::Failure | Shape::NestedFailure => as_json(&mut said, Field::Code),
            Shape::SaidRole if spell::was_null(&said.own, Field::Role) => {}
            Shape::SaidRole => older::say_role(self.side.pin, row.kind, &mut said),
            Shape::OldOutcome => older::outcome(&mut said),
            Shape::Nameless => thought::forget_names(&mut said),
            Shape::Spanless => {
                thought::forget_names(&mut said);
                thought::write_role(self.side.dialect, row.kind, &mut said.members, &mut said.own);
            }
            Shape::StartWithArgs => call::forget_note(&mut said),
            Shape::Answer => answer::write(&mut said),
            Shape::CallStart => self.calls.write_start(&mut said),
            Shape::CallArgs => {
                self.calls.write_repeats(&mut said);
                call::write_args(&mut said);
            }
            Shape::CallEnd => self.calls.write_repeats(&mut said),
            Shape::CallResult => {
                flatten_parts(&mut said);
                as_json(&mut said, Field::Content);
                self.calls.write_result(&mut said);
            }
            Shape::Boundary => boundary(&mut said),
            Shape::HeldStart if !self.texts.start(&mut said) && said.stands_for.is_none() => return,
            Shape::Output => self.texts.content(&mut said, self.side.content),
            Shape::RoleEnd => self.texts.end(&mut said),
            Shape::ObjectDelta => {
                call::forget_note(&mut said);
                as_json(&mut said, Field::Delta);
            }
            Shape::AnyContent => {
                unname_result(&mut said);
                // First the parts: what is a JSON value again afterwards is the dialect's own.
                flatten_parts(&mut said);
                if !self.side.dialect.is_versioned() {
                    as_json(&mut said, Field::Content);
                }
            }
            Shape::LaxPatch => patch::write(&mut said),
            Shape::Messages => message::write_snapshot(&mut said, self.side),
            Shape::Plain if row.kind == Kind::SubagentFinished && self.side.dialect.is_versioned() => {
                older::subagent_outcome(&mut said);
            }
            _ => {}
        }
        self.put(label, row, said, to);
    }

    pub(super) fn put(&mut self, label: usize, row: &'static Row, mut said: Said<'_>, to: &mut Outlet<'_>) {
        if row.shape == Shape::Output && self.side.content == Content::Blocks {
            self.texts.fill(&said);
        }
        let (before, kind) = (to.out.len(), row.kind);
        let (snake, home) = (self.side.fields == Spelling::Snake, self.side.dialect.home);
        let mut row = row;
        carry::restore_numbers(&mut said.members, &mut said.own);
        if home == Home::Metadata {
            self.respell(&mut row, &mut said);
        }
        let place = home.place().map_or("", |(member, _)| member);
        let own = carry::take(&mut said.own, place);
        let carried = carry::wrap(home, own.as_ref(), &said.canonical, said.stands_for);
        self.frame(to.out, row.wire, |object| {
            for (key, value) in &said.members {
                match key {
                    Key::Known(field) => object.member(row.name(*field, snake), value.as_str()),
                    Key::Other(_) => object.copy(&(key.clone(), value.borrowed()), snake),
                }
            }
            said.own.iter().for_each(|member| object.copy(member, snake));
            if let Some(carried) = carried {
                object.member(place, carried.as_str());
            }
        });
        self.count((label, kind), before, to);
    }

    /// Says what is canonical as the dialect says it.
    fn respell(&mut self, row: &mut &'static Row, said: &mut Said<'_>) {
        if row.kind == Kind::RunError
            && let Some((_, custom)) = self.row_of(Kind::Custom)
            && failure::restore_custom(self.side, said)
        {
            *row = custom;
        }
        spell::write_words(self.side, row.kind, said);
        if row.shape == Shape::NestedFailure {
            failure::write_nested(said);
        }
        if self.side.dialect.options.contains(&"timestamp") {
            spell::write_time(self.side, said);
        }
        self.stamps.write(self.side.dialect, row.kind, said);
        spell::write_nulls(row, said);
        carry::keep_notes(self.side.dialect.name, NOTES, &mut said.own);
        // Any other event may have a member of that name, which nobody minds.
        if matches!(row.kind, Kind::RunStarted | Kind::ToolCallResult) && self.side.dialect.is_versioned() {
            carry::keep_notes(self.side.dialect.name, REFUSED, &mut said.own);
        }
    }

    /// Sorts the members of an event by what `row` says.
    pub(super) fn sort<'a>(&self, row: &'static Row, event: Event<'a>, stands_for: Option<&'static str>) -> Said<'a> {
        // Most events say nothing that the row does not: the list stays as it is.
        if event.members.iter().all(|(key, _)| matches!(key, Key::Known(field) if row.says(*field))) {
            return Said { members: event.members, own: Members::new(), canonical: Members::new(), stands_for };
        }
        let mut said = Said { members: Members::new(), own: Members::new(), canonical: Members::new(), stands_for };
        for (key, value) in event.members {
            match &key {
                Key::Known(field) if row.says(*field) => said.members.push((key, value)),
                Key::Known(Field::Metadata) => {
                    let home = self.side.dialect.home;
                    let says = |key: &Key<'_>| match key {
                        Key::Known(Field::Metadata) => home == Home::Metadata,
                        Key::Known(field) if row.says(*field) => true,
                        // What the row calls one of its members by this name cannot stand beside it.
                        key => row.names.iter().any(|(_, name)| carry::is_named(key, name)),
                    };
                    let splices = |key: &Key<'_>| !says(key);
                    let (own, rest) = carry::unpack(value, self.side.dialect.name, splices);
                    said.own.extend(own);
                    let rest = rest.map(|rest| (Key::Known(Field::Metadata), rest));
                    match self.side.dialect.home {
                        Home::Metadata => said.own.extend(rest.map(|(key, rest)| (key, rest.into_owned()))),
                        Home::Extra | Home::Native => said.canonical.extend(rest),
                    }
                }
                _ => said.canonical.push((key, value)),
            }
        }
        said
    }

    /// An event without a word here: CUSTOM `ag-ui.<TYPE>` with the whole event as value.
    pub(super) fn whole(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        let name = format!("{CANONICAL_PREFIX}{}", event.kind.wire());
        let value = to_value(&event);
        let label = self.row_of(Kind::Custom).map_or_else(|| self.side.dialect.other(), |(label, _)| label);
        let before = to.out.len();
        self.frame(to.out, Kind::Custom.wire(), |object| {
            object.member(Field::Name.camel(), Json::string(&name).as_str());
            object.member(Field::Value.camel(), value.as_str());
        });
        self.count((label, Kind::Custom), before, to);
    }

    pub(super) fn put_content(&mut self, content: &'static Row, said: Said<'_>, to: &mut Outlet<'_>) {
        let label = self.side.dialect.row(content.wire).map_or_else(|| self.side.dialect.other(), |(label, _)| label);
        self.put(label, content, said, to);
    }
}
