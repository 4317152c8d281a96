//! The events of social-app's agent, printed like in seed 004: the text in one event at its end, arguments as an object, the
//! run's ids on every event, and frames with `id` and `event`.
//!
//! §3 has no thinking and no state patches: thinking is left out, and a new state is sent as a snapshot.

use super::{
    assembler::TextAssembler,
    conversation::{ERROR_MESSAGE, ScriptEvent, TOOL},
    demo_ids::{DemoIds, json_string},
};

/// Prints an event; `None` if social-app has no such event.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds, assembler: &mut TextAssembler) -> Option<String> {
    let DemoIds { thread, run, message, call, .. } = ids;
    let own = format!(r#""threadId":{thread},"runId":{run}"#);
    let of_call =
        format!(r#"{own},"messageId":{message},"toolCallId":{call},"toolCallName":"{TOOL}","stage":"worker""#);
    Some(match event {
        ScriptEvent::RunStarted => format!(r#"{{"type":"RUN_STARTED",{own}}}"#),
        ScriptEvent::State(status) | ScriptEvent::Status(status) => format!(
            r#"{{"type":"STATE_SNAPSHOT",{own},"snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}}}"#
        ),
        ScriptEvent::StepStarted => format!(r#"{{"type":"STEP_STARTED",{own},"stepName":"worker"}}"#),
        ScriptEvent::StepFinished => format!(r#"{{"type":"STEP_FINISHED",{own},"stepName":"worker"}}"#),
        ScriptEvent::Text(piece) => {
            assembler.push_text(&piece.to_string());
            return None;
        }
        ScriptEvent::TextEnded => {
            let answer = json_string(&assembler.take_text());
            format!(
                r#"{{"type":"TEXT_MESSAGE_END",{own},"messageId":{message},"role":"assistant","stage":"worker","status":"success","answer":{answer},"key_points":[],"result_type":"execution_report","suggested_actions":[],"error":null,"ui_schema":{{}}}}"#
            )
        }
        ScriptEvent::CallStarted => format!(r#"{{"type":"TOOL_CALL_START",{of_call}}}"#),
        ScriptEvent::CallArguments(piece) => {
            let args = assembler.push_arguments(piece)?;
            format!(r#"{{"type":"TOOL_CALL_ARGS",{of_call},"args":{args}}}"#)
        }
        ScriptEvent::CallEnded => format!(r#"{{"type":"TOOL_CALL_END",{of_call}}}"#),
        ScriptEvent::RunAwaitsTool | ScriptEvent::RunFinished => format!(r#"{{"type":"RUN_FINISHED",{own}}}"#),
        ScriptEvent::RunFailed => format!(r#"{{"type":"RUN_ERROR",{own},"message":"{ERROR_MESSAGE}","code":null}}"#),
        ScriptEvent::AnswerStarted
        | ScriptEvent::ThinkingStarted
        | ScriptEvent::ThinkingTextStarted
        | ScriptEvent::Thinking(_)
        | ScriptEvent::ThinkingTextEnded
        | ScriptEvent::ThinkingEnded
        | ScriptEvent::TextStarted => return None,
    })
}

/// Returns the lines of a frame before its data (§2): an id in the format of Redis streams, and the event's type.
pub(super) fn frame_head(event: &str, now_ms: u64, count: u64) -> String {
    let kind = event.split('"').nth(3).unwrap_or_default();
    format!("id: {now_ms}-{count}\nevent: {kind}\n")
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use super::frame_head;
    use serde_json::json;

    #[test]
    fn sends_text_and_arguments_each_in_one_event() {
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
        assert_eq!(events(DemoAgent::SocialApp, &input, 0).unwrap(), expected);
        assert_eq!(frame_head(expected[0], 1_700_000_000_000, 3), "id: 1700000000000-3\nevent: RUN_STARTED\n");
    }
}
