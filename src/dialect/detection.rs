//! By what one tells the dialects apart: for routes that say `auto`, and for `diglot detect`.
//!
//! A sign is something that only one dialect says, or that only its document prints. The rows stand in the order in which
//! they are asked: of two dialects whose signs an event has, the one whose row comes first has it.

use super::{AG_UI, AG_UI_0, AG_UI_SNAKE, ALL, CLOUDBASE, Dialect, HAI, PeerDialect, SOCIAL_APP};

/// What an event has to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPattern {
    /// its type begins so
    TypePrefix(&'static str),
    /// it is of this type and has this member
    HasMember(&'static str, &'static str),
    /// it is of this type and lacks this member
    LacksMember(&'static str, &'static str),
    /// it is the first of its stream, and of another type
    FirstIsNot(&'static str),
}

/// One sign in a stream.
#[derive(Debug)]
pub struct DetectionRule {
    /// whose it is
    pub dialect: &'static Dialect,
    /// what it is
    pub(crate) pattern: EventPattern,
    /// the same in words, for a log
    pub description: &'static str,
}

const fn rule(dialect: &'static Dialect, mark: EventPattern, words: &'static str) -> DetectionRule {
    DetectionRule { dialect, pattern: mark, description: words }
}

/// Every sign, the first that fits decides.
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
        "STEP_STARTED says its thread (social-app §3.2)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TOOL_CALL_START", "threadId"),
        "TOOL_CALL_START says its thread (social-app §3.3)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("STATE_SNAPSHOT", "threadId"),
        "STATE_SNAPSHOT says its thread (social-app §3.5)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TEXT_MESSAGE_START", "threadId"),
        "TEXT_MESSAGE_START says its thread (social-app §4)",
    ),
    rule(
        &SOCIAL_APP,
        EventPattern::HasMember("TEXT_MESSAGE_CONTENT", "threadId"),
        "TEXT_MESSAGE_CONTENT says its thread (social-app §4)",
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
        "RUN_STARTED says its protocolVersion (AG-UI 1.0)",
    ),
    rule(&AG_UI, EventPattern::TypePrefix("SUBAGENT_"), "SUBAGENT_* is of AG-UI since 0.0.59"),
    rule(&AG_UI, EventPattern::TypePrefix("REASONING_"), "REASONING_* is of AG-UI since 0.0.45"),
];

impl EventPattern {
    /// Whether an event has this mark: of the type `wire`, with the members of these names, and the first of its stream or
    /// not.
    #[must_use]
    pub(crate) fn matches(self, wire: &str, has: &dyn Fn(&str) -> bool, first: bool) -> bool {
        match self {
            EventPattern::TypePrefix(start) => wire.starts_with(start),
            EventPattern::HasMember(own, member) => wire == own && has(member),
            EventPattern::LacksMember(own, member) => wire == own && !has(member),
            // An error may stand alone anywhere.
            EventPattern::FirstIsNot(own) => first && wire != own && wire != "RUN_ERROR",
        }
    }
}

impl PeerDialect {
    /// A side whose dialect is told by what it says. Until then it is taken for AG-UI before 1.0, whose requests every agent
    /// of AG-UI takes, and which reads all of AG-UI.
    #[must_use]
    pub fn new_auto() -> Self {
        PeerDialect { is_auto: true, ..PeerDialect::new(&AG_UI_0) }
    }

    /// The dialects that the side may turn out to speak.
    #[must_use]
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
