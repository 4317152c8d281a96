//! Converts the members of a canonical event into a form that the real client accepts.
//!
//! The client rejects the whole run for one wrong value (`specs/ag-ui-1.0.md` §3.1, class 3), so a value with one
//! obvious reading is converted, any other optional one is carried under `metadata.diglot`, and an irreparable event is
//! sent as RAW: no data is lost and the run continues.

use super::event_shapes::{DEFAULT_ERROR_MESSAGE, event_to_value};
use super::list_budget::ELEMENTS_LIMIT;
use super::report::TranslationReport;
use super::{carry, json_patch, message_repair, nested_values, not_shown, tool_result_id};
use crate::codec::json;
use crate::event::input::INTERRUPTS;
use crate::event::kind::{MemberType, Slot};
use crate::event::schema::{self, RESULT_CONTENT};
use crate::event::value::SAFE_INTEGER;
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, JsonType, MemberKey, Members, find_member};

/// The `source` of RAW events that wrap an irreparable event.
const INVALID_SOURCE: &str = "diglot.invalid";

pub(super) fn conform<'a>(mut event: Event<'a>, report: &mut TranslationReport) -> Event<'a> {
    let kind = event.kind;
    if kind == EventType::MessagesSnapshot {
        message_repair::repair_snapshot(&mut event, report);
    }
    if kind == EventType::ToolCallResult {
        read_long_list(&mut event, report);
    }
    let mut broken: Vec<&Slot> = Vec::new();
    let mut found_fields = 0;
    for (key, value) in &event.members {
        let MemberKey::Known(field) = key else { continue };
        found_fields |= field.bit();
        broken.extend(kind.slot(*field).filter(|slot| !fits_slot(kind, slot, value)));
    }
    // The client reads the owner of every event, also of those that have none, and null is not its absence.
    if event.get(Field::SubagentRunId).is_some_and(Json::is_null) && kind.slot(Field::SubagentRunId).is_none() {
        event.remove(Field::SubagentRunId);
        report.count_repair(EventRepair::NullDropped);
    }
    let is_complete = kind.slots().iter().all(|slot| !slot.required || found_fields & slot.field.bit() != 0);
    // Most events are as they should be.
    if broken.is_empty() && is_complete {
        return event;
    }
    let mut carried = Members::new();
    for slot in broken {
        repair_member(&mut event, slot, &mut carried, report);
    }
    carry::pack(&mut event, carry::GATEWAY_KEY, carried);
    let missing = kind.slots().iter().filter(|slot| slot.required && event.get(slot.field).is_none());
    for slot in missing.collect::<Vec<&Slot>>() {
        match default_value(&event, slot) {
            Some(value) => {
                event.set(slot.field, value);
                report.count_supplied_member(slot.field.camel());
            }
            None => return wrap_as_raw(&event, report),
        }
    }
    event
}

/// Makes text of a result with more elements than are taken apart: a table of an application, which nobody sends as
/// parts.
fn read_long_list(event: &mut Event<'_>, report: &mut TranslationReport) {
    let is_long = |content: &&Json<'_>| json::count_elements(content) > ELEMENTS_LIMIT;
    if let Some(text) = event.get(Field::Content).filter(is_long).map(|content| Json::string(content.as_str())) {
        report.count_repair(EventRepair::TypeConverted);
        event.set(Field::Content, text);
    }
}

fn fits_slot(kind: EventType, slot: &Slot, value: &Json<'_>) -> bool {
    matches_type(slot, value)
        && (!is_nested(slot.member_type) || nested_values::is_valid(value, schema::value_schema(kind, slot)))
}

/// Returns true if values of this type have members or elements to check. Message lists were repaired earlier.
fn is_nested(form: MemberType) -> bool {
    matches!(form, MemberType::Outcome | MemberType::Usage | MemberType::Input | MemberType::Content)
}

fn matches_type(slot: &Slot, value: &Json<'_>) -> bool {
    match (slot.member_type, value.json_type()) {
        (MemberType::Any, _) => true,
        (_, JsonType::Null) => false,
        (MemberType::Present, _)
        | (MemberType::Str, JsonType::String)
        | (MemberType::Object, JsonType::Object)
        | (MemberType::Array, JsonType::Array)
        | (MemberType::Bool, JsonType::Bool)
        | (MemberType::Content, JsonType::String | JsonType::Array) => true,
        (MemberType::StringEnum(words), JsonType::String) => value.text().is_some_and(|text| words.contains(&&*text)),
        (MemberType::Integer, JsonType::Number) => {
            value.as_i64().is_some_and(|n| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&n))
        }
        (MemberType::Patch, JsonType::Array) => json_patch::is_valid(value),
        (MemberType::Outcome, JsonType::Object) => matches!(repair_outcome(value), Some(OutcomeRepair::Unneeded)),
        (MemberType::Usage, JsonType::Array) => is_usage(value),
        (MemberType::Input, JsonType::Object) => is_input(value),
        _ => false,
    }
}

fn repair_member(event: &mut Event<'_>, slot: &Slot, carried: &mut Members<'static>, report: &mut TranslationReport) {
    let field = slot.field;
    if slot.member_type == MemberType::Patch {
        if json_patch::repair_patch(event, field).is_some() {
            report.count_repair(EventRepair::PatchMended);
        }
        if event.get(field).is_none_or(|value| fits_slot(event.kind, slot, value)) {
            return;
        }
    }
    let Some(value) = event.remove(field) else {
        return;
    };
    if value.is_null() {
        report.count_repair(EventRepair::NullDropped);
        return;
    }
    let converted = match (slot.member_type, value.json_type()) {
        (MemberType::Str | MemberType::Content, JsonType::String) => None,
        (MemberType::Content, JsonType::Array) => {
            let parts = nested_values::repair_parts(&value, RESULT_CONTENT, carried, report);
            event.set(field, parts);
            return;
        }
        // An object delta becomes its JSON text; a number becomes its digits.
        (MemberType::Str | MemberType::Content, _) => Some(Json::string(value.as_str())),
        (MemberType::Integer, JsonType::Number) => {
            // Carries the exact value of a rounded number.
            carried.push((MemberKey::Known(field), value.clone().into_owned()));
            value.as_str().parse::<f64>().ok().and_then(truncate_to_integer)
        }
        (MemberType::Integer, JsonType::String) => {
            value.text().and_then(|text| text.parse::<i64>().ok()).map(Json::integer)
        }
        (MemberType::Outcome, JsonType::Object) => match repair_outcome(&value) {
            Some(OutcomeRepair::NullsRemoved(outcome)) => Some(outcome),
            Some(OutcomeRepair::Unneeded) | None => None,
        },
        (MemberType::Bool, JsonType::String) if value.is_str("true") || value.is_str("false") => {
            value.text().map(|text| Json::from_trusted(text.into_owned()))
        }
        _ => None,
    };
    match converted.filter(|value| fits_slot(event.kind, slot, value)) {
        Some(converted) => {
            report.count_repair(EventRepair::TypeConverted);
            event.set(field, converted);
        }
        None => {
            report.count_repair(EventRepair::ValueCarried);
            if field == Field::Outcome {
                report.count_loss_times(EventLoss::InterruptNotShown, not_shown::count_interrupts(&value));
            }
            crate::event::set(carried, MemberKey::Known(field), value.into_owned());
        }
    }
}

/// Validates an echo of the run input: ids are strings, lists are arrays, and the messages are valid.
fn is_input(value: &Json<'_>) -> bool {
    let Some(members) = json::parse_message(value) else {
        return false;
    };
    let shape = |field: Field| crate::event::get(&members, field).map(Json::json_type);
    let is_text = |field| shape(field) == Some(JsonType::String);
    let is_list = |field| shape(field).is_none_or(|shape| shape == JsonType::Array);
    is_text(Field::ThreadId)
        && is_text(Field::RunId)
        && is_list(Field::Tools)
        && is_list(Field::Context)
        && crate::event::get(&members, Field::Messages).is_some_and(message_repair::are_valid)
}

/// The string members of a token usage object; its other known members are integers.
const USAGE_TEXTS: [&str; 2] = ["provider", "model"];
const USAGE_COUNTS: [&str; 6] =
    ["inputTokens", "outputTokens", "totalTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens"];

const INTERRUPT_REQUIRED: [&str; 2] = ["id", "reason"];
const INTERRUPT_TEXTS: [&str; 6] = ["id", "reason", "message", "toolCallId", "expiresAt", "subagentRunId"];
const INTERRUPT_OBJECTS: [&str; 2] = ["responseSchema", "metadata"];

const OUTCOME_IDS: [&str; 2] = ["pendingToolCallIds", "interruptIds"];

fn all_named_pass(members: &Members<'_>, names: &[&str], passes: impl Fn(&Json<'_>) -> bool) -> bool {
    members
        .iter()
        .filter(|(key, _)| names.iter().any(|name| carry::is_named(key, name)))
        .all(|(_, value)| passes(value))
}

fn is_text(value: &Json<'_>) -> bool {
    value.json_type() == JsonType::String
}

fn is_usage(value: &Json<'_>) -> bool {
    let is_count = |value: &Json<'_>| value.as_i64().is_some_and(|count| (0..=SAFE_INTEGER).contains(&count));
    let sound = |entry: &Json<'_>| {
        json::parse_members(entry).is_some_and(|all| {
            all_named_pass(&all, &USAGE_TEXTS, is_text) && all_named_pass(&all, &USAGE_COUNTS, is_count)
        })
    };
    json::parse_elements(value).is_some_and(|entries| entries.iter().all(sound))
}

/// The repair that makes the real client accept an outcome.
enum OutcomeRepair {
    Unneeded,
    NullsRemoved(Json<'static>),
}

/// Returns `None` if the real client rejects the outcome even without its nulls.
fn repair_outcome(value: &Json<'_>) -> Option<OutcomeRepair> {
    let members = json::parse_members(value)?;
    let member = |name: &str| find_member(&members, name);
    let are_ids = |value: &Json<'_>| json::parse_elements(value).is_some_and(|ids| ids.iter().all(is_text));
    if !all_named_pass(&members, &OUTCOME_IDS, are_ids) {
        return None;
    }
    if member(json::TYPE)?.text()? != "interrupt" {
        return Some(OutcomeRepair::Unneeded);
    }
    let interrupts = json::parse_elements(member(INTERRUPTS)?).filter(|all| !all.is_empty())?;
    let mut mended = Vec::with_capacity(interrupts.len());
    let mut changed = false;
    for interrupt in &interrupts {
        let mut all = json::parse_members(interrupt)?;
        let before = all.len();
        all.retain(|(_, value)| !value.is_null());
        changed |= all.len() != before;
        let is_object = |value: &Json<'_>| value.json_type() == JsonType::Object;
        let sound = INTERRUPT_REQUIRED.iter().all(|name| find_member(&all, name).is_some())
            && all_named_pass(&all, &INTERRUPT_TEXTS, is_text)
            && all_named_pass(&all, &INTERRUPT_OBJECTS, is_object);
        if !sound {
            return None;
        }
        mended.push(json::to_object(&all));
    }
    if !changed {
        return Some(OutcomeRepair::Unneeded);
    }
    let list = json::to_array(&mended);
    Some(OutcomeRepair::NullsRemoved(json::build_object(|object| {
        for (key, value) in &members {
            let value = if carry::is_named(key, INTERRUPTS) { &list } else { value };
            object.copy_member(&(key.clone(), value.as_borrowed()), false);
        }
    })))
}

#[expect(clippy::cast_possible_truncation, reason = "the range was checked the line before")]
fn truncate_to_integer(number: f64) -> Option<Json<'static>> {
    (number.abs() < 9e15).then(|| Json::integer(number.trunc() as i64))
}

fn default_value(event: &Event<'_>, slot: &Slot) -> Option<Json<'static>> {
    Some(match (event.kind, slot.field) {
        (EventType::ToolCallResult, Field::MessageId) => tool_result_id(event.get(Field::ToolCallId)?),
        (EventType::ReasoningMessageStart, Field::Role) => Json::string(crate::event::input::REASONING),
        (EventType::RunError, Field::Message) => Json::string(DEFAULT_ERROR_MESSAGE),
        // The guard sets the ids on run boundaries.
        (EventType::RunStarted | EventType::RunFinished, Field::ThreadId | Field::RunId) => Json::EMPTY_STRING,
        (_, Field::Delta) if slot.member_type == MemberType::Str => Json::EMPTY_STRING,
        // Old encoders omit a required member that is null.
        _ if slot.member_type == MemberType::Any => Json::NULL,
        _ => return None,
    })
}

fn wrap_as_raw(event: &Event<'_>, report: &mut TranslationReport) -> Event<'static> {
    report.count_repair(EventRepair::MalformedFrame);
    report.count_loss(EventLoss::EventNotShown);
    Event::new(EventType::Raw)
        .with(Field::Event, event_to_value(event))
        .with(Field::Source, Json::string(INVALID_SOURCE))
}
