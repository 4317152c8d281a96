//! Makes a request valid AG-UI: `ag_ui.core` (Python) answers 422 for one value of the wrong type at any depth
//! (`specs/ag-ui-1.0.md` §6). Forms that only the client's dialect has are restored from notes for an agent of that
//! dialect.
//!
//! A value with one obvious reading is converted: JSON in place of text becomes its text. What has none is refused
//! here, where the client learns its place.

use super::call_arguments::{ARGUMENTS, FUNCTION, edit_calls};
use super::carry_policy::CarryPolicy;
use super::report::TranslationReport;
use super::request_refusal::{RequestRefusal, refuse};
use super::{carry, content_parts, message_repair, nested_values};
use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::event::input::{ACTIVITY, INTERRUPT_ID, MessageMembers, RESUME_STATUSES, STATUS, TOOL, USER};
use crate::event::{Field, Json, JsonType, MemberKey, Members, RunAgentInput, find_member, get, set};

/// The `description` of a context entry that has none.
const CONTEXT_DESCRIPTION: &str = "context";

/// Members that say what a context entry without a `description` is.
const CONTEXT_NAMES: [&str; 2] = [NAME, "key"];

const NAME: &str = "name";
const PARAMETERS: &str = "parameters";

/// The members of a call that name its tool, and those that hold its arguments, if it has no `function`.
const CALL_NAMES: [&str; 2] = [NAME, Field::ToolCallName.camel()];
const CALL_ARGUMENTS: [&str; 2] = [ARGUMENTS, "args"];
const METADATA: &str = Field::Metadata.camel();

/// Converts the values that AG-UI's types do not allow; returns the number of members that an older agent cannot get.
///
/// # Errors
/// Fails if `tools`, `context` or `resume` is not an array, if `parentRunId` is neither a string nor a number, or if a
/// tool or an answer to an interrupt has no valid form.
pub(super) fn repair_input(input: &mut RunAgentInput<'_>, agent: PeerDialect) -> Result<u64, RequestRefusal> {
    let mut report = TranslationReport::default();
    for message in &mut input.messages {
        let mut owned = crate::event::into_owned_members(std::mem::take(message));
        repair_message(&mut owned, &mut report);
        *message = owned;
    }
    let members = &mut input.members;
    repair_list(members, Field::Tools, |tool, place| repair_tool(tool, place, agent))?;
    repair_list(members, Field::Context, |entry, _| Ok(repair_context(entry)))?;
    repair_list(members, Field::Resume, check_answer)?;
    match get(members, Field::ParentRunId).map(|id| (id.json_type(), Json::string(id.as_str()))) {
        None | Some((JsonType::String, _)) => {}
        Some((JsonType::Number, id)) => set(members, MemberKey::Known(Field::ParentRunId), id),
        Some(_) => return refuse(format!("/{}", Field::ParentRunId.camel()), "must be a string"),
    }
    Ok(remove_later_members(input, agent))
}

/// Removes members that older agents refuse: Python 0.1.8 and older take none that they do not know (measured).
fn remove_later_members(input: &mut RunAgentInput<'_>, agent: PeerDialect) -> u64 {
    if CarryPolicy::for_request(agent).allows_carrying() {
        return 0;
    }
    let mut lost = 0;
    let mut retain = |members: &mut Members<'_>, field: Field, known: &[&str]| {
        if let Some(list) = get(members, field).and_then(|list| retain_members(list, known, &mut lost)) {
            set(members, MemberKey::Known(field), list);
        }
    };
    retain(&mut input.members, Field::Tools, &[NAME, Field::Description.camel(), PARAMETERS]);
    retain(&mut input.members, Field::Context, &[Field::Description.camel(), Field::Value.camel()]);
    for message in &mut input.messages {
        retain(message, Field::ToolCalls, &[Field::Id.camel(), json::TYPE, FUNCTION]);
    }
    lost
}

/// Removes the unknown members of each element; returns `None` if there are none.
fn retain_members(list: &Json<'_>, known: &[&str], lost: &mut u64) -> Option<Json<'static>> {
    let mut left = Vec::new();
    let before = *lost;
    for element in json::parse_elements(list)? {
        let mut members = json::parse_owned_members(&element)?;
        let count = members.len();
        members.retain(|(key, _)| known.contains(&key.name()));
        *lost += (count - members.len()) as u64;
        left.push(json::to_object(&members));
    }
    (*lost > before).then(|| json::to_array(&left))
}

fn repair_message(message: &mut MessageMembers<'static>, report: &mut TranslationReport) {
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default().into_owned();
    if let Some(content) = get(message, Field::Content).and_then(|content| repair_content(content, &role)) {
        set(message, MemberKey::Known(Field::Content), content);
    }
    if let Some(calls) = get(message, Field::ToolCalls).and_then(|calls| edit_calls(calls, |_, call| repair_call(call)))
    {
        set(message, MemberKey::Known(Field::ToolCalls), calls);
    }
    message_repair::repair_message(message, 0, report);
}

/// Returns the content that a message of this role may have; `None` if it has it already.
fn repair_content(content: &Json<'_>, role: &str) -> Option<Json<'static>> {
    match (role, content.json_type()) {
        (ACTIVITY, JsonType::Object) => None,
        (ACTIVITY, _) => Some(json::build_object(|object| object.member(Field::Value.camel(), content.as_str()))),
        (_, JsonType::String) => None,
        (TOOL | USER, JsonType::Array) => repair_parts(content, role == TOOL),
        (_, JsonType::Array) if content_parts::is_parts(content) => {
            Some(Json::string(&content_parts::joined_text(content)))
        }
        (_, JsonType::Array) if json::parse_elements(content).is_some_and(|list| list.is_empty()) => {
            Some(Json::EMPTY_STRING)
        }
        _ => Some(Json::string(content.as_str())),
    }
}

/// Replaces what is no content part with its text. A tool's result without any part is a value of its own.
fn repair_parts(list: &Json<'_>, is_result: bool) -> Option<Json<'static>> {
    let elements = json::parse_elements(list)?;
    let parts: Vec<Option<Json<'static>>> = elements.iter().map(read_part).collect();
    if is_result && parts.iter().all(Option::is_none) {
        return Some(Json::string(list.as_str()));
    }
    let is_same =
        |(element, part): (&Json<'_>, &Option<Json<'_>>)| part.as_ref().is_some_and(|part| part.is_same(element));
    if elements.iter().zip(&parts).all(is_same) {
        return None;
    }
    let parts = elements.iter().zip(parts);
    let parts: Vec<_> =
        parts.map(|(element, part)| part.unwrap_or_else(|| nested_values::to_text_part(element))).collect();
    Some(json::to_array(&parts))
}

/// Returns a content part without its null members; `None` for any other value.
fn read_part(element: &Json<'_>) -> Option<Json<'static>> {
    if nested_values::is_part(element) {
        return Some(element.clone().into_owned());
    }
    let mut members = json::parse_members(element)?;
    members.retain(|(_, value)| !value.is_null());
    Some(json::to_object(&members)).filter(nested_values::is_part)
}

/// Gives a call its `function`, and arguments of an empty object if it has none, since they are the text of one.
fn repair_call(call: &Json<'_>) -> Option<Json<'static>> {
    let mut members = json::parse_owned_members(call)?;
    if find_member(&members, FUNCTION).is_none() {
        return nest_function(members);
    }
    let mut function = json::parse_owned_members(find_member(&members, FUNCTION)?)?;
    if find_member(&function, ARGUMENTS).is_some_and(|arguments| !arguments.is_null()) {
        return None;
    }
    set(&mut function, carry::extension_key(ARGUMENTS), Json::string("{}"));
    set(&mut members, carry::extension_key(FUNCTION), json::to_object(&function));
    Some(json::to_object(&members))
}

/// Nests the name and the arguments of a call that has them beside its id, under AG-UI's names or those of a call's
/// events.
fn nest_function(mut members: Members<'static>) -> Option<Json<'static>> {
    let is_name = |value: &Json<'_>| value.json_type() == JsonType::String;
    let name = CALL_NAMES.iter().find_map(|name| find_member(&members, name)).filter(|name| is_name(name))?.clone();
    let arguments = CALL_ARGUMENTS.iter().find_map(|name| find_member(&members, name)).filter(|value| !value.is_null());
    let arguments = arguments.map_or_else(|| Json::string("{}"), Json::to_string_value);
    let id =
        find_member(&members, Field::Id.camel()).or_else(|| find_member(&members, Field::ToolCallId.camel())).cloned();
    let nested = [Field::Id.camel(), Field::ToolCallId.camel()];
    let nested: Vec<&str> = nested.iter().chain(&CALL_NAMES).chain(&CALL_ARGUMENTS).copied().collect();
    members.retain(|(key, _)| !nested.contains(&key.name()));
    let function = json::build_object(|object| {
        object.member(NAME, name.as_str());
        object.member(ARGUMENTS, arguments.as_str());
    });
    set(&mut members, carry::extension_key(json::TYPE), Json::string(FUNCTION));
    set(&mut members, carry::extension_key(FUNCTION), function);
    if let Some(id) = id {
        members.insert(0, (MemberKey::Known(Field::Id), id));
    }
    Some(json::to_object(&members))
}

type RepairedElement = Result<Option<Json<'static>>, RequestRefusal>;

/// Applies `repair`, which returns `None` for an element that stays, to the elements of a list.
fn repair_list(
    members: &mut Members<'_>,
    field: Field,
    repair: impl Fn(&Json<'_>, &str) -> RepairedElement,
) -> Result<(), RequestRefusal> {
    let Some(list) = get(members, field).cloned() else { return Ok(()) };
    let Some(elements) = json::parse_elements(&list) else {
        return refuse(format!("/{}", field.camel()), "must be an array");
    };
    let mut is_changed = false;
    let mut repaired = Vec::with_capacity(elements.len());
    for (at, element) in elements.iter().enumerate() {
        let new = repair(element, &format!("/{}/{at}", field.camel()))?;
        is_changed |= new.is_some();
        repaired.push(new.unwrap_or_else(|| element.clone().into_owned()));
    }
    if is_changed {
        set(members, MemberKey::Known(field), json::to_array(&repaired));
    }
    Ok(())
}

/// Gives a tool the form `{name, description, parameters}` (seed 001, 工具定义), of which 1.0 does not require the last.
fn repair_tool(tool: &Json<'_>, place: &str, agent: PeerDialect) -> RepairedElement {
    let Some(mut members) = json::parse_owned_members(tool) else { return refuse(place, "must be an object") };
    let count = members.len();
    members.retain(|(_, value)| !value.is_null());
    let mut is_changed = members.len() != count;
    if find_member(&members, NAME).is_none() {
        is_changed |= lift_function(&mut members);
    }
    for (name, default) in [(NAME, None), (Field::Description.camel(), Some(""))] {
        let text = match (find_member(&members, name), default) {
            (Some(value), _) if value.json_type() == JsonType::String => continue,
            (Some(value), _) if !matches!(value.json_type(), JsonType::Object | JsonType::Array) => {
                Json::string(value.as_str())
            }
            (None, Some(default)) => Json::string(default),
            (Some(_), _) => return refuse(format!("{place}/{name}"), "must be a string"),
            (None, None) => return refuse(format!("{place}/{name}"), "is missing; every tool needs a name"),
        };
        is_changed = true;
        set_named(&mut members, name, text);
    }
    if agent.dialect.is_versioned() && find_member(&members, PARAMETERS).is_none() {
        is_changed = true;
        members.push((carry::extension_key(PARAMETERS), Json::from_trusted("{}")));
    }
    check_metadata(&members, place)?;
    Ok(is_changed.then(|| json::to_object(&members)))
}

/// Moves up the members of `function`, in which the chat APIs of model providers nest a tool.
fn lift_function(members: &mut Members<'static>) -> bool {
    let Some(function) = find_member(members, FUNCTION).and_then(json::parse_owned_members) else { return false };
    carry::take(members, FUNCTION);
    carry::take(members, json::TYPE);
    let outer = std::mem::replace(members, function);
    for (key, value) in outer {
        if find_member(members, key.name()).is_none() {
            members.push((key, value));
        }
    }
    // The gate has not looked at another level, which some agents read.
    while carry::take(members, FUNCTION).is_some() {}
    members.retain(|(_, value)| !value.is_null());
    true
}

fn set_named(members: &mut Members<'static>, name: &'static str, value: Json<'static>) {
    match members.iter_mut().find(|(key, _)| carry::is_named(key, name)) {
        Some((_, old)) => *old = value,
        None => members.push((carry::extension_key(name), value)),
    }
}

/// Gives a context entry the form `{description, value}`, both text (seed 001, 上下文定义).
fn repair_context(entry: &Json<'_>) -> Option<Json<'static>> {
    let members = json::parse_owned_members(entry);
    let value = members.as_ref().and_then(|members| find_member(members, Field::Value.camel())).cloned();
    let Some((mut members, value)) = members.zip(value) else {
        return Some(json::build_object(|object| {
            object.string_member(Field::Description.camel(), CONTEXT_DESCRIPTION);
            object.member(Field::Value.camel(), entry.to_string_value().as_str());
        }));
    };
    let description = find_member(&members, Field::Description.camel()).filter(|text| !text.is_null()).cloned();
    let is_text = |text: &Json<'_>| text.json_type() == JsonType::String;
    if is_text(&value) && description.as_ref().is_some_and(is_text) {
        return None;
    }
    let name = CONTEXT_NAMES.iter().find_map(|name| find_member(&members, name));
    let description = description.as_ref().or(name.filter(|name| is_text(name)));
    let description = description.map_or_else(|| Json::string(CONTEXT_DESCRIPTION), Json::to_string_value);
    set_named(&mut members, Field::Description.camel(), description);
    set_named(&mut members, Field::Value.camel(), value.to_string_value());
    Some(json::to_object(&members))
}

/// Converts a context that is no list; `None` if it has no entries.
pub(super) fn convert_context(context: &Json<'_>) -> Option<Json<'static>> {
    match context.json_type() {
        JsonType::String => Some(context_from_text(context)),
        JsonType::Object => context_from_object(context),
        _ => None,
    }
}

/// Converts a context string: a JSON list is used as is; any other text becomes the only entry.
fn context_from_text(context: &Json<'_>) -> Json<'static> {
    let text = context.text().unwrap_or_default();
    if text.trim().is_empty() {
        return Json::from_trusted("[]");
    }
    if let Some(list) = json::parse_value(&text).filter(|value| value.json_type() == JsonType::Array) {
        return list.into_owned();
    }
    let entry = json::build_object(|object| {
        object.member(Field::Description.camel(), Json::string(CONTEXT_DESCRIPTION).as_str());
        object.member(Field::Value.camel(), context.as_str());
    });
    json::to_array(&[entry])
}

/// Converts a context object ("传递用户环境信息", seed 000 §3.3.1): an entry is used as is, the members of any other object
/// become entries.
fn context_from_object(context: &Json<'_>) -> Option<Json<'static>> {
    let members = json::parse_members(context)?;
    let description = Field::Description.camel();
    if members.len() == 2
        && [description, Field::Value.camel()].iter().all(|name| find_member(&members, name).is_some())
    {
        return Some(json::to_array(&[context.as_borrowed()]));
    }
    let entry = |(key, value): &(MemberKey<'_>, Json<'_>)| {
        json::build_object(|object| {
            object.member(description, Json::string(key.name()).as_str());
            object.member(Field::Value.camel(), value.to_string_value().as_str());
        })
    };
    Some(json::to_array(&members.iter().map(entry).collect::<Vec<_>>()))
}

fn check_answer(entry: &Json<'_>, place: &str) -> RepairedElement {
    let Some(members) = json::parse_members(entry) else { return refuse(place, "must be an object") };
    if !find_member(&members, INTERRUPT_ID).is_some_and(|id| id.json_type() == JsonType::String) {
        return refuse(format!("{place}/{INTERRUPT_ID}"), "must be a string");
    }
    if !find_member(&members, STATUS).is_some_and(|status| RESUME_STATUSES.iter().any(|known| status.is_str(known))) {
        return refuse(format!("{place}/{STATUS}"), format!("must be one of {}", RESUME_STATUSES.join(", ")));
    }
    check_metadata(&members, place)?;
    Ok(None)
}

fn check_metadata(members: &Members<'_>, place: &str) -> Result<(), RequestRefusal> {
    match find_member(members, METADATA).map(Json::json_type) {
        None | Some(JsonType::Object | JsonType::Null) => Ok(()),
        Some(_) => refuse(format!("{place}/{METADATA}"), "must be an object"),
    }
}
