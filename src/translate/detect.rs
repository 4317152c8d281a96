//! Which dialect a stream or a request is in: by the signs of `dialect/sign.rs`, and by what requests look like.
//!
//! A stream is AG-UI until it shows a sign of another dialect: until then both read the same, so nothing has to wait.

use super::carry;
use crate::codec::json;
use crate::dialect::{
    AG_UI, AG_UI_0, AG_UI_SNAKE, ALL, Content, Dialect, HAI, Mark, Pin, SIGNS, Side, Sign, Spelling, block,
};
use crate::event::{Field, Json, Key, Members, Type, get};

/// A dialect, and why it is taken to be that one.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// the dialect, with the options that could be seen
    pub side: Side,
    /// what it was told by
    pub because: &'static str,
}

/// How many events are looked at for members that tell the dialect; types are looked at as long as none was told.
const LOOKED_AT: u32 = 16;

/// How many bytes of events are kept for the reader that takes over; the first event is kept whatever its size.
const KEPT: usize = 256 << 10;

/// Looks for signs in a stream.
#[derive(Debug, Default)]
pub(super) struct Detector {
    events: u32,
    settled: bool,
    /// the first events, until a sign is found
    before: Vec<String>,
    /// bytes of those
    kept: usize,
}

impl Detector {
    /// The sign that the next event shows, if it is the first, and the events before it as far as they were kept.
    pub fn look(&mut self, data: &str) -> Option<(&'static Sign, Vec<String>)> {
        if self.settled {
            return None;
        }
        self.events += 1;
        // Later on a type alone can tell, and an event that does not hold the words need not be taken apart.
        let by_type = |sign: &Sign| matches!(sign.mark, Mark::Type(start) if data.contains(start));
        if self.events > LOOKED_AT && !SIGNS.iter().any(by_type) {
            return None;
        }
        let found = signs(data, self.events == 1)
            .next()
            .filter(|sign| self.events <= LOOKED_AT || matches!(sign.mark, Mark::Type(_)));
        self.settled = found.is_some();
        if found.is_none() && self.events <= LOOKED_AT && (self.events == 1 || self.kept + data.len() <= KEPT) {
            self.kept += data.len();
            self.before.push(data.to_owned());
        }
        found.map(|sign| (sign, std::mem::take(&mut self.before)))
    }
}

/// The signs that one event shows, the decisive one first.
pub fn signs(data: &str, first: bool) -> impl Iterator<Item = &'static Sign> {
    let members = json::open_object(data).ok();
    let wire = members.as_ref().and_then(|object| Some(object.kind.as_ref()?.text()?.into_owned()));
    let names: Vec<String> = members
        .into_iter()
        .flat_map(|object| object.members)
        .map(|(key, _)| match key {
            Key::Known(field) => field.camel().to_owned(),
            Key::Other(name) => name.into_owned(),
        })
        .collect();
    SIGNS.iter().filter(move |sign| {
        let has = |name: &str| names.iter().any(|own| own == name);
        wire.as_ref().is_some_and(|wire| sign.mark.fits(wire, &has, first))
    })
}

/// Which dialect a capture of a stream is in: the one with the most signs, the first to show one among equals. `events` are
/// the data of its frames.
pub fn stream<'e>(events: impl Iterator<Item = &'e str>) -> (Found, Vec<(usize, &'static Sign)>) {
    let mut seen: Vec<(usize, &'static Sign)> = Vec::new();
    let events: Vec<&str> = events.collect();
    for (at, data) in events.iter().enumerate() {
        let sign = signs(data, at == 0).next().filter(|sign| seen.iter().all(|(_, other)| other.mark != sign.mark));
        seen.extend(sign.map(|sign| (at, sign)));
    }
    let count = |dialect: &Dialect| seen.iter().filter(|(_, sign)| std::ptr::eq(sign.dialect, dialect)).count();
    let best = seen.iter().rev().max_by_key(|(_, sign)| count(sign.dialect));
    let found = match best {
        Some((_, sign)) => Found { side: form(Side::new(sign.dialect), events.iter().copied()), because: sign.words },
        None => Found { side: Side::new(&AG_UI), because: "nothing in it is of another dialect" },
    };
    (found, seen)
}

/// The same side in the form in which its events write text and members, where the dialect leaves a choice.
#[must_use]
pub fn form<'e>(side: Side, events: impl Iterator<Item = &'e str>) -> Side {
    let mut side = side;
    let takes = |option: &str| side.dialect.options.contains(&option);
    let (content, fields) = (takes("content"), takes("fields"));
    // A version that was asked for stays.
    let versioned = side.dialect.is_versioned() && side.pin == Pin::Any;
    let mut told = false;
    for data in events {
        let Ok(object) = json::object(data) else { continue };
        if versioned {
            side.pin = side.pin.max(version_of(side.dialect, &object));
        }
        let members = object.members;
        // The first text tells; a later one of the other form is noted as such when it is read.
        let blocks = says_block(&members).or_else(|| stores_blocks(get(&members, Field::Messages)).then_some(true));
        if let Some(blocks) = blocks.filter(|_| content && !told) {
            side.content = if blocks { Content::Blocks } else { Content::String };
            told = true;
        }
        if fields && shows_snake(data) {
            side.fields = Spelling::Snake;
        }
    }
    side
}

/// The version that a peer must have at least to say this.
fn version_of(dialect: &Dialect, object: &json::Object<'_>) -> Pin {
    let wire = object.kind.as_ref().and_then(Json::text).unwrap_or_default();
    let role =
        get(&object.members, Field::Role).is_some_and(|role| !role.is(crate::dialect::ASSISTANT) && !role.is("tool"));
    let messages = get(&object.members, Field::Messages).and_then(json::elements).unwrap_or_default();
    let has_parts = |message: &Json<'_>| {
        let message = json::members(message).unwrap_or_default();
        get(&message, Field::Content).is_some_and(|content| content.shape() == Type::Array)
    };
    let by_role = if role { Pin::V0_0_39 } else { Pin::Any };
    let by_parts = if messages.iter().any(has_parts) { Pin::V0_0_42 } else { Pin::Any };
    dialect.since(&wire).unwrap_or_default().max(by_role).max(by_parts)
}

/// Whether an event says text as a block, or as a string; thinking counts where our own writer made a block of it.
fn says_block(members: &Members<'_>) -> Option<bool> {
    let delta = get(members, Field::Delta)?;
    let ours = members.iter().any(|(key, _)| carry::is_named(key, "extra"));
    match super::text::delta(Some(delta)) {
        super::text::Delta::Block { kind, .. } if kind.is(block::TEXT) || ours => Some(true),
        super::text::Delta::Block { .. } => None,
        super::text::Delta::Plain => {
            let text = delta.shape() == Type::String && get(members, Field::MessageId).is_some();
            text.then_some(false)
        }
    }
}

/// Whether a list of messages has one that is stored as output blocks.
fn stores_blocks(messages: Option<&Json<'_>>) -> bool {
    let messages = messages.and_then(json::elements).unwrap_or_default();
    messages.iter().any(|message| json::members(message).is_some_and(|message| says_blocks(&message)))
}

/// Whether a HAI event spells its members in snake_case.
fn shows_snake(data: &str) -> bool {
    let members = json::open_object(data).map(|object| object.members).unwrap_or_default();
    members.iter().any(|(key, _)| {
        matches!(key, Key::Other(name) if *name == Field::MessageId.snake() || *name == Field::ToolCallId.snake())
    })
}

/// Which dialect the client of a request speaks. A guess where nothing tells it: clients of AG-UI 1.0 say so, older ones
/// send all seven members, and the HAI document's own request lacks `state` (§3.3.1).
#[must_use]
pub fn request(body: &str) -> Found {
    let members = json::open_object(body).map(json::all_members).unwrap_or_default();
    let has = |name: &str| members.iter().any(|(key, _)| carry::is_named(key, name));
    let messages = members.iter().find(|(key, _)| carry::is_named(key, Field::Messages.camel()));
    let messages: Vec<Members<'static>> = messages
        .and_then(|(_, list)| json::elements(list))
        .unwrap_or_default()
        .iter()
        .filter_map(|message| json::members(message).map(crate::event::owned))
        .collect();
    let found = |dialect: &'static Dialect, because| Found { side: Side::new(dialect), because };
    if has(Field::ProtocolVersion.camel()) {
        return found(&AG_UI, "the request says its protocolVersion");
    }
    if messages.iter().any(says_blocks) {
        let side = Side { content: Content::Blocks, ..Side::new(&HAI) };
        return Found { side, because: "a message is stored as output blocks (HAI §4.1)" };
    }
    if messages.iter().any(|message| message.iter().any(|(key, _)| carry::is_named(key, "extra"))) {
        return found(&HAI, "a message has extra (HAI §3.2.2)");
    }
    for dialect in ALL {
        let worded = |message: &Members<'_>| {
            let role = get(message, Field::Role).and_then(Json::text);
            dialect.words.iter().any(|word| word.field == Field::Role && role.as_deref() == Some(word.word))
        };
        if messages.iter().any(worded) {
            return found(dialect, "a message's role is a word of that dialect");
        }
    }
    if has(Field::ThreadId.snake()) {
        return found(&AG_UI_SNAKE, "the request has a thread_id");
    }
    let six = [Field::ThreadId, Field::RunId, Field::Context, Field::Tools, Field::ForwardedProps];
    if six.iter().all(|field| has(field.camel())) && !has(Field::State.camel()) {
        return found(&HAI, "the request has all members but state (HAI §3.3.1)");
    }
    found(&AG_UI_0, "the request says no protocolVersion, as before AG-UI 1.0")
}

/// Whether a message is an assistant's, stored as output blocks.
fn says_blocks(message: &Members<'_>) -> bool {
    let content = get(message, Field::Content).filter(|content| content.shape() == Type::String);
    content.and_then(Json::text).is_some_and(|text| {
        let first = json::sequence(&text).and_then(|values| values.into_iter().next().map(Json::into_owned));
        first.as_ref().is_some_and(|value| super::text::said(value).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_by_what_their_documents_print() {
        let rows: &[(&[&str], &str)] = &[
            // HAI §4.2 build_run_started, §3.3.1
            (&[r#"{"type":"RUN_STARTED","messageId":"m","role":"assistant","timestamp":1}"#], "hai"),
            (&[r#"{"type":"BUSINESS_DATA_START","messageId":"msg-2","role":"assistant"}"#], "hai"),
            // 002 RUN_STARTED
            (&[r#"{"type":"RUN_STARTED","timestamp":10693854,"thread_id":"1","run_id":"1"}"#], "ag-ui-snake"),
            // 003 响应格式
            (&[r#"{"type":"TEXT_MESSAGE_START","messageId":"msg-1"}"#, r#"{"type":"RUN_FINISHED"}"#], "cloudbase"),
            // 004 §3.2
            (
                &[
                    r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
                    r#"{"type":"STEP_STARTED","threadId":"t","runId":"r","stepName":"router"}"#,
                ],
                "social-app",
            ),
            (&[r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#, r#"{"type":"THINKING_START"}"#], "ag-ui-0"),
            // 001 响应示例, which AG-UI 1.0 would say in the same words
            (
                &[
                    r#"{"type":"RUN_STARTED","threadId":"thread_001","runId":"run_001"}"#,
                    r#"{"type":"TEXT_MESSAGE_START","messageId":"msg_1","role":"assistant"}"#,
                ],
                "ag-ui",
            ),
            (&[r#"{"type":"RUN_ERROR","message":"x"}"#], "ag-ui"),
        ];
        for (events, dialect) in rows {
            let (found, _) = stream(events.iter().copied());
            assert_eq!(found.side.dialect.name, *dialect, "{events:?}: {}", found.because);
        }
    }

    #[test]
    fn the_options_of_hai_are_seen() {
        let events =
            [r#"{"type":"BUSINESS_DATA_CONTENT","message_id":"m","delta":{"output":{"type":"text","content":"a"}}}"#];
        let (found, _) = stream(events.into_iter());
        assert_eq!((found.side.content, found.side.fields), (Content::Blocks, Spelling::Snake));
    }

    #[test]
    fn requests_are_told_by_what_their_clients_send() {
        let rows = [
            (r#"{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[]}"#, "ag-ui"),
            (
                r#"{"threadId":"t","runId":"r","state":{},"messages":[],"tools":[],"context":[],"forwardedProps":{}}"#,
                "ag-ui-0",
            ),
            // HAI §3.3.1
            (
                r#"{"threadId":"t","runId":"r","messages":[{"id":"msg_1","role":"user","content":"介绍下HAI"}],"context":[],"tools":[],"forwardedProps":{}}"#,
                "hai",
            ),
            (r#"{"messages":[{"id":"1","role":"user","content":"a","extra":{}}]}"#, "hai"),
            (r#"{"messages":[{"id":"1","role":"用户","content":"a"}]}"#, "ag-ui-snake"),
            (r#"{"thread_id":"t","messages":[]}"#, "ag-ui-snake"),
            ("no JSON", "ag-ui-0"),
        ];
        for (body, dialect) in rows {
            let found = request(body);
            assert_eq!(found.side.dialect.name, dialect, "{body}: {}", found.because);
        }
        let stored = r#"{"messages":[{"id":"1","role":"assistant","content":"{\"output\":{\"type\":\"text\",\"content\":\"a\"}}{\"output\":{\"type\":\"text\",\"content\":\"b\"}}"}]}"#;
        assert_eq!(request(stored).side.content, Content::Blocks);
    }
}
