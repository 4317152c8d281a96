//! How one event is shaped for the peer that takes it: members that it wants said in another way.

use super::write::Said;
use super::{carry, message, part, read};
use crate::codec::json;
use crate::dialect::ASSISTANT;
use crate::event::{Event, Field, Json, Key, Kind, Type, get};
use std::borrow::Cow;

/// A whole canonical event as a value.
pub(super) fn to_value(event: &Event<'_>) -> Json<'static> {
    json::build(|object| {
        object.word(json::TYPE, event.kind.wire());
        event.members.iter().for_each(|member| object.copy(member, false));
    })
}

/// An event that stands for a chunk, as that chunk.
pub(super) fn marked<'a>(mut event: Event<'a>, stands_for: Option<&'static str>) -> Event<'a> {
    if let Some(kind) = stands_for.and_then(Kind::from_wire) {
        event.kind = kind;
        super::chunk::restore_absent(&mut event);
    }
    event
}

/// A run boundary needs a message id and a role over there: the run's id and "assistant", unless it said others.
pub(super) fn boundary(said: &mut Said<'_>) {
    let has = |field: Field| said.own.iter().any(|(key, _)| *key == Key::Known(field));
    let (has_id, has_role) = (has(Field::MessageId), has(Field::Role));
    if has_id {
        return;
    }
    if let Some(run_id) = get(&said.members, Field::RunId).cloned() {
        said.own.push((Key::Known(Field::MessageId), run_id.into_owned()));
    }
    if !has_role {
        said.own.push((Key::Known(Field::Role), Json::string(ASSISTANT)));
    }
}

/// A text that was a JSON value over there is one again.
pub(super) fn as_json(said: &mut Said<'_>, field: Field) {
    if carry::take_json_note(&mut said.own, field)
        && let Some(text) = get(&said.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut said.members, Key::Known(field), value);
    }
}

/// A result whose message had no id over there has none again; an empty id that is canonical is not taken for that.
pub(super) fn unname_result(said: &mut Said<'_>) {
    let empty = get(&said.members, Field::MessageId).is_some_and(|id| id.is(""));
    if carry::take(&mut said.own, read::UNNAMED).is_some() {
        crate::event::set(&mut said.members, Key::Known(Field::MessageId), Json::string(""));
    } else if empty {
        said.canonical.push((Key::Known(Field::MessageId), Json::string("")));
    }
}

/// Content parts are said as their text; the parts themselves are carried.
pub(super) fn flatten_parts(said: &mut Said<'_>) {
    let Some(parts) = get(&said.members, Field::Content).filter(|content| content.shape() == Type::Array) else {
        return;
    };
    if message::is_parts(parts) {
        let text = Json::string(&part::text(parts));
        let parts = parts.clone();
        said.canonical.push((Key::Known(Field::Content), parts));
        crate::event::set(&mut said.members, Key::Known(Field::Content), text);
    }
}
