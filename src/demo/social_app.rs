//! The events of social-app's agent, printed as seed 004 prints them: the text whole at its end, arguments as an object, the
//! run's ids on every event, and frames with `id` and `event`.
//!
//! §3 prints no thinking and no patch of the state: there is none of the one, and a new state is said whole.

use super::{
    conversation::{Beat, ERROR_MESSAGE, TOOL},
    script::{Ids, quoted},
    whole::Whole,
};

/// The event of a beat, or `None` where social-app says nothing.
pub(super) fn event(beat: Beat, ids: &Ids, whole: &mut Whole) -> Option<String> {
    let Ids { thread, run, message, call, .. } = ids;
    let own = format!(r#""threadId":{thread},"runId":{run}"#);
    let of_call =
        format!(r#"{own},"messageId":{message},"toolCallId":{call},"toolCallName":"{TOOL}","stage":"worker""#);
    Some(match beat {
        Beat::RunStarted => format!(r#"{{"type":"RUN_STARTED",{own}}}"#),
        Beat::State(status) | Beat::Status(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT",{own},"snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        Beat::StepStarted => format!(r#"{{"type":"STEP_STARTED",{own},"stepName":"worker"}}"#),
        Beat::StepFinished => format!(r#"{{"type":"STEP_FINISHED",{own},"stepName":"worker"}}"#),
        Beat::Text(piece) => {
            whole.add(&piece.to_string());
            return None;
        }
        Beat::TextEnded => {
            let answer = quoted(&whole.text());
            format!(
                r#"{{"type":"TEXT_MESSAGE_END",{own},"messageId":{message},"role":"assistant","stage":"worker","status":"success","answer":{answer},"key_points":[],"result_type":"execution_report","suggested_actions":[],"error":null,"ui_schema":{{}}}}"#
            )
        }
        Beat::CallStarted => format!(r#"{{"type":"TOOL_CALL_START",{of_call}}}"#),
        Beat::CallArguments(piece) => {
            let args = whole.arguments(piece)?;
            format!(r#"{{"type":"TOOL_CALL_ARGS",{of_call},"args":{args}}}"#)
        }
        Beat::CallEnded => format!(r#"{{"type":"TOOL_CALL_END",{of_call}}}"#),
        Beat::RunWaits | Beat::RunFinished => format!(r#"{{"type":"RUN_FINISHED",{own}}}"#),
        Beat::RunFailed => format!(r#"{{"type":"RUN_ERROR",{own},"message":"{ERROR_MESSAGE}","code":null}}"#),
        Beat::AnswerStarted
        | Beat::ThinkingStarted
        | Beat::ThinkingTextStarted
        | Beat::Thinking(_)
        | Beat::ThinkingTextEnded
        | Beat::ThinkingEnded
        | Beat::TextStarted => return None,
    })
}

/// The lines of a frame before its data (§2): an id as Redis streams make them, and the type once more.
pub(super) fn head(event: &str, now_ms: u64, count: u64) -> String {
    let kind = event.split('"').nth(3).unwrap_or_default();
    format!("id: {now_ms}-{count}\nevent: {kind}\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Agent, events};
    use super::head;
    use serde_json::json;

    #[test]
    fn the_first_turn_says_its_text_and_its_arguments_whole() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        let expected = [
            r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#,
            r#"{"type":"STATE_SNAPSHOT","threadId":"t1","runId":"r1","snapshot":{"workflowItems":[{"name":"部署","status":"pending"}]}}"#,
            r#"{"type":"STEP_STARTED","threadId":"t1","runId":"r1","stepName":"worker"}"#,
            r#"{"type":"TEXT_MESSAGE_END","threadId":"t1","runId":"r1","messageId":"msg-r1","role":"assistant","stage":"worker","status":"success","answer":"好的，我将把应用部署到生产环境，请先确认。","key_points":[],"result_type":"execution_report","suggested_actions":[],"error":null,"ui_schema":{}}"#,
            r#"{"type":"STATE_SNAPSHOT","threadId":"t1","runId":"r1","snapshot":{"workflowItems":[{"name":"部署","status":"running"}]}}"#,
            r#"{"type":"TOOL_CALL_START","threadId":"t1","runId":"r1","messageId":"msg-r1","toolCallId":"call-r1","toolCallName":"confirmAction","stage":"worker"}"#,
            r#"{"type":"TOOL_CALL_ARGS","threadId":"t1","runId":"r1","messageId":"msg-r1","toolCallId":"call-r1","toolCallName":"confirmAction","stage":"worker","args":{"action":"部署应用到生产环境","importance":"high"}}"#,
            r#"{"type":"TOOL_CALL_END","threadId":"t1","runId":"r1","messageId":"msg-r1","toolCallId":"call-r1","toolCallName":"confirmAction","stage":"worker"}"#,
            r#"{"type":"STEP_FINISHED","threadId":"t1","runId":"r1","stepName":"worker"}"#,
            r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#,
        ];
        assert_eq!(events(Agent::SocialApp, &input, 0).unwrap(), expected);
        assert_eq!(head(expected[0], 1_700_000_000_000, 3), "id: 1700000000000-3\nevent: RUN_STARTED\n");
    }
}
