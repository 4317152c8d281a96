//! Messages in requests and snapshots: the same rules in both places, so that ids and carried material agree.

use super::report::{Repair, Report};
use super::write::Said;
use super::{carry, stored};
use crate::codec::json;
use crate::dialect::{Content, Dialect, Home, Shape, Side, Spelling};
use crate::event::input::{ACTIVITY, Message, REASONING};
use crate::event::{Event, Field, Json, Key, Members, Type, get, remove, set};
use std::borrow::Cow;

/// Under `extra["ag-ui"]`: messages that the dialect has no role for, which stood right before or after this one.
const BEFORE: &str = "preceding";
const AFTER: &str = "following";

/// Under `extra["ag-ui"]` of the last message of a request: members of the input that the dialect has no place for.
pub(super) const INPUT: &str = "input";

/// Note: these members were null.
const NULLS: &str = "$nulls";

/// Text between the text parts of a message that becomes one string.
const JOINT: &str = "\n";

/// Rewrites the messages of a snapshot into canonical ones.
pub(super) fn read_snapshot(event: &mut Event<'_>, dialect: &Dialect) {
    let Some(list) = event.get(Field::Messages).and_then(json::elements) else {
        return;
    };
    let mut canonical = Vec::new();
    for element in &list {
        match json::message(element) {
            Some(members) => read(members, dialect, &mut canonical),
            None => return,
        }
    }
    for message in &mut canonical {
        // An agent that keeps messages as they came says the rest of an earlier request again.
        carry::take(message, INPUT);
    }
    event.set(Field::Messages, to_array(&canonical, false));
}

/// Rewrites the messages of a snapshot for a side.
pub(super) fn write_snapshot(said: &mut Said<'_>, side: Side) {
    let Some(value) = remove(&mut said.members, Field::Messages) else {
        return;
    };
    let elements = json::elements(&value).unwrap_or_default();
    let messages: Option<Vec<Message<'_>>> = elements.iter().map(json::message).collect();
    let list = match messages {
        Some(messages) => to_array(&write(messages, side), side.fields == Spelling::Snake),
        None => value.into_owned(),
    };
    said.members.push((Key::Known(Field::Messages), list));
}

/// The JSON array of these messages.
pub(super) fn to_array(messages: &[Message<'_>], snake: bool) -> Json<'static> {
    let all: Vec<_> = messages
        .iter()
        .map(|message| json::build(|object| message.iter().for_each(|member| object.copy(member, snake))))
        .collect();
    json::to_array(&all)
}

/// Reads one message of a dialect into canonical ones: itself, and those that it carried for its neighbours.
pub(super) fn read(message: Members<'_>, dialect: &Dialect, out: &mut Vec<Message<'static>>) {
    if dialect.home == Home::Native {
        out.push(crate::event::owned(message));
        return;
    }
    let form = &dialect.message;
    let (mut canonical, mut own) = (Members::new(), Members::new());
    let mut unwrapped = carry::Unwrapped::default();
    let mut nulls = Vec::new();
    for (key, value) in message {
        match &key {
            // The real client takes no null for any of these.
            Key::Known(field) if form.says.contains(field) && value.is_null() => {
                nulls.push(Json::string(field.camel()));
            }
            Key::Known(field) if form.says.contains(field) => canonical.push((key, value)),
            _ if carry::is_named(&key, carry::EXTRA) => unwrapped = carry::unwrap(&value),
            _ => own.push((key, value)),
        }
    }
    if let Some(extra) = unwrapped.own.take() {
        own.push((carry::own(carry::EXTRA), extra));
    }
    if !nulls.is_empty() {
        own.push((carry::own(NULLS), json::to_array(&nulls)));
    }
    if let Some(content) = get(&canonical, Field::Content).filter(|content| is_structured(content)) {
        let text = Json::string(content.as_str());
        set(&mut canonical, Key::Known(Field::Content), text);
        carry::note_json(&mut own, Field::Content);
    }
    let mut found = unwrapped.canonical;
    let (thought_before, thought_after) = match get(&found, Field::Content) {
        // What is canonical already needs no reading.
        Some(_) => (Vec::new(), Vec::new()),
        None => stored::read(&mut canonical, &mut own, dialect),
    };
    let before = carry::take(&mut found, BEFORE);
    let after = carry::take(&mut found, AFTER);
    for (key, value) in found {
        set(&mut canonical, key, value);
    }
    if !own.is_empty() {
        let metadata = carry::merge(get(&canonical, Field::Metadata), dialect.name, own);
        set(&mut canonical, Key::Known(Field::Metadata), metadata);
    }
    take_in(before.as_ref(), out);
    out.extend(thought_before);
    out.push(crate::event::owned(canonical));
    out.extend(thought_after);
    take_in(after.as_ref(), out);
}

/// Whether content of this dialect can be output blocks.
fn has_blocks(dialect: &Dialect) -> bool {
    dialect.rows.iter().any(|row| row.shape == Shape::Output)
}

fn is_structured(content: &Json<'_>) -> bool {
    matches!(content.shape(), Type::Object | Type::Array | Type::Number | Type::Bool)
}

fn take_in(list: Option<&Json<'_>>, out: &mut Vec<Message<'static>>) {
    for element in list.and_then(json::elements).unwrap_or_default() {
        out.extend(json::members(&element).map(crate::event::owned));
    }
}

/// Writes canonical messages for a side. Messages whose role its dialect does not know ride on a neighbour.
pub(super) fn write<'a>(messages: Vec<Message<'a>>, side: Side) -> Vec<Message<'a>> {
    let dialect = side.dialect;
    if dialect.home == Home::Native {
        return messages;
    }
    let mut out: Vec<Message<'a>> = Vec::with_capacity(messages.len());
    let mut waiting: Vec<Json<'static>> = Vec::new();
    let intact = stored::intact(&messages, dialect.name);
    for message in messages {
        if stored::is_held(&message, dialect.name, &intact) {
            continue;
        }
        let role = get(&message, Field::Role).and_then(Json::text).unwrap_or_default();
        if (role == ACTIVITY || role == REASONING) && !dialect.message.roles.contains(&&*role) {
            drop(role);
            waiting.push(json::to_object(&message));
            continue;
        }
        drop(role);
        let note = (!waiting.is_empty()).then(|| (BEFORE, json::to_array(&std::mem::take(&mut waiting))));
        out.push(write_one(message, side, note));
    }
    if !waiting.is_empty() {
        let list = json::to_array(&waiting);
        match out.last_mut() {
            Some(last) => add_note(last, AFTER, list),
            // Nobody to ride on: the dialect gets them as they are rather than not at all.
            None => out.extend(waiting.iter().filter_map(|one| json::members(one).map(crate::event::owned))),
        }
    }
    out
}

fn write_one<'a>(message: Message<'a>, side: Side, note: Option<(&'static str, Json<'static>)>) -> Message<'a> {
    let (dialect, form) = (side.dialect, &side.dialect.message);
    let (mut said, mut own, mut canonical) = (Members::new(), Members::new(), Members::new());
    for (key, value) in message {
        match &key {
            Key::Known(Field::Metadata) => {
                let splices = |key: &Key<'_>| !matches!(key, Key::Known(field) if form.says.contains(field));
                let (mine, rest) = carry::unpack(value, dialect.name, splices);
                own.extend(mine);
                canonical.extend(rest.map(|rest| (Key::Known(Field::Metadata), rest)));
            }
            Key::Known(Field::Content) if !form.parts && is_parts(&value) => {
                said.push((key, Json::string(&text_of_parts(&value))));
                canonical.push((Key::Known(Field::Content), value));
            }
            Key::Known(field) if form.says.contains(field) => said.push((key, value)),
            _ => canonical.push((key, value)),
        }
    }
    let as_json = carry::take_json_note(&mut own, Field::Content);
    if !as_json || stored::is_noted(&own) {
        let blocks = side.content == Content::Blocks && has_blocks(dialect);
        stored::write(&mut said, &mut own, &mut canonical, blocks);
    }
    if as_json {
        // Notes come back from clients, so what they say is checked like anything else from outside.
        let text = get(&said, Field::Content).and_then(Json::text).map(Cow::into_owned);
        if let Some(value) = text.as_deref().and_then(json::value).map(Json::into_owned) {
            set(&mut said, Key::Known(Field::Content), value);
        }
    }
    let nulls = carry::take(&mut own, NULLS);
    for name in nulls.as_ref().and_then(json::elements).unwrap_or_default() {
        let field = name.text().and_then(|name| Field::from_wire(&name)).filter(|field| form.says.contains(field));
        // What the guard put in place of the null goes with it; anything else was said since.
        if let Some(field) = field.filter(|field| get(&said, *field).is_none_or(|value| value.is(""))) {
            set(&mut said, Key::Known(field), Json::NULL);
        }
    }
    canonical.extend(note.map(|(name, list)| (carry::own(name), list)));
    let extra = carry::take(&mut own, carry::EXTRA);
    said.extend(own);
    if let Some(extra) = carry::wrap(extra.as_ref(), &canonical, None) {
        said.push((carry::own(carry::EXTRA), extra));
    }
    said
}

/// Adds a canonical-only member to a message that was written already.
pub(super) fn add_note(message: &mut Message<'_>, name: &'static str, value: Json<'static>) {
    let extra = carry::take(message, carry::EXTRA).map(|extra| carry::unwrap(&extra)).unwrap_or_default();
    let mut canonical = extra.canonical;
    set(&mut canonical, carry::own(name), value);
    if let Some(extra) = carry::wrap(extra.own.as_ref(), &canonical, None) {
        message.push((carry::own(carry::EXTRA), extra));
    }
}

/// Brings the messages of a canonical snapshot into the form that the real client takes: it rejects the run for one null
/// or one message without an id.
pub(super) fn conform_snapshot(event: &mut Event<'_>, report: &mut Report) {
    let Some(list) = event.get(Field::Messages).and_then(json::elements) else {
        return;
    };
    let mut changed = false;
    let mut messages = Vec::with_capacity(list.len());
    for (at, element) in list.iter().enumerate() {
        let Ok(object) = json::object(element.as_str()) else {
            return;
        };
        if !object.canonical {
            report.repair(Repair::Respelt);
            changed = true;
        }
        let mut message = crate::event::owned(json::all_members(object));
        changed |= conform_message(&mut message, at, report);
        messages.push(message);
    }
    if changed {
        event.set(Field::Messages, to_array(&messages, false));
    }
}

/// Whether a list of messages is in the form that the real client takes.
pub(super) fn are_sound(list: &Json<'_>) -> bool {
    let unheard = &mut Report::default();
    let sound = |(at, element): (usize, &Json<'_>)| {
        let message = json::message(element).map(crate::event::owned);
        message.is_some_and(|mut message| !conform_message(&mut message, at, unheard))
    };
    json::elements(list).is_some_and(|elements| elements.iter().enumerate().all(sound))
}

/// Mends one message; says whether it had to.
fn conform_message(message: &mut Message<'static>, at: usize, report: &mut Report) -> bool {
    let before = message.len();
    message.retain(|(_, value)| !value.is_null());
    let mut changed = message.len() != before;
    if changed {
        report.repair(Repair::NullDropped);
    }
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default().into_owned();
    let mut supplied = Vec::new();
    match get(message, Field::Id) {
        Some(id) if id.shape() == Type::String => {}
        Some(id) => supplied.push((Field::Id, Json::string(id.as_str()))),
        None => supplied.push((Field::Id, Json::string(&format!("snapshot-{at}")))),
    }
    // Every message but the assistant's must have content; parts are for users and tools.
    match get(message, Field::Content).map(Json::shape) {
        None if role != "assistant" && role != ACTIVITY => supplied.push((Field::Content, Json::string(""))),
        Some(Type::Number | Type::Bool) => {
            let text = get(message, Field::Content).map(|content| Json::string(content.as_str()));
            supplied.extend(text.map(|text| (Field::Content, text)));
        }
        _ => {}
    }
    if role == "tool" && get(message, Field::ToolCallId).is_none() {
        supplied.push((Field::ToolCallId, Json::string("")));
    }
    supplied.extend(get(message, Field::ToolCalls).and_then(conform_calls).map(|calls| (Field::ToolCalls, calls)));
    supplied.extend(get(message, Field::Content).and_then(without_nulls).map(|parts| (Field::Content, parts)));
    changed |= !supplied.is_empty();
    for (field, value) in supplied {
        report.repair(Repair::MemberSupplied);
        set(message, Key::Known(field), value);
    }
    changed
}

/// The list with its nulls taken out, if it had any: an optional member of a part or a call may not be null.
fn without_nulls(list: &Json<'_>) -> Option<Json<'static>> {
    let mut changed = false;
    let mended: Option<Vec<_>> = json::elements(list)?
        .iter()
        .map(|element| {
            let mut members = json::members(element)?;
            let before = members.len();
            members.retain(|(_, value)| !value.is_null());
            changed |= members.len() != before;
            Some(json::to_object(&members))
        })
        .collect();
    mended.filter(|_| changed).map(|all| json::to_array(&all))
}

/// Arguments of a call are a text; an object becomes its JSON text.
fn conform_calls(calls: &Json<'_>) -> Option<Json<'static>> {
    let clean = without_nulls(calls);
    let calls = clean.as_ref().unwrap_or(calls);
    let mut changed = false;
    let mended: Option<Vec<_>> = json::elements(calls)?
        .iter()
        .map(|call| {
            let mut members = json::members(call)?;
            let (_, function) = members.iter_mut().find(|(key, _)| carry::is_named(key, "function"))?;
            let mut inner = json::members(function).map(crate::event::owned)?;
            for (_, value) in inner
                .iter_mut()
                .filter(|(key, value)| carry::is_named(key, "arguments") && value.shape() != Type::String)
            {
                *value = Json::string(value.as_str());
                changed = true;
            }
            *function = json::to_object(&inner);
            Some(json::to_object(&members))
        })
        .collect();
    mended.filter(|_| changed).map(|all| json::to_array(&all)).or(clean)
}

/// Whether this is a list of content parts.
#[must_use]
pub(super) fn is_parts(value: &Json<'_>) -> bool {
    value.shape() == Type::Array
        && json::elements(value).is_some_and(|parts| {
            !parts.is_empty()
                && parts.iter().all(|part| json::object(part.as_str()).is_ok_and(|part| part.kind.is_some()))
        })
}

/// The text of all text parts: what a dialect without parts can show.
pub(super) fn text_of_parts(value: &Json<'_>) -> String {
    let parts = json::elements(value).unwrap_or_default();
    let texts: Vec<String> = parts
        .iter()
        .filter_map(|part| {
            let mut members = json::members(part)?;
            carry::take(&mut members, "text")?.text().map(Cow::into_owned)
        })
        .collect();
    texts.join(JOINT)
}
