//! Calls in the further parts of a message, which a request gives back to the message itself (`block_reader`).

use super::message_parts::is_part_of;
use crate::codec::json;
use crate::event::input::MessageMembers;
use crate::event::{Field, IdMap, Json, MemberKey, Members, get, get_owned, remove, set};

/// Moves the calls of further parts, which no agent gets as messages.
pub(super) fn join_calls(messages: &mut [MessageMembers<'_>], dialect: &str) {
    let mut first_parts: IdMap<usize> = IdMap::default();
    for at in 0..messages.len() {
        match part_origin(&messages[at], dialect) {
            Some(origin) => {
                let Some(first) = first_parts.get(&origin).copied() else { continue };
                let Some(calls) = remove(&mut messages[at], Field::ToolCalls).map(Json::into_owned) else { continue };
                add_calls(&mut messages[first], calls);
            }
            None => {
                let Some(id) = get_owned(&messages[at], Field::Id) else { continue };
                first_parts.insert(id, at);
            }
        }
    }
}

pub(super) fn add_calls(message: &mut MessageMembers<'_>, calls: Json<'static>) {
    let own = get(message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default();
    let more = json::parse_elements(&calls).unwrap_or_default();
    let all: Vec<_> = own.into_iter().chain(more).map(Json::into_owned).collect();
    set(message, MemberKey::Known(Field::ToolCalls), json::to_array(&all));
}

/// Returns the message of which this is a further part.
pub(super) fn part_origin(message: &Members<'_>, dialect: &str) -> Option<Json<'static>> {
    let origin = carried_member(message, dialect, Field::MessageId.camel())?;
    is_part_of(get(message, Field::Id)?, &origin).then_some(origin)
}

pub(super) fn carried_member(message: &Members<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    let metadata = get(message, Field::Metadata).filter(|metadata| metadata.as_str().contains(name))?;
    json::parse_member(&json::parse_member(metadata, dialect)?, name)
}
