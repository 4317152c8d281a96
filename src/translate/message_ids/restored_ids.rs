//! Restores the agent's ids, in requests and for sides with separate ids for each kind.

use super::id_kind::{IdKind, message_kind};
use crate::codec::json;
use crate::event::input::{CALL_SUFFIX, MessageMembers, TOOL, has_role};
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, Members, get, remove, set};
use crate::translate::call_arguments::edit_calls;
use crate::translate::carry::{self, GATEWAY_KEY};
use crate::translate::message::to_array;
use std::collections::{HashMap, HashSet};

/// Returns the agent's id of a message if `id` was generated for it. Notes that do not match are ignored, since they
/// are external input.
pub(super) fn original_id(members: &Members<'_>, id: &Json<'_>, kind: IdKind) -> Option<Json<'static>> {
    let original = carried_id(get(members, Field::Metadata)?, Field::Id)?;
    is_renamed_from(id, &original, kind).then_some(original)
}

fn carried_id(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    // Most metadata contains nothing from this gateway.
    if !metadata.as_str().contains(GATEWAY_KEY) {
        return None;
    }
    json::parse_member(&json::parse_member(metadata, GATEWAY_KEY)?, field.camel())
}

/// Returns true if `name` is `own` followed by one or more of the suffixes used for `kind`, and maybe a number, or for
/// an activity the run.
fn is_renamed_from(name: &Json<'_>, own: &Json<'_>, kind: IdKind) -> bool {
    let (Some(name), Some(own)) = (name.text(), own.text()) else { return false };
    let Some(mut rest) = name.strip_prefix(&*own).filter(|rest| !rest.is_empty()) else { return false };
    while let Some(shorter) = rest.strip_prefix(':').and_then(|rest| rest.strip_prefix(kind.suffix())) {
        rest = shorter;
    }
    let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 1);
    let is_tail = |tail: &str| is_number(tail) || (kind == IdKind::Activity && !tail.is_empty());
    rest.is_empty() || rest.strip_prefix(':').is_some_and(is_tail)
}

/// A call of a request, and the agent's id if the call's own was generated for it.
pub(super) struct CallOriginal {
    pub(super) id: Json<'static>,
    pub(super) original: Option<Json<'static>>,
}

/// Ids that were not generated.
#[derive(Default)]
pub(super) struct OwnIds(HashSet<String>);

impl OwnIds {
    /// Returns the next id with the one from which it was made. A client without metadata (before 0.0.59, or of another
    /// dialect) has lost the note: there the form of the id counts, if an earlier one is the agent's id itself.
    pub(super) fn find_original(&mut self, id: &Json<'_>, metadata: Option<&Json<'_>>) -> Option<CallOriginal> {
        let text = id.text()?;
        let from_note = metadata.and_then(|metadata| carried_id(metadata, Field::ToolCallId));
        let from_note = from_note.filter(|own| is_renamed_from(id, own, IdKind::Call));
        let original = from_note.or_else(|| self.find_by_form(&text).map(Json::string));
        if original.is_none() {
            self.0.insert(text.into_owned());
        }
        Some(CallOriginal { id: id.clone().into_owned(), original })
    }

    /// Finds the id with some suffixes less, since each hop may have added one.
    fn find_by_form<'a>(&self, id: &'a str) -> Option<&'a str> {
        let mut own = id;
        while own == id || !self.0.contains(own) {
            let (name, _) = own.rsplit_once(':').filter(|(_, number)| *number != CALL_SUFFIX).unwrap_or((own, ""));
            own = name.strip_suffix(CALL_SUFFIX)?.strip_suffix(':')?;
        }
        is_renamed_from(&Json::string(id), &Json::string(own), IdKind::Call).then_some(own)
    }
}

/// Returns the calls of a request, and those of which it has only the result.
pub(super) fn original_call_ids(messages: &[MessageMembers<'_>]) -> Vec<CallOriginal> {
    let mut own_ids = OwnIds::default();
    let mut called: IdMap<()> = IdMap::default();
    let mut found = Vec::new();
    for message in messages {
        for call in get(message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
            let Some(id) = json::parse_member(&call, Field::Id.camel()) else { continue };
            let metadata = json::parse_member(&call, Field::Metadata.camel());
            found.extend(own_ids.find_original(&id, metadata.as_ref()));
            called.insert(id.into_owned(), ());
        }
        let answered = get(message, Field::ToolCallId).filter(|id| has_role(message, TOOL) && !called.contains(id));
        found.extend(answered.and_then(|id| own_ids.find_original(id, None)));
    }
    found
}

/// Restores an agent's ids of calls, in the calls and in what answers them.
pub(in crate::translate) fn restore_calls(messages: &mut [MessageMembers<'_>]) {
    // Most requests have no such id.
    let may_be_renamed = |message: &MessageMembers<'_>| {
        [Field::ToolCalls, Field::ToolCallId]
            .iter()
            .any(|field| get(message, *field).is_some_and(|own| own.as_str().contains(":call")))
    };
    if !messages.iter().any(may_be_renamed) {
        return;
    }
    let calls = original_call_ids(messages).into_iter();
    let originals: HashMap<_, _> =
        calls.filter_map(|call| Some((call.id.text()?.into_owned(), call.original?))).collect();
    if originals.is_empty() {
        return;
    }
    let find = |id: &Json<'_>| originals.get(&*id.text()?).cloned();
    for message in messages {
        let calls = get(message, Field::ToolCalls).and_then(|calls| {
            edit_calls(calls, |_, call| {
                let mut members = json::parse_owned_members(call)?;
                let own = find(get(&members, Field::Id)?)?;
                restore_member(&mut members, Field::Id, own, Field::ToolCallId);
                Some(json::to_object(&members))
            })
        });
        calls.into_iter().for_each(|calls| set(message, MemberKey::Known(Field::ToolCalls), calls));
        if let Some(own) = get(message, Field::ToolCallId).and_then(find) {
            restore_member(message, Field::ToolCallId, own, Field::ToolCallId);
        }
    }
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
        let kind = message_kind(message);
        let Some(id) = get(message, Field::Id).cloned() else { continue };
        if let Some(own) = original_id(message, &id, kind) {
            restore_member(message, Field::Id, own, Field::Id);
            changed = true;
        }
        changed |= restore_call_parent(message, kind);
    }
    changed
}

/// Restores the id of a message that the client created for a call; only the call's metadata contains it.
fn restore_call_parent(message: &mut MessageMembers<'_>, kind: IdKind) -> bool {
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
            (Some(mut call), Some(own)) if own.is_same(&id) || is_renamed_from(&id, &own, kind) => {
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
    let (field, note, kind) = match (event.kind, IdKind::from_event_type(event.kind)) {
        (_, Some((kind, _))) => (Field::MessageId, Field::Id, kind),
        (EventType::ToolCallStart | EventType::ToolCallChunk, _) => {
            (Field::ParentMessageId, Field::ParentMessageId, IdKind::Text)
        }
        _ => return,
    };
    let own = event.get(Field::Metadata).and_then(|metadata| carried_id(metadata, note));
    if let (Some(own), Some(name)) = (own, event.get(field))
        && is_renamed_from(name, &own, kind)
    {
        event.source = None;
        restore_member(&mut event.members, field, own, note);
    }
}
