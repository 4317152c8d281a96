//! The types of a dialect's table, and of a peer that uses it.

use super::adapter::DialectAdapter;
use super::carry::{self, CarryLocation};
use super::event_parts::OutgoingEvent;
use super::interrupt_form::InterruptForm;
use super::mapped::Mapping;
use super::message_adapter::MessageAdapter;
use super::peer_version::PeerVersion;
use super::row::{EventRow, EventShape};
use super::sign::{DialectSign, RequestSign};
use super::text_format::TextFormat;
use super::tool_name::ToolName;
use crate::event::{Event, EventLoss, EventType, Field, MemberKey};

/// One dialect, described by its differences from AG-UI 1.0.
#[derive(Debug)]
pub struct Dialect {
    /// Name in the configuration and in metrics, and the key in `metadata`.
    pub name: &'static str,
    /// The dialect's events. For each kind, the first row is used when writing.
    pub rows: &'static [EventRow],
    /// Policy for canonical kinds without a row.
    pub fallback: FallbackPolicy,
    /// The place where canonical-only members are carried.
    pub carry_location: CarryLocation,
    /// True if AG-UI's `protocolVersion` is carried; if not, it is removed, since each hop declares its own version.
    pub(crate) carries_protocol_version: bool,
    /// True if event values are read as AG-UI's: a null member is absent, and aliases and timestamps are converted.
    pub(crate) has_ag_ui_values: bool,
    /// True if clients keep messages of all kinds in one list, so that their ids must differ.
    pub(crate) has_one_message_list: bool,
    /// First version whose clients go on with a message that starts again, also one of an earlier run. Others show it
    /// as another message, or not at all. `None` if no version does.
    pub(crate) reopens_since: Option<PeerVersion>,
    pub(crate) message: MessageFormat,
    pub(crate) input: RunInputFormat,
    /// Message and request members with different names.
    pub(crate) field_aliases: &'static [(Field, &'static str)],
    /// Values with different names.
    pub value_aliases: &'static [ValueAlias],
    /// Members that every event repeats, taken from the start of the run.
    pub(crate) common_fields: &'static [Field],
    /// Members of events and their messages that must not leave the gateway, in camelCase.
    pub strip: &'static [&'static str],
    /// Members of its own events that its clients show to the user, besides what the canonical events have.
    pub(crate) shown_members: &'static [&'static str],
    /// Content that its clients get in AG-UI's events, and do not show, because its document does not name them.
    /// Clients of a named version have what that version has.
    pub(crate) hidden_content: &'static [EventLoss],
    /// True if frames have an `event:` line with the type.
    pub(crate) has_event_line: bool,
    /// The [`PeerDialect`] options that apply to this dialect.
    pub option_names: &'static [&'static str],
    /// The form in which a client's user sees interrupts, if the dialect has none itself.
    pub(crate) interrupt_form: Option<InterruptForm>,
    /// Creates the adapter that reads rows with [`EventShape::Own`], if there are any.
    pub(crate) read_adapter: Option<NewAdapter>,
    /// Creates the adapter that writes such rows. The same type may do both.
    pub(crate) write_adapter: Option<NewAdapter>,
    /// Converts messages, if they differ from AG-UI's in more than names.
    pub(crate) message_adapter: Option<&'static dyn MessageAdapter>,
    /// Event features that identify the dialect.
    pub(crate) signs: &'static [DialectSign],
    /// Request features that identify the dialect of a client.
    pub(crate) request_signs: &'static [RequestSign],
    pub(crate) demo_agent: DemoAgent,
    /// Reads the agent's frames and makes its request, if a file describes the dialect.
    pub(crate) mapping: Option<&'static Mapping>,
}

/// An example agent for `diglot demo` and `diglot mock-agent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoAgent {
    /// completes "an AG-UI client talks to …"
    pub(crate) description: &'static str,
    pub(crate) media_type: &'static str,
    /// lines before a frame's data, with `$now_ms`, `$count` (the event's number in its stream) and `$type`
    pub(crate) frame_head: &'static str,
    /// example from the dialect's document, in the format that the `demo` module describes
    pub(crate) events: &'static str,
}

impl DemoAgent {
    pub(super) const fn new(description: &'static str, events: &'static str) -> Self {
        DemoAgent { description, media_type: "text/event-stream", frame_head: "", events }
    }
}

pub(crate) type NewAdapter = fn(PeerDialect) -> Box<dyn DialectAdapter>;

/// Compares addresses, since each table exists only once.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Dialect {}

/// The spelling of member names when writing. Both spellings are accepted when reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberCase {
    /// `messageId`
    #[default]
    Camel,
    /// `message_id`
    Snake,
}

/// The unit of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampUnit {
    /// reads numbers below 10^11 as seconds; writes milliseconds
    #[default]
    Auto,
    /// milliseconds since the epoch
    Milliseconds,
    /// seconds since the epoch
    Seconds,
}

/// One side of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDialect {
    /// the dialect of this side
    pub dialect: &'static Dialect,
    /// the form of streamed text
    pub text_format: TextFormat,
    /// how member names are spelled when writing
    pub member_case: MemberCase,
    /// the peer's version
    pub peer_version: PeerVersion,
    /// unit of the timestamps that the gateway writes
    pub timestamp_unit: TimestampUnit,
    /// interrupts are calls of this tool
    pub interrupt_tool: ToolName,
    /// aliases that take precedence over the dialect's own
    pub value_aliases: &'static [ValueAlias],
    /// names of CUSTOM events that end the run with an error
    pub error_events: &'static [&'static str],
    /// whether the dialect is only a default until one is detected
    pub is_auto: bool,
}

/// A value that has a different name in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAlias {
    /// member
    pub field: Field,
    /// canonical value
    pub canonical: &'static str,
    /// the dialect's value
    pub wire: &'static str,
    /// True if reading restores the canonical value. If not, several values share this name, and the original is
    /// carried.
    pub is_reversible: bool,
}

/// Policy for events without a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// written unchanged: the dialect includes all other AG-UI events
    PassThrough,
    /// wrapped as CUSTOM with a prefixed name
    Custom,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFormat {
    pub(crate) roles: &'static [&'static str],
    /// roles and message members that older peers reject
    pub(crate) since: &'static [(&'static str, PeerVersion)],
    pub(crate) fields: &'static [Field],
    pub(crate) parts: ContentParts,
    /// whether a client's list has no more than four roles and text
    pub(crate) has_plain_snapshots: bool,
    /// content that clients get in AG-UI's messages, and do not show, because the document prints no such messages
    pub(crate) hidden_content: &'static [EventLoss],
    /// first version that ignores unknown message members; `None` if all versions do
    pub(crate) lenient_since: Option<PeerVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentParts {
    /// text and media, as in AG-UI 1.0
    Media,
    /// media only of users, as in AG-UI 1.0; text alone is a string
    OfUser,
    /// text and `binary`; media since this version
    Binary(PeerVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunInputFormat {
    /// AG-UI 1.0 with all members and `protocolVersion`
    Current,
    /// the 0.x form, with exactly seven members, which every older agent accepts
    SevenMembers,
    /// the same, with messages of four roles and with text as their content
    PlainMessages,
}

/// AG-UI's rows, a basis for dialects that replace only some of them.
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
    /// Finds the row of type `wire`, and its position in [`Self::labels`].
    pub(crate) fn row_for_wire(&self, wire: &str) -> Option<(usize, &'static EventRow)>
    where
        Self: 'static,
    {
        let own = self.rows.iter().enumerate().find(|(_, row)| row.wire == wire && row.is_native());
        own.or_else(|| self.plain_row(EventType::from_wire(wire)?))
    }

    /// Returns the first version with the event `wire`, if older versions have another event instead or none.
    pub(crate) fn first_version_with(&self, wire: &str) -> Option<PeerVersion> {
        let kind = EventType::from_wire(wire)?;
        let row = self.rows.iter().find(|row| row.kind == kind && (row.wire != wire || !row.is_native()))?;
        row.until
    }

    /// Returns true if the dialect has several peer versions.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        self.option_names.contains(&"pin")
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.carry_location == CarryLocation::Native
    }

    /// Returns true if a run may begin without its start event, which optional ids imply.
    pub(crate) fn is_start_optional(&self) -> bool {
        self.rows.iter().any(|row| row.kind == EventType::RunStarted && row.shape == EventShape::OptionalIds)
    }

    pub(crate) fn has_object_arguments(&self) -> bool {
        self.rows.iter().any(|row| row.kind == EventType::ToolCallArgs && row.shape == EventShape::ObjectPieces)
    }

    pub(crate) fn has_event(&'static self, wire: &str) -> bool {
        self.row_for_wire(wire).is_some()
    }

    /// Returns true if the table has the event `wire` only to say that other events stand for it.
    pub(crate) fn lacks_event(&self, wire: &str) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.wire == wire).peekable();
        rows.peek().is_some() && !rows.any(EventRow::is_native)
    }

    /// Finds the row that writes `kind` for this version, and its position in [`Self::labels`].
    #[must_use]
    pub fn row_for_kind(&self, kind: EventType, pin: PeerVersion) -> Option<(usize, &'static EventRow)> {
        let writes =
            |row: &EventRow| row.kind == kind && row.shape.writes_its_kind() && row.until.is_none_or(|end| pin < end);
        let own = self.rows.iter().enumerate().find(|(_, row)| writes(row));
        own.or_else(|| self.plain_row(kind))
    }

    /// Returns the row at a position returned by [`Dialect::row_for_kind`].
    pub(crate) fn row_at_label(&self, label: usize, kind: EventType) -> &'static EventRow {
        self.rows.get(label).unwrap_or(&PLAIN_ROWS[kind as usize])
    }

    /// Finds the row with a shape that occurs only once.
    pub(crate) fn row_with_shape(&self, shape: EventShape) -> Option<(usize, &'static EventRow)> {
        self.rows.iter().enumerate().find(|(_, row)| row.shape == shape)
    }

    /// Returns true if a message can be one event, which a resumed conversation cannot continue.
    #[must_use]
    pub fn has_whole_messages(&self) -> bool {
        self.rows.iter().any(|row| row.shape.own_shape().is_some_and(|own| own.is_whole_message))
    }

    /// Separates the event's members into those that the row has and the rest.
    pub(crate) fn split_members<'a>(
        &self,
        row: &'static EventRow,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> OutgoingEvent<'a> {
        let mut outgoing = OutgoingEvent { canonical_type, ..OutgoingEvent::default() };
        // Most events have only members that the row has, so the list stays as it is.
        if event.members.iter().all(|(key, _)| matches!(key, MemberKey::Known(field) if row.has_field(*field))) {
            return OutgoingEvent { members: event.members, ..outgoing };
        }
        for (key, value) in event.members {
            match &key {
                MemberKey::Known(field) if row.has_field(*field) => outgoing.members.push((key, value)),
                MemberKey::Known(Field::Metadata) => {
                    let keeps = |key: &MemberKey<'_>| match key {
                        MemberKey::Known(Field::Metadata) => self.carry_location == CarryLocation::Metadata,
                        MemberKey::Known(field) if row.has_field(*field) => true,
                        // A carried member with this name would conflict with an alias of the row.
                        key => row.field_aliases.iter().any(|(_, name)| carry::is_named(key, name)),
                    };
                    let splices = |key: &MemberKey<'_>| !keeps(key) && carry::is_stable_name(key);
                    let (own, rest) = carry::unpack(value, self.name, splices);
                    outgoing.extensions.extend(own);
                    let rest = rest.map(|rest| (MemberKey::Known(Field::Metadata), rest));
                    match self.carry_location {
                        CarryLocation::Metadata => {
                            outgoing.extensions.extend(rest.map(|(key, rest)| (key, rest.into_owned())));
                        }
                        CarryLocation::Extra | CarryLocation::Native => outgoing.canonical.extend(rest),
                    }
                }
                _ => outgoing.canonical.push((key, value)),
            }
        }
        outgoing
    }

    fn plain_row(&self, kind: EventType) -> Option<(usize, &'static EventRow)> {
        (self.fallback == FallbackPolicy::PassThrough).then(|| (self.label_index(kind), &PLAIN_ROWS[kind as usize]))
    }

    /// Returns the event types for metrics: the rows, the canonical kinds if the dialect includes them, and `OTHER`
    /// last.
    pub(crate) fn labels(&self) -> Vec<&'static str> {
        let canonical = match self.fallback {
            FallbackPolicy::PassThrough => EventType::ALL,
            FallbackPolicy::Custom => &[],
        };
        let rows = self.rows.iter().map(|row| row.wire);
        rows.chain(canonical.iter().map(|kind| kind.wire())).chain(["OTHER"]).collect()
    }

    /// Returns the position in [`Self::labels`] for a kind without a row.
    #[must_use]
    pub fn label_index(&self, kind: EventType) -> usize {
        match self.fallback {
            FallbackPolicy::PassThrough => self.rows.len() + kind as usize,
            FallbackPolicy::Custom => self.other_label_index(),
        }
    }

    pub(crate) fn other_label_index(&self) -> usize {
        match self.fallback {
            FallbackPolicy::PassThrough => self.rows.len() + EventType::ALL.len(),
            FallbackPolicy::Custom => self.rows.len(),
        }
    }
}
