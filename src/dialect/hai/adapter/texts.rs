//! Writes text in blocks, each piece in the client's last message.

use super::{HaiAdapter, set_first_piece};
use crate::dialect::adapter::{DialectAdapter, ReleasedEvent, ReleasedEvents};
use crate::dialect::carry;
use crate::dialect::event_parts::{ABSENT_FIELDS, OutgoingEvent};
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::hai::blocks;
use crate::dialect::hai::last_message::{HeldStart, OpenText};
use crate::dialect::row::EventRow;
use crate::event::{Event, EventType, Field, Json, MemberKey, message_id, set};

impl HaiAdapter {
    /// Holds a start back: a client that gets another message before the text would have an empty one.
    pub(super) fn hold_start(&mut self, event: Event<'_>, canonical_type: Option<&'static str>) {
        let is_part = self.message_parts.is_last_a_part();
        let id = message_id(&event.members);
        // A note on an earlier event, or an earlier part, may have opened the message.
        if self.last_message.is_native() && self.block_writer.is_open(&id) {
            return self.block_writer.texts.start_text(&id, true);
        }
        self.held_start = Some(HeldStart { event: event.into_owned(), canonical_type, is_part });
    }

    /// Writes the start that was held back, or carries it if the next event adds a message.
    pub(super) fn release_start<'a>(&mut self, next: &Event<'_>, released: &mut ReleasedEvents<'a>) {
        let Some(HeldStart { event, canonical_type, is_part }) = self.held_start.take() else { return };
        let id = message_id(&event.members);
        let role = event.get_owned(Field::Role);
        let is_postponed = match next.kind {
            EventType::ToolCallStart => next.get(Field::ParentMessageId).is_some_and(|parent| !parent.is_same(&id)),
            kind => adds_message(kind),
        };
        if is_postponed && !self.last_message.is_native() {
            self.last_message.open_text(id, OpenText { role, message: None, is_added: true });
            return hide(event, canonical_type, released);
        }
        self.leave_thought(released);
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
        self.last_message.open_text(id, OpenText { role, message: Some(message), is_added: is_renamed });
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
        let (role, before) = text.map_or((None, None), |text| (text.role, text.message));
        if let Some(before) = before {
            self.add_boundary(EventType::TextMessageEnd, &before, None, released);
        } else {
            self.kept_messages.record_message(id);
        }
        self.leave_thought(released);
        let message = self.last_message.add_for(id);
        self.add_boundary(EventType::TextMessageStart, &message, role.as_ref(), released);
        self.last_message.open_text(id.clone(), OpenText { role, message: Some(message.clone()), is_added: true });
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
            released.push_event(rest.with(Field::Delta, piece), Some(""));
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
        let is_last = self.last_message.is_native() || self.last_message.is_last(&message);
        if is_last && self.block_writer.is_empty_end(&message) {
            let empty = Event::new(EventType::TextMessageContent).with(Field::MessageId, message.clone());
            released.push_event(empty.with(Field::Delta, Json::EMPTY_STRING), Some(""));
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

    /// Names the message of a call. A client adds a message for a call without one, and for a parent that is not its last
    /// message.
    pub(super) fn write_call_start<'a>(
        &mut self,
        mut call: Event<'a>,
        canonical_type: Option<&'static str>,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        self.record_call(&mut call, canonical_type);
        let parent = call.get_owned(Field::ParentMessageId);
        let shown = parent.as_ref().map(|parent| self.message_of(parent));
        match (shown, self.last_message.get().cloned()) {
            (None, Some(last)) if self.block_writer.is_open(&last) => {
                call.set(Field::ParentMessageId, last);
                if canonical_type != Some("") {
                    let absent = carry::field_list(&[Field::ParentMessageId]);
                    call.members.push((carry::extension_key(ABSENT_FIELDS), absent));
                }
            }
            (Some(shown), Some(last)) if shown == last => {
                if let Some(parent) = parent.filter(|parent| *parent != shown) {
                    call.set(Field::ParentMessageId, shown);
                    call.members.push((carry::extension_key(Field::ParentMessageId.camel()), parent));
                }
            }
            _ => {
                let message = parent.unwrap_or_else(|| call.get_or_empty(Field::ToolCallId));
                self.leave_thought(&mut released);
                self.last_message.add(&message);
                self.kept_messages.record_message(&message);
            }
        }
        released.with_event(call, canonical_type)
    }

    /// Marks a call whose parent a reader would take for another one.
    pub(super) fn record_call(&mut self, call: &mut Event<'_>, canonical_type: Option<&'static str>) {
        if canonical_type != Some("") {
            self.block_writer.record_call(call, self.message_parts.is_last_a_part());
        }
    }

    /// Ends what is open before the run fails: the client would show a thought that goes on for ever.
    pub(super) fn end_open_messages(&mut self, released: &mut ReleasedEvents<'_>) {
        self.leave_thought(released);
        let open: Vec<_> = self.block_writer.open_messages().cloned().collect();
        for message in open {
            self.add_boundary(EventType::TextMessageEnd, &message, None, released);
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

    /// Returns the client's message for one of the agent.
    fn message_of(&self, id: &Json<'static>) -> Json<'static> {
        let text = self.last_message.text(id).and_then(|text| text.message.clone());
        text.unwrap_or_else(|| id.clone())
    }
}

/// Returns true for events that add a message to the client even while a text is open.
const fn adds_message(kind: EventType) -> bool {
    kind.is_reasoning()
        || matches!(
            kind,
            EventType::TextMessageStart | EventType::ToolCallResult | EventType::MessagesSnapshot | EventType::RunError
        )
}

/// Writes an event that no message has as CUSTOM, or drops it if the agent did not send it.
pub(super) fn hide<'a>(event: Event<'a>, canonical_type: Option<&'static str>, released: &mut ReleasedEvents<'a>) {
    if canonical_type != Some("") {
        released.push(ReleasedEvent::AsCustomNoOp(restore_chunk(event, canonical_type)));
    }
}
