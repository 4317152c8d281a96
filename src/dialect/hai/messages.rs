//! `hai` messages in requests and snapshots.

use super::block_writer::{BlockWriter, render_delta};
use super::blocks::{BLOCKS_NOTE, DeltaContent, block_text, parse_delta, to_stored_content};
use super::members::block;
use super::{block_storage, kept_messages, listed_content, part_calls, stored_parts};
use crate::codec::json;
use crate::dialect::carry::{self, CANONICAL_PREFIX, CarryLocation};
use crate::dialect::message_adapter::{MessageAdapter, SurroundingMessages};
use crate::dialect::text_format::TextFormat;
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING};
use crate::event::{EventType, Field, Json, JsonType, MemberKey, Members, find_member, get, get_owned};

#[derive(Debug)]
pub(super) struct HaiMessages;

impl MessageAdapter for HaiMessages {
    fn read(&self, message: &mut Members<'_>, extensions: &mut Members<'_>, dialect: &str) -> SurroundingMessages {
        listed_content::read_contents(message, extensions);
        block_storage::read(message, extensions, dialect)
    }

    fn carry_message(&self, message: &Members<'_>, first: &mut MessageMembers<'static>, dialect: &str) {
        block_storage::carry_message(message, first, dialect);
    }

    fn separate_parts(&self, messages: &mut [MessageMembers<'static>], dialect: &str) {
        stored_parts::separate_parts(messages, dialect);
    }

    fn join_parts(&self, messages: &mut Vec<MessageMembers<'_>>, dialect: &str) {
        stored_parts::join_parts(messages, dialect);
    }

    fn join_calls(&self, messages: &mut [MessageMembers<'_>], dialect: &str) {
        part_calls::join_calls(messages, dialect);
    }

    fn is_joined_part(&self, message: &Members<'_>, dialect: &str) -> bool {
        stored_parts::is_joined_part(message, dialect)
    }

    fn stored_id(&self, message: &Members<'_>, dialect: &str) -> Option<Json<'static>> {
        stored_parts::stored_id(message, dialect)
    }

    fn is_kept(&self, message: &Members<'_>, dialect: &str) -> bool {
        kept_messages::is_kept(message, dialect)
    }

    fn write(
        &self,
        message: &mut Members<'_>,
        extensions: &mut Members<'_>,
        canonical: &mut Members<'_>,
        is_json: bool,
        text_format: TextFormat,
    ) {
        if !is_json || find_member(extensions, BLOCKS_NOTE).is_some() {
            block_storage::write(message, extensions, canonical, text_format == TextFormat::Blocks);
        }
        listed_content::write_contents(message, extensions, is_json);
    }

    fn show(
        &self,
        message: &MessageMembers<'_>,
        dialect: &str,
        text_format: TextFormat,
    ) -> Option<MessageMembers<'static>> {
        let role = get(message, Field::Role).filter(|_| text_format == TextFormat::Blocks)?;
        let content = get(message, Field::Content)?;
        let delta = match &*role.text()? {
            REASONING if content.json_type() == JsonType::String => BlockWriter::render_thought(content),
            ACTIVITY => render_delta(get(message, Field::ActivityType)?, content, dialect),
            _ => return None,
        };
        let canonical: Members<'_> =
            message.iter().filter(|(key, _)| *key != MemberKey::Known(Field::Id)).cloned().collect();
        let location = CarryLocation::Extra;
        let extra = carry::wrap_canonical(location, None, &canonical, None)?;
        let (place, _) = location.carry_member()?;
        Some(vec![
            (MemberKey::Known(Field::Id), get_owned(message, Field::Id)?),
            (MemberKey::Known(Field::Role), Json::string(ASSISTANT)),
            (MemberKey::Known(Field::Content), to_stored_content(&delta)),
            (carry::extension_key(place), extra),
        ])
    }

    fn detect_text_format(&self, members: &Members<'_>) -> Option<TextFormat> {
        let blocks = has_block_delta(members).or_else(|| {
            let messages = get(members, Field::Messages).and_then(json::parse_elements).unwrap_or_default();
            let is_stored =
                |message: &Json<'_>| json::parse_members(message).is_some_and(|one| self.has_own_form(&one));
            messages.iter().any(is_stored).then_some(true)
        })?;
        Some(if blocks { TextFormat::Blocks } else { TextFormat::String })
    }

    fn has_own_form(&self, message: &Members<'_>) -> bool {
        let content = get(message, Field::Content).filter(|content| content.json_type() == JsonType::String);
        content.and_then(Json::text).is_some_and(|text| {
            let first = json::parse_sequence(&text).and_then(|values| values.into_iter().next().map(Json::into_owned));
            first.as_ref().is_some_and(|value| block_text(value).is_some())
        })
    }
}

/// Returns true for a block and false for a string, or for an event that would be a block. Thinking blocks count only if
/// the gateway made them.
fn has_block_delta(members: &Members<'_>) -> Option<bool> {
    let Some(delta) = get(members, Field::Delta) else {
        let name = get(members, Field::Name).and_then(Json::text)?;
        let kind = EventType::from_wire(name.strip_prefix(CANONICAL_PREFIX)?)?;
        let is_block = kind == EventType::ActivitySnapshot || kind == EventType::ReasoningMessageContent;
        return is_block.then_some(false);
    };
    let ours = find_member(members, "extra").is_some();
    match parse_delta(Some(delta)) {
        DeltaContent::Block { kind, .. } if kind.is_str(block::TEXT) || ours => Some(true),
        DeltaContent::Block { .. } => None,
        DeltaContent::Plain => {
            let is_text = matches!(delta.json_type(), JsonType::String | JsonType::Number | JsonType::Bool);
            (is_text && get(members, Field::MessageId).is_some()).then_some(false)
        }
    }
}
