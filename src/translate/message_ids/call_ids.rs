//! Makes the ids of tool calls unique if an agent uses one in several runs, as seed 000 §3.3.2 prints one (`tool-123`).
//!
//! Every client adds arguments to the call with their id (seed 000 §4.1 "HAI会自动拼接数据", seed 001 "同一 toolCallId",
//! `specs/ag-ui-1.0.md` §3.4): those of a second call `c` would follow those of the first, its result would stand
//! behind that, and nobody would be asked. So a call that starts with an id of an earlier run, or of a call that has
//! its result, is renamed to `<id>:call`, whatever the agent's dialect, with the agent's id in
//! `metadata.diglot.toolCallId`; from an agent that is not of AG-UI also one that starts behind the end of a call. What
//! names a call without starting it means the last one: a run that goes on after an answer of the user sends the result
//! of an earlier run's call.

use super::id_kind::IdKind;
use super::id_use::IdUse;
use super::restored_ids::original_call_ids;
use super::{MessageIdMap, MessageStart, rename_member};
use crate::codec::json;
use crate::event::input::{INTERRUPTS, MessageMembers, PENDING_CALLS};
use crate::event::{Event, EventRepair, EventType, Field, Json, MemberKey, get, set};
use crate::translate::call_arguments::edit_calls;
use crate::translate::carry::{self, GATEWAY_KEY};
use crate::translate::memory_limits;
use crate::translate::message::to_array;
use crate::translate::report::TranslationReport;
use std::collections::HashMap;

/// The names of calls, which are other ones than those of messages.
#[derive(Clone, Debug, Default)]
pub(super) struct CallIdMap(pub(super) MessageIdMap);

impl CallIdMap {
    pub(super) fn from_messages(messages: &[MessageMembers<'_>], id_use: IdUse) -> CallIdMap {
        let calls = original_call_ids(messages);
        // Without earlier calls, those of an agent that uses each id once need no names.
        let id_use = if calls.is_empty() { id_use } else { IdUse::REPEATED };
        CallIdMap(MessageIdMap::from_originals(calls, id_use))
    }

    /// Renames the calls of an event; returns about the bytes of the ids that it keeps. `names_message` is true if the
    /// message of a call without a parent keeps the agent's id.
    pub(super) fn apply(
        &mut self,
        event: &mut Event<'_>,
        names_message: bool,
        report: &mut TranslationReport,
    ) -> usize {
        if !self.0.id_use.may_repeat() {
            return 0;
        }
        match event.kind {
            EventType::ToolCallStart | EventType::ToolCallChunk => {
                return self.rename_start(event, names_message, report);
            }
            EventType::ToolCallArgs | EventType::ToolCallEnd | EventType::ToolCallResult => {
                self.rename_reference(event, Field::ToolCallId, report);
            }
            EventType::SubagentStarted => self.rename_reference(event, Field::ParentToolCallId, report),
            EventType::ReasoningEncryptedValue
                if event.get(Field::Subtype).is_some_and(|subtype| subtype.is_str("tool-call")) =>
            {
                self.rename_reference(event, Field::EntityId, report);
            }
            EventType::RunFinished => self.rename_outcome(event, report),
            EventType::MessagesSnapshot => {
                if let Some(list) = event.get(Field::Messages).and_then(|list| self.rename_listed(list, report)) {
                    event.set(Field::Messages, list);
                }
            }
            EventType::RunStarted => self.rename_input(event, report),
            _ => {}
        }
        0
    }

    /// Lets the next start of a call begin another one if the client's is complete. Returns about the bytes that it
    /// keeps for it, and `None` if no other call begins.
    pub(super) fn end_complete(&mut self, event: &Event<'_>, is_complete: impl Fn(&Json<'_>) -> bool) -> Option<usize> {
        let id = event.get(Field::ToolCallId)?;
        if !is_complete(self.last_name(id).as_ref().unwrap_or(id)) {
            return None;
        }
        let text = id.text().filter(|text| self.0.has_room_for(text))?;
        self.0.id_use = IdUse::REPEATED;
        self.0.claims.update(Box::from(&*text), |claim| {
            let calls = claim.messages_mut(IdKind::Call);
            if calls.names.is_empty() {
                calls.names.push(id.clone().into_owned());
            }
            calls.has_begun = false;
        });
        Some(2 * memory_limits::text_cost(id.as_str()))
    }

    /// Begins another call with arguments that come behind the result of theirs; `start` is the added start.
    pub(super) fn reopen(
        &mut self,
        start: &mut Event<'_>,
        piece: &mut Event<'_>,
        report: &mut TranslationReport,
    ) -> usize {
        let Some(name) = piece.get_owned(Field::ToolCallId) else { return 0 };
        let id = self.0.agent_id(&name).map_or(name, Json::string);
        start.set(Field::ToolCallId, id.clone());
        piece.set(Field::ToolCallId, id);
        let kept = self.end_complete(start, |_| true).unwrap_or_default() + self.rename_start(start, false, report);
        self.rename_reference(piece, Field::ToolCallId, report);
        kept
    }

    fn rename_start(&mut self, event: &mut Event<'_>, names_message: bool, report: &mut TranslationReport) -> usize {
        let Some(id) = event.get(Field::ToolCallId).cloned() else { return 0 };
        if !is_call_start(event) {
            self.rename_reference(event, Field::ToolCallId, report);
            return 0;
        }
        let count = self.0.claims.len();
        if let Some(name) = self.0.resolve_start(&id, IdKind::Call, MessageStart::Event, None) {
            // The client would name the message that it creates for the call after the new name.
            let is_start = event.kind == EventType::ToolCallStart;
            if names_message && is_start && event.get(Field::ParentMessageId).is_none() {
                event.set(Field::ParentMessageId, id.clone().into_owned());
            }
            rename_member(event, Field::ToolCallId, name, report);
        }
        // Each id is the key of an entry, and its first name or the id of which it was made.
        (self.0.claims.len() - count) * 2 * memory_limits::text_cost(id.as_str())
    }

    fn rename_reference(&self, event: &mut Event<'_>, field: Field, report: &mut TranslationReport) {
        if let Some(name) = event.get(field).and_then(|id| self.last_name(id)) {
            // Without a note: the client would replace that of the start, which names the parent, too.
            event.set(field, name);
            report.count_repair(EventRepair::IdNamespaced);
        }
    }

    /// Returns the name of the last call with this id if it is another one.
    fn last_name(&self, id: &Json<'_>) -> Option<Json<'static>> {
        self.0.lookup(id, &[IdKind::Call])
    }

    /// Renames the calls that a run leaves to the client, and those of its interrupts.
    fn rename_outcome(&self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let Some(mut members) = event.get(Field::Outcome).and_then(json::parse_owned_members) else { return };
        let mut is_changed = false;
        for (key, value) in &mut members {
            let renamed = if carry::is_named(key, PENDING_CALLS) {
                edit_calls(value, |_, id| self.last_name(id))
            } else if carry::is_named(key, INTERRUPTS) {
                edit_calls(value, |_, interrupt| {
                    let mut members = json::parse_owned_members(interrupt)?;
                    let name = self.last_name(get(&members, Field::ToolCallId)?)?;
                    set(&mut members, MemberKey::Known(Field::ToolCallId), name);
                    Some(json::to_object(&members))
                })
            } else {
                None
            };
            if let Some(renamed) = renamed {
                report.count_repair(EventRepair::IdNamespaced);
                *value = renamed;
                is_changed = true;
            }
        }
        if is_changed {
            event.set(Field::Outcome, json::to_object(&members));
        }
    }

    fn rename_input(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let Some(mut members) = event.get(Field::Input).and_then(json::parse_owned_members) else { return };
        if let Some(list) = get(&members, Field::Messages).and_then(|list| self.rename_listed(list, report)) {
            set(&mut members, MemberKey::Known(Field::Messages), list);
            event.set(Field::Input, json::to_object(&members));
        }
    }

    /// Renames the calls of listed messages, and what answers them.
    fn rename_listed(&mut self, list: &Json<'_>, report: &mut TranslationReport) -> Option<Json<'static>> {
        let elements = json::parse_elements(list)?;
        let messages: Option<Vec<MessageMembers<'_>>> = elements.iter().map(json::parse_message).collect();
        let mut messages = messages?;
        let calls = messages.iter().filter_map(|message| get(message, Field::ToolCalls));
        let ids = calls.flat_map(|calls| json::parse_elements(calls).unwrap_or_default());
        let ids: Vec<_> =
            ids.filter_map(|call| Some(json::parse_member(&call, Field::Id.camel())?.into_owned())).collect();
        let mut counts = self.0.count_ids(ids.iter().map(|id| (id, IdKind::Call)));
        let mut names: HashMap<String, Option<Json<'static>>> = HashMap::new();
        let mut is_changed = false;
        for message in &mut messages {
            let calls = get(message, Field::ToolCalls).and_then(|calls| {
                edit_calls(calls, |_, call| {
                    let mut members = json::parse_owned_members(call)?;
                    let id = get(&members, Field::Id)?.clone();
                    let name = self.0.resolve_listed(&id, IdKind::Call, &mut counts);
                    names.insert(id.text()?.into_owned(), name.clone());
                    set(&mut members, MemberKey::Known(Field::Id), name?);
                    let own = vec![(MemberKey::Known(Field::ToolCallId), id)];
                    let metadata = carry::merge(get(&members, Field::Metadata), GATEWAY_KEY, own);
                    set(&mut members, MemberKey::Known(Field::Metadata), metadata);
                    report.count_repair(EventRepair::IdNamespaced);
                    Some(json::to_object(&members))
                })
            });
            let answered = get(message, Field::ToolCallId).and_then(|id| names.get(&*id.text()?)?.clone());
            is_changed |= calls.is_some() || answered.is_some();
            calls.into_iter().for_each(|calls| set(message, MemberKey::Known(Field::ToolCalls), calls));
            answered.into_iter().for_each(|name| set(message, MemberKey::Known(Field::ToolCallId), name));
        }
        self.0.add_new_names(counts);
        is_changed.then(|| to_array(&messages, false))
    }
}

/// Returns true for the first event of a call. Only its first chunk has the name of its tool.
pub(super) fn is_call_start(event: &Event<'_>) -> bool {
    event.kind == EventType::ToolCallStart
        || (event.kind == EventType::ToolCallChunk && event.get(Field::ToolCallName).is_some())
}
