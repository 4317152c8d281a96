//! Ids that the agent wrote as numbers, for the events that the guard adds.

use crate::dialect::{Dialect, carry};
use crate::event::lane::ChunkStreamKind;
use crate::event::run::{ItemAction, RunItem};
use crate::event::{Event, Field};
use std::collections::HashSet;

/// The ids of a run that were numbers when their item began. An added end must say `1` where the start said `1`.
#[derive(Debug)]
pub(super) struct NumberIds {
    /// the client's dialect, whose events keep numbers
    dialect: &'static str,
    ids: HashSet<Box<str>>,
}

impl NumberIds {
    pub(super) fn new(client: &Dialect) -> Self {
        NumberIds { dialect: client.name, ids: HashSet::new() }
    }

    pub(super) fn observe(&mut self, event: &Event<'_>) {
        let opened = RunItem::action_for(event.kind).filter(|(_, action, _)| *action == ItemAction::Open);
        let field = match (opened, ChunkStreamKind::from_event(event.kind)) {
            (Some((.., field)), _) => field,
            (None, Some(piece)) => piece.id_field(),
            (None, None) => return,
        };
        if carry::was_number(event, self.dialect, field) {
            self.ids.extend(event.get(field).map(|id| Box::from(id.as_str())));
        }
    }

    /// Marks the id of an added event.
    pub(super) fn mark(&self, event: &mut Event<'_>, field: Field) {
        if !self.ids.is_empty() && event.get(field).is_some_and(|id| self.ids.contains(id.as_str())) {
            carry::mark_number(event, self.dialect, field);
        }
    }

    /// Marks the id of a start that is added before `content`.
    pub(super) fn mark_opener(&self, opener: &mut Event<'_>, content: &Event<'_>, field: Field) {
        if carry::was_number(content, self.dialect, field) {
            carry::mark_number(opener, self.dialect, field);
        }
    }
}
