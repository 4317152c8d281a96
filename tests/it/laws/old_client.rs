//! What published clients before 1.0 reject, as rules (measured over nine versions; `specs/ag-ui-1.0.md` §3.6).

use crate::exact::members;
use diglot::dialect::Pin;
use std::collections::BTreeMap;

type Event = BTreeMap<String, String>;

/// Events by the version that brought them, by the beginning of their names.
const SINCE: [(&str, Pin); 4] = [
    ("THINKING_", Pin::V0_0_39),
    ("ACTIVITY_", Pin::V0_0_42),
    ("REASONING_", Pin::V0_0_45),
    ("SUBAGENT_", Pin::V0_0_59),
];

/// Events that every version has, by the beginning of their names.
const BASE: [&str; 9] = [
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "STEP_",
    "TEXT_MESSAGE_",
    "TOOL_CALL_",
    "STATE_",
    "MESSAGES_SNAPSHOT",
    "RAW",
];

/// Why a client of this version rejects the stream, and at which event; without a version: why any of them does.
pub fn rejects(pin: Pin, stream: &[String]) -> Option<String> {
    let mut open = Open::default();
    stream.iter().enumerate().find_map(|(at, event)| {
        let event = members(event);
        let verdict = shape(pin, &event).or_else(|| open.next(pin, &event));
        verdict.map(|why| format!("event {at}: {why}: {event:?}"))
    })
}

fn word<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    event.get(name).map(|value| value.trim_matches('"'))
}

/// What is wrong with an event by itself.
fn shape(pin: Pin, event: &Event) -> Option<&'static str> {
    let kind = word(event, "type")?;
    let newer = SINCE.iter().find(|(name, _)| kind.starts_with(name));
    if newer.is_some_and(|(_, since)| pin < *since) {
        return Some("the type came later");
    }
    if newer.is_none() && kind != "CUSTOM" && !BASE.iter().any(|name| kind.starts_with(name)) {
        return Some("the type is unknown");
    }
    if event.iter().any(|(name, value)| {
        value == "null" && !["rawEvent", "value", "event", "snapshot", "future"].contains(&name.as_str())
    }) {
        return Some("a member is null");
    }
    let role = word(event, "role");
    match kind {
        "TEXT_MESSAGE_START" if pin < Pin::V0_0_39 && role != Some("assistant") => {
            Some("the role is not the assistant's")
        }
        "TEXT_MESSAGE_CHUNK" if pin < Pin::V0_0_39 && role.is_some_and(|role| role != "assistant") => {
            Some("the role is not the assistant's")
        }
        "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" | "THINKING_TEXT_MESSAGE_CONTENT"
            if pin < Pin::V0_0_53 && word(event, "delta") == Some("") =>
        {
            Some("the delta is empty")
        }
        "TOOL_CALL_RESULT" if !event["content"].starts_with('"') => Some("the content is no text"),
        "RUN_STARTED" if event.contains_key("input") => Some("the echo of the input may lack tools"),
        "RUN_FINISHED" => event.get("outcome").and_then(|outcome| rejected_outcome(&members(outcome))),
        "MESSAGES_SNAPSHOT" => elements(&event["messages"]).iter().find_map(|message| rejected_message(pin, message)),
        _ => None,
    }
}

fn rejected_outcome(outcome: &Event) -> Option<&'static str> {
    let taken = match word(outcome, "type") {
        Some("success") => outcome.len() == 1,
        Some("interrupt") => outcome.len() == 2,
        _ => false,
    };
    (!taken).then_some("the outcome is one of 1.0")
}

fn rejected_message(pin: Pin, message: &str) -> Option<&'static str> {
    let message = members(message);
    let known = match word(&message, "role") {
        Some("user" | "assistant" | "system" | "developer" | "tool") => true,
        Some("activity") => pin >= Pin::V0_0_42,
        Some("reasoning") => pin >= Pin::V0_0_45,
        _ => false,
    };
    if !known {
        return Some("the role of a message is unknown");
    }
    let content = message.get("content").filter(|content| content.starts_with('['))?;
    if word(&message, "role") != Some("user") || pin < Pin::V0_0_42 {
        return Some("the content of a message is a list");
    }
    let known = |part: &String| match word(&members(part), "type") {
        Some("text" | "binary") => true,
        Some("image" | "audio" | "video" | "document") => pin >= Pin::V0_0_53,
        _ => false,
    };
    (!elements(content).iter().all(known)).then_some("a part is unknown")
}

fn elements(list: &str) -> Vec<String> {
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).expect("a list");
    elements.iter().map(|element| element.get().to_owned()).collect()
}

/// What is open: 0.0.35 takes nothing but its own pieces (and RAW) while something is.
#[derive(Default)]
struct Open {
    item: Option<(&'static str, String)>,
    steps: Vec<String>,
}

impl Open {
    fn next(&mut self, pin: Pin, event: &Event) -> Option<&'static str> {
        let kind = word(event, "type")?;
        let step = word(event, "stepName").unwrap_or_default().to_owned();
        match kind {
            "STEP_STARTED" if pin < Pin::V0_0_59 && self.steps.contains(&step) => return Some("the step is open"),
            "STEP_STARTED" => self.steps.push(step),
            "STEP_FINISHED" => self.steps.retain(|open| *open != step),
            _ => {}
        }
        if pin >= Pin::V0_0_39 || kind == "RAW" {
            return None;
        }
        let (family, name) = match kind {
            "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" => ("text", "messageId"),
            "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" => ("call", "toolCallId"),
            _ => return self.item.is_some().then_some("something is open"),
        };
        let id = (family, word(event, name).unwrap_or_default().to_owned());
        match (kind.ends_with("_START"), &self.item) {
            (true, None) => self.item = Some(id),
            (true, Some(_)) => return Some("something is open"),
            (false, open) if open.as_ref() != Some(&id) => return Some("it is not open"),
            _ if kind.ends_with("_END") => self.item = None,
            _ => {}
        }
        None
    }
}

#[test]
fn what_was_measured_is_rejected() {
    let rows = [
        (r#"{"type":"THINKING_START"}"#, Pin::V0_0_35, Pin::V0_0_39),
        (r#"{"type":"ACTIVITY_DELTA"}"#, Pin::V0_0_39, Pin::V0_0_42),
        (r#"{"type":"REASONING_START"}"#, Pin::V0_0_42, Pin::V0_0_45),
        (r#"{"type":"SUBAGENT_ERROR"}"#, Pin::V0_0_57, Pin::V0_0_59),
        (r#"{"type":"TEXT_MESSAGE_START","role":"user"}"#, Pin::V0_0_35, Pin::V0_0_39),
        (r#"{"type":"REASONING_MESSAGE_CONTENT","delta":""}"#, Pin::V0_0_47, Pin::V0_0_53),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"type":"text"}]}]}"#,
            Pin::V0_0_39,
            Pin::V0_0_42,
        ),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"type":"image"}]}]}"#,
            Pin::V0_0_47,
            Pin::V0_0_53,
        ),
    ];
    for (event, before, since) in rows {
        assert!(rejects(before, &[event.to_owned()]).is_some(), "{event} for {before:?}");
        assert_eq!(rejects(since, &[event.to_owned()]), None, "{event} for {since:?}");
    }
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#.to_owned();
    let open = [text, r#"{"type":"RUN_ERROR"}"#.to_owned()];
    assert!(rejects(Pin::V0_0_35, &open).is_some() && rejects(Pin::V0_0_39, &open).is_none());
}
