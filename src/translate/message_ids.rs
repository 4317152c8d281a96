//! Message ids that distinguish messages to which the agent gave the same id.
//!
//! The real client keeps all messages of a conversation in one list by id (`specs/ag-ui-1.0.md` §3.4), whatever their
//! kind: text `m`, reasoning `m`, activity `m` and the tool message `m` would become one message. The first kind with
//! an id keeps it; a later one is renamed to `<id>:<kind>`, on the stream and in snapshots, with the agent's own id in
//! `metadata.diglot.id`. The client stores that on the message and sends it back, and the request restores the id.

use super::carry::GATEWAY_KEY;
use super::message::to_array;
use super::report::TranslationReport;
use super::{carry, memory_limits};
use crate::codec::json;
use crate::event::input::{ACTIVITY, MessageMembers, REASONING};
use crate::event::{Event, EventRepair, EventType, Field, Json, MemberKey, Members, get, remove, set};
use std::collections::HashMap;

/// Limits the ids of a conversation that are kept apart, against a malicious agent. Further ids pass unchanged.
pub(super) const IDS_LIMIT: usize = 100_000;

/// The kinds of message that share one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// of the assistant, the user, the system, a developer
    Text,
    Reasoning,
    Activity,
    ToolResult,
}

impl MessageKind {
    const fn suffix(self) -> &'static str {
        match self {
            MessageKind::Text => "text",
            MessageKind::Reasoning => REASONING,
            MessageKind::Activity => ACTIVITY,
            MessageKind::ToolResult => "tool",
        }
    }

    fn from_role(role: &str) -> MessageKind {
        match role {
            REASONING => MessageKind::Reasoning,
            ACTIVITY => MessageKind::Activity,
            "tool" => MessageKind::ToolResult,
            _ => MessageKind::Text,
        }
    }

    /// Returns the kind of message that an event belongs to, and true if the client creates a message for it. A
    /// reasoning span creates none, but shares the name of the message inside it, since most agents give both one id.
    const fn from_event_type(kind: EventType) -> Option<(MessageKind, bool)> {
        Some(match kind {
            EventType::TextMessageStart | EventType::TextMessageChunk => (MessageKind::Text, true),
            EventType::TextMessageContent | EventType::TextMessageEnd => (MessageKind::Text, false),
            EventType::ReasoningStart | EventType::ReasoningMessageStart | EventType::ReasoningMessageChunk => {
                (MessageKind::Reasoning, true)
            }
            EventType::ReasoningMessageContent | EventType::ReasoningMessageEnd | EventType::ReasoningEnd => {
                (MessageKind::Reasoning, false)
            }
            EventType::ActivitySnapshot => (MessageKind::Activity, true),
            EventType::ActivityDelta => (MessageKind::Activity, false),
            EventType::ToolCallResult => (MessageKind::ToolResult, true),
            _ => return None,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct MessageIdMap {
    claims: HashMap<Box<str>, IdClaim>,
    has_renames: bool,
}

#[derive(Debug, Default)]
struct IdClaim {
    /// the id was generated here, so no agent can refer to it
    is_generated: bool,
    first_kind: Option<MessageKind>,
    /// the new ids of later kinds
    renamed_kinds: Vec<(MessageKind, Json<'static>)>,
}

impl MessageIdMap {
    /// Returns the new id for the agent's `id`, if it is renamed. `opens` is true if the client creates a message for
    /// it.
    fn resolve(&mut self, id: &Json<'_>, sort: MessageKind, opens: bool) -> Option<Json<'static>> {
        if !(opens || self.has_renames) {
            return None;
        }
        let text = id.text()?;
        let opens = opens && self.claims.len() < IDS_LIMIT && text.len() <= memory_limits::MAX_ID_LEN;
        match self.claims.get_mut(&*text) {
            None => {
                if opens {
                    self.claims.insert(Box::from(&*text), IdClaim { first_kind: Some(sort), ..IdClaim::default() });
                }
                return None;
            }
            Some(claim) if claim.first_kind == Some(sort) => return None,
            Some(claim) => {
                let known = claim.renamed_kinds.iter().find(|(other, _)| *other == sort).map(|(_, name)| name.clone());
                if known.is_some() || !opens {
                    return known;
                }
                if !claim.is_generated && claim.first_kind.is_none() {
                    claim.first_kind = Some(sort);
                    return None;
                }
            }
        }
        let mut name = id.clone().into_owned();
        loop {
            name = name.with_suffix(&format!(":{}", sort.suffix()));
            let taken = name.text().map(|name| Box::from(&*name)).filter(|name| !self.claims.contains_key(name));
            if let Some(free) = taken {
                self.claims.insert(free, IdClaim { is_generated: true, ..IdClaim::default() });
                break;
            }
        }
        if let Some(claim) = self.claims.get_mut(&*text) {
            claim.renamed_kinds.push((sort, name.clone()));
        }
        self.has_renames = true;
        Some(name)
    }

    pub(crate) fn apply(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        match event.kind {
            EventType::ToolCallStart | EventType::ToolCallChunk => self.rename_call_parent(event, report),
            EventType::SubagentStarted if self.has_renames => {
                if let Some(name) =
                    event.get(Field::ParentMessageId).and_then(|id| self.lookup(id, &[MessageKind::Text]))
                {
                    rename_member(event, Field::ParentMessageId, name, report);
                }
            }
            EventType::ReasoningEncryptedValue
                if self.has_renames && event.get(Field::Subtype).is_some_and(|it| it.is_str("message")) =>
            {
                // The event does not say which of several messages it refers to; it is a value of reasoning first of
                // all.
                let sorts = [MessageKind::Reasoning, MessageKind::Text, MessageKind::ToolResult];
                if let Some(name) = event.get(Field::EntityId).and_then(|id| self.lookup(id, &sorts)) {
                    rename_member(event, Field::EntityId, name, report);
                }
            }
            EventType::MessagesSnapshot => {
                if let Some(list) = event.get(Field::Messages).and_then(|list| self.rename_messages(list, report)) {
                    event.set(Field::Messages, list);
                }
            }
            EventType::RunStarted => self.rename_input_messages(event, report),
            kind => {
                // Content is the most frequent event, and most runs rename nothing.
                let Some((sort, opens)) =
                    MessageKind::from_event_type(kind).filter(|(_, opens)| *opens || self.has_renames)
                else {
                    return;
                };
                if let Some(name) = event.get(Field::MessageId).and_then(|id| self.resolve(id, sort, opens)) {
                    rename_member(event, Field::MessageId, name, report);
                }
            }
        }
    }

    /// Renames content without a start, for which the guard adds one.
    pub(crate) fn apply_opened(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        if let Some((sort, false)) = MessageKind::from_event_type(event.kind)
            && let Some(id) = event.get(Field::MessageId)
            && !self.is_generated(id)
            && let Some(name) = self.resolve(id, sort, true)
        {
            rename_member(event, Field::MessageId, name, report);
        }
    }

    fn is_generated(&self, id: &Json<'_>) -> bool {
        id.text().and_then(|id| self.claims.get(&*id)).is_some_and(|claim| claim.is_generated)
    }

    fn lookup(&self, id: &Json<'_>, sorts: &[MessageKind]) -> Option<Json<'static>> {
        let claim = self.claims.get(&*id.text()?)?;
        for sort in sorts {
            if claim.first_kind == Some(*sort) {
                return None;
            }
            if let Some((_, name)) = claim.renamed_kinds.iter().find(|(other, _)| other == sort) {
                return Some(name.clone());
            }
        }
        None
    }

    /// Renames the parent of a call, an assistant's message: the client creates a missing one, or one with the call's
    /// id.
    fn rename_call_parent(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        if let Some(parent) = event.get(Field::ParentMessageId) {
            if let Some(name) = self.resolve(parent, MessageKind::Text, true) {
                rename_member(event, Field::ParentMessageId, name, report);
            }
            return;
        }
        let Some(call) = event.get(Field::ToolCallId) else { return };
        let name = self.resolve(call, MessageKind::Text, true);
        // A chunk may continue a call whose parent came before.
        if let Some(name) = name.filter(|_| event.kind == EventType::ToolCallStart) {
            let call = call.clone();
            event.set(Field::ParentMessageId, call);
            rename_member(event, Field::ParentMessageId, name, report);
        }
    }

    /// "RUN_STARTED.input.messages with unknown ids are appended."
    fn rename_input_messages(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let Some(input) = event.get(Field::Input).cloned() else { return };
        let Some(mut members) = json::parse_message(&input) else { return };
        if let Some(list) = get(&members, Field::Messages).and_then(|list| self.rename_messages(list, report)) {
            set(&mut members, MemberKey::Known(Field::Messages), list);
            event.set(Field::Input, json::to_object(&members));
        }
    }

    fn rename_messages(&mut self, list: &Json<'_>, report: &mut TranslationReport) -> Option<Json<'static>> {
        let elements = json::parse_elements(list)?;
        let mut messages: Vec<MessageMembers<'_>> = Vec::with_capacity(elements.len());
        let mut changed = false;
        for element in &elements {
            let mut message = json::parse_message(element)?;
            let named = get(&message, Field::Id)
                .and_then(|id| Some((id.clone(), self.resolve(id, message_kind(&message), true)?)));
            if let Some((id, name)) = named {
                let metadata =
                    carry::merge(get(&message, Field::Metadata), GATEWAY_KEY, vec![(MemberKey::Known(Field::Id), id)]);
                set(&mut message, MemberKey::Known(Field::Id), name);
                set(&mut message, MemberKey::Known(Field::Metadata), metadata);
                report.count_repair(EventRepair::IdNamespaced);
                changed = true;
            }
            messages.push(message);
        }
        changed.then(|| to_array(&messages, false))
    }

    /// Creates the map of a conversation before a run: the client's ids, with the agent's ids for the generated ones.
    pub(crate) fn from_messages(messages: &[MessageMembers<'_>]) -> MessageIdMap {
        let mut names = MessageIdMap::default();
        // Registers every agent id first, so that no generated id collides with one.
        let mut made = Vec::new();
        for message in messages {
            let (Some(id), sort) = (get(message, Field::Id), message_kind(message)) else { continue };
            match original_id(message, id, sort) {
                Some(own) => made.push((id, own, sort)),
                None => drop(names.resolve(id, sort, true)),
            }
        }
        for (id, own, sort) in made {
            let (Some(name), Some(own)) = (id.text(), own.text()) else { continue };
            names.claims.entry(Box::from(&*name)).or_default().is_generated = true;
            names.claims.entry(Box::from(&*own)).or_default().renamed_kinds.push((sort, id.clone().into_owned()));
            names.has_renames = true;
        }
        names
    }
}

fn message_kind(message: &Members<'_>) -> MessageKind {
    get(message, Field::Role).and_then(Json::text).map_or(MessageKind::Text, |role| MessageKind::from_role(&role))
}

/// Sets a new id and notes the agent's on every event of the message: a later `metadata.diglot` replaces an earlier one
/// at the client.
fn rename_member(event: &mut Event<'_>, field: Field, name: Json<'static>, report: &mut TranslationReport) {
    let Some(own) = event.get(field).cloned().map(Json::into_owned) else { return };
    event.set(field, name);
    let key = if field == Field::MessageId { Field::Id } else { field };
    carry::pack(event, GATEWAY_KEY, vec![(MemberKey::Known(key), own)]);
    report.count_repair(EventRepair::IdNamespaced);
}

/// Returns the agent's id of a message when `id` was generated for it. A note that does not match the id is ignored,
/// since it is external input.
fn original_id(members: &Members<'_>, id: &Json<'_>, sort: MessageKind) -> Option<Json<'static>> {
    let original = carried_id(get(members, Field::Metadata)?, Field::Id)?;
    is_renamed_from(id, &original, sort).then_some(original)
}

fn carried_id(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    // Most metadata contains nothing from this gateway.
    if !metadata.as_str().contains(GATEWAY_KEY) {
        return None;
    }
    let all = json::parse_members(metadata)?;
    let (_, ours) = all.iter().find(|(key, _)| carry::is_named(key, GATEWAY_KEY))?;
    get(&json::parse_members(ours)?, field).cloned().map(Json::into_owned)
}

/// Returns true if `name` is `own` followed by the suffix of the kind, once or repeatedly.
fn is_renamed_from(name: &Json<'_>, own: &Json<'_>, sort: MessageKind) -> bool {
    let (Some(name), Some(own)) = (name.text(), own.text()) else { return false };
    let Some(mut rest) = name.strip_prefix(&*own).filter(|rest| !rest.is_empty()) else { return false };
    while let Some(shorter) = rest.strip_prefix(':').and_then(|rest| rest.strip_prefix(sort.suffix())) {
        rest = shorter;
    }
    rest.is_empty()
}

/// Removes the id note from a metadata object; `None` when nothing else is in there.
fn without_id_note(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    let mut all = json::parse_members(metadata)?;
    if let Some(at) = all.iter().position(|(key, _)| carry::is_named(key, GATEWAY_KEY)) {
        let mut ours = json::parse_members(&all[at].1).map(crate::event::into_owned_members).unwrap_or_default();
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

/// Restores the agent's ids on the messages of a request, or of a snapshot for a side that separates kinds.
pub(super) fn restore_ids(messages: &mut [MessageMembers<'_>]) -> bool {
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

/// A message that the client created for a call has no metadata of its own: the note is on the call.
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
            // The text's own events may have restored the message's id already.
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

/// Restores the agent's ids on an event: for a side whose kinds have separate ids.
pub(super) fn restore_event_ids(event: &mut Event<'_>) {
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
