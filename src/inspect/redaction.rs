//! Replaces content before it is captured, so that no reader of the captures can get it.
//!
//! The frames are written anew: what is kept of a redacted run is not what the agent sent byte by byte, but its events.
//! Text that is no JSON cannot be searched by path, so nothing of it is kept. A string that is the JSON of an object or
//! an array, such as the arguments of a tool call, is searched like that object.

use crate::codec::sse::{SseDecoder, SseFrame, SseLimits, SseStep};
use crate::config::inspect::{PathStep, RedactRule};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// Replaces a text.
const MASK: &str = "***";

/// The rules of a route.
#[derive(Clone, Debug)]
pub(crate) struct Redaction(Arc<[RedactRule]>);

impl Redaction {
    /// Returns `None` if there are no rules.
    pub(crate) fn new(rules: &[RedactRule]) -> Option<Redaction> {
        (!rules.is_empty()).then(|| Redaction(rules.into()))
    }

    /// Returns JSON without what the rules name.
    pub(crate) fn redact_json(&self, text: &[u8]) -> Bytes {
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return Bytes::from_static(MASK.as_bytes()) };
        for rule in &*self.0 {
            match rule {
                RedactRule::Path(steps) => mask_at(&mut value, steps),
                RedactRule::Pattern(pattern) => for_each_text(&mut value, &mut |text| {
                    *text = pattern.replace_all(text, MASK).into_owned();
                }),
            }
        }
        value.to_string().into()
    }

    /// Returns text that is no JSON without what the patterns find.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        let patterns = self.0.iter().filter_map(|rule| match rule {
            RedactRule::Pattern(pattern) => Some(pattern),
            RedactRule::Path(_) => None,
        });
        patterns.fold(text.to_owned(), |text, pattern| pattern.replace_all(&text, MASK).into_owned())
    }
}

fn mask_at(value: &mut Value, steps: &[PathStep]) {
    let Some((step, rest)) = steps.split_first() else { return mask(value) };
    if let Value::String(text) = value {
        return mask_inside(text, steps);
    }
    match step {
        PathStep::Member(name) => {
            if let Some(member) = value.get_mut(name.as_str()) {
                mask_at(member, rest);
            }
        }
        PathStep::Each => children(value).for_each(|child| mask_at(child, rest)),
        PathStep::Deep => {
            mask_at(value, rest);
            children(value).for_each(|child| mask_at(child, steps));
        }
    }
}

/// Masks inside a string that is JSON. Without a match, it stays byte by byte.
fn mask_inside(text: &mut String, steps: &[PathStep]) {
    if !text.trim_start().starts_with(['{', '[']) {
        return;
    }
    let Ok(mut inner) = serde_json::from_str::<Value>(text) else { return };
    let before = inner.clone();
    mask_at(&mut inner, steps);
    if inner != before {
        *text = inner.to_string();
    }
}

fn children(value: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter_mut()),
        Value::Object(members) => Box::new(members.values_mut()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Masks every value within, and keeps the types, since the translation depends on them.
fn mask(value: &mut Value) {
    match value {
        Value::String(text) => MASK.clone_into(text),
        Value::Number(number) => *number = 0.into(),
        Value::Bool(flag) => *flag = false,
        Value::Null => {}
        Value::Array(_) | Value::Object(_) => children(value).for_each(mask),
    }
}

fn for_each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    if let Value::String(text) = value {
        return change(text);
    }
    let mut change: &mut dyn FnMut(&mut String) = change;
    children(value).for_each(|child| for_each_text(child, &mut change));
}

/// Redacts the body of one run. The part of an event that is not complete yet is held here.
#[derive(Debug)]
pub(super) struct BodyRedactor {
    redaction: Redaction,
    decoder: Mutex<SseDecoder>,
}

impl BodyRedactor {
    pub(super) fn new(redaction: Redaction, limits: SseLimits) -> BodyRedactor {
        BodyRedactor { redaction, decoder: Mutex::new(SseDecoder::new(limits)) }
    }

    /// Returns the events that `bytes` complete, redacted.
    pub(super) fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut rest, mut out) = (bytes, Vec::new());
        let mut decoder = self.decoder.lock();
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            self.write_frame(&frame, &mut out);
        }
        out
    }

    /// Returns the last event of a body, which may lack its end.
    pub(super) fn finish(&self) -> Vec<u8> {
        let mut out = Vec::new();
        while let SseStep::Frame(frame) = self.decoder.lock().finish() {
            self.write_frame(&frame, &mut out);
        }
        out
    }

    fn write_frame(&self, frame: &SseFrame<'_>, out: &mut Vec<u8>) {
        for (name, value) in [("event", &frame.event), ("id", &frame.id)] {
            if let Some(value) = value {
                out.extend_from_slice(format!("{name}: {value}\n").as_bytes());
            }
        }
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&self.redaction.redact_json(frame.data.as_bytes()));
        out.extend_from_slice(b"\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redaction(rules: &[&str]) -> Redaction {
        let step = |name: &str| match name {
            "*" => PathStep::Each,
            "**" => PathStep::Deep,
            name => PathStep::Member(name.to_owned()),
        };
        let rule = |text: &&str| match text.strip_prefix('/') {
            Some(pattern) => RedactRule::Pattern(pattern.parse().expect("a pattern")),
            None => RedactRule::Path(text.split('.').map(step).collect()),
        };
        Redaction::new(&rules.iter().map(rule).collect::<Vec<_>>()).expect("rules")
    }

    fn redacted(rules: &[&str], value: &Value) -> Value {
        serde_json::from_slice(&redaction(rules).redact_json(value.to_string().as_bytes())).expect("JSON")
    }

    #[test]
    fn masks_paths_and_patterns_and_keeps_types() {
        let value = json!({"user": {"email": "a@b.c", "age": 7}, "list": [{"password": "x"}, {"deep": {"password": [1, true, null]}}]});
        let without = |rules: &[&str]| redacted(rules, &value);
        assert_eq!(without(&["user.email"])["user"], json!({"email": "***", "age": 7}));
        assert_eq!(without(&["user"])["user"], json!({"email": "***", "age": 0}));
        assert_eq!(without(&["list.*.password"])["list"][0], json!({"password": "***"}));
        let deep = without(&["**.password"]);
        assert_eq!(deep["list"], json!([{"password": "***"}, {"deep": {"password": [0, false, null]}}]));
        assert_eq!(without(&["/[a-z]@[a-z]"])["user"]["email"], "***.c");
        assert_eq!(without(&["nobody.*.here"]), value);
    }

    /// Arguments of calls and contents of HAI are JSON as text.
    #[test]
    fn paths_enter_strings_that_are_json() {
        let arguments = r#"{"user": "eve", "login": {"password": "x"}, "list": "[{\"password\": \"y\"}]"}"#;
        let value = json!({"delta": arguments, "text": "{\"password", "password": "z"});
        let deep = redacted(&["**.password"], &value);
        let inside =
            |value: &Value| serde_json::from_str::<Value>(value["delta"].as_str().expect("text")).expect("JSON");
        assert_eq!(
            inside(&deep),
            json!({"user": "eve", "login": {"password": "***"}, "list": "[{\"password\":\"***\"}]"})
        );
        // A piece of JSON is none.
        assert_eq!((&deep["text"], &deep["password"]), (&json!("{\"password"), &json!("***")));
        let one = redacted(&["delta.login"], &value);
        assert_eq!(inside(&one)["login"], json!({"password": "***"}));
        assert_eq!(inside(&one)["list"], inside(&value)["list"]);
        // A text without a match stays as it was written.
        assert_eq!(redacted(&["delta.nobody", "**.nowhere"], &value), value);
    }

    #[test]
    fn patterns_are_found_in_text_that_is_no_json() {
        let rules = redaction(&["password", "/[0-9]{16}", "/b+"]);
        assert_eq!(rules.redact_text("card 4111111111111111 of bob: password"), "card *** of ***o***: password");
    }

    #[test]
    fn events_are_redacted_wherever_the_body_is_divided() {
        let body = b": ping\r\nid: 7\r\ndata: {\"type\":\"X\",\r\ndata: \"key\":\"secret\"}\r\n\r\ndata: secret\n\ndata: {\"key\":\"secret\"}";
        let expected = "id: 7\ndata: {\"key\":\"***\",\"type\":\"X\"}\n\ndata: ***\n\ndata: {\"key\":\"***\"}\n\n";
        for at in 0..body.len() {
            let redactor = BodyRedactor::new(redaction(&["key"]), SseLimits::default());
            let mut out = redactor.redact(&body[..at]);
            out.extend(redactor.redact(&body[at..]));
            out.extend(redactor.finish());
            assert_eq!(String::from_utf8(out).expect("UTF-8"), expected, "divided at {at}");
        }
    }
}
