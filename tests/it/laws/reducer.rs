//! The final messages and state of a client, built from events like the real client does (`specs/ag-ui-1.0.md` §3.4),
//! in the words of each dialect, and all other events.
//!
//! It follows the specification, not the code under test: text is concatenated piece by piece, and patches are kept as
//! they are.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReducerClient {
    pub messages: Vec<Value>,
    /// the last snapshot with the patches since
    pub state: Option<Value>,
    /// patches of the state that the client had before
    pub changes: Vec<Value>,
    /// what makes no message, in its order
    pub other_events: Vec<Value>,
    pub started: Value,
    pub ended: Value,
    /// open chunks by owner: kind, id
    lanes: Vec<(Value, &'static str, Value)>,
    /// open items: kind, id, and the owner if it distinguishes two
    open: BTreeSet<(&'static str, String, String)>,
    /// what the rules of order forbid
    pub offences: Vec<String>,
}

/// Events that open, use and close an item (§3.2), and the member with its id.
const OPEN_CLOSE_EVENTS: [(&str, [&str; 3], &str); 6] = [
    ("text", ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"], "messageId"),
    ("call", ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"], "toolCallId"),
    ("step", ["STEP_STARTED", "", "STEP_FINISHED"], "stepName"),
    ("span", ["REASONING_START", "", "REASONING_END"], "messageId"),
    ("thought", ["REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"], "messageId"),
    (
        "thinking",
        ["THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_CONTENT", "THINKING_TEXT_MESSAGE_END"],
        "messageId",
    ),
];

/// Names of other dialects for AG-UI's types, from their documents: taken from the tables under test, a wrong row would
/// agree with itself.
const KIND_ALIASES: [(&str, &str); 5] = [
    ("BUSINESS_DATA_START", "TEXT_MESSAGE_START"),
    ("BUSINESS_DATA_CONTENT", "TEXT_MESSAGE_CONTENT"),
    ("BUSINESS_DATA_END", "TEXT_MESSAGE_END"),
    ("MESSAGE_SNAPSHOT", "MESSAGES_SNAPSHOT"),
    ("", ""),
];

/// Members by their names in AG-UI, whichever way they are spelt.
const MEMBER_ALIASES: [(&str, &[&str]); 10] = [
    ("messageId", &["messageId", "message_id"]),
    ("toolCallId", &["toolCallId", "tool_call_id"]),
    ("toolCallName", &["toolCallName", "tool_call_name"]),
    ("parentMessageId", &["parentMessageId", "parent_message_id"]),
    ("toolCalls", &["toolCalls", "tool_calls"]),
    ("activityType", &["activityType", "activity_type"]),
    ("entityId", &["entityId", "entity_id"]),
    ("encryptedValue", &["encryptedValue", "encrypted_value"]),
    ("subagentRunId", &["subagentRunId", "subagent_run_id"]),
    ("content", &["content", "result"]),
];

fn event_member(event: &Value, name: &str) -> Value {
    let names = MEMBER_ALIASES.iter().find(|(own, _)| *own == name).map_or(&[][..], |(_, names)| names);
    let found = names.iter().find_map(|name| event.get(*name)).or_else(|| event.get(name));
    found.cloned().unwrap_or(Value::Null)
}

fn role(value: &Value) -> Value {
    let words = [("助手", "assistant"), ("用户", "user"), ("系统", "system"), ("工具", "tool")];
    let meant = words.iter().find(|(word, _)| value == *word).map(|(_, role)| json!(role));
    meant.unwrap_or_else(|| value.clone())
}

/// A piece of text as a string, and blocks one behind the other.
fn text(delta: &Value) -> String {
    match delta {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        block => block.to_string(),
    }
}

/// Returns the result of a call as text.
fn content_text(content: &Value) -> String {
    content.as_str().map_or_else(|| content.to_string(), str::to_owned)
}

/// Quotes the numbers and escaped strings of JSON, so that a [`Value`] keeps their digits and escapes.
fn quote_numbers(json: &str) -> String {
    let (mut out, mut in_string, mut in_number) = (String::new(), false, false);
    let mut rest = json.chars();
    while let Some(c) = rest.next() {
        let number = !in_string && (c.is_ascii_digit() || "+-.".contains(c) || (in_number && "eE".contains(c)));
        if number != in_number {
            out.push_str(if number { "\"#" } else { "\"" });
        }
        in_number = number;
        match c {
            '\\' if in_string => {
                let next = rest.next().unwrap_or_default();
                // A half of a pair is no text of its own.
                let lone = next == 'u' && rest.as_str().to_ascii_lowercase().starts_with('d');
                let lone = lone && rest.as_str().chars().nth(1).is_some_and(|c| "89abcdefABCDEF".contains(c));
                out.push_str(if lone { "\\\\" } else { "\\" });
                out.push(next);
                continue;
            }
            '"' => in_string = !in_string,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Parses text that consists of one or more JSON values. Adjacent text blocks are one text for a UI.
fn join_text_blocks(content: &Value) -> Value {
    let Some(stored) = content.as_str() else { return content.clone() };
    let first = if stored.starts_with(['{', '[']) { Some(0) } else { stored.find("{\"output\":") };
    let Some((before, stored)) = first.map(|at| stored.split_at(at)) else { return content.clone() };
    let blocks: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&quote_numbers(stored)).into_iter().collect();
    let Ok(blocks) = blocks else { return content.clone() };
    let mut out: Vec<Value> = vec![json!(before)];
    for block in blocks {
        let around = |block: &Value| {
            let mut block = block.clone();
            let text = block["output"]["type"] == "text";
            (text && block["output"]["content"].is_string()).then(|| {
                block["output"]["content"] = json!("");
                block
            })
        };
        match out.last_mut() {
            Some(last) if around(last).is_some() && around(last) == around(&block) => {
                let both = text(&last["output"]["content"]) + &text(&block["output"]["content"]);
                last["output"]["content"] = json!(both);
            }
            _ => out.push(block),
        }
    }
    json!(out)
}

impl ReducerClient {
    /// A client that has these messages, and this state if any, as JSON text.
    pub fn with_input(messages: &[Value], state: Option<&str>) -> Self {
        let state = state.map(|state| serde_json::from_str(&quote_numbers(state)).expect("JSON"));
        ReducerClient { messages: messages.to_vec(), state, ..ReducerClient::default() }
    }

    /// A client that goes on with what this one holds.
    pub fn resumed(&self) -> Self {
        ReducerClient { messages: self.messages.clone(), state: self.state.clone(), ..ReducerClient::default() }
    }

    /// Applies the frames of a run.
    pub fn reduce(mut self, frames: &[String]) -> Self {
        self = self.resumed();
        for frame in frames {
            let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
            let mut event: Value = serde_json::from_str(&quote_numbers(data)).expect("JSON");
            // Blocks and arguments are stored as they were written.
            let raw: BTreeMap<String, &RawValue> = serde_json::from_str(data).expect("an object");
            for name in ["delta", "args", "result", "content"] {
                let stored = event.get(name).is_some_and(|value| match value {
                    Value::Object(_) => event["type"] != "ACTIVITY_SNAPSHOT",
                    Value::Array(all) => name == "content" && !all.iter().all(|one| one.get("type").is_some()),
                    _ => name == "content" && !raw[name].get().starts_with('"'),
                });
                if stored {
                    event[name] = json!(raw[name].get());
                }
            }
            self.event(&event);
        }
        self
    }

    /// Returns the state without parts that do not count in a comparison.
    pub fn comparable_state(&self) -> Value {
        let messages: Vec<Value> = self
            .messages
            .iter()
            .map(|message| {
                let mut message = message.clone();
                if let Some(content) = message.get_mut("content") {
                    *content = join_text_blocks(content);
                }
                for call in message.get_mut("toolCalls").and_then(Value::as_array_mut).into_iter().flatten() {
                    call["function"]["arguments"] = join_text_blocks(&call["function"]["arguments"]);
                }
                message
            })
            .collect();
        let state = json!([self.state, self.changes]);
        json!({"messages": messages, "state": state, "heard": self.other_events, "started": self.started, "ended": self.ended})
    }

    fn message(&mut self, id: &Value) -> Option<&mut Value> {
        self.messages.iter_mut().find(|message| message["id"] == *id)
    }

    fn call(&mut self, id: &Value) -> Option<&mut Value> {
        self.messages.iter_mut().find_map(|message| {
            let calls = message.get_mut("toolCalls").and_then(Value::as_array_mut)?;
            calls.iter_mut().find(|call| call["id"] == *id)
        })
    }

    fn event(&mut self, event: &Value) {
        let name = event["type"].as_str().expect("a type");
        let kind = KIND_ALIASES.iter().find(|(word, _)| *word == name).map_or(name, |(_, kind)| kind);
        self.track_lane(kind, event);
        self.check_order(kind, event);
        match kind {
            "RUN_STARTED" => self.run_started(event),
            "RUN_FINISHED" | "RUN_ERROR" => self.ended = event.clone(),
            "STATE_SNAPSHOT" => (self.state, self.changes) = (Some(event["snapshot"].clone()), Vec::new()),
            "STATE_DELTA" => match &mut self.state {
                Some(state) => patch(state, &event["delta"]),
                None => self.changes.push(event["delta"].clone()),
            },
            "MESSAGES_SNAPSHOT" => self.snapshot(event),
            "TEXT_MESSAGE_END" if event.get("answer").is_some() => self.answer(event),
            "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" => self.start(kind, event),
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => self.content(event),
            "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" => {
                self.merge_metadata(&event_member(event, "messageId"), event);
            }
            "REASONING_START" | "REASONING_END" => {}
            "TEXT_MESSAGE_CHUNK" | "REASONING_MESSAGE_CHUNK" | "TOOL_CALL_CHUNK" => self.chunk(kind, event),
            "TOOL_CALL_START" => self.call_start(event),
            "TOOL_CALL_ARGS" => {
                let delta = event.get("delta").or_else(|| event.get("args")).cloned().unwrap_or_default();
                self.args(&event_member(event, "toolCallId"), &delta, event);
            }
            "TOOL_CALL_END" => self.args(&event_member(event, "toolCallId"), &Value::Null, event),
            "TOOL_CALL_RESULT" => self.result(event),
            "ACTIVITY_SNAPSHOT" => self.activity(event),
            "ACTIVITY_DELTA" => self.activity_delta(event),
            "REASONING_ENCRYPTED_VALUE" => self.set_encrypted_value(event),
            _ => self.reasoning_without_message(event),
        }
    }

    fn check_order(&mut self, kind: &str, event: &Value) {
        if kind == "RUN_FINISHED" && !self.open.is_empty() {
            self.offences.push(format!("still open: {:?}", self.open));
        }
        // A text in one event has no start.
        if event.get("answer").is_some() {
            return;
        }
        for (what, [start, piece, end], name) in OPEN_CLOSE_EVENTS {
            let owner = if what == "step" { event_member(event, "subagentRunId").to_string() } else { String::new() };
            let item = (what, event_member(event, name).to_string(), owner);
            let fits = match kind {
                _ if kind == start => self.open.insert(item),
                _ if kind == end => self.open.remove(&item),
                _ if kind == piece => self.open.contains(&item),
                _ => true,
            };
            if !fits {
                self.offences.push(format!("not now: {event}"));
            }
        }
    }

    /// Thinking without a message, in any number of pieces.
    fn reasoning_without_message(&mut self, event: &Value) {
        let mut event = event.clone();
        if event["type"] == "THINKING_TEXT_MESSAGE_CONTENT" {
            let members = event.as_object_mut().expect("an object");
            members.retain(|name, _| !["timestamp", "rawEvent", "metadata"].contains(&name.as_str()));
            let piece = text(&event["delta"]);
            event["delta"] = json!("");
            if let Some(last) = self.other_events.last_mut().filter(|last| last["type"] == event["type"]) {
                let both = text(&last["delta"]) + &piece;
                last["delta"] = json!(both);
                return;
            }
            event["delta"] = json!(piece);
        }
        self.other_events.push(event);
    }

    fn run_started(&mut self, event: &Value) {
        self.started = event.clone();
        for message in event["input"]["messages"].as_array().cloned().unwrap_or_default() {
            if self.message(&message["id"]).is_none() {
                self.messages.push(message);
            }
        }
    }

    fn start(&mut self, kind: &str, event: &Value) {
        let id = event_member(event, "messageId");
        let reasoning = kind == "REASONING_MESSAGE_START";
        let named_role =
            event.get("role").filter(|role| !role.is_null()).cloned().unwrap_or_else(|| json!("assistant"));
        let role = if reasoning { json!("reasoning") } else { role(&named_role) };
        match self.message(&id) {
            Some(message) if message["role"] == "activity" => return,
            Some(_) => {}
            None => {
                let mut message = json!({"id": id, "role": role, "content": ""});
                copy_members(&mut message, event, &["name", "subagentRunId"]);
                self.messages.push(message);
            }
        }
        self.merge_metadata(&id, event);
    }

    fn content(&mut self, event: &Value) {
        let id = event_member(event, "messageId");
        if let Some(message) = self.message(&id).filter(|message| message["role"] != "activity") {
            let before = message["content"].as_str().unwrap_or_default().to_owned();
            message["content"] = json!(before + &text(&event["delta"]));
            self.merge_metadata(&id, event);
        }
    }

    /// Metadata of an event that is about a message.
    fn merge_metadata(&mut self, id: &Value, event: &Value) {
        if let Some(message) = self.message(id).filter(|message| message["role"] != "activity") {
            merge(message, event);
        }
    }

    fn call_start(&mut self, event: &Value) {
        let (id, parent) = (event_member(event, "toolCallId"), event_member(event, "parentMessageId"));
        let name = event_member(event, "toolCallName");
        if let Some(call) = self.call(&id) {
            call["function"]["name"] = name;
            merge(call, event);
        } else {
            let known = self.messages.iter().position(|message| message["id"] == parent && !parent.is_null());
            let fits = known.filter(|at| self.messages[*at]["role"] == "assistant");
            let at = fits.unwrap_or_else(|| {
                let own = if parent.is_null() || parent == "" || known.is_some() { &id } else { &parent };
                let mut message = json!({"id": own, "role": "assistant"});
                copy_members(&mut message, event, &["subagentRunId"]);
                self.messages.push(message);
                self.messages.len() - 1
            });
            let mut call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            merge(&mut call, event);
            let message = self.messages[at].as_object_mut().expect("an object");
            message.entry("toolCalls").or_insert_with(|| json!([])).as_array_mut().expect("a list").push(call);
        }
        if let Some(args) = event.get("args").filter(|args| !args.is_null()) {
            self.args(&id, args, &Value::Null);
        }
    }

    fn args(&mut self, id: &Value, delta: &Value, event: &Value) {
        if let Some(call) = self.call(id) {
            let before = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
            call["function"]["arguments"] = json!(before + &text(delta));
            merge(call, event);
        }
    }

    fn result(&mut self, event: &Value) {
        let call = event_member(event, "toolCallId");
        let mut message = json!({"id": event_member(event, "messageId"), "role": "tool", "toolCallId": call});
        if message["id"].is_null() || message["id"] == "" {
            message["id"] = json!(format!("{}:result", text(&call)));
        }
        let content = event_member(event, "content");
        message["content"] =
            if content.is_array() && event.get("args").is_none() { content } else { json!(content_text(&content)) };
        copy_members(&mut message, event, &["subagentRunId"]);
        merge(&mut message, event);
        let owns = |message: &Value| {
            let calls = message["toolCalls"].as_array();
            message["role"] == "assistant" && calls.is_some_and(|calls| calls.iter().any(|own| own["id"] == call))
        };
        let at = self.messages.iter().position(owns).map_or(self.messages.len(), |owner| {
            let behind = &self.messages[owner + 1..];
            owner + 1 + behind.iter().take_while(|message| message["role"] == "tool").count()
        });
        self.messages.insert(at, message);
    }

    fn activity(&mut self, event: &Value) {
        let id = event_member(event, "messageId");
        let mut fresh = json!({"id": id, "role": "activity", "content": event["content"]});
        copy_members(&mut fresh, event, &["activityType", "subagentRunId"]);
        let replaces = event["replace"] != false;
        match self.message(&id) {
            None => {
                merge(&mut fresh, event);
                self.messages.push(fresh);
            }
            Some(message) if message["role"] == "activity" => {
                if replaces {
                    if let Some(metadata) = message.get("metadata") {
                        fresh["metadata"] = metadata.clone();
                    }
                    *message = fresh;
                }
                merge(message, event);
            }
            Some(message) if replaces => {
                merge(&mut fresh, event);
                *message = fresh;
            }
            Some(_) => {}
        }
    }

    fn activity_delta(&mut self, event: &Value) {
        let id = event_member(event, "messageId");
        if let Some(message) = self.message(&id).filter(|message| message["role"] == "activity") {
            merge(message, event);
            patch(&mut message["content"], &event["patch"]);
            message["activityType"] = event_member(event, "activityType");
        }
    }

    fn set_encrypted_value(&mut self, event: &Value) {
        let id = event_member(event, "entityId");
        let target = if event["subtype"] == "tool-call" {
            self.call(&id)
        } else {
            self.message(&id).filter(|message| message["role"] != "activity")
        };
        if let Some(target) = target {
            target["encryptedValue"] = event_member(event, "encryptedValue");
        }
    }

    fn answer(&mut self, event: &Value) {
        let id = event_member(event, "messageId");
        let message = json!({"id": id, "role": role(&event["role"]), "content": event["answer"], "answer": event});
        match self.message(&id) {
            Some(known) => *known = message,
            None => self.messages.push(message),
        }
    }

    fn snapshot(&mut self, event: &Value) {
        let mut new: Vec<Value> = event["messages"].as_array().cloned().unwrap_or_default();
        for message in &mut new {
            message["role"] = role(&message["role"]);
            // Carried data is for the gateway, not for the client.
            remove_carried(message);
            let members = message.as_object_mut().expect("an object");
            for (snake, camel) in [("tool_calls", "toolCalls"), ("tool_call_id", "toolCallId")] {
                if let Some(value) = members.remove(snake) {
                    members.insert(camel.to_owned(), value);
                }
            }
            for call in members.get_mut("toolCalls").and_then(Value::as_array_mut).into_iter().flatten() {
                remove_carried(call);
            }
        }
        let has = |role: &str| new.iter().any(|message| message["role"] == role);
        let (activity, reasoning) = (has("activity"), has("reasoning"));
        let owned = event["metadata"]["@ag-ui/client"].get("authoritativeActivityTypes").cloned();
        let update = |id: &Value| new.iter().rev().find(|message| message["id"] == *id);
        let stays = |message: &Value| match message["role"].as_str() {
            Some("activity") => match &owned {
                Some(Value::Null) => false,
                Some(types) => !types.as_array().is_some_and(|types| types.contains(&message["activityType"])),
                None => !activity,
            },
            Some("reasoning") => !reasoning,
            _ => false,
        };
        let mut messages: Vec<Value> = Vec::new();
        for message in &self.messages {
            match update(&message["id"]) {
                Some(update) => messages.push(update.clone()),
                None if stays(message) => messages.push(message.clone()),
                None => {}
            }
        }
        let known: Vec<Value> = messages.iter().map(|message| message["id"].clone()).collect();
        messages.extend(new.iter().filter(|message| !known.contains(&message["id"])).cloned());
        self.messages = messages;
    }

    /// "Chunk streams are closed by …" (§3.2).
    fn track_lane(&mut self, kind: &str, event: &Value) {
        const LEAVES: [&str; 8] = [
            "RAW",
            "ACTIVITY_SNAPSHOT",
            "ACTIVITY_DELTA",
            "REASONING_ENCRYPTED_VALUE",
            "SUBAGENT_STARTED",
            "TEXT_MESSAGE_CHUNK",
            "REASONING_MESSAGE_CHUNK",
            "TOOL_CALL_CHUNK",
        ];
        match kind {
            "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "MESSAGES_SNAPSHOT" => self.lanes.clear(),
            _ if LEAVES.contains(&kind) => {}
            _ => {
                let owner = event_member(event, "subagentRunId");
                self.lanes.retain(|(own, ..)| *own != owner);
            }
        }
    }

    fn chunk(&mut self, kind: &str, event: &Value) {
        let (start, id_name): (&'static str, _) = match kind {
            "TEXT_MESSAGE_CHUNK" => ("TEXT_MESSAGE_START", "messageId"),
            "REASONING_MESSAGE_CHUNK" => ("REASONING_MESSAGE_START", "messageId"),
            _ => ("TOOL_CALL_START", "toolCallId"),
        };
        let (owner, item_id) = (event_member(event, "subagentRunId"), event_member(event, id_name));
        let goes_on = |(own, piece, id): &&(Value, &str, Value)| {
            *piece == start && if item_id.is_null() { owner.is_null() || *own == owner } else { *id == item_id }
        };
        let open = self.lanes.iter().rev().find(goes_on).cloned();
        let (_, _, id) = open.clone().unwrap_or((owner.clone(), start, item_id));
        let mut event = event.clone();
        event[id_name] = id.clone();
        if open.is_none() {
            self.lanes.retain(|(own, ..)| *own != owner);
            self.lanes.push((owner, start, id.clone()));
            match start {
                "TOOL_CALL_START" => self.call_start(&event),
                _ => self.start(start, &event),
            }
        }
        match start {
            "TOOL_CALL_START" => self.args(&id, &event["delta"].clone(), &event),
            _ => self.content(&event),
        }
    }
}

fn copy_members(message: &mut Value, event: &Value, names: &[&str]) {
    for name in names {
        let value = event_member(event, name);
        if !value.is_null() {
            message[*name] = value;
        }
    }
}

/// RFC 6902: all of it, or nothing.
fn patch(document: &mut Value, operations: &Value) {
    let mut changed = document.clone();
    let all = operations.as_array().cloned().unwrap_or_default();
    if all.iter().try_for_each(|operation| apply_operation(&mut changed, operation)).is_some() {
        *document = changed;
    }
}

fn apply_operation(document: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let from = operation["from"].as_str().unwrap_or_default();
    match operation["op"].as_str()? {
        "add" => insert_at(document, path, operation["value"].clone()),
        "replace" => {
            *document.pointer_mut(path)? = operation["value"].clone();
            Some(())
        }
        "remove" => remove_at(document, path).map(drop),
        "copy" => {
            let value = document.pointer(from)?.clone();
            insert_at(document, path, value)
        }
        "move" => {
            let value = remove_at(document, from)?;
            insert_at(document, path, value)
        }
        "test" => (document.pointer(path)? == &operation["value"]).then_some(()),
        _ => None,
    }
}

fn split_pointer(path: &str) -> Option<(&str, String)> {
    path.rsplit_once('/').map(|(parent, last)| (parent, last.replace("~1", "/").replace("~0", "~")))
}

fn insert_at(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let Some((parent, last)) = split_pointer(path) else {
        *document = value;
        return Some(());
    };
    match document.pointer_mut(parent)? {
        Value::Object(members) => drop(members.insert(last, value)),
        Value::Array(elements) => {
            let at = if last == "-" { elements.len() } else { last.parse().ok()? };
            (at <= elements.len()).then(|| elements.insert(at, value))?;
        }
        _ => return None,
    }
    Some(())
}

fn remove_at(document: &mut Value, path: &str) -> Option<Value> {
    let Some((parent, last)) = split_pointer(path) else { return Some(document.take()) };
    match document.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&last),
        Value::Array(elements) => last.parse().ok().filter(|at| *at < elements.len()).map(|at| elements.remove(at)),
        _ => None,
    }
}

fn remove_carried(item: &mut Value) {
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("diglot.ag-ui");
    }
    if item.get("metadata") == Some(&json!({})) {
        item.as_object_mut().map(|item| item.remove("metadata"));
    }
}

/// "metadata merges per key, last write wins, no recursion". What is carried for the gateway is about the event.
fn merge(target: &mut Value, event: &Value) {
    let mut more: Map<String, Value> = event["metadata"].as_object().cloned().unwrap_or_default();
    more.remove("diglot.ag-ui");
    if !more.is_empty() {
        let mut all = target.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        all.extend(more);
        target["metadata"] = Value::Object(all);
    }
}
