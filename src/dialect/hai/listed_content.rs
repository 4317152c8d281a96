//! Content that is a list, in place of the string of the document (§3.2.2).
//!
//! ```text
//! contents: [{output: …}, …]                    ⇄ content, a list (§4.1, updateDialogueMessages)
//! assistant: [{output: …}, {type, data}, …]     ──▶ blocks, as if they were concatenated
//! system, tool: [{type: "text", text}, …]       ──▶ text; with media, the parts of a tool's result
//! ```
//! The client of §4.1 keeps the parsed blocks of a message in `contents`. Lists in `content` are a guess. A note stores the
//! original for agents of this dialect.

use super::blocks::BLOCKS_NOTE;
use super::user_content::parse_list;
use crate::codec::json;
use crate::dialect::{carry, content_parts};
use crate::event::input::{MessageMembers, TOOL, USER};
use crate::event::{Field, Json, JsonType, MemberKey, Members, find_member, get, remove, set};

const CONTENTS: &str = "contents";

/// Marks content that was in `contents`.
const CONTENTS_NOTE: &str = "$contents";

/// Moves `contents` to a message without content.
pub(super) fn read_contents(message: &mut Members<'_>, own: &mut Members<'_>) {
    if get(message, Field::Content).is_some_and(|content| !content.is_str("")) {
        return;
    }
    let is_content = |contents: &&Json<'_>| matches!(contents.json_type(), JsonType::Array | JsonType::String);
    let Some(contents) = find_member(own, CONTENTS).filter(is_content).cloned().map(Json::into_owned) else { return };
    carry::take(own, CONTENTS);
    let has_parts =
        get(message, Field::Role).is_some_and(|role| role.is_str(USER)) && content_parts::is_parts(&contents);
    let is_list = contents.json_type() == JsonType::Array;
    if is_list {
        carry::add_note(own, CONTENTS_NOTE);
    }
    let content = match is_list && !has_parts {
        true => {
            carry::note_json(own, Field::Content);
            Json::string(contents.as_str())
        }
        false => contents,
    };
    set(message, MemberKey::Known(Field::Content), content);
}

/// Reverses [`read_contents`]; `is_json` means that the content is the text of a list.
pub(super) fn write_contents(message: &mut Members<'_>, own: &mut Members<'_>, is_json: bool) {
    if carry::take(own, CONTENTS_NOTE).is_none() {
        return;
    }
    let content = get(message, Field::Content).cloned().map(Json::into_owned);
    let list = match content.as_ref().filter(|_| is_json).and_then(Json::text) {
        Some(text) => json::parse_value(&text).map(Json::into_owned),
        None => content,
    };
    if let Some(list) = list.filter(|list| list.json_type() == JsonType::Array) {
        remove(message, Field::Content);
        own.push((carry::extension_key(CONTENTS), list));
    }
}

/// Replaces a list with its text, or with the parts of a tool's result if there is media among them.
pub(super) fn read(canonical: &mut Members<'_>, own: &mut Members<'_>) {
    let Some(content) = get(canonical, Field::Content).cloned() else { return };
    let was_json = find_member(own, carry::AS_JSON_NOTE).is_some();
    let Some(parts) = Some(&content).filter(|_| was_json).and_then(parse_list) else { return };
    let is_result = get(canonical, Field::Role).is_some_and(|role| role.is_str(TOOL));
    own.push((carry::extension_key(BLOCKS_NOTE), content.into_owned()));
    let content = match is_result && content_parts::has_media(&parts) {
        true => parts,
        false => Json::string(&content_parts::joined_text(&parts)),
    };
    set(canonical, MemberKey::Known(Field::Content), content);
}

/// Restores the stored list if its text or its parts are unchanged.
pub(super) fn write(outgoing: &mut Members<'_>, stored: Option<Json<'static>>, canonical: &mut MessageMembers<'_>) {
    let Some((stored, parts)) = stored.and_then(|stored| parse_list(&stored).map(|parts| (stored, parts))) else {
        return;
    };
    let text = Json::string(&content_parts::joined_text(&parts));
    let is_intact = match get(canonical, Field::Content) {
        Some(whole) => json::parse_elements(whole) == json::parse_elements(&parts),
        None => get(outgoing, Field::Content).is_some_and(|content| content.is_same(&text)),
    };
    if is_intact {
        set(outgoing, MemberKey::Known(Field::Content), stored);
        remove(canonical, Field::Content);
    }
}
