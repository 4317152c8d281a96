//! Writes text in blocks, each piece in the client's last message.

use super::{HaiWriter, set_first_piece};
use crate::dialect::adapter::{DialectAdapter, ReleasedEvent, ReleasedEvents};
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::hai::blocks::{self, has_braces, to_stored_content};
use crate::dialect::hai::joined_blocks::text_block;
use crate::dialect::hai::last_message::{HeldStart, OpenText};
use crate::dialect::row::EventRow;
use crate::event::{Event, EventType, Field, Json, MemberKey, message_id, set};

impl HaiWriter {
    /// Holds a start back: a client that gets another message before the text would have an empty one.
    pub(super) fn hold_start(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, now_ms: i64) {
        let is_part = self.message_parts.is_last_a_part();
        let id = message_id(&event.members);
        // A note on an earlier event, or an earlier part, may have opened the message.
        if self.last_message.is_native() && self.block_writer.is_open(&id) {
            return self.block_writer.texts.start_text(&id, true);
        }
        self.held_start = Some(HeldStart { event: event.into_owned(), canonical_type, is_part, now_ms });
    }

    /// Writes the start that was held back, or carries it if the next event adds a message.
    pub(super) fn release_start<'a>(&mut self, next: &Event<'_>, released: &mut ReleasedEvents<'a>) {
        let Some(held) = self.held_start.take() else { return };
        if held.event.kind == EventType::ReasoningMessageStart {
            return self.release_thought(held, next, released);
        }
        let HeldStart { event, canonical_type, is_part, .. } = held;
        let id = message_id(&event.members);
        let role = event.get_owned(Field::Role);
        let is_native = self.last_message.is_native();
        let has_call = next.kind == EventType::ToolCallStart
            && next.get(Field::ParentMessageId).is_none_or(|parent| parent.is_same(&id));
        if has_call && !is_native {
            // The client makes a message for the call, and shows none that is empty.
            self.leave_message(released);
            self.kept_messages.record_message(&id);
            self.last_message.add_for_call(&id);
            self.last_message.open_text(id, OpenText { role, message: None, is_added: true, has_begun: true });
            return hide(event, canonical_type, released);
        }
        let is_of_other = next.kind == EventType::TextMessageContent
            && next.get(Field::MessageId).is_some_and(|message| !message.is_same(&id));
        if !is_native && (adds_message(next.kind) || is_of_other) {
            self.last_message.open_text(id, OpenText { role, message: None, is_added: true, has_begun: false });
            return hide(event, canonical_type, released);
        }
        self.leave_message(released);
        self.kept_messages.record_message(&id);
        let message = match self.last_message.is_native() {
            true => {
                self.last_message.add(&id);
                id.clone()
            }
            false => self.last_message.add_for(&id),
        };
        let is_renamed = message != id;
        if canonical_type.is_none() && !is_renamed {
            self.block_writer.texts.start_text(&id, is_part);
        }
        if let Some((row, mut outgoing)) = self.split_for(&message, is_renamed, event, canonical_type) {
            self.block_writer.start_message(&mut outgoing);
            self.is_start_next = canonical_type.is_none() && !is_renamed;
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        let text = OpenText { role, message: Some(message), is_added: is_renamed, has_begun: true };
        self.last_message.open_text(id, text);
    }

    /// Writes text in the last message, divided where a client would change it.
    pub(super) fn write_text_piece<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let added = match self.last_message.text(id) {
            Some(OpenText { message: Some(message), is_added, .. })
                if self.last_message.is_native() || self.last_message.is_last(message) =>
            {
                is_added.then(|| message.clone())
            }
            Some(_) if event.get(Field::Delta).is_some_and(|delta| delta.is_str("")) => {
                hide(event, canonical_type, &mut released);
                return released;
            }
            Some(_) => Some(self.continue_text(&id.clone().into_owned(), &mut released)),
            None => None,
        };
        self.write_pieces(event, canonical_type, added.as_ref(), &mut released);
        released
    }

    /// Starts a message for a text whose own is not the last one.
    fn continue_text(&mut self, id: &Json<'static>, released: &mut ReleasedEvents<'_>) -> Json<'static> {
        let text = self.last_message.close_text(id);
        let (role, has_begun) = text.map_or((None, false), |text| (text.role, text.has_begun));
        if !has_begun {
            self.kept_messages.record_message(id);
        }
        self.leave_message(released);
        let message = self.last_message.add_for(id);
        self.add_boundary(EventType::TextMessageStart, &message, role.as_ref(), released);
        let text = OpenText { role, message: Some(message.clone()), is_added: true, has_begun: true };
        self.last_message.open_text(id.clone(), text);
        message
    }

    /// Writes a text, or its pieces, in a message that was `added` for it, or else in the agent's.
    fn write_pieces<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        added: Option<&Json<'static>>,
        released: &mut ReleasedEvents<'a>,
    ) {
        let pieces = event.get(Field::Delta).map(blocks::split_braces).unwrap_or_default();
        if pieces.is_empty() && added.is_none() {
            return released.push_event(event, canonical_type);
        }
        let message = added.cloned().unwrap_or_else(|| message_id(&event.members));
        let is_added = added.is_some();
        let Some((row, mut outgoing)) = self.split_for(&message, is_added, event, canonical_type) else { return };
        let is_split = !blocks::has_original_form(&outgoing.extensions);
        if is_split {
            set_first_piece(&mut outgoing, &pieces);
        }
        if is_added {
            self.write_text(&mut outgoing);
        } else {
            // A start that is released with it is sent with it by a reader.
            self.is_start_next = false;
            self.write(row, &mut outgoing);
        }
        released.push(ReleasedEvent::Complete { row, outgoing });
        for piece in pieces.into_iter().skip(1).filter(|_| is_split) {
            let rest = Event::new(EventType::TextMessageContent).with(Field::MessageId, message.clone());
            if !has_braces(&piece) {
                released.push_event(rest.with(Field::Delta, piece), Some(""));
                continue;
            }
            let rest = rest.with(Field::Delta, to_stored_content(&text_block(&piece)));
            if let Some((row, outgoing)) = self.split_members(rest.kind, rest, Some("")) {
                released.push(ReleasedEvent::Complete { row, outgoing });
            }
        }
    }

    pub(super) fn write_text_end<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let (message, is_added) = match self.last_message.close_text(&id) {
            Some(OpenText { message: None, .. }) => {
                hide(event, canonical_type, &mut released);
                return released;
            }
            Some(OpenText { message: Some(message), is_added, .. }) => (message, is_added),
            None => (id, false),
        };
        // The component of the seed parses the content of the last message at each end, and fails if that is empty.
        if self.last_message.is_native() || self.last_message.is_last(&message) {
            self.fill_empty(&message, &mut released);
        }
        if !is_added {
            return released.with_event(event, canonical_type);
        }
        if let Some((row, outgoing)) = self.split_for(&message, is_added, event, canonical_type) {
            self.block_writer.close_message(&message);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        released
    }

    /// Ends what is open before the run fails: the client would show a thought that goes on for ever.
    pub(super) fn end_open_messages(&mut self, released: &mut ReleasedEvents<'_>) {
        self.leave_thought(released);
        let open: Vec<_> = self.block_writer.open_messages().cloned().collect();
        for message in open {
            self.add_boundary(EventType::TextMessageEnd, &message, None, released);
        }
    }

    /// Ends the open message before another one. Text that comes later goes on in a message of its own.
    pub(super) fn leave_message(&mut self, released: &mut ReleasedEvents<'_>) {
        self.leave_thought(released);
        if self.last_message.is_native() {
            return;
        }
        if let Some(message) = self.last_message.leave_text() {
            self.fill_empty(&message, released);
            self.add_boundary(EventType::TextMessageEnd, &message, None, released);
        }
    }

    /// Writes an empty text in a message that has none and ends now.
    fn fill_empty(&self, message: &Json<'static>, released: &mut ReleasedEvents<'_>) {
        if self.block_writer.is_empty_end(message) {
            let empty = Event::new(EventType::TextMessageContent).with(Field::MessageId, message.clone());
            released.push_event(empty.with(Field::Delta, Json::EMPTY_STRING), Some(""));
        }
    }

    /// Writes the start or the end of a message that the agent did not send.
    pub(super) fn add_boundary(
        &mut self,
        kind: EventType,
        message: &Json<'static>,
        role: Option<&Json<'static>>,
        released: &mut ReleasedEvents<'_>,
    ) {
        let mut event = Event::new(kind).with(Field::MessageId, message.clone());
        role.into_iter().for_each(|role| event.set(Field::Role, role.clone()));
        let Some((row, mut outgoing)) = self.split_members(kind, event, Some("")) else { return };
        match kind {
            EventType::TextMessageStart => self.block_writer.start_message(&mut outgoing),
            _ => self.block_writer.end_message(&mut outgoing),
        }
        released.push(ReleasedEvent::Complete { row, outgoing });
    }

    /// Splits an event for a message of the client. If the agent did not start that one, reading must not take the event
    /// for a part of it, so type and id are carried.
    pub(super) fn split_for<'a>(
        &self,
        message: &Json<'static>,
        is_added: bool,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
        let kind = event.kind;
        let id = message_id(&event.members);
        let (row, mut outgoing) = self.split_members(kind, event, canonical_type)?;
        let is_carried = is_added && canonical_type != Some("");
        if is_carried {
            outgoing.canonical_type = Some(canonical_type.unwrap_or(kind.wire()));
        }
        if id != *message {
            set(&mut outgoing.members, MemberKey::Known(Field::MessageId), message.clone());
            outgoing.canonical.extend(is_carried.then_some((MemberKey::Known(Field::MessageId), id)));
        }
        Some((row, outgoing))
    }
}

/// Returns true for events that add a message to the client even while a text is open.
const fn adds_message(kind: EventType) -> bool {
    kind.is_reasoning()
        || matches!(
            kind,
            EventType::TextMessageStart
                | EventType::ToolCallStart
                | EventType::ToolCallResult
                | EventType::MessagesSnapshot
                | EventType::RunError
        )
}

/// Writes an event that no message has as CUSTOM, or drops it if the agent did not send it.
pub(super) fn hide<'a>(event: Event<'a>, canonical_type: Option<&'static str>, released: &mut ReleasedEvents<'a>) {
    if canonical_type != Some("") {
        released.push(ReleasedEvent::AsCustomNoOp(restore_chunk(event, canonical_type)));
    }
}
