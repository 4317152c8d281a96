//! A run of a demo agent: the beats of the conversation as the levers leave them, drawn one by one as events.
//!
//! Nothing is produced before it is asked for, so a text of a million pieces costs no more memory than one of three.
//! Nothing here reads a clock or does I/O.

use std::iter::Peekable;

use serde_json::Value;

use super::{
    Agent, BadLever, ag_ui, ag_ui_0, ag_ui_snake, cloudbase,
    conversation::{Beat, Piece, Turn, messages},
    hai,
    levers::{Fail, Levers},
    social_app,
    whole::Whole,
};

/// The ids of one run, each already a JSON string with its quotes, since that is all they are used for.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub thread: String,
    pub run: String,
    pub message: String,
    pub call: String,
    pub thinking: String,
}

impl Ids {
    /// Takes the ids of a request. A missing run id is made from the length of the conversation, so that the turns
    /// of one conversation still have messages and calls of their own.
    fn read(input: &Value) -> Self {
        let id = |names: [&str; 2]| names.into_iter().find_map(|name| input.get(name).and_then(Value::as_str));
        let turn = messages(input).len();
        let run = id(["runId", "run_id"]).map_or_else(|| format!("run-{turn}"), str::to_owned);
        Self {
            thread: quoted(id(["threadId", "thread_id"]).unwrap_or("thread")),
            message: quoted(&format!("msg-{run}")),
            call: quoted(&format!("call-{run}")),
            thinking: quoted(&format!("think-{run}")),
            run: quoted(&run),
        }
    }
}

/// What the body does when the last event has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It ends.
    Clean,
    /// It stays open and silent until the client leaves.
    Silent,
    /// It breaks off.
    Broken,
}

/// One run of an agent, drawn event by event.
pub(super) struct Script {
    agent: Agent,
    ids: Ids,
    beats: Peekable<Box<dyn Iterator<Item = Beat> + Send>>,
    ending: Ending,
    whole: Whole,
    /// how many events were said
    count: u64,
}

impl Script {
    /// Prepares the answer to a request, which is read liberally: ids in camelCase or snake_case, or none at all.
    pub(super) fn new(agent: Agent, input: &Value, levers: Levers) -> Self {
        let Turn { before, text, after } = Turn::of(input);
        let pieces: Box<dyn Iterator<Item = Piece> + Send> = match levers.events {
            Some(count) => Box::new((1..=count).map(Piece::Numbered)),
            None => Box::new(text.iter().copied().map(Piece::Scripted)),
        };
        let (spoken, after, ending) = match (levers.fail, levers.idle) {
            (Some(Fail::Error), _) => (1, vec![Beat::RunFailed], Ending::Clean),
            (Some(Fail::Truncate), _) => (1, Vec::new(), Ending::Clean),
            (Some(Fail::Reset), _) => (1, Vec::new(), Ending::Broken),
            (None, true) => (1, Vec::new(), Ending::Silent),
            // The other failures are answers in place of a stream, so they are none of the script's.
            (None, false) | (Some(Fail::Status | Fail::Html), _) => (usize::MAX, after, Ending::Clean),
        };
        let beats = before.into_iter().chain(pieces.take(spoken).map(Beat::Text)).chain(after);
        let beats: Box<dyn Iterator<Item = Beat> + Send> = Box::new(beats);
        Self { agent, ids: Ids::read(input), beats: beats.peekable(), ending, whole: Whole::default(), count: 0 }
    }

    /// The JSON text of the next event, stamped `now_ms` (milliseconds since the epoch) where the protocol stamps it.
    pub(super) fn next(&mut self, now_ms: u64) -> Option<String> {
        loop {
            let beat = self.beats.next()?;
            let event = match self.agent {
                Agent::HaiString => hai::event(beat, &self.ids, hai::Text::Strings, now_ms),
                Agent::HaiBlocks => hai::event(beat, &self.ids, hai::Text::Blocks, now_ms),
                Agent::AgUi => ag_ui::event(beat, &self.ids),
                Agent::AgUi0 => ag_ui_0::event(beat, &self.ids),
                Agent::AgUiSnake => ag_ui_snake::event(beat, &self.ids, &mut self.whole, now_ms),
                Agent::Cloudbase => cloudbase::event(beat, &self.ids, &mut self.whole),
                Agent::SocialApp => social_app::event(beat, &self.ids, &mut self.whole),
            };
            if event.is_some() {
                self.count += 1;
                return event;
            }
        }
    }

    /// The lines that stand before the data of the event that was said last.
    pub(super) fn head(&self, event: &str, now_ms: u64) -> String {
        match self.agent {
            Agent::SocialApp => social_app::head(event, now_ms, self.count),
            _ => String::new(),
        }
    }

    /// What follows when the last event has been said, or `None` while there is more to say.
    pub(super) fn ending(&mut self) -> Option<Ending> {
        match self.beats.peek() {
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
pub fn events(agent: Agent, input: &Value, now_ms: u64) -> Result<Vec<String>, BadLever> {
    let mut script = Script::new(agent, input, Levers::read(input)?);
    Ok(std::iter::from_fn(|| script.next(now_ms)).collect())
}

/// A text as a JSON string, its non-ASCII characters as they are (`ensure_ascii=False` of seed 4.2).
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AGENTS: [Agent; 3] = [Agent::HaiString, Agent::HaiBlocks, Agent::AgUi];

    fn said(agent: Agent, input: &Value) -> Vec<Value> {
        events(agent, input, 1_620_000_000_000)
            .unwrap()
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect()
    }

    fn types(agent: Agent, input: &Value) -> Vec<String> {
        said(agent, input).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    fn answer(content: Value) -> Value {
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
    fn text(events: &[Value]) -> String {
        let pieces = events.iter().filter_map(|event| match &event["delta"] {
            Value::String(text) if !event["messageId"].is_null() => Some(text.as_str()),
            delta => delta["output"]["content"].as_str(),
        });
        pieces.collect()
    }

    #[test]
    fn the_tool_arguments_are_json_in_two_pieces() {
        for agent in AGENTS {
            let arguments: Vec<_> = said(agent, &json!({"runId": "r"}))
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
                let events = said(agent, &answer(content.clone()));
                let (status, sentence) =
                    if confirmed { ("done", "部署已完成。") } else { ("cancelled", "已取消部署。") };
                assert_eq!(events[1]["type"], "STATE_DELTA", "{content}");
                assert_eq!(events[1]["delta"][0]["value"], status, "{content}");
                assert_eq!(text(&events), sentence, "{content}");
            }
        }
    }

    #[test]
    fn a_state_that_the_client_does_not_have_is_said_whole() {
        for state in [Value::Null, json!({}), json!({"workflowItems": []})] {
            let mut input = answer(json!("true"));
            input["state"] = state;
            for agent in AGENTS {
                let events = said(agent, &input);
                assert_eq!(events[1]["type"], "STATE_SNAPSHOT");
                assert_eq!(events[1]["snapshot"], json!({"workflowItems": [{"name": "部署", "status": "done"}]}));
                assert!(!types(agent, &input).contains(&"STATE_DELTA".to_owned()));
            }
        }
    }

    #[test]
    fn missing_ids_differ_from_turn_to_turn() {
        let one = said(Agent::AgUi, &json!({}));
        let two = said(Agent::AgUi, &json!({"messages": [{}, {"role": "user"}]}));
        assert_eq!(one[0]["runId"], "run-0");
        assert_eq!(two[0]["runId"], "run-2");
        let snake = said(Agent::AgUi, &json!({"thread_id": "t\"", "run_id": "r"}));
        assert_eq!(snake[0]["threadId"], "t\"");
        assert_eq!(snake[0]["runId"], "r");
    }

    #[test]
    fn the_text_can_be_any_number_of_pieces() {
        for agent in AGENTS {
            let input = json!({"forwardedProps": {"diglot": {"events": 3}}});
            let spoken = text(&said(agent, &input));
            assert!(spoken.ends_with("第1段 第2段 第3段 "), "{spoken}");
            let plain = types(agent, &json!({})).len();
            let none = json!({"forwardedProps": {"diglot": {"events": 0}}});
            assert_eq!(types(agent, &none).len(), plain - 3);
        }
    }

    #[test]
    fn interruptions_follow_the_first_text_piece() {
        let plain = types(Agent::HaiBlocks, &json!({}));
        for (levers, ending, last) in [
            (json!({"fail": "truncate"}), Ending::Clean, None),
            (json!({"fail": "reset"}), Ending::Broken, None),
            (json!({"idle": true}), Ending::Silent, None),
            (json!({"fail": "error"}), Ending::Clean, Some("RUN_ERROR")),
        ] {
            let input = json!({"forwardedProps": {"diglot": levers}});
            let mut script = Script::new(Agent::HaiBlocks, &input, Levers::read(&input).unwrap());
            assert_eq!(script.ending(), None);
            while script.next(0).is_some() {}
            assert_eq!(script.ending(), Some(ending));

            let mut expected = plain[..7].to_vec();
            expected.extend(last.map(str::to_owned));
            assert_eq!(types(Agent::HaiBlocks, &input), expected);
        }
    }

    #[test]
    fn a_lever_that_does_not_exist_is_an_error() {
        let input = json!({"forwardedProps": {"diglot": {"fail": "explode"}}});
        assert!(events(Agent::AgUi, &input, 0).is_err());
    }
}
