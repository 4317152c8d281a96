//! Message ids in lists: snapshots, and the input that RUN_STARTED echoes.
//!
//! An agent that repeats its ids lists several messages with one id. They get the names that the client has for them,
//! in their order; the last one is that of the last name. Those for which there is no name get new ones.

use super::MessageIdMap;
use super::id_kind::{IdKind, message_kind};
use crate::codec::json;
use crate::event::input::MessageMembers;
use crate::event::{Event, EventRepair, Field, Json, MemberKey, get, set};
use crate::translate::carry::{self, GATEWAY_KEY};
use crate::translate::message::to_array;
use crate::translate::report::TranslationReport;
use std::collections::HashMap;

/// The messages of a list that have one id.
#[derive(Default)]
pub(super) struct SameIds {
    count: usize,
    /// how many of them have been read
    read: usize,
    /// how many names the client had
    known: usize,
    /// names of those before them
    new: Vec<Json<'static>>,
}

pub(super) type IdCounts = HashMap<(Box<str>, IdKind), SameIds>;

impl MessageIdMap {
    /// Renames messages echoed in RUN_STARTED: "RUN_STARTED.input.messages with unknown ids are appended."
    pub(super) fn rename_input_messages(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let Some(input) = event.get(Field::Input).cloned() else { return };
        let Some(mut members) = json::parse_message(&input) else { return };
        if let Some(list) = get(&members, Field::Messages).and_then(|list| self.rename_messages(list, report)) {
            set(&mut members, MemberKey::Known(Field::Messages), list);
            event.set(Field::Input, json::to_object(&members));
        }
    }

    pub(super) fn rename_messages(&mut self, list: &Json<'_>, report: &mut TranslationReport) -> Option<Json<'static>> {
        let elements = json::parse_elements(list)?;
        let messages: Option<Vec<MessageMembers<'_>>> = elements.iter().map(json::parse_message).collect();
        let mut messages = messages?;
        let ids = messages.iter().filter_map(|message| Some((get(message, Field::Id)?, message_kind(message))));
        let mut counts = self.id_use.may_repeat().then(|| self.count_ids(ids));
        let mut changed = false;
        for message in &mut messages {
            let named = get(message, Field::Id).and_then(|id| {
                let kind = message_kind(message);
                let name = match &mut counts {
                    Some(counts) => self.resolve_listed(id, kind, counts),
                    None => self.resolve(id, kind, true),
                };
                Some((id.clone(), name?))
            });
            if let Some((id, name)) = named {
                let metadata =
                    carry::merge(get(message, Field::Metadata), GATEWAY_KEY, vec![(MemberKey::Known(Field::Id), id)]);
                set(message, MemberKey::Known(Field::Id), name);
                set(message, MemberKey::Known(Field::Metadata), metadata);
                report.count_repair(EventRepair::IdNamespaced);
                changed = true;
            }
        }
        self.add_new_names(counts.unwrap_or_default());
        changed.then(|| to_array(&messages, false))
    }

    /// Counts the messages with each id.
    pub(super) fn count_ids<'a>(&self, ids: impl Iterator<Item = (&'a Json<'a>, IdKind)>) -> IdCounts {
        let mut counts = IdCounts::default();
        for (id, kind) in ids {
            let Some(id) = id.text() else { continue };
            let known = self.claims.get(&*id).and_then(|claim| claim.messages(kind));
            let known = known.map_or(0, |messages| messages.names.len());
            let same = counts.entry((Box::from(&*id), kind)).or_default();
            (same.count, same.known) = (same.count + 1, known);
        }
        counts
    }

    /// Returns the new id of the next listed message with this one.
    pub(super) fn resolve_listed(
        &mut self,
        id: &Json<'_>,
        kind: IdKind,
        counts: &mut IdCounts,
    ) -> Option<Json<'static>> {
        let text = id.text()?;
        let same = counts.get_mut(&(Box::from(&*text), kind))?;
        let at = same.read;
        same.read += 1;
        if let Some(known) = (at + same.known).checked_sub(same.count) {
            let name = self.claims.get(&*text)?.messages(kind)?.names.get(known)?;
            return (name != id).then(|| name.clone());
        }
        if same.known == 0 && at == 0 {
            return self.resolve(id, kind, true);
        }
        if !self.has_room_for(&text) {
            return None;
        }
        let name = self.unused_name(id, kind, None)?;
        same.new.push(name.clone());
        Some(name)
    }

    /// Adds the new names before those that the client had, but after the first one of all.
    pub(super) fn add_new_names(&mut self, counts: IdCounts) {
        for ((id, kind), same) in counts {
            if let Some(claim) = self.claims.get_mut(&*id).filter(|_| !same.new.is_empty()) {
                let names = &mut claim.messages_mut(kind).names;
                let at = if same.known == 0 { names.len() } else { 0 };
                names.splice(at..at, same.new);
                self.has_renames = true;
            }
        }
    }
}
