//! The events of a CloudBase agent, printed like in seed 003: no RUN_STARTED, no role, no ids on the end of the run, and
//! arguments in the start of their call.
//!
//! The seed lists no thinking, so there is none. It lists steps and the end of a call without a format: AG-UI's is a guess.

use super::{
    assembler::TextAssembler,
    conversation::{ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, ScriptEvent, TOOL},
    demo_ids::{DemoIds, json_string},
};

/// Prints an event; `None` if CloudBase has no such event.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds, assembler: &mut TextAssembler) -> Option<String> {
    let DemoIds { message, call, .. } = ids;
    Some(match event {
        ScriptEvent::State(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT","snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        ScriptEvent::Status(status) => format!(
            r#"{{"type":"STATE_DELTA","delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]}}"#
        ),
        ScriptEvent::StepStarted => format!(r#"{{"type":"STEP_STARTED","stepName":"{STEP}"}}"#),
        ScriptEvent::StepFinished => format!(r#"{{"type":"STEP_FINISHED","stepName":"{STEP}"}}"#),
        ScriptEvent::TextStarted => format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":{message}}}"#),
        ScriptEvent::Text(piece) => {
            format!(
                r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":{message},"delta":{}}}"#,
                json_string(&piece.to_string())
            )
        }
        ScriptEvent::TextEnded => format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":{message}}}"#),
        ScriptEvent::CallArguments(piece) => {
            let args = assembler.push_arguments(piece)?;
            format!(r#"{{"type":"TOOL_CALL_START","toolCallId":{call},"toolCallName":"{TOOL}","args":{args}}}"#)
        }
        ScriptEvent::CallEnded => format!(r#"{{"type":"TOOL_CALL_END","toolCallId":{call}}}"#),
        ScriptEvent::RunAwaitsTool | ScriptEvent::RunFinished => r#"{"type":"RUN_FINISHED"}"#.to_owned(),
        ScriptEvent::RunFailed => {
            format!(r#"{{"type":"RUN_ERROR","error":{{"code":"{ERROR_CODE}","message":"{ERROR_MESSAGE}"}}}}"#)
        }
        ScriptEvent::RunStarted
        | ScriptEvent::AnswerStarted
        | ScriptEvent::ThinkingStarted
        | ScriptEvent::ThinkingTextStarted
        | ScriptEvent::Thinking(_)
        | ScriptEvent::ThinkingTextEnded
        | ScriptEvent::ThinkingEnded
        | ScriptEvent::CallStarted => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use serde_json::json;

    #[test]
    fn puts_tool_arguments_into_the_start_event() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        let expected = [
            r#"{"type":"STATE_SNAPSHOT","snapshot":{"workflowItems":[{"name":"部署","status":"pending"}]}}"#,
            r#"{"type":"STEP_STARTED","stepName":"智能处理"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-r1"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"好的，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"我将把应用部署到生产环境，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"请先确认。"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"msg-r1"}"#,
            r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/workflowItems/0/status","value":"running"}]}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"call-r1","toolCallName":"confirmAction","args":{"action":"部署应用到生产环境","importance":"high"}}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"call-r1"}"#,
            r#"{"type":"STEP_FINISHED","stepName":"智能处理"}"#,
            r#"{"type":"RUN_FINISHED"}"#,
        ];
        assert_eq!(events(DemoAgent::Cloudbase, &input, 0).unwrap(), expected);
    }
}
