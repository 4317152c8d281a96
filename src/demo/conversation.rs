//! The conversation of the demo agents: what is said, in which order, in no protocol's words.
//!
//! A conversation is a sequence of [`Beat`]s that every agent plays; an agent's own file turns a beat into its event,
//! or into nothing when its protocol has no word there.

use std::fmt;

use serde_json::Value;

/// The one step of the run.
pub(super) const STEP: &str = "智能处理";
/// The front-end tool that asks the user (seed 3.3.2).
pub(super) const TOOL: &str = "confirmAction";
/// The state member whose status follows the run.
pub(super) const STATUS_PATH: &str = "/workflowItems/0/status";
/// What RUN_ERROR says when a test asks for it.
pub(super) const ERROR_MESSAGE: &str = "model overloaded";
/// The code beside [`ERROR_MESSAGE`].
pub(super) const ERROR_CODE: &str = "MODEL_ERROR";

/// One thing that happens in the conversation.
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
    /// The text begins. AG-UI opens its message here, since its thinking stands outside the message.
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

/// One turn of the conversation before the levers have touched it.
pub(super) struct ConversationTurn {
    pub(crate) opening: Vec<ScriptEvent>,
    pub(crate) text: &'static [&'static str],
    pub(crate) closing: Vec<ScriptEvent>,
}

impl ConversationTurn {
    /// The user asks for something; the agent thinks, says what it is about to do, and asks for a confirmation.
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

    /// The user has answered the confirmation. The status is patched where the request brought the state along, and said
    /// with the whole state where it did not (HAI's request has no state), since a patch needs something to change.
    fn new_answer(confirmed: bool, has_status: bool) -> Self {
        let (status, text): (_, &[_]) =
            if confirmed { ("done", &["部署", "已完成。"]) } else { ("cancelled", &["已取消", "部署。"]) };
        let news = if has_status { ScriptEvent::Status(status) } else { ScriptEvent::State(status) };
        let opening = vec![ScriptEvent::RunStarted, news, ScriptEvent::AnswerStarted, ScriptEvent::TextStarted];
        Self { opening, text, closing: vec![ScriptEvent::TextEnded, ScriptEvent::RunFinished] }
    }

    /// The turn that a request asks for.
    pub(super) fn from_request(input: &Value) -> Self {
        match messages(input).last() {
            // The second is the word of seed 002's dialect.
            Some(last) if last["role"] == "tool" || last["role"] == "工具" => {
                Self::new_answer(is_confirmation(&last["content"]), input.pointer("/state/workflowItems/0").is_some())
            }
            _ => Self::new_request(),
        }
    }
}

/// The messages of a request, oldest first; none when it has no list of them.
pub(super) fn messages(input: &Value) -> &[Value] {
    input["messages"].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a tool result says yes: `true`, or an object with `confirmed: true`. The seed sends it as the text of a
/// string; AG-UI also allows content parts, and some front ends send the value itself.
fn is_confirmation(content: &Value) -> bool {
    let says_yes = |value: &Value| value == true || value["confirmed"] == true;
    let text: String = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        value => return says_yes(value),
    };
    serde_json::from_str(&text).is_ok_and(|value| says_yes(&value))
}
