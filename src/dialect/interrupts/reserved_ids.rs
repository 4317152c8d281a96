//! The agent's ids that begin as those of the gateway's calls and messages, which get a prefix for the client.
//!
//! ```text
//!   agent                   client                             next request
//!   interrupt:x        ──▶  agent:interrupt:x             ──▶  interrupt:x
//!   agent:interrupt:x  ──▶  agent:agent:interrupt:x       ──▶  agent:interrupt:x
//! ```
//! So `interrupt:<id>` is always the gateway's, and a question collides with nothing. The prefix alone restores the id
//! in a request, since not every client sends metadata back; events carry the original members.

use super::{PREFIX, strip_prefix};
use crate::codec::json;
use crate::dialect::carry::{self, GATEWAY_KEY};
use crate::event::input::MessageMembers;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, get, set};

const AGENT_PREFIX: &str = "agent:";

/// Carries the original members of an event.
const ORIGINAL_MEMBERS: &str = "$original";

/// Prefixes the agent's ids that only the gateway may use for a client; returns true if there were any.
pub(crate) fn prefix_reserved_ids(event: &mut Event<'_>) -> bool {
    let kind = event.kind;
    let mut originals = Members::new();
    for (key, value) in &mut event.members {
        let reserved = match key {
            MemberKey::Known(Field::MessageId | Field::ToolCallId | Field::ParentMessageId) => prefix_id(value),
            MemberKey::Known(Field::Messages) if kind == EventType::MessagesSnapshot => edit_messages(value, prefix_id),
            _ => None,
        };
        if let Some(reserved) = reserved {
            originals.push((key.clone().into_owned(), std::mem::replace(value, reserved).into_owned()));
        }
    }
    if originals.is_empty() {
        return false;
    }
    let metadata = event.get(Field::Metadata).filter(|own| json::parse_members(own).is_none_or(|all| all.is_empty()));
    // Taking the note out again would remove it.
    originals.extend(metadata.map(|own| (MemberKey::Known(Field::Metadata), own.clone().into_owned())));
    carry::pack(event, GATEWAY_KEY, vec![(carry::extension_key(ORIGINAL_MEMBERS), json::to_object(&originals))]);
    event.source = None;
    true
}

/// Restores the members that [`prefix_reserved_ids`] replaced, if the event has been through a client's dialect.
pub(crate) fn restore_event_ids(event: &mut Event<'_>) {
    let Some(originals) = carry::take_carried(event, GATEWAY_KEY, ORIGINAL_MEMBERS) else { return };
    event.source = None;
    for (key, value) in json::parse_owned_members(&originals).unwrap_or_default() {
        if let MemberKey::Known(
            Field::MessageId | Field::ToolCallId | Field::ParentMessageId | Field::Messages | Field::Metadata,
        ) = key
        {
            set(&mut event.members, key, value);
        }
    }
}

/// Restores the agent's ids in the messages of a request.
pub(crate) fn restore_ids(messages: &mut [MessageMembers<'_>]) {
    for message in messages {
        edit_message(message, strip_agent_prefix);
    }
}

/// Returns the id for the client if `id` would be taken for the gateway's.
pub(super) fn prefix_id(id: &Json<'_>) -> Option<Json<'static>> {
    let text = id.text()?;
    text.trim_start_matches(AGENT_PREFIX).starts_with(PREFIX).then(|| {
        // Preserves escapes.
        Json::from_trusted(format!("\"{AGENT_PREFIX}{}", &id.as_str()[1..]))
    })
}

fn strip_agent_prefix(id: &Json<'_>) -> Option<Json<'static>> {
    prefix_id(id)?;
    strip_prefix(id, AGENT_PREFIX)
}

type IdEditor = fn(&Json<'_>) -> Option<Json<'static>>;

fn edit_messages(list: &Json<'_>, edit: IdEditor) -> Option<Json<'static>> {
    edit_elements(list, |element| {
        let mut message = json::parse_message(element).map(crate::event::into_owned_members)?;
        edit_message(&mut message, edit).then(|| json::to_object(&message))
    })
}

fn edit_call(call: &Json<'_>, edit: IdEditor) -> Option<Json<'static>> {
    let mut members = json::parse_owned_members(call)?;
    let id = get(&members, Field::Id).and_then(edit)?;
    set(&mut members, MemberKey::Known(Field::Id), id);
    Some(json::to_object(&members))
}

/// Returns the list with what `edit` returns in place of elements, or `None` if it changes none.
fn edit_elements(list: &Json<'_>, edit: impl Fn(&Json<'_>) -> Option<Json<'static>>) -> Option<Json<'static>> {
    // Most lists have no such id, and no escape that could hide one.
    if !list.as_str().contains(PREFIX) && !list.as_str().contains('\\') {
        return None;
    }
    let elements = json::parse_elements(list)?;
    let edited: Vec<_> = elements.iter().map(&edit).collect();
    if edited.iter().all(Option::is_none) {
        return None;
    }
    let merged = edited.into_iter().zip(&elements).map(|(new, old)| new.unwrap_or_else(|| old.as_borrowed()));
    Some(json::to_array(&merged.collect::<Vec<_>>()))
}

/// Edits the ids of a message and of its calls; returns true if any changed.
fn edit_message(message: &mut MessageMembers<'_>, edit: IdEditor) -> bool {
    let mut edited: Members<'static> = Vec::new();
    for field in [Field::Id, Field::ToolCallId] {
        edited.extend(get(message, field).and_then(edit).map(|id| (MemberKey::Known(field), id)));
    }
    let calls = get(message, Field::ToolCalls);
    if let Some(calls) = calls.and_then(|calls| edit_elements(calls, |call| edit_call(call, edit))) {
        edited.push((MemberKey::Known(Field::ToolCalls), calls));
    }
    let is_changed = !edited.is_empty();
    edited.into_iter().for_each(|(key, value)| set(message, key, value));
    is_changed
}
