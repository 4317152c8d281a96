//! Writes reasoning as thinking blocks.

use super::{HaiAdapter, set_first_piece};
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::carry;
use crate::dialect::hai::blocks;
use crate::event::{Event, EventType, Field, Json, MemberKey, get, message_id, remove, set};

impl HaiAdapter {
    /// Writes reasoning as thinking blocks, in its original message or in a new one.
    pub(super) fn write_reasoning<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let kind = event.kind;
        if kind == EventType::ReasoningStart {
            let metadata = event.get_owned(Field::Metadata);
            let own = metadata.map(|metadata| carry::unpack(metadata, self.peer.dialect.name, |_| true).0);
            return match own.is_some_and(|own| self.block_writer.adopt_native(&id, &own, &self.message_parts)) {
                true => ReleasedEvents::default(),
                false => ReleasedEvents::from(ReleasedEvent::AsCustom(event)),
            };
        }
        let Some(message) = self.block_writer.message_of_reasoning(&id).cloned() else {
            if !self.writes_blocks() || kind == EventType::ReasoningEnd {
                return ReleasedEvents::from(ReleasedEvent::AsCustom(event));
            }
            // The thought was written in another message, so it ends with its span there, which has ended.
            if kind == EventType::ReasoningMessageEnd && !self.block_writer.is_open(&id) {
                return ReleasedEvents::default();
            }
            let canonical_type = canonical_type.unwrap_or(kind.wire());
            return self.write_thinking(&id, event, canonical_type, now_ms).unwrap_or_default();
        };
        match kind {
            EventType::ReasoningMessageContent => self.write_native_thinking(message, event).unwrap_or_default(),
            EventType::ReasoningEnd => {
                self.block_writer.forget_span(&id);
                ReleasedEvents::default()
            }
            _ => ReleasedEvents::default(),
        }
    }

    fn write_native_thinking<'a>(&mut self, message: Json<'static>, event: Event<'a>) -> Option<ReleasedEvents<'a>> {
        let (row, mut outgoing) = self.split_members(EventType::TextMessageContent, event, None)?;
        let text = get(&outgoing.members, Field::Delta).cloned().unwrap_or(Json::EMPTY_STRING);
        set(&mut outgoing.members, MemberKey::Known(Field::MessageId), message);
        let delta = blocks::build_thinking(&text, &mut outgoing.extensions);
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), delta);
        Some(self.write_native_content(row, outgoing))
    }

    fn write_thinking<'a>(
        &mut self,
        id: &Json<'static>,
        event: Event<'a>,
        canonical_type: &'static str,
        now_ms: i64,
    ) -> Option<ReleasedEvents<'a>> {
        let kind = event.kind;
        // The thought began in another message, which has ended since.
        let must_start = kind == EventType::ReasoningMessageContent && !self.block_writer.is_open(id);
        let time = event.get(Field::Timestamp).and_then(Json::as_i64).unwrap_or(now_ms);
        let mut data = self.block_writer.rendered_members(id, kind, time);
        if kind == EventType::ReasoningMessageStart || must_start {
            self.kept_messages.record_thought(id);
        }
        if let Some(delta) = event.get(Field::Delta) {
            self.kept_messages.append_text(id, delta);
        }
        if kind == EventType::ReasoningMessageStart {
            let (row, mut outgoing) = self.split_members(EventType::TextMessageStart, event, Some(canonical_type))?;
            let role = remove(&mut outgoing.members, Field::Role);
            outgoing.canonical.extend(role.map(|role| (MemberKey::Known(Field::Role), role)));
            self.block_writer.start_message(&mut outgoing);
            return Some(ReleasedEvents::from(ReleasedEvent::Complete { row, outgoing }));
        }
        let pieces = event.get(Field::Delta).map(blocks::split_braces).unwrap_or_default();
        let (row, mut outgoing) = self.split_members(EventType::TextMessageContent, event, Some(canonical_type))?;
        if !pieces.is_empty() {
            set_first_piece(&mut outgoing, &pieces);
        }
        let text = remove(&mut outgoing.members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
        let delta = blocks::build_thinking(&text, &mut data);
        outgoing.members.push((MemberKey::Known(Field::Delta), delta));
        let mut released = ReleasedEvents::default();
        if must_start {
            let start = Event::new(EventType::TextMessageStart).with(Field::MessageId, id.clone());
            let (row, mut outgoing) = self.split_members(EventType::TextMessageStart, start, Some(""))?;
            self.block_writer.start_message(&mut outgoing);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        self.write_content(row, outgoing).into_iter().for_each(|content| released.push(content));
        for piece in pieces.iter().skip(1) {
            let mut data = self.block_writer.rendered_members(id, kind, time);
            let rest = Event::new(EventType::TextMessageContent).with(Field::MessageId, id.clone());
            let rest = rest.with(Field::Delta, blocks::build_thinking(piece, &mut data));
            let (row, outgoing) = self.split_members(EventType::TextMessageContent, rest, Some(""))?;
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        if kind == EventType::ReasoningMessageEnd {
            let end = Event::new(EventType::TextMessageEnd).with(Field::MessageId, id.clone());
            let (row, mut outgoing) = self.split_members(EventType::TextMessageEnd, end, Some(""))?;
            self.block_writer.end_message(&mut outgoing);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        Some(released)
    }
}
