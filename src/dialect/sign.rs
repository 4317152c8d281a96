//! The features of events by which a dialect is detected.

/// A feature of events that identifies a dialect.
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
}

/// A condition on an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPattern {
    /// the type has this prefix
    TypePrefix(&'static str),
    /// an event of this type has the member
    HasMember(&'static str, &'static str),
    /// an event of this type lacks the member
    LacksMember(&'static str, &'static str),
    /// the first event of a stream has another type
    FirstIsNot(&'static str),
}

impl EventPattern {
    /// Tests an event of type `wire`, with `has` for its members; `first` is true at the beginning of a stream.
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

    /// Returns true if something missing matches, which is weaker evidence.
    pub(super) const fn is_absence(self) -> bool {
        matches!(self, EventPattern::LacksMember(..) | EventPattern::FirstIsNot(_))
    }
}
