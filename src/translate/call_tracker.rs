//! Tracks a run's tool calls, and the references to them at its end: rules in the specification that no client enforces
//! yet (`specs/ag-ui-1.0.md` §3.3).

use super::carry::GATEWAY_KEY;
use super::message_ids::{CallProgress, IDS_LIMIT};
use super::report::TranslationReport;
use super::{carry, memory_limits, not_shown};
use crate::codec::json;
use crate::event::input::{INTERRUPTS, MessageMembers, PENDING_CALLS, TOOL};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, JsonType, Members, SmallMap, get};
use std::borrow::Cow;
use std::collections::HashSet;

#[derive(Clone, Debug, Default)]
pub(super) struct CallTracker(SmallMap<Box<str>, CallProgress>);

impl CallTracker {
    pub(crate) fn apply(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        match event.kind {
            EventType::ToolCallStart | EventType::ToolCallChunk => self.record_call(event.get(Field::ToolCallId)),
            EventType::ToolCallEnd => {
                let id = event.text(Field::ToolCallId).unwrap_or_default();
                self.0.get_mut(&*id).into_iter().for_each(|call| *call = (*call).max(CallProgress::Ended));
            }
            EventType::ToolCallResult => {
                // "A result for an unknown call" is accepted, and may answer a call from an earlier run.
                let Some(id) = event.text(Field::ToolCallId) else { return };
                match self.0.get_mut(&*id) {
                    Some(call) => *call = CallProgress::Answered,
                    None => {
                        self.insert(&id, true);
                        report.count_repair(EventRepair::ResultUnknown);
                    }
                }
            }
            EventType::MessagesSnapshot => self.observe_messages(event.get(Field::Messages)),
            EventType::RunStarted => {
                let input = event.get(Field::Input).and_then(json::parse_message);
                self.observe_messages(input.as_ref().and_then(|input| get(input, Field::Messages)));
            }
            EventType::RunFinished => self.repair_outcome(event, report),
            _ => {}
        }
    }

    fn observe_messages(&mut self, list: Option<&Json<'_>>) {
        let list = list.and_then(json::parse_elements).unwrap_or_default();
        list.iter().filter_map(json::parse_message).for_each(|message| self.observe_message(&message));
    }

    pub(crate) fn record_call(&mut self, id: Option<&Json<'_>>) {
        if let Some(id) = id.and_then(Json::text)
            && !self.0.contains_key(&*id)
        {
            self.insert(&id, false);
        }
    }

    pub(crate) fn is_answered(&self, id: &Json<'_>) -> bool {
        self.progress(id) == Some(CallProgress::Answered)
    }

    pub(crate) fn progress(&self, id: &Json<'_>) -> Option<CallProgress> {
        self.0.get(&*id.text()?).copied()
    }

    /// Returns about the bytes that it has allocated.
    pub(crate) fn heap_size(&self) -> usize {
        let ids: usize = self.0.iter().map(|(id, _)| memory_limits::allocation_size(id.len())).sum();
        ids + memory_limits::map_size(&self.0)
    }

    /// Returns each call's id and whether it has a result.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(|(id, call)| (&**id, *call == CallProgress::Answered))
    }

    pub(crate) fn insert(&mut self, id: &str, answered: bool) {
        if (self.0.len() < IDS_LIMIT && id.len() <= memory_limits::MAX_ID_LEN) || self.0.contains_key(id) {
            let call = if answered { CallProgress::Answered } else { CallProgress::Started };
            self.0.insert(Box::from(id), call);
        }
    }

    pub(crate) fn observe_message(&mut self, message: &MessageMembers<'_>) {
        if get(message, Field::Role).is_some_and(|role| role.is_str(TOOL)) {
            if let Some(id) = get(message, Field::ToolCallId).and_then(Json::text) {
                self.insert(&id, true);
            }
            return;
        }
        for call in get(message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
            self.record_call(json::parse_member(&call, Field::Id.camel()).as_ref());
        }
    }

    fn repair_outcome(&self, event: &mut Event<'_>, report: &mut TranslationReport) {
        let Some(outcome) =
            event.get(Field::Outcome).filter(|outcome| outcome.json_type() == JsonType::Object).cloned()
        else {
            return;
        };
        let Some(mut members) = json::parse_members(&outcome) else { return };
        let mut taken = Members::new();
        for (key, value) in &mut members {
            let (split, repair) = if carry::is_named(key, INTERRUPTS) {
                (split_repeated(value), EventRepair::InterruptRepeated)
            } else if carry::is_named(key, PENDING_CALLS) {
                (self.split_not_pending(value), EventRepair::PendingUnknown)
            } else {
                continue;
            };
            if let Some((keep, out)) = split {
                report.count_repair(repair);
                if repair == EventRepair::InterruptRepeated {
                    report.count_loss_times(EventLoss::InterruptNotShown, not_shown::count_elements(&out));
                }
                taken.push((key.clone(), out));
                *value = keep;
            }
        }
        if !taken.is_empty() {
            event.set(Field::Outcome, json::to_object(&members));
            carry::pack(event, GATEWAY_KEY, taken);
        }
    }

    /// Removes calls that already have a result from "pendingToolCallIds".
    fn split_not_pending(&self, ids: &Json<'_>) -> Option<(Json<'static>, Json<'static>)> {
        // Once full, the list cannot tell which calls were made.
        if self.0.len() >= IDS_LIMIT {
            return None;
        }
        partition_list(ids, |id| self.progress(id).is_some_and(|call| call < CallProgress::Answered))
    }
}

/// Keeps the first interrupt with each id: "Interrupt ids unique per run".
fn split_repeated(interrupts: &Json<'_>) -> Option<(Json<'static>, Json<'static>)> {
    let mut seen = HashSet::new();
    partition_list(interrupts, |one| {
        let id = json::parse_member(one, Field::Id.camel()).and_then(|id| id.text().map(Cow::into_owned));
        id.is_none_or(|id| seen.insert(id))
    })
}

/// Splits a list into kept and removed elements; returns `None` if all are kept.
fn partition_list(
    list: &Json<'_>,
    mut passes: impl FnMut(&Json<'_>) -> bool,
) -> Option<(Json<'static>, Json<'static>)> {
    let (keep, out): (Vec<_>, Vec<_>) = json::parse_elements(list)?.into_iter().partition(|one| passes(one));
    (!out.is_empty()).then(|| (json::to_array(&keep), json::to_array(&out)))
}
