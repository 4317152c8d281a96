//! Values below the members of an event: what is unsound by the tables of [`schema`] is mended shape by shape.
//!
//! The real client rejects the whole run for one wrong value at any depth of a message, a part or a call
//! (`specs/ag-ui-1.0.md` §3.1, class 3), and takes out what it does not know (class 2), which does no harm. A value with one
//! reading is converted, a required one that is missing gets the empty value, and what is left is carried: under
//! `metadata.diglot` of the nearest thing that has metadata.

use super::conform::OURS;
use super::report::{Repair, Report};
use super::{carry, message, part};
use crate::codec::json;
use crate::event::schema::{BINARY, Member, Need, Record, Shape, Union};
use crate::event::{Field, Json, Key, Members, Type, set};
use std::borrow::Cow;

/// Integers beyond this are no integers to a JavaScript client.
const SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// The members that hold parts, or their text; and metadata.
const CONTENT: &str = "content";
const METADATA: &str = "metadata";

/// What the real client does about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// takes it
    Kept,
    /// takes it out of what holds it
    TakenOut,
    /// rejects the run
    Refused,
}

/// Whether the client takes `value` in a place of this shape, or takes out what it does not know of it.
pub(super) fn is_sound(value: &Json<'_>, shape: Shape) -> bool {
    judge(value, shape) != Fate::Refused
}

fn judge(value: &Json<'_>, shape: Shape) -> Fate {
    let kept = match (shape, value.shape()) {
        (Shape::List(inner) | Shape::TextOr(inner), Type::Array) => json::elements(value)
            .is_some_and(|elements| elements.iter().all(|element| judge(element, *inner) != Fate::Refused)),
        (Shape::NonEmpty(inner), Type::Array) => json::elements(value).is_some_and(|elements| {
            let fates: Vec<Fate> = elements.iter().map(|element| judge(element, *inner)).collect();
            fates.contains(&Fate::Kept) && !fates.contains(&Fate::Refused)
        }),
        (Shape::Object(record), Type::Object) => {
            return json::members(value).map_or(Fate::Refused, |members| judge_record(&members, record));
        }
        (Shape::Union(union), Type::Object) => {
            let Some(members) = json::members(value) else { return Fate::Refused };
            return match arm(&members, union) {
                Some(record) => judge_record(&members, record),
                None if union.binary && find(&members, union.tag).is_some_and(|tag| tag.is(BINARY)) => binary(&members),
                None => Fate::TakenOut,
            };
        }
        (Shape::Any, _) | (Shape::Open, Type::Object) | (Shape::Bool, Type::Bool) => true,
        (Shape::Present, of) => of != Type::Null,
        (Shape::Str | Shape::TextOr(_), Type::String) => true,
        (Shape::Word(words), Type::String) => value.text().is_some_and(|text| words.contains(&&*text)),
        (Shape::Integer, Type::Number) => is_integer(value, -SAFE_INTEGER),
        (Shape::Count, Type::Number) => is_integer(value, 0.0),
        (Shape::Pointer, Type::String) => value.text().is_some_and(|text| super::patch::is_pointer(&text)),
        _ => false,
    };
    if kept { Fate::Kept } else { Fate::Refused }
}

fn judge_record(members: &Members<'_>, record: &Record) -> Fate {
    let mut fate = Fate::Kept;
    for member in record.members {
        match find(members, member.name).map(|value| judge_member(value, member)) {
            Some(Fate::Refused) => return Fate::Refused,
            None if member.need == Need::Required => fate = Fate::Refused,
            // "In a required position the whole containing object is unrecognisable."
            Some(Fate::TakenOut) if member.need == Need::Required && fate == Fate::Kept => fate = Fate::TakenOut,
            _ => {}
        }
    }
    fate
}

fn judge_member(value: &Json<'_>, member: &Member) -> Fate {
    if member.need == Need::NullIsAbsent && value.is_null() {
        return Fate::Kept;
    }
    judge(value, member.shape)
}

/// "`data` preferred, or `url`; only `id`: cannot convert, the part is stripped" (§1.3).
fn binary(members: &Members<'_>) -> Fate {
    let sources: Vec<_> = ["data", "url"].iter().filter_map(|name| find(members, name)).collect();
    if sources.iter().all(|value| value.shape() == Type::String) { Fate::Kept } else { Fate::Refused }
}

fn is_integer(value: &Json<'_>, least: f64) -> bool {
    value.as_str().parse::<f64>().is_ok_and(|n| n.fract() == 0.0 && (least..=SAFE_INTEGER).contains(&n))
}

fn find<'m, 'a>(members: &'m Members<'a>, name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value)
}

fn arm(members: &Members<'_>, union: &'static Union) -> Option<&'static Record> {
    let tag = find(members, union.tag).and_then(Json::text)?;
    union.arms.iter().find(|(name, _)| *name == tag).map(|(_, record)| *record)
}

fn key(name: &'static str) -> Key<'static> {
    match Field::from_wire(name).filter(|field| field.camel() == name) {
        Some(field) => Key::Known(field),
        None => Key::Other(Cow::Borrowed(name)),
    }
}

/// Mends the object of a union, such as a message; says whether it had to. What stands for nothing that is known is left.
pub(super) fn mend_object(members: &mut Members<'static>, union: &'static Union, report: &mut Report) -> bool {
    let Some(record) = arm(members, union).filter(|record| judge_record(members, record) == Fate::Refused) else {
        return false;
    };
    mend_record(members, record, &mut Members::new(), report);
    true
}

/// What stands in place of `value`, which is unsound in this shape, and what is carried for it. `None`: nothing does.
fn mended(
    value: &Json<'_>,
    shape: Shape,
    carried: &mut Members<'static>,
    report: &mut Report,
) -> Option<Json<'static>> {
    match (shape, value.shape()) {
        (Shape::TextOr(inner), Type::Array) => Some(parts(value, *inner, carried, report)),
        (Shape::TextOr(_) | Shape::Str, Type::Number | Type::Bool | Type::Object | Type::Array) => {
            report.repair(Repair::TypeConverted);
            Some(Json::string(value.as_str()))
        }
        (Shape::Object(record), Type::Object) => {
            let mut members = json::members(value).map(crate::event::owned)?;
            mend_record(&mut members, record, carried, report);
            Some(json::to_object(&members))
        }
        (Shape::List(inner), Type::Array) => {
            let mut left = Vec::new();
            for element in json::elements(value)? {
                if is_sound(&element, *inner) {
                    left.push(element.into_owned());
                } else {
                    left.extend(mended(&element, *inner, carried, report).filter(|mended| is_sound(mended, *inner)));
                }
            }
            Some(json::to_array(&left))
        }
        _ => None,
    }
}

/// A list of parts in which every element is one: what is none becomes a text part, and the list as it was is carried.
pub(super) fn parts(
    list: &Json<'_>,
    inner: Shape,
    carried: &mut Members<'static>,
    report: &mut Report,
) -> Json<'static> {
    let elements = json::elements(list).unwrap_or_default();
    let mended = elements.iter().map(|element| match is_sound(element, inner) {
        true => element.clone().into_owned(),
        false => text_part(element),
    });
    let mended: Vec<_> = mended.collect();
    report.repair(Repair::TypeConverted);
    carry_value(carried, CONTENT, list, report);
    json::to_array(&mended)
}

fn text_part(element: &Json<'_>) -> Json<'static> {
    let text = match element.shape() {
        Type::String => element.clone().into_owned(),
        _ => Json::string(element.as_str()),
    };
    json::build(|object| {
        object.word(json::TYPE, "text");
        object.member("text", text.as_str());
    })
}

fn carry_value(carried: &mut Members<'static>, name: &'static str, value: &Json<'_>, report: &mut Report) {
    report.repair(Repair::ValueCarried);
    set(carried, key(name), value.clone().into_owned());
}

/// Mends the members of a described object. What is taken out of one that has no metadata goes to who holds it.
fn mend_record(
    members: &mut Members<'static>,
    record: &'static Record,
    outer: &mut Members<'static>,
    report: &mut Report,
) {
    let mut carried = Members::new();
    for member in record.members {
        let at = members.iter().position(|(key, _)| carry::is_named(key, member.name));
        if let Some(at) = at {
            if judge_member(&members[at].1, member) != Fate::Refused {
                continue;
            }
            let value = members[at].1.clone();
            if let Some(new) = remedy(&value, member, &mut carried, report) {
                members[at].1 = new;
                continue;
            }
            members.remove(at);
            match value.is_null() {
                true => report.repair(Repair::NullDropped),
                false => carry_value(&mut carried, member.name, &value, report),
            }
        }
        if let (Need::Required, Some(value)) = (member.need, empty(member.shape)) {
            report.repair(Repair::MemberSupplied);
            members.push((key(member.name), value));
        }
    }
    if carried.is_empty() {
        return;
    }
    let has_metadata =
        record.members.iter().any(|member| member.name == METADATA && matches!(member.shape, Shape::Open));
    if !has_metadata {
        return outer.extend(carried);
    }
    let before = find(members, METADATA).cloned();
    let metadata = carry::merge(before.as_ref(), OURS, carried);
    set(members, Key::Known(Field::Metadata), metadata);
}

/// What stands in place of the value of a member; what is not said any more is carried.
fn remedy(
    value: &Json<'_>,
    member: &Member,
    carried: &mut Members<'static>,
    report: &mut Report,
) -> Option<Json<'static>> {
    let is_structured = matches!(value.shape(), Type::Array | Type::Object);
    match member.shape {
        // Parts where a text must stand are the text of those that have one.
        Shape::Str if member.name == CONTENT && message::is_parts(value) => {
            report.repair(Repair::TypeConverted);
            carry_value(carried, CONTENT, value, report);
            Some(Json::string(&part::text(value)))
        }
        Shape::Str if is_structured && member.need != Need::Required && member.name != CONTENT => None,
        // What is no call goes whole: the list as it was is carried.
        Shape::List(_) if value.shape() == Type::Array => {
            let new = mended(value, member.shape, carried, report)?;
            let count = |list: &Json<'_>| json::elements(list).map_or(0, |all| all.len());
            if count(&new) != count(value) {
                carry_value(carried, member.name, value, report);
            }
            Some(new)
        }
        shape => mended(value, shape, carried, report).filter(|new| is_sound(new, shape)),
    }
}

/// The empty value of a shape, where it has one.
fn empty(shape: Shape) -> Option<Json<'static>> {
    Some(match shape {
        Shape::Str | Shape::TextOr(_) => Json::string(""),
        Shape::Word([word]) => Json::string(word),
        Shape::Open => Json::trusted("{}"),
        Shape::List(_) => Json::trusted("[]"),
        Shape::Object(record) => {
            let mut members = Members::new();
            for member in record.members.iter().filter(|member| member.need == Need::Required) {
                members.push((key(member.name), empty(member.shape)?));
            }
            json::to_object(&members)
        }
        _ => return None,
    })
}
