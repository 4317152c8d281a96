//! Values: whether the real client takes them, strips them or rejects the run (`specs/ag-ui-1.0.md` §3.1).
//!
//! Two passes of the client are one here: "unknown members are stripped, unknown members of a union taken out of the list
//! that holds them", and what is left is validated. What is wrong inside something that is taken out does no harm.

use super::finding::{described, step};
use super::rule::Rule;
use crate::codec::json;
use crate::event::schema::{self, BINARY, Need, Record, Shape, Union};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type};
use crate::translate::patch;

/// Integers beyond this are no integers to a JavaScript client.
const SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// One thing that a value is or has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub rule: Rule,
    pub path: String,
    pub found: String,
}

/// Whether the client leaves a value where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// "an unrecognised union member: removable, never fatal"
    TakenOut,
}

/// Where we are, and what was found on the way.
struct Walk<'p> {
    path: String,
    problems: &'p mut Vec<Problem>,
}

/// Checks the members of `event` and strips what the client strips.
pub(super) fn check(event: &mut Event<'_>, problems: &mut Vec<Problem>) {
    let kind = event.kind;
    let mut walk = Walk { path: String::new(), problems };
    event.members.retain(|(key, value)| match key {
        Key::Known(field) => walk.slot(kind, *field, value),
        Key::Other(name) => {
            walk.at(name, |walk| walk.say(Rule::UnknownMember, format!("{} has no such member", kind.wire())));
            false
        }
    });
    for slot in kind.slots().iter().filter(|slot| slot.required && event.get(slot.field).is_none()) {
        walk.at(slot.field.camel(), |walk| walk.say(Rule::MissingMember, "it is missing".to_owned()));
    }
}

impl Walk<'_> {
    /// Checks one member of an event; says whether it stays.
    fn slot(&mut self, kind: Kind, field: Field, value: &Json<'_>) -> bool {
        let Some(slot) = kind.slot(field) else {
            self.at(field.camel(), |walk| walk.say(Rule::UnknownMember, format!("{} has no such member", kind.wire())));
            return false;
        };
        let need = match (slot.required, schema::null_is_absent(kind, field)) {
            (true, _) => Need::Required,
            (false, true) => Need::NullIsAbsent,
            (false, false) => Need::Optional,
        };
        self.at(field.camel(), |walk| walk.member(value, schema::shape(kind, slot), need)) != Some(Fate::TakenOut)
            && !(need == Need::NullIsAbsent && value.is_null())
    }

    /// Checks a member that stands. `None` where it is as good as absent.
    fn member(&mut self, value: &Json<'_>, shape: Shape, need: Need) -> Option<Fate> {
        if need == Need::NullIsAbsent && value.is_null() {
            self.say(Rule::NullMember, "null, which the client takes for its absence".to_owned());
            return None;
        }
        let before = self.problems.len();
        let fate = self.value(value, shape);
        if fate == Fate::TakenOut && need != Need::Required {
            self.problems.truncate(before);
            self.variant(value, shape);
        }
        Some(fate)
    }

    fn value(&mut self, value: &Json<'_>, shape: Shape) -> Fate {
        let of = value.shape();
        match (shape, of) {
            (Shape::List(inner), Type::Array) => self.list(value, *inner, 0),
            (Shape::NonEmpty(inner), Type::Array) => self.list(value, *inner, 1),
            (Shape::TextOr(inner), Type::Array) => self.list(value, *inner, 0),
            (Shape::Object(record), Type::Object) => return self.object(value, record),
            (Shape::Union(union), Type::Object) => return self.union(value, union),
            _ if takes(shape, value) => {}
            _ => self.say(Rule::WrongValue, format!("{}, not {}", described(value), wanted(shape))),
        }
        Fate::Kept
    }

    fn list(&mut self, value: &Json<'_>, inner: Shape, least: usize) {
        // Elements cannot fail to be read: the whole frame was.
        let elements = json::elements(value).unwrap_or_default();
        let mut left = 0;
        for (at, element) in elements.iter().enumerate() {
            let before = self.problems.len();
            self.at(&at.to_string(), |walk| {
                if walk.value(element, inner) == Fate::TakenOut {
                    walk.problems.truncate(before);
                    walk.variant(element, inner);
                } else {
                    left += 1;
                }
            });
        }
        if left < least {
            self.say(Rule::WrongValue, format!("an array of {left}, not of at least {least}"));
        }
    }

    fn union(&mut self, value: &Json<'_>, union: &'static Union) -> Fate {
        let Some(members) = self.members(value) else {
            return Fate::Kept;
        };
        let tag = find(&members, union.tag).and_then(Json::text);
        if let Some((_, record)) = union.arms.iter().find(|(name, _)| tag.as_deref() == Some(*name)) {
            return self.record(&members, record);
        }
        if union.binary && tag.as_deref() == Some(BINARY) {
            return self.binary(&members);
        }
        Fate::TakenOut
    }

    /// "`data` preferred, or `url`; only `id`: cannot convert, the part is stripped" (§1.3).
    fn binary(&mut self, members: &Members<'_>) -> Fate {
        let is_text = |name: &str| find(members, name).is_some_and(|value| value.shape() == Type::String);
        let said = ["data", "url"].into_iter().find(|name| find(members, name).is_some_and(is_truthy));
        let Some(name) = said.filter(|_| is_text("mimeType")) else {
            return Fate::TakenOut;
        };
        self.say(Rule::RetiredShape, "a part of type `binary`".to_owned());
        if !is_text(name) {
            let found = find(members, name).map(described).unwrap_or_default();
            self.at(name, |walk| walk.say(Rule::WrongValue, format!("{found}, not a text")));
        }
        Fate::Kept
    }

    fn object(&mut self, value: &Json<'_>, record: &'static Record) -> Fate {
        match self.members(value) {
            Some(members) => self.record(&members, record),
            None => Fate::Kept,
        }
    }

    fn record(&mut self, members: &Members<'_>, record: &'static Record) -> Fate {
        for (key, value) in members {
            let name = name(key);
            match record.members.iter().find(|member| member.name == name) {
                Some(member) => {
                    let fate = self.at(name, |walk| walk.member(value, member.shape, member.need));
                    // "In a required position the whole containing object is unrecognisable."
                    if fate == Some(Fate::TakenOut) && member.need == Need::Required {
                        return Fate::TakenOut;
                    }
                }
                None if record.open => {}
                None => self.at(name, |walk| walk.say(Rule::UnknownMember, "no such member is described".to_owned())),
            }
        }
        for member in record.members.iter().filter(|member| member.need == Need::Required) {
            if find(members, member.name).is_none() {
                self.at(member.name, |walk| walk.say(Rule::MissingMember, "it is missing".to_owned()));
            }
        }
        Fate::Kept
    }

    /// The members of a nested object; what has too many is left alone, and said.
    fn members<'a>(&mut self, value: &'a Json<'_>) -> Option<Members<'a>> {
        let members = json::members(value);
        if members.is_none() {
            self.say(Rule::TooComplex, "an object of more members than are looked at".to_owned());
        }
        members
    }

    fn variant(&mut self, value: &Json<'_>, shape: Shape) {
        let Shape::Union(union) = shape else {
            return self.say(Rule::UnknownVariant, "it holds what is not known".to_owned());
        };
        let tag = json::members(value).and_then(|members| find(&members, union.tag).map(described));
        let tag = tag.unwrap_or_else(|| "nothing".to_owned());
        self.say(Rule::UnknownVariant, format!("`{}` is {tag}, or needs what is not known", union.tag));
    }

    fn at<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.path.len();
        step(&mut self.path, name);
        let out = inner(self);
        self.path.truncate(before);
        out
    }

    fn say(&mut self, rule: Rule, found: String) {
        self.problems.push(Problem { rule, path: self.path.clone(), found });
    }
}

fn name<'k>(key: &'k Key<'_>) -> &'k str {
    match key {
        Key::Known(field) => field.camel(),
        Key::Other(name) => name,
    }
}

fn find<'m, 'a>(members: &'m Members<'a>, wanted: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| name(key) == wanted).map(|(_, value)| value)
}

/// Whether a value without parts is one of this shape.
fn takes(shape: Shape, value: &Json<'_>) -> bool {
    let of = value.shape();
    match shape {
        Shape::Any => true,
        Shape::Present => of != Type::Null,
        Shape::Str | Shape::TextOr(_) => of == Type::String,
        Shape::Word(words) => value.text().is_some_and(|text| words.contains(&&*text)),
        Shape::Open => of == Type::Object,
        Shape::Bool => of == Type::Bool,
        Shape::Integer => is_integer(value, -SAFE_INTEGER),
        Shape::Count => is_integer(value, 0.0),
        Shape::Pointer => value.text().is_some_and(|text| patch::is_pointer(&text)),
        Shape::List(_) | Shape::NonEmpty(_) | Shape::Object(_) | Shape::Union(_) => false,
    }
}

/// `1.0` and `1e3` are integers, as they are in JavaScript.
fn is_integer(value: &Json<'_>, least: f64) -> bool {
    value.shape() == Type::Number
        && value.as_str().parse::<f64>().is_ok_and(|n| n.fract() == 0.0 && (least..=SAFE_INTEGER).contains(&n))
}

/// What JavaScript takes for true.
fn is_truthy(value: &Json<'_>) -> bool {
    match value.shape() {
        Type::Null => false,
        Type::Bool => value.as_str() == "true",
        Type::Number => value.as_str().parse::<f64>().is_ok_and(|n| n != 0.0),
        Type::String => value.as_str() != "\"\"",
        Type::Array | Type::Object => true,
    }
}

fn wanted(shape: Shape) -> String {
    match shape {
        Shape::Str => "a text".to_owned(),
        Shape::Word(words) => format!("one of: {}", words.join(", ")),
        Shape::Any | Shape::Present => "a value".to_owned(),
        Shape::Open | Shape::Object(_) | Shape::Union(_) => "an object".to_owned(),
        Shape::Bool => "a boolean".to_owned(),
        Shape::Integer => "an integer within ±(2^53−1)".to_owned(),
        Shape::Count => "an integer from 0 to 2^53−1".to_owned(),
        Shape::Pointer => "a JSON Pointer".to_owned(),
        Shape::List(_) | Shape::NonEmpty(_) => "an array".to_owned(),
        Shape::TextOr(_) => "a text or an array of parts".to_owned(),
    }
}
