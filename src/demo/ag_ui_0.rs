//! The events of an AG-UI 0.x agent, printed like the SDKs of 0.0.35 to 0.0.44 do: no `protocolVersion`, no outcome, and
//! thinking without ids (seed 001). All other events are those of AG-UI 1.0.

use super::{
    ag_ui,
    conversation::ScriptEvent,
    demo_ids::{DemoIds, json_string},
};

/// Prints an event; `None` if AG-UI has no such event.
pub(super) fn event(event: ScriptEvent, ids: &DemoIds) -> Option<String> {
    let DemoIds { thread, run, .. } = ids;
    let without_members = |kind: &str| Some(format!(r#"{{"type":"{kind}"}}"#));
    match event {
        ScriptEvent::RunStarted => Some(format!(r#"{{"type":"RUN_STARTED","threadId":{thread},"runId":{run}}}"#)),
        ScriptEvent::ThinkingStarted => without_members("THINKING_START"),
        ScriptEvent::ThinkingTextStarted => without_members("THINKING_TEXT_MESSAGE_START"),
        ScriptEvent::Thinking(piece) => {
            Some(format!(r#"{{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":{}}}"#, json_string(piece)))
        }
        ScriptEvent::ThinkingTextEnded => without_members("THINKING_TEXT_MESSAGE_END"),
        ScriptEvent::ThinkingEnded => without_members("THINKING_END"),
        // It cannot express that a call waits for a result.
        ScriptEvent::RunAwaitsTool => ag_ui::event(ScriptEvent::RunFinished, ids),
        other => ag_ui::event(other, ids),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DemoAgent, events};
    use serde_json::json;

    #[test]
    fn sends_thinking_events_without_ids() {
        let input = json!({"threadId": "t1", "runId": "r1"});
        let [old, new] = [DemoAgent::AgUi0, DemoAgent::AgUi].map(|agent| events(agent, &input, 0).unwrap());
        let other = [
            (0, r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#),
            (3, r#"{"type":"THINKING_START"}"#),
            (4, r#"{"type":"THINKING_TEXT_MESSAGE_START"}"#),
            (5, r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"用户想部署应用，"}"#),
            (6, r#"{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"需要先确认。"}"#),
            (7, r#"{"type":"THINKING_TEXT_MESSAGE_END"}"#),
            (8, r#"{"type":"THINKING_END"}"#),
            (20, r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#),
        ];
        assert_eq!(old.len(), new.len());
        for (at, event) in old.iter().enumerate() {
            let expected = other.iter().find(|(own, _)| *own == at).map_or(new[at].as_str(), |(_, event)| event);
            assert_eq!(event, expected);
        }
    }
}
