//! The rule that an agent broke on a strict route.

use crate::codec::json;
use crate::event::Json;
use crate::translate::report::BrokenRule;

const MAX_TYPE_NAME_LEN: usize = 64;

/// The event that ended a run in [`GuardMode::Strict`](super::GuardMode), and the broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictViolation {
    pub(crate) broken_rule: BrokenRule,
    pub(crate) event_type: String,
}

impl StrictViolation {
    /// Names the broken rule and the type of the event `data` that broke it.
    pub(crate) fn new(broken_rule: BrokenRule, data: &str) -> Self {
        StrictViolation { broken_rule, event_type: event_type(data) }
    }
}

impl std::fmt::Display for StrictViolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BrokenRule { label, rule } = self.broken_rule;
        let event = if self.event_type.is_empty() { "A frame without a type" } else { &self.event_type };
        write!(f, "{event} breaks the rule that {rule} ({label}).")
    }
}

fn event_type(data: &str) -> String {
    let kind = json::parse_object(data).ok().and_then(|object| object.kind);
    let text = kind.as_ref().and_then(Json::text).unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(MAX_TYPE_NAME_LEN).collect()
}
