//! Joins the parts `M`, `M:2`, … of a message again, which reading split (`block_reader`), and restores the starts, ends
//! and empty texts that other events carry.

use super::blocks::{BEFORE, PART_END, REST};
use crate::codec::json;
use crate::dialect::carry;
use crate::event::{Event, EventType, Field, IdMap, Json, get, message_id};

#[derive(Debug, Default)]
pub(super) struct MessageParts {
    /// the message of each open part but the first
    origins: IdMap<Json<'static>>,
    /// messages whose text the client sees as open
    open_texts: IdMap<()>,
    /// whether the last start or call was one of a part
    is_last_a_part: bool,
}

impl MessageParts {
    /// Returns the event as one of the whole message; `None` if the message has no such event.
    pub(crate) fn join<'a>(&mut self, mut event: Event<'a>, dialect: &str) -> Option<Event<'a>> {
        match event.kind {
            EventType::TextMessageStart => {
                let id = message_id(&event.members);
                let origin = carry::carried_member(&event, dialect, Field::MessageId.camel());
                let origin = origin.filter(|origin| is_part_of(&id, origin));
                self.is_last_a_part = origin.is_some();
                if let Some(origin) = origin {
                    carry::take_carried(&mut event, dialect, Field::MessageId.camel());
                    event.set(Field::MessageId, origin.clone());
                    self.origins.insert(id, origin);
                }
                self.open_texts.insert(message_id(&event.members), ());
            }
            EventType::TextMessageContent => {
                self.restore_id(&mut event, dialect);
                if carry::take_carried(&mut event, dialect, REST).is_some() {
                    return None;
                }
            }
            EventType::TextMessageEnd => {
                let part = message_id(&event.members);
                self.restore_id(&mut event, dialect);
                self.origins.remove(&part);
                self.open_texts.remove(&message_id(&event.members));
                if carry::take_carried(&mut event, dialect, PART_END).is_some() {
                    return None;
                }
            }
            EventType::ToolCallStart => self.restore_parent(&mut event, dialect),
            _ => {}
        }
        Some(event)
    }

    /// Returns true if the last start or call was one of a part.
    pub(crate) fn is_last_a_part(&self) -> bool {
        self.is_last_a_part
    }

    fn restore_parent(&mut self, event: &mut Event<'_>, dialect: &str) {
        let name = Field::ParentMessageId.camel();
        let part = event.get_owned(Field::ParentMessageId);
        let origin = carry::carried_member(event, dialect, name);
        let origin = origin.filter(|origin| part.is_some_and(|part| is_part_of(&part, origin)));
        self.is_last_a_part = origin.is_some();
        if let Some(origin) = origin {
            carry::take_carried(event, dialect, name);
            event.set(Field::ParentMessageId, origin);
        }
    }

    fn restore_id(&self, event: &mut Event<'_>, dialect: &str) {
        if self.origins.is_empty() {
            return;
        }
        if let Some(origin) = event.get(Field::MessageId).and_then(|id| self.origins.get(id)) {
            event.set(Field::MessageId, origin.clone());
            carry::take_carried(event, dialect, Field::MessageId.camel());
        }
    }

    /// Returns true if reading ends a text part before another block of the message.
    pub(crate) fn is_text_open(&self, message: &Json<'_>) -> bool {
        self.open_texts.contains(message)
    }
}

/// Takes the starts, ends and empty texts that an event carries.
pub(super) fn take_boundaries(event: &mut Event<'_>, dialect: &str) -> Vec<Event<'static>> {
    let list = carry::take_carried(event, dialect, BEFORE);
    let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
    let boundary = |element: &Json<'_>| {
        let object = json::parse_object(element.as_str()).ok()?;
        let kind = EventType::from_wire(&object.kind?.text()?)?;
        let is_boundary = match kind {
            EventType::TextMessageStart | EventType::TextMessageEnd => true,
            EventType::TextMessageContent => get(&object.members, Field::Delta)?.is_str(""),
            _ => false,
        };
        is_boundary.then(|| Event { kind, members: crate::event::into_owned_members(object.members), source: None })
    };
    elements.iter().filter_map(boundary).collect()
}

/// Returns true if the id is that of a second or further part of the message.
pub(super) fn is_part_of(id: &Json<'_>, message: &Json<'_>) -> bool {
    let (Some(id), Some(message)) = (id.text(), message.text()) else { return false };
    let number = id.strip_prefix(&*message).and_then(|rest| rest.strip_prefix(':'));
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number > 1)
}
