//! Interrupts, for a dialect in which an agent asks its user by calling a tool of the client (`seeds/000` §3.3.2).
//!
//! ```text
//! RUN_FINISHED {outcome: {interrupts: [{id, …}]}}  ──▶ a call interrupt:<id> of the route's tool for each, then RUN_FINISHED
//! messages: […, {toolCallId: "interrupt:<id>"}]    ──▶ resume: [{interruptId: <id>, …}], and the message leaves
//! ```
//! No state is kept: the id of the call is what brings the answer back. An interrupt that belongs to a tool call of the
//! agent's own gets its call as well, for the client could not know which interrupt an answer to that other call means, and
//! `resume` "must cover **every** interrupt id" (`specs/ag-ui-1.0.md` §2).

use super::carry;
use crate::codec::json;
use crate::dialect::ASSISTANT;
use crate::event::input::{ACTIVITY, Message, REASONING};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, remove, set};

/// What the id of a call begins with that stands for an interrupt.
const PREFIX: &str = "interrupt:";

/// Members of an outcome and of an interrupt (`specs/ag-ui-1.0.md` §2).
const INTERRUPTS: &str = "interrupts";
const ID: &str = "id";

/// What the call says of an interrupt.
const SAID: [&str; 4] = ["reason", "message", "responseSchema", "toolCallId"];

/// What the document's `confirmAction` wants besides: what is to be confirmed, in words.
const ACTION: &str = "action";

/// Members of an entry of `resume`, and how an interrupt ends.
const INTERRUPT_ID: &str = "interruptId";
const STATUS: &str = "status";
const PAYLOAD: &str = "payload";
const RESOLVED: &str = "resolved";
const CANCELLED: &str = "cancelled";

/// The role of a message that answers a call.
const TOOL: &str = "tool";

/// The calls that ask what `finish` was interrupted for: start, arguments and end of each.
#[must_use]
pub(super) fn calls(finish: &Event<'_>, tool: &str) -> Vec<Event<'static>> {
    let list = finish
        .get(Field::Outcome)
        .and_then(json::members)
        .and_then(|mut outcome| carry::take(&mut outcome, INTERRUPTS));
    let mut events = Vec::new();
    for interrupt in list.as_ref().and_then(json::elements).unwrap_or_default() {
        let Some(members) = json::members(&interrupt) else { continue };
        let said = |name: &str| members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value);
        let Some(id) = said(ID).filter(|id| id.shape() == Type::String) else { continue };
        let call = Json::trusted(format!("\"{PREFIX}{}", &id.as_str()[1..]));
        let arguments = json::build(|object| {
            if let Some(action) = said(SAID[1]).or(said(SAID[0])) {
                object.member(ACTION, action.as_str());
            }
            for name in SAID {
                said(name).into_iter().for_each(|value| object.member(name, value.as_str()));
            }
        });
        let event = |kind| Event::new(kind).with(Field::ToolCallId, call.clone());
        events.push(event(Kind::ToolCallStart).with(Field::ToolCallName, Json::string(tool)));
        events.push(event(Kind::ToolCallArgs).with(Field::Delta, Json::string(arguments.as_str())));
        events.push(event(Kind::ToolCallEnd));
    }
    events
}

/// Turns the answers in a conversation into `resume`, and takes out of it what only stood for interrupts.
pub(super) fn answer(members: &mut Members<'_>, messages: &mut Vec<Message<'static>>) {
    let entries = answers(messages);
    if !entries.is_empty() {
        let before = remove(members, Field::Resume).map(Json::into_owned);
        let mut all: Vec<_> = before.as_ref().and_then(json::elements).unwrap_or_default();
        let known: Vec<_> = all.iter().filter_map(interrupt_of).collect();
        all.extend(entries.into_iter().filter(|(id, _)| !known.iter().any(|own| own.same(id))).map(|(_, entry)| entry));
        set(members, Key::Known(Field::Resume), json::to_array(&all));
    }
    messages.retain_mut(|message| {
        if is(message, TOOL) {
            return get(message, Field::ToolCallId).and_then(interrupt_id).is_none();
        }
        !(is(message, ASSISTANT) && take_calls(message) && is_empty(message))
    });
}

/// The entries of `resume` for the last run: its interrupts that were answered since, and, once anything was said since,
/// those that were not, for the agent waits for all of them.
///
/// What was answered in earlier requests stands before an answer of the assistant, or before its next calls.
fn answers(messages: &[Message<'_>]) -> Vec<(Json<'static>, Json<'static>)> {
    let shown = |message: &&Message<'_>| !is(message, ACTIVITY) && !is(message, REASONING);
    let told: Vec<_> = messages.iter().filter(shown).collect();
    let since = told.iter().rposition(|message| is(message, ASSISTANT)).map_or(0, |at| at + 1);
    let run = told[..since].iter().rposition(|message| !is(message, ASSISTANT)).map_or(0, |at| at + 1);
    let mut entries: Vec<(Json<'static>, Json<'static>)> = Vec::new();
    for message in &told[since..] {
        let id = get(message, Field::ToolCallId).filter(|_| is(message, TOOL)).and_then(interrupt_id);
        if let Some(id) = id {
            let resolved = entry(&id, RESOLVED, payload(message), get(message, Field::Metadata));
            // Who answers twice means the second answer.
            entries.retain(|(own, _)| !own.same(&id));
            entries.push((id, resolved));
        }
    }
    if told.len() > since {
        for id in told[run..since].iter().flat_map(|message| asked(message)) {
            if !entries.iter().any(|(own, _)| own.same(&id)) {
                let cancelled = entry(&id, CANCELLED, None, None);
                entries.push((id, cancelled));
            }
        }
    }
    entries
}

fn entry(id: &Json<'_>, status: &str, payload: Option<Json<'_>>, metadata: Option<&Json<'_>>) -> Json<'static> {
    json::build(|object| {
        object.member(INTERRUPT_ID, id.as_str());
        object.word(STATUS, status);
        payload.iter().for_each(|payload| object.member(PAYLOAD, payload.as_str()));
        metadata.into_iter().for_each(|metadata| object.member(Field::Metadata.camel(), metadata.as_str()));
    })
}

/// What an answer says: content is a text in this dialect, so JSON in it is taken for what was meant. `"true"` of the
/// document's example is `true`; a user who declines (`"false"`) has answered as well. Null is no payload.
fn payload(message: &Message<'_>) -> Option<Json<'static>> {
    let content = get(message, Field::Content)?;
    let meant = content.text().and_then(|text| json::value(&text).map(Json::into_owned));
    Some(meant.unwrap_or_else(|| content.clone().into_owned())).filter(|payload| !payload.is_null())
}

/// The interrupts that a message of the assistant asked.
fn asked(message: &Message<'_>) -> Vec<Json<'static>> {
    let calls = get(message, Field::ToolCalls).and_then(json::elements).unwrap_or_default();
    calls.iter().filter_map(called).collect()
}

/// The interrupt that a call stands for.
fn called(call: &Json<'_>) -> Option<Json<'static>> {
    let mut members = json::members(call)?;
    interrupt_id(&carry::take(&mut members, ID)?)
}

/// The interrupt whose call has this id.
fn interrupt_id(call: &Json<'_>) -> Option<Json<'static>> {
    let text = call.text()?;
    let id = text.strip_prefix(PREFIX)?;
    // Escapes stay as they were, where they can.
    Some(match call.as_str().strip_prefix('"').and_then(|inner| inner.strip_prefix(PREFIX)) {
        Some(rest) => Json::trusted(format!("\"{rest}")),
        None => Json::string(id),
    })
}

fn interrupt_of(entry: &Json<'_>) -> Option<Json<'static>> {
    carry::take(&mut json::members(entry)?, INTERRUPT_ID).map(Json::into_owned)
}

/// Takes the calls out of a message that stand for interrupts; says whether there were any.
fn take_calls(message: &mut Message<'static>) -> bool {
    let Some(calls) = get(message, Field::ToolCalls).cloned() else {
        return false;
    };
    let all = json::elements(&calls).unwrap_or_default();
    let left: Vec<_> = all.iter().filter(|call| called(call).is_none()).map(Json::borrowed).collect();
    if left.len() == all.len() {
        return false;
    }
    if left.is_empty() {
        remove(message, Field::ToolCalls);
    } else {
        set(message, Key::Known(Field::ToolCalls), json::to_array(&left));
    }
    true
}

/// Whether a message of the assistant says nothing.
fn is_empty(message: &Message<'_>) -> bool {
    get(message, Field::ToolCalls).is_none()
        && get(message, Field::Content).is_none_or(|content| content.is_null() || content.is(""))
}

fn is(message: &Message<'_>, role: &str) -> bool {
    get(message, Field::Role).is_some_and(|own| own.is(role))
}
