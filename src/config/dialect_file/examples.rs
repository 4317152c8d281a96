//! The examples of a dialect file: an agent's stream or its error and the events that a client gets, or a client's
//! request and the one that the agent gets.

use super::compiled::{DialectExample, ExampleInput};
use super::compiler::{DialectCompiler, PlacedNode, literal_json, position_of};
use super::file_keys::EXAMPLE_KEYS;
use super::file_lines::pointer_of;
use crate::codec::json;
use crate::config::problem::{SourcePosition, did_you_mean, nearest};
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode, join_key};
use crate::event::schema::{RUN_INPUT, ValueSchema};
use crate::event::{EventType, Json, MemberKey};
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Media types of answers.
const SSE: &str = "text/event-stream";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

const FORMS: &str = "write `stream:` and `events:`, `status:`, `answer:` and `events:`, or `request:` and `body:`";

impl DialectCompiler<'_> {
    pub(super) fn compile_examples(&mut self, at: PlacedNode<'_>) -> Vec<DialectExample> {
        let mut examples = Vec::new();
        for (node, path) in self.list_items(at) {
            let Some(example) = self.compile_example(PlacedNode { node, path: &path }) else { continue };
            if let Some(name) = node.entry("name")
                && examples.iter().any(|known: &DialectExample| known.name == example.name)
            {
                let message = format!("another example has the name `{}`", example.name);
                let hint =
                    "give it a name of its own: `diglot mock-agent` finds an example by it, and messages name it";
                self.report(&join_key(&path, "name"), name.position, message, hint);
            }
            examples.push(example);
        }
        examples
    }

    fn compile_example(&mut self, at: PlacedNode<'_>) -> Option<DialectExample> {
        let entries = self.mapping_entries(at, "`name:`, and `stream:` with `events:` or `request:` with `body:`");
        let before = self.problem_count();
        if self.reports_outdented_line(at) {
            return None;
        }
        self.check_keys(at, EXAMPLE_KEYS);
        if entries.is_empty() || self.reports_second_input(at) || self.reports_swallowed_key(at) {
            return None;
        }
        let value = |key: &str| at.node.entry(key).map(|entry| to_json(&entry.value));
        let inputs = ["stream", "answer", "request"].map(|key| at.node.entry(key));
        let input = match (inputs, value("events"), value("body")) {
            ([Some(stream), None, None], Some(_), None) => {
                let path = join_key(at.path, "stream");
                if self.is_folded(stream) {
                    let hint = "write `stream: |`, which keeps the lines of the agent as they are";
                    self.report(&path, stream.position, "YAML joins the lines of this text", hint);
                }
                let bytes = self.example_text(PlacedNode { node: &stream.value, path: &path })?;
                self.check_frames(at.path, stream, &bytes);
                let keep = self.compile_thread(at, "keep").map(to_object);
                ExampleInput::Stream { bytes, events: self.example_events(at)?, keep }
            }
            ([None, Some(answer), None], Some(_), None) => {
                let (body, media_type) = match &answer.value.value {
                    NodeValue::Scalar(text) if text.text.contains("data:") => (text.text.clone(), SSE),
                    NodeValue::Scalar(text) => (text.text.clone(), TEXT),
                    _ => (to_json(&answer.value).as_str().to_owned(), JSON),
                };
                let status = self.example_status(at)?;
                self.check_answer(at.path, answer, &body);
                ExampleInput::Answer { status, media_type, body, events: self.example_events(at)? }
            }
            ([None, None, Some(input)], None, Some(body)) => {
                self.check_request_members(at.path, input);
                let path = value("path").and_then(|path| Some(path.text()?.into_owned())).unwrap_or_default();
                let headers = value("headers").unwrap_or_else(|| Json::from_trusted("{}"));
                ExampleInput::Request { input: to_json(&input.value), body, path, headers }
            }
            // A misspelt key is not also a missing one.
            _ if self.problem_count() > before => return None,
            _ => {
                self.report_at(at, "an example needs what goes in and what comes out", FORMS);
                return None;
            }
        };
        let name = match at.node.entry("name") {
            Some(entry) => self.scalar_text(PlacedNode { node: &entry.value, path: &join_key(at.path, "name") })?,
            None => at.path.to_owned(),
        };
        let thread = self.compile_thread(at, "thread").unwrap_or_default();
        let line = position_of(at.node).map_or(0, |position| position.line);
        let stream_line = at.node.entry("stream").and_then(|stream| self.stream_line(stream));
        Some(DialectExample { name, pointer: pointer_of(at.path), line, stream_line, input, thread })
    }

    /// Reports a line of a stream that stands as far left as the key `stream`, and is read as a key.
    fn reports_outdented_line(&mut self, at: PlacedNode<'_>) -> bool {
        let NodeValue::Mapping(entries) = &at.node.value else { return false };
        let is_line = |entry: &&MapEntry| {
            ["data", "event", "id"].contains(&entry.key.as_str()) && !matches!(entry.value.value, NodeValue::List(_))
        };
        let line = entries.iter().find(is_line).filter(|_| at.node.entry("stream").is_some());
        if let Some(line) = line {
            let message = format!("`{}` is a line of the stream, but stands beside the key `stream`", line.key);
            let hint = "indent all lines of the stream by the same number of spaces, further than `stream`";
            self.report(&join_key(at.path, &line.key), line.position, message, hint);
        }
        line.is_some()
    }

    /// Reports two inputs in one example: the second is that whose outcome is missing.
    fn reports_second_input(&mut self, at: PlacedNode<'_>) -> bool {
        let is_of_request = |key: &str| key == "request";
        let has_body = at.node.entry("body").is_some();
        let mut inputs: Vec<_> = ["stream", "answer", "request"].iter().filter_map(|key| at.node.entry(key)).collect();
        inputs.sort_by_key(|input| is_of_request(&input.key) != has_body);
        let [first, .., second] = inputs.as_slice() else { return false };
        let message = format!("`{}` and `{}` are of two examples", first.key, second.key);
        self.report(&join_key(at.path, &second.key), second.position, message, format!("keep one of them; {FORMS}"));
        true
    }

    /// Returns whether a text has lines that YAML joins: all but those below `|`.
    fn is_folded(&self, entry: &MapEntry) -> bool {
        let (NodeValue::Scalar(_), Some(position)) = (&entry.value.value, entry.position) else { return false };
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let line = self.text.lines().nth(index(position.line)).unwrap_or_default();
        let line: String = line.chars().skip(index(position.column)).collect();
        let Some((_, value)) = line.split_once(':') else { return false };
        let value = value.trim();
        // A text within quotes that stand on one line is that line.
        let is_open = |text: &str, quote: char| text.starts_with(quote) && text.matches(quote).count() % 2 == 1;
        let is_closed = |text: &str| text.starts_with(['"', '\'']) && !is_open(text, '"') && !is_open(text, '\'');
        let next = self.text.lines().nth(index(position.line) + 1).unwrap_or_default().trim();
        let is_below = value.is_empty() && !is_closed(next);
        is_below || value.starts_with('>') || is_open(value, '"') || is_open(value, '\'')
    }

    /// Returns what an agent sends: nothing in it is a variable.
    fn example_text(&mut self, at: PlacedNode<'_>) -> Option<String> {
        if let NodeValue::Scalar(bytes) = &at.node.value {
            if !bytes.text.contains(':') && !bytes.text.trim().is_empty() {
                self.report_at(at, "is no stream: it has no `data:`", "write the agent's bytes below `stream: |`");
            }
            return Some(bytes.text.clone());
        }
        self.report_at(at, "must be a text", "write the agent's bytes below `stream: |`");
        None
    }

    /// Reports the key `events` among the lines of a stream.
    fn reports_swallowed_key(&mut self, at: PlacedNode<'_>) -> bool {
        let Some(stream) = at.node.entry("stream").filter(|_| at.node.entry("events").is_none()) else { return false };
        let (NodeValue::Scalar(bytes), Some(first)) = (&stream.value.value, self.stream_line(stream)) else {
            return false;
        };
        let mut lines = (first..).zip(bytes.text.lines());
        let Some((line, text)) = lines.find(|(_, line)| line.trim_start().starts_with("events:")) else { return false };
        let written = self.text.lines().nth(usize::try_from(line - 1).unwrap_or(usize::MAX)).unwrap_or(text);
        let column = written.chars().take_while(|c| c.is_whitespace()).count() as u64 + 1;
        let position = Some(SourcePosition { line, column });
        let hint = "indent it and what belongs to it as far as `stream`";
        self.report(&join_key(at.path, "stream"), position, "`events:` is a line of the stream here", hint);
        true
    }

    /// Warns about a text that begins as JSON, and is none.
    fn check_answer(&mut self, path: &str, answer: &MapEntry, body: &str) {
        let begins = ["{", "[{"].iter().any(|start| body.trim_start().starts_with(start));
        if let Some(error) = serde_json::from_str::<IgnoredAny>(body).err().filter(|_| begins) {
            let message = format!("this answer is no JSON: {error}");
            let hint = "correct it, or write its members below `answer:`";
            self.warn(&join_key(path, "answer"), answer.position, message, hint);
        }
    }

    /// Warns about members that no request of AG-UI has, and that are meant as others.
    fn check_request_members(&mut self, path: &str, request: &MapEntry) {
        let (NodeValue::Mapping(entries), ValueSchema::Object(schema)) = (&request.value.value, RUN_INPUT) else {
            return;
        };
        let known: Vec<&str> = schema.members.iter().map(|member| member.name).collect();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if !nearest(&entry.key, &known).is_empty() {
                let path = join_key(&join_key(path, "request"), &entry.key);
                let message = format!("AG-UI's request has no member `{}`", entry.key);
                self.warn(&path, entry.position, message, did_you_mean(&entry.key, &known));
            }
        }
    }

    fn example_events(&mut self, at: PlacedNode<'_>) -> Option<Vec<Json<'static>>> {
        let entry = at.node.entry("events")?;
        let path = join_key(at.path, "events");
        let NodeValue::List(nodes) = &entry.value.value else {
            self.report(&path, entry.position, "must be a list", "write `- {type: …}` for each event");
            return None;
        };
        let mut events = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let event = to_json(node);
            let at = PlacedNode { node, path: &format!("{path}[{index}]") };
            let wire = json::parse_member(&event, json::TYPE).and_then(|wire| Some(wire.text()?.into_owned()));
            let Some(wire) = wire else {
                self.report_at(at, "is no event of AG-UI", "write `- {type: …}` with the type of one, and its members");
                return None;
            };
            if EventType::from_wire(&wire).is_none() {
                let known: Vec<&str> = EventType::ALL.iter().map(|kind| kind.wire()).collect();
                self.report_at(at, format!("AG-UI has no event `{wire}`"), did_you_mean(&wire, &known));
                return None;
            }
            events.push(event.into_owned());
        }
        Some(events)
    }

    fn example_status(&mut self, at: PlacedNode<'_>) -> Option<u16> {
        let Some(entry) = at.node.entry("status") else {
            self.report_at(at, "an answer needs its HTTP status", "add `status:`, such as `status: 429`");
            return None;
        };
        let status = to_json(&entry.value).as_str().parse().ok().filter(|status| (200..600).contains(status));
        if status.is_none() {
            let at = PlacedNode { node: &entry.value, path: &join_key(at.path, "status") };
            self.report_at(at, "must be an HTTP status", "write a number from 200 to 599, such as `status: 429`");
        }
        status
    }

    /// Returns values of the thread by name; `None` without the key.
    fn compile_thread(&mut self, at: PlacedNode<'_>, key: &str) -> Option<Vec<(String, Json<'static>)>> {
        let kept = at.node.entry(key)?;
        let path = join_key(at.path, key);
        let entries =
            self.mapping_entries(PlacedNode { node: &kept.value, path: &path }, &format!("`{key}: {{name: value}}`"));
        let known: Vec<String> = self.mapping.thread_names.iter().map(|name| name.to_string()).collect();
        let mut thread = Vec::new();
        for entry in entries {
            if !known.contains(&entry.key)
                && !self.lacks_names
                && let Some(hint) = self.suggest_name(&entry.key, true, &known)
            {
                let path = join_key(&path, &entry.key);
                self.report(&path, entry.position, format!("no rule keeps `{}`", entry.key), hint);
            }
            thread.push((entry.key.clone(), to_json(&entry.value)));
        }
        Some(thread)
    }
}

fn to_object(members: Vec<(String, Json<'static>)>) -> Json<'static> {
    json::build_object(|object| {
        for (name, value) in members {
            object.copy_member(&(MemberKey::Other(name.into()), value), false);
        }
    })
}

/// Returns a node as JSON, as it is written.
fn to_json(node: &TreeNode) -> Json<'static> {
    match &node.value {
        NodeValue::Empty => Json::NULL,
        NodeValue::Scalar(scalar) => literal_json(scalar),
        NodeValue::List(items) => json::to_array(&items.iter().map(to_json).collect::<Vec<_>>()),
        NodeValue::Mapping(entries) => json::build_object(|object| {
            for entry in entries {
                let key = MemberKey::Other(Cow::Borrowed(entry.key.as_str()));
                object.copy_member(&(key, to_json(&entry.value)), false);
            }
        }),
    }
}
