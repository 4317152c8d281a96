//! JSON objects as lists of members, parsed in one scan that keeps each value's text.
//!
//! The scan (`scan.rs`) validates the text and finds the end of each value; no tree is built, so digits, escapes and
//! order survive. Where it gives up, serde_json decides (`visitors.rs`). The last duplicate of a key wins, as in
//! `JSON.parse`.

mod scan;
mod visitors;
mod object_writer;
mod sequence;
mod path_tree;
#[cfg(test)]
mod scan_tests;

use crate::event::{Field, Json, JsonType, Member, MemberKey, Members, find_member, into_owned_members};
pub(crate) use object_writer::ObjectWriter;
pub(crate) use path_tree::{JsonStep, PathTree};
use scan::{ScanFailure, ValueScanner};
pub(crate) use sequence::{parse_listed_values, parse_sequence};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Maximum nesting depth. serde_json skips raw values of any depth, but a later parser may recurse.
pub(crate) const DEPTH_LIMIT: usize = 200;

/// Maximum number of members in an object, so that lookups by name stay cheap. Application content (state, arguments,
/// values) is not parsed.
pub(crate) const MEMBERS_LIMIT: usize = 256;

/// Initial capacity, enough for most events to be parsed with one allocation.
const USUAL_MEMBERS: usize = 8;

/// Initial capacity for the text of an object of unknown length.
const SMALL_OBJECT: usize = 64;

/// An event or message as received: `type`, and the other members in order.
#[derive(Debug)]
pub struct JsonObject<'a> {
    /// the value of `type`
    pub kind: Option<Json<'a>>,
    pub(crate) members: Members<'a>,
    /// whether each known member used its canonical name and occurred once
    pub(crate) canonical: bool,
    /// one bit per known member, and one per camelCase spelling
    seen_fields: u64,
    camel_fields: u64,
}

/// The reason and position of a JSON error.
#[derive(Debug)]
pub struct MalformedJson(String);

impl fmt::Display for MalformedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedJson {}

/// Parses an event, a message or a request, with known members in either spelling.
///
/// # Errors
///
/// Fails if the text is not exactly one JSON object, or is nested deeper than [`DEPTH_LIMIT`].
pub fn parse_object(text: &str) -> Result<JsonObject<'_>, MalformedJson> {
    read(text, NameMatching::BothSpellings)
}

/// Parses an object with arbitrary names, such as metadata, an output block or a patch operation.
///
/// # Errors
///
/// Fails as [`parse_object`] does.
pub fn parse_open_object(text: &str) -> Result<JsonObject<'_>, MalformedJson> {
    read(text, NameMatching::Verbatim)
}

/// Controls whether `run_id` is read as `runId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameMatching {
    BothSpellings,
    Verbatim,
}

fn read(text: &str, names: NameMatching) -> Result<JsonObject<'_>, MalformedJson> {
    if let Ok(object) = scan_object(text, names) {
        return Ok(object);
    }
    check_depth(text)?;
    read_object(text, names).map_err(into_malformed)
}

/// Reads an object with serde_json.
fn read_object(text: &str, names: NameMatching) -> serde_json::Result<JsonObject<'_>> {
    let mut object = JsonObject::new();
    visitors::read_object(text, |name, value| {
        let added = object.add(name, Json::from_trusted(value), names);
        added.map_err(|TooManyMembers| format!("more than {MEMBERS_LIMIT} members"))
    })?;
    Ok(object)
}

fn scan_object(text: &str, names: NameMatching) -> Result<JsonObject<'_>, ScanFailure> {
    let mut object = JsonObject::new();
    let mut scanner = ValueScanner::new(text, DEPTH_LIMIT);
    scanner.take_object(|name, value| {
        object.add(name.decode()?, Json::from_trusted(value), names).map_err(|TooManyMembers| ScanFailure)
    })?;
    scanner.finish().map(|()| object)
}

/// Parses an object with arbitrary names, `type` included; returns `None` for other values.
#[must_use]
pub(crate) fn parse_members<'a>(value: &'a Json<'_>) -> Option<Members<'a>> {
    // Most values that get here are strings; skip the cost of building an error for them.
    if value.json_type() != JsonType::Object {
        return None;
    }
    parse_open_object(value.as_str()).ok().map(members_with_type)
}

#[must_use]
pub(crate) fn parse_owned_members(value: &Json<'_>) -> Option<Members<'static>> {
    parse_members(value).map(into_owned_members)
}

/// Parses an object and returns one of its members.
#[must_use]
pub(crate) fn parse_member(value: &Json<'_>, name: &str) -> Option<Json<'static>> {
    find_member(&parse_members(value)?, name).cloned().map(Json::into_owned)
}

/// Parses a message in either spelling, `type` included; returns `None` for other values.
#[must_use]
pub(crate) fn parse_message<'a>(value: &'a Json<'_>) -> Option<Members<'a>> {
    parse_object(value.as_str()).ok().map(members_with_type)
}

#[must_use]
pub(crate) fn members_with_type(object: JsonObject<'_>) -> Members<'_> {
    let JsonObject { kind, mut members, .. } = object;
    if let Some(kind) = kind {
        members.insert(0, (MemberKey::Other(Cow::Borrowed(TYPE)), kind));
    }
    members
}

#[must_use]
pub(crate) fn parse_elements<'a>(value: &'a Json<'_>) -> Option<Vec<Json<'a>>> {
    parse_first_elements(value, usize::MAX).map(|(elements, _)| elements)
}

/// Parses the first `most` elements but counts all of them: a small array may contain millions.
#[must_use]
pub(crate) fn parse_first_elements<'a>(value: &'a Json<'_>, most: usize) -> Option<(Vec<Json<'a>>, usize)> {
    parse_element_text(value.as_str(), most)
}

/// Parses the first `most` elements of an array, which live as long as its text, and counts all of them.
#[must_use]
pub(crate) fn parse_element_text(text: &str, most: usize) -> Option<(Vec<Json<'_>>, usize)> {
    if !text.starts_with('[') {
        return None;
    }
    let mut elements = Vec::new();
    let mut count = 0;
    let scanned = ValueScanner::new(text, DEPTH_LIMIT).take_array(|element| {
        if count < most {
            elements.push(Json::from_trusted(element));
        }
        count += 1;
    });
    match scanned {
        Ok(()) => Some((elements, count)),
        Err(ScanFailure) => read_array(text, most),
    }
}

/// Returns the number of elements of an array, without memory for them; 0 for any other value.
#[must_use]
pub(crate) fn count_elements(value: &Json<'_>) -> usize {
    parse_first_elements(value, 0).map_or(0, |(_, count)| count)
}

/// Reads an array with serde_json.
fn read_array(text: &str, most: usize) -> Option<(Vec<Json<'_>>, usize)> {
    let mut elements = Vec::new();
    let count = visitors::read_array(text, |count, element| {
        if count < most {
            elements.push(Json::from_trusted(element));
        }
    });
    Some((elements, count.ok()?))
}

/// Parses one JSON value with limited nesting.
#[must_use]
pub(crate) fn parse_value(text: &str) -> Option<Json<'_>> {
    let mut scanner = ValueScanner::new(text, DEPTH_LIMIT);
    if let Ok(value) = scanner.take_value()
        && scanner.finish().is_ok()
    {
        return Some(Json::from_trusted(value));
    }
    check_depth(text).ok()?;
    serde_json::from_str::<&RawValue>(text).ok().map(|raw| Json::from_trusted(raw.get()))
}

pub(crate) const TYPE: &str = "type";

fn into_malformed(error: serde_json::Error) -> MalformedJson {
    MalformedJson(error.to_string())
}

fn check_depth(text: &str) -> Result<(), MalformedJson> {
    if exceeds_depth(text) { Err(MalformedJson(format!("nested deeper than {DEPTH_LIMIT} levels"))) } else { Ok(()) }
}

/// Returns true if the nesting is too deep. Counts opening brackets first: only text with more than [`DEPTH_LIMIT`] of
/// them needs an exact count.
fn exceeds_depth(text: &str) -> bool {
    let bytes = text.as_bytes();
    if memchr::memchr2_iter(b'{', b'[', bytes).nth(DEPTH_LIMIT).is_none() {
        return false;
    }
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > DEPTH_LIMIT {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The object has more than [`MEMBERS_LIMIT`] members.
struct TooManyMembers;

impl<'a> JsonObject<'a> {
    fn new() -> Self {
        JsonObject {
            kind: None,
            members: Members::with_capacity(USUAL_MEMBERS),
            canonical: true,
            seen_fields: 0,
            camel_fields: 0,
        }
    }

    fn add(&mut self, name: Cow<'a, str>, value: Json<'a>, names: NameMatching) -> Result<(), TooManyMembers> {
        if name == TYPE {
            self.canonical &= self.kind.is_none();
            self.kind = Some(value);
            return Ok(());
        }
        self.insert(name, value, names)
    }

    /// Adds a member. camelCase wins over snake_case, and the last duplicate wins.
    fn insert(&mut self, name: Cow<'a, str>, value: Json<'a>, names: NameMatching) -> Result<(), TooManyMembers> {
        let found = Field::find(&name).filter(|found| found.is_camel || names == NameMatching::BothSpellings);
        let field = found.map(|found| found.field);
        let camel = found.is_none_or(|found| found.is_camel);
        let bit = field.map_or(0, Field::bit);
        // Most names are canonical and occur once.
        if let Some(field) = field
            && camel
            && self.seen_fields & bit == 0
            && self.members.len() < MEMBERS_LIMIT
        {
            self.seen_fields |= bit;
            self.camel_fields |= bit;
            self.members.push((MemberKey::Known(field), value));
            return Ok(());
        }
        let before = match field {
            // Only a field seen before can be a duplicate.
            Some(_) if self.seen_fields & bit == 0 => None,
            Some(field) => self.members.iter().position(|(key, _)| *key == MemberKey::Known(field)),
            None => self.members.iter().position(|(key, _)| matches!(key, MemberKey::Other(own) if *own == name)),
        };
        self.canonical &= camel && before.is_none();
        match before {
            Some(at) if camel || self.camel_fields & bit == 0 => self.members[at].1 = value,
            Some(_) => {}
            None if self.members.len() == MEMBERS_LIMIT => return Err(TooManyMembers),
            None => {
                let key = field.map_or(MemberKey::Other(name), MemberKey::Known);
                self.members.push((key, value));
            }
        }
        self.seen_fields |= bit;
        self.camel_fields |= u64::from(camel) * bit;
        Ok(())
    }
}

#[must_use]
pub(crate) fn to_object(members: &[Member<'_>]) -> Json<'static> {
    build_object_in(object_length(members), |object| {
        members.iter().for_each(|member| object.copy_member(member, false));
    })
}

/// Builds an object with one member, which is an object of these.
#[must_use]
pub(crate) fn to_nested_object(name: &str, members: &[Member<'_>]) -> Json<'static> {
    build_object_in(object_length(members) + name.len() + "{\"\":}".len(), |object| {
        object.write_name(name);
        let mut inner = ObjectWriter::begin(object.out);
        members.iter().for_each(|member| inner.copy_member(member, false));
        inner.end();
    })
}

#[must_use]
pub(crate) fn to_event_object(wire: &str, members: &[Member<'_>]) -> Json<'static> {
    build_object_in(object_length(members) + TYPE.len() + wire.len() + "\"\":\"\",".len(), |object| {
        object.string_member(TYPE, wire);
        members.iter().for_each(|member| object.copy_member(member, false));
    })
}

/// Returns the length of the members as an object. Names with escapes are longer.
fn object_length(members: &[Member<'_>]) -> usize {
    let member_length = |(key, value): &Member<'_>| key.name().len() + value.as_str().len() + "\"\":,".len();
    "{}".len() + members.iter().map(member_length).sum::<usize>()
}

pub(crate) fn build_object(fill: impl FnOnce(&mut ObjectWriter<'_>)) -> Json<'static> {
    build_object_in(SMALL_OBJECT, fill)
}

/// Builds an object of this length, so that its text does not have to grow.
fn build_object_in(length: usize, fill: impl FnOnce(&mut ObjectWriter<'_>)) -> Json<'static> {
    let mut out = String::with_capacity(length);
    let mut object = ObjectWriter::begin(&mut out);
    fill(&mut object);
    object.end();
    Json::from_trusted(out)
}

#[must_use]
pub(crate) fn to_array(values: &[Json<'_>]) -> Json<'static> {
    let length = values.iter().map(|value| value.as_str().len() + ",".len()).sum::<usize>();
    let mut out = String::with_capacity(length + "[]".len());
    out.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(value.as_str());
    }
    out.push(']');
    Json::from_trusted(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::get;

    #[test]
    fn keeps_the_source_text_of_values() {
        let text =
            r#"{"type":"X", "value" : {"b":1.10,"a":9007199254740993,"e":1e400} ,"x":"\ud800\u4f60","type_":[ ]}"#;
        let object = parse_object(text).expect("well-formed");
        assert!(object.kind.expect("type").is_str("X"));
        assert_eq!(
            get(&object.members, Field::Value).expect("value").as_str(),
            r#"{"b":1.10,"a":9007199254740993,"e":1e400}"#
        );
        assert_eq!(object.members[1].1.as_str(), r#""\ud800\u4f60""#);
    }

    #[test]
    fn prefers_camel_case_and_the_last_duplicate() {
        for text in [
            r#"{"messageId":"a","message_id":"b"}"#,
            r#"{"message_id":"b","messageId":"a"}"#,
            r#"{"messageId":"x","messageId":"a"}"#,
            r#"{"message_id":"x","message_id":"a"}"#,
        ] {
            let object = parse_object(text).expect("well-formed");
            assert!(get(&object.members, Field::MessageId).expect("id").is_str("a"), "{text}");
            assert!(!object.canonical);
        }
        assert!(parse_object(r#"{"foo":1,"foo":2}"#).expect("well-formed").members[0].1.as_str() == "2");
    }

    #[test]
    fn accepts_exactly_one_json_value() {
        assert_eq!(parse_value(" [1] \n").expect("a value").as_str(), "[1]");
        for text in ["[] , \"x\":1", "1,\"type\":\"X\"", "x\",", "", "[1", &"[".repeat(DEPTH_LIMIT + 1)] {
            assert!(parse_value(text).is_none(), "{text:.40}");
        }
    }

    #[test]
    fn limits_distinct_members_but_not_repeated_ones() {
        let of = |count: usize| {
            let members: Vec<String> = (0..count).map(|at| format!("\"k{at}\":0")).collect();
            format!("{{{}{}}}", members.join(","), ",\"role\":1".repeat(10_000))
        };
        assert_eq!(parse_object(&of(MEMBERS_LIMIT - 1)).expect("at the limit").members.len(), MEMBERS_LIMIT);
        assert!(parse_object(&of(MEMBERS_LIMIT)).expect_err("one more").to_string().contains("more than 256 members"));
    }

    #[test]
    fn keeps_member_names_of_an_open_object() {
        let value = Json::from_trusted(r#"{"run_id":1,"runId":2}"#);
        assert_eq!(to_object(&parse_members(&value).expect("an object")).as_str(), value.as_str());
        assert_eq!(to_object(&parse_message(&value).expect("an object")).as_str(), r#"{"runId":2}"#);
    }

    #[test]
    fn reports_why_a_text_is_not_an_object() {
        for (text, why) in [
            ("[1]", "expected a JSON object"),
            ("{\"a\":1} x", "trailing characters"),
            ("{\"a\":NaN}", "expected value"),
            ("{\"a\":1", "EOF"),
            ("{\"a\":1,}", "trailing comma"),
        ] {
            let error = parse_object(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
