//! Tool calls of a run, and what the end of the run may say about them: rules that the specification states and no client
//! enforces yet (`specs/ag-ui-1.0.md` §3.3).

use super::conform::OURS;
use super::names::IDS_LIMIT;
use super::report::{Repair, Report};
use super::{carry, held};
use crate::codec::json;
use crate::event::input::Message;
use crate::event::{Event, Field, Json, Kind, Members, Type, get};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Members of an outcome.
const INTERRUPTS: &str = "interrupts";
const PENDING: &str = "pendingToolCallIds";

/// The calls that were made, and which of them were answered.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<Box<str>, bool>);

impl Calls {
    /// Takes note of an event; counts what it says about calls that are none.
    pub fn apply(&mut self, event: &mut Event<'_>, report: &mut Report) {
        match event.kind {
            Kind::ToolCallStart | Kind::ToolCallChunk => self.made(event.get(Field::ToolCallId)),
            Kind::ToolCallResult => {
                // "A result for an unknown call" is accepted, and may answer a call of an earlier run.
                let Some(id) = event.text(Field::ToolCallId) else { return };
                match self.0.get_mut(&*id) {
                    Some(answered) => *answered = true,
                    None => {
                        self.keep(&id, true);
                        report.repair(Repair::ResultUnknown);
                    }
                }
            }
            Kind::MessagesSnapshot => self.told_all(event.get(Field::Messages)),
            Kind::RunStarted => {
                let input = event.get(Field::Input).and_then(json::message);
                self.told_all(input.as_ref().and_then(|input| get(input, Field::Messages)));
            }
            Kind::RunFinished => self.outcome(event, report),
            _ => {}
        }
    }

    fn told_all(&mut self, list: Option<&Json<'_>>) {
        let list = list.and_then(json::elements).unwrap_or_default();
        list.iter().filter_map(json::message).for_each(|message| self.told(&message));
    }

    /// A call that was made, or used without a start.
    pub fn made(&mut self, id: Option<&Json<'_>>) {
        if let Some(id) = id.and_then(Json::text)
            && !self.0.contains_key(&*id)
        {
            self.keep(&id, false);
        }
    }

    fn keep(&mut self, id: &str, answered: bool) {
        if (self.0.len() < IDS_LIMIT && id.len() <= held::ID) || self.0.contains_key(id) {
            self.0.insert(Box::from(id), answered);
        }
    }

    /// A message of the conversation makes calls, or answers one.
    pub fn told(&mut self, message: &Message<'_>) {
        if get(message, Field::Role).is_some_and(|role| role.is("tool")) {
            if let Some(id) = get(message, Field::ToolCallId).and_then(Json::text) {
                self.keep(&id, true);
            }
            return;
        }
        for call in get(message, Field::ToolCalls).and_then(json::elements).unwrap_or_default() {
            self.made(json::members(&call).as_ref().and_then(|call| get(call, Field::Id)));
        }
    }

    fn outcome(&self, event: &mut Event<'_>, report: &mut Report) {
        let Some(outcome) = event.get(Field::Outcome).filter(|outcome| outcome.shape() == Type::Object).cloned() else {
            return;
        };
        let Some(mut members) = json::members(&outcome) else { return };
        let mut taken = Members::new();
        for (key, value) in &mut members {
            let (split, repair) = if carry::is_named(key, INTERRUPTS) {
                (repeated(value), Repair::InterruptRepeated)
            } else if carry::is_named(key, PENDING) {
                (self.not_pending(value), Repair::PendingUnknown)
            } else {
                continue;
            };
            if let Some((keep, out)) = split {
                report.repair(repair);
                taken.push((key.clone(), out));
                *value = keep;
            }
        }
        if !taken.is_empty() {
            event.set(Field::Outcome, json::to_object(&members));
            carry::pack(event, OURS, taken);
        }
    }

    /// "pendingToolCallIds": calls of the run that nobody answered.
    fn not_pending(&self, ids: &Json<'_>) -> Option<(Json<'static>, Json<'static>)> {
        // With a list that is full nobody can say which calls were made.
        if self.0.len() >= IDS_LIMIT {
            return None;
        }
        split(ids, |id| id.text().is_some_and(|id| self.0.get(&*id) == Some(&false)))
    }
}

/// "Interrupt ids unique per run": the first of an id stays.
fn repeated(interrupts: &Json<'_>) -> Option<(Json<'static>, Json<'static>)> {
    let mut seen = HashSet::new();
    split(interrupts, |one| {
        let id = json::members(one).and_then(|one| get(&one, Field::Id)?.text().map(Cow::into_owned));
        id.is_none_or(|id| seen.insert(id))
    })
}

/// A list without what does not pass, and what was taken out; `None` when everything passes.
fn split(list: &Json<'_>, mut passes: impl FnMut(&Json<'_>) -> bool) -> Option<(Json<'static>, Json<'static>)> {
    let (keep, out): (Vec<_>, Vec<_>) = json::elements(list)?.into_iter().partition(|one| passes(one));
    (!out.is_empty()).then(|| (json::to_array(&keep), json::to_array(&out)))
}
