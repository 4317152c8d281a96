//! Run errors in dialects with another form: nested in an `error` member (`NestedError`), sometimes nested
//! (`MaybeNestedError`), or as a CUSTOM event that the route configures as an error.

use super::event_parts::IncomingEvent;
use super::event_parts::OutgoingEvent;
use super::event_shapes::stringify_value;
use super::{carry, value_aliases};
use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::event::{EventType, Field, Json, JsonType, MemberKey, get, remove};

/// RUN_ERROR message when the agent gave no reason.
pub(super) const DEFAULT_ERROR_MESSAGE: &str = "The agent reported an error without a message.";

/// Note: these members were flat, as in AG-UI, where the dialect nests them.
const FLAT_NOTE: &str = "$flat";

/// Note: the original CUSTOM event of this error.
pub(super) const CUSTOM_NOTE: &str = "$custom";

/// Members of a nested `error`: the code first, as the seeds print it.
const NESTED_FIELDS: [Field; 2] = [Field::Code, Field::Message];

/// Reads an error nested in `error`: extracts text and code, and carries the rest.
pub(super) fn read_nested(parts: &mut IncomingEvent<'_>, side: PeerDialect) {
    let held = |field: &Field| parts.restored_fields.contains(field);
    let mut flat: Vec<Field> = NESTED_FIELDS.into_iter().filter(|field| parts.event.get(*field).is_some()).collect();
    flat.retain(|field| !held(field));
    let error = get(&parts.extensions, Field::Error).cloned().map(Json::into_owned);
    match error.as_ref().map(|error| (error.json_type(), json::parse_members(error))) {
        Some((_, Some(inner))) => {
            let inner = crate::event::into_owned_members(inner);
            remove(&mut parts.extensions, Field::Error);
            take_nested(parts, inner, &flat);
            value_aliases::read_alias(side, Field::Code, parts, &flat);
        }
        Some((JsonType::String, None)) if !flat.contains(&Field::Message) => {
            error.into_iter().for_each(|text| parts.event.set(Field::Message, text));
        }
        // Members that the guard has to supply are flat too: there is no object to nest them in.
        _ => flat = NESTED_FIELDS.to_vec(),
    }
    if !flat.is_empty() {
        parts.extensions.push((carry::extension_key(FLAT_NOTE), carry::field_list(&flat)));
    }
    stringify_value(parts, Field::Code);
}

/// Extracts text and code from an `error` object; members without a reading stay in it, and so do those that are also
/// flat.
fn take_nested(parts: &mut IncomingEvent<'_>, mut inner: crate::event::Members<'static>, flat: &[Field]) {
    let empty = inner.is_empty();
    for field in NESTED_FIELDS.into_iter().filter(|field| !flat.contains(field)) {
        match get(&inner, field).map(|value| (field, value.json_type())) {
            None | Some((_, JsonType::Null)) => continue,
            Some((Field::Message, shape)) if shape != JsonType::String => {
                let text = get(&inner, field).map(|value| Json::string(value.as_str()));
                text.into_iter().for_each(|text| parts.event.set(field, text));
                continue;
            }
            _ => {}
        }
        // A carried value is the canonical one; that in `error` only represents it.
        if let Some(value) = remove(&mut inner, field).filter(|_| !parts.restored_fields.contains(&field)) {
            parts.event.set(field, value);
        }
    }
    if empty || !inner.is_empty() {
        parts.extensions.push((MemberKey::Known(Field::Error), json::to_object(&inner)));
    }
}

/// Nests text and code in `error`, except for those that came flat.
pub(super) fn write_nested(outgoing: &mut OutgoingEvent<'_>) {
    let flat = carry::take_fields(&mut outgoing.extensions, FLAT_NOTE, |field| NESTED_FIELDS.contains(&field));
    let own = remove(&mut outgoing.extensions, Field::Error);
    let mut nested = Vec::new();
    for field in NESTED_FIELDS.into_iter().filter(|field| !flat.contains(field)) {
        nested.extend(remove(&mut outgoing.members, field).map(|value| (field, value.into_owned())));
    }
    let error = match (own, nested.as_slice()) {
        (None, []) => return,
        (Some(own), []) => own,
        (Some(text), [(Field::Message, message)]) if message.is_same(&text) => text,
        (own, nested) => merge_error(own.as_ref(), nested),
    };
    outgoing.extensions.push((MemberKey::Known(Field::Error), error));
}

fn merge_error(own: Option<&Json<'_>>, nested: &[(Field, Json<'static>)]) -> Json<'static> {
    let more = own.and_then(json::parse_members).unwrap_or_default();
    json::build_object(|object| {
        for (field, value) in nested {
            let kept = get(&more, *field).filter(|kept| *field == Field::Message && reads_back_as(kept, value));
            object.member(field.camel(), kept.unwrap_or(value).as_str());
        }
        let rest = more.iter().filter(|(key, _)| !nested.iter().any(|(field, _)| *key == MemberKey::Known(*field)));
        rest.for_each(|member| object.copy_member(member, false));
    })
}

/// Returns whether `message` was derived from this non-string value.
fn reads_back_as(kept: &Json<'_>, message: &Json<'_>) -> bool {
    if kept.is_null() { message.is_str(DEFAULT_ERROR_MESSAGE) } else { message.is_str(kept.as_str()) }
}

/// Reads an error that may be nested in an object or be a string; its code may be a number.
pub(super) fn read(parts: &mut IncomingEvent<'_>) {
    read_message(parts);
    stringify_value(parts, Field::Code);
}

fn read_message(parts: &mut IncomingEvent<'_>) {
    let Some(error) = get(&parts.extensions, Field::Error).cloned() else {
        return;
    };
    if parts.event.get(Field::Message).is_some() {
        return;
    }
    match (error.json_type(), json::parse_members(&error)) {
        (JsonType::String, _) => parts.event.set(Field::Message, error.into_owned()),
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

/// Reads a CUSTOM event that the route configures as an error of the run.
pub(super) fn read_custom(parts: IncomingEvent<'_>) -> IncomingEvent<'_> {
    let IncomingEvent { mut event, extensions: mut own, restored_fields: restored } = parts;
    let name = event.remove(Field::Name).unwrap_or_else(|| Json::string(""));
    let value = event.remove(Field::Value).unwrap_or(Json::NULL);
    own.push((
        carry::extension_key(CUSTOM_NOTE),
        json::to_object(&[
            (MemberKey::Known(Field::Name), name.clone()),
            (MemberKey::Known(Field::Value), value.clone()),
        ]),
    ));
    event.kind = EventType::RunError;
    event.set(Field::Message, if value.json_type() == JsonType::String { value } else { Json::string(value.as_str()) });
    event.set(Field::Code, name);
    IncomingEvent { event, extensions: own, restored_fields: restored }
}

/// Restores an error as its CUSTOM event for a peer that treats events of this name as errors. Any other peer would
/// miss the end of the run.
pub(super) fn restore_custom(side: PeerDialect, outgoing: &mut OutgoingEvent<'_>) -> bool {
    let custom =
        outgoing.extensions.iter().find(|(key, _)| carry::is_named(key, CUSTOM_NOTE)).map(|(_, custom)| custom);
    let Some(members) = custom.and_then(json::parse_message).map(crate::event::into_owned_members) else {
        return false;
    };
    let name = get(&members, Field::Name).and_then(Json::text);
    if !name.is_some_and(|name| side.error_events.iter().any(|error| *error == name)) {
        return false;
    }
    carry::take(&mut outgoing.extensions, CUSTOM_NOTE);
    outgoing.members.retain(|(key, _)| !matches!(key, MemberKey::Known(Field::Message | Field::Code)));
    outgoing
        .members
        .extend(members.into_iter().filter(|(key, _)| matches!(key, MemberKey::Known(Field::Name | Field::Value))));
    true
}
