//! Corrects JSON Patches (RFC 6902) from real producers so that the real client accepts them.

use super::carry;
use crate::codec::json;
use crate::event::schema::is_pointer;
use crate::event::{Event, Field, Json, JsonType, MemberKey, Members, find_member};

const OP: &str = "op";
pub(super) const FROM_MEMBER: &str = "from";
pub(super) const PATH_MEMBER: &str = "path";

/// Values removed from a patch, by operation index.
#[derive(Debug, Default)]
pub(crate) struct PatchNotes {
    pub(super) path: Vec<(usize, Json<'static>)>,
    pub(super) wrapped: bool,
}

/// Repairs a patch: it must be a list, and pointers must be empty or begin with `/`.
pub(crate) fn repair_patch(event: &mut Event<'_>, field: Field) -> Option<PatchNotes> {
    let value = event.get(field)?;
    let mut notes = PatchNotes { wrapped: value.json_type() == JsonType::Object, ..PatchNotes::default() };
    let operations = if notes.wrapped { vec![value.as_borrowed()] } else { json::parse_elements(value)? };
    let mut mended: Vec<Json<'_>> = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        match root_path(operation) {
            Some((rooted, path)) => {
                mended.push(rooted);
                notes.path.push((at, path));
            }
            None => mended.push(operation.as_borrowed()),
        }
    }
    if !notes.wrapped && notes.path.is_empty() {
        return None;
    }
    let list = json::to_array(&mended);
    event.set(field, list);
    Some(notes)
}

/// Returns the operation with a path that begins with `/`, and the path it had.
fn root_path(operation: &Json<'_>) -> Option<(Json<'static>, Json<'static>)> {
    let mut members = json::parse_members(operation)?;
    let path = find_member(&members, PATH_MEMBER).and_then(Json::text)?;
    if path.is_empty() || path.starts_with('/') {
        return None;
    }
    let rooted = Json::string(&format!("/{path}"));
    let old = replace_member(&mut members, PATH_MEMBER, rooted)?;
    Some((json::to_object(&members), old))
}

/// Takes `from` out of the operations that ignore it, all but `move` and `copy`; returns the values by operation index.
pub(super) fn take_ignored_from(event: &mut Event<'_>, field: Field) -> Vec<(usize, Json<'static>)> {
    let mut taken = Vec::new();
    // Many patches have no such member, and no escape that could hide one.
    let has_from = |patch: &&Json<'_>| patch.as_str().contains(FROM_MEMBER) || patch.as_str().contains('\\');
    let Some(mut operations) = event.get(field).filter(has_from).and_then(json::parse_elements) else {
        return taken;
    };
    for (at, operation) in operations.iter_mut().enumerate() {
        let Some(mut members) = json::parse_members(operation) else { continue };
        let moves = find_member(&members, OP).is_some_and(|op| op.is_str("move") || op.is_str("copy"));
        if !moves && let Some(from) = carry::take(&mut members, FROM_MEMBER) {
            taken.push((at, from.into_owned()));
            *operation = json::to_object(&members);
        }
    }
    if !taken.is_empty() {
        let list = json::to_array(&operations);
        event.set(field, list);
    }
    taken
}

pub(super) fn replace_member(members: &mut Members<'_>, name: &str, value: Json<'static>) -> Option<Json<'static>> {
    let (_, old) = members.iter_mut().find(|(key, _)| carry::is_named(key, name))?;
    Some(std::mem::replace(old, value).into_owned())
}

/// Returns true if the real client would accept the patch: operations have the members that RFC 6902 requires, and
/// pointers are valid. The client ignores unknown `op` values.
pub(crate) fn is_valid(value: &Json<'_>) -> bool {
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
    // RFC 6902 §4: "Members that are not explicitly defined for the operation in question MUST be ignored".
    pointer(PATH_MEMBER)
        && match &*op {
            "add" | "replace" | "test" => has_value(),
            "move" | "copy" => pointer(FROM_MEMBER),
            _ => true,
        }
}
