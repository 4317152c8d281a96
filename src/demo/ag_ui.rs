//! An AG-UI 1.0 agent's events, printed as the SDKs print them: compact JSON, `type` first, optional members absent.

use super::{
    conversation::{Beat, ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, TOOL},
    script::{Ids, quoted},
};

/// The event of a beat, or `None` where AG-UI says nothing: its message is opened by its text, not by its thinking.
pub(super) fn event(beat: Beat, ids: &Ids) -> Option<String> {
    let Ids { thread, run, message, call, thinking } = ids;
    Some(match beat {
        Beat::RunStarted => {
            format!(r#"{{"type":"RUN_STARTED","threadId":{thread},"runId":{run},"protocolVersion":"1.0"}}"#)
        }
        Beat::State(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT","snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        Beat::StepStarted => format!(r#"{{"type":"STEP_STARTED","stepName":"{STEP}"}}"#),
        Beat::AnswerStarted => return None,
        Beat::ThinkingStarted => format!(r#"{{"type":"REASONING_START","messageId":{thinking}}}"#),
        Beat::ThinkingTextStarted => {
            format!(r#"{{"type":"REASONING_MESSAGE_START","messageId":{thinking},"role":"reasoning"}}"#)
        }
        Beat::Thinking(piece) => {
            format!(r#"{{"type":"REASONING_MESSAGE_CONTENT","messageId":{thinking},"delta":{}}}"#, quoted(piece))
        }
        Beat::ThinkingTextEnded => {
            format!(r#"{{"type":"REASONING_MESSAGE_END","messageId":{thinking}}}"#)
        }
        Beat::ThinkingEnded => format!(r#"{{"type":"REASONING_END","messageId":{thinking}}}"#),
        Beat::TextStarted => {
            format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":{message},"role":"assistant"}}"#)
        }
        Beat::Text(piece) => {
            format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":{message},"delta":{}}}"#, quoted(&piece.to_string()))
        }
        Beat::TextEnded => format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":{message}}}"#),
        Beat::Status(status) => format!(
            r#"{{"type":"STATE_DELTA","delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]}}"#
        ),
        Beat::CallStarted => format!(
            r#"{{"type":"TOOL_CALL_START","toolCallId":{call},"toolCallName":"{TOOL}","parentMessageId":{message}}}"#
        ),
        Beat::CallArguments(piece) => {
            format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":{call},"delta":{}}}"#, quoted(piece))
        }
        Beat::CallEnded => format!(r#"{{"type":"TOOL_CALL_END","toolCallId":{call}}}"#),
        Beat::StepFinished => format!(r#"{{"type":"STEP_FINISHED","stepName":"{STEP}"}}"#),
        // A run that leaves a front-end tool unanswered ends with success and SHOULD list the call.
        Beat::RunWaits => format!(
            r#"{{"type":"RUN_FINISHED","threadId":{thread},"runId":{run},"outcome":{{"type":"success","pendingToolCallIds":[{call}]}}}}"#
        ),
        Beat::RunFinished => {
            format!(r#"{{"type":"RUN_FINISHED","threadId":{thread},"runId":{run}}}"#)
        }
        Beat::RunFailed => {
            format!(r#"{{"type":"RUN_ERROR","message":"{ERROR_MESSAGE}","code":"{ERROR_CODE}"}}"#)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Agent, events};
    use serde_json::json;

    #[test]
    fn the_first_turn_reasons_outside_its_message() {
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
        assert_eq!(events(Agent::AgUi, &input, 0).unwrap(), expected);
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
        assert_eq!(events(Agent::AgUi, &input, 0).unwrap(), expected);
    }
}
