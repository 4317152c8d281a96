//! One run of a demo agent, as a sequence of events.
//!
//! Events are produced on demand, so text with a million pieces takes no more memory than text with three. The module
//! uses no clock or I/O.

use super::conversation::{ConversationTurn, ScriptEvent, ScriptValue};
use super::demo_ids::{DemoIds, json_string};
use super::test_options::{InjectedFault, TestOptions};
use crate::dialect::{PeerDialect, TextFormat};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::iter::Peekable;

/// The way in which the body ends after the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnding {
    Clean,
    /// stays open until the client leaves
    Silent,
    /// breaks the connection
    Broken,
}

pub(super) struct DemoScript {
    agent: PeerDialect,
    /// JSON templates of the events, by event name
    templates: HashMap<&'static str, &'static str>,
    ids: DemoIds,
    events: Peekable<Box<dyn Iterator<Item = ScriptEvent> + Send>>,
    ending: BodyEnding,
    /// the accumulated text, for an agent that sends it as one event
    whole_text: Option<String>,
    /// number of events so far
    event_count: u64,
}

impl DemoScript {
    /// Prepares the response to a request. The request's ids may be in camelCase or snake_case, or missing.
    pub(super) fn new(agent: PeerDialect, input: &Value, options: TestOptions) -> Self {
        let ConversationTurn { opening, text, closing } = ConversationTurn::from_request(input);
        let pieces: Box<dyn Iterator<Item = ScriptValue> + Send> = match options.events {
            Some(count) => Box::new((1..=count).map(ScriptValue::Numbered)),
            None => Box::new(text.iter().copied().map(ScriptValue::Scripted)),
        };
        let (piece_limit, closing, ending) = match (options.fail, options.idle) {
            (Some(InjectedFault::Error), _) => (1, vec![ScriptEvent::new("run_failed", "")], BodyEnding::Clean),
            (Some(InjectedFault::Truncate), _) => (1, Vec::new(), BodyEnding::Clean),
            (Some(InjectedFault::Reset), _) => (1, Vec::new(), BodyEnding::Broken),
            (None, true) => (1, Vec::new(), BodyEnding::Silent),
            // The server handles the other failures without a script.
            (None, false) | (Some(InjectedFault::Status | InjectedFault::Html), _) => {
                (usize::MAX, closing, BodyEnding::Clean)
            }
        };
        let events = opening.into_iter().chain(pieces.take(piece_limit).map(ScriptEvent::text)).chain(closing);
        let events: Box<dyn Iterator<Item = ScriptEvent> + Send> = Box::new(events);
        let templates = agent.dialect.demo_agent.events;
        Self {
            agent,
            templates: templates.lines().filter_map(|line| line.split_once(' ')).collect(),
            ids: DemoIds::from_request(input),
            events: events.peekable(),
            ending,
            whole_text: templates.contains("$whole_text").then(String::new),
            event_count: 0,
        }
    }

    /// Returns the next event's frame, with the timestamp `now_ms` (ms since the epoch) if the protocol has one.
    pub(super) fn next_frame(&mut self, now_ms: u64) -> Option<String> {
        loop {
            let event = self.events.next()?;
            let name = match event.name {
                ScriptEvent::TEXT if self.agent.text_format == TextFormat::Blocks => "text_block",
                name => name,
            };
            if let Some(whole) = self.whole_text.as_mut().filter(|_| event.name == ScriptEvent::TEXT) {
                let _ = write!(whole, "{}", event.value);
            }
            if let Some(template) = self.templates.get(name) {
                self.event_count += 1;
                let json = self.fill(template, event.value, "", now_ms);
                let kind = json.split('"').nth(3).unwrap_or_default();
                let head = self.fill(self.agent.dialect.demo_agent.frame_head, event.value, kind, now_ms);
                return Some(format!("{head}data: {json}\n\n"));
            }
        }
    }

    /// Replaces the placeholders of a template.
    fn fill(&self, template: &str, value: ScriptValue, kind: &str, now_ms: u64) -> String {
        let mut parts = template.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            match name {
                "thread" => text += &self.ids.thread,
                "run" => text += &self.ids.run,
                "message" => text += &self.ids.message,
                "call" => text += &self.ids.call,
                "thinking" => text += &self.ids.thinking,
                "value" => text += &json_string(&value.to_string()),
                "json" => text += &value.to_string(),
                "whole_text" => text += &json_string(self.whole_text.as_deref().unwrap_or_default()),
                "now_ms" => text += &now_ms.to_string(),
                "now_s" => text += &(now_ms / 1000).to_string(),
                "count" => text += &self.event_count.to_string(),
                "type" => text += kind,
                _ => text.extend(["$", name]),
            }
            text += rest;
        }
        text
    }

    /// Returns the ending once the last event has been returned, otherwise `None`.
    pub(super) fn ending(&mut self) -> Option<BodyEnding> {
        match self.events.peek() {
            Some(_) => None,
            None => Some(self.ending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, ALL, HAI};
    use crate::translate::detect;
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    const NOW_MS: u64 = 1_761_819_878_500;

    fn agents() -> [PeerDialect; 3] {
        let blocks = PeerDialect { text_format: TextFormat::Blocks, ..PeerDialect::new(&HAI) };
        [PeerDialect::new(&HAI), blocks, PeerDialect::new(&AG_UI)]
    }

    /// Returns the body of `agent`'s response to a request.
    fn body(agent: PeerDialect, input: &Value) -> String {
        let mut script = DemoScript::new(agent, input, TestOptions::read(input).unwrap());
        std::iter::from_fn(|| script.next_frame(NOW_MS)).collect()
    }

    fn event_data(body: &str) -> Vec<&str> {
        body.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
    }

    /// Compares with `tests/golden/demo/<agent>/<case>.sse`; `UPDATE=1` rewrites the files.
    #[test]
    fn sends_the_expected_bytes_in_every_dialect() {
        let mut confirmed = answer_input(json!("true"));
        confirmed["threadId"] = json!("t1");
        let cases = [
            ("request", json!({"threadId": "t1", "runId": "r1"})),
            ("confirmed", confirmed),
            (
                "cancelled",
                json!({"threadId": "t1", "runId": "r2", "messages": [{"role": "tool", "content": "{\"confirmed\":false}"}]}),
            ),
            (
                "failed",
                json!({"threadId": "t1", "runId": "r1", "forwardedProps": {"diglot": {"fail": "error", "events": 2}}}),
            ),
        ];
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/demo");
        let blocks = [("hai.blocks", agents()[1])];
        let agents = ALL.iter().map(|dialect| (dialect.name, PeerDialect::new(dialect))).chain(blocks);
        for (name, agent) in agents {
            for (case, input) in &cases {
                let path = golden.join(name).join(case).with_extension("sse");
                let body = body(agent, input);
                if std::env::var_os("UPDATE").is_some() {
                    fs::create_dir_all(golden.join(name)).unwrap();
                    fs::write(&path, &body).unwrap();
                }
                let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(body, expected, "{}", path.display());
                for data in event_data(&body) {
                    let event: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
                    assert!(!event["type"].is_null(), "{data}");
                }
            }
        }
    }

    #[test]
    fn every_agent_is_detected_as_its_dialect() {
        for dialect in ALL {
            let body = body(PeerDialect::new(dialect), &json!({}));
            let (found, _) = detect::detect_stream(event_data(&body).into_iter());
            assert_eq!(found.peer.dialect.name, dialect.name, "{}", found.evidence);
        }
    }

    #[test]
    fn a_file_has_only_events_of_the_script() {
        let script =
            [ConversationTurn::from_request(&json!({})), ConversationTurn::from_request(&answer_input(json!(true)))];
        let mut names: Vec<_> =
            script.iter().flat_map(|turn| turn.opening.iter().chain(&turn.closing)).map(|event| event.name).collect();
        names.extend(["text", "text_block", "run_failed", "state", "#"]);
        for dialect in ALL {
            for line in dialect.demo_agent.events.lines() {
                let name = line.split(' ').next().unwrap_or_default();
                assert!(names.contains(&name), "{}: {line}", dialect.name);
            }
        }
    }

    fn script_events(agent: PeerDialect, input: &Value) -> Vec<Value> {
        event_data(&body(agent, input)).into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    fn event_types(agent: PeerDialect, input: &Value) -> Vec<String> {
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

    /// Returns the text of a stream in any of the three formats.
    fn text_of(events: &[Value]) -> String {
        let pieces = events.iter().filter_map(|event| match &event["delta"] {
            Value::String(text) if !event["messageId"].is_null() => Some(text.as_str()),
            delta => delta["output"]["content"].as_str(),
        });
        pieces.collect()
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
            for agent in agents() {
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
            for agent in agents() {
                let events = script_events(agent, &input);
                assert_eq!(events[1]["type"], "STATE_SNAPSHOT");
                assert_eq!(events[1]["snapshot"], json!({"workflowItems": [{"name": "部署", "status": "done"}]}));
                assert!(!event_types(agent, &input).contains(&"STATE_DELTA".to_owned()));
            }
        }
    }

    #[test]
    fn derives_missing_ids_from_the_turn() {
        let one = script_events(PeerDialect::new(&AG_UI), &json!({}));
        let two = script_events(PeerDialect::new(&AG_UI), &json!({"messages": [{}, {"role": "user"}]}));
        assert_eq!(one[0]["runId"], "run-0");
        assert_eq!(two[0]["runId"], "run-2");
        let snake = script_events(PeerDialect::new(&AG_UI), &json!({"thread_id": "t\"", "run_id": "r"}));
        assert_eq!(snake[0]["threadId"], "t\"");
        assert_eq!(snake[0]["runId"], "r");
    }

    #[test]
    fn sends_as_many_text_pieces_as_requested() {
        for agent in agents() {
            let input = json!({"forwardedProps": {"diglot": {"events": 3}}});
            let text = text_of(&script_events(agent, &input));
            assert!(text.ends_with("第1段 第2段 第3段 "), "{text}");
            let plain = event_types(agent, &json!({})).len();
            let none = json!({"forwardedProps": {"diglot": {"events": 0}}});
            assert_eq!(event_types(agent, &none).len(), plain - 3);
        }
    }

    #[test]
    fn interrupts_after_the_first_text_piece() {
        let plain = event_types(agents()[1], &json!({}));
        for (levers, ending, last) in [
            (json!({"fail": "truncate"}), BodyEnding::Clean, None),
            (json!({"fail": "reset"}), BodyEnding::Broken, None),
            (json!({"idle": true}), BodyEnding::Silent, None),
            (json!({"fail": "error"}), BodyEnding::Clean, Some("RUN_ERROR")),
        ] {
            let input = json!({"forwardedProps": {"diglot": levers}});
            let mut script = DemoScript::new(agents()[1], &input, TestOptions::read(&input).unwrap());
            assert_eq!(script.ending(), None);
            while script.next_frame(0).is_some() {}
            assert_eq!(script.ending(), Some(ending));

            let mut expected = plain[..7].to_vec();
            expected.extend(last.map(str::to_owned));
            assert_eq!(event_types(agents()[1], &input), expected);
        }
    }
}
