//! Messages streamed as output blocks: parses and builds blocks, and carries members that AG-UI lacks.
//!
//! `block_reader` converts blocks to text and reasoning events; `block_writer` converts them back.

use super::members::block;
use crate::codec::json;
use crate::dialect::carry;
use crate::event::{Json, JsonType, Member, MemberKey, Members, find_member};
use std::ops::Range;

/// Stores, on a reasoning span, the start of the message that follows.
pub(super) const START: &str = "$start";
/// Stores a block's members that have no fixed name.
pub(super) const DELTA: &str = "$delta";
pub(super) const OUTPUT: &str = "$output";
pub(super) const DATA: &str = "$data";
/// Marks text that was a string, although the run's first text was a block.
pub(super) const TEXT: &str = "$text";

/// Stores a message's content in its original form.
pub(super) const BLOCKS_NOTE: &str = "$blocks";

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

/// Returns the text of a text or thinking block.
pub(super) fn block_text<'a>(value: &'a Json<'_>) -> Option<Json<'a>> {
    match parse_delta(Some(value)) {
        DeltaContent::Plain => None,
        DeltaContent::Block { kind, mut output, .. } if kind.is_str(block::THINKING) => {
            let data = carry::take(&mut output, block::DATA)?;
            json::parse_member(&data, block::CONTENT)
        }
        DeltaContent::Block { mut output, .. } => carry::take(&mut output, block::CONTENT),
    }
}

pub(super) fn has_text_member(members: &[Member<'_>], name: &str) -> bool {
    find_member(members, name).is_some_and(|value| value.json_type() == JsonType::String)
}

pub(super) fn check_thinking_text(output: &[Member<'_>]) -> Option<()> {
    json::parse_member(find_member(output, block::DATA)?, block::CONTENT)?.text().map(drop)
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
