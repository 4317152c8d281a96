//! Messages streamed as output blocks: parses and builds blocks, and carries members that AG-UI lacks.
//!
//! `block_reader` converts blocks to text and reasoning events; `block_writer` converts them back.

use super::members::{block, collaboration};
use crate::codec::json;
use crate::dialect::carry;
use crate::event::{Json, JsonType, MemberKey, Members, find_member};
use std::ops::Range;

/// Lists the starts and ends of messages between the previous event and this one.
pub(super) const BEFORE: &str = "$before";
/// Marks the end of a text part whose message goes on.
pub(super) const PART_END: &str = "$open";
/// Stores a string or list that contained blocks, on the first of them.
pub(super) const STRING: &str = "$string";
/// Marks the other blocks of a string or list.
pub(super) const REST: &str = "$rest";
/// Names the member of the output with the text, if it is not the usual one.
const PLACE: &str = "$at";
/// Stores a text that was a number, true, false or null.
const VALUE: &str = "$value";
/// Stores a block's members that have no fixed name.
pub(super) const DELTA: &str = "$delta";
pub(super) const OUTPUT: &str = "$output";
pub(super) const DATA: &str = "$data";

/// Stores the text of an event of which a frame has the first piece, under `extra["ag-ui"]`.
pub(super) const WHOLE: &str = "$whole";

/// Maximum number of frames that are added for the braces of one text.
const MAX_DIVISIONS: usize = 1000;

/// Stores a message's content in its original form.
pub(super) const BLOCKS_NOTE: &str = "$blocks";

/// Stores a message that only has blocks, on the first of them.
pub(super) const MESSAGE_NOTE: &str = "$message";

/// Stores the text of a message's first part, to which the others were added.
pub(super) const FIRST_PART: &str = "$content";

pub(super) const THINKING_MEMBERS: [&str; 3] = [block::ELAPSED, block::THINKING, block::COLLAPSE];

pub(super) enum DeltaContent<'a> {
    /// a string, or an unknown form
    Plain,
    /// `rest` holds the other members of the delta
    Block { kind: Json<'a>, output: Members<'a>, rest: Members<'a> },
}

pub(super) fn parse_delta<'a>(value: Option<&'a Json<'_>>) -> DeltaContent<'a> {
    let block = || {
        let mut rest = json::parse_members(value?)?;
        let mut output = json::parse_open_object(carry::take(&mut rest, block::OUTPUT)?.source()?).ok()?;
        Some(DeltaContent::Block { kind: output.kind.take()?, output: output.members, rest })
    };
    block().unwrap_or(DeltaContent::Plain)
}

/// The text of a block, according to its type: a string, or another scalar.
pub(super) enum BlockText<'a> {
    /// the block is neither text nor thinking
    None,
    /// the block has no text, or is not a block of this dialect
    Unreadable,
    Text {
        text: Json<'static>,
        place: TextPlace<'a>,
    },
    Thinking {
        text: Json<'static>,
        place: TextPlace<'a>,
    },
}

/// The place of a block's text: "包含type和data/content字段" (seed §4.2, build_business_data_content).
pub(super) enum TextPlace<'a> {
    /// `content`, as in build_text_output
    Content,
    /// `data`, a string
    Data,
    /// `data.content`, as in build_thinking_output, beside other members
    DataContent(Members<'a>),
    /// none: `data` has only the other members, since an agent may leave out what is None (§4.2, build_sse_data)
    Missing(Members<'a>),
}

impl TextPlace<'_> {
    pub(super) fn is_usual_for_text(&self) -> bool {
        matches!(self, TextPlace::Content)
    }

    /// Returns true if the members next to the text say that the agent no longer thinks.
    pub(super) fn ends_thinking(&self) -> bool {
        match self {
            TextPlace::DataContent(rest) | TextPlace::Missing(rest) => {
                find_member(rest, block::THINKING).is_some_and(|value| value.as_str() == "false")
            }
            TextPlace::Content | TextPlace::Data => false,
        }
    }

    /// Notes the place of a text block's text.
    pub(super) fn note_text(&self, own: &mut Members<'_>) {
        match self {
            TextPlace::Content => {}
            TextPlace::Data => own.push((carry::extension_key(PLACE), Json::string(block::DATA))),
            TextPlace::DataContent(rest) | TextPlace::Missing(rest) => {
                own.push((carry::extension_key(DATA), json::to_object(rest)));
            }
        }
    }

    /// Notes the place of a thinking block's text, and carries the members next to it.
    pub(super) fn note_thinking(&self, own: &mut Members<'_>) {
        match self {
            TextPlace::Content => own.push((carry::extension_key(PLACE), Json::string(block::CONTENT))),
            TextPlace::Data => own.push((carry::extension_key(PLACE), Json::string(block::DATA))),
            TextPlace::DataContent(rest) => carry_members(own, &THINKING_MEMBERS, rest, DATA),
            TextPlace::Missing(rest) => {
                own.push((carry::extension_key(PLACE), Json::string(block::DATA)));
                own.push((carry::extension_key(DATA), json::to_object(rest)));
            }
        }
    }
}

/// Takes the text out of a block. Text is usually in `content`, thinking in `data.content`.
pub(super) fn take_text<'a>(kind: &Json<'_>, output: &mut Members<'a>) -> BlockText<'a> {
    let is_text = kind.is_str(block::TEXT);
    if !is_text && !kind.is_str(block::THINKING) {
        return if is_activity_block(kind) { BlockText::None } else { BlockText::Unreadable };
    }
    let mut take = |accepts: fn(&Json<'_>) -> bool| match is_text {
        true => take_content(output, accepts).or_else(|| take_data(output, accepts)),
        false => take_data(output, accepts).or_else(|| take_content(output, accepts)),
    };
    match take(|value| value.json_type() == JsonType::String).or_else(|| take(is_scalar)) {
        None if is_text => BlockText::Unreadable,
        None => match take_thinking_members(output) {
            Some(rest) => BlockText::Thinking { text: Json::EMPTY_STRING, place: TextPlace::Missing(rest) },
            None => BlockText::Unreadable,
        },
        Some((text, place)) if is_text => BlockText::Text { text, place },
        Some((text, place)) => BlockText::Thinking { text, place },
    }
}

fn take_content<'a>(
    output: &mut Members<'a>,
    accepts: fn(&Json<'_>) -> bool,
) -> Option<(Json<'static>, TextPlace<'a>)> {
    Some((take_accepted(output, block::CONTENT, accepts)?.into_owned(), TextPlace::Content))
}

fn take_data<'a>(output: &mut Members<'a>, accepts: fn(&Json<'_>) -> bool) -> Option<(Json<'static>, TextPlace<'a>)> {
    if let Some(text) = take_accepted(output, block::DATA, accepts) {
        return Some((text.into_owned(), TextPlace::Data));
    }
    let mut data = json::parse_members(find_member(output, block::DATA)?)?;
    let text = take_accepted(&mut data, block::CONTENT, accepts)?.into_owned();
    let rest = crate::event::into_owned_members(data);
    carry::take(output, block::DATA);
    Some((text, TextPlace::DataContent(rest)))
}

/// Takes the data of a thinking block without text.
fn take_thinking_members(output: &mut Members<'_>) -> Option<Members<'static>> {
    let data = json::parse_members(find_member(output, block::DATA)?)?;
    let is_thinking = THINKING_MEMBERS.iter().any(|name| find_member(&data, name).is_some());
    if !is_thinking || [block::CONTENT, block::TEXT].iter().any(|name| find_member(&data, name).is_some()) {
        return None;
    }
    let data = crate::event::into_owned_members(data);
    carry::take(output, block::DATA);
    Some(data)
}

fn take_accepted<'a>(members: &mut Members<'a>, name: &str, accepts: fn(&Json<'_>) -> bool) -> Option<Json<'a>> {
    let at = members.iter().position(|(key, value)| carry::is_named(key, name) && accepts(value))?;
    Some(members.remove(at).1)
}

/// Returns true for a value that can only mean a text, although it is no string.
pub(super) fn is_scalar(value: &Json<'_>) -> bool {
    matches!(value.json_type(), JsonType::Number | JsonType::Bool | JsonType::Null)
}

/// Returns the text that a scalar shows; null shows nothing.
pub(super) fn to_text(value: Json<'static>) -> Json<'static> {
    match value.json_type() {
        JsonType::String => value,
        JsonType::Null => Json::EMPTY_STRING,
        _ => Json::string(value.as_str()),
    }
}

/// Returns the text that a scalar shows, and notes a scalar that is no string.
pub(super) fn read_scalar(value: Json<'static>, own: &mut Members<'_>) -> Json<'static> {
    if value.json_type() != JsonType::String {
        own.push((carry::extension_key(VALUE), value.clone()));
    }
    to_text(value)
}

/// Takes the scalar that [`read_scalar`] noted.
pub(super) fn take_scalar(own: &mut Members<'_>) -> Option<Json<'static>> {
    carry::take(own, VALUE).filter(is_scalar).map(Json::into_owned)
}

/// Returns true if blocks of this type become activities.
pub(super) fn is_activity_block(kind: &Json<'_>) -> bool {
    let others = [block::TEXT, block::THINKING, collaboration::NAME];
    kind.json_type() == JsonType::String && !others.iter().any(|other| kind.is_str(other))
}

/// Returns the text of a text or thinking block.
pub(super) fn block_text(value: &Json<'_>) -> Option<Json<'static>> {
    let DeltaContent::Block { kind, mut output, .. } = parse_delta(Some(value)) else { return None };
    match take_text(&kind, &mut output) {
        BlockText::Text { text, .. } | BlockText::Thinking { text, .. } => Some(to_text(text)),
        BlockText::None | BlockText::Unreadable => None,
    }
}

/// Divides a text between each `}` and `{`, as often as is allowed; returns nothing if it has none. The client of the seed (§4.1) puts a comma between
/// them wherever it finds them in the JSON of its blocks, and would show `\frac{1},{2}` for `\frac{1}{2}`.
pub(super) fn split_braces(text: &Json<'_>) -> Vec<Json<'static>> {
    // The client decodes escapes first, and writes the braces as they are.
    if !text.as_str().contains("}{") && !text.as_str().contains(r"\u007") {
        return Vec::new();
    }
    let text = text.text().unwrap_or_default();
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices("}{").take(MAX_DIVISIONS) {
        pieces.push(Json::string(&text[start..=at]));
        start = at + 1;
    }
    if start > 0 {
        pieces.push(Json::string(&text[start..]));
    }
    pieces
}

/// Returns true for JSON that the client of the seed changes, because it has `}{`.
pub(super) fn has_braces(json: &Json<'_>) -> bool {
    json.as_str().contains("}{")
}

/// Returns a block's JSON as stored content, without `}{` in it, since the client of the seed puts a comma between them.
pub(super) fn to_stored_content(block: &Json<'_>) -> Json<'static> {
    Json::string(&block.as_str().replace("}{", r"}\u007b"))
}

/// Carries the delta's other members. A `layout` without others keeps its name; otherwise one note stores them all.
pub(super) fn carry_delta(own: &mut Members<'_>, rest: Members<'_>, output: Members<'_>) {
    carry_members(own, &[block::LAYOUT], &rest, DELTA);
    if !output.is_empty() {
        own.push((carry::extension_key(OUTPUT), json::to_object(&output)));
    }
}

/// Carries `members` under their own names if `names` lists all of them and the event has none of them. Otherwise
/// stores them in one note, to keep them apart from the event's.
pub(super) fn carry_members(own: &mut Members<'_>, names: &[&'static str], members: &Members<'_>, note: &'static str) {
    let named = |key: &MemberKey<'_>| names.iter().copied().find(|name| carry::is_named(key, name));
    let taken = own.iter().any(|(key, _)| named(key).is_some());
    if taken || members.iter().any(|(key, _)| named(key).is_none()) {
        own.push((carry::extension_key(note), json::to_object(members)));
        return;
    }
    for (key, value) in members {
        own.extend(named(key).map(|name| (carry::extension_key(name), value.clone().into_owned())));
    }
}

/// Builds the output of a text block, with the text where it was.
pub(super) fn build_text_output(text: &Json<'_>, own: &mut Members<'_>) -> Json<'static> {
    let scalar = take_scalar(own);
    let text = scalar.as_ref().unwrap_or(text);
    let place = carry::take(own, PLACE);
    let data = carry::take(own, DATA).map(Json::into_owned);
    let rest = carry::take(own, OUTPUT).map(Json::into_owned);
    json::build_object(|object| {
        object.string_member(json::TYPE, block::TEXT);
        match &data {
            Some(data) => object.member(block::DATA, build_data(text, data).as_str()),
            None if place.is_some() => object.member(block::DATA, text.as_str()),
            None => object.member(block::CONTENT, text.as_str()),
        }
        copy_members(object, rest.as_ref());
    })
}

/// Builds a thinking block from the original members in `own`, with the text where it was, or renders a new one.
pub(super) fn build_thinking(text: &Json<'_>, own: &mut Members<'_>) -> Json<'static> {
    let output = build_thinking_output(text, own);
    build_delta(own, &output)
}

fn build_thinking_output(text: &Json<'_>, own: &mut Members<'_>) -> Json<'static> {
    let scalar = take_scalar(own);
    let text = scalar.as_ref().unwrap_or(text);
    let place = carry::take(own, PLACE);
    let rest = carry::take(own, DATA).map(Json::into_owned);
    let data = match (&place, &rest) {
        (Some(_), Some(rest)) if text.is_str("") => rest.clone(),
        (Some(_), _) => text.clone().into_owned(),
        (None, Some(rest)) => build_data(text, rest),
        (None, None) => json::build_object(|object| {
            object.member(block::CONTENT, text.as_str());
            for name in THINKING_MEMBERS {
                if let Some(value) = carry::take(own, name) {
                    object.member(name, value.as_str());
                }
            }
        }),
    };
    let is_content = place.is_some_and(|place| place.is_str(block::CONTENT));
    let more = carry::take(own, OUTPUT).map(Json::into_owned);
    json::build_object(|object| {
        object.string_member(json::TYPE, block::THINKING);
        object.member(if is_content { block::CONTENT } else { block::DATA }, data.as_str());
        copy_members(object, more.as_ref());
    })
}

fn build_data(text: &Json<'_>, rest: &Json<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.member(block::CONTENT, text.as_str());
        copy_members(object, Some(rest));
    })
}

/// The carried members of a text block.
const TEXT_BLOCK_MEMBERS: [&str; 5] = [block::LAYOUT, DELTA, OUTPUT, DATA, PLACE];

/// Returns true if the text was in a block.
pub(super) fn has_block_members(own: &Members<'_>) -> bool {
    own.iter().any(|(key, _)| TEXT_BLOCK_MEMBERS.iter().any(|name| carry::is_named(key, name)))
}

/// Returns true if a note has the form in which the dialect sent the text.
pub(super) fn has_original_form(own: &Members<'_>) -> bool {
    has_block_members(own) || [STRING, REST].iter().any(|note| find_member(own, note).is_some())
}

/// Removes the members of a block that is restored as a whole.
pub(super) fn take_block_members(own: &mut Members<'_>) {
    own.retain(|(key, _)| !TEXT_BLOCK_MEMBERS.iter().any(|name| carry::is_named(key, name)));
}

/// Builds the delta for a block with its carried members.
pub(super) fn build_delta(own: &mut Members<'_>, output: &Json<'_>) -> Json<'static> {
    let rest = carry::take(own, DELTA).map(Json::into_owned);
    let layout = if rest.is_none() { carry::take(own, block::LAYOUT).map(Json::into_owned) } else { None };
    json::build_object(|object| {
        object.member(block::OUTPUT, output.as_str());
        if let Some(layout) = &layout {
            object.member(block::LAYOUT, layout.as_str());
        }
        copy_members(object, rest.as_ref());
    })
}

pub(super) fn copy_members(object: &mut json::ObjectWriter<'_>, rest: Option<&Json<'_>>) {
    for member in rest.and_then(json::parse_members).unwrap_or_default() {
        object.copy_member(&member, false);
    }
}

/// Finds the text inside a text block.
pub(super) fn find_text(delta: &str) -> Option<Range<usize>> {
    let output = slice_member(delta, block::OUTPUT)?;
    let is_text = slice_member(output, json::TYPE).is_some_and(|kind| Json::from_trusted(kind).is_str(block::TEXT));
    let content = slice_member(output, block::CONTENT).filter(|content| is_text && content.starts_with('"'))?;
    // The content is a slice of `delta`.
    let start = content.as_ptr() as usize - delta.as_ptr() as usize;
    Some(start + 1..start + content.len() - 1)
}

/// Returns a member as a slice of the JSON text.
fn slice_member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    let members = json::members_with_type(json::parse_open_object(object).ok()?);
    find_member(&members, name).and_then(Json::source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_a_text_a_limited_number_of_times() {
        let pieces = |text: &str| -> Vec<String> {
            split_braces(&Json::string(text)).iter().map(|piece| piece.text().expect("text").into_owned()).collect()
        };
        assert_eq!(pieces(r"\frac{1}{2}好}{"), [r"\frac{1}", "{2}好}", "{"]);
        assert_eq!(split_braces(&Json::from_trusted(r#""a\u007d\u007bb""#)).len(), 2);
        assert!(pieces("{} {").is_empty());
        let many = "}{".repeat(2 * MAX_DIVISIONS);
        assert_eq!((pieces(&many).len(), pieces(&many).concat()), (MAX_DIVISIONS + 1, many));
    }
}
