//! The events of an AG-UI 1.0 agent, printed like the SDKs do: compact JSON, `type` first, optional members absent.

use super::{
    conversation::{ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, ScriptEvent, TOOL},
    demo_ids::{DemoIds, json_string},
};

/// Prints an event; `None` if AG-UI has no such event. The text opens the message, not the thinking.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds) -> Option<String> {
    let DemoIds { thread, run, message, call, thinking } = ids;
    Some(match event {
        ScriptEvent::RunStarted => {
            format!(r#"{{"type":"RUN_STARTED","threadId":{thread},"runId":{run},"protocolVersion":"1.0"}}"#)
        }
        ScriptEvent::State(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT","snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        ScriptEvent::StepStarted => format!(r#"{{"type":"STEP_STARTED","stepName":"{STEP}"}}"#),
        ScriptEvent::AnswerStarted => return None,
        ScriptEvent::ThinkingStarted => format!(r#"{{"type":"REASONING_START","messageId":{thinking}}}"#),
        ScriptEvent::ThinkingTextStarted => {
            format!(r#"{{"type":"REASONING_MESSAGE_START","messageId":{thinking},"role":"reasoning"}}"#)
        }
        ScriptEvent::Thinking(piece) => {
            format!(r#"{{"type":"REASONING_MESSAGE_CONTENT","messageId":{thinking},"delta":{}}}"#, json_string(piece))
        }
        ScriptEvent::ThinkingTextEnded => {
            format!(r#"{{"type":"REASONING_MESSAGE_END","messageId":{thinking}}}"#)
        }
        ScriptEvent::ThinkingEnded => format!(r#"{{"type":"REASONING_END","messageId":{thinking}}}"#),
        ScriptEvent::TextStarted => {
            format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":{message},"role":"assistant"}}"#)
        }
        ScriptEvent::Text(piece) => {
            format!(
                r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":{message},"delta":{}}}"#,
                json_string(&piece.to_string())
            )
        }
        ScriptEvent::TextEnded => format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":{message}}}"#),
        ScriptEvent::Status(status) => format!(
            r#"{{"type":"STATE_DELTA","delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]}}"#
        ),
        ScriptEvent::CallStarted => format!(
            r#"{{"type":"TOOL_CALL_START","toolCallId":{call},"toolCallName":"{TOOL}","parentMessageId":{message}}}"#
        ),
        ScriptEvent::CallArguments(piece) => {
            format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":{call},"delta":{}}}"#, json_string(piece))
        }
        ScriptEvent::CallEnded => format!(r#"{{"type":"TOOL_CALL_END","toolCallId":{call}}}"#),
        ScriptEvent::StepFinished => format!(r#"{{"type":"STEP_FINISHED","stepName":"{STEP}"}}"#),
        // A run that leaves a front-end tool unanswered ends with success and SHOULD list the call.
        ScriptEvent::RunAwaitsTool => format!(
            r#"{{"type":"RUN_FINISHED","threadId":{thread},"runId":{run},"outcome":{{"type":"success","pendingToolCallIds":[{call}]}}}}"#
        ),
        ScriptEvent::RunFinished => {
            format!(r#"{{"type":"RUN_FINISHED","threadId":{thread},"runId":{run}}}"#)
        }
        ScriptEvent::RunFailed => {
            format!(r#"{{"type":"RUN_ERROR","message":"{ERROR_MESSAGE}","code":"{ERROR_CODE}"}}"#)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use serde_json::json;

    #[test]
    fn sends_reasoning_before_the_message_in_the_first_turn() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        let expected = [
            r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1","protocolVersion":"1.0"}"#,
            r#"{"type":"STATE_SNAPSHOT","snapshot":{"workflowItems":[{"name":"部署","status":"pending"}]}}"#,
            r#"{"type":"STEP_STARTED","stepName":"智能处理"}"#,
            r#"{"type":"REASONING_START","messageId":"think-r1"}"#,
            r#"{"type":"REASONING_MESSAGE_START","messageId":"think-r1","role":"reasoning"}"#,
            r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"think-r1","delta":"用户想部署应用，"}"#,
            r#"{"type":"REASONING_MESSAGE_CONTENT","messageId":"think-r1","delta":"需要先确认。"}"#,
            r#"{"type":"REASONING_MESSAGE_END","messageId":"think-r1"}"#,
            r#"{"type":"REASONING_END","messageId":"think-r1"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-r1","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"好的，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"我将把应用部署到生产环境，"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"请先确认。"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"msg-r1"}"#,
            r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/workflowItems/0/status","value":"running"}]}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"call-r1","toolCallName":"confirmAction","parentMessageId":"msg-r1"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"call-r1","delta":"{\"action\":\"部署应用到生产环境\","}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"call-r1","delta":"\"importance\":\"high\"}"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"call-r1"}"#,
            r#"{"type":"STEP_FINISHED","stepName":"智能处理"}"#,
            r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1","outcome":{"type":"success","pendingToolCallIds":["call-r1"]}}"#,
        ];
        assert_eq!(events(DemoAgent::AgUi, &input, 0).unwrap(), expected);
    }

    #[test]
    fn the_second_turn_reports_the_refusal() {
        let input = json!({
            "threadId": "t1", "runId": "r2",
            "messages": [{"id": "x", "role": "tool", "content": "{\"confirmed\":false}", "toolCallId": "call-r1"}],
        });
        let expected = [
            r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r2","protocolVersion":"1.0"}"#,
            r#"{"type":"STATE_SNAPSHOT","snapshot":{"workflowItems":[{"name":"部署","status":"cancelled"}]}}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-r2","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r2","delta":"已取消"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r2","delta":"部署。"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"msg-r2"}"#,
            r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r2"}"#,
        ];
        assert_eq!(events(DemoAgent::AgUi, &input, 0).unwrap(), expected);
    }
}
