//! The examples of a dialect file: an agent's stream and the events that a client gets, or a client's request and the
//! one that the agent gets.

use super::compiled::{DialectExample, ExampleInput};
use super::compiler::{DialectCompiler, PlacedNode, literal_json};
use crate::codec::json;
use crate::config::problem::{SourcePosition, did_you_mean};
use crate::config::spanned_tree::{NodeValue, TreeNode, join_key};
use crate::event::Json;
use std::borrow::Cow;

pub(super) const EXAMPLE_KEYS: &[&str] = &["name", "stream", "events", "request", "body", "path", "headers", "thread"];

impl DialectCompiler<'_> {
    pub(super) fn compile_examples(&mut self, at: PlacedNode<'_>) -> Vec<DialectExample> {
        let mut examples = Vec::new();
        for (node, path) in self.list_items(at) {
            let example = self.compile_example(PlacedNode { node, path: &path });
            examples.extend(example);
        }
        examples
    }

    fn compile_example(&mut self, at: PlacedNode<'_>) -> Option<DialectExample> {
        let entries = self.mapping_entries(at, "`name:`, and `stream:` with `events:` or `request:` with `body:`");
        let before = self.problem_count();
        self.check_keys(at, EXAMPLE_KEYS);
        if entries.is_empty() {
            return None;
        }
        let value = |key: &str| at.node.entry(key).map(|entry| to_json(&entry.value));
        let input = match (at.node.entry("stream"), value("events"), value("request"), value("body")) {
            (Some(stream), Some(events), None, None) => {
                let path = join_key(at.path, "stream");
                // A stream is the agent's: nothing in it is a variable.
                let NodeValue::Scalar(bytes) = &stream.value.value else {
                    let hint = "write the agent's bytes below `stream: |`";
                    self.report_at(PlacedNode { node: &stream.value, path: &path }, "must be a text", hint);
                    return None;
                };
                let Some(events) = json::parse_elements(&events) else {
                    self.report_at(at, "`events` must be a list", "write `- {type: …}` for each event");
                    return None;
                };
                let events = events.into_iter().map(Json::into_owned).collect();
                ExampleInput::Stream { bytes: bytes.text.clone(), events }
            }
            (None, None, Some(input), Some(body)) => {
                let path = value("path").and_then(|path| Some(path.text()?.into_owned())).unwrap_or_default();
                let headers = value("headers").unwrap_or_else(|| Json::from_trusted("{}"));
                ExampleInput::Request { input, body, path, headers }
            }
            // A misspelt key is not also a missing one.
            _ if self.problem_count() > before => return None,
            _ => {
                let hint = "write `stream:` and `events:`, or `request:` and `body:`";
                self.report_at(at, "an example needs what goes in and what comes out", hint);
                return None;
            }
        };
        let name = match at.node.entry("name") {
            Some(entry) => self.scalar_text(PlacedNode { node: &entry.value, path: &join_key(at.path, "name") })?,
            None => at.path.to_owned(),
        };
        let mut thread = Vec::new();
        if let Some(kept) = at.node.entry("thread") {
            let path = join_key(at.path, "thread");
            for entry in self.mapping_entries(PlacedNode { node: &kept.value, path: &path }, "`thread: {name: value}`")
            {
                let known: Vec<String> = self.mapping.thread_names.iter().map(|name| name.to_string()).collect();
                if !known.contains(&entry.key) {
                    let hint = did_you_mean(&entry.key, &known.iter().map(String::as_str).collect::<Vec<_>>());
                    let path = join_key(&path, &entry.key);
                    self.report(&path, entry.position, format!("no rule keeps `{}`", entry.key), hint);
                }
                thread.push((entry.key.clone(), to_json(&entry.value)));
            }
        }
        let line = SourcePosition::from_location(at.node.defined).map_or(0, |position| position.line);
        Some(DialectExample { name, line, input, thread })
    }
}

/// Returns a node as JSON, as it is written.
fn to_json(node: &TreeNode) -> Json<'static> {
    match &node.value {
        NodeValue::Empty => Json::NULL,
        NodeValue::Scalar(scalar) => literal_json(scalar),
        NodeValue::List(items) => json::to_array(&items.iter().map(to_json).collect::<Vec<_>>()),
        NodeValue::Mapping(entries) => json::build_object(|object| {
            for entry in entries {
                let key = crate::event::MemberKey::Other(Cow::Borrowed(entry.key.as_str()));
                object.copy_member(&(key, to_json(&entry.value)), false);
            }
        }),
    }
}
