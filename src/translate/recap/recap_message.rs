//! A message in the client, with its tool calls: from a snapshot, from the input, or created by events.

use super::recap_frame::{RecapFrame, frames_size, to_string_inner};
use crate::codec::json;
use crate::dialect::patched_json::PatchedJson;
use crate::dialect::{CarryLocation, MemberCase, PeerDialect};
use crate::event::heap_size::{allocation_size, list_size};
use crate::event::{
    Field, Json, JsonType, MemberKey, Members, get_owned, into_owned_members, members_size, optional_size, remove,
};
use crate::translate::{aliases, carry, value_aliases};

#[derive(Clone, Debug)]
pub(super) struct RecapMessage {
    pub(crate) id: Json<'static>,
    pub(crate) role: String,
    pub(crate) content: MessageContent,
    pub(crate) calls: Option<Vec<RecapCall>>,
    pub(crate) metadata: Option<Json<'static>>,
    pub(crate) rest: Members<'static>,
    /// activity deltas that could not be applied
    pub(crate) changes: Vec<RecapFrame>,
    /// whether it has content other than open items; those are recreated by their start events
    pub(crate) has_closed_content: bool,
}

#[derive(Clone, Debug)]
pub(super) enum MessageContent {
    None,
    /// content of a JSON string
    Text(String),
    /// content parts, or an activity's content
    Value(PatchedJson),
}

#[derive(Clone, Debug)]
pub(super) struct RecapCall {
    pub(crate) id: Json<'static>,
    /// as received; ignored once an event changes the call
    pub(crate) original: Option<Json<'static>>,
    pub(crate) name: Json<'static>,
    /// content of a JSON string
    pub(crate) args: String,
    pub(crate) rest: Members<'static>,
    pub(crate) has_closed_content: bool,
    /// whether its start contains the message id
    pub(crate) names_message: bool,
}

/// Selects the metadata that the message keeps. For a dialect without versions, carried members belong only to the
/// event.
pub(super) fn message_metadata(event: Option<Json<'_>>, side: PeerDialect) -> Option<Json<'static>> {
    let metadata = event.map(Json::into_owned)?;
    match side.dialect.carry_location {
        CarryLocation::Native => Some(metadata),
        CarryLocation::Metadata if side.dialect.is_versioned() => Some(metadata),
        CarryLocation::Metadata => {
            let key = side.dialect.carry_location.carry_member().map_or("", |(_, key)| key);
            let mut members = json::parse_members(&metadata)?;
            members.retain(|(own, _)| !carry::is_named(own, key));
            (!members.is_empty()).then(|| json::to_object(&members))
        }
        CarryLocation::Extra => None,
    }
}

impl MessageContent {
    pub(crate) fn from_value(value: &Json<'_>) -> Self {
        match value.json_type() {
            JsonType::String => MessageContent::Text(value.unquoted().to_owned()),
            _ => MessageContent::Value(PatchedJson::new(value)),
        }
    }
}

impl RecapMessage {
    pub(crate) fn new(id: Json<'static>, role: &str) -> Self {
        RecapMessage {
            id,
            role: role.to_owned(),
            content: MessageContent::None,
            calls: None,
            metadata: None,
            rest: Members::new(),
            changes: Vec::new(),
            has_closed_content: false,
        }
    }

    pub(crate) fn from_members(message: Members<'_>, side: PeerDialect) -> Self {
        let mut members = into_owned_members(message);
        aliases::read_field_names(side.dialect.field_aliases, &mut members);
        let mut take = |field| remove(&mut members, field);
        let id = take(Field::Id).unwrap_or(Json::EMPTY_STRING);
        let role = take(Field::Role);
        let role = role.as_ref().and_then(Json::text).unwrap_or_default();
        let mut entry = RecapMessage::new(id, value_aliases::canonical_role(side, &role));
        entry.has_closed_content = true;
        entry.content =
            take(Field::Content).map_or(MessageContent::None, |content| MessageContent::from_value(&content));
        entry.metadata = take(Field::Metadata);
        let calls = take(Field::ToolCalls);
        entry.calls = calls
            .as_ref()
            .and_then(json::parse_elements)
            .map(|calls| calls.iter().map(RecapCall::from_message).collect());
        // The parser reserves room for more members than messages have.
        members.shrink_to_fit();
        entry.rest = members;
        entry
    }

    pub(crate) fn to_json(&self, side: PeerDialect) -> Json<'static> {
        let mut members: Members<'_> = vec![(MemberKey::Known(Field::Id), self.id.as_borrowed())];
        members.push((MemberKey::Known(Field::Role), Json::string(&self.role)));
        match &self.content {
            MessageContent::None => {}
            MessageContent::Text(text) => {
                members.push((MemberKey::Known(Field::Content), Json::from_trusted(format!("\"{text}\""))));
            }
            MessageContent::Value(value) => members.push((MemberKey::Known(Field::Content), value.to_json())),
        }
        if let Some(calls) = &self.calls {
            // Starts that name the message recreate the last calls.
            let count = calls
                .iter()
                .rposition(|call| call.has_closed_content || !call.names_message)
                .map_or(0, |last| last + 1);
            if count > 0 || calls.is_empty() {
                let closed: Vec<_> = calls[..count].iter().map(RecapCall::to_json).collect();
                members.push((MemberKey::Known(Field::ToolCalls), json::to_array(&closed)));
            }
        }
        members.extend(self.rest.iter().map(|(key, value)| (key.clone(), value.as_borrowed())));
        members
            .extend(self.metadata.iter().map(|metadata| (MemberKey::Known(Field::Metadata), metadata.as_borrowed())));
        value_aliases::write_role(side, &mut members, &mut Members::new());
        aliases::write_field_names(side.dialect.field_aliases, &mut members);
        let snake = side.member_case == MemberCase::Snake;
        json::build_object(|object| members.iter().for_each(|member| object.copy_member(member, snake)))
    }

    pub(crate) fn heap_size(&self) -> usize {
        let content = match &self.content {
            MessageContent::None => 0,
            MessageContent::Text(text) => allocation_size(text.capacity()),
            MessageContent::Value(value) => value.heap_size(),
        };
        let calls = self.calls.as_ref().map_or(0, |calls| {
            list_size::<RecapCall>(calls.capacity()) + calls.iter().map(RecapCall::heap_size).sum::<usize>()
        });
        let own = self.id.heap_size() + allocation_size(self.role.capacity()) + optional_size(self.metadata.as_ref());
        own + content + calls + frames_size(&self.changes) + members_size(&self.rest)
    }
}

const FUNCTION: &str = "function";
const ARGUMENTS: &str = "arguments";

impl RecapCall {
    pub(crate) fn from_message(call: &Json<'_>) -> Self {
        let members = json::parse_message(call).unwrap_or_default();
        let id = get_owned(&members, Field::Id).unwrap_or(Json::EMPTY_STRING);
        let original = Some(call.clone().into_owned());
        RecapCall {
            id,
            original,
            name: Json::NULL,
            args: String::new(),
            rest: Members::new(),
            has_closed_content: true,
            names_message: false,
        }
    }

    pub(crate) fn expand(&mut self) -> &mut Self {
        if let Some(call) = self.original.take() {
            let mut rest = json::parse_message(&call).map(into_owned_members).unwrap_or_default();
            remove(&mut rest, Field::Id);
            carry::take(&mut rest, json::TYPE);
            let function = carry::take(&mut rest, FUNCTION);
            let mut function = function.as_ref().and_then(json::parse_message).unwrap_or_default();
            self.name = remove(&mut function, Field::Name).map_or(Json::EMPTY_STRING, Json::into_owned);
            self.args = carry::take(&mut function, ARGUMENTS).as_ref().map_or_else(String::new, to_string_inner);
            rest.shrink_to_fit();
            self.rest = rest;
        }
        self
    }

    pub(crate) fn to_json(&self) -> Json<'static> {
        if let Some(call) = &self.original {
            return call.clone();
        }
        json::build_object(|object| {
            object.member(Field::Id.camel(), self.id.as_str());
            object.string_member(json::TYPE, FUNCTION);
            let function = json::build_object(|function| {
                function.member(Field::Name.camel(), self.name.as_str());
                function.string_member(ARGUMENTS, &self.args);
            });
            object.member(FUNCTION, function.as_str());
            self.rest.iter().for_each(|member| object.copy_member(member, false));
        })
    }

    fn heap_size(&self) -> usize {
        let texts = self.id.heap_size() + self.name.heap_size() + optional_size(self.original.as_ref());
        texts + allocation_size(self.args.capacity()) + members_size(&self.rest)
    }
}
