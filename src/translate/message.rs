//! Messages in requests and snapshots: the same rules in both places, so that ids and carried material agree.

use super::conform::OURS;
use super::report::{Repair, Report};
use super::write::Said;
use super::{carry, part, sound, spell, stored};
use crate::codec::json;
use crate::dialect::{Content, Dialect, Home, Parts, Pin, Shape, Side, Spelling};
use crate::event::input::{ACTIVITY, Message, REASONING};
use crate::event::schema::MESSAGES;
use crate::event::{Event, Field, Json, Key, Members, Type, get, remove, set};
use std::borrow::Cow;

/// Under `extra["ag-ui"]`: messages that the dialect has no role for, which stood right before or after this one.
const BEFORE: &str = "preceding";
const AFTER: &str = "following";

/// Under `extra["ag-ui"]` of the last message of a request: members of the input that the dialect has no place for.
pub(super) const INPUT: &str = "input";

/// Note: these members were null.
const NULLS: &str = "$nulls";

/// Rewrites the messages of a snapshot into canonical ones.
pub(super) fn read_snapshot(event: &mut Event<'_>, side: Side) {
    let Some(list) = event.get(Field::Messages).and_then(json::elements) else {
        return;
    };
    let mut canonical = Vec::new();
    for element in &list {
        match json::message(element) {
            Some(mut members) => {
                spell::read_names(side.dialect.names, &mut members);
                read(members, side, &mut canonical);
            }
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
        Some(messages) => to_array(&write(messages, side, &Carries::Always), side.fields == Spelling::Snake),
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
pub(super) fn read(message: Members<'_>, side: Side, out: &mut Vec<Message<'static>>) {
    let dialect = side.dialect;
    let Some((home, _)) = dialect.home.place() else {
        out.push(crate::event::owned(message));
        return;
    };
    let form = &dialect.message;
    let is_tool = get(&message, Field::Role).is_some_and(|role| role.is(TOOL));
    let (mut canonical, mut own) = (Members::new(), Members::new());
    let mut unwrapped = carry::Unwrapped::default();
    let mut nulls = Vec::new();
    for (key, value) in message {
        match &key {
            // The real client takes no null for any of these.
            Key::Known(field) if form.says.contains(field) && value.is_null() => {
                nulls.push(Json::string(field.camel()));
            }
            _ if carry::is_named(&key, home) => unwrapped = carry::unwrap(&value, dialect.home),
            // Canonical tool messages have no name, and some agents refuse one that they do not know.
            Key::Known(Field::Name) if is_tool => own.push((key, value)),
            Key::Known(field) if form.says.contains(field) => canonical.push((key, value)),
            _ => own.push((key, value)),
        }
    }
    spell::read_role(side, &mut canonical, &mut own);
    if let Some(rest) = unwrapped.own.take() {
        match dialect.home {
            Home::Metadata => canonical.push((Key::Known(Field::Metadata), rest)),
            Home::Extra | Home::Native => own.push((carry::own(home), rest)),
        }
    }
    if !nulls.is_empty() {
        own.push((carry::own(NULLS), json::to_array(&nulls)));
    }
    if let Some(parts) = get(&canonical, Field::Content).filter(|_| form.parts != Parts::Never).and_then(part::read) {
        set(&mut canonical, Key::Known(Field::Content), parts);
    }
    let takes =
        |content: &&Json<'_>| form.parts != Parts::Never && (is_parts(content) || content.shape() == Type::Object);
    if let Some(content) = get(&canonical, Field::Content).filter(|content| is_structured(content) && !takes(content)) {
        let text = Json::string(content.as_str());
        set(&mut canonical, Key::Known(Field::Content), text);
        carry::note_json(&mut own, Field::Content);
    }
    let mut found = unwrapped.canonical;
    let (thought_before, thought_after) = match get(&found, Field::Content) {
        // What is canonical already needs no reading.
        Some(_) => (Vec::new(), Vec::new()),
        None if has_blocks(dialect) => stored::read(&mut canonical, &mut own, dialect),
        None => (Vec::new(), Vec::new()),
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

/// The role of a message that holds what a tool gave.
const TOOL: &str = "tool";

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

/// Whether messages may hold more than their dialect knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// nobody minds
    Always,
    /// some peers would refuse it: what cannot be said is left out, and counted
    Never(std::cell::Cell<u64>),
}

impl Carries {
    /// What the agent behind a request takes.
    pub fn of_request(side: Side) -> Self {
        match side.dialect.message.open_since {
            Some(since) if side.pin < since => Carries::Never(std::cell::Cell::new(0)),
            _ => Carries::Always,
        }
    }

    /// How much was left out.
    pub fn lost(&self) -> u64 {
        match self {
            Carries::Always => 0,
            Carries::Never(count) => count.get(),
        }
    }

    /// Whether something can be carried; counts it as lost otherwise.
    pub fn carry(&self) -> bool {
        if let Carries::Never(count) = self {
            count.set(count.get() + 1);
        }
        *self == Carries::Always
    }
}

/// Whether a side's version knows the role or the member called so.
fn is_current(side: Side, name: &str) -> bool {
    side.dialect.message.since.iter().all(|(own, since)| *own != name || side.pin >= *since)
}

/// Whether messages of this role can be said to a side. A role that nobody knows is fatal to peers with versions (measured).
fn takes_role(side: Side, role: &str) -> bool {
    let known = side.dialect.message.roles.contains(&role);
    let newer = role == ACTIVITY || role == REASONING;
    if known { is_current(side, role) } else { !newer && !side.dialect.is_versioned() }
}

/// Whether a message can say this member to a side. To who takes members that it does not know, any version's can be said.
fn takes_member(side: Side, field: Field, carries: &Carries) -> bool {
    // "error" came to Python with 0.1.9 (measured).
    let since = field != Field::Error || side.pin != Pin::V0_1;
    side.dialect.message.says.contains(&field)
        && (*carries == Carries::Always || (since && is_current(side, field.camel())))
}

/// Writes canonical messages for a side. Messages whose role its dialect does not know ride on a neighbour.
pub(super) fn write<'a>(messages: Vec<Message<'a>>, side: Side, carries: &Carries) -> Vec<Message<'a>> {
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
        if !takes_role(side, &role) {
            drop(role);
            if carries.carry() {
                waiting.push(json::to_object(&message));
            }
            continue;
        }
        drop(role);
        let note = (!waiting.is_empty()).then(|| (BEFORE, json::to_array(&std::mem::take(&mut waiting))));
        out.push(write_one(message, side, note, carries));
    }
    if !waiting.is_empty() {
        let list = json::to_array(&waiting);
        match out.last_mut() {
            Some(last) => add_note(last, dialect.home, AFTER, list),
            // Nobody to ride on: the dialect gets them as they are rather than not at all.
            None => out.extend(waiting.iter().filter_map(|one| json::members(one).map(crate::event::owned))),
        }
    }
    out
}

fn write_one<'a>(
    message: Message<'a>,
    side: Side,
    note: Option<(&'static str, Json<'static>)>,
    carries: &Carries,
) -> Message<'a> {
    let (dialect, form) = (side.dialect, &side.dialect.message);
    let (mut said, mut own, mut canonical) = (Members::new(), Members::new(), Members::new());
    let is_tool = get(&message, Field::Role).is_some_and(|role| role.is(TOOL));
    for (key, value) in message {
        match &key {
            Key::Known(Field::Metadata) => {
                let splices = |key: &Key<'_>| match key {
                    Key::Known(Field::Metadata) => dialect.home != Home::Metadata,
                    Key::Known(Field::Name) => is_tool,
                    Key::Known(field) => !form.says.contains(field),
                    Key::Other(_) => true,
                };
                let (mine, rest) = carry::unpack(value, dialect.name, splices);
                own.extend(mine);
                let rest = rest.map(|rest| (Key::Known(Field::Metadata), rest));
                match dialect.home {
                    Home::Metadata => own.extend(rest),
                    Home::Extra | Home::Native => canonical.extend(rest),
                }
            }
            Key::Known(Field::Content) if is_parts(&value) || is_empty_list(side, &value) => {
                let (content, whole) = part::write(&value, side, carries == &Carries::Always, get(&said, Field::Role));
                said.push((key.clone(), content));
                canonical.extend(whole.map(|whole| (key, whole)));
            }
            Key::Known(field) if takes_member(side, *field, carries) => said.push((key, value)),
            _ => canonical.push((key, value)),
        }
    }
    if dialect.is_versioned() {
        // Fatal to every version: it stays as the guard mended it.
        carry::keep_notes(dialect.name, &[NULLS, carry::AS_JSON], &mut own);
    }
    let as_json = carry::take_json_note(&mut own, Field::Content);
    if has_blocks(dialect) && (!as_json || stored::is_noted(&own)) {
        stored::write(&mut said, &mut own, &mut canonical, side.content == Content::Blocks);
    }
    if as_json {
        // Notes come back from clients, so what they say is checked like anything else from outside.
        let text = get(&said, Field::Content).and_then(Json::text).map(Cow::into_owned);
        if let Some(value) = text.as_deref().and_then(json::value).map(Json::into_owned) {
            set(&mut said, Key::Known(Field::Content), value);
        }
    }
    spell::write_role(side, &mut said, &mut own);
    for field in carry::take_fields(&mut own, NULLS, |field| form.says.contains(&field)) {
        // What the guard put in place of the null goes with it; anything else was said since.
        if get(&said, field).is_none_or(|value| value.is("")) {
            set(&mut said, Key::Known(field), Json::NULL);
        }
    }
    canonical.extend(note.map(|(name, list)| (carry::own(name), list)));
    let place = dialect.home.place().map_or("", |(member, _)| member);
    let beside = carry::take(&mut own, place);
    // What the agent's types do not have is no more welcome when the client said it himself.
    if side.pin != Pin::V0_1 || own.is_empty() || carries.carry() {
        said.extend(own);
    }
    if !(beside.is_none() && canonical.is_empty()) && carries.carry() {
        let carried = carry::wrap(dialect.home, beside.as_ref(), &canonical, None);
        said.extend(carried.map(|carried| (carry::own(place), carried)));
    }
    spell::write_names(dialect.names, &mut said);
    said
}

/// Whether this is a list without parts, and the side one that may take no lists.
fn is_empty_list(side: Side, content: &Json<'_>) -> bool {
    matches!(side.dialect.message.parts, Parts::Binary(_))
        && json::elements(content).is_some_and(|parts| parts.is_empty())
}

/// Adds a canonical-only member to a message that was written already.
pub(super) fn add_note(message: &mut Message<'_>, home: Home, name: &'static str, value: Json<'static>) {
    let place = home.place().map_or("", |(member, _)| member);
    let found = carry::take(message, place).map(|held| carry::unwrap(&held, home)).unwrap_or_default();
    let mut canonical = found.canonical;
    set(&mut canonical, carry::own(name), value);
    if let Some(held) = carry::wrap(home, found.own.as_ref(), &canonical, None) {
        message.push((carry::own(place), held));
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
    let mut strangers = Vec::new();
    for (at, element) in list.iter().enumerate() {
        let Ok(object) = json::object(element.as_str()) else {
            strangers.push(element.clone().into_owned());
            continue;
        };
        if !object.canonical {
            report.repair(Repair::Respelt);
            changed = true;
        }
        let mut message = crate::event::owned(json::all_members(object));
        changed |= conform_message(&mut message, at, report);
        messages.push(message);
    }
    // What is no object is no message.
    if !strangers.is_empty() {
        report.repair(Repair::ValueCarried);
        changed = true;
    }
    if changed {
        event.set(Field::Messages, to_array(&messages, false));
    }
    if !strangers.is_empty() {
        carry::pack(event, OURS, vec![(Key::Known(Field::Messages), json::to_array(&strangers))]);
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
    sound::mend_object(message, &MESSAGES, report) || changed
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
