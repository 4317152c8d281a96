//! Makes message ids unique if the agent used one for several messages.
//!
//! The real client keeps all messages of a conversation in one list by id (`specs/ag-ui-1.0.md` §3.4): text `m`,
//! reasoning `m`, activity `m` and the tool message `m` would become one message. The first kind with an id keeps it;
//! later ones are renamed to `<id>:<kind>`, in events and snapshots, with the agent's id in `metadata.diglot.id`. The
//! client sends that back, and the id is restored in the request.
//!
//! An agent that is not of AG-UI may use the same ids in each run, as the code in seed 000 §4.2 does (`msgId-001`).
//! A message that starts there with an id of an earlier run is renamed in the same way, to `<id>:<kind>:2` if that name
//! is taken. Earlier messages are those of the request and of the agent's snapshots, whose own repeated ids are
//! renamed, too. No request contains activities, since the client keeps them to itself: after a thread's first run they
//! are renamed to `<id>:activity:<run>`.

mod id_use;
mod id_kind;
mod restored_ids;
mod listed_messages;
mod recorded_ids;
mod call_ids;
mod question_ids;
mod client_ids;

pub(super) use client_ids::{CallProgress, ClientIds};
pub(super) use id_use::IdUse;
pub(super) use question_ids::restore_answers;
pub(super) use restored_ids::{restore_calls, restore_ids};

use id_kind::{IdKind, message_kind};
use restored_ids::{CallOriginal, original_id};

use super::carry::GATEWAY_KEY;
use super::report::TranslationReport;
use super::{carry, memory_limits, tool_result_id};
use crate::event::input::MessageMembers;
use crate::event::{Event, EventRepair, EventType, Field, Json, MemberKey, SmallMap, get, push_tight};

/// Maximum number of tracked ids, which bounds memory against a malicious agent; further ids pass unchanged.
pub(super) const IDS_LIMIT: usize = 100_000;

/// The cause of a message in the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStart {
    /// an event of its own kind
    Event,
    /// a result whose id is made of its call's, which each result of that call has
    Result,
    /// a call, whose parent it is
    Call,
}

#[derive(Clone, Debug, Default)]
struct MessageIdMap {
    claims: SmallMap<Box<str>, IdClaim>,
    has_renames: bool,
    id_use: IdUse,
    /// number of tool results in this run
    result_count: u32,
}

#[derive(Clone, Debug, Default)]
struct IdClaim {
    /// the agent's id, if the gateway made this one of it: the agent cannot refer to it
    made_of: Option<Box<str>>,
    first_kind: Option<IdKind>,
    /// those that were renamed; all if the agent may repeat ids
    messages: Vec<NamedMessages>,
}

/// The client's messages of one kind for which the agent has one id.
#[derive(Clone, Debug)]
struct NamedMessages {
    kind: IdKind,
    /// in the order of the messages
    names: Vec<Json<'static>>,
    last_number: u32,
    /// whether the last one began in this run, so the agent means it
    has_begun: bool,
    /// number of results before the call that made the last one, if no text has started there
    call: Option<u32>,
}

impl IdClaim {
    fn messages(&self, kind: IdKind) -> Option<&NamedMessages> {
        self.messages.iter().find(|messages| messages.kind == kind)
    }

    fn messages_mut(&mut self, kind: IdKind) -> &mut NamedMessages {
        let at = self.messages.iter().position(|messages| messages.kind == kind).unwrap_or(self.messages.len());
        if at == self.messages.len() {
            let new = NamedMessages { kind, names: Vec::new(), last_number: 0, has_begun: false, call: None };
            push_tight(&mut self.messages, new);
        }
        &mut self.messages[at]
    }
}

impl MessageIdMap {
    /// Returns the new id if the message of an event that starts it is renamed. `suffix` is that of an activity.
    fn resolve_start(
        &mut self,
        id: &Json<'_>,
        kind: IdKind,
        start: MessageStart,
        suffix: Option<Box<str>>,
    ) -> Option<Json<'static>> {
        if !self.id_use.may_repeat() {
            return self.resolve(id, kind, true);
        }
        let text = id.text()?;
        let known = self.claims.get(&*text).and_then(|claim| claim.messages(kind));
        let is_earlier = known.is_some_and(|messages| {
            // Text that follows a result stands behind it.
            let is_behind =
                messages.call.is_some_and(|results| start == MessageStart::Event && results < self.result_count);
            !messages.has_begun || start == MessageStart::Result || is_behind
        });
        let is_new = known.is_none();
        let name = if is_earlier || (is_new && suffix.is_some()) {
            if !self.has_room_for(&text) {
                return None;
            }
            if is_new && !self.claims.contains_key(&*text) {
                self.claims.insert(Box::from(&*text), IdClaim { first_kind: Some(kind), ..IdClaim::default() });
            }
            self.rename(id, kind, suffix.as_deref())
        } else {
            self.resolve(id, kind, true)
        };
        // The agent means this run's message from now on.
        if let Some(claim) = self.claims.get_mut(&*text) {
            let messages = claim.messages_mut(kind);
            let has_begun = std::mem::replace(&mut messages.has_begun, true);
            match start {
                MessageStart::Event | MessageStart::Result => messages.call = None,
                MessageStart::Call if !has_begun || is_earlier => messages.call = Some(self.result_count),
                MessageStart::Call => {}
            }
        }
        name
    }

    /// Returns the new id if `id` is renamed. `opens` is true if the client creates a message for the event.
    fn resolve(&mut self, id: &Json<'_>, kind: IdKind, opens: bool) -> Option<Json<'static>> {
        if !(opens || self.has_renames) {
            return None;
        }
        let text = id.text()?;
        let opens = opens && self.has_room_for(&text);
        let repeats = self.id_use.may_repeat();
        match self.claims.get_mut(&*text) {
            None => {
                if opens {
                    let mut claim = IdClaim { first_kind: Some(kind), ..IdClaim::default() };
                    if repeats {
                        push_tight(&mut claim.messages_mut(kind).names, id.clone().into_owned());
                    }
                    self.claims.insert(Box::from(&*text), claim);
                }
                return None;
            }
            Some(claim) if claim.first_kind == Some(kind) && !repeats => return None,
            Some(claim) => {
                if let Some(messages) = claim.messages(kind) {
                    let is_meant = opens || !repeats || messages.has_begun;
                    return messages.names.last().filter(|name| is_meant && *name != id).cloned();
                }
                if !opens {
                    return None;
                }
                if claim.made_of.is_none() && claim.first_kind.is_none() {
                    claim.first_kind = Some(kind);
                    if repeats {
                        push_tight(&mut claim.messages_mut(kind).names, id.clone().into_owned());
                    }
                    return None;
                }
            }
        }
        self.rename(id, kind, None)
    }

    fn has_room_for(&self, id: &str) -> bool {
        self.claims.len() < IDS_LIMIT && id.len() <= memory_limits::MAX_ID_LEN
    }

    /// Returns an unused name for the message of a kind that has this id, as its last one.
    fn rename(&mut self, id: &Json<'_>, kind: IdKind, suffix: Option<&str>) -> Option<Json<'static>> {
        let name = self.unused_name(id, kind, suffix)?;
        let claim = self.claims.get_mut(&*id.text()?)?;
        push_tight(&mut claim.messages_mut(kind).names, name.clone());
        self.has_renames = true;
        Some(name)
    }

    fn unused_name(&mut self, id: &Json<'_>, kind: IdKind, suffix: Option<&str>) -> Option<Json<'static>> {
        let text = id.text()?;
        let suffix = suffix.unwrap_or(kind.suffix());
        let mut number = self.claims.get(&*text)?.messages(kind).map_or(0, |messages| messages.last_number);
        let name = loop {
            number += 1;
            let name = match number {
                1 => id.with_suffix(&format!(":{suffix}")),
                _ => id.with_suffix(&format!(":{suffix}:{number}")),
            };
            if name.text().is_some_and(|name| !self.claims.contains_key(&*name)) {
                break name;
            }
        };
        self.claims.get_mut(&*text)?.messages_mut(kind).last_number = number;
        let claim = IdClaim { made_of: Some(Box::from(&*text)), ..IdClaim::default() };
        self.claims.insert(Box::from(&*name.text()?), claim);
        Some(name)
    }

    pub(crate) fn apply(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        match event.kind {
            EventType::ToolCallStart | EventType::ToolCallChunk => self.rename_call_parent(event, report),
            EventType::SubagentStarted if self.has_renames => {
                if let Some(name) = event.get(Field::ParentMessageId).and_then(|id| self.lookup(id, &[IdKind::Text])) {
                    rename_member(event, Field::ParentMessageId, name, report);
                }
            }
            EventType::ReasoningEncryptedValue
                if self.has_renames && event.get(Field::Subtype).is_some_and(|it| it.is_str("message")) =>
            {
                // The event does not say which of several messages it refers to; such values usually belong to
                // reasoning.
                let sorts = [IdKind::Reasoning, IdKind::Text, IdKind::ToolResult];
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
                let Some((sort, opens)) = IdKind::from_event_type(kind).filter(|(_, opens)| *opens || self.has_renames)
                else {
                    return;
                };
                let Some(id) = event.get(Field::MessageId) else { return };
                let name = if opens {
                    let suffix = (kind == EventType::ActivitySnapshot).then(|| self.id_use.activity_suffix(event));
                    let suffix = suffix.flatten().map(Box::from);
                    let start = if is_result_of_call(event) { MessageStart::Result } else { MessageStart::Event };
                    self.resolve_start(id, sort, start, suffix)
                } else {
                    self.resolve(id, sort, false)
                };
                if let Some(name) = name {
                    rename_member(event, Field::MessageId, name, report);
                }
                self.result_count += u32::from(kind == EventType::ToolCallResult);
            }
        }
    }

    /// Renames the message of a content event whose missing start the guard adds.
    pub(crate) fn apply_opened(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        if let Some((sort, false)) = IdKind::from_event_type(event.kind)
            && let Some(id) = event.get(Field::MessageId)
            && self.agent_id(id).is_none()
            && let Some(name) = self.resolve_start(id, sort, MessageStart::Event, None)
        {
            rename_member(event, Field::MessageId, name, report);
        }
    }

    /// Returns the agent's id of which the gateway made this one.
    fn agent_id(&self, name: &Json<'_>) -> Option<&str> {
        self.claims.get(&*name.text()?)?.made_of.as_deref()
    }

    fn lookup(&self, id: &Json<'_>, sorts: &[IdKind]) -> Option<Json<'static>> {
        let claim = self.claims.get(&*id.text()?)?;
        for sort in sorts {
            if claim.first_kind == Some(*sort) && !self.id_use.may_repeat() {
                return None;
            }
            if let Some(messages) = claim.messages(*sort) {
                return messages.names.last().filter(|name| *name != id).cloned();
            }
        }
        None
    }

    /// Renames a call's parent message, which the client creates if it is missing.
    fn rename_call_parent(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        if let Some(parent) = event.get(Field::ParentMessageId) {
            if let Some(name) = self.resolve_start(parent, IdKind::Text, MessageStart::Call, None) {
                rename_member(event, Field::ParentMessageId, name, report);
            }
            return;
        }
        let Some(call) = event.get(Field::ToolCallId) else { return };
        let name = self.resolve_start(call, IdKind::Text, MessageStart::Call, None);
        // A chunk may continue a call whose parent came before.
        if let Some(name) = name.filter(|_| event.kind == EventType::ToolCallStart) {
            let call = call.clone();
            event.set(Field::ParentMessageId, call);
            rename_member(event, Field::ParentMessageId, name, report);
        }
    }

    /// Returns about the bytes that it has allocated.
    pub(crate) fn heap_size(&self) -> usize {
        let claims = self.claims.iter().map(|(id, claim)| {
            let size = |messages: &NamedMessages| {
                let names = messages.names.iter().map(|name| memory_limits::allocation_size(name.as_str().len()));
                let list = messages.names.capacity() * size_of::<Json<'_>>();
                names.sum::<usize>() + memory_limits::allocation_size(list)
            };
            let names: usize = claim.messages.iter().map(size).sum();
            let list = claim.messages.capacity() * size_of::<NamedMessages>();
            let ids = [Some(id), claim.made_of.as_ref()].into_iter().flatten();
            let ids: usize = ids.map(|id| memory_limits::allocation_size(id.len())).sum();
            ids + memory_limits::allocation_size(list) + names
        });
        claims.sum::<usize>() + memory_limits::map_size(&self.claims)
    }

    /// Creates the map from the messages before a run, whose metadata contains the original ids.
    pub(crate) fn from_messages(messages: &[MessageMembers<'_>], id_use: IdUse) -> MessageIdMap {
        let ids = messages.iter().filter_map(|message| {
            let (id, sort) = (get(message, Field::Id)?, message_kind(message));
            Some((id.as_borrowed(), original_id(message, id, sort), sort))
        });
        MessageIdMap::from_ids(ids, id_use)
    }

    /// Creates the map from calls.
    fn from_originals(calls: Vec<CallOriginal>, id_use: IdUse) -> MessageIdMap {
        MessageIdMap::from_ids(calls.into_iter().map(|call| (call.id, call.original, IdKind::Call)), id_use)
    }

    /// Creates the map from ids, and the original ones of those that were generated.
    fn from_ids<'a>(
        ids: impl IntoIterator<Item = (Json<'a>, Option<Json<'static>>, IdKind)>,
        id_use: IdUse,
    ) -> MessageIdMap {
        let mut names = MessageIdMap { id_use, ..MessageIdMap::default() };
        // Registers all agent ids first, so that no generated id collides with them.
        let mut made = Vec::new();
        for (id, original, sort) in ids {
            match original {
                Some(own) => made.push((id, own, sort)),
                None => drop(names.resolve(&id, sort, true)),
            }
        }
        for (id, own, sort) in made {
            let (Some(name), Some(own)) = (id.text(), own.text()) else { continue };
            names.claims.update(Box::from(&*name), |claim| claim.made_of = Some(Box::from(&*own)));
            let name = id.clone().into_owned();
            names.claims.update(Box::from(&*own), |claim| claim.messages_mut(sort).names.push(name));
            names.has_renames |= !names.id_use.may_repeat();
        }
        names
    }
}

fn is_result_of_call(event: &Event<'_>) -> bool {
    event.kind == EventType::ToolCallResult
        && event.get(Field::ToolCallId).is_some_and(|call| event.get(Field::MessageId) == Some(&tool_result_id(call)))
}

/// Sets a new id and notes the original on every event of the message, because the client replaces `metadata.diglot`
/// with each event.
fn rename_member(event: &mut Event<'_>, field: Field, name: Json<'static>, report: &mut TranslationReport) {
    let Some(own) = event.get_owned(field) else { return };
    event.set(field, name);
    let key = if field == Field::MessageId { Field::Id } else { field };
    carry::pack(event, GATEWAY_KEY, vec![(MemberKey::Known(key), own)]);
    report.count_repair(EventRepair::IdNamespaced);
}

#[cfg(test)]
mod tests;
