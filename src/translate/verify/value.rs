//! Checks whether the real client accepts or strips values, or rejects the run for them (`specs/ag-ui-1.0.md` §3.1).
//!
//! This combines two passes of the client: "unknown members are stripped, unknown members of a union taken out of the
//! list that holds them", and the rest is validated. Problems in removed content are ignored.
//!
//! Two other files use the same schemas. `nested_values.rs` repairs: it stops at the first problem and never strips.
//! `conform.rs` checks the members of each outgoing event, mostly by their first byte for speed. All share the rules
//! for single values ([`ValueSchema::matches_leaf`]) and for selecting a union arm ([`UnionSchema::arm`]).

use super::finding::{describe, push_pointer_token};
use super::rule::Rule;
use crate::codec::json;
use crate::event::schema::{self, MemberPresence, ObjectSchema, UnionSchema, ValueSchema};
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifyProblem {
    pub(crate) rule: Rule,
    pub(crate) path: String,
    pub(crate) found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberVerdict {
    Kept,
    /// removed: "an unrecognised union member: removable, never fatal"
    Removed,
}

struct ValueChecker<'p> {
    path: String,
    problems: &'p mut Vec<VerifyProblem>,
}

/// Checks the members of `event`, stripping those that the client strips.
pub(super) fn check_event(event: &mut Event<'_>, problems: &mut Vec<VerifyProblem>) {
    let kind = event.kind;
    let mut walk = ValueChecker { path: String::new(), problems };
    event.members.retain(|(key, value)| match key {
        MemberKey::Known(field) => walk.check_slot(kind, *field, value),
        MemberKey::Other(name) => {
            walk.with_path(name, |walk| {
                walk.report(Rule::UnknownMember, format!("{} has no such member", kind.wire()));
            });
            false
        }
    });
    for slot in kind.slots().iter().filter(|slot| slot.required && event.get(slot.field).is_none()) {
        walk.with_path(slot.field.camel(), |walk| walk.report(Rule::MissingMember, "it is missing".to_owned()));
    }
}

impl ValueChecker<'_> {
    fn check_slot(&mut self, kind: EventType, field: Field, value: &Json<'_>) -> bool {
        let Some(slot) = kind.slot(field) else {
            self.with_path(field.camel(), |walk| {
                walk.report(Rule::UnknownMember, format!("{} has no such member", kind.wire()));
            });
            return false;
        };
        let need = match (slot.required, schema::null_is_absent(kind, field)) {
            (true, _) => MemberPresence::Required,
            (false, true) => MemberPresence::NullIsAbsent,
            (false, false) => MemberPresence::Optional,
        };
        self.with_path(field.camel(), |walk| walk.check_member(value, schema::value_schema(kind, slot), need))
            != Some(MemberVerdict::Removed)
            && !(need == MemberPresence::NullIsAbsent && value.is_null())
    }

    /// Checks a member; returns `None` if it counts as absent.
    fn check_member(&mut self, value: &Json<'_>, shape: ValueSchema, need: MemberPresence) -> Option<MemberVerdict> {
        if need == MemberPresence::NullIsAbsent && value.is_null() {
            self.report(Rule::NullMember, "null, which the client treats as absence".to_owned());
            return None;
        }
        let before = self.problems.len();
        let verdict = self.check_value(value, shape);
        if verdict == MemberVerdict::Removed && need != MemberPresence::Required {
            self.problems.truncate(before);
            self.report_variant(value, shape);
        }
        Some(verdict)
    }

    fn check_value(&mut self, value: &Json<'_>, shape: ValueSchema) -> MemberVerdict {
        let of = value.json_type();
        match (shape, of) {
            (ValueSchema::List(inner), JsonType::Array) => self.check_list(value, *inner, 0),
            (ValueSchema::NonEmpty(inner), JsonType::Array) => self.check_list(value, *inner, 1),
            (ValueSchema::TextOrList(inner), JsonType::Array) => self.check_list(value, *inner, 0),
            (ValueSchema::Object(record), JsonType::Object) => return self.check_object(value, record),
            (ValueSchema::Union(union), JsonType::Object) => return self.check_union(value, union),
            _ if shape.matches_leaf(value) => {}
            _ => self.report(Rule::WrongValue, format!("{}, not {}", describe(value), describe_expected(shape))),
        }
        MemberVerdict::Kept
    }

    fn check_list(&mut self, value: &Json<'_>, inner: ValueSchema, least: usize) {
        // The elements always parse, because the whole frame did.
        let elements = json::parse_elements(value).unwrap_or_default();
        let mut left = 0;
        for (at, element) in elements.iter().enumerate() {
            let before = self.problems.len();
            self.with_path(&at.to_string(), |walk| {
                if walk.check_value(element, inner) == MemberVerdict::Removed {
                    walk.problems.truncate(before);
                    walk.report_variant(element, inner);
                } else {
                    left += 1;
                }
            });
        }
        if left < least {
            self.report(Rule::WrongValue, format!("an array of {left} known elements, not at least {least}"));
        }
    }

    fn check_union(&mut self, value: &Json<'_>, union: &'static UnionSchema) -> MemberVerdict {
        let Some(members) = self.read_members(value) else {
            return MemberVerdict::Kept;
        };
        match union.arm(&members) {
            Some(record) => self.check_record(&members, record),
            None if union.is_binary(&members) => self.check_binary(&members),
            None => MemberVerdict::Removed,
        }
    }

    /// Checks a 0.x `binary` part: "`data` preferred, or `url`; only `id`: cannot convert, the part is stripped"
    /// (§1.3).
    fn check_binary(&mut self, members: &Members<'_>) -> MemberVerdict {
        let is_text =
            |name: &str| find_member(members, name).is_some_and(|value| value.json_type() == JsonType::String);
        let source = ["data", "url"].into_iter().find(|name| find_member(members, name).is_some_and(is_truthy));
        let Some(name) = source.filter(|_| is_text("mimeType")) else {
            return MemberVerdict::Removed;
        };
        self.report(Rule::RetiredShape, "a part of type `binary`".to_owned());
        if !is_text(name) {
            let found = find_member(members, name).map(describe).unwrap_or_default();
            self.with_path(name, |walk| walk.report(Rule::WrongValue, format!("{found}, not a string")));
        }
        MemberVerdict::Kept
    }

    fn check_object(&mut self, value: &Json<'_>, record: &'static ObjectSchema) -> MemberVerdict {
        match self.read_members(value) {
            Some(members) => self.check_record(&members, record),
            None => MemberVerdict::Kept,
        }
    }

    fn check_record(&mut self, members: &Members<'_>, record: &'static ObjectSchema) -> MemberVerdict {
        for (key, value) in members {
            let name = key.name();
            match record.members.iter().find(|member| member.name == name) {
                Some(member) => {
                    let verdict = self.with_path(name, |walk| walk.check_member(value, member.schema, member.presence));
                    // "In a required position the whole containing object is unrecognisable."
                    if verdict == Some(MemberVerdict::Removed) && member.presence == MemberPresence::Required {
                        return MemberVerdict::Removed;
                    }
                }
                None if record.is_open => {}
                None => self.with_path(name, |walk| {
                    walk.report(Rule::UnknownMember, "the schema has no such member".to_owned());
                }),
            }
        }
        for member in record.members.iter().filter(|member| member.presence == MemberPresence::Required) {
            if find_member(members, member.name).is_none() {
                self.with_path(member.name, |walk| walk.report(Rule::MissingMember, "it is missing".to_owned()));
            }
        }
        MemberVerdict::Kept
    }

    fn read_members<'a>(&mut self, value: &'a Json<'_>) -> Option<Members<'a>> {
        let members = json::parse_members(value);
        if members.is_none() {
            self.report(Rule::TooComplex, "an object with too many members to check".to_owned());
        }
        members
    }

    fn report_variant(&mut self, value: &Json<'_>, shape: ValueSchema) {
        let ValueSchema::Union(union) = shape else {
            return self.report(Rule::UnknownVariant, "it contains an unknown variant".to_owned());
        };
        let tag = json::parse_members(value).and_then(|members| find_member(&members, union.tag).map(describe));
        let tag = tag.unwrap_or_else(|| "nothing".to_owned());
        self.report(Rule::UnknownVariant, format!("`{}` is {tag}, or a required member is unknown", union.tag));
    }

    fn with_path<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.path.len();
        push_pointer_token(&mut self.path, name);
        let out = inner(self);
        self.path.truncate(before);
        out
    }

    fn report(&mut self, rule: Rule, found: String) {
        self.problems.push(VerifyProblem { rule, path: self.path.clone(), found });
    }
}

fn is_truthy(value: &Json<'_>) -> bool {
    match value.json_type() {
        JsonType::Null => false,
        JsonType::Bool => value.as_str() == "true",
        JsonType::Number => value.as_str().parse::<f64>().is_ok_and(|n| n != 0.0),
        JsonType::String => value.as_str() != "\"\"",
        JsonType::Array | JsonType::Object => true,
    }
}

fn describe_expected(shape: ValueSchema) -> String {
    match shape {
        ValueSchema::Str => "a string".to_owned(),
        ValueSchema::StringEnum(words) => format!("one of: {}", words.join(", ")),
        ValueSchema::Any | ValueSchema::Present => "a value".to_owned(),
        ValueSchema::OpenObject | ValueSchema::Object(_) | ValueSchema::Union(_) => "an object".to_owned(),
        ValueSchema::Bool => "a boolean".to_owned(),
        ValueSchema::Integer => "an integer within ±(2^53−1)".to_owned(),
        ValueSchema::Count => "an integer from 0 to 2^53−1".to_owned(),
        ValueSchema::Pointer => "a JSON Pointer".to_owned(),
        ValueSchema::List(_) | ValueSchema::NonEmpty(_) => "an array".to_owned(),
        ValueSchema::TextOrList(_) => "a string or an array of parts".to_owned(),
    }
}
