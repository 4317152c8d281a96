//! Corrects JSON Patches (RFC 6902) of real producers into the form that the real client checks.

use super::carry;
use super::event_parts::IncomingEvent;
use super::event_parts::OutgoingEvent;
use super::report::TranslationReport;
use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Event, EventRepair, Field, Json, JsonType, MemberKey, Members, find_member};
use std::borrow::Cow;

/// Notes: members of operations that were removed or corrected, by position of the operation.
const FROM_NOTE: &str = "$from";
const PATH_NOTE: &str = "$path";

const OP: &str = "op";
const FROM_MEMBER: &str = "from";
const PATH_MEMBER: &str = "path";

/// Removed members of a patch: position of the operation → the original value.
#[derive(Debug, Default)]
struct PatchNotes {
    from: Vec<(usize, Json<'static>)>,
    path: Vec<(usize, Json<'static>)>,
    wrapped: bool,
}

/// Corrects the patch of a dialect's event and notes the changes, so that writing can undo them.
pub(super) fn read(parts: &mut IncomingEvent<'_>, report: &mut TranslationReport) {
    if let Some(notes) = repair_patch(&mut parts.event, Field::Delta) {
        // A form that the dialect's row allows is not a fault of the agent.
        report.count_allowed_repair(EventRepair::PatchMended);
        for (name, list) in [(FROM_NOTE, notes.from), (PATH_NOTE, notes.path)] {
            if !list.is_empty() {
                let note = json::build_object(|object| {
                    list.iter().for_each(|(at, value)| object.member(&at.to_string(), value.as_str()));
                });
                parts.extensions.push((carry::extension_key(name), note));
            }
        }
        if notes.wrapped {
            carry::note_json(&mut parts.extensions, Field::Delta);
        }
    }
}

/// Corrects a patch received in the canonical dialect.
pub(super) fn conform(event: &mut Event<'_>, field: Field, report: &mut TranslationReport) {
    if repair_patch(event, field).is_some() {
        report.count_repair(EventRepair::PatchMended);
    }
}

/// Corrects a patch: `from` belongs to move and copy alone; a pointer begins with `/` or is empty; a patch is a list.
fn repair_patch(event: &mut Event<'_>, field: Field) -> Option<PatchNotes> {
    let value = event.get(field)?;
    let mut notes = PatchNotes { wrapped: value.json_type() == JsonType::Object, ..PatchNotes::default() };
    let operations = if notes.wrapped { vec![value.as_borrowed()] } else { json::parse_elements(value)? };
    let mut mended: Vec<Json<'_>> = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        match repair_operation(at, operation, &mut notes) {
            Some(operation) => mended.push(operation),
            None => mended.push(operation.as_borrowed()),
        }
    }
    if !notes.wrapped && notes.from.is_empty() && notes.path.is_empty() {
        return None;
    }
    let list = json::to_array(&mended);
    event.set(field, list);
    Some(notes)
}

fn repair_operation(at: usize, operation: &Json<'_>, notes: &mut PatchNotes) -> Option<Json<'static>> {
    let mut members = json::parse_members(operation)?;
    let moves = find_member(&members, OP).is_some_and(|op| op.is_str("move") || op.is_str("copy"));
    let mut changed = false;
    if !moves && let Some(from) = carry::take(&mut members, FROM_MEMBER) {
        notes.from.push((at, from.into_owned()));
        changed = true;
    }
    let path = find_member(&members, PATH_MEMBER).and_then(Json::text);
    if let Some(path) = path.filter(|path| !path.is_empty() && !path.starts_with('/')) {
        let rooted = Json::string(&format!("/{path}"));
        let old = replace_member(&mut members, PATH_MEMBER, rooted)?;
        notes.path.push((at, old));
        changed = true;
    }
    changed.then(|| json::to_object(&members))
}

/// Restores the original members of a patch.
pub(super) fn write(outgoing: &mut OutgoingEvent<'_>) {
    let from = carry::take(&mut outgoing.extensions, FROM_NOTE);
    let path = carry::take(&mut outgoing.extensions, PATH_NOTE);
    let wrapped = carry::take_json_note(&mut outgoing.extensions, Field::Delta);
    if from.is_none() && path.is_none() && !wrapped {
        return;
    }
    let Some(value) = crate::event::remove(&mut outgoing.members, Field::Delta) else {
        return;
    };
    let mut operations = json::parse_elements(&value).unwrap_or_default();
    for (note, name) in [(&from, FROM_MEMBER), (&path, PATH_MEMBER)] {
        for (at, old) in note.as_ref().and_then(json::parse_members).unwrap_or_default() {
            let Some(operation) = parse_index(&at).and_then(|at| operations.get_mut(at)) else { continue };
            let Some(mut members) = json::parse_members(operation).map(crate::event::into_owned_members) else {
                continue;
            };
            if replace_member(&mut members, name, old.clone().into_owned()).is_none() {
                members.push((MemberKey::Other(Cow::Borrowed(name)), old));
            }
            *operation = json::to_object(&members);
        }
    }
    let delta = match operations.as_slice() {
        [one] if wrapped => one.clone().into_owned(),
        all => json::to_array(all),
    };
    outgoing.members.push((MemberKey::Known(Field::Delta), delta));
}

fn parse_index(key: &MemberKey<'_>) -> Option<usize> {
    match key {
        MemberKey::Other(name) => name.parse().ok(),
        MemberKey::Known(_) => None,
    }
}

fn replace_member(members: &mut Members<'_>, name: &str, value: Json<'static>) -> Option<Json<'static>> {
    let (_, old) = members.iter_mut().find(|(key, _)| carry::is_named(key, name))?;
    Some(std::mem::replace(old, value).into_owned())
}

/// Returns whether the real client accepts this patch: every operation has the members that RFC 6902 demands, and
/// pointers are valid. Operations are open objects; the client strips an unknown `op`, so it may pass.
pub(super) fn is_valid(value: &Json<'_>) -> bool {
    json::parse_elements(value).is_some_and(|operations| operations.iter().all(is_valid_operation))
}

fn is_valid_operation(operation: &Json<'_>) -> bool {
    let Some(members) = json::parse_members(operation) else {
        return false;
    };
    let Some(op) = find_member(&members, OP).and_then(Json::text) else {
        return false;
    };
    let has_value = || members.iter().any(|(key, _)| *key == MemberKey::Known(Field::Value));
    let pointer = |name: &str| find_member(&members, name).and_then(Json::text).is_some_and(|text| is_pointer(&text));
    let from = find_member(&members, FROM_MEMBER).is_some();
    pointer(PATH_MEMBER)
        && match &*op {
            "add" | "replace" | "test" => has_value() && !from,
            "move" | "copy" => pointer(FROM_MEMBER),
            _ => !from,
        }
}
