//! Tests of the protobuf transport; `value.rs` and `wire.rs` contain their own.

mod events;
mod frames;
mod table;

use super::{ProtoDecoder, ProtoStep, WireFidelity, encode_frame};
use crate::codec::json;
use crate::event::EventType;

/// Encodes an event from its JSON.
fn encode_event(text: &str) -> (Vec<u8>, WireFidelity) {
    let object = json::parse_object(text).expect("an event");
    let kind = object.kind.and_then(|kind| EventType::from_wire(&kind.text()?)).expect("a kind");
    let mut out = Vec::new();
    let fidelity = encode_frame(&mut out, kind, &object.members).expect("no limit is near");
    (out, fidelity)
}

/// Decodes the single event in these bytes.
fn decode_one(bytes: &[u8]) -> String {
    let (mut decoder, mut rest) = (ProtoDecoder::default(), bytes);
    match decoder.next(&mut rest) {
        ProtoStep::Event { text, dropped: 0 } if rest.is_empty() => text,
        other => panic!("{other:?}, {} bytes left", rest.len()),
    }
}

/// Prefixes a message with its length.
fn with_length_prefix(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a small message");
    [&length.to_be_bytes()[..], message].concat()
}

/// Decodes hex digits; `(…)` is replaced by its content, prefixed with the content's length.
fn unhex(text: &str) -> Vec<u8> {
    let mut open: Vec<Vec<u8>> = vec![Vec::new()];
    let mut high = None;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '(' => open.push(Vec::new()),
            ')' => {
                let inner = open.pop().expect("an opened message");
                let outer = open.last_mut().expect("the message around it");
                super::wire::write_varint(outer, inner.len() as u64);
                outer.extend(inner);
            }
            digit => {
                let digit = u8::try_from(digit.to_digit(16).expect("a hex digit")).expect("small");
                match high.take() {
                    None => high = Some(digit),
                    Some(high) => open.last_mut().expect("a message").push(high << 4 | digit),
                }
            }
        }
    }
    open.pop().expect("the bytes")
}

/// Normalizes JSON: members sorted by name, escapes resolved, digits kept.
fn normalise_json(text: &str) -> String {
    let value = json::parse_value(text).expect("JSON");
    match value.as_str().as_bytes()[0] {
        b'{' => {
            let mut members: Vec<(String, String)> = json::parse_members(&value)
                .expect("an object")
                .into_iter()
                .map(|(key, value)| {
                    let key = match key {
                        crate::event::MemberKey::Known(field) => field.camel().to_owned(),
                        crate::event::MemberKey::Other(name) => name.into_owned(),
                    };
                    (key, normalise_json(value.as_str()))
                })
                .collect();
            members.sort();
            format!("{members:?}")
        }
        b'[' => {
            let all: Vec<String> = json::parse_elements(&value)
                .expect("an array")
                .iter()
                .map(|one| normalise_json(one.as_str()))
                .collect();
            format!("{all:?}")
        }
        b'"' => format!("s{}", value.text().expect("a string")),
        _ => value.as_str().to_owned(),
    }
}
