//! Converts run errors that a dialect nests in an `error` member (`MaybeNestedError`), or sends as a CUSTOM event that
//! the route configures as an error.

use super::carry;
use super::event_parts::IncomingEvent;
use super::event_parts::OutgoingEvent;
use super::event_shapes::stringify_value;
use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::event::{EventType, Field, Json, JsonType, MemberKey, find_member, get};

/// Note that contains the CUSTOM event from which the error was read.
pub(super) const CUSTOM_NOTE: &str = "$custom";

/// Reads an error whose message may be a nested object or a string, and whose code may be a number.
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

/// Reads a CUSTOM event that the route configures as a run error.
pub(super) fn read_custom(parts: IncomingEvent<'_>) -> IncomingEvent<'_> {
    let IncomingEvent { mut event, extensions: mut own, restored_fields, follows_sent_starts } = parts;
    let name = event.remove(Field::Name).unwrap_or(Json::EMPTY_STRING);
    let value = event.remove(Field::Value).unwrap_or(Json::NULL);
    own.push((
        carry::extension_key(CUSTOM_NOTE),
        json::to_object(&[
            (MemberKey::Known(Field::Name), name.clone()),
            (MemberKey::Known(Field::Value), value.clone()),
        ]),
    ));
    event.kind = EventType::RunError;
    event.set(Field::Message, value.to_string_value());
    event.set(Field::Code, name);
    IncomingEvent { event, extensions: own, restored_fields, follows_sent_starts }
}

/// Restores an error's CUSTOM event for a peer that treats it as an error. Other peers would miss the end of the run.
pub(super) fn restore_custom(side: PeerDialect, outgoing: &mut OutgoingEvent<'_>) -> bool {
    let custom = find_member(&outgoing.extensions, CUSTOM_NOTE);
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
