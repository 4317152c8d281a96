//! Detection of the dialect of a peer, for routes with `auto` and for `diglot detect`.
//!
//! A pattern is a feature that only one dialect has, or that only its document prints. The rows are tried in order: the
//! first that matches decides.

use super::{AG_UI, AG_UI_0, AG_UI_SNAKE, ALL, CLOUDBASE, Dialect, HAI, PeerDialect, SOCIAL_APP};

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

/// One pattern and its dialect.
#[derive(Debug)]
pub struct DetectionRule {
    /// detected dialect
    pub dialect: &'static Dialect,
    pub(crate) pattern: EventPattern,
    /// the pattern in words, for logs
    pub description: &'static str,
}

const fn rule(dialect: &'static Dialect, pattern: EventPattern, description: &'static str) -> DetectionRule {
    DetectionRule { dialect, pattern, description }
}

/// All rules in order of precedence.
pub static DETECTION_RULES: &[DetectionRule] = &[
    rule(&HAI, EventPattern::TypePrefix("BUSINESS_DATA_"), "BUSINESS_DATA_* is HAI's own"),
    rule(&HAI, EventPattern::TypePrefix("AGENT_COLLABORATIVE_MESSAGE_"), "AGENT_COLLABORATIVE_MESSAGE_* is HAI's own"),
    rule(&HAI, EventPattern::TypePrefix("MESSAGE_SNAPSHOT"), "MESSAGE_SNAPSHOT is HAI's own"),
    rule(&HAI, EventPattern::HasMember("RUN_STARTED", "messageId"), "RUN_STARTED has a messageId (HAI §4.2)"),
    rule(&HAI, EventPattern::HasMember("RUN_FINISHED", "messageId"), "RUN_FINISHED has a messageId (HAI §4.2)"),
    rule(&HAI, EventPattern::HasMember("RUN_STARTED", "message_id"), "RUN_STARTED has a message_id (HAI §4.2)"),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TEXT_MESSAGE_END", "answer"),
        "TEXT_MESSAGE_END has an answer (social-app §3.4)",
    ),
    rule(&SOCIAL_APP, EventPattern::HasMember("TOOL_CALL_ARGS", "args"), "TOOL_CALL_ARGS has args (social-app §3.3)"),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TOOL_CALL_RESULT", "tool_name"),
        "TOOL_CALL_RESULT has a tool_name (social-app §3.3)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("STEP_STARTED", "threadId"),
        "STEP_STARTED has a thread id (social-app §3.2)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TOOL_CALL_START", "threadId"),
        "TOOL_CALL_START has a thread id (social-app §3.3)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("STATE_SNAPSHOT", "threadId"),
        "STATE_SNAPSHOT has a thread id (social-app §3.5)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TEXT_MESSAGE_START", "threadId"),
        "TEXT_MESSAGE_START has a thread id (social-app §4)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TEXT_MESSAGE_CONTENT", "threadId"),
        "TEXT_MESSAGE_CONTENT has a thread id (social-app §4)",
    ),
    rule(&AG_UI_SNAKE, EventPattern::HasMember("RUN_STARTED", "thread_id"), "RUN_STARTED has a thread_id"),
    rule(&AG_UI_SNAKE, EventPattern::HasMember("RUN_FINISHED", "thread_id"), "RUN_FINISHED has a thread_id"),
    rule(&AG_UI_SNAKE, EventPattern::HasMember("TOOL_CALL_RESULT", "message_id"), "TOOL_CALL_RESULT has a message_id"),
    rule(
        &AG_UI_SNAKE,
        EventPattern::HasMember("THINKING_TEXT_MESSAGE_START", "messageId"),
        "THINKING_TEXT_MESSAGE_START has a messageId",
    ),
    rule(&AG_UI_0, EventPattern::TypePrefix("THINKING_"), "THINKING_* is of AG-UI before 1.0"),
    rule(
        &CLOUDBASE,
        EventPattern::HasMember("RUN_ERROR", "error"),
        "RUN_ERROR has an error inside (cloudbase, 错误事件)",
    ),
    rule(
        &CLOUDBASE,
        EventPattern::HasMember("TOOL_CALL_START", "args"),
        "TOOL_CALL_START has args (cloudbase, 用户输入)",
    ),
    rule(&CLOUDBASE, EventPattern::LacksMember("RUN_STARTED", "threadId"), "RUN_STARTED has no threadId (cloudbase)"),
    rule(
        &CLOUDBASE,
        EventPattern::LacksMember("RUN_FINISHED", "threadId"),
        "RUN_FINISHED has no threadId (cloudbase, 响应格式)",
    ),
    rule(
        &CLOUDBASE,
        EventPattern::FirstIsNot("RUN_STARTED"),
        "the stream does not begin with RUN_STARTED (cloudbase, 响应格式)",
    ),
    rule(
        &AG_UI,
        EventPattern::HasMember("RUN_STARTED", "protocolVersion"),
        "RUN_STARTED has a protocolVersion (AG-UI 1.0)",
    ),
    rule(&AG_UI, EventPattern::TypePrefix("SUBAGENT_"), "SUBAGENT_* is of AG-UI since 0.0.59"),
    rule(&AG_UI, EventPattern::TypePrefix("REASONING_"), "REASONING_* is of AG-UI since 0.0.45"),
];

impl EventPattern {
    /// Returns true for a match with an event of type `wire`, the members that `has` accepts, and its position
    /// (`first`) in the stream.
    pub(crate) fn matches(self, wire: &str, has: &dyn Fn(&str) -> bool, first: bool) -> bool {
        match self {
            EventPattern::TypePrefix(start) => wire.starts_with(start),
            EventPattern::HasMember(own, member) => wire == own && has(member),
            EventPattern::LacksMember(own, member) => wire == own && !has(member),
            // An error may be the only event in any dialect.
            EventPattern::FirstIsNot(own) => first && wire != own && wire != "RUN_ERROR",
        }
    }
}

impl PeerDialect {
    /// Returns a peer whose dialect is detected from its events. Until then AG-UI before 1.0 is used: every AG-UI agent
    /// accepts its requests, and it reads all of AG-UI.
    #[must_use]
    pub fn new_auto() -> Self {
        PeerDialect { is_auto: true, ..PeerDialect::new(&AG_UI_0) }
    }

    pub(crate) fn possible_dialects(&self) -> Vec<&'static Dialect> {
        if self.is_auto { ALL.to_vec() } else { vec![self.dialect] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_a_sign_of_its_own() {
        for dialect in ALL {
            assert!(DETECTION_RULES.iter().any(|sign| std::ptr::eq(sign.dialect, *dialect)), "{}", dialect.name);
        }
        for (at, sign) in DETECTION_RULES.iter().enumerate() {
            assert!(DETECTION_RULES[..at].iter().all(|other| other.pattern != sign.pattern), "{}", sign.description);
        }
    }
}
