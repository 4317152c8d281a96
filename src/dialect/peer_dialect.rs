//! One side of a route: a dialect and the options that a peer of it may need.

use super::{CONFIRM, Dialect, ToolName, Word};

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

/// The version of AG-UI that an older peer has: the first of each stretch in which what it takes is the same
/// (`specs/ag-ui-1.0.md` §1.4). What leaves for a version is accepted by every later one below 1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// any of them: what all take
    #[default]
    Any,
    /// `ag-ui-protocol` 0.1.5 to 0.1.8 of Python: whoever reads a request there refuses every member that its types do not
    /// have, and lists of parts
    V0_1,
    /// the base set of events
    V0_0_35,
    /// THINKING_*; roles may be missing, events may interleave
    V0_0_39,
    /// ACTIVITY_*
    V0_0_42,
    /// REASONING_*
    V0_0_45,
    /// as before
    V0_0_47,
    /// empty deltas
    V0_0_53,
    /// outcomes
    V0_0_57,
    /// SUBAGENT_*, metadata on messages
    V0_0_59,
}

/// In what timestamps count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
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
pub struct Side {
    /// the dialect
    pub dialect: &'static Dialect,
    /// how it takes text
    pub content: Content,
    /// how it spells members
    pub fields: Spelling,
    /// which version of it the peer has
    pub pin: Pin,
    /// in what its timestamps count
    pub timestamp: Unit,
    /// the tool that asks its user what an interrupt asks
    pub interrupt_tool: ToolName,
    /// words of the peer's own for values, before those of the dialect
    pub words: &'static [Word],
    /// names of CUSTOM events that are errors of the run
    pub errors: &'static [&'static str],
    /// Whether the dialect is only where one begins: what the peer says decides.
    pub auto: bool,
}

impl Side {
    /// The dialect with its default options.
    #[must_use]
    pub fn new(dialect: &'static Dialect) -> Self {
        Side {
            dialect,
            content: Content::default(),
            fields: Spelling::default(),
            // Who has no versions is no older peer.
            pin: if dialect.is_versioned() { Pin::default() } else { Pin::V0_0_59 },
            timestamp: Unit::default(),
            interrupt_tool: ToolName::filled(CONFIRM),
            words: &[],
            errors: &[],
            auto: false,
        }
    }
}

/// Name of the option of a dialect that knows interrupts as calls of a tool.
pub const INTERRUPT_TOOL: &str = "interrupt_tool";

impl Side {
    /// The tool whose calls stand for interrupts, where the dialect has no other word for one.
    #[must_use]
    pub fn asks_by(&self) -> Option<&str> {
        self.dialect.options.contains(&INTERRUPT_TOOL).then(|| self.interrupt_tool.as_str())
    }
}

impl Side {
    /// A side whose dialect is told by what it says. Until then it is taken for AG-UI before 1.0, whose requests every agent
    /// of AG-UI takes, and which reads all of AG-UI.
    #[must_use]
    pub fn auto() -> Self {
        Side { auto: true, ..Side::new(&super::AG_UI_0) }
    }

    /// What a route calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.auto { AUTO } else { self.dialect.name }
    }

    /// The dialects that the side may turn out to speak.
    #[must_use]
    pub fn dialects(&self) -> Vec<&'static Dialect> {
        if self.auto { super::ALL.to_vec() } else { vec![self.dialect] }
    }
}

/// What `client` and `agent` of a route are called when what they say decides.
pub const AUTO: &str = "auto";

/// What a choice sets.
pub type Set = fn(&mut Side);

/// One choice of an option: its name, the word for the choice, and what it sets.
pub type Choice = (&'static str, &'static str, Set);

/// Every option that is a choice between words.
pub const CHOICES: &[Choice] = &[
    ("content", "string", |side| side.content = Content::String),
    ("content", "blocks", |side| side.content = Content::Blocks),
    ("fields", "camel", |side| side.fields = Spelling::Camel),
    ("fields", "snake", |side| side.fields = Spelling::Snake),
    ("timestamp", "auto", |side| side.timestamp = Unit::Auto),
    ("timestamp", "ms", |side| side.timestamp = Unit::Milliseconds),
    ("timestamp", "s", |side| side.timestamp = Unit::Seconds),
    ("pin", "0.0.35", |side| side.pin = Pin::V0_0_35),
    ("pin", "0.0.39", |side| side.pin = Pin::V0_0_39),
    ("pin", "0.0.42", |side| side.pin = Pin::V0_0_42),
    ("pin", "0.0.45", |side| side.pin = Pin::V0_0_45),
    ("pin", "0.0.47", |side| side.pin = Pin::V0_0_47),
    ("pin", "0.0.53", |side| side.pin = Pin::V0_0_53),
    ("pin", "0.0.57", |side| side.pin = Pin::V0_0_57),
    ("pin", "0.0.59", |side| side.pin = Pin::V0_0_59),
    ("pin", "0.1", |side| side.pin = Pin::V0_1),
];

/// The choices of the option called `name`.
pub fn choices(name: &str) -> impl Iterator<Item = &'static Choice> {
    CHOICES.iter().filter(move |(option, ..)| *option == name)
}
