//! Enforces the list of allowed tools on requests and on agents' calls. Data is canonical here, so one rule covers
//! every dialect.
//!
//! ```text
//!   request ─▶ canonical input ── tools ──▶ refused, or on to the agent
//!   events  ─▶ run guard ── TOOL_CALL_START, the first chunk, calls in messages ──▶ the run is stopped, or on to the client
//! ```
//! A call is checked when it begins, so text, arguments and results cost nothing. The tool that the gateway uses to ask
//! a client's user ([`PeerDialect::is_interrupt_tool`]) is exempt: its calls are created after this check, and the
//! client may always offer it.

use super::request_refusal::{RequestRefusal, refuse};
use crate::codec::{json, repeated_keys};
use crate::dialect::PeerDialect;
use crate::event::input::MessageMembers;
use crate::event::{Event, EventType, Field, Json, JsonType, RunAgentInput, find_member, get};
use std::collections::HashSet;
use std::sync::Arc;

const NAME: &str = "name";
const FUNCTION: &str = "function";

const MAX_TOOL_NAME_LEN: usize = 64;

/// The only tools that may be offered and called.
#[derive(Debug)]
pub struct AllowedTools(HashSet<Box<str>>);

/// The id and tool name of each call in a conversation.
pub(super) type PriorCalls = HashSet<(Box<str>, Box<str>)>;

impl AllowedTools {
    /// Creates the list from tool names, compared exactly.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        AllowedTools(names.into_iter().map(Box::from).collect())
    }

    /// Returns the names, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    fn allows(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns a refusal for the first tool that is not allowed, or that an agent may read otherwise than this check.
    pub(super) fn find_refusal(&self, input: &RunAgentInput<'_>, client: PeerDialect) -> Option<RequestRefusal> {
        self.find_forbidden(input, client).or_else(|| find_ambiguity(input))
    }

    /// Returns a refusal for the first tool that is not allowed.
    fn find_forbidden(&self, input: &RunAgentInput<'_>, client: PeerDialect) -> Option<RequestRefusal> {
        let tools = get(&input.members, Field::Tools).and_then(json::parse_elements).unwrap_or_default();
        tools.iter().enumerate().find_map(|(at, tool)| {
            let place = format!("/{}/{at}", Field::Tools.camel());
            let Some(names) = tool_names(tool) else {
                return Some(RequestRefusal::forbidden_tool(
                    place,
                    "has no name, so it cannot be checked against the allowed tools",
                ));
            };
            let (path, name) =
                names.into_iter().find(|(_, name)| !self.allows(name) && !client.is_interrupt_tool(name))?;
            let reason = format!("the tool `{}` is not allowed on this route", printable_name(&name));
            Some(RequestRefusal::forbidden_tool(place + path, reason))
        })
    }
}

/// Returns a refusal for the first key that has two readings, in the tools or in the calls of a message.
fn find_ambiguity(input: &RunAgentInput<'_>) -> Option<RequestRefusal> {
    let tools = get(&input.members, Field::Tools).map(|list| (format!("/{}", Field::Tools.camel()), list));
    let calls = input.messages.iter().enumerate().filter_map(|(at, message)| {
        let place = format!("/{}/{at}/{}", Field::Messages.camel(), Field::ToolCalls.camel());
        get(message, Field::ToolCalls).map(|list| (place, list))
    });
    tools.into_iter().chain(calls).find_map(|(place, list)| {
        let reason = "occurs twice, so that agents may read different values; send each key once";
        let repeated = repeated_keys::find_repeated_key(list.as_str());
        if let Some(path) = repeated {
            return refuse::<()>(place + &path, reason).err();
        }
        let path = find_lookalike(list)?;
        let reason = "differs only in case from a key that is checked, and some agents ignore case";
        refuse::<()>(place + &path, reason).err()
    })
}

/// Returns the pointer to a key such as `Name`, which agents that ignore case (Go's encoding/json) read as `name`.
fn find_lookalike(list: &Json<'_>) -> Option<String> {
    let keys = [NAME, FUNCTION];
    let lookalike = |object: &Json<'_>| {
        let members = json::parse_members(object)?;
        let is_it = |key: &str| keys.iter().any(|own| key != *own && key.eq_ignore_ascii_case(own));
        members.iter().map(|(key, _)| key.name().to_owned()).find(|key| is_it(key))
    };
    json::parse_elements(list)?.iter().enumerate().find_map(|(at, element)| {
        let inner = json::parse_member(element, FUNCTION);
        let nested = || inner.as_ref().and_then(lookalike).map(|key| format!("/{at}/{FUNCTION}/{key}"));
        lookalike(element).map(|key| format!("/{at}/{key}")).or_else(nested)
    })
}

/// Returns the tool's names with their paths. Some clients nest one, `{"function": {"name": …}}`, and an agent may use
/// either.
fn tool_names(tool: &Json<'_>) -> Option<Vec<(&'static str, String)>> {
    let members = json::parse_members(tool)?;
    let inner = find_member(&members, FUNCTION).and_then(|function| json::parse_member(function, NAME));
    let outer = find_member(&members, NAME).map(|name| ("/name", name.text().map(String::from)));
    let inner = inner.map(|name| ("/function/name", name.text().map(String::from)));
    let names: Vec<_> = outer.into_iter().chain(inner).collect();
    // Ignores a name that is not a string.
    let names: Option<Vec<_>> = names.into_iter().map(|(path, name)| Some((path, name?))).collect();
    names.filter(|names| !names.is_empty())
}

pub(super) fn collect_calls(messages: &[MessageMembers<'_>]) -> PriorCalls {
    let mut made = PriorCalls::default();
    for message in messages {
        for call in get(message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
            if let (Some(id), Some(name)) = call_id_and_tool(&call) {
                made.insert((id.into(), name.into()));
            }
        }
    }
    made
}

fn call_id_and_tool(call: &Json<'_>) -> (Option<String>, Option<String>) {
    let text = |value: Json<'_>| value.text().map(String::from);
    let name = json::parse_member(call, FUNCTION).and_then(|function| json::parse_member(&function, NAME));
    (json::parse_member(call, Field::Id.camel()).and_then(text), name.and_then(text))
}

#[derive(Debug, Default)]
pub(super) struct ToolCallFilter {
    /// `None` allows every tool
    pub(crate) allowed: Option<Arc<AllowedTools>>,
    pub(crate) prior_calls: PriorCalls,
}

impl ToolCallFilter {
    /// Returns the forbidden tool that the event calls, truncated for error messages.
    pub(crate) fn find_forbidden_call(&self, event: &Event<'_>) -> Option<String> {
        let tools = self.allowed.as_deref()?;
        let name = |event: &Event<'_>| Some(event.text(Field::ToolCallName).unwrap_or_default().into_owned());
        let called = match event.kind {
            // A new call is checked even if the conversation already has one with its id.
            EventType::ToolCallStart => name(event),
            EventType::ToolCallChunk if event.get(Field::ToolCallName).is_some() => name(event),
            EventType::MessagesSnapshot => self.find_in_messages(tools, event.get(Field::Messages)),
            // "The echo of the input": the client adopts its messages.
            EventType::RunStarted => {
                let input = event.get(Field::Input).and_then(json::parse_message);
                self.find_in_messages(tools, input.as_ref().and_then(|input| get(input, Field::Messages)))
            }
            // `write` unwraps this event for a client whose dialect lacks the type.
            EventType::Custom => unwrap_custom(event).and_then(|inner| self.find_forbidden_call(&inner)),
            _ => None,
        };
        called.filter(|name| !tools.allows(name)).map(|name| printable_name(&name))
    }

    fn find_in_messages(&self, tools: &AllowedTools, messages: Option<&Json<'_>>) -> Option<String> {
        let is_strange = |call: &Json<'_>| {
            let (id, name) = call_id_and_tool(call);
            let name = name.unwrap_or_default();
            let known = id.is_some_and(|id| self.prior_calls.contains(&(id.into(), name.as_str().into())));
            (!known && !tools.allows(&name)).then_some(name)
        };
        json::parse_elements(messages?).unwrap_or_default().iter().find_map(|message| {
            // Unparsable messages cannot be checked, so they are not admitted.
            let Some(members) = json::parse_members(message) else {
                return (message.json_type() == JsonType::Object).then(String::new);
            };
            // Checks every spelling that a client may use.
            let lists = members.iter().filter(|(key, value)| {
                let named = [Field::ToolCalls.camel(), Field::ToolCalls.snake()];
                named.iter().any(|name| super::carry::is_named(key, name)) && value.json_type() == JsonType::Array
            });
            lists
                .flat_map(|(_, list)| json::parse_elements(list).unwrap_or_default())
                .find_map(|call| is_strange(&call))
        })
    }
}

/// Returns the original event if it was wrapped in a CUSTOM event `<dialect>.<TYPE>`.
fn unwrap_custom<'a>(event: &'a Event<'_>) -> Option<Event<'a>> {
    let name = event.text(Field::Name)?;
    let object = event.get(Field::Value).and_then(|value| json::parse_object(value.as_str()).ok())?;
    let kind =
        EventType::from_wire(&object.kind.as_ref().and_then(Json::text)?).filter(|kind| *kind != EventType::Custom)?;
    name.contains('.').then(|| Event { members: object.members, ..Event::new(kind) })
}

fn printable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_TOOL_NAME_LEN).collect()
}
