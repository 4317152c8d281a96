//! Repairs values nested in an event's members, by the tables of [`schema`](crate::event::schema).
//!
//! The real client rejects the whole run for one wrong value at any depth of a message, part or call
//! (`specs/ag-ui-1.0.md` §3.1, class 3), and strips unknown members (class 2). Here a value with one obvious
//! meaning is converted, a missing required one becomes empty, and the rest is carried under `metadata.diglot` of the
//! nearest object that has metadata.

use super::carry::GATEWAY_KEY;
use super::report::TranslationReport;
use super::{carry, content_parts};
use crate::codec::json;
use crate::event::schema::{MemberPresence, MemberSchema, ObjectSchema, RESULT_CONTENT, UnionSchema, ValueSchema};
use crate::event::{EventRepair, Field, Json, JsonType, MemberKey, Members, find_member, set};
use std::borrow::Cow;

const CONTENT: &str = "content";
const METADATA: &str = "metadata";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientVerdict {
    Accepted,
    Removed,
    /// the client rejects the run
    Rejected,
}

/// Returns true if the client accepts `value`, with or without unknown members.
pub(super) fn is_valid(value: &Json<'_>, shape: ValueSchema) -> bool {
    check_value(value, shape) != ClientVerdict::Rejected
}

/// Returns true for a content part of a type that AG-UI defines.
pub(super) fn is_part(value: &Json<'_>) -> bool {
    check_value(value, RESULT_CONTENT) == ClientVerdict::Accepted
}

fn check_value(value: &Json<'_>, shape: ValueSchema) -> ClientVerdict {
    let kept = match (shape, value.json_type()) {
        (ValueSchema::List(inner) | ValueSchema::TextOrList(inner), JsonType::Array) => json::parse_elements(value)
            .is_some_and(|elements| {
                elements.iter().all(|element| check_value(element, *inner) != ClientVerdict::Rejected)
            }),
        (ValueSchema::NonEmpty(inner), JsonType::Array) => json::parse_elements(value).is_some_and(|elements| {
            let verdicts: Vec<ClientVerdict> = elements.iter().map(|element| check_value(element, *inner)).collect();
            verdicts.contains(&ClientVerdict::Accepted) && !verdicts.contains(&ClientVerdict::Rejected)
        }),
        (ValueSchema::Object(record), JsonType::Object) => {
            return json::parse_members(value)
                .map_or(ClientVerdict::Rejected, |members| check_object(&members, record));
        }
        (ValueSchema::Union(union), JsonType::Object) => {
            let Some(members) = json::parse_members(value) else { return ClientVerdict::Rejected };
            return match union.arm(&members) {
                Some(record) => check_object(&members, record),
                None if union.is_binary(&members) => check_binary(&members),
                None => ClientVerdict::Removed,
            };
        }
        _ => shape.matches_leaf(value),
    };
    if kept { ClientVerdict::Accepted } else { ClientVerdict::Rejected }
}

fn check_object(members: &Members<'_>, record: &ObjectSchema) -> ClientVerdict {
    let mut verdict = ClientVerdict::Accepted;
    for member in record.members {
        match find_member(members, member.name).map(|value| check_member(value, member)) {
            Some(ClientVerdict::Rejected) => return ClientVerdict::Rejected,
            None if member.presence == MemberPresence::Required => verdict = ClientVerdict::Rejected,
            // "In a required position the whole containing object is unrecognisable."
            Some(ClientVerdict::Removed)
                if member.presence == MemberPresence::Required && verdict == ClientVerdict::Accepted =>
            {
                verdict = ClientVerdict::Removed;
            }
            _ => {}
        }
    }
    verdict
}

fn check_member(value: &Json<'_>, member: &MemberSchema) -> ClientVerdict {
    if member.presence == MemberPresence::NullIsAbsent && value.is_null() {
        return ClientVerdict::Accepted;
    }
    check_value(value, member.schema)
}

/// Validates a 0.x `binary` part: "`data` preferred, or `url`; only `id`: cannot convert, the part is stripped" (§1.3).
fn check_binary(members: &Members<'_>) -> ClientVerdict {
    let sources: Vec<_> = ["data", "url"].iter().filter_map(|name| find_member(members, name)).collect();
    if sources.iter().all(|value| value.json_type() == JsonType::String) {
        ClientVerdict::Accepted
    } else {
        ClientVerdict::Rejected
    }
}

fn member_key(name: &'static str) -> MemberKey<'static> {
    match Field::from_wire(name).filter(|field| field.camel() == name) {
        Some(field) => MemberKey::Known(field),
        None => MemberKey::Other(Cow::Borrowed(name)),
    }
}

/// Repairs an object of several possible types, such as a message; returns true if it changed. Unknown types are not
/// changed.
pub(super) fn repair_object(
    members: &mut Members<'static>,
    union: &'static UnionSchema,
    report: &mut TranslationReport,
) -> bool {
    let Some(record) = union.arm(members).filter(|record| check_object(members, record) == ClientVerdict::Rejected)
    else {
        return false;
    };
    repair_members(members, record, &mut Members::new(), report);
    true
}

/// Returns the replacement for an invalid value, or `None` to remove it.
fn repair_value(
    value: &Json<'_>,
    shape: ValueSchema,
    carried: &mut Members<'static>,
    report: &mut TranslationReport,
) -> Option<Json<'static>> {
    match (shape, value.json_type()) {
        (ValueSchema::TextOrList(inner), JsonType::Array) => Some(repair_parts(value, *inner, carried, report)),
        (
            ValueSchema::TextOrList(_) | ValueSchema::Str,
            JsonType::Number | JsonType::Bool | JsonType::Object | JsonType::Array,
        ) => {
            report.count_repair(EventRepair::TypeConverted);
            Some(Json::string(value.as_str()))
        }
        (ValueSchema::Object(record), JsonType::Object) => {
            let mut members = json::parse_owned_members(value)?;
            repair_members(&mut members, record, carried, report);
            Some(json::to_object(&members))
        }
        (ValueSchema::List(inner), JsonType::Array) => {
            let mut left = Vec::new();
            for element in json::parse_elements(value)? {
                if is_valid(&element, *inner) {
                    left.push(element.into_owned());
                } else {
                    left.extend(
                        repair_value(&element, *inner, carried, report).filter(|mended| is_valid(mended, *inner)),
                    );
                }
            }
            Some(json::to_array(&left))
        }
        _ => None,
    }
}

/// Replaces invalid parts with text parts, and adds the original list to `carried`.
pub(super) fn repair_parts(
    list: &Json<'_>,
    inner: ValueSchema,
    carried: &mut Members<'static>,
    report: &mut TranslationReport,
) -> Json<'static> {
    let elements = json::parse_elements(list).unwrap_or_default();
    let mended = elements.iter().map(|element| match is_valid(element, inner) {
        true => element.clone().into_owned(),
        false => to_text_part(element),
    });
    let mended: Vec<_> = mended.collect();
    report.count_repair(EventRepair::TypeConverted);
    carry_value(carried, CONTENT, list, report);
    json::to_array(&mended)
}

pub(super) fn to_text_part(element: &Json<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.string_member(json::TYPE, "text");
        object.member("text", element.to_string_value().as_str());
    })
}

fn carry_value(carried: &mut Members<'static>, name: &'static str, value: &Json<'_>, report: &mut TranslationReport) {
    report.count_repair(EventRepair::ValueCarried);
    set(carried, member_key(name), value.clone().into_owned());
}

/// Repairs an object's members. If the object has no metadata, the removed values are added to its container's.
fn repair_members(
    members: &mut Members<'static>,
    record: &'static ObjectSchema,
    outer: &mut Members<'static>,
    report: &mut TranslationReport,
) {
    let mut carried = Members::new();
    for member in record.members {
        let at = members.iter().position(|(key, _)| carry::is_named(key, member.name));
        if let Some(at) = at {
            if check_member(&members[at].1, member) != ClientVerdict::Rejected {
                continue;
            }
            let value = members[at].1.clone();
            if let Some(new) = repair_member(&value, member, &mut carried, report) {
                members[at].1 = new;
                continue;
            }
            members.remove(at);
            match value.is_null() {
                true => report.count_repair(EventRepair::NullDropped),
                false => carry_value(&mut carried, member.name, &value, report),
            }
        }
        if let (MemberPresence::Required, Some(value)) = (member.presence, empty_value(member.schema)) {
            report.count_supplied_member(member.name);
            members.push((member_key(member.name), value));
        }
    }
    if carried.is_empty() {
        return;
    }
    let has_metadata =
        record.members.iter().any(|member| member.name == METADATA && matches!(member.schema, ValueSchema::OpenObject));
    if !has_metadata {
        return outer.extend(carried);
    }
    let before = find_member(members, METADATA).cloned();
    let metadata = carry::merge(before.as_ref(), GATEWAY_KEY, carried);
    set(members, MemberKey::Known(Field::Metadata), metadata);
}

fn repair_member(
    value: &Json<'_>,
    member: &MemberSchema,
    carried: &mut Members<'static>,
    report: &mut TranslationReport,
) -> Option<Json<'static>> {
    let is_structured = matches!(value.json_type(), JsonType::Array | JsonType::Object);
    match member.schema {
        // Parts in place of a string become the concatenated text of the text parts.
        ValueSchema::Str if member.name == CONTENT && content_parts::is_parts(value) => {
            report.count_repair(EventRepair::TypeConverted);
            carry_value(carried, CONTENT, value, report);
            Some(Json::string(&content_parts::joined_text(value)))
        }
        ValueSchema::Str if is_structured && member.presence != MemberPresence::Required && member.name != CONTENT => {
            None
        }
        // An invalid call is removed entirely: the original list is carried.
        ValueSchema::List(_) if value.json_type() == JsonType::Array => {
            let new = repair_value(value, member.schema, carried, report)?;
            let count = |list: &Json<'_>| json::parse_elements(list).map_or(0, |all| all.len());
            if count(&new) != count(value) {
                carry_value(carried, member.name, value, report);
            }
            Some(new)
        }
        shape => repair_value(value, shape, carried, report).filter(|new| is_valid(new, shape)),
    }
}

fn empty_value(shape: ValueSchema) -> Option<Json<'static>> {
    Some(match shape {
        ValueSchema::Str | ValueSchema::TextOrList(_) => Json::EMPTY_STRING,
        ValueSchema::StringEnum([word]) => Json::string(word),
        ValueSchema::OpenObject => Json::from_trusted("{}"),
        ValueSchema::List(_) => Json::from_trusted("[]"),
        ValueSchema::Object(record) => {
            let mut members = Members::new();
            for member in record.members.iter().filter(|member| member.presence == MemberPresence::Required) {
                members.push((member_key(member.name), empty_value(member.schema)?));
            }
            json::to_object(&members)
        }
        _ => return None,
    })
}
