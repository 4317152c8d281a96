//! One message that a client has, with its tool calls: told by a snapshot or an input, or made by events.

use super::frame::{ENTRY, Kept, inside, text_of};
use crate::codec::json;
use crate::dialect::{Side, Spelling};
use crate::event::{Field, Json, Key, Members, Type, get, owned, remove};
use crate::translate::{carry, spell};

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub id: Json<'static>,
    /// canonical
    pub role: String,
    pub content: Content,
    pub calls: Option<Vec<Call>>,
    pub metadata: Option<Json<'static>>,
    /// every other member
    pub rest: Members<'static>,
    /// changes of an activity, since it was said as a whole
    pub changes: Vec<Kept>,
    /// Whether it holds anything but what is open now. What does not is made again by what opens that.
    pub settled: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// the message has none
    None,
    /// the inside of a JSON string
    Text(String),
    /// parts, or whatever an activity shows
    Value(Json<'static>),
}

/// A tool call of a message.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub id: Json<'static>,
    /// As a message said it, until an event is about it. What is below says nothing until then.
    pub told: Option<Json<'static>>,
    pub name: Json<'static>,
    /// the inside of a JSON string
    pub args: String,
    /// every other member
    pub rest: Members<'static>,
    /// whether it holds anything but what is open now
    pub settled: bool,
    /// whether its start names the message it is in
    pub named: bool,
}

/// The value itself where it is a string, and its JSON text where it is none.
pub(super) fn as_string(value: &Json<'_>) -> Json<'static> {
    match value.shape() {
        Type::String => value.clone().into_owned(),
        _ => Json::string(value.as_str()),
    }
}

impl Content {
    /// What a member of a message or an event holds.
    pub fn of(value: &Json<'_>) -> Self {
        match value.shape() {
            Type::String => Content::Text(inside(value).to_owned()),
            _ => Content::Value(value.clone().into_owned()),
        }
    }
}

impl Entry {
    /// A message that holds nothing yet.
    pub fn new(id: Json<'static>, role: &str) -> Self {
        Entry {
            id,
            role: role.to_owned(),
            content: Content::None,
            calls: None,
            metadata: None,
            rest: Members::new(),
            changes: Vec::new(),
            settled: false,
        }
    }

    /// A message as the side says it.
    pub fn read(message: Members<'_>, side: Side) -> Self {
        let mut members = owned(message);
        spell::read_names(side.dialect.names, &mut members);
        let mut take = |field| remove(&mut members, field);
        let id = take(Field::Id).unwrap_or_else(|| Json::string(""));
        let said = take(Field::Role);
        let said = said.as_ref().and_then(Json::text).unwrap_or_default();
        let mut entry = Entry::new(id, spell::canonical_role(side, &said));
        entry.settled = true;
        entry.content = take(Field::Content).map_or(Content::None, |content| Content::of(&content));
        entry.metadata = take(Field::Metadata);
        let calls = take(Field::ToolCalls);
        entry.calls = calls.as_ref().and_then(json::elements).map(|calls| calls.iter().map(Call::told).collect());
        entry.rest = members;
        entry
    }

    /// The message as the side says it.
    pub fn say(&self, side: Side) -> Json<'static> {
        let mut members: Members<'_> = vec![(Key::Known(Field::Id), self.id.borrowed())];
        members.push((Key::Known(Field::Role), Json::string(&self.role)));
        match &self.content {
            Content::None => {}
            Content::Text(text) => members.push((Key::Known(Field::Content), Json::trusted(format!("\"{text}\"")))),
            Content::Value(value) => members.push((Key::Known(Field::Content), value.borrowed())),
        }
        if let Some(calls) = &self.calls {
            // The last ones are put there by their starts, where these name the message.
            let count = calls.iter().rposition(|call| call.settled || !call.named).map_or(0, |last| last + 1);
            if count > 0 || calls.is_empty() {
                let said: Vec<_> = calls[..count].iter().map(Call::say).collect();
                members.push((Key::Known(Field::ToolCalls), json::to_array(&said)));
            }
        }
        members.extend(self.rest.iter().map(|(key, value)| (key.clone(), value.borrowed())));
        members.extend(self.metadata.iter().map(|metadata| (Key::Known(Field::Metadata), metadata.borrowed())));
        spell::write_role(side, &mut members, &mut Members::new());
        spell::write_names(side.dialect.names, &mut members);
        let snake = side.fields == Spelling::Snake;
        json::build(|object| members.iter().for_each(|member| object.copy(member, snake)))
    }

    /// What is held, in bytes.
    pub fn held(&self) -> usize {
        let content = match &self.content {
            Content::None => 0,
            Content::Text(text) => text.capacity(),
            Content::Value(value) => value.as_str().len(),
        };
        let calls = self.calls.iter().flatten().map(Call::held).sum::<usize>();
        let metadata = self.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
        let changes = self.changes.iter().map(Kept::held).sum::<usize>();
        let own = size_of::<Self>() + self.id.as_str().len() + self.role.len();
        own + content + calls + metadata + changes + members_held(&self.rest)
    }
}

fn members_held(members: &Members<'_>) -> usize {
    members.iter().map(|(_, value)| ENTRY + value.as_str().len()).sum()
}

/// Members of a tool call, and of what it calls (specs §2).
const FUNCTION: &str = "function";
const ARGUMENTS: &str = "arguments";

impl Call {
    /// A call as a message says it.
    pub fn told(call: &Json<'_>) -> Self {
        let members = json::message(call).unwrap_or_default();
        let id = get(&members, Field::Id).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        let told = Some(call.clone().into_owned());
        Call { id, told, name: Json::NULL, args: String::new(), rest: Members::new(), settled: true, named: false }
    }

    /// The call taken apart, for an event that is about it.
    pub fn made(&mut self) -> &mut Self {
        if let Some(call) = self.told.take() {
            let mut rest = json::message(&call).map(owned).unwrap_or_default();
            remove(&mut rest, Field::Id);
            carry::take(&mut rest, json::TYPE);
            let function = carry::take(&mut rest, FUNCTION);
            let mut function = function.as_ref().and_then(json::message).unwrap_or_default();
            self.name = remove(&mut function, Field::Name).map_or_else(|| Json::string(""), Json::into_owned);
            self.args = carry::take(&mut function, ARGUMENTS).as_ref().map_or_else(String::new, text_of);
            self.rest = rest;
        }
        self
    }

    /// The call as a message says it.
    pub fn say(&self) -> Json<'static> {
        if let Some(call) = &self.told {
            return call.clone();
        }
        json::build(|object| {
            object.member(Field::Id.camel(), self.id.as_str());
            object.word(json::TYPE, FUNCTION);
            let function = json::build(|function| {
                function.member(Field::Name.camel(), self.name.as_str());
                function.word(ARGUMENTS, &self.args);
            });
            object.member(FUNCTION, function.as_str());
            self.rest.iter().for_each(|member| object.copy(member, false));
        })
    }

    /// What is held, in bytes.
    pub fn held(&self) -> usize {
        let told = self.told.as_ref().map_or(0, |call| call.as_str().len());
        let made = self.name.as_str().len() + self.args.capacity() + members_held(&self.rest);
        size_of::<Self>() + self.id.as_str().len() + told + made
    }
}
