//! The demo agents' conversation, independent of any protocol.

use serde_json::Value;
use std::fmt;

/// The message of an injected RUN_ERROR.
pub(super) const ERROR_MESSAGE: &str = "model overloaded";

/// An event's name in an agent file, and the value of `$value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptEvent {
    pub(super) name: &'static str,
    pub(super) value: ScriptValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptValue {
    Scripted(&'static str),
    Numbered(u64),
}

impl fmt::Display for ScriptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scripted(text) => f.write_str(text),
            Self::Numbered(i) => write!(f, "第{i}段 "),
        }
    }
}

impl ScriptEvent {
    pub(super) const TEXT: &str = "text";

    pub(super) const fn new(name: &'static str, value: &'static str) -> Self {
        Self { name, value: ScriptValue::Scripted(value) }
    }

    pub(super) const fn text(value: ScriptValue) -> Self {
        Self { name: Self::TEXT, value }
    }
}

/// One turn of the conversation, before test options are applied.
pub(super) struct ConversationTurn {
    pub(super) opening: Vec<ScriptEvent>,
    pub(super) text: &'static [&'static str],
    pub(super) closing: Vec<ScriptEvent>,
}

/// Opens the message with `text_started` in AG-UI, but with `answer_started` in HAI, whose message includes thinking.
const REQUEST_OPENING: &[ScriptEvent] = &[
    ScriptEvent::new("run_started", ""),
    ScriptEvent::new("state", "pending"),
    ScriptEvent::new("step_started", ""),
    ScriptEvent::new("answer_started", ""),
    ScriptEvent::new("thinking_started", ""),
    ScriptEvent::new("thinking_text_started", ""),
    ScriptEvent::new("thinking_text", "用户想部署应用，"),
    ScriptEvent::new("thinking_text", "需要先确认。"),
    ScriptEvent::new("thinking_text_ended", ""),
    ScriptEvent::new("thinking_ended", ""),
    ScriptEvent::new("text_started", ""),
];

/// Calls the front-end tool `confirmAction` to ask the user (seed 3.3.2).
const REQUEST_CLOSING: &[ScriptEvent] = &[
    ScriptEvent::new("text_ended", ""),
    ScriptEvent::new("status", "running"),
    ScriptEvent::new("call_started", ""),
    ScriptEvent::new("call_arguments_piece", r#"{"action":"部署应用到生产环境","#),
    ScriptEvent::new("call_arguments_piece", r#""importance":"high"}"#),
    ScriptEvent::new("call_arguments", r#"{"action":"部署应用到生产环境","importance":"high"}"#),
    ScriptEvent::new("call_ended", ""),
    ScriptEvent::new("step_finished", ""),
    ScriptEvent::new("run_awaits_tool", ""),
];

impl ConversationTurn {
    /// Returns the turn for a request. The agent first thinks, announces an action and asks for confirmation; in the
    /// next turn, it reports the result.
    pub(super) fn from_request(input: &Value) -> Self {
        match messages(input).last() {
            // The second spelling is the role in seed 002's dialect.
            Some(last) if last["role"] == "tool" || last["role"] == "工具" => {
                Self::new_answer(is_confirmation(&last["content"]), input.pointer("/state/workflowItems/0").is_some())
            }
            _ => Self {
                opening: REQUEST_OPENING.to_vec(),
                text: &["好的，", "我将把应用部署到生产环境，", "请先确认。"],
                closing: REQUEST_CLOSING.to_vec(),
            },
        }
    }

    /// Patches the status if the request already has one; otherwise sends the whole state.
    fn new_answer(confirmed: bool, has_status: bool) -> Self {
        let (status, text): (_, &[_]) =
            if confirmed { ("done", &["部署", "已完成。"]) } else { ("cancelled", &["已取消", "部署。"]) };
        Self {
            opening: vec![
                ScriptEvent::new("run_started", ""),
                ScriptEvent::new(if has_status { "status" } else { "state" }, status),
                ScriptEvent::new("answer_started", ""),
                ScriptEvent::new("text_started", ""),
            ],
            text,
            closing: vec![ScriptEvent::new("text_ended", ""), ScriptEvent::new("run_finished", "")],
        }
    }
}

/// Returns a request's messages, oldest first.
pub(super) fn messages(input: &Value) -> &[Value] {
    input["messages"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns whether a tool result confirms the action: `true`, or an object with `confirmed: true`. It may be a JSON
/// string (as in the seed), content parts (AG-UI), or the value itself (some front ends).
fn is_confirmation(content: &Value) -> bool {
    let confirms = |value: &Value| value == true || value["confirmed"] == true;
    let text: String = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        value => return confirms(value),
    };
    serde_json::from_str(&text).is_ok_and(|value| confirms(&value))
}
