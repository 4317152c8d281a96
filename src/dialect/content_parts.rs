//! Message content parts: plain text for dialects without parts, and the `binary` parts of AG-UI before 1.0
//! (`seeds/001_59bea8f43136049a.txt`, 多模态输入内容; `specs/ag-ui-1.0.md` §1.3).

use super::carry;
use crate::codec::json;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::table::{ContentParts, PeerDialect};
use crate::event::input::{TOOL, USER};
use crate::event::{Json, JsonType, MemberKey, Members, find_member};
use std::borrow::Cow;

const SEPARATOR: &str = "\n";

const BINARY: &str = "binary";
const TEXT: &str = "text";
pub(crate) const SOURCE: &str = "source";
const METADATA: &str = "metadata";
const FILENAME: &str = "filename";
pub(crate) const MIME_TYPE: &str = "mimeType";
const VALUE: &str = "value";

/// Media source types, and the equivalent members of a `binary` part.
const SOURCE_MEMBERS: [(&str, &str); 3] = [("data", "data"), ("url", "url"), ("file", "id")];

/// Stands for a missing media type: a `binary` part has no other place for the kind of its media. For a document
/// it is empty.
const MEDIA_RANGES: [(&str, &str); 3] = [("image", "image/*"), ("audio", "audio/*"), ("video", "video/*")];

fn is_media_range(mime: &Json<'_>) -> bool {
    MEDIA_RANGES.iter().any(|(_, range)| mime.is_str(range))
}

fn media_kind(mime_type: &str) -> &'static str {
    match mime_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    }
}

/// Converts `binary` parts to media parts; returns `None` if there are none.
pub(crate) fn read(content: &Json<'_>) -> Option<Json<'static>> {
    let parts = json::parse_elements(content)?;
    let mut changed = false;
    let read: Vec<Json<'static>> = parts
        .iter()
        .map(|part| match read_binary(part) {
            Some(media) => {
                changed = true;
                media
            }
            None => part.clone().into_owned(),
        })
        .collect();
    changed.then(|| json::to_array(&read))
}

/// Converts a `binary` part; prefers data to a URL, and a URL to a file id.
pub(crate) fn read_binary(part: &Json<'_>) -> Option<Json<'static>> {
    let mut members = json::parse_members(part)?;
    if !carry::take(&mut members, json::TYPE)?.is_str(BINARY) {
        return None;
    }
    members.retain(|(_, value)| !value.is_null());
    let mime = carry::take(&mut members, MIME_TYPE)?;
    let (source, value) =
        SOURCE_MEMBERS.iter().find_map(|(source, member)| Some((*source, carry::take(&mut members, member)?)))?;
    // "DataSource { type: "data", value: string, mimeType: string }": only other sources may lack it [spec content
    // parts].
    let is_stated = source == "data" || !is_media_range(&mime);
    let source = json::build_object(|object| {
        object.string_member(json::TYPE, source);
        object.member(VALUE, value.as_str());
        if is_stated {
            object.member(MIME_TYPE, mime.as_str());
        }
    });
    Some(json::build_object(|object| {
        object.string_member(json::TYPE, media_kind(&mime.text().unwrap_or_default()));
        object.member(SOURCE, source.as_str());
        // The file name and all other members; the real client also puts the name here.
        if !members.is_empty() {
            object.member(METADATA, json::to_object(&members).as_str());
        }
    }))
}

/// Returns the content for a peer, and the original parts if any would be lost.
pub(crate) fn write<'a>(content: &Json<'a>, side: PeerDialect, role: Option<&str>) -> (Json<'a>, Option<Json<'a>>) {
    let flat = || (Json::string(&joined_text(content)), Some(content.clone()));
    match side.dialect.message.parts {
        ContentParts::Media => (content.clone(), None),
        ContentParts::OfUser if role == Some(USER) && has_media(content) => (content.clone(), None),
        ContentParts::OfUser => flat(),
        // Tool results can have parts only since 1.0.
        ContentParts::Binary(_) if role == Some(TOOL) => flat(),
        ContentParts::Binary(since) if side.peer_version >= since && is_inline(content) => (content.clone(), None),
        ContentParts::Binary(_) if !accepts_lists(side.peer_version) => flat(),
        ContentParts::Binary(_) => match json::parse_elements(content).and_then(|parts| to_binary_parts(&parts)) {
            Some((parts, exact)) => (parts, (!exact).then(|| content.clone())),
            None => flat(),
        },
    }
}

/// Returns true if the peer accepts a list as content. The seed has lists (`content: string | InputContent[]`); 0.0.35
/// and 0.0.39 fail on one (measured), so a peer that is pinned to them gets none.
fn accepts_lists(pin: PeerVersion) -> bool {
    pin >= PeerVersion::V0_0_42 || pin == PeerVersion::Any
}

pub(crate) const MEDIA_TYPES: [&str; 4] = ["image", "audio", "video", "document"];

/// Returns true if every part is text, or media with data or a URL. All other parts were introduced in 1.0.
fn is_inline(content: &Json<'_>) -> bool {
    let inline = |part: &Json<'_>| {
        let mut members = json::parse_members(part)?;
        let kind = carry::take(&mut members, json::TYPE)?;
        if kind.is_str(TEXT) {
            return Some(true);
        }
        let mut source = json::parse_owned_members(&carry::take(&mut members, SOURCE)?)?;
        let from = carry::take(&mut source, json::TYPE)?;
        Some(MEDIA_TYPES.iter().any(|own| kind.is_str(own)) && (from.is_str("data") || from.is_str("url")))
    };
    json::parse_elements(content).is_some_and(|parts| parts.iter().all(|part| inline(part) == Some(true)))
}

/// Converts media to `binary`; returns true if nothing was lost, and `None` if a part cannot be converted.
fn to_binary_parts(parts: &[Json<'_>]) -> Option<(Json<'static>, bool)> {
    let written: Vec<(Json<'static>, bool)> = parts.iter().filter_map(write_part).collect();
    let exact = written.len() == parts.len() && written.iter().all(|(_, exact)| *exact);
    let list: Vec<Json<'static>> = written.into_iter().map(|(part, _)| part).collect();
    (!list.is_empty()).then(|| (json::to_array(&list), exact))
}

fn write_part(part: &Json<'_>) -> Option<(Json<'static>, bool)> {
    let mut members = json::parse_members(part)?;
    let kind = carry::take(&mut members, json::TYPE)?;
    if !kind.is_str(TEXT) {
        return write_binary(&kind, members);
    }
    let text = carry::take(&mut members, TEXT)?;
    let part = json::build_object(|object| {
        object.string_member(json::TYPE, TEXT);
        object.member(TEXT, text.as_str());
    });
    Some((part, members.is_empty()))
}

/// Converts a media part to `binary`, restoring the members that were moved to `metadata` on reading. A missing media
/// type becomes that of all media of the kind, or empty: "empty string for a now-required field is allowed" [spec
/// versioning].
fn write_binary(kind: &Json<'_>, mut members: Members<'_>) -> Option<(Json<'static>, bool)> {
    let source = carry::take(&mut members, SOURCE)?;
    let mut source = json::parse_members(&source)?;
    let from = carry::take(&mut source, json::TYPE)?;
    let at = SOURCE_MEMBERS.iter().position(|(own, _)| from.is_str(own))?;
    let value = carry::take(&mut source, VALUE)?;
    let mime = carry::take(&mut source, MIME_TYPE);
    let metadata = carry::take(&mut members, METADATA);
    let other_metadata = metadata.as_ref().and_then(json::parse_members).unwrap_or_default();
    // The reader would prefer such a member to the source, so they cannot be written together.
    let is_own = |(key, value): &(MemberKey<'_>, Json<'_>)| {
        let mut names = SOURCE_MEMBERS[at + 1..].iter().map(|(_, name)| *name).chain([FILENAME]);
        value.json_type() == JsonType::String && names.any(|name| carry::is_named(key, name))
    };
    let own: Members<'_> = other_metadata.iter().filter(|member| is_own(member)).cloned().collect();
    let range = MEDIA_RANGES.iter().find(|(own, _)| kind.is_str(own)).map(|(_, range)| Json::string(range));
    let is_data = from.is_str("data");
    let keeps_type = match &mime {
        Some(mime) => {
            mime.text().is_some_and(|mime| kind.is_str(media_kind(&mime))) && (is_data || !is_media_range(mime))
        }
        None => range.is_some() && !is_data,
    };
    let mime = mime.or(range).unwrap_or(Json::EMPTY_STRING);
    let exact = keeps_type
        && (members.is_empty() && source.is_empty())
        && (metadata.is_none() || (own.len() == other_metadata.len() && !own.is_empty()));
    let part = json::build_object(|object| {
        object.string_member(json::TYPE, BINARY);
        object.member(MIME_TYPE, mime.as_str());
        object.member(SOURCE_MEMBERS[at].1, value.as_str());
        own.iter().for_each(|member| object.copy_member(member, false));
    });
    Some((part, exact))
}

/// Joins all text parts, for dialects without content parts.
pub(crate) fn joined_text(value: &Json<'_>) -> String {
    let parts = json::parse_elements(value).unwrap_or_default();
    let texts: Vec<String> =
        parts.iter().filter_map(|part| json::parse_member(part, TEXT)?.text().map(Cow::into_owned)).collect();
    texts.join(SEPARATOR)
}

/// Returns true if a part is not text.
pub(crate) fn has_media(content: &Json<'_>) -> bool {
    count_media(content) > 0
}

/// Returns the number of parts other than text.
pub(crate) fn count_media(content: &Json<'_>) -> usize {
    let is_text = |part: &Json<'_>| json::parse_member(part, json::TYPE).is_some_and(|kind| kind.is_str(TEXT));
    let parts = Some(content).filter(|content| content.json_type() == JsonType::Array).and_then(json::parse_elements);
    parts.unwrap_or_default().iter().filter(|part| !is_text(part)).count()
}

/// Returns true for a list of parts in AG-UI's form.
pub(crate) fn is_ag_ui_parts(value: &Json<'_>) -> bool {
    let is_known = |part: &Json<'_>| {
        let Ok(part) = json::parse_object(part.as_str()) else { return false };
        let is_of =
            |kinds: &[&str]| part.kind.as_ref().is_some_and(|kind| kinds.iter().any(|known| kind.is_str(known)));
        let has = |name| find_member(&part.members, name).is_some();
        (is_of(&[TEXT]) && has(TEXT)) || (is_of(&MEDIA_TYPES) && has(SOURCE))
    };
    is_parts(value) && json::parse_elements(value).unwrap_or_default().iter().all(is_known)
}

pub(crate) fn is_parts(value: &Json<'_>) -> bool {
    value.json_type() == JsonType::Array
        && json::parse_elements(value).is_some_and(|parts| {
            !parts.is_empty()
                && parts.iter().all(|part| json::parse_object(part.as_str()).is_ok_and(|part| part.kind.is_some()))
        })
}
