//! The types of a dialect's table, and of a peer that uses it.

use super::adapter::DialectAdapter;
use super::carry::{self, CarryLocation};
use super::event_parts::OutgoingEvent;
use super::message_adapter::MessageAdapter;
use super::peer_version::PeerVersion;
use super::row::{EventRow, EventShape};
use super::sign::DialectSign;
use super::text_format::TextFormat;
use super::tool_name::ToolName;
use crate::event::{Event, EventType, Field, MemberKey};

/// One dialect, described against AG-UI 1.0.
#[derive(Debug)]
pub struct Dialect {
    /// Its name in the configuration, in metrics, and as the key of its own members in `metadata`.
    pub name: &'static str,
    /// Its events. The first row of a kind is the one to be written.
    pub rows: &'static [EventRow],
    /// The treatment of canonical kinds that have no row.
    pub fallback: FallbackPolicy,
    /// The place for canonical-only members.
    pub carry_location: CarryLocation,
    pub(crate) message: MessageFormat,
    pub(crate) input: RunInputFormat,
    /// Members with other names in its messages and requests.
    pub(crate) field_aliases: &'static [(Field, &'static str)],
    /// Values with other names.
    pub value_aliases: &'static [ValueAlias],
    /// Members on every event, from the start of the run.
    pub(crate) common_fields: &'static [Field],
    /// Members of its events, and of messages in them, that must not leave the gateway, in camelCase.
    pub strip: &'static [&'static str],
    /// True where a frame has an `event:` line with the event's type.
    pub(crate) has_event_line: bool,
    /// Names of the options in [`PeerDialect`](super::PeerDialect) that apply here.
    pub option_names: &'static [&'static str],
    /// Creates the reader or writer of events of shape [`EventShape::Own`]; `None` if there are none.
    pub(crate) adapter: Option<NewAdapter>,
    /// Converts messages; `None` if they have AG-UI's form apart from names.
    pub(crate) message_adapter: Option<&'static dyn MessageAdapter>,
    /// Features of its events by which it is detected.
    pub(crate) signs: &'static [DialectSign],
    pub(crate) demo_agent: DemoAgent,
}

/// The agent of a dialect that `diglot demo` and `diglot mock-agent` run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoAgent {
    /// what it is, as in "an AG-UI client talks to a CloudBase agent"
    pub(crate) description: &'static str,
    pub(crate) media_type: &'static str,
    /// lines of a frame before its data, with `$now_ms`, `$count` (of the event in its stream) and `$type`
    pub(crate) frame_head: &'static str,
    /// its events as the dialect's document prints them; the module `demo` describes the format
    pub(crate) events: &'static str,
}

impl DemoAgent {
    pub(super) const fn new(description: &'static str, events: &'static str) -> Self {
        DemoAgent { description, media_type: "text/event-stream", frame_head: "", events }
    }
}

/// Creates the adapter of a dialect for one stream.
pub(crate) type NewAdapter = fn(PeerDialect) -> Box<dyn DialectAdapter>;

/// Equality is identity: a table has no second copy.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Dialect {}

/// The spelling of written member names. Reading accepts both.
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
    /// numbers below 10^11 are seconds, others milliseconds; milliseconds are written
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
    /// its dialect
    pub dialect: &'static Dialect,
    /// form of streamed text
    pub text_format: TextFormat,
    /// spelling of member names
    pub member_case: MemberCase,
    /// version of the peer
    pub peer_version: PeerVersion,
    /// unit of its timestamps
    pub timestamp_unit: TimestampUnit,
    /// tool whose calls stand for interrupts
    pub interrupt_tool: ToolName,
    /// the peer's own values, with precedence over the dialect's
    pub value_aliases: &'static [ValueAlias],
    /// names of CUSTOM events that are run errors
    pub error_events: &'static [&'static str],
    /// True while the dialect is only a default, to be replaced by the detected one.
    pub is_auto: bool,
}

/// A value of a member with another name in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAlias {
    /// member
    pub field: Field,
    /// canonical value
    pub canonical: &'static str,
    /// the dialect's value
    pub wire: &'static str,
    /// True if the dialect's value is read as the canonical one. It is false if several values share it: the value is
    /// carried.
    pub is_reversible: bool,
}

/// The treatment of the kinds and types that a dialect's table does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// the dialect has all of AG-UI's others, and writes them unchanged
    PassThrough,
    /// they travel as CUSTOM with a prefixed name and the whole event as value
    Custom,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageFormat {
    pub(crate) roles: &'static [&'static str],
    /// roles and message members that only peers from a version on accept
    pub(crate) since: &'static [(&'static str, PeerVersion)],
    pub(crate) fields: &'static [Field],
    pub(crate) parts: ContentParts,
    /// version from which on peers ignore unknown members of a request's messages; `None` for all versions
    pub(crate) lenient_since: Option<PeerVersion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentParts {
    Never,
    /// text and media, as AG-UI 1.0 has them
    Media,
    /// text and `binary`, and media from this version on
    Binary(PeerVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunInputFormat {
    /// AG-UI 1.0: any member of the specification, with `protocolVersion`
    Current,
    /// the 0.x form, always with all seven members and no others, which every older agent accepts
    SevenMembers,
}

/// AG-UI's own rows, for dialects that replace only some.
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
    /// Returns the row of the event `wire`, and its position in [`Self::labels`].
    pub(crate) fn row_for_wire(&self, wire: &str) -> Option<(usize, &'static EventRow)>
    where
        Self: 'static,
    {
        let own = self.rows.iter().enumerate().find(|(_, row)| row.wire == wire && row.is_native());
        own.or_else(|| self.plain_row(EventType::from_wire(wire)?))
    }

    /// Returns the first peer version with the event `wire`, if older ones have another event instead, or none.
    pub(crate) fn first_version_with(&self, wire: &str) -> Option<PeerVersion> {
        let kind = EventType::from_wire(wire)?;
        let row = self.rows.iter().find(|row| row.kind == kind && (row.wire != wire || !row.is_native()))?;
        row.until
    }

    /// Returns true if its peers have versions that accept different events.
    #[must_use]
    pub fn is_versioned(&self) -> bool {
        self.option_names.contains(&"pin")
    }

    pub(crate) fn is_canonical(&self) -> bool {
        self.carry_location == CarryLocation::Native
    }

    pub(crate) fn has_event(&'static self, wire: &str) -> bool {
        self.row_for_wire(wire).is_some()
    }

    /// Returns the row that writes `kind` for a peer of this version, and its position in [`Self::labels`].
    #[must_use]
    pub fn row_for_kind(&self, kind: EventType, pin: PeerVersion) -> Option<(usize, &'static EventRow)> {
        let writes =
            |row: &EventRow| row.kind == kind && row.shape.writes_its_kind() && row.until.is_none_or(|end| pin < end);
        let own = self.rows.iter().enumerate().find(|(_, row)| writes(row));
        own.or_else(|| self.plain_row(kind))
    }

    /// Returns the row that [`Dialect::row_for_kind`] found for `kind`, by its position.
    pub(crate) fn row_at_label(&self, label: usize, kind: EventType) -> &'static EventRow {
        self.rows.get(label).unwrap_or(&PLAIN_ROWS[kind as usize])
    }

    /// Returns the row of this shape, which must be one that occurs once.
    pub(crate) fn row_with_shape(&self, shape: EventShape) -> Option<(usize, &'static EventRow)> {
        self.rows.iter().enumerate().find(|(_, row)| row.shape == shape)
    }

    /// Returns true if a message is one event, so that a snapshot cannot continue it.
    pub(crate) fn has_whole_messages(&self) -> bool {
        self.rows.iter().any(|row| row.shape.own_shape().is_some_and(|own| own.is_whole_message))
    }

    /// Sorts the members of an event for the row that writes it.
    pub(crate) fn split_members<'a>(
        &self,
        row: &'static EventRow,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> OutgoingEvent<'a> {
        let mut outgoing = OutgoingEvent { canonical_type, ..OutgoingEvent::default() };
        // Most events have only members of the row: the list stays as it is.
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
                        // A carried member of this name would conflict with the alias of a row member.
                        key => row.field_aliases.iter().any(|(_, name)| carry::is_named(key, name)),
                    };
                    let splices = |key: &MemberKey<'_>| !keeps(key);
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

    /// Returns the closed set of event types for metrics: the rows, the canonical kinds if the dialect has them, and
    /// `OTHER` last.
    pub(crate) fn labels(&self) -> Vec<&'static str> {
        let canonical = match self.fallback {
            FallbackPolicy::PassThrough => EventType::ALL,
            FallbackPolicy::Custom => &[],
        };
        let rows = self.rows.iter().map(|row| row.wire);
        rows.chain(canonical.iter().map(|kind| kind.wire())).chain(["OTHER"]).collect()
    }

    /// Returns the position in [`Self::labels`] of a canonical kind without a row.
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
