//! The order of members has no meaning in JSON, and encoders choose it: Go sorts the keys of maps. So requests and snapshots of
//! the corpus mean the same with the members of all objects sorted, and sorted backwards.

use super::super::exact_json::{canonical, members};
use super::super::golden::{Case, cases, side, translate_stream};
use diglot::dialect::PeerDialect;
use diglot::translate::{RunIds, request};
use serde_json::value::RawValue;

/// The sides that messages are written for, beside those of the corpus.
const SIDES: [&str; 9] = [
    "ag-ui",
    "ag-ui-0",
    "ag-ui-0.pin=0-0-39",
    "ag-ui-0.pin=0-0-59",
    "hai.blocks",
    "hai.string.snake",
    "ag-ui-snake",
    "cloudbase",
    "social-app",
];

/// Messages whose form depends on their role, with and without one.
const MESSAGES: &str = concat!(
    r#"{"id":"1","role":"user","content":[{"type":"text","text":"y"},{"type":"image","source":{"type":"url","value":"u"}}]},"#,
    r#"{"id":"2","role":"assistant","content":"","toolCalls":[{"id":"q","type":"function","function":{"name":"f","arguments":"{}"}}]},"#,
    r#"{"id":"3","role":"tool","toolCallId":"q","content":[{"type":"text","text":"y"}]},"#,
    r#"{"id":"4","role":"tool","toolCallId":"q","content":[],"name":"f"},"#,
    r#"{"id":"5","role":"activity","activityType":"A","content":{"x":1}},"#,
    r#"{"id":"6","role":"reasoning","content":"z","encryptedValue":"v"},"#,
    r#"{"id":"7","role":"developer","content":"k","name":"n"}"#,
);
const WITHOUT_ROLES: &str = concat!(
    r#"{"id":"8","toolCallId":"q","content":[{"type":"text","text":"y"}]},"#,
    r#"{"id":"9","role":null,"toolCallId":"q","content":[]},"#,
    r#"{"id":"10","activityType":"A","content":{"x":1}}"#,
);

/// Requests to which the order of members does mean something, and why.
const ORDERED: [&str; 2] = [
    // A context object becomes a list of its members.
    "context-object",
    // Parts come back in the form that HAI had stored only if the client left their text as it was.
    "media-came-back",
];

#[derive(Clone, Copy)]
enum MemberOrder {
    Sorted,
    Backwards,
}

/// Returns the JSON with the members of all objects in this order, or as it is if it is not JSON or repeats a key.
fn reorder(text: &str, order: MemberOrder) -> String {
    let sorted = canonical(text);
    match order {
        _ if sorted.contains("<<") => text.to_owned(),
        MemberOrder::Sorted => sorted,
        MemberOrder::Backwards => write_backwards(&sorted),
    }
}

fn write_backwards(sorted: &str) -> String {
    match sorted.as_bytes().first() {
        Some(b'{') => {
            let name = |name: &str| serde_json::Value::from(name).to_string();
            let all = members(sorted).into_iter().rev();
            let all: Vec<_> = all.map(|(key, value)| format!("{}:{}", name(&key), write_backwards(&value))).collect();
            format!("{{{}}}", all.join(","))
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(sorted).expect("an array");
            let all: Vec<_> = elements.iter().map(|element| write_backwards(element.get())).collect();
            format!("[{}]", all.join(","))
        }
        _ => sorted.to_owned(),
    }
}

/// The JSON without the order of members, also of those in its strings: the text of an object is the one that was sent.
fn meaning(text: &str) -> String {
    let sorted = canonical(text);
    match sorted.as_bytes().first() {
        Some(b'{') if !sorted.contains("<<") => {
            let all: Vec<_> = members(&sorted).iter().map(|(key, value)| format!("{key}:{}", meaning(value))).collect();
            format!("{{{}}}", all.join(","))
        }
        Some(b'[') if !sorted.contains("<<") => {
            let elements: Vec<&RawValue> = serde_json::from_str(&sorted).expect("an array");
            elements.iter().map(|element| format!("{},", meaning(element.get()))).collect()
        }
        Some(b'"') => {
            let Ok(text) = serde_json::from_str::<String>(&sorted) else { return sorted };
            // The texts of several parts are joined by line breaks.
            text.lines().map(text_meaning).collect::<Vec<_>>().join("\n")
        }
        _ => sorted,
    }
}

fn text_meaning(text: &str) -> String {
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    match values.collect::<Result<Vec<_>, _>>() {
        Ok(values) if text.starts_with(['{', '[']) => {
            values.iter().map(|value| format!("<{}>", meaning(value.get()))).collect()
        }
        _ => text.to_owned(),
    }
}

fn meanings(stream: &str) -> Vec<String> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(meaning).collect()
}

/// Reorders the members of snapshots. Those of other events may be in pieces of a text.
fn reorder_stream(stream: &str, order: MemberOrder) -> String {
    let line = |line: &str| match line.strip_prefix("data: ") {
        Some(data) if data.contains("\"messages\"") => format!("data: {}\n", reorder(data, order)),
        _ => format!("{line}\n"),
    };
    stream.lines().map(line).collect()
}

fn request_meaning(body: &str, from: PeerDialect, to: PeerDialect) -> String {
    match request::translate_request(body.as_bytes(), from, to, &RunIds::new("t-new", "r-new")) {
        Ok(translated) => meaning(&translated.body),
        Err(refused) => format!("refused: {refused}"),
    }
}

/// Compares what `translate` makes of the text with what it makes of the same text in both orders.
fn find_difference<T: PartialEq + std::fmt::Debug>(
    what: &str,
    text: &str,
    reorder: fn(&str, MemberOrder) -> String,
    translate: impl Fn(&str) -> T,
) -> Option<String> {
    let expected = translate(text);
    [MemberOrder::Sorted, MemberOrder::Backwards].into_iter().find_map(|order| {
        let other = reorder(text, order);
        let actual = translate(&other);
        (actual != expected).then(|| format!("{what}\n  {other}\n  expected {expected:?}\n  actual   {actual:?}\n"))
    })
}

fn assert_none(differences: &[String]) {
    assert!(differences.is_empty(), "{} differ:\n\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn requests_mean_the_same_in_any_order_of_members() {
    let mut differences = Vec::new();
    let mut compare = |what: &str, body: &str, from, to| {
        differences.extend(find_difference(what, body, reorder, |body| request_meaning(body, from, to)));
    };
    let is_ordered = |case: &Case| ORDERED.iter().any(|name| case.folder.ends_with(name));
    for case in cases("request").into_iter().filter(|case| !is_ordered(case)) {
        let body = case.read("input.json");
        let targets = SIDES.iter().map(|name| side(name)).chain([case.to]);
        targets.for_each(|to| {
            compare(&format!("{}, to {:?}", case.folder.display(), to.dialect.name), &body, case.from, to);
        });
    }
    let body = format!(r#"{{"threadId":"t","runId":"r","messages":[{MESSAGES}]}}"#);
    for from in SIDES {
        SIDES.iter().for_each(|to| compare(&format!("{from} to {to}"), &body, side(from), side(to)));
    }
    assert_none(&differences);
}

#[test]
fn snapshots_mean_the_same_in_any_order_of_members() {
    let mut differences = Vec::new();
    let mut compare = |what: &str, stream: &str, from, to| {
        let translate = |stream: &str| meanings(&translate_stream(from, to, [stream.as_bytes()]).0);
        differences.extend(find_difference(what, stream, reorder_stream, translate));
    };
    for case in cases("stream") {
        let stream = case.read("input.sse");
        compare(&case.folder.display().to_string(), &stream, case.from, case.to);
        if stream.contains("\"messages\"") {
            for to in SIDES {
                compare(&format!("{}, to {to}", case.folder.display()), &stream, case.from, side(to));
            }
        }
    }
    for from in SIDES {
        let name = if from.starts_with("hai") { "MESSAGE_SNAPSHOT" } else { "MESSAGES_SNAPSHOT" };
        let snapshot = format!(r#"{{"type":"{name}","messages":[{MESSAGES},{WITHOUT_ROLES}]}}"#);
        for to in SIDES {
            compare(&format!("{from} to {to}"), &format!("data: {snapshot}\n\n"), side(from), side(to));
        }
    }
    assert_none(&differences);
}
