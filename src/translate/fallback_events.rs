//! Writing what a dialect has no event of its own for, by events that show it: activities, reasoning, subagents
//! and interrupts.

use super::write::{Outlet, Writer};
use super::{carry, interrupt, noted};
use crate::codec::json::Object;
use crate::dialect::{Content, Row, Shape, Step};
use crate::event::{Event, Field, Json, Key, Kind, get, message_id};
use crate::translate::text;

impl Writer {
    /// What a run was interrupted for is asked by calls of a tool, which stand for nothing canonical.
    pub(super) fn ask(&mut self, event: &Event<'_>, to: &mut Outlet<'_>) {
        if event.kind == Kind::RunFinished
            && let Some(tool) = self.side.asks_by()
        {
            interrupt::calls(event, tool).into_iter().for_each(|call| self.mapped(call, Some(""), to));
        }
    }

    /// Whether an event of this kind may be shown by others.
    pub(super) const fn is_shown(kind: Kind) -> bool {
        noted::is_whole(kind)
    }

    /// Activities and subagents, as messages between agents; other activities as output blocks.
    pub(super) fn shown(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        let dialect = self.side.dialect;
        let talks = dialect.row_of_shape(Shape::Collaboration(Step::Start)).is_some();
        let told = match event.kind {
            _ if !talks => Err(event),
            Kind::ActivitySnapshot | Kind::ActivityDelta => self.talks.write(event, dialect),
            _ => Ok(self.subagents.show(event)),
        };
        match told {
            Ok(told) => {
                for (step, said) in told {
                    if let Some((label, row)) = dialect.row_of_shape(Shape::Collaboration(step)) {
                        self.put(label, row, said, to);
                    }
                }
            }
            Err(event) => self.block(event, to),
        }
    }

    /// An activity as the output block that it was, or that shows it where text is written in blocks.
    fn block(&mut self, event: Event<'_>, to: &mut Outlet<'_>) {
        let dialect = self.side.dialect;
        let Some(content) = self.blocks.filter(|_| event.kind == Kind::ActivitySnapshot) else {
            return self.whole(event, to);
        };
        match self.texts.block(event, dialect) {
            Ok(said) => self.put_content(content, said, to),
            Err(event) if self.side.content == Content::String => self.whole(event, to),
            Err(event) => {
                let (said, alone) = self.texts.shown_block(event, dialect);
                let edge = |kind| alone.clone().map(|id| Event::new(kind).with(Field::MessageId, id));
                edge(Kind::TextMessageStart).into_iter().for_each(|start| self.mapped(start, Some(""), to));
                self.put_content(content, said, to);
                edge(Kind::TextMessageEnd).into_iter().for_each(|end| self.mapped(end, Some(""), to));
            }
        }
    }

    /// Whether reading wraps an event of this row whole, if it has these members.
    pub(super) fn is_wrapped(&self, row: &Row, object: &Object<'_>) -> bool {
        match row.shape {
            Shape::Whole => true,
            Shape::Output => text::refuses(&object.members),
            Shape::Collaboration(step) => self.talks.meaning(step, &object.members).is_none(),
            _ => false,
        }
    }

    /// Reasoning as thinking blocks: inside the message it came in, or as a message of its own.
    pub(super) fn reasoning(
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
            if let Some((label, row)) = self.row_of(Kind::TextMessageStart) {
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
            && let Some((label, row)) = self.row_of(Kind::TextMessageEnd)
        {
            let end = Event::new(Kind::TextMessageEnd).with(Field::MessageId, id.clone());
            let said = self.sort(row, end, Some(""));
            self.row(label, row, said, to);
        }
    }
}

pub(super) const fn is_reasoning(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ReasoningStart
            | Kind::ReasoningMessageStart
            | Kind::ReasoningMessageContent
            | Kind::ReasoningMessageEnd
            | Kind::ReasoningEnd
    )
}
