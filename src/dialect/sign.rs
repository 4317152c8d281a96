//! The event features that identify a dialect.

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
