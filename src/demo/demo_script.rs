//! A run of a demo agent: the beats of the conversation as the levers leave them, drawn one by one as events.
//!
//! Nothing is produced before it is asked for, so a text of a million pieces costs no more memory than one of three.
//! Nothing here reads a clock or does I/O.

use std::iter::Peekable;

use serde_json::Value;

use super::{
    DemoAgent, ag_ui, ag_ui_0, ag_ui_snake,
    assembler::TextAssembler,
    cloudbase,
    conversation::{ConversationTurn, ScriptEvent, TextPiece, messages},
    hai, social_app,
    test_options::{InjectedFault, TestOptions},
};

/// The ids of one run, each already a JSON string with its quotes, since that is all they are used for.
#[derive(Clone, Debug)]
pub(super) struct DemoIds {
    pub(crate) thread: String,
    pub(crate) run: String,
    pub(crate) message: String,
    pub(crate) call: String,
    pub(crate) thinking: String,
}

impl DemoIds {
    /// Takes the ids of a request. A missing run id is made from the length of the conversation, so that the turns
    /// of one conversation still have messages and calls of their own.
    fn read(input: &Value) -> Self {
        let id = |names: [&str; 2]| names.into_iter().find_map(|name| input.get(name).and_then(Value::as_str));
        let turn = messages(input).len();
        let run = id(["runId", "run_id"]).map_or_else(|| format!("run-{turn}"), str::to_owned);
        Self {
            thread: json_string(id(["threadId", "thread_id"]).unwrap_or("thread")),
            message: json_string(&format!("msg-{run}")),
            call: json_string(&format!("call-{run}")),
            thinking: json_string(&format!("think-{run}")),
            run: json_string(&run),
        }
    }
}

/// What the body does when the last event has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnding {
    /// It ends.
    Clean,
    /// It stays open and silent until the client leaves.
    Silent,
    /// It breaks off.
    Broken,
}

/// One run of an agent, drawn event by event.
pub(super) struct DemoScript {
    agent: DemoAgent,
    ids: DemoIds,
    events: Peekable<Box<dyn Iterator<Item = ScriptEvent> + Send>>,
    ending: BodyEnding,
    assembler: TextAssembler,
    /// how many events were said
    event_count: u64,
}

impl DemoScript {
    /// Prepares the answer to a request, which is read liberally: ids in camelCase or snake_case, or none at all.
    pub(super) fn new(agent: DemoAgent, input: &Value, levers: TestOptions) -> Self {
        let ConversationTurn { opening: before, text, closing: after } = ConversationTurn::from_request(input);
        let pieces: Box<dyn Iterator<Item = TextPiece> + Send> = match levers.events {
            Some(count) => Box::new((1..=count).map(TextPiece::Numbered)),
            None => Box::new(text.iter().copied().map(TextPiece::Scripted)),
        };
        let (spoken, after, ending) = match (levers.fail, levers.idle) {
            (Some(InjectedFault::Error), _) => (1, vec![ScriptEvent::RunFailed], BodyEnding::Clean),
            (Some(InjectedFault::Truncate), _) => (1, Vec::new(), BodyEnding::Clean),
            (Some(InjectedFault::Reset), _) => (1, Vec::new(), BodyEnding::Broken),
            (None, true) => (1, Vec::new(), BodyEnding::Silent),
            // The other failures are answers in place of a stream, so they are none of the script's.
            (None, false) | (Some(InjectedFault::Status | InjectedFault::Html), _) => {
                (usize::MAX, after, BodyEnding::Clean)
            }
        };
        let beats = before.into_iter().chain(pieces.take(spoken).map(ScriptEvent::Text)).chain(after);
        let beats: Box<dyn Iterator<Item = ScriptEvent> + Send> = Box::new(beats);
        Self {
            agent,
            ids: DemoIds::read(input),
            events: beats.peekable(),
            ending,
            assembler: TextAssembler::default(),
            event_count: 0,
        }
    }

    /// The JSON text of the next event, stamped `now_ms` (milliseconds since the epoch) where the protocol stamps it.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<String> {
        loop {
            let beat = self.events.next()?;
            let event = match self.agent {
                DemoAgent::HaiString => hai::event(beat, &self.ids, hai::HaiTextForm::Strings, now_ms),
                DemoAgent::HaiBlocks => hai::event(beat, &self.ids, hai::HaiTextForm::Blocks, now_ms),
                DemoAgent::AgUi => ag_ui::event(beat, &self.ids),
                DemoAgent::AgUi0 => ag_ui_0::event(beat, &self.ids),
                DemoAgent::AgUiSnake => ag_ui_snake::event(beat, &self.ids, &mut self.assembler, now_ms),
                DemoAgent::Cloudbase => cloudbase::event(beat, &self.ids, &mut self.assembler),
                DemoAgent::SocialApp => social_app::event(beat, &self.ids, &mut self.assembler),
            };
            if event.is_some() {
                self.event_count += 1;
                return event;
            }
        }
    }

    /// The lines that stand before the data of the event that was said last.
    pub(super) fn frame_head(&self, event: &str, now_ms: u64) -> String {
        match self.agent {
            DemoAgent::SocialApp => social_app::frame_head(event, now_ms, self.event_count),
            _ => String::new(),
        }
    }

    /// What follows when the last event has been said, or `None` while there is more to say.
    pub(super) fn ending(&mut self) -> Option<BodyEnding> {
        match self.events.peek() {
            Some(_) => None,
            None => Some(self.ending),
        }
    }
}

/// Every event that `agent` answers a request with, as JSON texts in the order and with the member order in which it
/// says them. `now_ms` (milliseconds since the epoch) stands wherever the agent would put the time.
///
/// # Errors
/// The request pulls a lever that does not exist.
#[cfg(test)]
pub(crate) fn events(
    agent: DemoAgent,
    input: &Value,
    now_ms: u64,
) -> Result<Vec<String>, super::test_options::InvalidTestOption> {
    let mut script = DemoScript::new(agent, input, TestOptions::read(input)?);
    Ok(std::iter::from_fn(|| script.next(now_ms)).collect())
}

/// A text as a JSON string, its non-ASCII characters as they are (`ensure_ascii=False` of seed 4.2).
pub(super) fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AGENTS: [DemoAgent; 3] = [DemoAgent::HaiString, DemoAgent::HaiBlocks, DemoAgent::AgUi];

    fn script_events(agent: DemoAgent, input: &Value) -> Vec<Value> {
        events(agent, input, 1_620_000_000_000)
            .unwrap()
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect()
    }

    fn event_types(agent: DemoAgent, input: &Value) -> Vec<String> {
        script_events(agent, input).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    fn answer_input(content: Value) -> Value {
        json!({
            "threadId": "t", "runId": "r2",
            "state": {"workflowItems": [{"name": "部署", "status": "running"}]},
            "messages": [
                {"id": "u", "role": "user", "content": "部署"},
                {"id": "x", "role": "tool", "toolCallId": "call-r1", "content": content},
            ],
        })
    }

    /// The text that a stream of any of the three forms spells.
    fn text_of(events: &[Value]) -> String {
        let pieces = events.iter().filter_map(|event| match &event["delta"] {
            Value::String(text) if !event["messageId"].is_null() => Some(text.as_str()),
            delta => delta["output"]["content"].as_str(),
        });
        pieces.collect()
    }

    #[test]
    fn sends_tool_arguments_in_two_pieces() {
        for agent in AGENTS {
            let arguments: Vec<_> = script_events(agent, &json!({"runId": "r"}))
                .into_iter()
                .filter(|event| event["type"] == "TOOL_CALL_ARGS")
                .map(|event| event["delta"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(arguments.len(), 2);
            assert_eq!(arguments.concat(), r#"{"action":"部署应用到生产环境","importance":"high"}"#);
        }
    }

    #[test]
    fn a_confirmation_decides_the_second_turn() {
        for (content, confirmed) in [
            (json!("true"), true),
            (json!(r#"{"confirmed": true}"#), true),
            (json!([{"type": "text", "text": "true"}]), true),
            (json!({"confirmed": true}), true),
            (json!("false"), false),
            (json!(r#"{"confirmed": "yes"}"#), false),
            (json!("yes, please"), false),
            (Value::Null, false),
        ] {
            for agent in AGENTS {
                let events = script_events(agent, &answer_input(content.clone()));
                let (status, sentence) =
                    if confirmed { ("done", "部署已完成。") } else { ("cancelled", "已取消部署。") };
                assert_eq!(events[1]["type"], "STATE_DELTA", "{content}");
                assert_eq!(events[1]["delta"][0]["value"], status, "{content}");
                assert_eq!(text_of(&events), sentence, "{content}");
            }
        }
    }

    #[test]
    fn sends_a_snapshot_when_the_client_lacks_the_state() {
        for state in [Value::Null, json!({}), json!({"workflowItems": []})] {
            let mut input = answer_input(json!("true"));
            input["state"] = state;
            for agent in AGENTS {
                let events = script_events(agent, &input);
                assert_eq!(events[1]["type"], "STATE_SNAPSHOT");
                assert_eq!(events[1]["snapshot"], json!({"workflowItems": [{"name": "部署", "status": "done"}]}));
                assert!(!event_types(agent, &input).contains(&"STATE_DELTA".to_owned()));
            }
        }
    }

    #[test]
    fn derives_missing_ids_from_the_turn() {
        let one = script_events(DemoAgent::AgUi, &json!({}));
        let two = script_events(DemoAgent::AgUi, &json!({"messages": [{}, {"role": "user"}]}));
        assert_eq!(one[0]["runId"], "run-0");
        assert_eq!(two[0]["runId"], "run-2");
        let snake = script_events(DemoAgent::AgUi, &json!({"thread_id": "t\"", "run_id": "r"}));
        assert_eq!(snake[0]["threadId"], "t\"");
        assert_eq!(snake[0]["runId"], "r");
    }

    #[test]
    fn sends_as_many_text_pieces_as_requested() {
        for agent in AGENTS {
            let input = json!({"forwardedProps": {"diglot": {"events": 3}}});
            let spoken = text_of(&script_events(agent, &input));
            assert!(spoken.ends_with("第1段 第2段 第3段 "), "{spoken}");
            let plain = event_types(agent, &json!({})).len();
            let none = json!({"forwardedProps": {"diglot": {"events": 0}}});
            assert_eq!(event_types(agent, &none).len(), plain - 3);
        }
    }

    #[test]
    fn interrupts_after_the_first_text_piece() {
        let plain = event_types(DemoAgent::HaiBlocks, &json!({}));
        for (levers, ending, last) in [
            (json!({"fail": "truncate"}), BodyEnding::Clean, None),
            (json!({"fail": "reset"}), BodyEnding::Broken, None),
            (json!({"idle": true}), BodyEnding::Silent, None),
            (json!({"fail": "error"}), BodyEnding::Clean, Some("RUN_ERROR")),
        ] {
            let input = json!({"forwardedProps": {"diglot": levers}});
            let mut script = DemoScript::new(DemoAgent::HaiBlocks, &input, TestOptions::read(&input).unwrap());
            assert_eq!(script.ending(), None);
            while script.next(0).is_some() {}
            assert_eq!(script.ending(), Some(ending));

            let mut expected = plain[..7].to_vec();
            expected.extend(last.map(str::to_owned));
            assert_eq!(event_types(DemoAgent::HaiBlocks, &input), expected);
        }
    }

    #[test]
    fn rejects_an_unknown_lever_value() {
        let input = json!({"forwardedProps": {"diglot": {"fail": "explode"}}});
        assert!(events(DemoAgent::AgUi, &input, 0).is_err());
    }
}
