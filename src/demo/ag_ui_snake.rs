//! The events of a platform with its own vocabulary for AG-UI, printed like in seed 002: `thread_id` and
//! `run_id`, localised roles, thinking without a span, arguments as an object, timestamps in seconds.
//!
//! The seed has no state and no steps: those of AG-UI are a guess.

use super::{
    assembler::TextAssembler,
    conversation::{ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, ScriptEvent, TOOL},
    demo_ids::{DemoIds, json_string},
};

/// The seed's word for the role `assistant`.
const ROLE: &str = "助手";

/// Prints an event; `None` if the seed has no such event.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds, assembler: &mut TextAssembler, now_ms: u64) -> Option<String> {
    let DemoIds { thread, run, message, call, thinking } = ids;
    let print = |kind: &str, members: &str| {
        let seconds = now_ms / 1000;
        Some(format!(r#"{{"type":"{kind}","timestamp":{seconds},{members}}}"#))
    };
    let run_ids = format!(r#""thread_id":{thread},"run_id":{run}"#);
    let message_id = |id: &str| format!(r#""messageId":{id}"#);
    let content = |id: &str, piece: &str| format!(r#""messageId":{id},"delta":{}"#, json_string(piece));
    match event {
        ScriptEvent::RunStarted => print("RUN_STARTED", &run_ids),
        ScriptEvent::State(status) => print(
            "STATE_SNAPSHOT",
            &format!(r#""snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}"#),
        ),
        ScriptEvent::Status(status) => {
            print("STATE_DELTA", &format!(r#""delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]"#))
        }
        ScriptEvent::StepStarted => print("STEP_STARTED", &format!(r#""stepName":"{STEP}""#)),
        ScriptEvent::StepFinished => print("STEP_FINISHED", &format!(r#""stepName":"{STEP}""#)),
        ScriptEvent::ThinkingTextStarted => {
            print("THINKING_TEXT_MESSAGE_START", &format!(r#"{},"role":"{ROLE}""#, message_id(thinking)))
        }
        ScriptEvent::Thinking(piece) => print("THINKING_TEXT_MESSAGE_CONTENT", &content(thinking, piece)),
        ScriptEvent::ThinkingTextEnded => print("THINKING_TEXT_MESSAGE_END", &message_id(thinking)),
        ScriptEvent::TextStarted => print("TEXT_MESSAGE_START", &format!(r#"{},"role":"{ROLE}""#, message_id(message))),
        ScriptEvent::Text(piece) => print("TEXT_MESSAGE_CONTENT", &content(message, &piece.to_string())),
        ScriptEvent::TextEnded => print("TEXT_MESSAGE_END", &message_id(message)),
        ScriptEvent::CallStarted => print(
            "TOOL_CALL_START",
            &format!(r#""toolCallId":{call},"toolCallName":"{TOOL}","parentMessageId":{message}"#),
        ),
        ScriptEvent::CallArguments(piece) => {
            let args = assembler.push_arguments(piece)?;
            print("TOOL_CALL_ARGS", &format!(r#""toolCallId":{call},"delta":{args}"#))
        }
        ScriptEvent::CallEnded => print("TOOL_CALL_END", &format!(r#""toolCallId":{call}"#)),
        ScriptEvent::RunAwaitsTool | ScriptEvent::RunFinished => print("RUN_FINISHED", &run_ids),
        ScriptEvent::RunFailed => {
            print("RUN_ERROR", &format!(r#""message":"{ERROR_MESSAGE}","code":"{ERROR_CODE}","result":{{}}"#))
        }
        ScriptEvent::AnswerStarted | ScriptEvent::ThinkingStarted | ScriptEvent::ThinkingEnded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use serde_json::json;

    #[test]
    fn sends_thinking_without_span_events() {
        let input = json!({"thread_id": "1", "run_id": "r1"});
        let expected = [
            r#"{"type":"RUN_STARTED","timestamp":1761819878,"thread_id":"1","run_id":"r1"}"#,
            r#"{"type":"STATE_SNAPSHOT","timestamp":1761819878,"snapshot":{"workflowItems":[{"name":"部署","status":"pending"}]}}"#,
            r#"{"type":"STEP_STARTED","timestamp":1761819878,"stepName":"智能处理"}"#,
            r#"{"type":"THINKING_TEXT_MESSAGE_START","timestamp":1761819878,"messageId":"think-r1","role":"助手"}"#,
            r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","timestamp":1761819878,"messageId":"think-r1","delta":"用户想部署应用，"}"#,
            r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","timestamp":1761819878,"messageId":"think-r1","delta":"需要先确认。"}"#,
            r#"{"type":"THINKING_TEXT_MESSAGE_END","timestamp":1761819878,"messageId":"think-r1"}"#,
            r#"{"type":"TEXT_MESSAGE_START","timestamp":1761819878,"messageId":"msg-r1","role":"助手"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","timestamp":1761819878,"messageId":"msg-r1","delta":"好的，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","timestamp":1761819878,"messageId":"msg-r1","delta":"我将把应用部署到生产环境，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","timestamp":1761819878,"messageId":"msg-r1","delta":"请先确认。"}"#,
            r#"{"type":"TEXT_MESSAGE_END","timestamp":1761819878,"messageId":"msg-r1"}"#,
            r#"{"type":"STATE_DELTA","timestamp":1761819878,"delta":[{"op":"replace","path":"/workflowItems/0/status","value":"running"}]}"#,
            r#"{"type":"TOOL_CALL_START","timestamp":1761819878,"toolCallId":"call-r1","toolCallName":"confirmAction","parentMessageId":"msg-r1"}"#,
            r#"{"type":"TOOL_CALL_ARGS","timestamp":1761819878,"toolCallId":"call-r1","delta":{"action":"部署应用到生产环境","importance":"high"}}"#,
            r#"{"type":"TOOL_CALL_END","timestamp":1761819878,"toolCallId":"call-r1"}"#,
            r#"{"type":"STEP_FINISHED","timestamp":1761819878,"stepName":"智能处理"}"#,
            r#"{"type":"RUN_FINISHED","timestamp":1761819878,"thread_id":"1","run_id":"r1"}"#,
        ];
        assert_eq!(events(DemoAgent::AgUiSnake, &input, 1_761_819_878_000).unwrap(), expected);
    }
}
