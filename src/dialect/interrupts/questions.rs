//! Interrupts at the end of an agent's run, as calls of the client's tools or as questions in text.

use super::reserved_ids::prefix_id;
use super::{ID, PREFIX};
use crate::codec::json;
use crate::dialect::interrupt_form::{InterruptForm, InterruptTools};
use crate::dialect::table::PeerDialect;
use crate::event::input::INTERRUPTS;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member, into_owned_members};
use std::borrow::Cow;

const REASON: &str = "reason";
const MESSAGE: &str = "message";
const RESPONSE_SCHEMA: &str = "responseSchema";
const CALL_ARGUMENTS: [&str; 3] = [REASON, MESSAGE, RESPONSE_SCHEMA];

/// Maximum questions of a run; the outcome carries all interrupts.
const MAX_QUESTIONS: usize = 256;

/// The reason of an interrupt that asks for input. AG-UI names two others, `tool_call` and `confirmation`; an agent's
/// own reasons are a guess by their words.
const INPUT_REQUIRED: &str = "input_required";
const CONFIRMATION_REASONS: [&str; 3] = ["tool_call", "confirm", "approv"];

/// Of a response schema, which is a JSON Schema.
const ENUM: &str = "enum";
const PROPERTIES: &str = "properties";
const BOOLEAN: &str = "boolean";
const INPUT_TYPES: &[&str] = &["string", "number", "integer", "array"];

/// The `confirmAction` argument that describes the action (`seeds/001`, 示例：确认工具定义).
const ACTION: &str = "action";
/// The `request_input` argument with the question (`seeds/003`, 用户输入).
const PROMPT: &str = "prompt";

/// An interrupt that the client's user has to see.
#[derive(Debug)]
pub(crate) struct PendingInterrupt {
    /// of the call or message that represents it
    pub(crate) item_id: Json<'static>,
    members: Members<'static>,
}

impl PendingInterrupt {
    fn new(interrupt: &Json<'_>) -> Option<Self> {
        let members = into_owned_members(json::parse_members(interrupt)?);
        let id = find_member(&members, ID).filter(|id| id.json_type() == JsonType::String)?;
        let item_id = Json::from_trusted(format!("\"{PREFIX}{}", &id.as_str()[1..]));
        Some(PendingInterrupt { item_id, members })
    }

    /// Returns the text for the user: the message or, without one, the reason.
    pub(crate) fn question(&self) -> Option<&Json<'static>> {
        find_member(&self.members, MESSAGE).or_else(|| find_member(&self.members, REASON))
    }

    /// Returns true if the answer is more than a confirmation. The response schema decides, and where it leaves both
    /// open, the reason.
    fn requires_input(&self) -> bool {
        let schema = find_member(&self.members, RESPONSE_SCHEMA);
        let is_choice = schema.is_some_and(|schema| json::parse_member(schema, ENUM).is_some());
        let properties = schema.and_then(|schema| json::parse_member(schema, PROPERTIES));
        let fields = properties.as_ref().and_then(json::parse_members).unwrap_or_default();
        if schema.is_some_and(|schema| has_schema_type(schema, &[BOOLEAN])) {
            return false;
        }
        let reason = find_member(&self.members, REASON).and_then(Json::text).unwrap_or_default();
        if reason == INPUT_REQUIRED || is_choice || schema.is_some_and(|schema| has_schema_type(schema, INPUT_TYPES)) {
            return true;
        }
        let is_confirmation = find_member(&self.members, Field::ToolCallId.camel()).is_some()
            || CONFIRMATION_REASONS.iter().any(|word| reason.contains(word));
        let has_text = fields.iter().any(|(_, field)| !has_schema_type(field, &[BOOLEAN]));
        !is_confirmation && (fields.is_empty() || has_text)
    }

    fn call_arguments(&self, text_argument: &str) -> Json<'static> {
        json::build_object(|object| {
            if let Some(question) = self.question() {
                object.member(text_argument, question.as_str());
            }
            for name in CALL_ARGUMENTS {
                find_member(&self.members, name).into_iter().for_each(|value| object.member(name, value.as_str()));
            }
            if let Some(call) = find_member(&self.members, Field::ToolCallId.camel()) {
                let id = prefix_id(call);
                object.member(Field::ToolCallId.camel(), id.as_ref().unwrap_or(call).as_str());
            }
        })
    }
}

/// Returns true if a JSON Schema admits one of these types.
fn has_schema_type(schema: &Json<'_>, types: &[&str]) -> bool {
    let Some(own) = json::parse_member(schema, json::TYPE) else { return false };
    let several = json::parse_elements(&own).unwrap_or_default();
    types.iter().any(|kind| own.is_str(kind) || several.iter().any(|one| one.is_str(kind)))
}

/// Returns the interrupts of a run, and carries its outcome on the event.
pub(crate) fn take_interrupts(finish: &mut Event<'_>) -> Vec<PendingInterrupt> {
    let list = finish.get(Field::Outcome).and_then(|outcome| json::parse_member(outcome, INTERRUPTS));
    let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
    let interrupts: Vec<_> = elements.iter().take(MAX_QUESTIONS).filter_map(PendingInterrupt::new).collect();
    if !interrupts.is_empty()
        && let Some(outcome) = finish.remove(Field::Outcome)
    {
        // Not a member of the event in any of these dialects.
        finish.members.push((MemberKey::Other(Cow::Borrowed(Field::Outcome.camel())), outcome));
    }
    interrupts
}

/// Returns the start, arguments and end of a call for each interrupt, if the peer's user is asked by a tool. The calls
/// after the first name its message, so that a client has all questions of a run in one message, whatever the order of
/// the answers.
pub(crate) fn write_calls(finish: &mut Event<'_>, peer: &PeerDialect) -> Vec<Event<'static>> {
    let Some(InterruptForm::ToolCall(tools)) = peer.interrupt_form() else { return Vec::new() };
    if finish.kind != EventType::RunFinished {
        return Vec::new();
    }
    let interrupts = take_interrupts(finish);
    let parents = std::iter::once(None).chain(std::iter::repeat(interrupts.first().map(|first| &first.item_id)));
    interrupts.iter().zip(parents).flat_map(|(interrupt, parent)| call_of(interrupt, parent, tools, peer)).collect()
}

fn call_of(
    interrupt: &PendingInterrupt,
    parent: Option<&Json<'static>>,
    tools: InterruptTools,
    peer: &PeerDialect,
) -> [Event<'static>; 3] {
    let input_tool = tools.input.filter(|_| interrupt.requires_input());
    let text_argument = if input_tool.is_some() { PROMPT } else { ACTION };
    let arguments = interrupt.call_arguments(text_argument);
    let name = match input_tool.filter(|_| peer.has_default_tool(tools)) {
        Some(input) => Json::string(input),
        None => Json::string(peer.interrupt_tool.as_str()),
    };
    let event = |kind| Event::new(kind).with(Field::ToolCallId, interrupt.item_id.clone());
    let mut start = event(EventType::ToolCallStart).with(Field::ToolCallName, name);
    parent.into_iter().for_each(|parent| start.set(Field::ParentMessageId, parent.clone()));
    [
        start,
        event(EventType::ToolCallArgs).with(Field::Delta, Json::string(arguments.as_str())),
        event(EventType::ToolCallEnd),
    ]
}
