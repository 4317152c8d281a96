//! What differs between dialects, as data: one file per dialect, a closed set of shapes, and tests over all of them.
//!
//! A dialect is a table of rows against the canonical vocabulary: what an event is called there, which canonical event
//! it is, which members it can say, and which named shape (`Shape`) connects the two. The engine in `translate/` knows
//! the shapes and never a dialect's name; a pair of dialects is described nowhere.
//!
//! To add a dialect: one file here, one line in [`ALL`], one folder of golden cases.

mod ag_ui;
mod hai;

pub use ag_ui::AG_UI;
pub use hai::{ASSISTANT, HAI, block};

use crate::event::{Field, Kind};

/// Every dialect that the gateway speaks, the canonical one first.
pub static ALL: &[&Dialect] = &[&AG_UI, &HAI];

/// The dialect called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Dialect> {
    ALL.iter().copied().find(|dialect| dialect.name == name)
}

/// One dialect, described against AG-UI 1.0.
#[derive(Debug)]
pub struct Dialect {
    /// Its name in configuration, metrics and as the key under which its own material is carried in `metadata`.
    pub name: &'static str,
    /// Its events. The first row of a kind is the one that is written.
    pub rows: &'static [Row],
    /// What becomes of canonical kinds that have no row.
    pub rest: Rest,
    /// Where the dialect keeps what only canonical AG-UI can say.
    pub home: Home,
    /// What it takes for a message, in requests and snapshots.
    pub message: MessageForm,
    /// What it takes for a request.
    pub input: InputForm,
    /// Names of the options in [`Side`] that mean something here.
    pub options: &'static [&'static str],
}

/// One event of a dialect.
#[derive(Debug)]
pub struct Row {
    /// value of `type`
    pub wire: &'static str,
    /// the canonical event it is
    pub kind: Kind,
    /// how the two differ
    pub shape: Shape,
    /// canonical members that this event can say as they are; everything else is carried
    pub says: &'static [Field],
    /// where the dialect's document defines it
    pub seed: &'static str,
}

/// How an event of a dialect differs from its canonical counterpart. Each shape is one reading and one writing in
/// `translate/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// other names at most
    Plain,
    /// boundaries of a run: `messageId` and `role` in place of thread and run ids
    Boundary,
    /// an error that may be nested in an `error` member
    Failure,
    /// a start that is held until the first text, because thinking may stand before it
    HeldStart,
    /// a delta that is a string or an output block
    Output,
    /// an end that says the role again
    RoleEnd,
    /// a delta that may be an object instead of its JSON text
    ObjectDelta,
    /// content that may be any JSON value instead of its text, and a message id that may be missing
    AnyContent,
    /// a JSON Patch whose operations all have a `from`
    LaxPatch,
    /// a list of messages
    Messages,
    /// an event without a canonical word yet: it travels whole, as CUSTOM
    Whole,
}

/// What happens to the kinds and types that a dialect's table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// the dialect is the canonical one: it knows them all
    Same,
    /// they travel as CUSTOM with a prefixed name and the whole event as value
    Custom,
}

/// Where canonical-only material lives in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// it is said as it is: the dialect is canonical
    Native,
    /// in the member `extra["ag-ui"]`, of events and of messages
    Extra,
}

/// What a dialect takes for a message.
#[derive(Debug)]
pub struct MessageForm {
    /// roles it knows
    pub roles: &'static [&'static str],
    /// canonical members of a message that it knows
    pub says: &'static [Field],
    /// whether content may be a list of parts
    pub parts: bool,
}

/// What a dialect takes for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputForm {
    /// AG-UI 1.0: any member of the specification, with `protocolVersion`
    Current,
    /// the 0.x form, all seven members always there and nothing else: what every older agent accepts
    Seven,
}

/// Whether streamed text is written as plain strings or as output blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// `"delta": "text"`
    #[default]
    String,
    /// `"delta": {"output": {"type": "text", "content": "text"}}`
    Blocks,
}

/// How member names are spelt when written. Reading accepts both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// `messageId`
    #[default]
    Camel,
    /// `message_id`
    Snake,
}

/// One side of a route: a dialect and its options.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// the dialect
    pub dialect: &'static Dialect,
    /// how it takes text
    pub content: Content,
    /// how it spells members
    pub fields: Spelling,
}

impl Side {
    /// The dialect with its default options.
    #[must_use]
    pub fn new(dialect: &'static Dialect) -> Self {
        Side { dialect, content: Content::default(), fields: Spelling::default() }
    }
}

impl Dialect {
    /// The row of the event that is written `wire` here.
    #[must_use]
    pub fn row(&self, wire: &str) -> Option<(usize, &'static Row)>
    where
        Self: 'static,
    {
        self.rows.iter().enumerate().find(|(_, row)| row.wire == wire)
    }

    /// Whether this is canonical AG-UI itself.
    #[must_use]
    pub fn is_canonical(&self) -> bool {
        std::ptr::eq(self, &AG_UI)
    }

    /// Whether this is the type of an event here.
    #[must_use]
    pub fn knows(&'static self, wire: &str) -> bool {
        self.row(wire).is_some() || (self.rest == Rest::Same && Kind::from_wire(wire).is_some())
    }

    /// The row that writes the canonical `kind`.
    #[must_use]
    pub fn row_of(&self, kind: Kind) -> Option<(usize, &'static Row)> {
        self.rows.iter().enumerate().find(|(_, row)| row.kind == kind && row.shape != Shape::Whole)
    }

    /// The closed vocabulary of event types for metrics: the rows, the canonical kinds where the dialect knows them, and
    /// `OTHER` last.
    #[must_use]
    pub fn labels(&self) -> Vec<&'static str> {
        let canonical = match self.rest {
            Rest::Same => Kind::ALL,
            Rest::Custom => &[],
        };
        let rows = self.rows.iter().map(|row| row.wire);
        rows.chain(canonical.iter().map(|kind| kind.wire())).chain(["OTHER"]).collect()
    }

    /// The position in [`Self::labels`] of a canonical kind that has no row.
    #[must_use]
    pub fn label_of(&self, kind: Kind) -> usize {
        match self.rest {
            Rest::Same => self.rows.len() + kind as usize,
            Rest::Custom => self.other(),
        }
    }

    /// The position of `OTHER` in [`Self::labels`].
    #[must_use]
    pub fn other(&self) -> usize {
        match self.rest {
            Rest::Same => self.rows.len() + Kind::ALL.len(),
            Rest::Custom => self.rows.len(),
        }
    }
}

impl Row {
    /// Whether this event can say `field` as it is. Every event can say when it happened.
    #[must_use]
    pub fn says(&self, field: Field) -> bool {
        field == Field::Timestamp || self.says.contains(&field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<_> = ALL.iter().map(|dialect| dialect.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|dialect| std::ptr::eq(by_name(dialect.name).expect("known"), *dialect)));
    }

    #[test]
    fn every_row_stands_once_cites_its_seed_and_says_only_what_its_kind_has() {
        for dialect in ALL {
            let mut wires = HashSet::new();
            for row in dialect.rows {
                assert!(wires.insert(row.wire), "{}: {} stands twice", dialect.name, row.wire);
                assert!(!row.seed.is_empty(), "{}: {} cites nothing", dialect.name, row.wire);
                for &field in row.says {
                    assert!(row.kind.slot(field).is_some(), "{}: {} says {field:?}", dialect.name, row.wire);
                }
            }
        }
    }

    #[test]
    fn a_kind_is_written_by_one_row() {
        for dialect in ALL {
            let mut kinds = HashSet::new();
            for row in dialect.rows.iter().filter(|row| row.shape != Shape::Whole) {
                assert!(kinds.insert(row.kind), "{}: {:?} has two rows", dialect.name, row.kind);
            }
        }
    }

    #[test]
    fn labels_agree_with_their_positions() {
        for dialect in ALL {
            let labels = dialect.labels();
            assert_eq!(labels[dialect.other()], "OTHER");
            for &kind in Kind::ALL {
                let at = dialect.row_of(kind).map_or_else(|| dialect.label_of(kind), |(at, _)| at);
                let expected = dialect.row_of(kind).map_or(kind.wire(), |(_, row)| row.wire);
                assert!(labels[at] == expected || labels[at] == "OTHER");
            }
        }
    }
}
