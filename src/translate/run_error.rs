//! Errors of a run in dialects that say them in another way: nested in an `error` member (`Shape::NestedFailure`), nested now
//! and then (`Shape::Failure`), or as a CUSTOM event that the route takes for one.

use super::conform::NO_REASON;
use super::read::{Parts, as_text};
use super::write::Said;
use super::{carry, spell};
use crate::codec::json;
use crate::dialect::Side;
use crate::event::{Field, Json, Key, Kind, Type, get, remove};

/// Note: these members stood flat, as AG-UI has them, where the dialect nests them.
const FLAT: &str = "$flat";

/// Note: this error was a CUSTOM event, as it was said.
pub(super) const CUSTOM: &str = "$custom";

/// What stands in `error` where a dialect nests: the code first, as the seeds print it.
const NESTED: [Field; 2] = [Field::Code, Field::Message];

/// An error that stands in `error`: text and code are taken out of it, anything else in there is carried.
pub(super) fn read_nested(parts: &mut Parts<'_>, side: Side) {
    let held = |field: &Field| parts.restored.contains(field);
    let mut flat: Vec<Field> = NESTED.into_iter().filter(|field| parts.event.get(*field).is_some()).collect();
    flat.retain(|field| !held(field));
    let error = get(&parts.own, Field::Error).cloned().map(Json::into_owned);
    match error.as_ref().map(|error| (error.shape(), json::members(error))) {
        Some((_, Some(inner))) => {
            let inner = crate::event::owned(inner);
            remove(&mut parts.own, Field::Error);
            take_nested(parts, inner, &flat);
            spell::read_word(side, Field::Code, parts, &flat);
        }
        Some((Type::String, None)) if !flat.contains(&Field::Message) => {
            error.into_iter().for_each(|text| parts.event.set(Field::Message, text));
        }
        // What the guard has to supply stands flat too: there is nothing that it could be nested in.
        _ => flat = NESTED.to_vec(),
    }
    if !flat.is_empty() {
        parts.own.push((carry::own(FLAT), carry::fields(&flat)));
    }
    as_text(parts, Field::Code);
}

/// Takes text and code out of an `error` object; what has no reading of its own stays in it, and so does what stood flat too.
fn take_nested(parts: &mut Parts<'_>, mut inner: crate::event::Members<'static>, flat: &[Field]) {
    let empty = inner.is_empty();
    for field in NESTED.into_iter().filter(|field| !flat.contains(field)) {
        match get(&inner, field).map(|value| (field, value.shape())) {
            None | Some((_, Type::Null)) => continue,
            Some((Field::Message, shape)) if shape != Type::String => {
                let text = get(&inner, field).map(|value| Json::string(value.as_str()));
                text.into_iter().for_each(|text| parts.event.set(field, text));
                continue;
            }
            _ => {}
        }
        // What the home holds is the canonical value; the word in `error` only stands for it.
        if let Some(value) = remove(&mut inner, field).filter(|_| !parts.restored.contains(&field)) {
            parts.event.set(field, value);
        }
    }
    if empty || !inner.is_empty() {
        parts.own.push((Key::Known(Field::Error), json::to_object(&inner)));
    }
}

/// Puts text and code into `error`, but for those that came flat.
pub(super) fn write_nested(said: &mut Said<'_>) {
    let flat = carry::take_fields(&mut said.own, FLAT, |field| NESTED.contains(&field));
    let own = remove(&mut said.own, Field::Error);
    let mut nested = Vec::new();
    for field in NESTED.into_iter().filter(|field| !flat.contains(field)) {
        nested.extend(remove(&mut said.members, field).map(|value| (field, value.into_owned())));
    }
    let error = match (own, nested.as_slice()) {
        (None, []) => return,
        (Some(own), []) => own,
        (Some(text), [(Field::Message, message)]) if message.same(&text) => text,
        (own, nested) => merged(own.as_ref(), nested),
    };
    said.own.push((Key::Known(Field::Error), error));
}

fn merged(own: Option<&Json<'_>>, nested: &[(Field, Json<'static>)]) -> Json<'static> {
    let more = own.and_then(json::members).unwrap_or_default();
    json::build(|object| {
        for (field, value) in nested {
            let kept = get(&more, *field).filter(|kept| *field == Field::Message && reads_as(kept, value));
            object.member(field.camel(), kept.unwrap_or(value).as_str());
        }
        let rest = more.iter().filter(|(key, _)| !nested.iter().any(|(field, _)| *key == Key::Known(*field)));
        rest.for_each(|member| object.copy(member, false));
    })
}

/// Whether a text that was none over there is what `message` was made of.
fn reads_as(kept: &Json<'_>, message: &Json<'_>) -> bool {
    if kept.is_null() { message.is(NO_REASON) } else { message.is(kept.as_str()) }
}

/// An error may stand in a nested object, or be a text; its code may be a number.
pub(super) fn read(parts: &mut Parts<'_>) {
    read_any(parts);
    as_text(parts, Field::Code);
}

fn read_any(parts: &mut Parts<'_>) {
    let Some(error) = get(&parts.own, Field::Error).cloned() else {
        return;
    };
    if parts.event.get(Field::Message).is_some() {
        return;
    }
    match (error.shape(), json::members(&error)) {
        (Type::String, _) => parts.event.set(Field::Message, error.into_owned()),
        (_, Some(inner)) => {
            for field in [Field::Message, Field::Code] {
                if let Some(value) = get(&inner, field) {
                    parts.event.set(field, value.clone().into_owned());
                }
            }
        }
        _ => {}
    }
}

/// A CUSTOM event that the route takes for an error of the run.
pub(super) fn read_custom(parts: Parts<'_>) -> Parts<'_> {
    let Parts { mut event, mut own, restored } = parts;
    let name = event.remove(Field::Name).unwrap_or_else(|| Json::string(""));
    let value = event.remove(Field::Value).unwrap_or(Json::NULL);
    own.push((
        carry::own(CUSTOM),
        json::to_object(&[(Key::Known(Field::Name), name.clone()), (Key::Known(Field::Value), value.clone())]),
    ));
    event.kind = Kind::RunError;
    event.set(Field::Message, if value.shape() == Type::String { value } else { Json::string(value.as_str()) });
    event.set(Field::Code, name);
    Parts { event, own, restored }
}

/// An error that was a CUSTOM event is one again for a peer that takes events of this name for errors. Nobody else would see
/// the run end.
pub(super) fn restore_custom(side: Side, said: &mut Said<'_>) -> bool {
    let custom = said.own.iter().find(|(key, _)| carry::is_named(key, CUSTOM)).map(|(_, custom)| custom);
    let Some(members) = custom.and_then(json::message).map(crate::event::owned) else {
        return false;
    };
    let name = get(&members, Field::Name).and_then(Json::text);
    if !name.is_some_and(|name| side.errors.iter().any(|error| *error == name)) {
        return false;
    }
    carry::take(&mut said.own, CUSTOM);
    said.members.retain(|(key, _)| !matches!(key, Key::Known(Field::Message | Field::Code)));
    said.members.extend(members.into_iter().filter(|(key, _)| matches!(key, Key::Known(Field::Name | Field::Value))));
    true
}
