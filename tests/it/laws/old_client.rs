//! Rules by which published clients before 1.0 reject events (measured over nine versions; `specs/ag-ui-1.0.md` §3.6).

use crate::exact_json::members;
use diglot::dialect::PeerVersion;
use std::collections::BTreeMap;

type Event = BTreeMap<String, String>;

/// Events by the version that brought them, by the beginning of their names.
const SINCE: [(&str, PeerVersion); 4] = [
    ("THINKING_", PeerVersion::V0_0_39),
    ("ACTIVITY_", PeerVersion::V0_0_42),
    ("REASONING_", PeerVersion::V0_0_45),
    ("SUBAGENT_", PeerVersion::V0_0_59),
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

/// Why a client of this version rejects the stream, and at which event; without a version: why any since 0.0.42 does, or
/// one that has only the seed's events, CUSTOM, and the thinking that all of them have.
pub fn rejection_reason(pin: PeerVersion, stream: &[String]) -> Option<String> {
    let mut open = OpenItems::default();
    let measured = if pin == PeerVersion::Any { PeerVersion::V0_0_42 } else { pin };
    stream.iter().enumerate().find_map(|(at, event)| {
        let event = members(event);
        let later = type_error(pin, &event).or_else(|| event_error(measured, &event));
        let verdict = later.or_else(|| open.check_next(measured, &event));
        verdict.map(|why| format!("event {at}: {why}: {event:?}"))
    })
}

fn string_member<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    event.get(name).map(|value| value.trim_matches('"'))
}

/// Returns the fault of an event's type.
fn type_error(pin: PeerVersion, event: &Event) -> Option<&'static str> {
    let kind = string_member(event, "type")?;
    let newer = SINCE.iter().find(|(name, _)| kind.starts_with(name));
    let is_thinking_of_any = pin == PeerVersion::Any && kind.starts_with("THINKING_");
    if newer.is_some_and(|(_, since)| pin < *since) && !is_thinking_of_any {
        return Some("the type came later");
    }
    if newer.is_none() && kind != "CUSTOM" && !BASE.iter().any(|name| kind.starts_with(name)) {
        return Some("the type is unknown");
    }
    None
}

/// Returns the fault of an event's members.
fn event_error(pin: PeerVersion, event: &Event) -> Option<&'static str> {
    let kind = string_member(event, "type")?;
    if event.iter().any(|(name, value)| {
        value == "null" && !["rawEvent", "value", "event", "snapshot", "future"].contains(&name.as_str())
    }) {
        return Some("a member is null");
    }
    let role = string_member(event, "role");
    match kind {
        "TEXT_MESSAGE_START" if pin < PeerVersion::V0_0_39 && role != Some("assistant") => {
            Some("the role is not the assistant's")
        }
        "TEXT_MESSAGE_CHUNK" if pin < PeerVersion::V0_0_39 && role.is_some_and(|role| role != "assistant") => {
            Some("the role is not the assistant's")
        }
        "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" | "THINKING_TEXT_MESSAGE_CONTENT"
            if pin < PeerVersion::V0_0_53 && string_member(event, "delta") == Some("") =>
        {
            Some("the delta is empty")
        }
        "TOOL_CALL_RESULT" if !event["content"].starts_with('"') => Some("the content is no text"),
        "RUN_STARTED" if event.contains_key("input") => Some("the echo of the input may lack tools"),
        "RUN_FINISHED" => event.get("outcome").and_then(|outcome| outcome_error(&members(outcome))),
        "MESSAGES_SNAPSHOT" => elements(&event["messages"]).iter().find_map(|message| message_error(pin, message)),
        _ => None,
    }
}

fn outcome_error(outcome: &Event) -> Option<&'static str> {
    let taken = match string_member(outcome, "type") {
        Some("success") => outcome.len() == 1,
        Some("interrupt") => outcome.len() == 2,
        _ => false,
    };
    (!taken).then_some("the outcome is one of 1.0")
}

fn message_error(pin: PeerVersion, message: &str) -> Option<&'static str> {
    let message = members(message);
    let known = match string_member(&message, "role") {
        Some("user" | "assistant" | "system" | "developer" | "tool") => true,
        Some("activity") => pin >= PeerVersion::V0_0_42,
        Some("reasoning") => pin >= PeerVersion::V0_0_45,
        _ => false,
    };
    if !known {
        return Some("the role of a message is unknown");
    }
    let content = message.get("content").filter(|content| content.starts_with('['))?;
    if string_member(&message, "role") != Some("user") || pin < PeerVersion::V0_0_42 {
        return Some("the content of a message is a list");
    }
    let known = |part: &String| match string_member(&members(part), "type") {
        Some("text" | "binary") => true,
        Some("image" | "audio" | "video" | "document") => pin >= PeerVersion::V0_0_53,
        _ => false,
    };
    (!elements(content).iter().all(known)).then_some("a part is unknown")
}

fn elements(list: &str) -> Vec<String> {
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).expect("a list");
    elements.iter().map(|element| element.get().to_owned()).collect()
}

/// The open items: while one is open, 0.0.35 accepts only its pieces (and RAW).
#[derive(Default)]
struct OpenItems {
    item: Option<(&'static str, String)>,
    steps: Vec<String>,
}

impl OpenItems {
    fn check_next(&mut self, pin: PeerVersion, event: &Event) -> Option<&'static str> {
        let kind = string_member(event, "type")?;
        let step = string_member(event, "stepName").unwrap_or_default().to_owned();
        match kind {
            "STEP_STARTED" if pin < PeerVersion::V0_0_59 && self.steps.contains(&step) => {
                return Some("the step is open");
            }
            "STEP_STARTED" => self.steps.push(step),
            "STEP_FINISHED" => self.steps.retain(|open| *open != step),
            _ => {}
        }
        if pin >= PeerVersion::V0_0_39 || kind == "RAW" {
            return None;
        }
        let (family, name) = match kind {
            "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" => ("text", "messageId"),
            "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" => ("call", "toolCallId"),
            _ => return self.item.is_some().then_some("something is open"),
        };
        let id = (family, string_member(event, name).unwrap_or_default().to_owned());
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
fn rejects_events_as_measured_in_old_clients() {
    let rows = [
        (r#"{"type":"THINKING_START"}"#, PeerVersion::V0_0_35, PeerVersion::V0_0_39),
        (r#"{"type":"ACTIVITY_DELTA"}"#, PeerVersion::V0_0_39, PeerVersion::V0_0_42),
        (r#"{"type":"REASONING_START"}"#, PeerVersion::V0_0_42, PeerVersion::V0_0_45),
        (r#"{"type":"SUBAGENT_ERROR"}"#, PeerVersion::V0_0_57, PeerVersion::V0_0_59),
        (r#"{"type":"TEXT_MESSAGE_START","role":"user"}"#, PeerVersion::V0_0_35, PeerVersion::V0_0_39),
        (r#"{"type":"REASONING_MESSAGE_CONTENT","delta":""}"#, PeerVersion::V0_0_47, PeerVersion::V0_0_53),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"type":"text"}]}]}"#,
            PeerVersion::V0_0_39,
            PeerVersion::V0_0_42,
        ),
        (
            r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","content":[{"type":"image"}]}]}"#,
            PeerVersion::V0_0_47,
            PeerVersion::V0_0_53,
        ),
    ];
    for (event, before, since) in rows {
        assert!(rejection_reason(before, &[event.to_owned()]).is_some(), "{event} for {before:?}");
        assert_eq!(rejection_reason(since, &[event.to_owned()]), None, "{event} for {since:?}");
    }
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#.to_owned();
    let open = [text, r#"{"type":"RUN_ERROR"}"#.to_owned()];
    assert!(
        rejection_reason(PeerVersion::V0_0_35, &open).is_some()
            && rejection_reason(PeerVersion::V0_0_39, &open).is_none()
    );
}
