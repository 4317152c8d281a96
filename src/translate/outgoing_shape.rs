//! How one event is shaped for the peer that takes it: members that it wants said in another way.

use super::writer::OutgoingEvent;
use super::{carry, content_parts, message, reader};
use crate::codec::json;
use crate::dialect::ASSISTANT;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, get};
use std::borrow::Cow;

/// A whole canonical event as a value.
pub(super) fn event_to_value(event: &Event<'_>) -> Json<'static> {
    json::build_object(|object| {
        object.string_member(json::TYPE, event.kind.wire());
        event.members.iter().for_each(|member| object.copy_member(member, false));
    })
}

/// An event that stands for a chunk, as that chunk.
pub(super) fn restore_chunk<'a>(mut event: Event<'a>, canonical_type: Option<&'static str>) -> Event<'a> {
    if let Some(kind) = canonical_type.and_then(EventType::from_wire) {
        event.kind = kind;
        super::chunk::restore_absent(&mut event);
    }
    event
}

/// A run boundary needs a message id and a role over there: the run's id and "assistant", unless it said others.
pub(super) fn write_boundary(outgoing: &mut OutgoingEvent<'_>) {
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
pub(super) fn write_as_json(outgoing: &mut OutgoingEvent<'_>, field: Field) {
    if carry::take_json_note(&mut outgoing.extensions, field)
        && let Some(text) = get(&outgoing.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::parse_value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut outgoing.members, MemberKey::Known(field), value);
    }
}

/// A result whose message had no id over there has none again; an empty id that is canonical is not taken for that.
pub(super) fn restore_empty_id(outgoing: &mut OutgoingEvent<'_>) {
    let empty = get(&outgoing.members, Field::MessageId).is_some_and(|id| id.is_str(""));
    if carry::take(&mut outgoing.extensions, reader::EMPTY_ID_NOTE).is_some() {
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::MessageId), Json::string(""));
    } else if empty {
        outgoing.canonical.push((MemberKey::Known(Field::MessageId), Json::string("")));
    }
}

/// Content parts are said as their text; the parts themselves are carried.
pub(super) fn flatten_parts(outgoing: &mut OutgoingEvent<'_>) {
    let Some(parts) = get(&outgoing.members, Field::Content).filter(|content| content.json_type() == JsonType::Array)
    else {
        return;
    };
    if message::is_parts(parts) {
        let text = Json::string(&content_parts::joined_text(parts));
        let parts = parts.clone();
        outgoing.canonical.push((MemberKey::Known(Field::Content), parts));
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::Content), text);
    }
}
