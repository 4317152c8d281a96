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
    members.retain(|(_, value)| !value.is_null());
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

/// Content for a side, and the parts themselves where the content does not give them back. `open`: what is carried is taken.
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
        Parts::Binary(_) if !takes_lists(side.pin, open) => flat(),
        Parts::Binary(_) => match json::elements(content).and_then(|parts| binary(&parts)) {
            Some((parts, exact)) => (parts, (!exact).then(|| content.clone())),
            None => flat(),
        },
    }
}

/// Whether content may be a list. In events it is fatal to 0.0.35 and 0.0.39 (measured); what a request may hold is said by the
/// seed (`content: string | InputContent[]`), unless the agent is known to be older than that.
fn takes_lists(pin: Pin, open: bool) -> bool {
    pin >= Pin::V0_0_42 || (pin == Pin::Any && !open)
}

/// Types of parts that say where their media are.
const MEDIA: [&str; 4] = ["image", "audio", "video", "document"];

/// Whether all parts are text, or media that are said by data or URL: what else there is came with 1.0.
fn is_inline(content: &Json<'_>) -> bool {
    let inline = |part: &Json<'_>| {
        let mut members = json::members(part)?;
        let kind = carry::take(&mut members, json::TYPE)?;
        if kind.is(TEXT) {
            return Some(true);
        }
        let mut source = json::members(&carry::take(&mut members, SOURCE)?).map(crate::event::owned)?;
        let from = carry::take(&mut source, json::TYPE)?;
        Some(MEDIA.iter().any(|own| kind.is(own)) && (from.is("data") || from.is("url")))
    };
    json::elements(content).is_some_and(|parts| parts.iter().all(|part| inline(part) == Some(true)))
}

/// Parts with media as `binary`, and whether that is all that they said. `None` when nothing of them can be said so.
fn binary(parts: &[Json<'_>]) -> Option<(Json<'static>, bool)> {
    let written: Vec<(Json<'static>, bool)> = parts.iter().filter_map(write_part).collect();
    let exact = written.len() == parts.len() && written.iter().all(|(_, exact)| *exact);
    let list: Vec<Json<'static>> = written.into_iter().map(|(part, _)| part).collect();
    (!list.is_empty()).then(|| (json::to_array(&list), exact))
}

/// One part, and whether that is all that it said.
fn write_part(part: &Json<'_>) -> Option<(Json<'static>, bool)> {
    let mut members = json::members(part)?;
    let kind = carry::take(&mut members, json::TYPE)?;
    if !kind.is(TEXT) {
        return write_binary(&kind, members);
    }
    let text = carry::take(&mut members, TEXT)?;
    let said = json::build(|object| {
        object.word(json::TYPE, TEXT);
        object.member(TEXT, text.as_str());
    });
    Some((said, members.is_empty()))
}

/// A media part as `binary`. What reading put into `metadata` is a member of the part again. A source without a media type
/// gets an empty one: "empty string for a now-required field is allowed" [spec versioning].
fn write_binary(kind: &Json<'_>, mut members: Members<'_>) -> Option<(Json<'static>, bool)> {
    let source = carry::take(&mut members, SOURCE)?;
    let mut source = json::members(&source)?;
    let from = carry::take(&mut source, json::TYPE)?;
    let at = SOURCES.iter().position(|(own, _)| from.is(own))?;
    let value = carry::take(&mut source, VALUE)?;
    let mime = carry::take(&mut source, MIME_TYPE);
    let metadata = carry::take(&mut members, METADATA);
    let said_more = metadata.as_ref().and_then(json::members).unwrap_or_default();
    // What reading would prefer to the source cannot stand beside it.
    let is_own = |(key, value): &(Key<'_>, Json<'_>)| {
        let mut names = SOURCES[at + 1..].iter().map(|(_, name)| *name).chain([FILENAME]);
        value.shape() == Type::String && names.any(|name| carry::is_named(key, name))
    };
    let own: Members<'_> = said_more.iter().filter(|member| is_own(member)).cloned().collect();
    let exact = mime.as_ref().and_then(Json::text).is_some_and(|mime| kind.is(kind_of(&mime)))
        && (members.is_empty() && source.is_empty())
        && (metadata.is_none() || (own.len() == said_more.len() && !own.is_empty()));
    let said = json::build(|object| {
        object.word(json::TYPE, BINARY);
        object.member(MIME_TYPE, mime.as_ref().map_or("\"\"", Json::as_str));
        object.member(SOURCES[at].1, value.as_str());
        own.iter().for_each(|member| object.copy(member, false));
    });
    Some((said, exact))
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
