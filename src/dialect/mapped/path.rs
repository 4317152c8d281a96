//! Finds the value at one path. [`PathTree`] reads those of many in one scan.

use crate::codec::json::{self, JsonStep, PathTree};
use crate::event::{Json, JsonType};

/// Finds the value at a path.
pub(crate) fn find_value<'a>(steps: &[JsonStep], value: Json<'a>) -> Option<Json<'a>> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match value.source() {
        Some(text) => find_value(rest, enter(step, text)?),
        None => find_value(rest, enter(step, value.as_str())?).map(Json::into_owned),
    }
}

/// Takes one step from a value.
fn enter<'a>(step: &JsonStep, text: &'a str) -> Option<Json<'a>> {
    let value = Json::from_trusted(text);
    if value.json_type() == JsonType::String {
        let inner = parse_text(&value)?;
        return enter(step, inner.as_str()).map(Json::into_owned);
    }
    match step {
        JsonStep::Member(name) => take_member(text, name),
        JsonStep::Index(index) => json::parse_element_text(text, index.saturating_add(1))?.0.into_iter().nth(*index),
        JsonStep::Last => find_last(text),
    }
}

/// Finds the last element of a list, which may have millions.
fn find_last(text: &str) -> Option<Json<'_>> {
    let mut tree = PathTree::default();
    let slot = tree.add(&[JsonStep::Last]);
    tree.read(text).into_iter().nth(slot)?
}

fn take_member<'a>(text: &'a str, name: &str) -> Option<Json<'a>> {
    if !text.starts_with('{') {
        return None;
    }
    let object = json::parse_open_object(text).ok()?;
    if name == json::TYPE {
        return object.kind;
    }
    object.members.into_iter().find_map(|(key, value)| (key.name() == name).then_some(value))
}

/// Parses the object that a string holds.
fn parse_text(value: &Json<'_>) -> Option<Json<'static>> {
    let text = value.text()?;
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    json::parse_value(text).map(Json::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> JsonStep {
        JsonStep::Member(name.into())
    }

    #[test]
    fn finds_members_elements_and_what_texts_hold() {
        let frame = r#"{"type":"x","threadId":"t","list":"[1]","a":[{"b":1.10},{"b":" {\"c\":[\"最后\",2]}\n"}]}"#;
        let rows: &[(&[JsonStep], Option<&str>)] = &[
            (&[member("type")], Some(r#""x""#)),
            (&[member("threadId")], Some(r#""t""#)),
            (&[member("thread_id")], None),
            (&[member("a"), JsonStep::Index(0), member("b")], Some("1.10")),
            (&[member("a"), JsonStep::Last, member("b"), member("c"), JsonStep::Index(0)], Some(r#""最后""#)),
            (&[member("a"), JsonStep::Last, member("b"), member("c"), JsonStep::Last], Some("2")),
            (&[member("a"), JsonStep::Last, member("b")], Some(r#"" {\"c\":[\"最后\",2]}\n""#)),
            (&[member("a"), JsonStep::Index(2), member("b")], None),
            (&[member("a"), member("b")], None),
            (&[member("type"), member("b")], None),
            (&[member("list"), JsonStep::Index(0)], None),
            (&[member("list"), JsonStep::Last], None),
            (&[], Some(frame)),
        ];
        let mut tree = PathTree::default();
        let slots: Vec<usize> = rows.iter().map(|(steps, _)| tree.add(steps)).collect();
        let values = tree.read(frame);
        for ((steps, expected), slot) in rows.iter().zip(slots) {
            let found = find_value(steps, Json::from_trusted(frame));
            assert_eq!(found.as_ref().map(Json::as_str), *expected, "{steps:?}");
            assert_eq!(values[slot], found, "{steps:?}");
        }
    }
}
