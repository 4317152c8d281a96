//! User messages with media ("支持文本、图片、音频、视频等多模态数据格式", §3.1).
//!
//! ```text
//! [{type: "image", source: {…}}, …]             ⇄ the same parts
//! [{type: "image", data: {url, mimeType}}, …]   ──▶ parts; a note has the original
//! {output: {type: "image", …}}{output: …}       ──▶ the same, if there is media among the blocks
//! "[{type: "image", …}, …]"                     ──▶ the same, if there is media in the list
//! [{type: "image_url", image_url: {url}}, …]    ──▶ the same
//! ```
//! The document prints content without media only, so all forms are guesses: AG-UI's parts, and lists or sequences of the
//! document's outputs (`{type, data/content}`, §4.2). Text alone is written as a string.

use super::blocks::BLOCKS_NOTE;
use super::members::{block, media};
use crate::codec::json;
use crate::dialect::{carry, content_parts};
use crate::event::input::MessageMembers;
use crate::event::{Field, Json, JsonType, MemberKey, Members, find_member, get, remove, set};

/// Ends the type of a part whose URL is a member of the same name.
const URL_SUFFIX: &str = "_url";

struct UserParts {
    parts: Vec<Json<'static>>,
    /// whether all of them are as in the content
    is_unchanged: bool,
}

/// Replaces content with parts.
pub(super) fn read(canonical: &mut Members<'_>, own: &mut Members<'_>) {
    let Some(content) = get(canonical, Field::Content).cloned() else { return };
    let was_json = find_member(own, carry::AS_JSON_NOTE).is_some();
    match parse_parts(&content, was_json) {
        Some(found) => {
            if !(found.is_unchanged && content_parts::has_media(&content)) {
                own.push((carry::extension_key(BLOCKS_NOTE), content.into_owned()));
            }
            set(canonical, MemberKey::Known(Field::Content), json::to_array(&found.parts));
        }
        // AG-UI has no such content.
        None if content.json_type() == JsonType::Array => {
            set(canonical, MemberKey::Known(Field::Content), Json::string(content.as_str()));
            carry::note_json(own, Field::Content);
        }
        None => {}
    }
}

/// Restores the stored form, or carries content that would be read differently.
pub(super) fn write(outgoing: &mut Members<'_>, stored: Option<Json<'static>>, canonical: &mut MessageMembers<'_>) {
    let Some(written) = get(outgoing, Field::Content) else { return };
    let whole = get(canonical, Field::Content);
    if let Some(stored) = stored
        && let Some(found) = parse_parts(&stored, true)
        && json::parse_elements(whole.unwrap_or(written)).is_some_and(|parts| parts == found.parts)
    {
        set(outgoing, MemberKey::Known(Field::Content), stored);
        remove(canonical, Field::Content);
        return;
    }
    let read_back = parse_parts(written, false);
    let is_same = match written.json_type() {
        JsonType::Array => read_back.is_some_and(|found| found.is_unchanged),
        _ => read_back.is_none(),
    };
    if !is_same && whole.is_none() {
        canonical.push((MemberKey::Known(Field::Content), written.clone().into_owned()));
    }
}

/// Returns `None` unless the content is a list of parts, or blocks with media among them. `was_json` means that the text
/// was a JSON value.
fn parse_parts(content: &Json<'_>, was_json: bool) -> Option<UserParts> {
    if content.json_type() == JsonType::Array {
        return convert_list(&json::parse_elements(content)?);
    }
    let text = content.text().filter(|text| text.starts_with(['{', '[']))?;
    let found = match text.starts_with('[') {
        true => convert(&json::parse_listed_values(&json::parse_value(&text)?)?)?,
        false => convert(&json::parse_sequence(&text)?)?,
    };
    if was_json && text.starts_with('[') {
        return Some(found);
    }
    content_parts::has_media(&json::to_array(&found.parts)).then_some(found)
}

/// Returns the parts of a list, which the content is the JSON text of.
pub(super) fn parse_list(content: &Json<'_>) -> Option<Json<'static>> {
    let list = content.text().filter(|text| text.starts_with('['))?;
    let list = json::parse_value(&list)?;
    Some(json::to_array(&convert(&json::parse_listed_values(&list)?)?.parts))
}

fn convert(values: &[Json<'_>]) -> Option<UserParts> {
    let parts: Vec<_> = values.iter().map(convert_part).collect::<Option<_>>()?;
    let is_unchanged = parts.iter().zip(values).all(|(part, value)| part == value);
    (!parts.is_empty()).then_some(UserParts { parts, is_unchanged })
}

/// Converts a list in which at least one element is a part or an output: the others become text.
fn convert_list(values: &[Json<'_>]) -> Option<UserParts> {
    let parts: Vec<_> = values.iter().map(convert_part).collect();
    if parts.iter().all(Option::is_none) {
        return None;
    }
    let parts: Vec<_> =
        parts.into_iter().zip(values).map(|(part, value)| part.unwrap_or_else(|| to_text(value))).collect();
    let is_unchanged = parts.iter().zip(values).all(|(part, value)| part == value);
    Some(UserParts { parts, is_unchanged })
}

fn to_text(value: &Json<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.string_member(json::TYPE, block::TEXT);
        object.member(block::TEXT, value.to_string_value().as_str());
    })
}

/// Converts a part or an output; AG-UI's parts stay unchanged.
fn convert_part(value: &Json<'_>) -> Option<Json<'static>> {
    if let Some(output) = json::parse_member(value, block::OUTPUT) {
        return convert_part(&output);
    }
    let mut members = json::parse_owned_members(value)?;
    let kind = carry::take(&mut members, json::TYPE)?;
    let kind = kind.text()?;
    if &*kind == block::TEXT {
        if is_string(find_member(&members, block::TEXT)) {
            return Some(value.clone().into_owned());
        }
        let text = take_value(&mut members)?;
        return Some(json::build_object(|object| {
            object.string_member(json::TYPE, block::TEXT);
            object.member(block::TEXT, text.as_str());
        }));
    }
    if !content_parts::MEDIA_TYPES.contains(&&*kind) {
        return content_parts::read_binary(value).or_else(|| read_url_part(&kind, members));
    }
    if find_member(&members, content_parts::SOURCE).is_some() {
        return Some(value.clone().into_owned());
    }
    let data = find_member(&members, block::DATA).filter(|data| data.json_type() == JsonType::Object);
    if let Some(data) = data.and_then(json::parse_owned_members) {
        carry::take(&mut members, block::DATA);
        members.extend(data);
    }
    let mime = media::TYPE_NAMES.iter().find_map(|name| carry::take(&mut members, name));
    let url = carry::take(&mut members, media::URL).filter(|url| is_string(Some(url)));
    let source = media_source(url.or_else(|| take_value(&mut members))?, mime);
    Some(json::build_object(|object| {
        object.string_member(json::TYPE, &kind);
        object.member(content_parts::SOURCE, source.as_str());
        if !members.is_empty() {
            object.member(Field::Metadata.camel(), json::to_object(&members).as_str());
        }
    }))
}

/// Converts `{type: "image_url", image_url: {url}}`, the form of the chat APIs of model providers.
fn read_url_part(kind: &str, mut members: Members<'static>) -> Option<Json<'static>> {
    let media_type = kind.strip_suffix(URL_SUFFIX).filter(|own| content_parts::MEDIA_TYPES.contains(own))?;
    let value = carry::take(&mut members, kind)?;
    let url = json::parse_member(&value, media::URL).unwrap_or(value);
    let source = media_source(Some(url).filter(|url| is_string(Some(url)))?.into_owned(), None);
    Some(json::build_object(|object| {
        object.string_member(json::TYPE, media_type);
        object.member(content_parts::SOURCE, source.as_str());
    }))
}

/// Takes the string of an output: its `content`, its `data`, or the `content` of its `data`.
fn take_value(members: &mut Members<'static>) -> Option<Json<'static>> {
    let value = [block::CONTENT, block::DATA].iter().find_map(|name| carry::take(members, name))?;
    match value.json_type() {
        JsonType::String => Some(value),
        _ => json::parse_member(&value, block::CONTENT).filter(|content| is_string(Some(content))),
    }
}

/// Builds the source of a URL, of a `data:` URL, or of data in base64, which requires a media type.
fn media_source(value: Json<'static>, mime: Option<Json<'static>>) -> Json<'static> {
    let text = value.text().unwrap_or_default();
    let inline = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let is_url = inline.is_none() && text.contains(':');
    let own_mime = inline.map(|(own, _)| Json::string(own)).filter(|_| mime.is_none());
    let data = inline.map_or_else(|| value.as_borrowed(), |(_, data)| Json::string(data));
    let mime = mime.or(own_mime).or_else(|| (!is_url).then(|| Json::string(media::UNKNOWN_TYPE)));
    json::build_object(|object| {
        object.string_member(json::TYPE, if is_url { media::URL } else { block::DATA });
        object.member(Field::Value.camel(), data.as_str());
        mime.iter().for_each(|mime| object.member(media::TYPE_NAMES[0], mime.as_str()));
    })
}

fn is_string(value: Option<&Json<'_>>) -> bool {
    value.is_some_and(|value| value.json_type() == JsonType::String)
}
