//! The events of a HAI agent, printed like the output class of the seed does (seed 4.2, `BaseChatOutput`).
//!
//! Members and their order are those of its builder functions, blanks after `:` and `,` those of Python's `json.dumps`,
//! which HAI agents use. The seed has no builder for STATE_SNAPSHOT and RUN_ERROR: their members are guesses by analogy.

use super::{
    conversation::{ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, ScriptEvent, TOOL},
    demo_ids::{DemoIds, json_string},
};

/// The format of a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HaiTextForm {
    /// `"delta": "…"` (seed 3.3.1).
    Strings,
    /// `"delta": {"output": {"type": "text", …}}` (seed 4.2).
    Blocks,
}

/// Prints an event; `None` if HAI has no such event: its thinking has no start and end, and the message is opened before the
/// thinking.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds, text: HaiTextForm, now_ms: u64) -> Option<String> {
    let message = |kind| message_event(kind, ids, now_ms);
    let call = &ids.call;
    Some(match event {
        ScriptEvent::RunStarted => message("RUN_STARTED"),
        ScriptEvent::State(status) => format!(
            r#"{{"type": "STATE_SNAPSHOT", "snapshot": {{"workflowItems": [{{"name": "部署", "status": "{status}"}}]}}, "timestamp": {now_ms}}}"#
        ),
        ScriptEvent::StepStarted => format!(r#"{{"type": "STEP_STARTED", "stepName": "{STEP}"}}"#),
        ScriptEvent::AnswerStarted => message("BUSINESS_DATA_START"),
        ScriptEvent::Thinking(piece) => {
            let content = json_string(piece);
            // Ten seconds is the seed's default for `elapsed`.
            let output = format!(
                r#"{{"type": "thinking", "data": {{"content": {content}, "elapsed": 10, "thinking": true, "collapse": true}}}}"#
            );
            content_event(ids, &output_block(&output), now_ms)
        }
        ScriptEvent::Text(piece) => {
            let piece = json_string(&piece.to_string());
            match text {
                HaiTextForm::Strings => content_event(ids, &piece, now_ms),
                HaiTextForm::Blocks => {
                    let output = format!(r#"{{"type": "text", "content": {piece}}}"#);
                    content_event(ids, &output_block(&output), now_ms)
                }
            }
        }
        ScriptEvent::TextEnded => message("BUSINESS_DATA_END"),
        // The builder writes `from` on every operation, by default empty.
        ScriptEvent::Status(status) => format!(
            r#"{{"type": "STATE_DELTA", "delta": [{{"op": "replace", "path": "{STATUS_PATH}", "value": "{status}", "from": ""}}], "timestamp": {now_ms}}}"#
        ),
        ScriptEvent::CallStarted => format!(
            r#"{{"type": "TOOL_CALL_START", "toolCallId": {call}, "toolCallName": "{TOOL}", "parentMessageId": {}}}"#,
            ids.message
        ),
        ScriptEvent::CallArguments(piece) => {
            format!(r#"{{"type": "TOOL_CALL_ARGS", "toolCallId": {call}, "delta": {}}}"#, json_string(piece))
        }
        ScriptEvent::CallEnded => format!(r#"{{"type": "TOOL_CALL_END", "toolCallId": {call}}}"#),
        ScriptEvent::StepFinished => format!(r#"{{"type": "STEP_FINISHED", "stepName": "{STEP}"}}"#),
        ScriptEvent::RunAwaitsTool | ScriptEvent::RunFinished => message("RUN_FINISHED"),
        ScriptEvent::RunFailed => format!(
            r#"{{"type": "RUN_ERROR", "message": "{ERROR_MESSAGE}", "code": "{ERROR_CODE}", "timestamp": {now_ms}}}"#
        ),
        ScriptEvent::ThinkingStarted
        | ScriptEvent::ThinkingTextStarted
        | ScriptEvent::ThinkingTextEnded
        | ScriptEvent::ThinkingEnded
        | ScriptEvent::TextStarted => return None,
    })
}

/// Prints a boundary of the run or of a message.
fn message_event(kind: &str, ids: &DemoIds, now_ms: u64) -> String {
    format!(r#"{{"type": "{kind}", "messageId": {}, "role": "assistant", "timestamp": {now_ms}}}"#, ids.message)
}

fn content_event(ids: &DemoIds, delta: &str, now_ms: u64) -> String {
    format!(
        r#"{{"type": "BUSINESS_DATA_CONTENT", "messageId": {}, "delta": {delta}, "timestamp": {now_ms}}}"#,
        ids.message
    )
}

fn output_block(output: &str) -> String {
    format!(r#"{{"output": {output}}}"#)
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use serde_json::json;

    const NOW: u64 = 1_620_000_000_500;

    /// The first turn in block format, every line as the builders of seed 4.2 print it.
    const FIRST_TURN: &[&str] = &[
        r#"{"type": "RUN_STARTED", "messageId": "msg-r1", "role": "assistant", "timestamp": 1620000000500}"#,
        r#"{"type": "STATE_SNAPSHOT", "snapshot": {"workflowItems": [{"name": "部署", "status": "pending"}]}, "timestamp": 1620000000500}"#,
        r#"{"type": "STEP_STARTED", "stepName": "智能处理"}"#,
        r#"{"type": "BUSINESS_DATA_START", "messageId": "msg-r1", "role": "assistant", "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": {"output": {"type": "thinking", "data": {"content": "用户想部署应用，", "elapsed": 10, "thinking": true, "collapse": true}}}, "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": {"output": {"type": "thinking", "data": {"content": "需要先确认。", "elapsed": 10, "thinking": true, "collapse": true}}}, "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": {"output": {"type": "text", "content": "好的，"}}, "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": {"output": {"type": "text", "content": "我将把应用部署到生产环境，"}}, "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": {"output": {"type": "text", "content": "请先确认。"}}, "timestamp": 1620000000500}"#,
        r#"{"type": "BUSINESS_DATA_END", "messageId": "msg-r1", "role": "assistant", "timestamp": 1620000000500}"#,
        r#"{"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/workflowItems/0/status", "value": "running", "from": ""}], "timestamp": 1620000000500}"#,
        r#"{"type": "TOOL_CALL_START", "toolCallId": "call-r1", "toolCallName": "confirmAction", "parentMessageId": "msg-r1"}"#,
        r#"{"type": "TOOL_CALL_ARGS", "toolCallId": "call-r1", "delta": "{\"action\":\"部署应用到生产环境\","}"#,
        r#"{"type": "TOOL_CALL_ARGS", "toolCallId": "call-r1", "delta": "\"importance\":\"high\"}"}"#,
        r#"{"type": "TOOL_CALL_END", "toolCallId": "call-r1"}"#,
        r#"{"type": "STEP_FINISHED", "stepName": "智能处理"}"#,
        r#"{"type": "RUN_FINISHED", "messageId": "msg-r1", "role": "assistant", "timestamp": 1620000000500}"#,
    ];

    #[test]
    fn prints_the_first_turn_like_the_hai_builders() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        assert_eq!(events(DemoAgent::HaiBlocks, &input, NOW).unwrap(), FIRST_TURN);
    }

    /// Seed 3.3.1 writes text as plain strings; everything else is as in block format.
    #[test]
    fn string_content_differs_only_in_its_text_deltas() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        let expected: Vec<_> = FIRST_TURN
            .iter()
            .map(|line| match line.split_once(r#"{"output": {"type": "text", "content": "#) {
                Some((head, tail)) => head.to_owned() + &tail.replacen("}}, ", ", ", 1),
                None => (*line).to_owned(),
            })
            .collect();
        assert_eq!(
            expected[6],
            r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r1", "delta": "好的，", "timestamp": 1620000000500}"#
        );
        assert_eq!(events(DemoAgent::HaiString, &input, NOW).unwrap(), expected);
    }

    #[test]
    fn the_second_turn_reports_the_confirmation() {
        let input = json!({
            "threadId": "t1", "runId": "r2",
            "state": {"workflowItems": [{"name": "部署", "status": "running"}]},
            "messages": [{"id": "result-789", "role": "tool", "content": "true", "toolCallId": "call-r1"}],
        });
        let expected = [
            r#"{"type": "RUN_STARTED", "messageId": "msg-r2", "role": "assistant", "timestamp": 1620000000500}"#,
            r#"{"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/workflowItems/0/status", "value": "done", "from": ""}], "timestamp": 1620000000500}"#,
            r#"{"type": "BUSINESS_DATA_START", "messageId": "msg-r2", "role": "assistant", "timestamp": 1620000000500}"#,
            r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r2", "delta": "部署", "timestamp": 1620000000500}"#,
            r#"{"type": "BUSINESS_DATA_CONTENT", "messageId": "msg-r2", "delta": "已完成。", "timestamp": 1620000000500}"#,
            r#"{"type": "BUSINESS_DATA_END", "messageId": "msg-r2", "role": "assistant", "timestamp": 1620000000500}"#,
            r#"{"type": "RUN_FINISHED", "messageId": "msg-r2", "role": "assistant", "timestamp": 1620000000500}"#,
        ];
        assert_eq!(events(DemoAgent::HaiString, &input, NOW).unwrap(), expected);
    }
}
