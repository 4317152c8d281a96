//! JSON Patches in which every operation has a `from`.

use crate::codec::json;
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::json_patch::PatchNotes;
use crate::dialect::{carry, json_patch};
use crate::event::{EventRepair, Field, MemberKey};
use std::borrow::Cow;

/// Stores the changed members of operations, by position.
const FROM_NOTE: &str = "$from";
const PATH_NOTE: &str = "$path";

/// Corrects a patch, and records the changes so that writing can reverse them.
pub(super) fn read(parts: &mut IncomingEvent<'_>, sink: &mut dyn CanonicalSink) {
    let patch = json_patch::repair_patch(&mut parts.event, Field::Delta);
    let from = json_patch::take_ignored_from(&mut parts.event, Field::Delta);
    if patch.is_none() && from.is_empty() {
        return;
    }
    // The agent is not at fault if the dialect's row allows the form.
    sink.count_allowed_repair(EventRepair::PatchMended);
    let PatchNotes { path, wrapped } = patch.unwrap_or_default();
    for (name, list) in [(FROM_NOTE, from), (PATH_NOTE, path)] {
        if !list.is_empty() {
            let note = json::build_object(|object| {
                list.iter().for_each(|(at, value)| object.member(&at.to_string(), value.as_str()));
            });
            parts.extensions.push((carry::extension_key(name), note));
        }
    }
    if wrapped {
        carry::note_json(&mut parts.extensions, Field::Delta);
    }
}

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
    for (note, name) in [(&from, json_patch::FROM_MEMBER), (&path, json_patch::PATH_MEMBER)] {
        for (at, old) in note.as_ref().and_then(json::parse_members).unwrap_or_default() {
            let Some(operation) = parse_index(&at).and_then(|at| operations.get_mut(at)) else { continue };
            let Some(mut members) = json::parse_owned_members(operation) else {
                continue;
            };
            if json_patch::replace_member(&mut members, name, old.clone().into_owned()).is_none() {
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
