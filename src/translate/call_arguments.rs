//! Arguments of the tool calls in messages: text in AG-UI (`arguments: string`, seed 001), an object for some peers of
//! the other dialects, which get back the form that they sent.

use super::carry;
use crate::codec::json;
use crate::event::input::MessageMembers;
use crate::event::{Field, Json, JsonType, MemberKey, Members, find_member, get, set};
use std::collections::HashSet;

pub(super) const FUNCTION: &str = "function";
pub(super) const ARGUMENTS: &str = "arguments";

/// Lists the positions of the calls whose arguments were not text.
const ARGUMENTS_NOTE: &str = "$args";

/// Calls with arguments as text, and the positions of those that changed.
pub(super) struct TextCalls {
    pub(crate) calls: Json<'static>,
    positions: Vec<usize>,
}

/// Replaces arguments that are not text with their JSON text; returns `None` if there are none.
pub(super) fn to_text(calls: &Json<'_>) -> Option<TextCalls> {
    let mut positions = Vec::new();
    let calls = edit_calls(calls, |at, call| {
        edit_call(call, |arguments| {
            let is_text = matches!(arguments.json_type(), JsonType::String | JsonType::Null);
            let text = (!is_text).then(|| Json::string(arguments.as_str()))?;
            positions.push(at);
            Some(text)
        })
    })?;
    Some(TextCalls { calls, positions })
}

/// Replaces arguments with their text, and notes which.
pub(super) fn read(message: &mut MessageMembers<'_>, own: &mut Members<'_>) {
    if let Some(TextCalls { calls, positions }) = get(message, Field::ToolCalls).and_then(to_text) {
        set(message, MemberKey::Known(Field::ToolCalls), calls);
        let positions: Vec<_> = positions.iter().map(|at| Json::from_trusted(at.to_string())).collect();
        own.push((carry::extension_key(ARGUMENTS_NOTE), json::to_array(&positions)));
    }
}

/// Restores arguments from their text. Notes come back from clients, so they are checked like other external input.
pub(super) fn write(message: &mut MessageMembers<'_>, own: &mut Members<'_>) {
    let Some(note) = carry::take(own, ARGUMENTS_NOTE) else { return };
    let positions = json::parse_elements(&note).unwrap_or_default();
    let positions: HashSet<&str> = positions.iter().map(Json::as_str).collect();
    let calls = get(message, Field::ToolCalls).and_then(|calls| {
        edit_calls(calls, |at, call| {
            positions.get(&*at.to_string())?;
            edit_call(call, |arguments| json::parse_value(&arguments.text()?).map(Json::into_owned))
        })
    });
    if let Some(calls) = calls {
        set(message, MemberKey::Known(Field::ToolCalls), calls);
    }
}

/// Applies `edit` to the arguments of each call; returns `None` if it changed none.
/// Applies `edit` to each call; returns `None` if it changed none.
pub(super) fn edit_calls(
    calls: &Json<'_>,
    mut edit: impl FnMut(usize, &Json<'_>) -> Option<Json<'static>>,
) -> Option<Json<'static>> {
    let mut is_changed = false;
    let mut edited = Vec::new();
    for (at, call) in json::parse_elements(calls)?.into_iter().enumerate() {
        let new = edit(at, &call);
        is_changed |= new.is_some();
        edited.push(new.unwrap_or_else(|| call.into_owned()));
    }
    is_changed.then(|| json::to_array(&edited))
}

fn edit_call(call: &Json<'_>, edit: impl FnOnce(&Json<'_>) -> Option<Json<'static>>) -> Option<Json<'static>> {
    let mut members = json::parse_owned_members(call)?;
    let mut function = json::parse_owned_members(find_member(&members, FUNCTION)?)?;
    let (_, arguments) = function.iter_mut().find(|(key, _)| carry::is_named(key, ARGUMENTS))?;
    *arguments = edit(arguments)?;
    let function = json::to_object(&function);
    members.iter_mut().find(|(key, _)| carry::is_named(key, FUNCTION))?.1 = function;
    Some(json::to_object(&members))
}
