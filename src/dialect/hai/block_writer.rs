//! Writes text and reasoning events as output blocks, or as strings if the route requests them.

use super::block_activity::{BlockNumbers, OutputBlock, WHOLE_BLOCK};
use super::blocks::{
    STRING, build_delta, build_text_output, build_thinking, has_block_members, has_braces, is_activity_block,
    take_block_members, take_scalar, to_stored_content,
};
use super::continued_texts::ContinuedTexts;
use super::joined_blocks::parse_joined_blocks;
use super::members::block;
use super::message_parts::MessageParts;
use super::{collaboration, placeholder};
use crate::codec::json;
use crate::dialect::carry;
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::text_format::TextFormat;
use crate::event::input::ASSISTANT;
use crate::event::{
    Event, EventType, Field, IdMap, Json, MemberKey, Members, find_member, get, get_owned, message_id, remove,
};

#[derive(Debug, Default)]
pub(super) struct BlockWriter {
    /// the role of each open message
    open_messages: IdMap<Json<'static>>,
    closed_messages: IdMap<()>,
    nonempty_messages: IdMap<()>,
    /// the ids of the messages in which the dialect sent reasoning messages, by the reasoning's id
    native_reasoning: IdMap<Json<'static>>,
    /// the start time in ms of each open reasoning message that is rendered as blocks
    rendered_since: IdMap<i64>,
    blocks: BlockNumbers,
    pub(crate) texts: ContinuedTexts,
}

impl BlockWriter {
    pub(crate) fn is_open(&self, message: &Json<'_>) -> bool {
        self.open_messages.contains(message)
    }

    pub(crate) fn open_messages(&self) -> impl Iterator<Item = &Json<'static>> {
        self.open_messages.iter().map(|(message, _)| message)
    }

    pub(crate) fn start_message(&mut self, parts: &mut OutgoingEvent<'_>) {
        let id = message_id(&parts.members);
        let role = get_owned(&parts.members, Field::Role).unwrap_or_else(|| Json::string(ASSISTANT));
        crate::event::set(&mut parts.members, MemberKey::Known(Field::Role), role.clone());
        if !self.is_open(&id) {
            self.texts.start_message(&id);
            self.open_messages.insert(id, role);
        }
    }

    pub(crate) fn record_call(&mut self, call: &mut Event<'_>, is_part: bool) {
        if let Some(parent) = self.texts.mark_call(call, is_part) {
            self.closed_messages.insert(parent, ());
        }
    }

    /// Writes text in its original format, or in the route's configured format.
    pub(crate) fn write_content(&self, parts: &mut OutgoingEvent<'_>, content: TextFormat) {
        if let Some(string) = carry::take(&mut parts.extensions, STRING) {
            take_block_members(&mut parts.extensions);
            take_scalar(&mut parts.extensions);
            return crate::event::set(&mut parts.members, MemberKey::Known(Field::Delta), string);
        }
        if content == TextFormat::String && !has_block_members(&parts.extensions) {
            if let Some(scalar) = take_scalar(&mut parts.extensions) {
                crate::event::set(&mut parts.members, MemberKey::Known(Field::Delta), scalar);
            }
            // Reading would mistake this text for blocks.
            if let Some(delta) = get(&parts.members, Field::Delta).filter(|delta| parse_joined_blocks(delta).is_some())
            {
                let delta = delta.clone();
                parts.canonical.push((MemberKey::Known(Field::Delta), delta));
            }
            return;
        }
        let text = remove(&mut parts.members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
        let output = build_text_output(&text, &mut parts.extensions);
        let delta = build_delta(&mut parts.extensions, &output);
        parts.members.push((MemberKey::Known(Field::Delta), delta));
    }

    pub(crate) fn mark_nonempty(&mut self, parts: &OutgoingEvent<'_>) {
        if let Some(id) = get(&parts.members, Field::MessageId)
            && !self.nonempty_messages.contains(id)
        {
            self.nonempty_messages.insert(id.clone().into_owned(), ());
        }
    }

    /// Returns true if the end of the message closes an empty one. The component in the seed (§4.1) parses the content as blocks at
    /// the end, and fails if there are none.
    pub(crate) fn is_empty_end(&self, message: &Json<'_>) -> bool {
        self.is_open(message) && !self.nonempty_messages.contains(message)
    }

    /// Returns true if the message may have an id that was used before: the end of such a message alone does not show
    /// that it started.
    pub(crate) fn is_reopened(&self, message: &Json<'_>) -> bool {
        self.closed_messages.contains(message)
    }

    /// Adds the role from the start of a message to its end.
    pub(crate) fn end_message(&mut self, parts: &mut OutgoingEvent<'_>) {
        let Some(role) = self.close_message(&message_id(&parts.members)) else { return };
        if !parts.extensions.iter().any(|(key, _)| *key == MemberKey::Known(Field::Role)) {
            parts.extensions.push((MemberKey::Known(Field::Role), role));
        }
    }

    /// Records the end of a message, and returns its role.
    pub(crate) fn close_message(&mut self, message: &Json<'static>) -> Option<Json<'static>> {
        self.nonempty_messages.remove(message);
        let role = self.open_messages.remove(message)?;
        self.closed_messages.insert(message.clone(), ());
        Some(role)
    }

    /// Recognizes reasoning that the dialect sent inside an open message.
    pub(crate) fn adopt_native(&mut self, reasoning: &Json<'_>, own: &Members<'static>, parts: &MessageParts) -> bool {
        // Only the reader creates such ids.
        let message = get(own, Field::MessageId).filter(|message| is_span_of(reasoning, message));
        let Some(message) = message.filter(|message| self.is_open(message) && !parts.is_text_open(message)) else {
            return false;
        };
        self.texts.split(message);
        self.native_reasoning.insert(reasoning.clone().into_owned(), message.clone());
        true
    }

    /// Returns the open message that contains this reasoning.
    pub(crate) fn message_of_reasoning(&self, reasoning: &Json<'_>) -> Option<&Json<'static>> {
        self.native_reasoning.get(reasoning).filter(|message| self.is_open(message))
    }

    pub(crate) fn forget_span(&mut self, reasoning: &Json<'_>) {
        self.native_reasoning.remove(reasoning);
    }

    /// Renders a thought that is over.
    pub(crate) fn render_thought(text: &Json<'_>) -> Json<'static> {
        let mut writer = BlockWriter::default();
        let mut data = writer.rendered_members(&Json::NULL, EventType::ReasoningMessageEnd, 0);
        build_thinking(text, &mut data)
    }

    /// Returns the members of a rendered block: the elapsed time, and whether thinking continues.
    pub(crate) fn rendered_members(&mut self, reasoning: &Json<'_>, kind: EventType, now: i64) -> Members<'static> {
        let since = self.rendered_since.get(reasoning).copied();
        let elapsed = (now - since.unwrap_or(now)).max(0) / 1000;
        let goes_on = kind != EventType::ReasoningMessageEnd;
        match (goes_on, since) {
            (true, None) => drop(self.rendered_since.insert(reasoning.clone().into_owned(), now)),
            (true, Some(_)) => {}
            (false, _) => drop(self.rendered_since.remove(reasoning)),
        }
        let flag = |on: bool| Json::from_trusted(if on { "true" } else { "false" });
        vec![
            (carry::extension_key(block::ELAPSED), Json::integer(elapsed)),
            (carry::extension_key(block::THINKING), flag(goes_on)),
            (carry::extension_key(block::COLLAPSE), flag(true)),
        ]
    }
}

impl BlockWriter {
    /// Writes an activity as its original block; returns `None` if the block would not be read back unchanged.
    pub(crate) fn match_block<'a>(
        &mut self,
        event: &Event<'a>,
        parts: &MessageParts,
        dialect: &str,
    ) -> Option<OutgoingEvent<'a>> {
        let kind = block_type(event.get(Field::ActivityType)?, dialect).filter(is_activity_block)?;
        let content = event.get(Field::Content).filter(|_| event.kind == EventType::ActivitySnapshot)?;
        let mut outgoing = collaboration::split_activity(event, dialect, &[]);
        let message = remove(&mut outgoing.extensions, Field::MessageId)?;
        if !self.is_open(&message) {
            return None;
        }
        let output = match carry::take(&mut outgoing.extensions, WHOLE_BLOCK) {
            Some(_) => json::parse_members(content)?,
            None => vec![(carry::extension_key(block::DATA), content.as_borrowed())],
        };
        if find_member(&output, json::TYPE).is_some() {
            return None;
        }
        let one = OutputBlock { kind, members: output, delta_members: Members::new() };
        let activity = self.blocks.to_activity(&message, &one, &outgoing.extensions, dialect);
        let note = carry::carried_member(event, dialect, WHOLE_BLOCK);
        // Only a block that replaces another leaves the text open.
        if (parts.is_text_open(&message) && !activity.replaces_earlier)
            || event.get(Field::MessageId) != Some(&activity.id)
            || *content != activity.content
            || note != activity.is_whole_block.then(|| Json::from_trusted("true"))
        {
            return None;
        }
        self.blocks.count_block(&message, &activity);
        if !activity.replaces_earlier {
            self.texts.split(&message);
        }
        let output = json::build_object(|object| {
            object.member(json::TYPE, one.kind.as_str());
            one.members.iter().for_each(|member| object.copy_member(member, false));
        });
        let delta = build_delta(&mut outgoing.extensions, &output);
        outgoing.members.push((MemberKey::Known(Field::MessageId), message));
        outgoing.members.push((MemberKey::Known(Field::Delta), delta));
        Some(outgoing)
    }
}

/// A block for an activity that the dialect did not send.
pub(super) struct RenderedBlock {
    pub(crate) content: Json<'static>,
    pub(crate) message: Json<'static>,
    pub(crate) block_id: Json<'static>,
}

impl RenderedBlock {
    /// Writes the block with the event in a note.
    pub(crate) fn write<'a>(self, event: Event<'a>, dialect: &str) -> OutgoingEvent<'a> {
        let block = render_delta(&event.get_or_empty(Field::ActivityType), &self.content, dialect);
        // The client of the seed would put a comma between these braces, and joins strings as they are.
        let delta = if has_braces(&block) { to_stored_content(&block) } else { block };
        let members = vec![(MemberKey::Known(Field::MessageId), self.message), (MemberKey::Known(Field::Delta), delta)];
        placeholder::write_placeholder(event, members, vec![(carry::extension_key(block::BLOCK_ID), self.block_id)])
    }
}

/// Builds the delta with the block of an activity.
pub(super) fn render_delta(activity_type: &Json<'_>, content: &Json<'_>, dialect: &str) -> Json<'static> {
    let own = block_type(activity_type, dialect).filter(is_activity_block);
    let output = json::build_object(|object| {
        object.member(json::TYPE, own.as_ref().unwrap_or(activity_type).as_str());
        object.member(block::DATA, content.as_str());
    });
    json::build_object(|object| object.member(block::OUTPUT, output.as_str()))
}

/// Returns the type of an activity's original block.
fn block_type(activity_type: &Json<'_>, dialect: &str) -> Option<Json<'static>> {
    let inner = activity_type.as_str().strip_prefix('"')?.strip_prefix(dialect)?.strip_prefix('.')?;
    Some(Json::from_trusted(format!("\"{inner}")))
}

/// Returns true if the reasoning id is derived from the message id.
fn is_span_of(reasoning: &Json<'_>, message: &Json<'_>) -> bool {
    let (Some(reasoning), Some(message)) = (reasoning.text(), message.text()) else {
        return false;
    };
    let count = reasoning.strip_prefix(&*message).and_then(|rest| rest.strip_prefix(":reasoning:"));
    count.is_some_and(|count| count.parse::<u32>().is_ok())
}
