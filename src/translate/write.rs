//! Writing: a canonical event becomes a frame of the client's dialect.
//!
//! One arm per [`Shape`]; which shape an event has is the dialect table's business.

use super::carry;
use super::chunk::Chunks;
use super::report::{Loss, Report};
use super::text::Writing;
use super::{CANONICAL_PREFIX, message, patch};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{Framing, proto, sse};
use crate::dialect::{ASSISTANT, Content, Rest, Row, Shape, Side, Spelling};
use crate::event::{Event, Field, Json, Key, Kind, Members, PROTOCOL_VERSION, Type, get, message_id};
use std::borrow::Cow;

/// Writes one side of a route.
#[derive(Debug)]
pub(super) struct Writer {
    side: Side,
    /// whether the agent speaks another dialect, so that the version said is ours
    translates: bool,
    /// the row of content, where the dialect has output blocks
    blocks: Option<&'static Row>,
    texts: Writing,
    chunks: Chunks,
    scratch: String,
    /// how canonical events are framed; every other dialect has SSE alone
    pub framing: Framing,
    /// whether an event found no room in a frame: nothing is written any more
    pub full: bool,
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

impl Writer {
    pub fn new(side: Side, translates: bool) -> Self {
        let content = side.dialect.row_of(Kind::TextMessageContent).map(|(_, row)| row);
        let blocks = content.filter(|row| row.shape == Shape::Output);
        let (texts, chunks) = (Writing::default(), Chunks::default());
        let (scratch, framing, full) = (String::new(), Framing::Sse, false);
        Writer { side, translates, blocks, texts, chunks, scratch, framing, full }
    }

    /// Writes one event.
    pub fn event(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        match self.side.dialect.rest {
            Rest::Same => self.canonical(event, to),
            Rest::Custom => {
                if let Some((closer, mark)) = self.chunks.closer(&event) {
                    self.mapped(closer, mark, to);
                }
                // Where text is written as strings there is no thinking block that a chunk could unfold to.
                if event.kind == Kind::ReasoningMessageChunk && self.side.content == Content::String {
                    return self.whole(event, to);
                }
                let (opener, (event, mark)) = self.chunks.unfold(event);
                if let Some((opener, mark)) = opener {
                    self.mapped(opener, mark, to);
                }
                self.mapped(event, mark, to);
            }
        }
    }

    fn canonical(&mut self, mut event: Event<'_>, to: &mut Outlet<'_>) {
        if self.full {
            return;
        }
        to.report.written[self.side.dialect.label_of(event.kind)] += 1;
        // "a proxy that forwards a run untranslated declares what the original producer spoke, and one that translates
        // declares what it emits" [spec versioning]
        if event.kind == Kind::RunStarted && self.translates {
            event.set(Field::ProtocolVersion, Json::string(PROTOCOL_VERSION));
        }
        if self.framing == Framing::Proto {
            return self.message(&event, to);
        }
        match event.source {
            Some(source) => sse::frame(to.out, source),
            None => self.frame(to.out, event.kind.wire(), |object| {
                event.members.iter().for_each(|member| object.copy(member, false));
            }),
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
        sse::frame(out, &self.scratch);
    }

    fn mapped(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        if event.kind == Kind::Custom && self.restore(&event, to) {
            return;
        }
        match (self.blocks, self.side.dialect.row_of(event.kind)) {
            (_, Some((label, row))) => {
                let said = self.sort(row, event, stands_for);
                self.row(label, row, said, to);
            }
            (Some(content), None) if is_reasoning(event.kind) => self.reasoning(content, event, stands_for, to),
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
        let wrapped = dialect.row(wire).is_none_or(|(_, row)| matches!(row.shape, Shape::Whole | Shape::Output));
        let held = json::object(value.as_str()).ok().and_then(|object| object.kind);
        if !wrapped || event.members.len() != 2 || !held.is_some_and(|kind| kind.is(wire)) {
            return false;
        }
        to.report.written[dialect.row(wire).map_or_else(|| dialect.other(), |(label, _)| label)] += 1;
        sse::frame(to.out, value.as_str());
        true
    }

    fn row(&mut self, label: usize, row: &'static Row, mut said: Said<'_>, to: &mut Outlet<'_>) {
        match row.shape {
            Shape::Plain | Shape::Whole => {}
            Shape::Failure => as_json(&mut said, Field::Code),
            Shape::Boundary => boundary(&mut said),
            Shape::HeldStart => {
                if !self.texts.start(&mut said) && said.stands_for.is_none() {
                    return;
                }
            }
            Shape::Output => self.texts.content(&mut said, self.side.content),
            Shape::RoleEnd => self.texts.end(&mut said),
            Shape::ObjectDelta => as_json(&mut said, Field::Delta),
            Shape::AnyContent => {
                // First the parts: what is a JSON value again afterwards is the dialect's own.
                flatten_parts(&mut said);
                as_json(&mut said, Field::Content);
            }
            Shape::LaxPatch => patch::write(&mut said),
            Shape::Messages => message::write_snapshot(&mut said, self.side),
        }
        self.put(label, row, said, to);
    }

    fn put(&mut self, label: usize, row: &'static Row, mut said: Said<'_>, to: &mut Outlet<'_>) {
        to.report.written[label] += 1;
        let snake = self.snake();
        carry::restore_numbers(&mut said.members, &mut said.own);
        let extra = carry::take(&mut said.own, carry::EXTRA);
        let extra = carry::wrap(extra.as_ref(), &said.canonical, said.stands_for);
        self.frame(to.out, row.wire, |object| {
            said.members.iter().for_each(|member| object.copy(member, snake));
            said.own.iter().for_each(|member| object.copy(member, snake));
            if let Some(extra) = extra {
                object.member(carry::EXTRA, extra.as_str());
            }
        });
    }

    /// Sorts the members of an event by what `row` says.
    fn sort<'a>(&self, row: &'static Row, event: Event<'a>, stands_for: Option<&'static str>) -> Said<'a> {
        // Most events say nothing that the row does not: the list stays as it is.
        if event.members.iter().all(|(key, _)| matches!(key, Key::Known(field) if row.says(*field))) {
            return Said { members: event.members, own: Members::new(), canonical: Members::new(), stands_for };
        }
        let mut said = Said { members: Members::new(), own: Members::new(), canonical: Members::new(), stands_for };
        for (key, value) in event.members {
            match &key {
                Key::Known(field) if row.says(*field) => said.members.push((key, value)),
                Key::Known(Field::Metadata) => {
                    let splices = |key: &Key<'_>| !matches!(key, Key::Known(field) if row.says(*field));
                    let (own, rest) = carry::unpack(value, self.side.dialect.name, splices);
                    said.own = own;
                    said.canonical.extend(rest.map(|rest| (Key::Known(Field::Metadata), rest)));
                }
                _ => said.canonical.push((key, value)),
            }
        }
        said
    }

    /// An event without a word here: CUSTOM `ag-ui.<TYPE>` with the whole event as value.
    fn whole(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        let name = format!("{CANONICAL_PREFIX}{}", event.kind.wire());
        let value = json::build(|object| {
            object.word(json::TYPE, event.kind.wire());
            event.members.iter().for_each(|member| object.copy(member, false));
        });
        let label =
            self.side.dialect.row_of(Kind::Custom).map_or_else(|| self.side.dialect.other(), |(label, _)| label);
        to.report.written[label] += 1;
        self.frame(to.out, Kind::Custom.wire(), |object| {
            object.member(Field::Name.camel(), Json::string(&name).as_str());
            object.member(Field::Value.camel(), value.as_str());
        });
    }

    /// Reasoning as thinking blocks: inside the message it came in, or as a message of its own.
    fn reasoning(
        &mut self,
        content: &'static Row,
        event: Event<'_>,
        stands_for: Option<&'static str>,
        to: &mut Outlet<'_>,
    ) {
        let (id, kind) = (message_id(&event.members), event.kind);
        if kind == Kind::ReasoningStart {
            let metadata = event.get(Field::Metadata).cloned().map(Json::into_owned);
            let own = metadata.map(|metadata| carry::unpack(metadata, self.side.dialect.name, |_| true).0);
            let Some(start) = own.and_then(|mut own| self.texts.adopt(&id, &mut own)) else {
                return self.whole(event, to);
            };
            if let Some(start) = start {
                self.mapped(start, None, to);
            }
            return;
        }
        if let Some(message) = self.texts.native(&id).cloned() {
            if kind == Kind::ReasoningMessageContent {
                let mut said = self.sort(content, event, None);
                let text = get(&said.members, Field::Delta).cloned().unwrap_or_else(|| Json::string(""));
                crate::event::set(&mut said.members, Key::Known(Field::MessageId), message);
                let delta = self.texts.thinking(&text, &mut said.own);
                crate::event::set(&mut said.members, Key::Known(Field::Delta), delta);
                self.put_content(content, said, to);
            }
            if kind == Kind::ReasoningEnd {
                self.texts.forget(&id);
            }
            return;
        }
        match self.side.content {
            Content::Blocks if kind != Kind::ReasoningEnd => {
                self.render(content, &id, event, stands_for.unwrap_or(kind.wire()), to);
            }
            _ => self.whole(event, to),
        }
    }

    fn render(
        &mut self,
        content: &'static Row,
        id: &Json<'_>,
        event: Event<'_>,
        stands_for: &'static str,
        to: &mut Outlet<'_>,
    ) {
        let kind = event.kind;
        let at = event.get(Field::Timestamp).and_then(Json::as_i64).unwrap_or(to.now);
        let mut data = self.texts.rendered(id, kind, at);
        if kind == Kind::ReasoningMessageStart {
            if let Some((label, row)) = self.side.dialect.row_of(Kind::TextMessageStart) {
                let mut said = self.sort(row, event, Some(stands_for));
                said.canonical.extend(
                    crate::event::remove(&mut said.members, Field::Role).map(|role| (Key::Known(Field::Role), role)),
                );
                self.row(label, row, said, to);
            }
            return;
        }
        let mut said = self.sort(content, event, Some(stands_for));
        let text = crate::event::remove(&mut said.members, Field::Delta).unwrap_or_else(|| Json::string(""));
        let delta = self.texts.thinking(&text, &mut data);
        said.members.push((Key::Known(Field::Delta), delta));
        self.put_content(content, said, to);
        if kind == Kind::ReasoningMessageEnd
            && let Some((label, row)) = self.side.dialect.row_of(Kind::TextMessageEnd)
        {
            let end = Event::new(Kind::TextMessageEnd).with(Field::MessageId, id.clone());
            let said = self.sort(row, end, Some(""));
            self.row(label, row, said, to);
        }
    }

    fn put_content(&mut self, content: &'static Row, said: Said<'_>, to: &mut Outlet<'_>) {
        let label = self.side.dialect.row(content.wire).map_or_else(|| self.side.dialect.other(), |(label, _)| label);
        self.put(label, content, said, to);
    }

    fn snake(&self) -> bool {
        self.side.fields == Spelling::Snake
    }
}

const fn is_reasoning(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ReasoningStart
            | Kind::ReasoningMessageStart
            | Kind::ReasoningMessageContent
            | Kind::ReasoningMessageEnd
            | Kind::ReasoningEnd
    )
}

/// A run boundary needs a message id and a role over there: the run's id and "assistant", unless it said others.
fn boundary(said: &mut Said<'_>) {
    let has = |field: Field| said.own.iter().any(|(key, _)| *key == Key::Known(field));
    let (has_id, has_role) = (has(Field::MessageId), has(Field::Role));
    if has_id {
        return;
    }
    if let Some(run_id) = get(&said.members, Field::RunId).cloned() {
        said.own.push((Key::Known(Field::MessageId), run_id.into_owned()));
    }
    if !has_role {
        said.own.push((Key::Known(Field::Role), Json::string(ASSISTANT)));
    }
}

/// A text that was a JSON value over there is one again.
fn as_json(said: &mut Said<'_>, field: Field) {
    if carry::take_json_note(&mut said.own, field)
        && let Some(text) = get(&said.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut said.members, Key::Known(field), value);
    }
}

/// Content parts are said as their text; the parts themselves are carried.
fn flatten_parts(said: &mut Said<'_>) {
    let Some(parts) = get(&said.members, Field::Content).filter(|content| content.shape() == Type::Array) else {
        return;
    };
    if message::is_parts(parts) {
        let text = Json::string(&message::text_of_parts(parts));
        let parts = parts.clone();
        said.canonical.push((Key::Known(Field::Content), parts));
        crate::event::set(&mut said.members, Key::Known(Field::Content), text);
    }
}
