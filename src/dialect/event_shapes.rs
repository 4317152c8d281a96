//! Reads and writes shapes that map one event to one event but change its members.

use super::event_parts::{IncomingEvent, OutgoingEvent, restore_absent};
use super::peer_version::PeerVersion;
use super::{carry, content_parts};
use crate::codec::json;
use crate::event::input::ASSISTANT;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member, get};
use std::borrow::Cow;

/// Default message for errors without one.
pub(crate) const DEFAULT_ERROR_MESSAGE: &str = "The agent reported an error without a message.";

pub(crate) fn event_to_value(event: &Event<'_>) -> Json<'static> {
    json::to_event_object(event.kind.wire(), &event.members)
}

/// Restores the chunk from which the event was expanded.
pub(crate) fn restore_chunk<'a>(mut event: Event<'a>, canonical_type: Option<&'static str>) -> Event<'a> {
    if let Some(kind) = canonical_type.and_then(EventType::from_wire) {
        event.kind = kind;
        restore_absent(&mut event);
    }
    event
}

/// Adds the role to a start event, since the oldest peers accept only one role: without a version, a peer has the four
/// of seed 001. Later chunks use the first chunk's role. Returns true if the text is shown under another role.
pub(crate) fn write_explicit_role(version: PeerVersion, kind: EventType, outgoing: &mut OutgoingEvent<'_>) -> bool {
    let role = get(&outgoing.members, Field::Role).cloned();
    let has_one_role = version.is_sequential();
    let newer = role.as_ref().is_some_and(|role| has_one_role && !role.is_str(ASSISTANT));
    if newer || (role.is_none() && kind == EventType::TextMessageStart) {
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::Role), Json::string(ASSISTANT));
    }
    if newer {
        outgoing.canonical.extend(role.map(|role| (MemberKey::Known(Field::Role), role)));
    }
    newer
}

/// Ends a text of arguments that only lacks its last brace.
pub(crate) const LAST_BRACE: &str = "}";

/// Returns true for arguments that only lack their last brace: pieces of an object leave it to the call's end.
pub(crate) fn lacks_last_brace(arguments: &str) -> bool {
    json::parse_value(arguments).is_none() && json::parse_value(&[arguments, LAST_BRACE].concat()).is_some()
}

/// Restores a JSON value that was converted to text.
pub(crate) fn write_as_json(outgoing: &mut OutgoingEvent<'_>, field: Field) {
    if carry::take_json_note(&mut outgoing.extensions, field)
        && let Some(text) = get(&outgoing.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::parse_value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut outgoing.members, MemberKey::Known(field), value);
    }
}

/// Removes a generated message id from a result, but keeps an empty canonical id.
pub(crate) fn restore_empty_id(outgoing: &mut OutgoingEvent<'_>) {
    let empty = get(&outgoing.members, Field::MessageId).is_some_and(|id| id.is_str(""));
    if carry::take(&mut outgoing.extensions, EMPTY_ID_NOTE).is_some() {
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::MessageId), Json::EMPTY_STRING);
    } else if empty {
        outgoing.canonical.push((MemberKey::Known(Field::MessageId), Json::EMPTY_STRING));
    }
}

/// Writes content parts as text, and carries the originals.
pub(crate) fn flatten_parts(outgoing: &mut OutgoingEvent<'_>, is_versioned: bool) {
    let Some(parts) = get(&outgoing.members, Field::Content).filter(|content| content.json_type() == JsonType::Array)
    else {
        return;
    };
    // Versioned peers fail on any list, others take one that has no parts as a value. A value of the dialect that is an
    // empty list has become text, so this is a list of no parts.
    let is_empty = json::parse_elements(parts).is_some_and(|parts| parts.is_empty());
    if is_versioned || is_empty || content_parts::is_parts(parts) {
        let text = Json::string(&content_parts::joined_text(parts));
        let parts = parts.clone();
        outgoing.canonical.push((MemberKey::Known(Field::Content), parts));
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::Content), text);
    }
}

/// Adds run ids if they are optional in the dialect, so that this does not count as a repair.
pub(crate) fn supply_run_ids(parts: &mut IncomingEvent<'_>) {
    for field in [Field::ThreadId, Field::RunId] {
        if parts.event.get(field).is_none() {
            parts.event.set(field, Json::EMPTY_STRING);
        }
    }
}

/// Marks a result whose message id was empty.
pub(crate) const EMPTY_ID_NOTE: &str = "$unnamed";

/// Adds a result's message id if it is optional in the dialect. Also replaces empty ids, since a client would merge two
/// results with the same id.
pub(crate) fn supply_result_id(parts: &mut IncomingEvent<'_>) {
    let id_member = parts.event.get(Field::MessageId);
    let unnamed = id_member.is_some_and(|id| id.is_str("")) && !parts.restored_fields.contains(&Field::MessageId);
    if unnamed {
        carry::add_note(&mut parts.extensions, EMPTY_ID_NOTE);
    }
    if unnamed || id_member.is_none() {
        let call = parts.event.get_or_empty(Field::ToolCallId);
        parts.event.set(Field::MessageId, tool_result_id(&call));
    }
}

/// Replaces a value with its JSON text, unless it is a string.
pub(crate) fn stringify_value(parts: &mut IncomingEvent<'_>, field: Field) {
    match parts.event.get(field) {
        Some(value) if !parts.restored_fields.contains(&field) && needs_json_text(field, value) => {
            let text = Json::string(value.as_str());
            parts.event.set(field, text);
            carry::note_json(&mut parts.extensions, field);
        }
        _ => {}
    }
}

/// Returns true if the value must become JSON text. A null delta adds no text, but a null result is a value.
fn needs_json_text(field: Field, value: &Json<'_>) -> bool {
    match value.json_type() {
        JsonType::Object | JsonType::Array | JsonType::Number | JsonType::Bool => true,
        JsonType::Null => field == Field::Content,
        JsonType::String => false,
    }
}

pub(crate) fn tool_result_id(tool_call_id: &Json<'_>) -> Json<'static> {
    tool_call_id.with_suffix(":result")
}

/// Marks a start and its arguments that were originally one event.
pub(crate) const ARGS_IN_START: &str = "$args";

pub(crate) fn remove_start_note(outgoing: &mut OutgoingEvent<'_>) {
    carry::take(&mut outgoing.extensions, ARGS_IN_START);
}

/// Lists members that were null.
pub(crate) const NULLS_NOTE: &str = "$nulls";

/// Returns true if this member is missing because it was null.
pub(crate) fn was_null(own: &Members<'_>, field: Field) -> bool {
    let names = find_member(own, NULLS_NOTE).and_then(json::parse_elements).unwrap_or_default();
    names.iter().any(|name| name.is_str(field.camel()))
}
