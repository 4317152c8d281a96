//! JSON Patch (RFC 6902) as producers really write it, brought into the form that the real client checks.

use super::carry;
use super::read::Parts;
use super::report::{Repair, Report};
use super::write::Said;
use crate::codec::json;
use crate::event::{Event, Field, Json, Key, Members, Type};
use std::borrow::Cow;

/// Notes: members of operations that were taken out or mended, by position of the operation.
const FROM: &str = "$from";
const PATH: &str = "$path";

const OP: &str = "op";
const FROM_MEMBER: &str = "from";
const PATH_MEMBER: &str = "path";

/// What was taken out of a patch: position of the operation → the value as it was.
#[derive(Debug, Default)]
struct Notes {
    from: Vec<(usize, Json<'static>)>,
    path: Vec<(usize, Json<'static>)>,
    wrapped: bool,
}

/// Mends the patch of a dialect's event and notes what it did, so that writing can undo it.
pub(super) fn read(parts: &mut Parts<'_>, report: &mut Report) {
    if let Some(notes) = mend(&mut parts.event, Field::Delta) {
        // What the row of the dialect admits is no fault of the agent's.
        report.own_form(Repair::PatchMended);
        for (name, list) in [(FROM, notes.from), (PATH, notes.path)] {
            if !list.is_empty() {
                let note = json::build(|object| {
                    list.iter().for_each(|(at, value)| object.member(&at.to_string(), value.as_str()));
                });
                parts.own.push((carry::own(name), note));
            }
        }
        if notes.wrapped {
            carry::note_json(&mut parts.own, Field::Delta);
        }
    }
}

/// Mends a patch that came in the canonical dialect.
pub(super) fn conform(event: &mut Event<'_>, field: Field, report: &mut Report) {
    if mend(event, field).is_some() {
        report.repair(Repair::PatchMended);
    }
}

/// `from` belongs to move and copy alone; a pointer begins with `/` or is empty; a patch is a list.
fn mend(event: &mut Event<'_>, field: Field) -> Option<Notes> {
    let value = event.get(field)?;
    let mut notes = Notes { wrapped: value.shape() == Type::Object, ..Notes::default() };
    let operations = if notes.wrapped { vec![value.borrowed()] } else { json::elements(value)? };
    let mut mended: Vec<Json<'_>> = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        match mend_operation(at, operation, &mut notes) {
            Some(operation) => mended.push(operation),
            None => mended.push(operation.borrowed()),
        }
    }
    if !notes.wrapped && notes.from.is_empty() && notes.path.is_empty() {
        return None;
    }
    let list = json::to_array(&mended);
    event.set(field, list);
    Some(notes)
}

fn mend_operation(at: usize, operation: &Json<'_>, notes: &mut Notes) -> Option<Json<'static>> {
    let mut members = json::members(operation)?;
    let moves = find(&members, OP).is_some_and(|op| op.is("move") || op.is("copy"));
    let mut changed = false;
    if !moves && let Some(from) = carry::take(&mut members, FROM_MEMBER) {
        notes.from.push((at, from.into_owned()));
        changed = true;
    }
    let path = find(&members, PATH_MEMBER).and_then(Json::text);
    if let Some(path) = path.filter(|path| !path.is_empty() && !path.starts_with('/')) {
        let rooted = Json::string(&format!("/{path}"));
        let old = replace(&mut members, PATH_MEMBER, rooted)?;
        notes.path.push((at, old));
        changed = true;
    }
    changed.then(|| json::to_object(&members))
}

/// Puts back what reading took out of a patch.
pub(super) fn write(said: &mut Said<'_>) {
    let from = carry::take(&mut said.own, FROM);
    let path = carry::take(&mut said.own, PATH);
    let wrapped = carry::take_json_note(&mut said.own, Field::Delta);
    if from.is_none() && path.is_none() && !wrapped {
        return;
    }
    let Some(value) = crate::event::remove(&mut said.members, Field::Delta) else {
        return;
    };
    let mut operations = json::elements(&value).unwrap_or_default();
    for (note, name) in [(&from, FROM_MEMBER), (&path, PATH_MEMBER)] {
        for (at, old) in note.as_ref().and_then(json::members).unwrap_or_default() {
            let Some(operation) = position(&at).and_then(|at| operations.get_mut(at)) else { continue };
            let Some(mut members) = json::members(operation).map(crate::event::owned) else { continue };
            if replace(&mut members, name, old.clone().into_owned()).is_none() {
                members.push((Key::Other(Cow::Borrowed(name)), old));
            }
            *operation = json::to_object(&members);
        }
    }
    let delta = match operations.as_slice() {
        [one] if wrapped => one.clone().into_owned(),
        all => json::to_array(all),
    };
    said.members.push((Key::Known(Field::Delta), delta));
}

fn position(key: &Key<'_>) -> Option<usize> {
    match key {
        Key::Other(name) => name.parse().ok(),
        Key::Known(_) => None,
    }
}

fn find<'m, 'a>(members: &'m Members<'a>, name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value)
}

fn replace(members: &mut Members<'_>, name: &str, value: Json<'static>) -> Option<Json<'static>> {
    let (_, old) = members.iter_mut().find(|(key, _)| carry::is_named(key, name))?;
    Some(std::mem::replace(old, value).into_owned())
}

/// Whether the real client takes this patch: every operation has the members that RFC 6902 demands of it, and pointers are
/// pointers. Operations are open objects; an unknown `op` is stripped over there, so it may pass.
pub(super) fn is_sound(value: &Json<'_>) -> bool {
    json::elements(value).is_some_and(|operations| operations.iter().all(is_sound_operation))
}

fn is_sound_operation(operation: &Json<'_>) -> bool {
    let Some(members) = json::members(operation) else {
        return false;
    };
    let Some(op) = find(&members, OP).and_then(Json::text) else {
        return false;
    };
    let has_value = || members.iter().any(|(key, _)| *key == Key::Known(Field::Value));
    let pointer = |name: &str| find(&members, name).and_then(Json::text).is_some_and(|text| is_pointer(&text));
    let from = find(&members, FROM_MEMBER).is_some();
    pointer(PATH_MEMBER)
        && match &*op {
            "add" | "replace" | "test" => has_value() && !from,
            "move" | "copy" => pointer(FROM_MEMBER),
            _ => !from,
        }
}

/// "A JSON Pointer is a Unicode string containing a sequence of zero or more reference tokens, each prefixed by a '/'"; `~`
/// stands only in `~0` and `~1` (RFC 6901 §3).
pub(super) fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'))
}
