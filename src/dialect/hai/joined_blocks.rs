//! Several blocks in one value: concatenated in a string, as the client of the seed joins them (§4.1), or in a list.

use super::blocks::{BlockText, DeltaContent, parse_delta, take_text};
use super::members::block;
use crate::codec::json;
use crate::dialect::{carry, content_parts};
use crate::event::{Json, JsonType, find_member};

/// Returns the blocks of a string that consists only of them, as the client of the seed concatenates them (§4.1), or of a
/// list.
pub(super) fn parse_joined_blocks(delta: &Json<'_>) -> Option<Vec<Json<'static>>> {
    let blocks = match delta.as_str().as_bytes() {
        [b'[', ..] => parse_values(delta.as_str(), true)?,
        // Most text is not JSON.
        [b'"', b'{' | b'[' | b' ' | b'\\', ..] => parse_values(&delta.text()?, false)?,
        _ => return None,
    };
    blocks.iter().all(is_readable).then_some(blocks)
}

fn is_readable(value: &Json<'_>) -> bool {
    match parse_delta(Some(value)) {
        DeltaContent::Block { kind, mut output, .. } => !matches!(take_text(&kind, &mut output), BlockText::Unreadable),
        DeltaContent::Plain => false,
    }
}

/// Returns the blocks of an object that is none in the form of the document: "包含type和data/content字段" (§4.2), without the
/// outer object, as a list or a string, or with the text in `text` (guesses).
pub(super) fn parse_unusual_block(delta: &Json<'_>) -> Option<Vec<Json<'static>>> {
    let members = json::parse_members(delta)?;
    let has_type = find_member(&members, json::TYPE).is_some();
    let blocks = match find_member(&members, block::OUTPUT) {
        Some(output) => match output.json_type() {
            JsonType::String => parse_values(&output.text()?, false).unwrap_or_else(|| vec![text_block(output)]),
            JsonType::Array => parse_values(output.as_str(), true)?,
            _ => vec![to_readable_block(output)?],
        },
        None if has_type => vec![to_readable_block(delta)?],
        None => {
            let text = find_member(&members, block::CONTENT).filter(|text| text.json_type() == JsonType::String)?;
            vec![text_block(text)]
        }
    };
    blocks.iter().all(is_readable).then_some(blocks)
}

/// Completes a block, whose text may be in `data.text`.
fn to_readable_block(output: &Json<'_>) -> Option<Json<'static>> {
    let complete = to_block(output.clone().into_owned())?;
    if is_readable(&complete) {
        return Some(complete);
    }
    let mut members = json::parse_members(output)?;
    let data = members.iter_mut().find(|(key, _)| carry::is_named(key, block::DATA))?;
    let mut inner = json::parse_owned_members(&data.1)?;
    let text = carry::take(&mut inner, block::TEXT).filter(|text| text.json_type() == JsonType::String)?;
    inner.insert(0, (carry::extension_key(block::CONTENT), text));
    data.1 = json::to_object(&inner);
    Some(json::build_object(|object| object.member(block::OUTPUT, json::to_object(&members).as_str())))
}

/// Parses the blocks of stored content; returns `None` for any other text. `was_json` means that the content was a JSON
/// value, whose blocks may lack the outer object.
pub(super) fn parse_values(text: &str, was_json: bool) -> Option<Vec<Json<'static>>> {
    let text = text.trim_ascii_start();
    if text.starts_with('{') {
        let values = parse_joined(text)?;
        let to_block = if was_json { to_block } else { to_certain_block };
        return values.into_iter().map(to_block).collect();
    }
    let list = json::parse_value(text).filter(|_| text.starts_with('['))?;
    let values = json::parse_listed_values(&list).filter(|values| !values.is_empty())?;
    if was_json && values.iter().all(|value| part_text(value).is_some()) {
        return Some(vec![text_block(&Json::string(&content_parts::joined_text(&list)))]);
    }
    let is_block = |value: &Json<'_>| was_json || json::parse_member(value, block::OUTPUT).is_some();
    values.into_iter().map(|value| Some(value.into_owned()).filter(is_block).and_then(to_block)).collect()
}

/// Parses `{…}{…}`, also with commas between: the client of the seed adds those that are missing (§4.1).
fn parse_joined(text: &str) -> Option<Vec<Json<'static>>> {
    let owned = |values: Vec<Json<'_>>| values.into_iter().map(Json::into_owned).collect();
    if let Some(values) = json::parse_sequence(text) {
        return Some(owned(values));
    }
    let text = format!("[{text}]");
    json::parse_listed_values(&json::parse_value(&text)?).map(owned)
}

/// Completes a block: "包含type和data/content字段" (§4.2), or a part of AG-UI. A string is its text (a guess).
fn to_block(value: Json<'static>) -> Option<Json<'static>> {
    if value.json_type() == JsonType::String {
        return Some(text_block(&value));
    }
    let members = json::parse_members(&value)?;
    if find_member(&members, block::OUTPUT).is_some() {
        return Some(value);
    }
    if let Some(text) = part_text(&value) {
        return Some(text_block(&text));
    }
    let has_value =
        [block::DATA, block::CONTENT, content_parts::SOURCE].iter().any(|name| find_member(&members, name).is_some());
    let is_output =
        has_value && find_member(&members, json::TYPE).is_some_and(|kind| kind.json_type() == JsonType::String);
    is_output.then(|| json::build_object(|object| object.member(block::OUTPUT, value.as_str())))
}

/// Completes a block in text, if nothing else can be meant: a block of the document, or one with an object as `data`.
fn to_certain_block(value: Json<'static>) -> Option<Json<'static>> {
    let members = json::parse_members(&value)?;
    let is_known = |kind: &Json<'_>| [block::TEXT, block::THINKING, block::FOLD].iter().any(|known| kind.is_str(known));
    let is_certain = find_member(&members, block::OUTPUT).is_some()
        || find_member(&members, json::TYPE).is_some_and(is_known)
        || find_member(&members, block::DATA).is_some_and(|data| data.json_type() == JsonType::Object);
    if is_certain { to_block(value) } else { None }
}

/// Returns the text of one of AG-UI's text parts.
fn part_text(value: &Json<'_>) -> Option<Json<'static>> {
    let kind = json::parse_member(value, json::TYPE)?;
    json::parse_member(value, block::TEXT)
        .filter(|text| kind.is_str(block::TEXT) && text.json_type() == JsonType::String)
}

/// Builds a block with text, as stored content has it.
pub(super) fn text_block(text: &Json<'_>) -> Json<'static> {
    let output = json::build_object(|object| {
        object.string_member(json::TYPE, block::TEXT);
        object.member(block::CONTENT, text.as_str());
    });
    json::build_object(|object| object.member(block::OUTPUT, output.as_str()))
}
