//! Values: what a canonical event must look like for the real client, member by member.
//!
//! The client rejects the whole run for one wrong value (`specs/ag-ui-1.0.md` §3.1, class 3), so a value with one obvious
//! reading is converted, an optional one without is carried under `metadata.diglot`, and an event that cannot be mended
//! leaves as RAW: nothing is lost, and nothing breaks the run.

use super::report::{Repair, Report};
use super::{carry, message, patch, result_id, sound};
use crate::codec::json;
use crate::event::kind::{Form, Slot};
use crate::event::schema::{self, RESULT_CONTENT};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type};

/// Key in `metadata` under which the gateway carries what it had to take out.
pub(super) const OURS: &str = "diglot";

/// `source` of the RAW event in which an event leaves that cannot be mended.
const INVALID: &str = "diglot.invalid";

/// What RUN_ERROR says when the agent gave no reason.
pub(super) const NO_REASON: &str = "The agent reported an error without a message.";

/// Integers beyond this are no integers to a JavaScript client.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Mends `event`, or wraps it.
pub(super) fn conform<'a>(mut event: Event<'a>, report: &mut Report) -> Event<'a> {
    let kind = event.kind;
    if kind == Kind::MessagesSnapshot {
        message::conform_snapshot(&mut event, report);
    }
    let broken: Vec<&Slot> = event
        .members
        .iter()
        .filter_map(|(key, value)| match key {
            Key::Known(field) => kind.slot(*field).filter(|slot| !fits(kind, slot, value)),
            Key::Other(_) => None,
        })
        .collect();
    let mut carried = Members::new();
    for slot in broken {
        mend(&mut event, slot, &mut carried, report);
    }
    carry::pack(&mut event, OURS, carried);
    let missing = kind.slots().iter().filter(|slot| slot.required && event.get(slot.field).is_none());
    for slot in missing.collect::<Vec<&Slot>>() {
        match filler(&event, slot) {
            Some(value) => {
                event.set(slot.field, value);
                report.repair(Repair::MemberSupplied);
            }
            None => return wrap(&event, report),
        }
    }
    event
}

/// Whether `value` is what the slot takes.
fn fits(kind: Kind, slot: &Slot, value: &Json<'_>) -> bool {
    has_form(slot, value) && (!is_nested(slot.form) || sound::is_sound(value, schema::shape(kind, slot)))
}

/// Whether there is more below a value of this form than that says. A list of messages was mended before.
fn is_nested(form: Form) -> bool {
    matches!(form, Form::Outcome | Form::Usage | Form::Input | Form::Content)
}

/// Looks at the first byte, and further only where the form is narrower.
fn has_form(slot: &Slot, value: &Json<'_>) -> bool {
    match (slot.form, value.shape()) {
        (Form::Any, _) => true,
        (_, Type::Null) => false,
        (Form::Present, _)
        | (Form::Str, Type::String)
        | (Form::Object, Type::Object)
        | (Form::Array, Type::Array)
        | (Form::Bool, Type::Bool)
        | (Form::Content, Type::String | Type::Array) => true,
        (Form::Word(words), Type::String) => value.text().is_some_and(|text| words.contains(&&*text)),
        (Form::Integer, Type::Number) => value.as_i64().is_some_and(|n| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&n)),
        (Form::Patch, Type::Array) => patch::is_sound(value),
        (Form::Outcome, Type::Object) => outcome(value).is_some_and(|mended| mended.is_none()),
        (Form::Usage, Type::Array) => is_usage(value),
        (Form::Input, Type::Object) => is_input(value),
        _ => false,
    }
}

fn mend(event: &mut Event<'_>, slot: &Slot, carried: &mut Members<'static>, report: &mut Report) {
    let field = slot.field;
    if slot.form == Form::Patch {
        patch::conform(event, field, report);
        if event.get(field).is_none_or(|value| fits(event.kind, slot, value)) {
            return;
        }
    }
    let Some(value) = event.remove(field) else {
        return;
    };
    if value.is_null() {
        report.repair(Repair::NullDropped);
        return;
    }
    let converted = match (slot.form, value.shape()) {
        (Form::Str | Form::Content, Type::String) => None,
        (Form::Content, Type::Array) => {
            let parts = sound::parts(&value, RESULT_CONTENT, carried, report);
            event.set(field, parts);
            return;
        }
        // An object delta is said as its JSON text; a number as its digits.
        (Form::Str | Form::Content, _) => Some(Json::string(value.as_str())),
        (Form::Integer, Type::Number) => {
            // What a rounded number loses is carried.
            carried.push((Key::Known(field), value.clone().into_owned()));
            value.as_str().parse::<f64>().ok().and_then(whole)
        }
        (Form::Integer, Type::String) => value.text().and_then(|text| text.parse::<i64>().ok()).map(Json::integer),
        (Form::Outcome, Type::Object) => outcome(&value).flatten(),
        (Form::Bool, Type::String) if value.is("true") || value.is("false") => {
            value.text().map(|text| Json::trusted(text.into_owned()))
        }
        _ => None,
    };
    match converted.filter(|value| fits(event.kind, slot, value)) {
        Some(converted) => {
            report.repair(Repair::TypeConverted);
            event.set(field, converted);
        }
        None => {
            report.repair(Repair::ValueCarried);
            crate::event::set(carried, Key::Known(field), value.into_owned());
        }
    }
}

/// An echo of the run input: ids are texts, lists are lists, and its messages have what messages need.
fn is_input(value: &Json<'_>) -> bool {
    let Some(members) = json::message(value) else {
        return false;
    };
    let shape = |field: Field| crate::event::get(&members, field).map(Json::shape);
    let is_text = |field| shape(field) == Some(Type::String);
    let is_list = |field| shape(field).is_none_or(|shape| shape == Type::Array);
    is_text(Field::ThreadId)
        && is_text(Field::RunId)
        && is_list(Field::Tools)
        && is_list(Field::Context)
        && crate::event::get(&members, Field::Messages).is_some_and(message::are_sound)
}

/// Members of a token usage that are texts; the others that are known are whole numbers from 0 on.
const USAGE_TEXTS: [&str; 2] = ["provider", "model"];
const USAGE_COUNTS: [&str; 6] =
    ["inputTokens", "outputTokens", "totalTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens"];

/// The list in the outcome of a run that was interrupted, and what an interrupt must and may say.
const INTERRUPTS: &str = "interrupts";
const INTERRUPT_NEEDS: [&str; 2] = ["id", "reason"];
const INTERRUPT_TEXTS: [&str; 6] = ["id", "reason", "message", "toolCallId", "expiresAt", "subagentRunId"];
const INTERRUPT_OBJECTS: [&str; 2] = ["responseSchema", "metadata"];

/// Lists of ids in the outcomes of runs and subagents.
const OUTCOME_IDS: [&str; 2] = ["pendingToolCallIds", "interruptIds"];

/// Whether every member that has one of these names passes.
fn all_named(members: &Members<'_>, names: &[&str], passes: impl Fn(&Json<'_>) -> bool) -> bool {
    members
        .iter()
        .filter(|(key, _)| names.iter().any(|name| carry::is_named(key, name)))
        .all(|(_, value)| passes(value))
}

fn is_text(value: &Json<'_>) -> bool {
    value.shape() == Type::String
}

fn is_usage(value: &Json<'_>) -> bool {
    let is_count = |value: &Json<'_>| value.as_i64().is_some_and(|count| (0..=SAFE_INTEGER).contains(&count));
    let sound = |entry: &Json<'_>| {
        json::members(entry)
            .is_some_and(|all| all_named(&all, &USAGE_TEXTS, is_text) && all_named(&all, &USAGE_COUNTS, is_count))
    };
    json::elements(value).is_some_and(|entries| entries.iter().all(sound))
}

/// What an outcome has to be like: `None` when the real client refuses it, something inside when a null had to go.
fn outcome(value: &Json<'_>) -> Option<Option<Json<'static>>> {
    let members = json::members(value)?;
    let member = |name: &str| members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value);
    let are_ids = |value: &Json<'_>| json::elements(value).is_some_and(|ids| ids.iter().all(is_text));
    if !all_named(&members, &OUTCOME_IDS, are_ids) {
        return None;
    }
    if member(json::TYPE)?.text()? != "interrupt" {
        return Some(None);
    }
    let interrupts = json::elements(member(INTERRUPTS)?).filter(|all| !all.is_empty())?;
    let mut mended = Vec::with_capacity(interrupts.len());
    let mut changed = false;
    for interrupt in &interrupts {
        let mut all = json::members(interrupt)?;
        let before = all.len();
        all.retain(|(_, value)| !value.is_null());
        changed |= all.len() != before;
        let is_object = |value: &Json<'_>| value.shape() == Type::Object;
        let sound = INTERRUPT_NEEDS.iter().all(|name| all.iter().any(|(key, _)| carry::is_named(key, name)))
            && all_named(&all, &INTERRUPT_TEXTS, is_text)
            && all_named(&all, &INTERRUPT_OBJECTS, is_object);
        if !sound {
            return None;
        }
        mended.push(json::to_object(&all));
    }
    if !changed {
        return Some(None);
    }
    let list = json::to_array(&mended);
    Some(Some(json::build(|object| {
        for (key, value) in &members {
            let value = if carry::is_named(key, INTERRUPTS) { &list } else { value };
            object.copy(&(key.clone(), value.borrowed()), false);
        }
    })))
}

#[expect(clippy::cast_possible_truncation, reason = "the range was checked the line before")]
fn whole(number: f64) -> Option<Json<'static>> {
    (number.abs() < 9e15).then(|| Json::integer(number.trunc() as i64))
}

/// The value of a required member that is missing, where there is one obvious value.
fn filler(event: &Event<'_>, slot: &Slot) -> Option<Json<'static>> {
    Some(match (event.kind, slot.field) {
        (Kind::ToolCallResult, Field::MessageId) => result_id(event.get(Field::ToolCallId)?),
        (Kind::ReasoningMessageStart, Field::Role) => Json::string(crate::event::input::REASONING),
        (Kind::RunError, Field::Message) => Json::string(NO_REASON),
        // The guard gives run boundaries their ids.
        (Kind::RunStarted | Kind::RunFinished, Field::ThreadId | Field::RunId) => Json::string(""),
        (_, Field::Delta) if slot.form == Form::Str => Json::string(""),
        // Old encoders lose a null that is required.
        _ if slot.form == Form::Any => Json::NULL,
        _ => return None,
    })
}

/// An event that cannot be mended, as RAW with everything that it said.
fn wrap(event: &Event<'_>, report: &mut Report) -> Event<'static> {
    report.repair(Repair::MalformedFrame);
    let whole = json::build(|object| {
        object.word(json::TYPE, event.kind.wire());
        event.members.iter().for_each(|member| object.copy(member, false));
    });
    Event::new(Kind::Raw).with(Field::Event, whole).with(Field::Source, Json::string(INVALID))
}
