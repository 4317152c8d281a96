//! Shapes that are one event in both dialects: members that a peer writes in another way, read and written.

use super::ASSISTANT;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::{carry, content_parts};
use crate::codec::json;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, get};
use std::borrow::Cow;

/// Under `extra["ag-ui"]`: this member was not said by the chunk.
pub(crate) const ABSENT_FIELDS: &str = "$absent";

/// A whole canonical event as a value.
pub(crate) fn event_to_value(event: &Event<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.string_member(json::TYPE, event.kind.wire());
        event.members.iter().for_each(|member| object.copy_member(member, false));
    })
}

/// An event that stands for a chunk, as that chunk.
pub(crate) fn restore_chunk<'a>(mut event: Event<'a>, canonical_type: Option<&'static str>) -> Event<'a> {
    if let Some(kind) = canonical_type.and_then(EventType::from_wire) {
        event.kind = kind;
        restore_absent(&mut event);
    }
    event
}

/// A run boundary needs a message id and a role over there: the run's id and "assistant", unless it said others.
pub(crate) fn write_boundary(outgoing: &mut OutgoingEvent<'_>) {
    let has = |field: Field| outgoing.extensions.iter().any(|(key, _)| *key == MemberKey::Known(field));
    let (has_id, has_role) = (has(Field::MessageId), has(Field::Role));
    if has_id {
        return;
    }
    if let Some(run_id) = get(&outgoing.members, Field::RunId).cloned() {
        outgoing.extensions.push((MemberKey::Known(Field::MessageId), run_id.into_owned()));
    }
    if !has_role {
        outgoing.extensions.push((MemberKey::Known(Field::Role), Json::string(ASSISTANT)));
    }
}

/// A text that was a JSON value over there is one again.
pub(crate) fn write_as_json(outgoing: &mut OutgoingEvent<'_>, field: Field) {
    if carry::take_json_note(&mut outgoing.extensions, field)
        && let Some(text) = get(&outgoing.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::parse_value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut outgoing.members, MemberKey::Known(field), value);
    }
}

/// A result whose message had no id over there has none again; an empty id that is canonical is not taken for that.
pub(crate) fn restore_empty_id(outgoing: &mut OutgoingEvent<'_>) {
    let empty = get(&outgoing.members, Field::MessageId).is_some_and(|id| id.is_str(""));
    if carry::take(&mut outgoing.extensions, EMPTY_ID_NOTE).is_some() {
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::MessageId), Json::string(""));
    } else if empty {
        outgoing.canonical.push((MemberKey::Known(Field::MessageId), Json::string("")));
    }
}

/// Content parts are said as their text; the parts themselves are carried.
pub(crate) fn flatten_parts(outgoing: &mut OutgoingEvent<'_>) {
    let Some(parts) = get(&outgoing.members, Field::Content).filter(|content| content.json_type() == JsonType::Array)
    else {
        return;
    };
    if content_parts::is_parts(parts) {
        let text = Json::string(&content_parts::joined_text(parts));
        let parts = parts.clone();
        outgoing.canonical.push((MemberKey::Known(Field::Content), parts));
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::Content), text);
    }
}

/// Takes the absence of a run's ids for what it is where the dialect need not say them: no fault that anybody has to mend.
pub(crate) fn supply_run_ids(parts: &mut IncomingEvent<'_>) {
    for field in [Field::ThreadId, Field::RunId] {
        if parts.event.get(field).is_none() {
            parts.event.set(field, Json::string(""));
        }
    }
}

/// Note: the message of this result had an empty id.
pub(crate) const EMPTY_ID_NOTE: &str = "$unnamed";

/// A result needs no message of its own here, so its absence is no fault that anybody has to mend. An empty id is none: two
/// results would be one message to a client that keeps messages by their ids.
pub(crate) fn supply_result_id(parts: &mut IncomingEvent<'_>) {
    let said = parts.event.get(Field::MessageId);
    let unnamed = said.is_some_and(|id| id.is_str("")) && !parts.restored_fields.contains(&Field::MessageId);
    if unnamed {
        parts.extensions.push((carry::extension_key(EMPTY_ID_NOTE), Json::from_trusted("true")));
    }
    if unnamed || said.is_none() {
        let call = parts.event.get(Field::ToolCallId).cloned().unwrap_or_else(|| Json::string(""));
        parts.event.set(Field::MessageId, tool_result_id(&call));
    }
}

/// A value that is no string becomes its JSON text, and the note says so.
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

/// Whether a value has to become its JSON text. A piece of text that is null adds nothing, whereas a call may well have
/// returned null.
fn needs_json_text(field: Field, value: &Json<'_>) -> bool {
    match value.json_type() {
        JsonType::Object | JsonType::Array | JsonType::Number | JsonType::Bool => true,
        JsonType::Null => field == Field::Content,
        JsonType::String => false,
    }
}

/// The id of the message that a tool result makes, when the agent named none: the same for the same call, always.
pub(crate) fn tool_result_id(tool_call_id: &Json<'_>) -> Json<'static> {
    tool_call_id.with_suffix(":result")
}

/// Takes out again what unfolding had to add to a chunk.
pub(crate) fn restore_absent(event: &mut Event<'_>) {
    let Some(at) = event.members.iter().position(|(key, _)| carry::is_named(key, ABSENT_FIELDS)) else {
        return;
    };
    let (_, list) = event.members.remove(at);
    for name in json::parse_elements(&list).unwrap_or_default() {
        if let Some(field) = name.text().and_then(|name| Field::from_wire(&name)) {
            event.remove(field);
        }
    }
}

/// Note, on a start and on the arguments that follow it: they were one event.
pub(crate) const ARGS_IN_START: &str = "$args";

/// Takes the note of a start out of what is written.
pub(crate) fn remove_start_note(outgoing: &mut OutgoingEvent<'_>) {
    carry::take(&mut outgoing.extensions, ARGS_IN_START);
}

/// The call that an event is about; the empty text where it names none.
pub(crate) fn call_id(event: &Event<'_>) -> Json<'static> {
    event.get(Field::ToolCallId).cloned().map_or_else(|| Json::string(""), Json::into_owned)
}
