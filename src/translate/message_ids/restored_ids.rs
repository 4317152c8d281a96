//! Restores the agent's ids, in requests and for sides with separate ids for each kind.

use super::message_kind::{MessageKind, message_kind};
use crate::codec::json;
use crate::event::input::MessageMembers;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, get, remove, set};
use crate::translate::carry::{self, GATEWAY_KEY};
use crate::translate::message::to_array;

/// Returns the agent's id of a message if `id` was generated for it. Notes that do not match are ignored, since they
/// are external input.
pub(super) fn original_id(members: &Members<'_>, id: &Json<'_>, sort: MessageKind) -> Option<Json<'static>> {
    let original = carried_id(get(members, Field::Metadata)?, Field::Id)?;
    is_renamed_from(id, &original, sort).then_some(original)
}

fn carried_id(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    // Most metadata contains nothing from this gateway.
    if !metadata.as_str().contains(GATEWAY_KEY) {
        return None;
    }
    json::parse_member(&json::parse_member(metadata, GATEWAY_KEY)?, field.camel())
}

/// Returns true if `name` is `own` followed by one or more of the suffixes used for `sort`, and maybe a number, or for
/// an activity the run.
fn is_renamed_from(name: &Json<'_>, own: &Json<'_>, sort: MessageKind) -> bool {
    let (Some(name), Some(own)) = (name.text(), own.text()) else { return false };
    let Some(mut rest) = name.strip_prefix(&*own).filter(|rest| !rest.is_empty()) else { return false };
    while let Some(shorter) = rest.strip_prefix(':').and_then(|rest| rest.strip_prefix(sort.suffix())) {
        rest = shorter;
    }
    let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 1);
    let is_tail = |tail: &str| is_number(tail) || (sort == MessageKind::Activity && !tail.is_empty());
    rest.is_empty() || rest.strip_prefix(':').is_some_and(is_tail)
}

/// Removes the note of the original id; returns `None` if no other metadata remains.
fn without_id_note(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    let mut all = json::parse_members(metadata)?;
    if let Some(at) = all.iter().position(|(key, _)| carry::is_named(key, GATEWAY_KEY)) {
        let mut ours = json::parse_owned_members(&all[at].1).unwrap_or_default();
        remove(&mut ours, field);
        match ours.is_empty() {
            true => drop(all.remove(at)),
            false => all[at].1 = json::to_object(&ours),
        }
    }
    (!all.is_empty()).then(|| json::to_object(&all))
}

fn restore_member(members: &mut Members<'_>, field: Field, own: Json<'static>, note: Field) {
    set(members, MemberKey::Known(field), own);
    match get(members, Field::Metadata).and_then(|metadata| without_id_note(metadata, note)) {
        Some(metadata) => set(members, MemberKey::Known(Field::Metadata), metadata),
        None => drop(remove(members, Field::Metadata)),
    }
}

/// Restores the agent's ids on messages; returns true if any changed.
pub(in crate::translate) fn restore_ids(messages: &mut [MessageMembers<'_>]) -> bool {
    let mut changed = false;
    for message in messages {
        let sort = message_kind(message);
        let Some(id) = get(message, Field::Id).cloned() else { continue };
        if let Some(own) = original_id(message, &id, sort) {
            restore_member(message, Field::Id, own, Field::Id);
            changed = true;
        }
        changed |= restore_call_parent(message, sort);
    }
    changed
}

/// Restores the id of a message that the client created for a call; only the call's metadata contains it.
fn restore_call_parent(message: &mut MessageMembers<'_>, sort: MessageKind) -> bool {
    let calls = get(message, Field::ToolCalls).filter(|calls| calls.as_str().contains(GATEWAY_KEY)).cloned();
    let Some(elements) = calls.as_ref().and_then(json::parse_elements) else { return false };
    let Some(id) = get(message, Field::Id).cloned() else { return false };
    let mut agent_id = None;
    let mut restored: Vec<Json<'_>> = Vec::with_capacity(elements.len());
    for element in &elements {
        let members = json::parse_members(element);
        let metadata = members.as_ref().and_then(|members| get(members, Field::Metadata));
        let own = metadata.and_then(|metadata| carried_id(metadata, Field::ParentMessageId));
        match (members.clone(), own) {
            // The text's own events may already have restored the message's id.
            (Some(mut call), Some(own)) if own.is_same(&id) || is_renamed_from(&id, &own, sort) => {
                match get(&call, Field::Metadata).and_then(|metadata| without_id_note(metadata, Field::ParentMessageId))
                {
                    Some(metadata) => set(&mut call, MemberKey::Known(Field::Metadata), metadata),
                    None => drop(remove(&mut call, Field::Metadata)),
                }
                restored.push(json::to_object(&call));
                agent_id = Some(own);
            }
            _ => restored.push(element.as_borrowed()),
        }
    }
    let Some(agent_id) = agent_id else { return false };
    let calls = json::to_array(&restored);
    set(message, MemberKey::Known(Field::ToolCalls), calls);
    set(message, MemberKey::Known(Field::Id), agent_id);
    true
}

/// Restores the agent's ids for a side with separate ids for each kind.
pub(in crate::translate) fn restore_event_ids(event: &mut Event<'_>) {
    if event.kind == EventType::MessagesSnapshot {
        let list = event.get(Field::Messages).filter(|list| list.as_str().contains(GATEWAY_KEY)).cloned();
        let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let messages: Option<Vec<MessageMembers<'_>>> = elements.iter().map(json::parse_message).collect();
        if let Some(mut messages) = messages.filter(|_| list.is_some())
            && restore_ids(&mut messages)
        {
            event.set(Field::Messages, to_array(&messages, false));
        }
        return;
    }
    let (field, note, sort) = match (event.kind, MessageKind::from_event_type(event.kind)) {
        (_, Some((sort, _))) => (Field::MessageId, Field::Id, sort),
        (EventType::ToolCallStart | EventType::ToolCallChunk, _) => {
            (Field::ParentMessageId, Field::ParentMessageId, MessageKind::Text)
        }
        _ => return,
    };
    let own = event.get(Field::Metadata).and_then(|metadata| carried_id(metadata, note));
    if let (Some(own), Some(name)) = (own, event.get(field))
        && is_renamed_from(name, &own, sort)
    {
        event.source = None;
        restore_member(&mut event.members, field, own, note);
    }
}
