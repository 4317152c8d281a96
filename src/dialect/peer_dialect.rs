//! Options for one side of a route.

use super::adapter::DialectAdapter;
use super::earlier_messages::{EarlierContent, EarlierMessage, EarlierMessages};
use super::interrupt_form::{InterruptForm, InterruptTools};
use super::peer_version::PeerVersion;
use super::table::{Dialect, MemberCase, PeerDialect, TimestampUnit};
use super::text_format::TextFormat;
use super::tool_name::ToolName;
use crate::event::input::MessageMembers;
use crate::event::{EventLoss, Field, get_owned};

impl PeerDialect {
    /// Creates a side with the default options.
    #[must_use]
    pub fn new(dialect: &'static Dialect) -> Self {
        PeerDialect {
            dialect,
            text_format: TextFormat::default(),
            member_case: MemberCase::default(),
            // Dialects without versions have no older peers.
            peer_version: if dialect.is_versioned() { PeerVersion::default() } else { PeerVersion::V0_0_59 },
            timestamp_unit: TimestampUnit::default(),
            interrupt_tool: dialect.interrupt_form.and_then(InterruptForm::default_tool).unwrap_or(ToolName::NONE),
            value_aliases: &[],
            error_events: &[],
            is_auto: false,
        }
    }

    /// Returns the side of a client, with its default text format.
    pub(crate) fn for_client(self) -> Self {
        PeerDialect { text_format: self.text_format.for_client(), ..self }
    }

    /// Creates the adapter that reads the peer's events in one run, if the dialect needs one.
    pub(crate) fn new_read_adapter(&self) -> Option<Box<dyn DialectAdapter>> {
        self.dialect.read_adapter.map(|new| new(*self))
    }

    /// Creates the adapter that writes events for the peer in one run, if the dialect needs one.
    pub(crate) fn new_write_adapter(&self) -> Option<Box<dyn DialectAdapter>> {
        self.dialect.write_adapter.map(|new| new(*self))
    }

    /// Returns true if two times with as many digits are both copied, or both converted. Only `auto` looks at the
    /// number, and its limit is a power of ten.
    pub(crate) fn copies_time(&self) -> bool {
        self.timestamp_unit != TimestampUnit::Seconds || !self.dialect.option_names.contains(&"timestamp")
    }

    /// Returns true if the peer, a client, goes on with a message that starts again.
    pub(crate) fn reopens_messages(&self) -> bool {
        self.dialect.reopens_since.is_some_and(|since| self.peer_version >= since)
    }

    /// Returns true if the peer, a client with AG-UI's list of messages, gets a call as it arrives.
    pub(crate) fn streams_calls(&self) -> bool {
        self.dialect.has_one_message_list && !self.peer_version.is_sequential() && !self.dialect.has_whole_messages()
    }

    /// Collects the messages that the peer, a client, has from before a run, unless it goes on with those.
    pub(crate) fn earlier_messages(&self, messages: &[MessageMembers<'_>]) -> EarlierMessages {
        if self.reopens_messages() {
            return EarlierMessages::default();
        }
        let earlier = |message: &MessageMembers<'_>| {
            let adapter = self.dialect.message_adapter;
            let stored = adapter.and_then(|adapter| adapter.stored_id(message, self.dialect.name));
            let id = stored.or_else(|| get_owned(message, Field::Id))?;
            Some(EarlierMessage { id, content: EarlierContent::from_message(message) })
        };
        EarlierMessages { messages: messages.iter().filter_map(earlier).collect() }
    }

    /// Returns true for content that the peer, a client, gets in AG-UI's events and does not show.
    pub(crate) fn hides(&self, content: EventLoss) -> bool {
        let is_named = self.dialect.is_versioned() && self.peer_version != PeerVersion::Any;
        !is_named && self.dialect.hidden_content.contains(&content)
    }

    /// Returns true if the peer has interrupts, or another form in which its user is asked.
    pub(crate) fn shows_interrupts(&self) -> bool {
        self.dialect.is_canonical() || self.dialect.interrupt_form.is_some()
    }

    /// Returns the configured name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.is_auto { AUTO } else { self.dialect.name }
    }
}

/// The option that names the tool for interrupts.
pub const INTERRUPT_TOOL: &str = "interrupt_tool";

impl PeerDialect {
    /// Returns the form in which the peer's user is asked; `None` if the peer has interrupts itself.
    pub(crate) fn interrupt_form(&self) -> Option<InterruptForm> {
        let has_interrupts = self.dialect.is_versioned() && self.peer_version >= PeerVersion::V0_0_57;
        self.dialect.interrupt_form.filter(|_| !has_interrupts)
    }

    /// Returns true if calls of this tool may be interrupts.
    pub(crate) fn is_interrupt_tool(&self, name: &str) -> bool {
        let Some(InterruptForm::ToolCall(tools)) = self.interrupt_form() else { return false };
        self.interrupt_tool.as_str() == name || (self.has_default_tool(tools) && tools.input == Some(name))
    }

    /// Returns true if the route does not name another tool than the dialect's.
    pub(crate) fn has_default_tool(&self, tools: InterruptTools) -> bool {
        self.interrupt_tool.as_str() == tools.confirm
    }
}

/// The value of a route's `client` or `agent` that enables detection.
pub const AUTO: &str = "auto";

/// A function that applies a choice to a side.
pub type OptionSetter = fn(&mut PeerDialect);

/// An option, one of its choices, and the effect.
pub type OptionChoice = (&'static str, &'static str, OptionSetter);

/// Lists the choices of `pin` for the versions `0.0.PATCH`, and further ones.
macro_rules! option_choices {
    (pins: $($patch:literal)+; $($choice:expr,)+) => {
        &[
            $(("pin", concat!("0.0.", $patch), |side| side.peer_version = PeerVersion::from_patch($patch)),)+
            $($choice,)+
        ]
    };
}

/// All options with a fixed list of choices.
pub const OPTION_CHOICES: &[OptionChoice] = option_choices![
    pins: 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59;
    ("pin", "0.1", |side| side.peer_version = PeerVersion::V0_1),
    ("content", "string", |side| side.text_format = TextFormat::String),
    ("content", "blocks", |side| side.text_format = TextFormat::Blocks),
    ("fields", "camel", |side| side.member_case = MemberCase::Camel),
    ("fields", "snake", |side| side.member_case = MemberCase::Snake),
    ("timestamp", "auto", |side| side.timestamp_unit = TimestampUnit::Auto),
    ("timestamp", "ms", |side| side.timestamp_unit = TimestampUnit::Milliseconds),
    ("timestamp", "s", |side| side.timestamp_unit = TimestampUnit::Seconds),
];

/// Returns the choices of an option.
pub fn choices_for(name: &str) -> impl Iterator<Item = &'static OptionChoice> {
    OPTION_CHOICES.iter().filter(move |(option, ..)| *option == name)
}
