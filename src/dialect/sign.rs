//! The features of events by which a dialect is detected.

/// A feature that only one dialect has, or that only its document prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialectSign {
    pub(super) pattern: EventPattern,
    /// the pattern in words, for logs and `diglot detect`
    pub(super) description: &'static str,
}

impl DialectSign {
    pub(super) const fn new(pattern: EventPattern, description: &'static str) -> Self {
        DialectSign { pattern, description }
    }
}

/// A condition on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPattern {
    /// its type has this prefix
    TypePrefix(&'static str),
    /// it is of this type and has this member
    HasMember(&'static str, &'static str),
    /// it is of this type and lacks this member
    LacksMember(&'static str, &'static str),
    /// it is the first of its stream and of another type
    FirstIsNot(&'static str),
}

impl EventPattern {
    /// Returns true for a match with an event of type `wire`, the members that `has` accepts, and its position
    /// (`first`) in the stream.
    #[must_use]
    pub(crate) fn matches(self, wire: &str, has: &dyn Fn(&str) -> bool, first: bool) -> bool {
        match self {
            EventPattern::TypePrefix(start) => wire.starts_with(start),
            EventPattern::HasMember(own, member) => wire == own && has(member),
            EventPattern::LacksMember(own, member) => wire == own && !has(member),
            // An error may be the only event in any dialect.
            EventPattern::FirstIsNot(own) => first && wire != own && wire != "RUN_ERROR",
        }
    }

    /// Returns true if the lack of something matches, which is weaker evidence than its presence.
    pub(super) const fn is_absence(self) -> bool {
        matches!(self, EventPattern::LacksMember(..) | EventPattern::FirstIsNot(_))
    }
}
