//! By what one tells the dialects apart: for routes that say `auto`, and for `diglot detect`.
//!
//! A sign is something that only one dialect says, or that only its document prints. The rows stand in the order in which
//! they are asked: of two dialects whose signs an event has, the one whose row comes first has it.

use super::{AG_UI, AG_UI_0, AG_UI_SNAKE, CLOUDBASE, Dialect, HAI, SOCIAL_APP};

/// What an event has to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// its type begins so
    Type(&'static str),
    /// it is of this type and has this member
    With(&'static str, &'static str),
    /// it is of this type and lacks this member
    Without(&'static str, &'static str),
    /// it is the first of its stream, and of another type
    FirstIsNot(&'static str),
}

/// One sign in a stream.
#[derive(Debug)]
pub struct Sign {
    /// whose it is
    pub dialect: &'static Dialect,
    /// what it is
    pub mark: Mark,
    /// the same in words, for a log
    pub words: &'static str,
}

const fn sign(dialect: &'static Dialect, mark: Mark, words: &'static str) -> Sign {
    Sign { dialect, mark, words }
}

/// Every sign, the first that fits decides.
pub static SIGNS: &[Sign] = &[
    sign(&HAI, Mark::Type("BUSINESS_DATA_"), "BUSINESS_DATA_* is HAI's own"),
    sign(&HAI, Mark::Type("AGENT_COLLABORATIVE_MESSAGE_"), "AGENT_COLLABORATIVE_MESSAGE_* is HAI's own"),
    sign(&HAI, Mark::Type("MESSAGE_SNAPSHOT"), "MESSAGE_SNAPSHOT is HAI's own"),
    sign(&HAI, Mark::With("RUN_STARTED", "messageId"), "RUN_STARTED has a messageId (HAI §4.2)"),
    sign(&HAI, Mark::With("RUN_FINISHED", "messageId"), "RUN_FINISHED has a messageId (HAI §4.2)"),
    sign(&HAI, Mark::With("RUN_STARTED", "message_id"), "RUN_STARTED has a message_id (HAI §4.2)"),
    sign(&SOCIAL_APP, Mark::With("TEXT_MESSAGE_END", "answer"), "TEXT_MESSAGE_END has an answer (social-app §3.4)"),
    sign(&SOCIAL_APP, Mark::With("TOOL_CALL_ARGS", "args"), "TOOL_CALL_ARGS has args (social-app §3.3)"),
    sign(
        &SOCIAL_APP,
        Mark::With("TOOL_CALL_RESULT", "tool_name"),
        "TOOL_CALL_RESULT has a tool_name (social-app §3.3)",
    ),
    sign(&SOCIAL_APP, Mark::With("STEP_STARTED", "threadId"), "STEP_STARTED says its thread (social-app §3.2)"),
    sign(&SOCIAL_APP, Mark::With("TOOL_CALL_START", "threadId"), "TOOL_CALL_START says its thread (social-app §3.3)"),
    sign(&SOCIAL_APP, Mark::With("STATE_SNAPSHOT", "threadId"), "STATE_SNAPSHOT says its thread (social-app §3.5)"),
    sign(
        &SOCIAL_APP,
        Mark::With("TEXT_MESSAGE_START", "threadId"),
        "TEXT_MESSAGE_START says its thread (social-app §4)",
    ),
    sign(
        &SOCIAL_APP,
        Mark::With("TEXT_MESSAGE_CONTENT", "threadId"),
        "TEXT_MESSAGE_CONTENT says its thread (social-app §4)",
    ),
    sign(&AG_UI_SNAKE, Mark::With("RUN_STARTED", "thread_id"), "RUN_STARTED has a thread_id"),
    sign(&AG_UI_SNAKE, Mark::With("RUN_FINISHED", "thread_id"), "RUN_FINISHED has a thread_id"),
    sign(&AG_UI_SNAKE, Mark::With("TOOL_CALL_RESULT", "message_id"), "TOOL_CALL_RESULT has a message_id"),
    sign(
        &AG_UI_SNAKE,
        Mark::With("THINKING_TEXT_MESSAGE_START", "messageId"),
        "THINKING_TEXT_MESSAGE_START has a messageId",
    ),
    sign(&AG_UI_0, Mark::Type("THINKING_"), "THINKING_* is of AG-UI before 1.0"),
    sign(&CLOUDBASE, Mark::With("RUN_ERROR", "error"), "RUN_ERROR has an error inside (cloudbase, 错误事件)"),
    sign(&CLOUDBASE, Mark::With("TOOL_CALL_START", "args"), "TOOL_CALL_START has args (cloudbase, 用户输入)"),
    sign(&CLOUDBASE, Mark::Without("RUN_STARTED", "threadId"), "RUN_STARTED has no threadId (cloudbase)"),
    sign(&CLOUDBASE, Mark::Without("RUN_FINISHED", "threadId"), "RUN_FINISHED has no threadId (cloudbase, 响应格式)"),
    sign(
        &CLOUDBASE,
        Mark::FirstIsNot("RUN_STARTED"),
        "the stream does not begin with RUN_STARTED (cloudbase, 响应格式)",
    ),
    sign(&AG_UI, Mark::With("RUN_STARTED", "protocolVersion"), "RUN_STARTED says its protocolVersion (AG-UI 1.0)"),
    sign(&AG_UI, Mark::Type("SUBAGENT_"), "SUBAGENT_* is of AG-UI since 0.0.59"),
    sign(&AG_UI, Mark::Type("REASONING_"), "REASONING_* is of AG-UI since 0.0.45"),
];

impl Mark {
    /// Whether an event has this mark: of the type `wire`, with the members of these names, and the first of its stream or
    /// not.
    #[must_use]
    pub fn fits(self, wire: &str, has: &dyn Fn(&str) -> bool, first: bool) -> bool {
        match self {
            Mark::Type(start) => wire.starts_with(start),
            Mark::With(own, member) => wire == own && has(member),
            Mark::Without(own, member) => wire == own && !has(member),
            // An error may stand alone anywhere.
            Mark::FirstIsNot(own) => first && wire != own && wire != "RUN_ERROR",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::ALL;

    #[test]
    fn every_dialect_has_a_sign_and_no_two_signs_are_the_same() {
        for dialect in ALL {
            assert!(SIGNS.iter().any(|sign| std::ptr::eq(sign.dialect, *dialect)), "{}", dialect.name);
        }
        for (at, sign) in SIGNS.iter().enumerate() {
            assert!(SIGNS[..at].iter().all(|other| other.mark != sign.mark), "{}", sign.words);
        }
    }
}
