//! A row of a dialect's table: one event against the canonical vocabulary, and the closed set of shapes.

use super::peer_version::PeerVersion;
use crate::event::{EventType, Field};

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

/// The canonical members that an event can hold.
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

/// The three events of a message between agents.
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

    /// Returns true where every event of the row's kind is written by this row. The other rows are found by their shape.
    #[must_use]
    pub(crate) const fn writes_its_kind(self) -> bool {
        !matches!(self, EventShape::NonCanonical | EventShape::Collaboration(_))
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

    /// Returns true for an event of the dialect, false for a canonical one that the dialect does not have.
    pub(super) const fn is_native(&self) -> bool {
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

    /// Returns the name of `field` in this event.
    #[must_use]
    pub(crate) fn field_name(&self, field: Field, snake: bool) -> &'static str {
        let own = self.field_aliases.iter().find(|(own, _)| *own == field);
        own.map_or_else(|| field.wire_name(snake), |(_, name)| name)
    }
}
