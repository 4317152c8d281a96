//! Detects a peer's dialect, for `auto` routes and for `diglot detect`.

use super::sign::{RequestPattern, RequestSign, SignWeight};
use super::table::{FallbackPolicy, ValueAlias};
use super::{AG_UI_0, ALL, Dialect, EventPattern, PeerDialect};
use crate::event::{Field, Json, Members, find_member, get};
use std::cmp::Reverse;
use std::sync::LazyLock;

/// A pattern that identifies a dialect.
#[derive(Debug)]
pub struct DetectionRule {
    /// the dialect it identifies
    pub dialect: &'static Dialect,
    pub(crate) pattern: EventPattern,
    /// the strength of the evidence
    pub weight: SignWeight,
    /// shown in logs
    pub description: &'static str,
}

/// The detection rules of all dialects, the strongest first; the first match is an event's sign. Of rules with the same
/// weight, AG-UI's come last, because other dialects include its events, and those of its variants after those of
/// dialects with their own events, with later entries of [`ALL`] first.
pub static DETECTION_RULES: LazyLock<Vec<DetectionRule>> = LazyLock::new(|| {
    let rules = ALL.iter().enumerate().flat_map(|(index, dialect)| dialect.signs.iter().map(move |sign| (index, sign)));
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|(index, sign)| {
        let dialect = ALL[*index];
        let is_variant = dialect.fallback == FallbackPolicy::PassThrough;
        (Reverse(sign.weight), dialect.is_canonical(), is_variant, Reverse(*index))
    });
    let rules = rules.into_iter();
    rules
        .map(|(index, sign)| DetectionRule {
            dialect: ALL[index],
            pattern: sign.pattern,
            weight: sign.weight,
            description: sign.description,
        })
        .collect()
});

/// The request signs of all dialects, with the strongest evidence first.
pub(crate) static REQUEST_RULES: LazyLock<Vec<RequestRule>> = LazyLock::new(|| {
    let rules = ALL.iter().flat_map(|dialect| dialect.request_signs.iter().map(|sign| RequestRule { dialect, sign }));
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|rule| rule.sign.pattern.rank());
    rules
});

/// A sign that identifies the dialect of a request.
#[derive(Debug)]
pub(crate) struct RequestRule {
    pub(crate) dialect: &'static Dialect,
    pub(crate) sign: &'static RequestSign,
}

impl RequestRule {
    /// Tests a request's members, and those of its messages.
    pub(crate) fn matches(&self, members: &Members<'_>, messages: &[Members<'_>]) -> bool {
        let dialect = self.dialect;
        let has = |field: Field| find_member(members, field.camel()).is_some();
        match self.sign.pattern {
            RequestPattern::DeclaredVersion => has(Field::ProtocolVersion),
            RequestPattern::OwnContent => dialect
                .message_adapter
                .is_some_and(|adapter| messages.iter().any(|message| adapter.has_own_form(message))),
            RequestPattern::MessageMember(name) => messages.iter().any(|message| find_member(message, name).is_some()),
            RequestPattern::AliasedRole => messages.iter().any(|message| {
                let role = get(message, Field::Role).and_then(Json::text);
                let is_role = |alias: &ValueAlias| alias.field == Field::Role && role.as_deref() == Some(alias.wire);
                dialect.value_aliases.iter().any(is_role)
            }),
            RequestPattern::Member(name) => find_member(members, name).is_some(),
            RequestPattern::LacksMember { present, absent } => present.iter().all(|field| has(*field)) && !has(absent),
        }
    }
}

/// The dialect of a peer that has shown no sign of another: AG-UI before 1.0, whose requests every AG-UI agent accepts.
pub(crate) static UNDETECTED_DIALECT: &Dialect = &AG_UI_0;

impl PeerDialect {
    /// Creates a side that detects its dialect from events. Until then it uses [`UNDETECTED_DIALECT`].
    #[must_use]
    pub fn new_auto() -> Self {
        PeerDialect { is_auto: true, ..PeerDialect::new(UNDETECTED_DIALECT) }
    }

    pub(crate) fn possible_dialects(&self) -> Vec<&'static Dialect> {
        if self.is_auto { ALL.to_vec() } else { vec![self.dialect] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_signs_that_no_other_has() {
        for dialect in ALL {
            assert!(!dialect.signs.is_empty(), "{} has no sign", dialect.name);
        }
        for (at, rule) in REQUEST_RULES.iter().enumerate() {
            let earlier = &REQUEST_RULES[..at];
            assert!(earlier.iter().all(|other| other.sign.pattern != rule.sign.pattern), "{}", rule.sign.description);
        }
        for (at, rule) in DETECTION_RULES.iter().enumerate() {
            assert!(DETECTION_RULES[..at].iter().all(|other| other.pattern != rule.pattern), "{}", rule.description);
        }
    }

    /// Checks the order of the rules: events of a specific dialect often match the more general rules, too.
    #[test]
    fn tries_specific_dialects_first() {
        let position = |wire: &str, members: &[&str]| {
            let has = |name: &str| members.contains(&name);
            DETECTION_RULES.iter().find(|rule| rule.pattern.matches(wire, &has, false)).map(|rule| rule.dialect.name)
        };
        assert_eq!(position("RUN_STARTED", &["message_id", "thread_id"]), Some("hai"));
        assert_eq!(position("RUN_STARTED", &["thread_id"]), Some("ag-ui-snake"));
        assert_eq!(position("RUN_STARTED", &[]), Some("cloudbase"));
        assert_eq!(position("RUN_STARTED", &["messageId", "protocolVersion"]), Some("ag-ui"));
        assert_eq!(position("THINKING_TEXT_MESSAGE_START", &["messageId"]), Some("ag-ui-snake"));
        assert_eq!(position("TOOL_CALL_RESULT", &["message_id", "tool_name"]), Some("social-app"));
        assert_eq!(position("TOOL_CALL_START", &["args", "threadId"]), Some("social-app"));
    }
}
