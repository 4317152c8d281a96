//! The form of a dialect's table: its rows against the canonical vocabulary, and the closed set of shapes.

use super::adapter::DialectAdapter;
use super::{AG_UI, PeerVersion};
use crate::event::{EventType, Field};

/// One dialect, described against AG-UI 1.0.
#[derive(Debug)]
pub struct Dialect {
    /// Its name in configuration, metrics and as the key under which its own material is carried in `metadata`.
    pub name: &'static str,
    /// Its events. The first row of a kind is the one that is written.
    pub rows: &'static [EventRow],
    /// What becomes of canonical kinds that have no row.
    pub fallback: FallbackPolicy,
    /// Where the dialect keeps what only canonical AG-UI can say.
    pub carry_location: CarryLocation,
    /// What it takes for a message, in requests and snapshots.
    pub(crate) message: MessageFormat,
    /// What it takes for a request.
    pub(crate) input: RunInputFormat,
    /// Members that its messages and requests call otherwise.
    pub(crate) field_aliases: &'static [(Field, &'static str)],
    /// Values that it says in words of its own.
    pub value_aliases: &'static [ValueAlias],
    /// Members that the dialect says on every event, from the start of the run.
    pub(crate) common_fields: &'static [Field],
    /// Members of its events, and of messages in them, that must not leave the gateway, in camelCase.
    pub strip: &'static [&'static str],
    /// Whether a frame has an `event:` line with the event's type.
    pub(crate) has_event_line: bool,
    /// Names of the options in [`PeerDialect`](super::PeerDialect) that mean something here.
    pub option_names: &'static [&'static str],
    /// Makes what reads or writes the events of shape [`EventShape::Own`]; `None` where there are none.
    pub(crate) adapter: Option<fn(&'static Dialect) -> Box<dyn DialectAdapter>>,
}

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

/// One event of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// value of `type`
    pub wire: &'static str,
    /// the canonical event it is
    pub kind: EventType,
    /// how the two differ
    pub shape: EventShape,
    /// canonical members that this event can say as they are; everything else is carried
    pub fields: FieldSet,
    /// members that this event calls by another name
    pub field_aliases: &'static [(Field, &'static str)],
    /// the version of the peer from which on the row is not written any more
    pub until: Option<PeerVersion>,
    /// where the dialect's document defines it
    pub seed: &'static str,
}

/// Which canonical members an event can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSet {
    /// these
    Only(&'static [Field]),
    /// whatever its kind has, but for these
    AllBut(&'static [Field]),
}

/// How an event of a dialect differs from its canonical counterpart. Each shape is one reading and one writing in
/// `translate/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventShape {
    /// other names at most
    Plain,
    /// boundaries of a run: `messageId` and `role` in place of thread and run ids
    RunBoundary,
    /// an error that may be nested in an `error` member
    MaybeNestedError,
    /// a start that is held until the first text, because thinking may stand before it
    DeferredStart,
    /// a delta that is a string or an output block
    OutputBlock,
    /// an end that says the role again
    EndWithRole,
    /// a delta that may be an object instead of its JSON text
    ObjectDelta,
    /// content that may be any JSON value instead of its text, and a message id that may be missing
    AnyContent,
    /// a JSON Patch whose operations all have a `from`
    PatchWithFrom,
    /// a list of messages
    MessageList,
    /// a message between agents, told in three events: an activity and its changes
    Collaboration(CollaborationStep),
    /// an event without a canonical word yet: it travels whole, as CUSTOM
    NonCanonical,
    /// a canonical event that the dialect has no word for: it travels whole, as CUSTOM
    Unsupported,
    /// a chunk, which becomes start, content and end
    ExpandedChunk,
    /// a boundary of a run that need not say its ids
    OptionalIds,
    /// a start that always says its role
    ExplicitRole,
    /// a piece of text that must not be empty
    NonEmptyDelta,
    /// how a run ended, as far as the peer's version knows it
    VersionedOutcome,
    /// thinking whose messages have no ids
    ThinkingWithoutIds,
    /// thinking without a span around its messages
    ThinkingWithoutSpan,
    /// an error that is said in an `error` member
    NestedError,
    /// a form that only this dialect has: its adapter reads and writes it
    Own(&'static OwnShape),
}

/// A form that only one dialect has, read and written by the dialect's adapter.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnShape {
    /// how the event differs from its canonical counterpart, for the page of dialects
    pub description: &'static str,
    /// whether the event is a whole message, so that a conversation cannot be continued in the middle of one
    pub(crate) is_whole_message: bool,
    /// whether a null stands for a required member that is absent
    pub(crate) null_is_absent: bool,
    /// the dialect's member in which the event has text that its row does not list
    pub(crate) text_member: Option<&'static str>,
}

impl OwnShape {
    /// A form without any of the properties.
    pub(crate) const fn new(description: &'static str) -> Self {
        OwnShape { description, is_whole_message: false, null_is_absent: false, text_member: None }
    }
}

/// Which of the three events of a message between agents this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollaborationStep {
    /// who asks whom
    Start,
    /// one task
    Content,
    /// it is done
    End,
}

impl EventShape {
    /// The properties of an own form.
    #[must_use]
    pub const fn own_shape(self) -> Option<&'static OwnShape> {
        match self {
            EventShape::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Whether every event of the row's kind is written by this row. The others are found by their shape.
    #[must_use]
    pub(crate) const fn writes_its_kind(self) -> bool {
        !matches!(self, EventShape::NonCanonical | EventShape::Collaboration(_))
    }
}

/// What happens to the kinds and types that a dialect's table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// the dialect is AG-UI for the rest: it says them all as they are
    PassThrough,
    /// they travel as CUSTOM with a prefixed name and the whole event as value
    Custom,
}

/// Where canonical-only material lives in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryLocation {
    /// it is said as it is: the dialect is canonical
    Native,
    /// in the member `extra["ag-ui"]`, of events and of messages
    Extra,
    /// in the member `metadata["diglot.ag-ui"]`, of events and of messages
    Metadata,
}

impl CarryLocation {
    /// The member that takes what only canonical AG-UI can say, and the key in it that is ours.
    #[must_use]
    pub const fn carry_member(self) -> Option<(&'static str, &'static str)> {
        match self {
            CarryLocation::Native => None,
            CarryLocation::Extra => Some(("extra", "ag-ui")),
            // `ag-ui` is a reserved key there (specs §1).
            CarryLocation::Metadata => Some(("metadata", "diglot.ag-ui")),
        }
    }
}

/// What a dialect takes for a message.
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

/// What a dialect takes for a request.
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

    /// Whether its peers have versions, each with its own idea of what it takes.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        self.option_names.contains(&"pin")
    }

    /// Whether this is canonical AG-UI itself.
    #[must_use]
    pub(crate) fn is_canonical(&self) -> bool {
        std::ptr::eq(self, &AG_UI)
    }

    /// Whether this is the type of an event here.
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

    /// Whether a message is one event, so that a snapshot cannot continue it.
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

impl EventRow {
    /// AG-UI's own event.
    pub(super) const fn plain(kind: EventType) -> EventRow {
        EventRow {
            wire: kind.wire(),
            kind,
            // Messages are said by the dialect's own names and words, whatever the event is called.
            shape: if matches!(kind, EventType::MessagesSnapshot) {
                EventShape::MessageList
            } else {
                EventShape::Plain
            },
            fields: FieldSet::AllBut(&[]),
            field_aliases: &[],
            until: None,
            seed: "AG-UI 1.0",
        }
    }

    /// Whether this is an event of the dialect, rather than a canonical one that it has no word for.
    const fn is_native(&self) -> bool {
        !matches!(self.shape, EventShape::Unsupported | EventShape::ExpandedChunk)
    }

    /// Whether this event can say `field` as it is. Every event can say when it happened; metadata is where things are
    /// carried, so it is never just said.
    #[must_use]
    pub(crate) fn has_field(&self, field: Field) -> bool {
        match (field, self.fields) {
            (Field::Timestamp, _) => true,
            (Field::Metadata, _) => false,
            (_, FieldSet::Only(these)) => these.contains(&field),
            (_, FieldSet::AllBut(these)) => !these.contains(&field) && self.kind.slot(field).is_some(),
        }
    }

    /// What this event calls `field`.
    #[must_use]
    pub(crate) fn field_name(&self, field: Field, snake: bool) -> &'static str {
        let own = self.field_aliases.iter().find(|(own, _)| *own == field);
        own.map_or_else(|| field.wire_name(snake), |(_, name)| name)
    }
}
