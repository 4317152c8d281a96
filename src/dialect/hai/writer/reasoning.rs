//! Writes reasoning as thinking blocks.

use super::texts::hide;
use super::{HaiWriter, set_first_piece};
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::carry;
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::hai::blocks;
use crate::dialect::hai::last_message::{HeldStart, OpenThought};
use crate::dialect::row::EventRow;
use crate::event::{Event, EventType, Field, Json, MemberKey, get, message_id, remove, set};

impl HaiWriter {
    /// Writes reasoning as thinking blocks, in its original message or in a new one.
    pub(super) fn write_reasoning<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let kind = event.kind;
        if kind == EventType::ReasoningStart {
            let metadata = event.get_owned(Field::Metadata);
            let own = metadata.map(|metadata| carry::unpack(metadata, self.peer.dialect.name, |_| true).0);
            if !own.is_some_and(|own| self.block_writer.adopt_native(&id, &own, &self.message_parts)) {
                released.push(ReleasedEvent::AsCustom(event));
            }
            return released;
        }
        let Some(message) = self.block_writer.message_of_reasoning(&id).cloned() else {
            if !self.writes_blocks() || kind == EventType::ReasoningEnd {
                released.push(ReleasedEvent::AsCustom(event));
            } else {
                self.write_thought(&id, event, canonical_type, now_ms, &mut released);
            }
            return released;
        };
        match kind {
            EventType::ReasoningMessageContent => {
                released.with_all(self.write_native_thinking(message, event).unwrap_or_default())
            }
            EventType::ReasoningEnd => {
                self.block_writer.forget_span(&id);
                released
            }
            _ => released,
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

    /// Writes a thought in a message of its own, as long as that is the last one. What comes behind another message has
    /// a message of its own, too; an end has nothing to end there.
    fn write_thought<'a>(
        &mut self,
        id: &Json<'static>,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
        released: &mut ReleasedEvents<'a>,
    ) {
        let kind = event.kind;
        let thought_type = canonical_type.unwrap_or(kind.wire());
        let is_empty = event.get(Field::Delta).is_none_or(|delta| delta.is_str(""));
        let open =
            self.last_message.message_of_thought(id).filter(|message| self.last_message.is_last(message)).cloned();
        match (kind, open) {
            (EventType::ReasoningMessageStart, _) => {
                self.held_start = Some(HeldStart { event: event.into_owned(), canonical_type, is_part: false, now_ms });
            }
            (EventType::ReasoningMessageEnd, None) => {
                // A thought that was written in a message of the agent ended with its span.
                if self.last_message.end_left_thought(id) {
                    self.block_writer.rendered_members(id, kind, now_ms);
                    hide(event, Some(thought_type), released);
                }
            }
            (_, Some(message)) => self.write_thinking(id, event, thought_type, &message, now_ms, released),
            (_, None) if is_empty => hide(event, Some(thought_type), released),
            (_, None) => {
                let message = self.start_thought(id, &event, now_ms, released);
                self.add_boundary(EventType::TextMessageStart, &message, None, released);
                self.write_thinking(id, event, thought_type, &message, now_ms, released);
            }
        }
    }

    /// Writes the start of a thought, or carries it if its first piece does not follow at once.
    pub(super) fn release_thought(&mut self, start: HeldStart, next: &Event<'_>, released: &mut ReleasedEvents<'_>) {
        let HeldStart { event, canonical_type, now_ms, .. } = start;
        let id = message_id(&event.members);
        let has_text = next.get(Field::Delta).is_some_and(|delta| !delta.is_str(""));
        let is_same = next.get(Field::MessageId).is_some_and(|next| next.is_same(&id));
        if next.kind != EventType::ReasoningMessageContent || !has_text || !is_same {
            self.block_writer.rendered_members(&id, event.kind, time_of(&event, now_ms));
            self.last_message.postpone_thought(id);
            return hide(event, canonical_type, released);
        }
        let message = self.start_thought(&id, &event, now_ms, released);
        let thought_type = canonical_type.unwrap_or(event.kind.wire());
        let Some((row, mut outgoing)) = self.split_thought(event, thought_type, &message) else { return };
        let role = remove(&mut outgoing.members, Field::Role);
        outgoing.canonical.extend(role.map(|role| (MemberKey::Known(Field::Role), role)));
        self.block_writer.start_message(&mut outgoing);
        released.push(ReleasedEvent::Complete { row, outgoing });
    }

    fn start_thought(
        &mut self,
        id: &Json<'static>,
        event: &Event<'_>,
        now_ms: i64,
        released: &mut ReleasedEvents<'_>,
    ) -> Json<'static> {
        self.leave_message(released);
        let time = time_of(event, now_ms);
        self.block_writer.rendered_members(id, EventType::ReasoningMessageStart, time);
        let message = self.last_message.add_for(id);
        self.kept_messages.record_thought(id, &message);
        self.last_message.open_thought(OpenThought { id: id.clone(), message: message.clone(), time });
        message
    }

    fn write_thinking<'a>(
        &mut self,
        id: &Json<'static>,
        event: Event<'a>,
        canonical_type: &'static str,
        message: &Json<'static>,
        now_ms: i64,
        released: &mut ReleasedEvents<'a>,
    ) {
        let kind = event.kind;
        let time = time_of(&event, now_ms);
        self.last_message.set_thought_time(time);
        let mut data = self.block_writer.rendered_members(id, kind, time);
        if let Some(delta) = event.get(Field::Delta) {
            self.kept_messages.append_text(id, delta);
        }
        let pieces = event.get(Field::Delta).map(blocks::split_braces).unwrap_or_default();
        let Some((row, mut outgoing)) = self.split_thought(event, canonical_type, message) else { return };
        if !pieces.is_empty() {
            set_first_piece(&mut outgoing, &pieces);
        }
        let text = remove(&mut outgoing.members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
        outgoing.members.push((MemberKey::Known(Field::Delta), blocks::build_thinking(&text, &mut data)));
        self.block_writer.mark_nonempty(&outgoing);
        released.push(ReleasedEvent::Complete { row, outgoing });
        for piece in pieces.iter().skip(1) {
            self.add_thinking(id, message, piece, kind, time, released);
        }
        if kind == EventType::ReasoningMessageEnd {
            self.last_message.end_thought();
            self.last_message.end_left_thought(id);
            self.add_boundary(EventType::TextMessageEnd, message, None, released);
        }
    }

    /// Ends the open thought before another message: the client would show that it goes on for ever.
    pub(super) fn leave_thought(&mut self, released: &mut ReleasedEvents<'_>) {
        let Some(OpenThought { id, message, time }) = self.last_message.leave_thought() else { return };
        let kind = EventType::ReasoningMessageEnd;
        self.add_thinking(&id, &message, &Json::EMPTY_STRING, kind, time, released);
        self.add_boundary(EventType::TextMessageEnd, &message, None, released);
    }

    /// Writes a thinking block that is not an event of the agent.
    fn add_thinking(
        &mut self,
        id: &Json<'static>,
        message: &Json<'static>,
        text: &Json<'_>,
        kind: EventType,
        time: i64,
        released: &mut ReleasedEvents<'_>,
    ) {
        let mut data = self.block_writer.rendered_members(id, kind, time);
        let content = Event::new(EventType::TextMessageContent).with(Field::MessageId, message.clone());
        let block = blocks::build_thinking(text, &mut data);
        let delta = if blocks::has_braces(&block) { blocks::to_stored_content(&block) } else { block };
        let content = content.with(Field::Delta, delta);
        if let Some((row, outgoing)) = self.split_members(EventType::TextMessageContent, content, Some("")) {
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
    }

    /// Splits an event of a thought as one of a message of the client.
    fn split_thought<'a>(
        &self,
        mut event: Event<'a>,
        canonical_type: &'static str,
        message: &Json<'static>,
    ) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
        event.kind = match event.kind {
            EventType::ReasoningMessageStart => EventType::TextMessageStart,
            _ => EventType::TextMessageContent,
        };
        self.split_for(message, true, event, Some(canonical_type))
    }
}

/// Returns the time of an event in ms since the epoch.
fn time_of(event: &Event<'_>, now_ms: i64) -> i64 {
    event.get(Field::Timestamp).and_then(Json::as_i64).unwrap_or(now_ms)
}
