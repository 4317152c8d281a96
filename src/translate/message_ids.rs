//! Names of messages: what keeps two messages apart whose agent gave them one id.
//!
//! The real client keeps all messages of a conversation in one list by id (`specs/ag-ui-1.0.md` §3.4), whatever their kind:
//! text `m`, reasoning `m`, activity `m` and the tool message `m` would be one message over there. The first kind that claims
//! an id keeps it; a later one is called `<id>:<kind>` from then on, on the stream and in snapshots, and the agent's own id
//! rides in `metadata.diglot.id`. The client stores that on the message and sends it back, and the request restores it.

use super::conform::OURS;
use super::message::to_array;
use super::report::{Repair, Report};
use super::{carry, held};
use crate::codec::json;
use crate::event::input::{ACTIVITY, Message, REASONING};
use crate::event::{Event, Field, Json, Key, Kind, Members, get, remove, set};
use std::collections::HashMap;

/// Most ids of one conversation that are kept apart. Beyond, an id is taken as it comes: no agent has so many messages, and
/// one that means harm must not fill the memory.
pub(super) const IDS_LIMIT: usize = 100_000;

/// The kinds of message that share one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// of the assistant, the user, the system, a developer
    Text,
    Reasoning,
    Activity,
    /// the result of a tool call
    Tool,
}

impl Sort {
    /// What is put behind an id.
    const fn word(self) -> &'static str {
        match self {
            Sort::Text => "text",
            Sort::Reasoning => REASONING,
            Sort::Activity => ACTIVITY,
            Sort::Tool => "tool",
        }
    }

    fn of_role(role: &str) -> Sort {
        match role {
            REASONING => Sort::Reasoning,
            ACTIVITY => Sort::Activity,
            "tool" => Sort::Tool,
            _ => Sort::Text,
        }
    }

    /// The message that an event of `kind` is about, and whether the client makes one of it that was not there.
    ///
    /// A reasoning span makes none, but shares its id with the message inside it in most agents: both go by one name.
    const fn of(kind: Kind) -> Option<(Sort, bool)> {
        Some(match kind {
            Kind::TextMessageStart | Kind::TextMessageChunk => (Sort::Text, true),
            Kind::TextMessageContent | Kind::TextMessageEnd => (Sort::Text, false),
            Kind::ReasoningStart | Kind::ReasoningMessageStart | Kind::ReasoningMessageChunk => (Sort::Reasoning, true),
            Kind::ReasoningMessageContent | Kind::ReasoningMessageEnd | Kind::ReasoningEnd => (Sort::Reasoning, false),
            Kind::ActivitySnapshot => (Sort::Activity, true),
            Kind::ActivityDelta => (Sort::Activity, false),
            Kind::ToolCallResult => (Sort::Tool, true),
            _ => return None,
        })
    }
}

/// The names of a conversation's messages.
#[derive(Debug, Default)]
pub(super) struct Names {
    claims: HashMap<Box<str>, Claim>,
    /// whether anything goes by another name than its agent's
    any: bool,
}

/// Who has an id.
#[derive(Debug, Default)]
struct Claim {
    /// whether it is a name that was made here, which no agent can mean
    made: bool,
    /// the kind that came first
    first: Option<Sort>,
    /// the names of later kinds
    others: Vec<(Sort, Json<'static>)>,
}

impl Names {
    /// The name of the agent's `id`, when it is not its own. `opens`: the client makes a message of it.
    fn name(&mut self, id: &Json<'_>, sort: Sort, opens: bool) -> Option<Json<'static>> {
        if !(opens || self.any) {
            return None;
        }
        let text = id.text()?;
        let opens = opens && self.claims.len() < IDS_LIMIT && text.len() <= held::ID;
        match self.claims.get_mut(&*text) {
            None => {
                if opens {
                    self.claims.insert(Box::from(&*text), Claim { first: Some(sort), ..Claim::default() });
                }
                return None;
            }
            Some(claim) if claim.first == Some(sort) => return None,
            Some(claim) => {
                let known = claim.others.iter().find(|(other, _)| *other == sort).map(|(_, name)| name.clone());
                if known.is_some() || !opens {
                    return known;
                }
                if !claim.made && claim.first.is_none() {
                    claim.first = Some(sort);
                    return None;
                }
            }
        }
        let mut name = id.clone().into_owned();
        loop {
            name = name.followed_by(&format!(":{}", sort.word()));
            let taken = name.text().map(|name| Box::from(&*name)).filter(|name| !self.claims.contains_key(name));
            if let Some(free) = taken {
                self.claims.insert(free, Claim { made: true, ..Claim::default() });
                break;
            }
        }
        if let Some(claim) = self.claims.get_mut(&*text) {
            claim.others.push((sort, name.clone()));
        }
        self.any = true;
        Some(name)
    }

    /// Calls what an event is about by its name.
    pub fn apply(&mut self, event: &mut Event<'_>, report: &mut Report) {
        match event.kind {
            Kind::ToolCallStart | Kind::ToolCallChunk => self.home_of_call(event, report),
            Kind::SubagentStarted if self.any => {
                if let Some(name) = event.get(Field::ParentMessageId).and_then(|id| self.known(id, &[Sort::Text])) {
                    rename(event, Field::ParentMessageId, name, report);
                }
            }
            Kind::ReasoningEncryptedValue
                if self.any && event.get(Field::Subtype).is_some_and(|it| it.is("message")) =>
            {
                // Which of several messages is meant is not said; it is a value of reasoning first of all.
                let sorts = [Sort::Reasoning, Sort::Text, Sort::Tool];
                if let Some(name) = event.get(Field::EntityId).and_then(|id| self.known(id, &sorts)) {
                    rename(event, Field::EntityId, name, report);
                }
            }
            Kind::MessagesSnapshot => {
                if let Some(list) = event.get(Field::Messages).and_then(|list| self.list(list, report)) {
                    event.set(Field::Messages, list);
                }
            }
            Kind::RunStarted => self.echo(event, report),
            kind => {
                // Content is the most frequent of all, and nothing was renamed in most runs.
                let Some((sort, opens)) = Sort::of(kind).filter(|(_, opens)| *opens || self.any) else { return };
                if let Some(name) = event.get(Field::MessageId).and_then(|id| self.name(id, sort, opens)) {
                    rename(event, Field::MessageId, name, report);
                }
            }
        }
    }

    /// The same for content that nobody opened: the guard opens it.
    pub fn open(&mut self, event: &mut Event<'_>, report: &mut Report) {
        if let Some((sort, false)) = Sort::of(event.kind)
            && let Some(id) = event.get(Field::MessageId)
            && !self.is_made(id)
            && let Some(name) = self.name(id, sort, true)
        {
            rename(event, Field::MessageId, name, report);
        }
    }

    fn is_made(&self, id: &Json<'_>) -> bool {
        id.text().and_then(|id| self.claims.get(&*id)).is_some_and(|claim| claim.made)
    }

    /// The name of `id` in the first of these kinds that has one.
    fn known(&self, id: &Json<'_>, sorts: &[Sort]) -> Option<Json<'static>> {
        let claim = self.claims.get(&*id.text()?)?;
        for sort in sorts {
            if claim.first == Some(*sort) {
                return None;
            }
            if let Some((_, name)) = claim.others.iter().find(|(other, _)| other == sort) {
                return Some(name.clone());
            }
        }
        None
    }

    /// A call stands in an assistant's message: its parent, which the client makes where there is none, or one that is
    /// called like the call.
    fn home_of_call(&mut self, event: &mut Event<'_>, report: &mut Report) {
        if let Some(parent) = event.get(Field::ParentMessageId) {
            if let Some(name) = self.name(parent, Sort::Text, true) {
                rename(event, Field::ParentMessageId, name, report);
            }
            return;
        }
        let Some(call) = event.get(Field::ToolCallId) else { return };
        let name = self.name(call, Sort::Text, true);
        // A chunk may go on with a call whose parent was said before.
        if let Some(name) = name.filter(|_| event.kind == Kind::ToolCallStart) {
            let call = call.clone();
            event.set(Field::ParentMessageId, call);
            rename(event, Field::ParentMessageId, name, report);
        }
    }

    /// "RUN_STARTED.input.messages with unknown ids are appended."
    fn echo(&mut self, event: &mut Event<'_>, report: &mut Report) {
        let Some(input) = event.get(Field::Input).cloned() else { return };
        let Some(mut members) = json::message(&input) else { return };
        if let Some(list) = get(&members, Field::Messages).and_then(|list| self.list(list, report)) {
            set(&mut members, Key::Known(Field::Messages), list);
            event.set(Field::Input, json::to_object(&members));
        }
    }

    /// A list of messages by their names; `None` when they are the agent's.
    fn list(&mut self, list: &Json<'_>, report: &mut Report) -> Option<Json<'static>> {
        let elements = json::elements(list)?;
        let mut messages: Vec<Message<'_>> = Vec::with_capacity(elements.len());
        let mut changed = false;
        for element in &elements {
            let mut message = json::message(element)?;
            let named =
                get(&message, Field::Id).and_then(|id| Some((id.clone(), self.name(id, sort_of(&message), true)?)));
            if let Some((id, name)) = named {
                let metadata = carry::merge(get(&message, Field::Metadata), OURS, vec![(Key::Known(Field::Id), id)]);
                set(&mut message, Key::Known(Field::Id), name);
                set(&mut message, Key::Known(Field::Metadata), metadata);
                report.repair(Repair::IdNamespaced);
                changed = true;
            }
            messages.push(message);
        }
        changed.then(|| to_array(&messages, false))
    }

    /// What a conversation holds before a run: ids as its client has them, and the agent's own behind the names made for it.
    pub fn of_conversation(messages: &[Message<'_>]) -> Names {
        let mut names = Names::default();
        // Every id that is an agent's own comes first, so that no name is made for one.
        let mut made = Vec::new();
        for message in messages {
            let (Some(id), sort) = (get(message, Field::Id), sort_of(message)) else { continue };
            match original(message, id, sort) {
                Some(own) => made.push((id, own, sort)),
                None => drop(names.name(id, sort, true)),
            }
        }
        for (id, own, sort) in made {
            let (Some(name), Some(own)) = (id.text(), own.text()) else { continue };
            names.claims.entry(Box::from(&*name)).or_default().made = true;
            names.claims.entry(Box::from(&*own)).or_default().others.push((sort, id.clone().into_owned()));
            names.any = true;
        }
        names
    }
}

fn sort_of(message: &Members<'_>) -> Sort {
    get(message, Field::Role).and_then(Json::text).map_or(Sort::Text, |role| Sort::of_role(&role))
}

/// Sets a name and notes the agent's own id. The note is on every event of the message, since the client lets a later
/// `metadata.diglot` replace an earlier one.
fn rename(event: &mut Event<'_>, field: Field, name: Json<'static>, report: &mut Report) {
    let Some(own) = event.get(field).cloned().map(Json::into_owned) else { return };
    event.set(field, name);
    let key = if field == Field::MessageId { Field::Id } else { field };
    carry::pack(event, OURS, vec![(Key::Known(key), own)]);
    report.repair(Repair::IdNamespaced);
}

/// The agent's own id of a message, when `id` is a name that was made for it. Notes come from outside: one that does not fit
/// the id is no note.
fn original(members: &Members<'_>, id: &Json<'_>, sort: Sort) -> Option<Json<'static>> {
    let noted = noted(get(members, Field::Metadata)?, Field::Id)?;
    is_name(id, &noted, sort).then_some(noted)
}

fn noted(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    // Most metadata holds nothing of ours.
    if !metadata.as_str().contains(OURS) {
        return None;
    }
    let all = json::members(metadata)?;
    let (_, ours) = all.iter().find(|(key, _)| carry::is_named(key, OURS))?;
    get(&json::members(ours)?, field).cloned().map(Json::into_owned)
}

/// Whether `name` is `own` and the word of the kind behind it, once or more often.
fn is_name(name: &Json<'_>, own: &Json<'_>, sort: Sort) -> bool {
    let (Some(name), Some(own)) = (name.text(), own.text()) else { return false };
    let Some(mut rest) = name.strip_prefix(&*own).filter(|rest| !rest.is_empty()) else { return false };
    while let Some(shorter) = rest.strip_prefix(':').and_then(|rest| rest.strip_prefix(sort.word())) {
        rest = shorter;
    }
    rest.is_empty()
}

/// Takes the note of a name out of a metadata object; `None` when nothing else is in there.
fn without_note(metadata: &Json<'_>, field: Field) -> Option<Json<'static>> {
    let mut all = json::members(metadata)?;
    if let Some(at) = all.iter().position(|(key, _)| carry::is_named(key, OURS)) {
        let mut ours = json::members(&all[at].1).map(crate::event::owned).unwrap_or_default();
        remove(&mut ours, field);
        match ours.is_empty() {
            true => drop(all.remove(at)),
            false => all[at].1 = json::to_object(&ours),
        }
    }
    (!all.is_empty()).then(|| json::to_object(&all))
}

fn put_back(members: &mut Members<'_>, field: Field, own: Json<'static>, note: Field) {
    set(members, Key::Known(field), own);
    match get(members, Field::Metadata).and_then(|metadata| without_note(metadata, note)) {
        Some(metadata) => set(members, Key::Known(Field::Metadata), metadata),
        None => drop(remove(members, Field::Metadata)),
    }
}

/// Gives the messages of a request, or of a snapshot for a side that keeps kinds apart, the ids of their agent.
pub(super) fn restore(messages: &mut [Message<'_>]) -> bool {
    let mut changed = false;
    for message in messages {
        let sort = sort_of(message);
        let Some(id) = get(message, Field::Id).cloned() else { continue };
        if let Some(own) = original(message, &id, sort) {
            put_back(message, Field::Id, own, Field::Id);
            changed = true;
        }
        changed |= restore_calls(message, sort);
    }
    changed
}

/// A message that the client made for a call has no metadata of its own: the note is on the call.
fn restore_calls(message: &mut Message<'_>, sort: Sort) -> bool {
    let calls = get(message, Field::ToolCalls).filter(|calls| calls.as_str().contains(OURS)).cloned();
    let Some(elements) = calls.as_ref().and_then(json::elements) else { return false };
    let Some(id) = get(message, Field::Id).cloned() else { return false };
    let mut home = None;
    let mut restored: Vec<Json<'_>> = Vec::with_capacity(elements.len());
    for element in &elements {
        let members = json::members(element);
        let metadata = members.as_ref().and_then(|members| get(members, Field::Metadata));
        let own = metadata.and_then(|metadata| noted(metadata, Field::ParentMessageId));
        match (members.clone(), own) {
            // The text's own events may have given the message its id back already.
            (Some(mut call), Some(own)) if own.same(&id) || is_name(&id, &own, sort) => {
                match get(&call, Field::Metadata).and_then(|metadata| without_note(metadata, Field::ParentMessageId)) {
                    Some(metadata) => set(&mut call, Key::Known(Field::Metadata), metadata),
                    None => drop(remove(&mut call, Field::Metadata)),
                }
                restored.push(json::to_object(&call));
                home = Some(own);
            }
            _ => restored.push(element.borrowed()),
        }
    }
    let Some(home) = home else { return false };
    let calls = json::to_array(&restored);
    set(message, Key::Known(Field::ToolCalls), calls);
    set(message, Key::Known(Field::Id), home);
    true
}

/// Gives an event the ids of its agent: for a side whose kinds have ids of their own.
pub(super) fn restore_event(event: &mut Event<'_>) {
    if event.kind == Kind::MessagesSnapshot {
        let list = event.get(Field::Messages).filter(|list| list.as_str().contains(OURS)).cloned();
        let elements = list.as_ref().and_then(json::elements).unwrap_or_default();
        let messages: Option<Vec<Message<'_>>> = elements.iter().map(json::message).collect();
        if let Some(mut messages) = messages.filter(|_| list.is_some())
            && restore(&mut messages)
        {
            event.set(Field::Messages, to_array(&messages, false));
        }
        return;
    }
    let (field, note, sort) = match (event.kind, Sort::of(event.kind)) {
        (_, Some((sort, _))) => (Field::MessageId, Field::Id, sort),
        (Kind::ToolCallStart | Kind::ToolCallChunk, _) => (Field::ParentMessageId, Field::ParentMessageId, Sort::Text),
        _ => return,
    };
    let own = event.get(Field::Metadata).and_then(|metadata| noted(metadata, note));
    if let (Some(own), Some(name)) = (own, event.get(field))
        && is_name(name, &own, sort)
    {
        event.source = None;
        put_back(&mut event.members, field, own, note);
    }
}
