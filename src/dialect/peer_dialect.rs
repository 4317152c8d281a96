//! One side of a route: a dialect and the options that a peer of it may need.

use super::peer_version::PeerVersion;
use super::table::{Dialect, ValueAlias};
use super::tool_name::{DEFAULT_INTERRUPT_TOOL, ToolName};

/// Whether streamed text is written as plain strings or as output blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextFormat {
    /// `"delta": "text"`
    #[default]
    String,
    /// `"delta": {"output": {"type": "text", "content": "text"}}`
    Blocks,
}

/// How member names are spelt when written. Reading accepts both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberCase {
    /// `messageId`
    #[default]
    Camel,
    /// `message_id`
    Snake,
}

/// In what timestamps count.
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

/// One side of a route: a dialect and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDialect {
    /// the dialect
    pub dialect: &'static Dialect,
    /// how it takes text
    pub text_format: TextFormat,
    /// how it spells members
    pub member_case: MemberCase,
    /// which version of it the peer has
    pub peer_version: PeerVersion,
    /// in what its timestamps count
    pub timestamp_unit: TimestampUnit,
    /// the tool that asks its user what an interrupt asks
    pub interrupt_tool: ToolName,
    /// words of the peer's own for values, before those of the dialect
    pub value_aliases: &'static [ValueAlias],
    /// names of CUSTOM events that are errors of the run
    pub error_events: &'static [&'static str],
    /// Whether the dialect is only where one begins: what the peer says decides.
    pub is_auto: bool,
}

impl PeerDialect {
    /// The dialect with its default options.
    #[must_use]
    pub fn new(dialect: &'static Dialect) -> Self {
        PeerDialect {
            dialect,
            text_format: TextFormat::default(),
            member_case: MemberCase::default(),
            // Who has no versions is no older peer.
            peer_version: if dialect.is_versioned() { PeerVersion::default() } else { PeerVersion::V0_0_59 },
            timestamp_unit: TimestampUnit::default(),
            interrupt_tool: ToolName::from_static(DEFAULT_INTERRUPT_TOOL),
            value_aliases: &[],
            error_events: &[],
            is_auto: false,
        }
    }

    /// What a route calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.is_auto { AUTO } else { self.dialect.name }
    }
}

/// Name of the option of a dialect that knows interrupts as calls of a tool.
pub const INTERRUPT_TOOL: &str = "interrupt_tool";

impl PeerDialect {
    /// The tool whose calls stand for interrupts, where the dialect has no other word for one.
    #[must_use]
    pub(crate) fn interrupt_tool_name(&self) -> Option<&str> {
        self.dialect.option_names.contains(&INTERRUPT_TOOL).then(|| self.interrupt_tool.as_str())
    }
}

/// What `client` and `agent` of a route are called when what they say decides.
pub const AUTO: &str = "auto";

/// What a choice sets.
pub type OptionSetter = fn(&mut PeerDialect);

/// One choice of an option: its name, the word for the choice, and what it sets.
pub type OptionChoice = (&'static str, &'static str, OptionSetter);

/// Every option that is a choice between words.
pub const OPTION_CHOICES: &[OptionChoice] = &[
    ("content", "string", |side| side.text_format = TextFormat::String),
    ("content", "blocks", |side| side.text_format = TextFormat::Blocks),
    ("fields", "camel", |side| side.member_case = MemberCase::Camel),
    ("fields", "snake", |side| side.member_case = MemberCase::Snake),
    ("timestamp", "auto", |side| side.timestamp_unit = TimestampUnit::Auto),
    ("timestamp", "ms", |side| side.timestamp_unit = TimestampUnit::Milliseconds),
    ("timestamp", "s", |side| side.timestamp_unit = TimestampUnit::Seconds),
    ("pin", "0.0.35", |side| side.peer_version = PeerVersion::V0_0_35),
    ("pin", "0.0.39", |side| side.peer_version = PeerVersion::V0_0_39),
    ("pin", "0.0.42", |side| side.peer_version = PeerVersion::V0_0_42),
    ("pin", "0.0.45", |side| side.peer_version = PeerVersion::V0_0_45),
    ("pin", "0.0.47", |side| side.peer_version = PeerVersion::V0_0_47),
    ("pin", "0.0.53", |side| side.peer_version = PeerVersion::V0_0_53),
    ("pin", "0.0.57", |side| side.peer_version = PeerVersion::V0_0_57),
    ("pin", "0.0.59", |side| side.peer_version = PeerVersion::V0_0_59),
    ("pin", "0.1", |side| side.peer_version = PeerVersion::V0_1),
];

/// The choices of the option called `name`.
pub fn choices_for(name: &str) -> impl Iterator<Item = &'static OptionChoice> {
    OPTION_CHOICES.iter().filter(move |(option, ..)| *option == name)
}
