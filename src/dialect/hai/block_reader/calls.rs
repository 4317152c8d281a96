//! The parent messages of calls.
//!
//! A client shows a call in its parent message, so the parent is the last part of the message that the agent names, or
//! the next one if something else stands behind that. A call of a message without text makes its first part:
//! ```text
//!   HAI       text "a" of M   table        call of M            text "b" of M
//!   AG-UI     M: "a"          M:block:1    call of M:2          M:3: "b"
//! ```

use super::BlockReader;
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::carry;
use crate::dialect::hai::continued_texts::OWN_PARENT;
use crate::dialect::hai::open_message::{MessageHistory, StartState, id_of_part};
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey};

impl BlockReader {
    /// Gives a call the part of its parent message, which starts first.
    pub(super) fn read_call(&mut self, call: &mut Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let is_own_parent = carry::take(&mut call.members, OWN_PARENT).is_some();
        let parent = call.get_owned(Field::ParentMessageId).filter(|parent| parent.json_type() == JsonType::String);
        if let Some(parent) = parent {
            let part = self.part_of_call(&parent, is_own_parent, dialect, sink);
            if part != parent {
                call.set(Field::ParentMessageId, part);
                carry::pack(call, dialect, vec![(MemberKey::Known(Field::ParentMessageId), parent)]);
            }
        }
        self.shown.count_call();
    }

    fn part_of_call(
        &mut self,
        parent: &Json<'static>,
        is_own_parent: bool,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Json<'static> {
        let shown = self.shown;
        let open = self.open_messages.get(parent);
        let must_start = open.is_some_and(|message| !matches!(message.start, StartState::Sent));
        let Some(history) = open.map(|message| &message.history).or_else(|| self.closed_messages.get(parent)) else {
            if !self.part_ids.contains(parent) {
                let history = MessageHistory { has_output: true, part_count: 1, shown, ..MessageHistory::default() };
                self.closed_messages.insert(parent.clone(), history);
            }
            return parent.clone();
        };
        let is_behind = history.part_count > 0 && (history.is_split || history.shown.others != shown.others);
        let number = history.part_count.max(1);
        if is_own_parent || !is_behind {
            if must_start {
                self.start_part(parent, dialect, sink);
            }
            self.history_mut(parent).into_iter().for_each(|history| history.part_count = history.part_count.max(1));
            return if is_own_parent { parent.clone() } else { id_of_part(parent, number) };
        }
        let (number, part) = self.next_part(parent, number);
        self.part_ids.insert(part.clone(), ());
        if let Some(history) = self.history_mut(parent) {
            (history.part_count, history.is_split, history.shown) = (number, false, shown);
        }
        part
    }

    /// Returns the next part whose id no message of the agent has.
    pub(super) fn next_part(&self, message: &Json<'_>, last_number: u32) -> (u32, Json<'static>) {
        let mut number = last_number.saturating_add(1);
        loop {
            let part = id_of_part(message, number);
            if number == 1 || !(self.open_messages.contains(&part) || self.closed_messages.contains(&part)) {
                return (number, part);
            }
            number += 1;
        }
    }

    /// Records that the text goes on in its part, as a gateway noted, whatever stands between.
    pub(super) fn continue_text(&mut self, event: &Event<'_>) {
        let message = self.open_messages.get_mut(event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING));
        message.into_iter().for_each(|message| message.history.shown = self.shown);
    }

    fn history_mut(&mut self, message: &Json<'_>) -> Option<&mut MessageHistory> {
        let open = self.open_messages.get_mut(message).map(|message| &mut message.history);
        open.or_else(|| self.closed_messages.get_mut(message))
    }

    /// Prepares an event that the agent sends under AG-UI's name.
    pub(crate) fn read_ag_ui_name(&mut self, event: &mut Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        match event.kind {
            EventType::ToolCallChunk if event.get(Field::ToolCallName).is_some() => {
                self.read_call(event, dialect, sink);
            }
            EventType::ReasoningStart | EventType::ReasoningMessageStart | EventType::ReasoningMessageChunk => {
                self.shown.count_other();
            }
            EventType::ActivitySnapshot => {
                // One that replaces an earlier one stays in the place of that.
                let id = event.get_owned(Field::MessageId).unwrap_or(Json::EMPTY_STRING);
                if self.activities.insert(id, ()).is_none() {
                    self.shown.count_other();
                }
            }
            _ => {}
        }
    }

    /// Counts a message between agents, which stands behind the texts before it.
    pub(crate) fn count_collaboration(&mut self) {
        self.shown.count_other();
    }
}
