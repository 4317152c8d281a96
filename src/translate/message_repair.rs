//! Repairs messages in snapshots and requests, so that clients and agents of AG-UI accept them.

use super::carry::{self, GATEWAY_KEY};
use super::message::to_array;
use super::message_role::guess_role;
use super::report::TranslationReport;
use super::{call_arguments, nested_values};
use crate::codec::json;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, TOOL};
use crate::event::schema::MESSAGES;
use crate::event::{Event, EventRepair, Field, Json, JsonType, MemberKey, get, set};

/// Repairs the messages of a snapshot: the real client rejects the run for a single null or missing id.
pub(super) fn repair_snapshot(event: &mut Event<'_>, report: &mut TranslationReport) {
    let Some(list) = event.get(Field::Messages).and_then(json::parse_elements) else {
        return;
    };
    let mut changed = false;
    let mut messages = Vec::with_capacity(list.len());
    let mut strangers = Vec::new();
    for (at, element) in list.iter().enumerate() {
        let Ok(object) = json::parse_object(element.as_str()) else {
            strangers.push(element.clone().into_owned());
            continue;
        };
        if !object.canonical {
            report.count_repair(EventRepair::KeyNormalized);
            changed = true;
        }
        let mut message = crate::event::into_owned_members(json::members_with_type(object));
        changed |= repair_message(&mut message, at, report);
        messages.push(message);
    }
    // Only objects are messages.
    if !strangers.is_empty() {
        report.count_repair(EventRepair::ValueCarried);
        changed = true;
    }
    if changed {
        event.set(Field::Messages, to_array(&messages, false));
    }
    if !strangers.is_empty() {
        carry::pack(event, GATEWAY_KEY, vec![(MemberKey::Known(Field::Messages), json::to_array(&strangers))]);
    }
}

pub(super) fn are_valid(list: &Json<'_>) -> bool {
    let discarded = &mut TranslationReport::default();
    let sound = |(at, element): (usize, &Json<'_>)| {
        let message = json::parse_message(element).map(crate::event::into_owned_members);
        message.is_some_and(|mut message| !repair_message(&mut message, at, discarded))
    };
    json::parse_elements(list).is_some_and(|elements| elements.iter().enumerate().all(sound))
}

/// Repairs a message; returns true if it changed.
pub(super) fn repair_message(message: &mut MessageMembers<'static>, at: usize, report: &mut TranslationReport) -> bool {
    let before = message.len();
    message.retain(|(_, value)| !value.is_null());
    let mut changed = message.len() != before;
    if changed {
        report.count_repair(EventRepair::NullDropped);
    }
    let mut supplied = Vec::new();
    let role = match get(message, Field::Role) {
        Some(role) => role.text().unwrap_or_default().into_owned(),
        None => {
            let role = guess_role(message);
            supplied.push((Field::Role, Json::string(role)));
            role.to_owned()
        }
    };
    match get(message, Field::Id) {
        Some(id) if id.json_type() == JsonType::String => {}
        Some(id) => supplied.push((Field::Id, Json::string(id.as_str()))),
        None => supplied.push((Field::Id, Json::string(&format!("snapshot-{at}")))),
    }
    // Only assistant messages may lack content; parts are for users and tools.
    match get(message, Field::Content).map(Json::json_type) {
        None if role != ASSISTANT && role != ACTIVITY => supplied.push((Field::Content, Json::EMPTY_STRING)),
        Some(JsonType::Number | JsonType::Bool) => {
            let text = get(message, Field::Content).map(|content| Json::string(content.as_str()));
            supplied.extend(text.map(|text| (Field::Content, text)));
        }
        _ => {}
    }
    if role == TOOL && get(message, Field::ToolCallId).is_none() {
        supplied.push((Field::ToolCallId, Json::EMPTY_STRING));
    }
    supplied.extend(get(message, Field::ToolCalls).and_then(repair_calls).map(|calls| (Field::ToolCalls, calls)));
    supplied.extend(get(message, Field::Content).and_then(strip_nulls).map(|parts| (Field::Content, parts)));
    changed |= !supplied.is_empty();
    for (field, value) in supplied {
        report.count_supplied_member(field.camel());
        set(message, MemberKey::Known(field), value);
    }
    nested_values::repair_object(message, &MESSAGES, report) || changed
}

/// Removes nulls, which are not allowed in optional members of parts and calls; returns `None` if there were none.
fn strip_nulls(list: &Json<'_>) -> Option<Json<'static>> {
    let mut changed = false;
    let mended: Option<Vec<_>> = json::parse_elements(list)?
        .iter()
        .map(|element| {
            let mut members = json::parse_members(element)?;
            let before = members.len();
            members.retain(|(_, value)| !value.is_null());
            changed |= members.len() != before;
            Some(json::to_object(&members))
        })
        .collect();
    mended.filter(|_| changed).map(|all| json::to_array(&all))
}

fn repair_calls(calls: &Json<'_>) -> Option<Json<'static>> {
    let clean = strip_nulls(calls);
    call_arguments::to_text(clean.as_ref().unwrap_or(calls)).map(|texts| texts.calls).or(clean)
}
