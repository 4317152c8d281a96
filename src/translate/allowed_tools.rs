//! Which tools may be used: those that a request offers and those that an agent calls, looked at on the canonical side, so
//! that one rule holds in every dialect.
//!
//! ```text
//!   request ─▶ canonical input ── tools ──▶ refused, or on to the agent
//!   events  ─▶ run guard ── TOOL_CALL_START, the first chunk, calls in messages ──▶ the run is stopped, or on to the client
//! ```
//! A call is looked at when it begins. Text, arguments and results cost nothing, and a route without a list costs nothing.
//! What the gateway itself asks a client's user by ([`Side::asks_by`]) is no call of the agent's: it becomes one behind this
//! place, and such a client may always offer that tool.

use super::request::Refused;
use crate::codec::json;
use crate::dialect::Side;
use crate::event::input::Message;
use crate::event::{Event, Field, Json, Key, Kind, RunInput, Type, get};
use std::collections::HashSet;
use std::sync::Arc;

/// Members of a tool and of a call.
const NAME: &str = "name";
const FUNCTION: &str = "function";

/// Longest name of a tool that an error repeats, in characters.
const SHOWN: usize = 64;

/// The only tools that may be offered and called.
#[derive(Debug)]
pub struct Tools(HashSet<Box<str>>);

/// The calls that a conversation holds already: id and tool.
pub(super) type Made = HashSet<(Box<str>, Box<str>)>;

impl Tools {
    /// The tools of these names, compared exactly.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Tools(names.into_iter().map(Box::from).collect())
    }

    fn allows(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The first tool of a request that may not be offered by this client.
    pub(super) fn refuse(&self, input: &RunInput<'_>, client: Side) -> Option<Refused> {
        let tools = get(&input.members, Field::Tools).and_then(json::elements).unwrap_or_default();
        tools.iter().enumerate().find_map(|(at, tool)| {
            let place = format!("/{}/{at}", Field::Tools.camel());
            let Some(names) = names(tool) else {
                return Some(Refused::tool(place, "has no name, so nobody can say whether it is allowed"));
            };
            let (path, name) =
                names.into_iter().find(|(_, name)| !self.allows(name) && client.asks_by() != Some(name))?;
            let reason = format!("the tool `{}` is not allowed on this route", shown(&name));
            Some(Refused::tool(place + path, reason))
        })
    }
}

/// What a tool is called, and where that stands. Some clients send the form of model providers, `{"function": {"name": …}}`;
/// which of two names an agent would take nobody knows, so both count. `None` where there is none.
fn names(tool: &Json<'_>) -> Option<Vec<(&'static str, String)>> {
    let members = json::members(tool)?;
    let inner = member(&members, FUNCTION).and_then(json::members);
    let outer = member(&members, NAME).map(|name| ("/name", name.text().map(String::from)));
    let inner = inner.as_ref().and_then(|inner| member(inner, NAME));
    let inner = inner.map(|name| ("/function/name", name.text().map(String::from)));
    let names: Vec<_> = outer.into_iter().chain(inner).collect();
    // A name that is no text is none.
    let names: Option<Vec<_>> = names.into_iter().map(|(path, name)| Some((path, name?))).collect();
    names.filter(|names| !names.is_empty())
}

fn member<'m, 'a>(members: &'m [(Key<'a>, Json<'a>)], name: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|(key, _)| super::carry::is_named(key, name)).map(|(_, value)| value)
}

/// The calls that these messages hold.
pub(super) fn made(messages: &[Message<'_>]) -> Made {
    let mut made = Made::default();
    for message in messages {
        for call in get(message, Field::ToolCalls).and_then(json::elements).unwrap_or_default() {
            if let (Some(id), Some(name)) = called(&call) {
                made.insert((id.into(), name.into()));
            }
        }
    }
    made
}

/// Id and tool of a call that stands in a message.
fn called(call: &Json<'_>) -> (Option<String>, Option<String>) {
    let Some(members) = json::members(call) else { return (None, None) };
    let text = |value: &Json<'_>| value.text().map(String::from);
    let function = member(&members, FUNCTION).and_then(json::members);
    let name = function.as_ref().and_then(|function| member(function, NAME)).and_then(text);
    (get(&members, Field::Id).and_then(text), name)
}

/// Watches over the calls of a run.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// none: any tool may be called
    tools: Option<Arc<Tools>>,
    made: Made,
    stranger: Option<String>,
    stopped: bool,
}

impl Watch {
    /// Allows these alone.
    pub fn allow(&mut self, tools: Option<Arc<Tools>>) {
        self.tools = tools;
    }

    /// What the conversation holds already.
    pub fn know(&mut self, made: Made) {
        self.made = made;
    }

    /// The tool that was called and may not be, as far as an error may repeat it.
    pub fn stranger(&self) -> Option<&str> {
        self.stranger.as_deref()
    }

    /// Whether a call has stopped the run: nothing of the agent's leaves any more.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The gateway has said so.
    pub fn said(&mut self) {
        self.stopped = false;
    }

    /// Whether an event may leave.
    pub fn passes(&mut self, event: &Event<'_>) -> bool {
        if self.stopped {
            return false;
        }
        let Some(tools) = self.tools.as_deref() else { return true };
        let name = |event: &Event<'_>| Some(event.text(Field::ToolCallName).unwrap_or_default().into_owned());
        let called = match event.kind {
            // A call that is begun is made now, whatever the conversation holds.
            Kind::ToolCallStart => name(event),
            Kind::ToolCallChunk if event.get(Field::ToolCallName).is_some() => name(event),
            Kind::MessagesSnapshot => return self.tells(event.get(Field::Messages)),
            // "The echo of the input": the client takes its messages over.
            Kind::RunStarted => {
                let input = event.get(Field::Input).and_then(json::message);
                return self.tells(input.as_ref().and_then(|input| get(input, Field::Messages)));
            }
            // A client of a dialect that does not know the type gets the event as what it was (`write`).
            Kind::Custom => return wrapped(event).is_none_or(|inner| self.passes(&inner)),
            _ => None,
        };
        let stranger = called.filter(|name| !tools.allows(name));
        self.stop(stranger)
    }

    /// Whether messages that the client stores hold known calls and allowed ones alone.
    fn tells(&mut self, messages: Option<&Json<'_>>) -> bool {
        let (Some(tools), Some(messages)) = (&self.tools, messages) else { return true };
        let is_strange = |call: &Json<'_>| {
            let (id, name) = called(call);
            let name = name.unwrap_or_default();
            let known = id.is_some_and(|id| self.made.contains(&(id.into(), name.as_str().into())));
            (!known && !tools.allows(&name)).then_some(name)
        };
        let stranger = json::elements(messages).unwrap_or_default().iter().find_map(|message| {
            // What cannot be taken apart cannot be cleared either.
            let Some(members) = json::members(message) else {
                return (message.shape() == Type::Object).then(String::new);
            };
            // Whichever spelling a client goes by.
            let lists = members.iter().filter(|(key, value)| {
                let named = [Field::ToolCalls.camel(), Field::ToolCalls.snake()];
                named.iter().any(|name| super::carry::is_named(key, name)) && value.shape() == Type::Array
            });
            lists.flat_map(|(_, list)| json::elements(list).unwrap_or_default()).find_map(|call| is_strange(&call))
        });
        self.stop(stranger)
    }

    fn stop(&mut self, stranger: Option<String>) -> bool {
        self.stopped = stranger.is_some();
        self.stranger = stranger.map(|name| shown(&name));
        !self.stopped
    }
}

/// The event that a CUSTOM event `<dialect>.<TYPE>` holds.
fn wrapped<'a>(event: &'a Event<'_>) -> Option<Event<'a>> {
    let name = event.text(Field::Name)?;
    let object = event.get(Field::Value).and_then(|value| json::object(value.as_str()).ok())?;
    let kind = Kind::from_wire(&object.kind.as_ref().and_then(Json::text)?).filter(|kind| *kind != Kind::Custom)?;
    name.contains('.').then(|| Event { members: object.members, ..Event::new(kind) })
}

/// A name from outside, cut to what an error should repeat of it.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(SHOWN).collect()
}
