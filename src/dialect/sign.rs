//! The features of events and requests that identify a dialect.

use super::text_format::TextFormat;
use crate::event::Field;

/// An event feature that identifies a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialectSign {
    pub(super) pattern: EventPattern,
    pub(super) weight: SignWeight,
    /// shown in logs and by `diglot detect`
    pub(super) description: &'static str,
}

impl DialectSign {
    pub(super) const fn new(pattern: EventPattern, weight: SignWeight, description: &'static str) -> Self {
        DialectSign { pattern, weight, description }
    }

    pub(super) const fn own_type(prefix: &'static str, description: &'static str) -> Self {
        DialectSign::new(EventPattern::TypePrefix(prefix), SignWeight::OwnType, description)
    }

    pub(super) const fn shared_type(prefix: &'static str, description: &'static str) -> Self {
        DialectSign::new(EventPattern::TypePrefix(prefix), SignWeight::SharedType, description)
    }

    pub(super) const fn own_member(wire: &'static str, member: &'static str, description: &'static str) -> Self {
        DialectSign::new(EventPattern::HasMember(wire, member), SignWeight::OwnMember, description)
    }

    pub(super) const fn spelling(wire: &'static str, member: &'static str, description: &'static str) -> Self {
        DialectSign::new(EventPattern::HasMember(wire, member), SignWeight::Spelling, description)
    }

    pub(super) const fn absence(pattern: EventPattern, description: &'static str) -> Self {
        DialectSign::new(pattern, SignWeight::Absence, description)
    }
}

/// The strength of a sign, weakest first. One sign overrules any number of weaker ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignWeight {
    /// an event type that several dialects read alike
    SharedType,
    /// something is missing, perhaps by chance
    Absence,
    /// a member is spelled as in the dialect, or has a form that most dialects read
    Spelling,
    /// a member has content where only this dialect has it, and is lost if the event is read as another's
    OwnMember,
    /// the agent declares its version of AG-UI
    DeclaredVersion,
    /// only this dialect has the event type
    OwnType,
}

impl SignWeight {
    /// Describes the weight, for the table of rules.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            SignWeight::SharedType => "type of several dialects",
            SignWeight::Absence => "something missing",
            SignWeight::Spelling => "spelling",
            SignWeight::OwnMember => "own member",
            SignWeight::DeclaredVersion => "declared version",
            SignWeight::OwnType => "own type",
        }
    }
}

/// A condition on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPattern {
    /// the type begins with this prefix
    TypePrefix(&'static str),
    /// an event of this type has this member
    HasMember(&'static str, &'static str),
    /// an event of this type lacks this member
    LacksMember(&'static str, &'static str),
    /// the stream's first event has a different type
    FirstIsNot(&'static str),
}

impl EventPattern {
    /// Tests an event of type `wire`, using `has` to look up its members; `first` means that it is the stream's first.
    #[must_use]
    pub(crate) fn matches(self, wire: &str, has: &dyn Fn(&str) -> bool, first: bool) -> bool {
        match self {
            EventPattern::TypePrefix(start) => wire.starts_with(start),
            EventPattern::HasMember(own, member) => wire == own && has(member),
            EventPattern::LacksMember(own, member) => wire == own && !has(member),
            // In any dialect, an error may be the only event.
            EventPattern::FirstIsNot(own) => first && wire != own && wire != "RUN_ERROR",
        }
    }
}

/// A request feature that identifies a client's dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSign {
    pub(super) pattern: RequestPattern,
    /// the text format that the feature implies
    pub(crate) text_format: TextFormat,
    /// shown in logs and by `diglot detect`
    pub(crate) description: &'static str,
}

impl RequestSign {
    pub(super) const fn new(pattern: RequestPattern, description: &'static str) -> Self {
        RequestSign { pattern, text_format: TextFormat::BySide, description }
    }

    pub(crate) fn is_declared_version(&self) -> bool {
        self.pattern == RequestPattern::DeclaredVersion
    }
}

/// A condition on a request, in order of weight: a match of an earlier variant overrides those of later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPattern {
    /// the request declares AG-UI's `protocolVersion`
    DeclaredVersion,
    /// the content of a message has a form that only this dialect uses
    OwnContent,
    /// a message has this member
    MessageMember(&'static str),
    /// the role of a message is a value alias of the dialect
    AliasedRole,
    /// the request has this member
    Member(&'static str),
    /// the request has the members in `present`, but not `absent`
    LacksMember { present: &'static [Field], absent: Field },
}

impl RequestPattern {
    pub(super) const fn rank(self) -> u8 {
        match self {
            RequestPattern::DeclaredVersion => 0,
            RequestPattern::OwnContent => 1,
            RequestPattern::MessageMember(_) => 2,
            RequestPattern::AliasedRole => 3,
            RequestPattern::Member(_) => 4,
            RequestPattern::LacksMember { .. } => 5,
        }
    }
}
