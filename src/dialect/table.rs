//! The form of a dialect's table.

use super::adapter::DialectAdapter;
use super::carry::CarryLocation;
use super::peer_version::PeerVersion;
use super::row::{EventRow, EventShape};
use crate::event::{EventType, Field};

/// One dialect, described against AG-UI 1.0.
#[derive(Debug)]
pub struct Dialect {
    /// Its name in configuration, metrics and as the key under which its own material is carried in `metadata`.
    pub name: &'static str,
    /// Its events. The first row of a kind is the one that is written.
    pub rows: &'static [EventRow],
    /// The treatment of canonical kinds that have no row.
    pub fallback: FallbackPolicy,
    /// The place for what only canonical AG-UI has.
    pub carry_location: CarryLocation,
    /// The messages that it accepts, in requests and snapshots.
    pub(crate) message: MessageFormat,
    /// The requests that it accepts.
    pub(crate) input: RunInputFormat,
    /// Members that its messages and requests call otherwise.
    pub(crate) field_aliases: &'static [(Field, &'static str)],
    /// Values that it says in words of its own.
    pub value_aliases: &'static [ValueAlias],
    /// Members that the dialect says on every event, from the start of the run.
    pub(crate) common_fields: &'static [Field],
    /// Members of its events, and of messages in them, that must not leave the gateway, in camelCase.
    pub strip: &'static [&'static str],
    /// True where a frame has an `event:` line with the event's type.
    pub(crate) has_event_line: bool,
    /// Names of the options in [`PeerDialect`](super::PeerDialect) that mean something here.
    pub option_names: &'static [&'static str],
    /// Makes what reads or writes the events of shape [`EventShape::Own`]; `None` where there are none.
    pub(crate) adapter: Option<NewAdapter>,
}

/// Creates the adapter of a dialect for one stream.
pub(crate) type NewAdapter = fn(&'static Dialect) -> Box<dyn DialectAdapter>;

/// Tables are the same only if they are one: there is no second copy of any.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Dialect {}

/// A value of a member that a dialect says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAlias {
    /// which member
    pub field: Field,
    /// what canonical AG-UI says
    pub canonical: &'static str,
    /// what the dialect says
    pub wire: &'static str,
    /// Whether the word is read as the canonical value. Where several values share a word it is not: the value is carried.
    pub is_reversible: bool,
}

/// The treatment of the kinds and types that a dialect's table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// the dialect is AG-UI for the rest: it says them all as they are
    PassThrough,
    /// they travel as CUSTOM with a prefixed name and the whole event as value
    Custom,
}

/// The messages that a dialect accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFormat {
    /// roles it knows
    pub(crate) roles: &'static [&'static str],
    /// roles, and members of messages, that peers know only from a version on
    pub(crate) since: &'static [(&'static str, PeerVersion)],
    /// canonical members of a message that it knows
    pub(crate) fields: &'static [Field],
    /// what content may be besides a text
    pub(crate) parts: ContentParts,
    /// from which version on a peer takes messages of a request with more in them than it knows; `None` for always
    pub(crate) lenient_since: Option<PeerVersion>,
}

/// Whether content may be a list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentParts {
    /// always a text
    Never,
    /// text and media, as AG-UI 1.0 has them
    Media,
    /// text and `binary`, and media from this version on
    Binary(PeerVersion),
}

/// The requests that a dialect accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunInputFormat {
    /// AG-UI 1.0: any member of the specification, with `protocolVersion`
    Current,
    /// the 0.x form, all seven members always there and nothing else: what every older agent accepts
    SevenMembers,
}

/// The events of AG-UI as they are, for dialects that only differ in some.
static PLAIN_ROWS: [EventRow; EventType::ALL.len()] = {
    let mut rows = [EventRow::plain(EventType::ALL[0]); EventType::ALL.len()];
    let mut at = 0;
    while at < rows.len() {
        rows[at] = EventRow::plain(EventType::ALL[at]);
        at += 1;
    }
    rows
};

impl Dialect {
    /// The row of the event that is written `wire` here, and its position in [`Self::labels`].
    #[must_use]
    pub(crate) fn row_for_wire(&self, wire: &str) -> Option<(usize, &'static EventRow)>
    where
        Self: 'static,
    {
        let own = self.rows.iter().enumerate().find(|(_, row)| row.wire == wire && row.is_native());
        own.or_else(|| self.plain_row(EventType::from_wire(wire)?))
    }

    /// The first version of a peer that says `wire` itself, where older ones have another word for it, or none.
    #[must_use]
    pub(crate) fn first_version_with(&self, wire: &str) -> Option<PeerVersion> {
        let kind = EventType::from_wire(wire)?;
        let row = self.rows.iter().find(|row| row.kind == kind && (row.wire != wire || !row.is_native()))?;
        row.until
    }

    /// Returns true where its peers have versions that accept different events.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        self.option_names.contains(&"pin")
    }

    /// Returns true for canonical AG-UI itself.
    #[must_use]
    pub(crate) fn is_canonical(&self) -> bool {
        self.carry_location == CarryLocation::Native
    }

    /// Returns true for the type of an event of this dialect.
    #[must_use]
    pub(crate) fn has_event(&'static self, wire: &str) -> bool {
        self.row_for_wire(wire).is_some()
    }

    /// The row that writes the canonical `kind` for a peer of this version, and its position in [`Self::labels`].
    #[must_use]
    pub fn row_for_kind(&self, kind: EventType, pin: PeerVersion) -> Option<(usize, &'static EventRow)> {
        let writes =
            |row: &EventRow| row.kind == kind && row.shape.writes_its_kind() && row.until.is_none_or(|end| pin < end);
        let own = self.rows.iter().enumerate().find(|(_, row)| writes(row));
        own.or_else(|| self.plain_row(kind))
    }

    /// The row that [`Dialect::row_of`] found for `kind`, by its position.
    #[must_use]
    pub(crate) fn row_at_label(&self, label: usize, kind: EventType) -> &'static EventRow {
        self.rows.get(label).unwrap_or(&PLAIN_ROWS[kind as usize])
    }

    /// The row of this shape, which is one of those that stand once.
    #[must_use]
    pub(crate) fn row_with_shape(&self, shape: EventShape) -> Option<(usize, &'static EventRow)> {
        self.rows.iter().enumerate().find(|(_, row)| row.shape == shape)
    }

    /// Returns true where a message is one event, so that a snapshot cannot continue it.
    #[must_use]
    pub(crate) fn has_whole_messages(&self) -> bool {
        self.rows.iter().any(|row| row.shape.own_shape().is_some_and(|own| own.is_whole_message))
    }

    fn plain_row(&self, kind: EventType) -> Option<(usize, &'static EventRow)> {
        (self.fallback == FallbackPolicy::PassThrough).then(|| (self.label_index(kind), &PLAIN_ROWS[kind as usize]))
    }

    /// The closed vocabulary of event types for metrics: the rows, the canonical kinds where the dialect knows them, and
    /// `OTHER` last.
    #[must_use]
    pub(crate) fn labels(&self) -> Vec<&'static str> {
        let canonical = match self.fallback {
            FallbackPolicy::PassThrough => EventType::ALL,
            FallbackPolicy::Custom => &[],
        };
        let rows = self.rows.iter().map(|row| row.wire);
        rows.chain(canonical.iter().map(|kind| kind.wire())).chain(["OTHER"]).collect()
    }

    /// The position in [`Self::labels`] of a canonical kind that has no row.
    #[must_use]
    pub fn label_index(&self, kind: EventType) -> usize {
        match self.fallback {
            FallbackPolicy::PassThrough => self.rows.len() + kind as usize,
            FallbackPolicy::Custom => self.other_label_index(),
        }
    }

    /// The position of `OTHER` in [`Self::labels`].
    #[must_use]
    pub(crate) fn other_label_index(&self) -> usize {
        match self.fallback {
            FallbackPolicy::PassThrough => self.rows.len() + EventType::ALL.len(),
            FallbackPolicy::Custom => self.rows.len(),
        }
    }
}
