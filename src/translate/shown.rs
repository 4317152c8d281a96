//! Writing what a dialect has no event of its own for, by events that show it: activities, subagents and interrupts.

use super::write::{Outlet, Writer};
use super::{interrupt, noted};
use crate::codec::json::Object;
use crate::dialect::{Content, Row, Shape, Step};
use crate::event::{Event, Field, Kind};
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
}
