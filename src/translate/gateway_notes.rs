//! Removes what the gateway noted for itself from the messages of a request, and what else their client kept of events.
//!
//! Clients send back the metadata of the stream with their next request. What the agent understands of it was restored
//! by then; the rest means nothing to an agent. Values that had no place (`metadata.diglot`) are data, and stay.
//!
//! ```text
//! {id, content, $pieces, messageId, …}  ──▶ {id, content}
//! toolCalls: [{…, extra: {ag-ui}}]      ──▶ [{…, metadata}], as AG-UI has it
//! ```

use super::call_arguments::edit_calls;
use super::carry::{self, CANONICAL_KEY};
use crate::codec::json;
use crate::dialect::{ALL, CarryLocation, PeerDialect};
use crate::event::input::MessageMembers;
use crate::event::schema::MESSAGES;
use crate::event::{Field, Json, MemberKey, Members, RunAgentInput, find_member, get, get_owned, remove, set};

/// Finds the metadata keys that hold notes of the gateway.
struct NoteKeys {
    client: PeerDialect,
    agent: PeerDialect,
    /// false where the writer of the agent's dialect still needs its own notes
    includes_agent: bool,
}

/// Removes notes from messages, their calls and the answers to interrupts. A message's notes under the key of the
/// agent's dialect stay, because writing restores from them. Returns the number of members of events, which AG-UI's
/// messages lack.
pub(super) fn remove_notes(input: &mut RunAgentInput<'_>, client: PeerDialect, agent: PeerDialect) -> u64 {
    let includes_agent = agent.dialect.is_canonical() || agent.dialect.is_versioned();
    let keys = NoteKeys { client, agent, includes_agent };
    let all_keys = NoteKeys { client, agent, includes_agent: true };
    let mut removed = 0;
    for message in &mut input.messages {
        // A client of AG-UI has no notes but in metadata: any other member is its own.
        if !client.dialect.is_canonical() {
            message.retain(|(key, _)| !carry::is_note(key));
            removed += remove_event_members(message);
            unpack_calls(message, client);
        }
        keys.clean_metadata(message);
        all_keys.clean_list(message, Field::ToolCalls);
        restore_calls(message, agent);
    }
    all_keys.clean_list(&mut input.members, Field::Resume);
    removed
}

/// Removes members that AG-UI has, but not in messages of this role; returns their number.
fn remove_event_members(message: &mut MessageMembers<'_>) -> u64 {
    let Some(schema) = MESSAGES.arm(message) else { return 0 };
    let count = message.len();
    message.retain(|(key, _)| match key {
        MemberKey::Known(field) => schema.members.iter().any(|member| member.name == field.camel()),
        MemberKey::Other(_) => true,
    });
    (count - message.len()) as u64
}

/// Moves what the client kept of a call's events to the call's metadata, where AG-UI has it.
fn unpack_calls(message: &mut MessageMembers<'_>, client: PeerDialect) {
    let location = client.dialect.carry_location;
    let Some(place) = extra_member(client) else { return };
    let calls = get(message, Field::ToolCalls).and_then(|calls| {
        edit_calls(calls, |_, call| {
            let mut members = json::parse_owned_members(call)?;
            let found = carry::unwrap_canonical(&carry::take(&mut members, place)?, location);
            if let Some(metadata) = get_owned(&found.canonical, Field::Metadata) {
                set(&mut members, MemberKey::Known(Field::Metadata), metadata);
            }
            if let Some(rest) = found.rest {
                let own = vec![(carry::extension_key(place), rest)];
                let metadata = carry::merge(get(&members, Field::Metadata), client.dialect.name, own);
                set(&mut members, MemberKey::Known(Field::Metadata), metadata);
            }
            Some(json::to_object(&members))
        })
    });
    if let Some(calls) = calls {
        set(message, MemberKey::Known(Field::ToolCalls), calls);
    }
}

/// Restores the agent's own member of a call from the call's metadata. No other member of the call changes: the gates
/// have checked them.
fn restore_calls(message: &mut MessageMembers<'_>, agent: PeerDialect) {
    let Some(place) = extra_member(agent) else { return };
    let calls = get(message, Field::ToolCalls).filter(|calls| calls.as_str().contains(METADATA)).and_then(|calls| {
        edit_calls(calls, |_, call| {
            let mut members = json::parse_owned_members(call)?;
            let metadata = get_owned(&members, Field::Metadata)?;
            let (own, rest) = carry::unpack(metadata, agent.dialect.name, |key| carry::is_named(key, place));
            let (key, value) = own.into_iter().next_back()?;
            remove(&mut members, Field::Metadata);
            members.extend(rest.map(|rest| (MemberKey::Known(Field::Metadata), rest)));
            set(&mut members, key, value);
            Some(json::to_object(&members))
        })
    });
    if let Some(calls) = calls {
        set(message, MemberKey::Known(Field::ToolCalls), calls);
    }
}

/// Returns the member of messages and calls in which the dialect has what others lack, if its documents print one.
fn extra_member(side: PeerDialect) -> Option<&'static str> {
    let location = side.dialect.carry_location;
    location.carry_member().filter(|_| location == CarryLocation::Extra).map(|(place, _)| place)
}

fn may_have_notes(value: &Json<'_>) -> bool {
    value.as_str().contains(CANONICAL_KEY) || value.as_str().contains('$')
}

impl NoteKeys {
    /// Removes notes from the metadata of each element of a list.
    fn clean_list(&self, owner: &mut Members<'_>, field: Field) {
        let list = get(owner, field).filter(|list| may_have_notes(list));
        if let Some(list) = list.and_then(|list| self.clean_elements(list)) {
            set(owner, MemberKey::Known(field), list);
        }
    }

    fn clean_elements(&self, list: &Json<'_>) -> Option<Json<'static>> {
        let mut is_changed = false;
        let mut cleaned = Vec::new();
        for element in json::parse_elements(list)? {
            let mut members = json::parse_members(&element).filter(|members| find_member(members, METADATA).is_some());
            let changed = members.as_mut().is_some_and(|members| self.clean_metadata(members));
            is_changed |= changed;
            cleaned.push(match members.filter(|_| changed) {
                Some(members) => json::to_object(&members),
                None => element.clone().into_owned(),
            });
        }
        is_changed.then(|| json::to_array(&cleaned))
    }

    /// Removes notes from the object's metadata; returns true if there were any.
    fn clean_metadata(&self, owner: &mut Members<'_>) -> bool {
        let Some(metadata) = get(owner, Field::Metadata).filter(|metadata| may_have_notes(metadata)).cloned() else {
            return false;
        };
        let Some(before) = json::parse_members(&metadata) else { return false };
        let count = before.len();
        let mut is_changed = false;
        let mut after = Members::with_capacity(count);
        for (key, value) in before {
            if carry::is_named(&key, CANONICAL_KEY) {
                is_changed = true;
                continue;
            }
            let own = json::parse_members(&value).filter(|_| self.holds_notes(&key));
            match own.filter(|own| own.iter().any(|(key, _)| carry::is_note(key))) {
                None => after.push((key, value.clone())),
                Some(mut own) => {
                    is_changed = true;
                    own.retain(|(key, _)| !carry::is_note(key));
                    if !own.is_empty() {
                        after.push((key, json::to_object(&own)));
                    }
                }
            }
        }
        if is_changed && after.is_empty() {
            remove(owner, Field::Metadata);
        } else if is_changed {
            set(owner, MemberKey::Known(Field::Metadata), json::to_object(&after));
        }
        is_changed
    }

    fn holds_notes(&self, key: &MemberKey<'_>) -> bool {
        let name = key.name();
        if name == self.agent.dialect.name {
            return self.includes_agent && !self.agent.dialect.is_canonical();
        }
        name == carry::GATEWAY_KEY
            || name == self.client.dialect.name && !self.client.dialect.is_canonical()
            || ALL.iter().any(|dialect| !dialect.is_canonical() && dialect.name == name)
    }
}

const METADATA: &str = Field::Metadata.camel();
