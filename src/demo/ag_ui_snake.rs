//! The events of a platform that took AG-UI over with words of its own, printed as seed 002 prints them: `thread_id` and
//! `run_id`, localised roles, thinking without a span, arguments as an object, timestamps in seconds.
//!
//! State and steps are not printed there: AG-UI's own, a guess.

use super::{
    conversation::{Beat, ERROR_CODE, ERROR_MESSAGE, STATUS_PATH, STEP, TOOL},
    script::{Ids, quoted},
    whole::Whole,
};

/// Who speaks, in the seed's word.
const ROLE: &str = "助手";

/// The event of a beat, or `None` where the seed has none.
pub(super) fn event(beat: Beat, ids: &Ids, whole: &mut Whole, now_ms: u64) -> Option<String> {
    let Ids { thread, run, message, call, thinking } = ids;
    let say = |kind: &str, members: &str| {
        let seconds = now_ms / 1000;
        Some(format!(r#"{{"type":"{kind}","timestamp":{seconds},{members}}}"#))
    };
    let of_run = format!(r#""thread_id":{thread},"run_id":{run}"#);
    let of = |id: &str| format!(r#""messageId":{id}"#);
    let piece_of = |id: &str, piece: &str| format!(r#""messageId":{id},"delta":{}"#, quoted(piece));
    match beat {
        Beat::RunStarted => say("RUN_STARTED", &of_run),
        Beat::State(status) => {
            say("STATE_SNAPSHOT", &format!(r#""snapshot":{{"workflowItems":[{{"name":"部署","status":"{status}"}}]}}"#))
        }
        Beat::Status(status) => {
            say("STATE_DELTA", &format!(r#""delta":[{{"op":"replace","path":"{STATUS_PATH}","value":"{status}"}}]"#))
        }
        Beat::StepStarted => say("STEP_STARTED", &format!(r#""stepName":"{STEP}""#)),
        Beat::StepFinished => say("STEP_FINISHED", &format!(r#""stepName":"{STEP}""#)),
        Beat::ThinkingTextStarted => {
            say("THINKING_TEXT_MESSAGE_START", &format!(r#"{},"role":"{ROLE}""#, of(thinking)))
        }
        Beat::Thinking(piece) => say("THINKING_TEXT_MESSAGE_CONTENT", &piece_of(thinking, piece)),
        Beat::ThinkingTextEnded => say("THINKING_TEXT_MESSAGE_END", &of(thinking)),
        Beat::TextStarted => say("TEXT_MESSAGE_START", &format!(r#"{},"role":"{ROLE}""#, of(message))),
        Beat::Text(piece) => say("TEXT_MESSAGE_CONTENT", &piece_of(message, &piece.to_string())),
        Beat::TextEnded => say("TEXT_MESSAGE_END", &of(message)),
        Beat::CallStarted => say(
            "TOOL_CALL_START",
            &format!(r#""toolCallId":{call},"toolCallName":"{TOOL}","parentMessageId":{message}"#),
        ),
        Beat::CallArguments(piece) => {
            let args = whole.arguments(piece)?;
            say("TOOL_CALL_ARGS", &format!(r#""toolCallId":{call},"delta":{args}"#))
        }
        Beat::CallEnded => say("TOOL_CALL_END", &format!(r#""toolCallId":{call}"#)),
        Beat::RunWaits | Beat::RunFinished => say("RUN_FINISHED", &of_run),
        Beat::RunFailed => {
            say("RUN_ERROR", &format!(r#""message":"{ERROR_MESSAGE}","code":"{ERROR_CODE}","result":{{}}"#))
        }
        Beat::AnswerStarted | Beat::ThinkingStarted | Beat::ThinkingEnded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Agent, events};
    use serde_json::json;

    #[test]
    fn the_first_turn_thinks_without_a_span() {
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
        assert_eq!(events(Agent::AgUiSnake, &input, 1_761_819_878_000).unwrap(), expected);
    }
}
