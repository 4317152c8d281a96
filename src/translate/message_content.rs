//! Content of a message that is not text where its dialect has text.

use super::carry_policy::CarryPolicy;
use super::{call_arguments, carry, content_parts};
use crate::codec::json;
use crate::dialect::{ContentParts, PeerDialect};
use crate::event::input::{ACTIVITY, MessageMembers, TOOL, USER};
use crate::event::{Field, Json, JsonType, MemberKey, Members, get, set};
use std::borrow::Cow;

/// Reads content and arguments that are not text where AG-UI has text, with notes for the way back.
pub(super) fn read<'a>(canonical: &mut Members<'a>, own: &mut Members<'a>, role: &str, side: PeerDialect) {
    let dialect = side.dialect;
    let parts_form = dialect.message.parts;
    let takes_any = parts_form != ContentParts::OfUser;
    if let Some(parts) = get(canonical, Field::Content).filter(|_| takes_any).and_then(content_parts::read) {
        set(canonical, MemberKey::Known(Field::Content), parts);
    }
    // An agent of a versioned dialect that sends an object breaks a rule, which the guard counts.
    let takes_object = takes_any && (role == ACTIVITY || dialect.is_versioned());
    let takes_parts = takes_any || (role == USER && parts_form == ContentParts::OfUser);
    // "content: string | InputContent[]" (seed 001, 消息类型), also of no parts.
    let takes_empty = dialect.is_versioned() && role == USER;
    let takes = |content: &&Json<'_>| {
        (takes_parts && content_parts::is_parts(content))
            || (takes_object && content.json_type() == JsonType::Object)
            || (takes_empty && is_empty_list(content))
    };
    if let Some(content) = get(canonical, Field::Content).filter(|content| is_structured(content) && !takes(content)) {
        // A result without elements is a value of its own.
        let is_empty_text = role != TOOL && is_empty_list(content);
        let text = if is_empty_text { Json::EMPTY_STRING } else { Json::string(content.as_str()) };
        set(canonical, MemberKey::Known(Field::Content), text);
        carry::note_json(own, Field::Content);
    }
    if !dialect.is_versioned() {
        call_arguments::read(canonical, own);
    }
}

fn is_structured(content: &Json<'_>) -> bool {
    matches!(content.json_type(), JsonType::Object | JsonType::Array | JsonType::Number | JsonType::Bool)
}

fn is_empty_list(content: &Json<'_>) -> bool {
    json::parse_elements(content).is_some_and(|elements| elements.is_empty())
}

/// Writes content that was read as text as the JSON value that it was.
pub(super) fn restore_json(written: &mut MessageMembers<'_>, carries: &CarryPolicy) {
    // Notes come back from clients, so they are checked like other external input.
    let text = get(written, Field::Content).and_then(Json::text).map(Cow::into_owned);
    let value = match text.as_deref() {
        // An empty list was read as empty text, which is all that an agent gets.
        Some("") if carries.keeps_notes() => Some(Json::from_trusted("[]")),
        text => text.and_then(json::parse_value).map(Json::into_owned),
    };
    if let Some(value) = value {
        set(written, MemberKey::Known(Field::Content), value);
    }
}

/// Returns true if `content` is a list, empty or with something other than parts, and the side may not accept it.
pub(super) fn is_refused_list(side: PeerDialect, content: &Json<'_>, carries: &CarryPolicy) -> bool {
    match side.dialect.message.parts {
        ContentParts::Binary(_) => content.json_type() == JsonType::Array,
        ContentParts::OfUser => is_empty_list(content),
        ContentParts::Media => carries.writes_plain_messages(side) && is_empty_list(content),
    }
}
