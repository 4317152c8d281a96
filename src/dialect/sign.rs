//! The features of events and requests that identify a dialect.

use super::text_format::TextFormat;
use crate::event::Field;

/// An event feature that identifies a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialectSign {
    pub(super) pattern: EventPattern,
    /// shown in logs and by `diglot detect`
    pub(super) description: &'static str,
}

impl DialectSign {
    pub(super) const fn new(pattern: EventPattern, description: &'static str) -> Self {
        DialectSign { pattern, description }
    }

    pub(super) const fn has_member(wire: &'static str, member: &'static str, description: &'static str) -> Self {
        DialectSign::new(EventPattern::HasMember(wire, member), description)
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

    /// Returns true if the pattern matches the absence of something, which is weaker evidence.
    pub(super) const fn is_absence(self) -> bool {
        matches!(self, EventPattern::LacksMember(..) | EventPattern::FirstIsNot(_))
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
