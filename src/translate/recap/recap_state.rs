//! The state of a run: the last snapshot with the changes since.
//!
//! Changes are applied to the snapshot. Where the run has said none they are changes of the state that came with the request,
//! which is not kept; those, and what cannot be applied (`patch`), are said again behind it, with all that follows.

use super::frame::{ENTRY, Kept};
use super::patch::Tree;
use crate::codec::json;
use crate::dialect::{Row, Side, Spelling};
use crate::event::{Event, Field, Key, Members, owned, remove};

/// What a run has said of its state.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    snapshot: Option<Snapshot>,
    /// changes that are not in the snapshot
    changes: Vec<Kept>,
}

/// The last snapshot.
#[derive(Clone, Debug)]
struct Snapshot {
    row: &'static Row,
    /// every other member that a client may hear again
    rest: Members<'static>,
    document: Tree,
}

impl State {
    /// A snapshot: what was said before is over.
    pub fn snapshot(&mut self, row: &'static Row, event: &Event<'_>) {
        let mut rest = owned(event.members.clone());
        // What the producer said in its own words is about another state as soon as this one changes.
        remove(&mut rest, Field::RawEvent);
        let document = remove(&mut rest, Field::Snapshot);
        self.snapshot = document.map(|document| Snapshot { row, rest, document: Tree::new(&document) });
        self.changes.clear();
    }

    /// A change.
    pub fn change(&mut self, event: &Event<'_>, frame: Kept) {
        let document = self.snapshot.as_mut().filter(|_| self.changes.is_empty());
        let patch = event.get(Field::Delta);
        let applied = document.zip(patch).is_some_and(|(snapshot, patch)| snapshot.document.apply(patch).is_ok());
        if !applied {
            self.changes.push(frame);
        }
    }

    /// The frames that say all of it.
    pub fn frames(&self, side: Side) -> impl Iterator<Item = Kept> {
        self.snapshot.iter().map(move |snapshot| snapshot.frame(side)).chain(self.changes.iter().cloned())
    }

    /// What is held, in bytes.
    pub fn held(&self) -> usize {
        let rest =
            |snapshot: &Snapshot| snapshot.rest.iter().map(|(_, value)| ENTRY + value.as_str().len()).sum::<usize>();
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.document.held() + rest(snapshot));
        snapshot + self.changes.iter().map(Kept::held).sum::<usize>()
    }
}

impl Snapshot {
    fn frame(&self, side: Side) -> Kept {
        let snake = side.fields == Spelling::Snake;
        let document = self.document.to_json();
        let data = json::build(|object| {
            object.word(json::TYPE, self.row.wire);
            object.member(self.row.name(Field::Snapshot, snake), document.as_str());
            for (key, value) in &self.rest {
                match key {
                    Key::Known(field) => object.member(self.row.name(*field, snake), value.as_str()),
                    Key::Other(_) => object.copy(&(key.clone(), value.borrowed()), snake),
                }
            }
        });
        Kept::whole(self.row.wire, data.as_str())
    }
}
