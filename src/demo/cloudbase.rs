//! A CloudBase agent's events, printed as seed 003 prints them: no RUN_STARTED, no role, no ids on the end of the run, and
//! arguments in the start of their call.
//!
//! The seed lists no thinking, so there is none. Steps and the end of a call are listed without a form: AG-UI's own, a guess.

use super::{
    conversation::{Beat, ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, TOOL},
    script::{Ids, quoted},
    whole::Whole,
};

/// The event of a beat, or `None` where CloudBase says nothing.
pub(super) fn event(beat: Beat, ids: &Ids, whole: &mut Whole) -> Option<String> {
    let Ids { message, call, .. } = ids;
    Some(match beat {
        Beat::State(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT","snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        Beat::Status(status) => format!(
            r#"{{"type":"STATE_DELTA","delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]}}"#
        ),
        Beat::StepStarted => format!(r#"{{"type":"STEP_STARTED","stepName":"{STEP}"}}"#),
        Beat::StepFinished => format!(r#"{{"type":"STEP_FINISHED","stepName":"{STEP}"}}"#),
        Beat::TextStarted => format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":{message}}}"#),
        Beat::Text(piece) => {
            format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":{message},"delta":{}}}"#, quoted(&piece.to_string()))
        }
        Beat::TextEnded => format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":{message}}}"#),
        Beat::CallArguments(piece) => {
            let args = whole.arguments(piece)?;
            format!(r#"{{"type":"TOOL_CALL_START","toolCallId":{call},"toolCallName":"{TOOL}","args":{args}}}"#)
        }
        Beat::CallEnded => format!(r#"{{"type":"TOOL_CALL_END","toolCallId":{call}}}"#),
        Beat::RunWaits | Beat::RunFinished => r#"{"type":"RUN_FINISHED"}"#.to_owned(),
        Beat::RunFailed => {
            format!(r#"{{"type":"RUN_ERROR","error":{{"code":"{ERROR_CODE}","message":"{ERROR_MESSAGE}"}}}}"#)
        }
        Beat::RunStarted
        | Beat::AnswerStarted
        | Beat::ThinkingStarted
        | Beat::ThinkingTextStarted
        | Beat::Thinking(_)
        | Beat::ThinkingTextEnded
        | Beat::ThinkingEnded
        | Beat::CallStarted => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Agent, events};
    use serde_json::json;

    #[test]
    fn the_first_turn_has_its_arguments_in_the_start() {
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
        assert_eq!(events(Agent::Cloudbase, &input, 0).unwrap(), expected);
    }
}
