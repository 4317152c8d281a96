//! Content parts of messages: what a dialect without them shows, and the `binary` parts of AG-UI before 1.0
//! (`seeds/001_59bea8f43136049a.txt`, 多模态输入内容; `specs/ag-ui-1.0.md` §1.3).

use super::carry;
use crate::codec::json;
use crate::dialect::{Parts, Pin, Side};
use crate::event::{Json, Key, Members, Type};
use std::borrow::Cow;

/// Text between the text parts of a message that becomes one string.
const JOINT: &str = "\n";

const BINARY: &str = "binary";
const TEXT: &str = "text";
const SOURCE: &str = "source";
const METADATA: &str = "metadata";
const FILENAME: &str = "filename";
const MIME_TYPE: &str = "mimeType";
const VALUE: &str = "value";

/// Sources of a media part, and the member of a `binary` part that says the same.
const SOURCES: [(&str, &str); 3] = [("data", "data"), ("url", "url"), ("file", "id")];

/// The kind of media part that a media type makes.
fn kind_of(mime_type: &str) -> &'static str {
    match mime_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    }
}

/// The list with its `binary` parts turned into media parts. `None` when it has none.
pub(super) fn read(content: &Json<'_>) -> Option<Json<'static>> {
    let parts = json::elements(content)?;
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

/// Data is preferred to a URL, a URL to the id of a file.
fn read_binary(part: &Json<'_>) -> Option<Json<'static>> {
    let mut members = json::members(part)?;
    if !carry::take(&mut members, json::TYPE)?.is(BINARY) {
        return None;
    }
    let mime = carry::take(&mut members, MIME_TYPE)?;
    let (source, value) =
        SOURCES.iter().find_map(|(source, member)| Some((*source, carry::take(&mut members, member)?)))?;
    let source = json::build(|object| {
        object.word(json::TYPE, source);
        object.member(VALUE, value.as_str());
        object.member(MIME_TYPE, mime.as_str());
    });
    Some(json::build(|object| {
        object.word(json::TYPE, kind_of(&mime.text().unwrap_or_default()));
        object.member(SOURCE, source.as_str());
        // File name and whatever else the part has; the real client puts the name there too.
        if !members.is_empty() {
            object.member(METADATA, json::to_object(&members).as_str());
        }
    }))
}

/// Content for a side, and the parts themselves where the content does not give them back.
pub(super) fn write<'a>(
    content: &Json<'a>,
    side: Side,
    open: bool,
    role: Option<&Json<'_>>,
) -> (Json<'a>, Option<Json<'a>>) {
    let flat = || (Json::string(&text(content)), Some(content.clone()));
    match side.dialect.message.parts {
        Parts::Media => (content.clone(), None),
        Parts::Never => flat(),
        // A tool's result has parts from 1.0 on.
        Parts::Binary(_) if role.is_some_and(|role| role.is("tool")) => flat(),
        Parts::Binary(since) if side.pin >= since && is_inline(content) => (content.clone(), None),
        // Who takes what is carried need not be sent what the oldest cannot read.
        Parts::Binary(_) if open && side.pin < Pin::V0_0_42 => flat(),
        Parts::Binary(_) => match json::elements(content).and_then(|parts| binary(&parts)) {
            Some(parts) => (parts, None),
            None => flat(),
        },
    }
}

/// Whether all media are said by data or URL: files at a provider came with 1.0.
fn is_inline(content: &Json<'_>) -> bool {
    let inline = |part: &Json<'_>| {
        let source = json::members(part).and_then(|mut part| carry::take(&mut part, SOURCE));
        let Some(mut source) = source.as_ref().map(|source| json::members(source).unwrap_or_default()) else {
            return true;
        };
        carry::take(&mut source, json::TYPE).is_some_and(|kind| kind.is("data") || kind.is("url"))
    };
    json::elements(content).is_some_and(|parts| parts.iter().all(inline))
}

/// Parts with media as `binary`. `None` when they are all text, or one has no such form.
fn binary(parts: &[Json<'_>]) -> Option<Json<'static>> {
    let mut media = false;
    let written: Option<Vec<Json<'static>>> = parts
        .iter()
        .map(|part| {
            let mut members = json::members(part)?;
            if carry::take(&mut members, json::TYPE)?.is(TEXT) {
                return members.iter().all(|(key, _)| carry::is_named(key, TEXT)).then(|| part.clone().into_owned());
            }
            media = true;
            write_binary(members)
        })
        .collect();
    written.filter(|_| media).map(|parts| json::to_array(&parts))
}

fn write_binary(mut members: Members<'_>) -> Option<Json<'static>> {
    let source = carry::take(&mut members, SOURCE)?;
    let mut source = json::members(&source)?;
    let kind = carry::take(&mut source, json::TYPE)?;
    let (_, name) = SOURCES.iter().find(|(own, _)| kind.is(own))?;
    let value = carry::take(&mut source, VALUE)?;
    let mime = carry::take(&mut source, MIME_TYPE)?;
    let metadata = carry::take(&mut members, METADATA);
    let metadata = metadata.as_ref().and_then(json::members).unwrap_or_default();
    let named = |key: &Key<'_>| carry::is_named(key, FILENAME);
    if metadata.iter().any(|(key, value)| !named(key) || value.shape() != Type::String) {
        return None;
    }
    Some(json::build(|object| {
        object.word(json::TYPE, BINARY);
        object.member(MIME_TYPE, mime.as_str());
        object.member(name, value.as_str());
        metadata.iter().for_each(|member| object.copy(member, false));
    }))
}

/// The text of all text parts: what a dialect without parts can show.
pub(super) fn text(value: &Json<'_>) -> String {
    let parts = json::elements(value).unwrap_or_default();
    let texts: Vec<String> = parts
        .iter()
        .filter_map(|part| {
            let mut members = json::members(part)?;
            carry::take(&mut members, TEXT)?.text().map(Cow::into_owned)
        })
        .collect();
    texts.join(JOINT)
}
