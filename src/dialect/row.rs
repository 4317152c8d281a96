//! A row of a dialect's table: one event mapped to the canonical vocabulary, and the closed set of shapes.

use super::peer_version::PeerVersion;
use crate::codec::json::ObjectWriter;
use crate::event::{EventType, Field, MemberKey, Members};
use std::ops::Range;

/// One event of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// the value of `type`
    pub wire: &'static str,
    /// the canonical event
    pub kind: EventType,
    /// how it differs from the canonical event
    pub shape: EventShape,
    /// canonical members of this event; all others are carried
    pub fields: FieldSet,
    /// members with another name in this event
    pub field_aliases: &'static [(Field, &'static str)],
    /// first peer version that does not receive this event
    pub until: Option<PeerVersion>,
    /// the relevant section of the dialect's document
    pub seed: &'static str,
}

/// The canonical members of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSet {
    /// only these
    Only(&'static [Field]),
    /// all except these
    AllBut(&'static [Field]),
}

/// The difference between an event and its canonical counterpart. The engine (`translate/`) reads and writes every
/// shape except `Own`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventShape {
    /// no difference except names
    Plain,
    /// an error that may be nested in an `error` member
    MaybeNestedError,
    /// a delta that may be an object instead of its JSON text, and one of several, which together are the arguments
    ObjectPieces,
    /// content that may be any JSON value instead of its text, and a message id that may be missing
    AnyContent,
    /// a list of messages
    MessageList,
    /// a canonical event without a counterpart in the dialect, which travels whole as CUSTOM
    Unsupported,
    /// a chunk, which becomes start, content and end
    ExpandedChunk,
    /// the start or end of a run, with optional ids
    OptionalIds,
    /// a start event that always has a role
    ExplicitRole,
    /// a form specific to this dialect, read and written by its adapter
    Own(&'static OwnShape),
}

/// A function that finds the text in a delta.
type TextFinder = fn(&str) -> Option<Range<usize>>;

/// An event that only one dialect has, read and written by its adapter.
#[derive(Debug)]
pub struct OwnShape {
    /// shown on the dialects page
    pub description: &'static str,
    /// the event is a whole message, so a resumed conversation cannot continue it
    pub(crate) is_whole_message: bool,
    /// a messages snapshot can replace the event
    pub(crate) is_in_snapshot: bool,
    /// `null` counts as a missing member, also where the member is required
    pub(crate) null_is_absent: bool,
    /// the member that contains the text, if it is not one of the row's members
    pub(crate) text_member: Option<&'static str>,
    /// finds the text in a delta that is not a string
    pub(crate) find_text: Option<TextFinder>,
    /// the row writes all events of its kind; other rows are found by shape
    pub(crate) writes_its_kind: bool,
}

/// Compares addresses, since several rows of a dialect may have the same description.
impl PartialEq for OwnShape {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for OwnShape {}

impl OwnShape {
    pub(crate) const fn new(description: &'static str) -> Self {
        OwnShape {
            description,
            is_whole_message: false,
            is_in_snapshot: true,
            null_is_absent: false,
            text_member: None,
            find_text: None,
            writes_its_kind: true,
        }
    }
}

impl EventShape {
    /// Returns the shape if it is specific to this dialect.
    #[must_use]
    pub const fn own_shape(self) -> Option<&'static OwnShape> {
        match self {
            EventShape::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Returns true if this row writes all events of its kind; other rows are found by shape.
    pub(crate) const fn writes_its_kind(self) -> bool {
        match self {
            EventShape::Own(own) => own.writes_its_kind,
            _ => true,
        }
    }
}

impl EventRow {
    pub(super) const fn plain(kind: EventType) -> EventRow {
        EventRow {
            wire: kind.wire(),
            kind,
            // Messages use the dialect's names and values even in an AG-UI event.
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

    pub(super) const fn is_native(&self) -> bool {
        !matches!(self.shape, EventShape::Unsupported | EventShape::ExpandedChunk)
    }

    /// Returns true if the event has `field`. Every event has a timestamp; metadata is never passed unchanged, because
    /// it holds carried members.
    pub(crate) fn has_field(&self, field: Field) -> bool {
        match (field, self.fields) {
            (Field::Timestamp, _) => true,
            (Field::Metadata, _) => false,
            (_, FieldSet::Only(these)) => these.contains(&field),
            (_, FieldSet::AllBut(these)) => !these.contains(&field) && self.kind.slot(field).is_some(),
        }
    }

    pub(crate) fn field_name(&self, field: Field, snake: bool) -> &'static str {
        let own = self.field_aliases.iter().find(|(own, _)| *own == field);
        own.map_or_else(|| field.wire_name(snake), |(_, name)| name)
    }

    /// Writes members under the names that they have in this event.
    pub(crate) fn write_members(&self, object: &mut ObjectWriter<'_>, members: &Members<'_>, snake: bool) {
        for member in members {
            match &member.0 {
                MemberKey::Known(field) => object.member(self.field_name(*field, snake), member.1.as_str()),
                MemberKey::Other(_) => object.copy_member(member, snake),
            }
        }
    }
}
