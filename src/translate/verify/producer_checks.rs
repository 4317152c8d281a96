//! What the specification asks of a producer and no client enforces yet (`specs/ag-ui-1.0.md` §3.3, §4.3).
//!
//! "Stored draft fixtures show that these are meant to become fatal: comply now."

use super::finding::shown;
use super::rule::Rule;
use super::value::Problem;
use crate::codec::json;
use crate::event::{Event, Field, Json, Kind, Members, get, input};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

/// Bytes of arguments that are kept of one call; longer ones are not checked.
const ARGUMENTS_LIMIT: usize = 1 << 20;

/// Marks that a name of CUSTOM has a prefix: `hai.x`, `com.vendor.x`, `vendor:x`, `vendor/x`.
const PREFIX_ENDS: [char; 3] = ['.', ':', '/'];

/// A call that the stream has shown.
#[derive(Debug, Default)]
struct Call {
    /// what was said of its arguments so far; `None` when that is too much to keep
    arguments: Option<String>,
    answered: bool,
    /// the run that it belongs to, by number; 0 for one that was only shown
    run: u64,
}

/// Watches over the promises of one stream.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// the dialect is another one: it need not say ids, and the protocol reserves no names in it
    foreign: bool,
    /// the number of the run that is active
    run: u64,
    /// the ids of the run that is active: thread, run
    ids: Option<(Json<'static>, Json<'static>)>,
    calls: HashMap<String, Call>,
}

impl Promises {
    /// For a stream of the canonical dialect, or of another one.
    pub fn new(foreign: bool) -> Self {
        Promises { foreign, ..Promises::default() }
    }

    /// Takes an event into account: one that came, or what a chunk stands for.
    pub fn event(&mut self, event: &Event<'_>, problems: &mut Vec<Problem>) {
        let mut say = |rule, field: Field, found| {
            problems.push(Problem { rule, path: format!("/{}", field.camel()), found });
        };
        match event.kind {
            Kind::RunStarted => self.start(event, &mut say),
            Kind::RunFinished => self.finish(event, &mut say),
            Kind::ToolCallStart => {
                let call = Call { arguments: Some(String::new()), answered: false, run: self.run };
                self.calls.extend(text(event, Field::ToolCallId).map(|id| (id, call)));
            }
            Kind::ToolCallArgs => self.arguments(event),
            Kind::ToolCallEnd => {
                let id = text(event, Field::ToolCallId);
                let said = id.as_ref().and_then(|id| self.calls.get_mut(id)?.arguments.take());
                // A call that needs none may say nothing.
                if said.is_some_and(|said| !said.is_empty() && serde_json::from_str::<&RawValue>(&said).is_err()) {
                    let found = format!("the arguments of \"{}\" are no JSON", shown(&id.unwrap_or_default()));
                    say(Rule::InvalidArguments, Field::ToolCallId, found);
                }
            }
            Kind::ToolCallResult => {
                let Some(id) = text(event, Field::ToolCallId) else {
                    return;
                };
                match self.calls.get_mut(&id) {
                    Some(call) => call.answered = true,
                    None => say(Rule::UnknownCall, Field::ToolCallId, format!("\"{}\" was not seen", shown(&id))),
                }
            }
            Kind::MessagesSnapshot => self.seen(event.get(Field::Messages)),
            Kind::Custom if !self.foreign => {
                if let Some(name) = text(event, Field::Name).filter(|name| !name.contains(PREFIX_ENDS)) {
                    say(Rule::CustomName, Field::Name, format!("\"{}\" has no prefix", shown(&name)));
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, event: &Event<'_>, say: &mut impl FnMut(Rule, Field, String)) {
        let said = |field| event.get(field).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        let (thread, run) = (said(Field::ThreadId), said(Field::RunId));
        let differs = |before: &Json<'_>| !before.same(&thread) && self.says(before) && self.says(&thread);
        if let Some((before, _)) = self.ids.as_ref().filter(|(before, _)| differs(before)) {
            let found = format!("{}, after a run of {}", shown(thread.as_str()), shown(before.as_str()));
            say(Rule::OtherThread, Field::ThreadId, found);
        }
        self.ids = Some((thread, run));
        self.run += 1;
        let echo = event.get(Field::Input).and_then(json::members);
        self.seen(echo.as_deref().and_then(|members| get(members, Field::Messages)));
    }

    fn finish(&mut self, event: &Event<'_>, say: &mut impl FnMut(Rule, Field, String)) {
        if let Some((thread, run)) = &self.ids {
            for (field, before) in [(Field::ThreadId, thread), (Field::RunId, run)] {
                if let Some(said) =
                    event.get(field).filter(|said| !said.same(before) && self.says(said) && self.says(before))
                {
                    let found = format!("{}, not {}", shown(said.as_str()), shown(before.as_str()));
                    say(Rule::IdsDiffer, field, found);
                }
            }
        }
        let outcome = event.get(Field::Outcome).and_then(json::members).unwrap_or_default();
        let mut seen = HashSet::new();
        for interrupt in list(&outcome, "interrupts") {
            let id = json::members(&interrupt).and_then(|members| get(&members, Field::Id)?.text().map(String::from));
            if let Some(id) = id.filter(|id| !seen.insert(id.clone())) {
                say(Rule::DuplicateInterrupt, Field::Outcome, format!("\"{}\" stands twice", shown(&id)));
            }
        }
        for id in list(&outcome, "pendingToolCallIds").iter().filter_map(Json::text) {
            let why = match self.calls.get(&*id) {
                Some(call) if call.answered => "has its result",
                Some(call) if call.run == self.run => continue,
                _ => "is no call of this run",
            };
            say(Rule::PendingCall, Field::Outcome, format!("\"{}\" {why}", shown(&id)));
        }
    }

    /// Whether an id was said: the reader of a dialect that need not say it leaves it empty.
    fn says(&self, id: &Json<'_>) -> bool {
        !self.foreign || !id.is("")
    }

    fn arguments(&mut self, event: &Event<'_>) {
        let (Some(id), Some(delta)) = (text(event, Field::ToolCallId), event.text(Field::Delta)) else {
            return;
        };
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if let Some(said) = &mut call.arguments {
            if said.len() + delta.len() > ARGUMENTS_LIMIT {
                call.arguments = None;
            } else {
                said.push_str(&delta);
            }
        }
    }

    /// Calls that a conversation shows.
    fn seen(&mut self, messages: Option<&Json<'_>>) {
        for message in messages.and_then(json::elements).unwrap_or_default() {
            let Some(members) = json::members(&message) else { continue };
            let said = |field| get(&members, field).and_then(Json::text);
            let role = said(Field::Role).unwrap_or_default();
            if !input::ROLES.contains(&&*role) {
                continue;
            }
            for call in get(&members, Field::ToolCalls).and_then(json::elements).unwrap_or_default() {
                let id = json::members(&call).and_then(|members| get(&members, Field::Id)?.text().map(String::from));
                if let Some(id) = id {
                    self.calls.entry(id).or_default();
                }
            }
            let answered = said(Field::ToolCallId).and_then(|id| self.calls.get_mut(&*id));
            if let Some(call) = answered {
                call.answered = true;
            }
        }
    }
}

fn list<'m>(members: &'m Members<'_>, name: &str) -> Vec<Json<'m>> {
    let found = members.iter().find(|(key, _)| super::super::carry::is_named(key, name));
    found.and_then(|(_, value)| json::elements(value)).unwrap_or_default()
}

fn text(event: &Event<'_>, field: Field) -> Option<String> {
    event.text(field).map(|text| text.into_owned())
}
