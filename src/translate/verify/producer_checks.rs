//! Producer requirements that no client enforces yet (`specs/ag-ui-1.0.md` §3.3, §4.3).
//!
//! "Stored draft fixtures show that these are meant to become fatal: comply now."

use super::finding::sanitize;
use super::rule::Rule;
use super::value::VerifyProblem;
use crate::codec::json;
use crate::event::{Event, EventType, Field, Json, Members, find_member, get, input};
use crate::translate::patch_check::{PatchChecker, UnfitPatch};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

/// Maximum length of checked arguments.
const ARGUMENTS_LIMIT: usize = 1 << 20;

/// Characters that end the prefix of a CUSTOM name: `hai.x`, `com.vendor.x`, `vendor:x`, `vendor/x`.
const PREFIX_ENDS: [char; 3] = ['.', ':', '/'];

#[derive(Debug, Default)]
struct SeenCall {
    arguments: Option<String>,
    has_result: bool,
    /// 0 for a call from a message list
    run: u64,
}

#[derive(Debug, Default)]
pub(super) struct ProducerChecks {
    /// whether ids are optional and CUSTOM may have any name
    is_foreign: bool,
    run: u64,
    /// thread and run ids of the active run
    ids: Option<(Json<'static>, Json<'static>)>,
    calls: HashMap<String, SeenCall>,
    /// knows nothing of the state before the stream
    patches: PatchChecker,
}

impl ProducerChecks {
    pub(crate) fn new(is_foreign: bool) -> Self {
        ProducerChecks { is_foreign, ..ProducerChecks::default() }
    }

    pub(crate) fn check(&mut self, event: &Event<'_>, problems: &mut Vec<VerifyProblem>) {
        let mut report = |rule, field: Field, found| {
            problems.push(VerifyProblem { rule, path: format!("/{}", field.camel()), found });
        };
        if let Some(unfit) = self.patches.check(event) {
            let shown = UnfitPatch { operation: sanitize(&unfit.operation), path: sanitize(&unfit.path), ..unfit };
            report(Rule::UnfitPatch, shown.field, shown.to_string());
        }
        match event.kind {
            EventType::RunStarted => self.check_start(event, &mut report),
            EventType::RunFinished => self.check_finish(event, &mut report),
            EventType::ToolCallStart => {
                let call = SeenCall { arguments: Some(String::new()), has_result: false, run: self.run };
                self.calls.extend(event.owned_text(Field::ToolCallId).map(|id| (id, call)));
            }
            EventType::ToolCallArgs => self.append_arguments(event),
            EventType::ToolCallEnd => {
                let id = event.owned_text(Field::ToolCallId);
                let arguments = id.as_ref().and_then(|id| self.calls.get_mut(id)?.arguments.take());
                // A call without arguments may send nothing.
                if arguments.is_some_and(|text| !text.is_empty() && serde_json::from_str::<&RawValue>(&text).is_err()) {
                    let found = format!("the arguments of \"{}\" are not JSON", sanitize(&id.unwrap_or_default()));
                    report(Rule::InvalidArguments, Field::ToolCallId, found);
                }
            }
            EventType::ToolCallResult => {
                let Some(id) = event.owned_text(Field::ToolCallId) else {
                    return;
                };
                match self.calls.get_mut(&id) {
                    Some(call) => call.has_result = true,
                    None => report(
                        Rule::UnknownCall,
                        Field::ToolCallId,
                        format!("\"{}\" is not in the stream", sanitize(&id)),
                    ),
                }
            }
            EventType::MessagesSnapshot => self.record_listed_calls(event.get(Field::Messages)),
            EventType::Custom if !self.is_foreign => {
                if let Some(name) = event.owned_text(Field::Name).filter(|name| !name.contains(PREFIX_ENDS)) {
                    report(Rule::CustomName, Field::Name, format!("\"{}\" has no prefix", sanitize(&name)));
                }
            }
            _ => {}
        }
    }

    fn check_start(&mut self, event: &Event<'_>, report: &mut impl FnMut(Rule, Field, String)) {
        let thread = event.get_or_empty(Field::ThreadId);
        let run = event.get_or_empty(Field::RunId);
        let differs = |before: &Json<'_>| !before.is_same(&thread) && self.has_id(before) && self.has_id(&thread);
        if let Some((before, _)) = self.ids.as_ref().filter(|(before, _)| differs(before)) {
            let found = format!("{}, after a run of {}", sanitize(thread.as_str()), sanitize(before.as_str()));
            report(Rule::OtherThread, Field::ThreadId, found);
        }
        self.ids = Some((thread, run));
        self.run += 1;
        let echo = event.get(Field::Input).and_then(json::parse_members);
        self.record_listed_calls(echo.as_deref().and_then(|members| get(members, Field::Messages)));
    }

    fn check_finish(&mut self, event: &Event<'_>, report: &mut impl FnMut(Rule, Field, String)) {
        if let Some((thread, run)) = &self.ids {
            for (field, before) in [(Field::ThreadId, thread), (Field::RunId, run)] {
                if let Some(id) =
                    event.get(field).filter(|id| !id.is_same(before) && self.has_id(id) && self.has_id(before))
                {
                    let found = format!("{}, not {}", sanitize(id.as_str()), sanitize(before.as_str()));
                    report(Rule::IdsDiffer, field, found);
                }
            }
        }
        let outcome = event.get(Field::Outcome).and_then(json::parse_members).unwrap_or_default();
        let mut seen = HashSet::new();
        for interrupt in list_member(&outcome, "interrupts") {
            let id = json::parse_member(&interrupt, Field::Id.camel()).and_then(|id| id.text().map(String::from));
            if let Some(id) = id.filter(|id| !seen.insert(id.clone())) {
                report(Rule::DuplicateInterrupt, Field::Outcome, format!("\"{}\" occurs twice", sanitize(&id)));
            }
        }
        for id in list_member(&outcome, "pendingToolCallIds").iter().filter_map(Json::text) {
            let why = match self.calls.get(&*id) {
                Some(call) if call.has_result => "already has a result",
                Some(call) if call.run == self.run => continue,
                _ => "is not a call of this run",
            };
            report(Rule::PendingCall, Field::Outcome, format!("\"{}\" {why}", sanitize(&id)));
        }
    }

    /// Returns false for the empty id of a dialect with optional ids.
    fn has_id(&self, id: &Json<'_>) -> bool {
        !self.is_foreign || !id.is_str("")
    }

    fn append_arguments(&mut self, event: &Event<'_>) {
        let (Some(id), Some(delta)) = (event.owned_text(Field::ToolCallId), event.text(Field::Delta)) else {
            return;
        };
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if let Some(arguments) = &mut call.arguments {
            if arguments.len() + delta.len() > ARGUMENTS_LIMIT {
                call.arguments = None;
            } else {
                arguments.push_str(&delta);
            }
        }
    }

    fn record_listed_calls(&mut self, messages: Option<&Json<'_>>) {
        for message in messages.and_then(json::parse_elements).unwrap_or_default() {
            let Some(members) = json::parse_members(&message) else { continue };
            let text = |field| get(&members, field).and_then(Json::text);
            let role = text(Field::Role).unwrap_or_default();
            if !input::ROLES.contains(&&*role) {
                continue;
            }
            for call in get(&members, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
                let id = json::parse_member(&call, Field::Id.camel()).and_then(|id| id.text().map(String::from));
                if let Some(id) = id {
                    self.calls.entry(id).or_default();
                }
            }
            let answered = text(Field::ToolCallId).and_then(|id| self.calls.get_mut(&*id));
            if let Some(call) = answered {
                call.has_result = true;
            }
        }
    }
}

fn list_member<'m>(members: &'m Members<'_>, name: &str) -> Vec<Json<'m>> {
    find_member(members, name).and_then(json::parse_elements).unwrap_or_default()
}
