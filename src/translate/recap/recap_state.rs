//! A run's state: the request's or the last snapshot, and the changes since.
//!
//! Changes are applied to it. Those that cannot be applied (`patched_json`), or for which neither is known, are
//! repeated after it, with all later ones.

use super::recap_frame::{RecapFrame, frames_size};
use crate::codec::json;
use crate::dialect::patched_json::PatchedJson;
use crate::dialect::{EventRow, MemberCase, PeerDialect};
use crate::event::{Event, EventType, Field, Json, Members, into_owned_members, members_size, remove};
use crate::translate::aliases::RunStamps;

#[derive(Clone, Debug, Default)]
pub(super) struct RecapState {
    snapshot: Option<LastSnapshot>,
    /// changes not yet in the snapshot
    changes: Vec<RecapFrame>,
}

#[derive(Clone, Debug)]
struct LastSnapshot {
    row: &'static EventRow,
    rest: Members<'static>,
    document: PatchedJson,
    /// whether it is the request's state, so that no event has the run's ids
    is_input: bool,
}

impl RecapState {
    pub(crate) fn from_input(side: PeerDialect, state: Option<Box<str>>) -> Self {
        let row = side.dialect.row_for_kind(EventType::StateSnapshot, side.peer_version);
        let snapshot = row.zip(state).map(|((_, row), state)| LastSnapshot {
            row,
            rest: Members::new(),
            document: PatchedJson::new(&Json::from_trusted(String::from(state))),
            is_input: true,
        });
        RecapState { snapshot, changes: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.snapshot.is_none()
    }

    pub(crate) fn set_snapshot(&mut self, row: &'static EventRow, event: &Event<'_>) {
        let mut rest = into_owned_members(event.members.clone());
        // After the first change, the producer's own event describes an outdated state.
        remove(&mut rest, Field::RawEvent);
        let document = remove(&mut rest, Field::Snapshot);
        rest.shrink_to_fit();
        self.snapshot = document.map(|document| {
            let document = PatchedJson::new(&document);
            LastSnapshot { row, rest, document, is_input: false }
        });
        self.changes.clear();
    }

    /// Applies a change, or keeps its frame.
    pub(crate) fn add_change(&mut self, event: &Event<'_>, frame: RecapFrame) {
        let document = self.snapshot.as_mut().filter(|_| self.changes.is_empty());
        let patch = event.get(Field::Delta);
        let applied = document.zip(patch).is_some_and(|(snapshot, patch)| snapshot.document.apply(patch).is_ok());
        if !applied {
            self.changes.push(frame);
        }
    }

    pub(crate) fn frames(&self, side: PeerDialect, stamps: &RunStamps) -> impl Iterator<Item = RecapFrame> {
        self.snapshot.iter().map(move |snapshot| snapshot.to_frame(side, stamps)).chain(self.changes.iter().cloned())
    }

    pub(crate) fn heap_size(&self) -> usize {
        let snapshot = |snapshot: &LastSnapshot| snapshot.document.heap_size() + members_size(&snapshot.rest);
        self.snapshot.as_ref().map_or(0, snapshot) + frames_size(&self.changes)
    }
}

impl LastSnapshot {
    fn to_frame(&self, side: PeerDialect, stamps: &RunStamps) -> RecapFrame {
        let snake = side.member_case == MemberCase::Snake;
        let document = self.document.to_json();
        let data = json::build_object(|object| {
            object.string_member(json::TYPE, self.row.wire);
            if self.is_input {
                stamps.iter().for_each(|(field, value)| object.member(field.wire_name(snake), value.as_str()));
            }
            object.member(self.row.field_name(Field::Snapshot, snake), document.as_str());
            self.row.write_members(object, &self.rest, snake);
        });
        RecapFrame::verbatim(self.row.wire, data.as_str())
    }
}
