//! The conversation of the demo agents, independent of the protocols.
//!
//! A conversation is a sequence of [`ScriptEvent`]s; an agent's own file prints each as an event of its protocol, or leaves
//! it out.

use std::fmt;

use serde_json::Value;

/// The only step of the run.
pub(super) const STEP: &str = "智能处理";
/// The front-end tool with which the user confirms (seed 3.3.2).
pub(super) const TOOL: &str = "confirmAction";
/// The state member with the status of the run.
pub(super) const STATUS_PATH: &str = "/workflowItems/0/status";
/// Message of an injected RUN_ERROR.
pub(super) const ERROR_MESSAGE: &str = "model overloaded";
/// Code of an injected RUN_ERROR.
pub(super) const ERROR_CODE: &str = "MODEL_ERROR";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptEvent {
    RunStarted,
    /// The whole state: one workflow item with this status.
    State(&'static str),
    StepStarted,
    /// The answer begins. HAI opens its message here, since its thinking is part of the message.
    AnswerStarted,
    ThinkingStarted,
    ThinkingTextStarted,
    Thinking(&'static str),
    ThinkingTextEnded,
    ThinkingEnded,
    /// The text begins. AG-UI opens its message here, since its thinking is not part of the message.
    TextStarted,
    Text(TextPiece),
    TextEnded,
    /// The new status of the workflow item.
    Status(&'static str),
    CallStarted,
    CallArguments(&'static str),
    CallEnded,
    StepFinished,
    /// The run ends well, waiting for the front end to answer the call.
    RunAwaitsTool,
    RunFinished,
    RunFailed,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPiece {
    Scripted(&'static str),
    Numbered(u64),
}

impl fmt::Display for TextPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scripted(text) => f.write_str(text),
            Self::Numbered(i) => write!(f, "第{i}段 "),
        }
    }
}

/// One turn of the conversation, before test options are applied.
pub(super) struct ConversationTurn {
    pub(crate) opening: Vec<ScriptEvent>,
    pub(crate) text: &'static [&'static str],
    pub(crate) closing: Vec<ScriptEvent>,
}

impl ConversationTurn {
    /// A first request: the agent thinks, announces the action, and requests a confirmation.
    fn new_request() -> Self {
        Self {
            opening: vec![
                ScriptEvent::RunStarted,
                ScriptEvent::State("pending"),
                ScriptEvent::StepStarted,
                ScriptEvent::AnswerStarted,
                ScriptEvent::ThinkingStarted,
                ScriptEvent::ThinkingTextStarted,
                ScriptEvent::Thinking("用户想部署应用，"),
                ScriptEvent::Thinking("需要先确认。"),
                ScriptEvent::ThinkingTextEnded,
                ScriptEvent::ThinkingEnded,
                ScriptEvent::TextStarted,
            ],
            text: &["好的，", "我将把应用部署到生产环境，", "请先确认。"],
            closing: vec![
                ScriptEvent::TextEnded,
                ScriptEvent::Status("running"),
                ScriptEvent::CallStarted,
                ScriptEvent::CallArguments(r#"{"action":"部署应用到生产环境","#),
                ScriptEvent::CallArguments(r#""importance":"high"}"#),
                ScriptEvent::CallEnded,
                ScriptEvent::StepFinished,
                ScriptEvent::RunAwaitsTool,
            ],
        }
    }

    /// The request with the user's confirmation. Patches the status if the request has the state, else sends the whole state
    /// (HAI's request has none), since a patch needs an existing value.
    fn new_answer(confirmed: bool, has_status: bool) -> Self {
        let (status, text): (_, &[_]) =
            if confirmed { ("done", &["部署", "已完成。"]) } else { ("cancelled", &["已取消", "部署。"]) };
        let update = if has_status { ScriptEvent::Status(status) } else { ScriptEvent::State(status) };
        let opening = vec![ScriptEvent::RunStarted, update, ScriptEvent::AnswerStarted, ScriptEvent::TextStarted];
        Self { opening, text, closing: vec![ScriptEvent::TextEnded, ScriptEvent::RunFinished] }
    }

    /// Returns the turn that a request starts.
    pub(super) fn from_request(input: &Value) -> Self {
        match messages(input).last() {
            // The second role is that of seed 002's dialect.
            Some(last) if last["role"] == "tool" || last["role"] == "工具" => {
                Self::new_answer(is_confirmation(&last["content"]), input.pointer("/state/workflowItems/0").is_some())
            }
            _ => Self::new_request(),
        }
    }
}

/// Returns the messages of a request, oldest first; empty if the request has none.
pub(super) fn messages(input: &Value) -> &[Value] {
    input["messages"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a tool result confirms: `true`, or an object with `confirmed: true`. The seed sends it as a JSON string;
/// AG-UI also allows content parts, and some front ends send the value itself.
fn is_confirmation(content: &Value) -> bool {
    let confirms = |value: &Value| value == true || value["confirmed"] == true;
    let text: String = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        value => return confirms(value),
    };
    serde_json::from_str(&text).is_ok_and(|value| confirms(&value))
}
