//! Marks what reading would take for the next part of a message, although AG-UI has it in the message itself.
//!
//! ```text
//!   AG-UI   START M  text "a"  call c  text "b"                                  END M
//!   HAI     START M  text "a"  call c  text "b" {extra: {ag-ui: {messageId: M}}}  END M
//! ```
//! Without the mark, reading would begin the part `M:2` behind the call (`block_reader`). A HAI agent's parts, which
//! writing joins (`message_parts`), get no mark. [`OWN_PARENT`] marks a call in the same way.

use super::shown_items::ShownItems;
use crate::dialect::carry;
use crate::dialect::event_parts::OutgoingEvent;
use crate::event::{Event, Field, IdMap, Json, MemberKey, get};

/// Marks, under `extra["ag-ui"]`, a call whose parent is the message itself, not a part of it.
pub(super) const OWN_PARENT: &str = "$parent";

#[derive(Debug, Default)]
pub(super) struct ContinuedTexts {
    shown: ShownItems,
    /// the messages that a client has
    messages: IdMap<WrittenMessage>,
}

#[derive(Debug)]
struct WrittenMessage {
    /// what was shown before its last text; `None` if one of its blocks is behind that
    shown: Option<ShownItems>,
    /// whether it has text or a call
    has_part: bool,
}

impl ContinuedTexts {
    /// Records a message that starts, unless the client has it.
    pub(crate) fn start_message(&mut self, message: &Json<'_>) {
        if !self.messages.contains(message) {
            let written = WrittenMessage { shown: Some(self.shown), has_part: false };
            self.messages.insert(message.clone().into_owned(), written);
        }
    }

    /// Records the start of a text. If `is_part`, reading begins a part, too.
    pub(crate) fn start_text(&mut self, message: &Json<'_>, is_part: bool) {
        self.start_message(message);
        let Some(written) = self.messages.get_mut(message) else { return };
        written.has_part = true;
        if is_part {
            written.shown = Some(self.shown);
        }
    }

    /// Records a block that the dialect sent behind the texts of a message.
    pub(crate) fn split(&mut self, message: &Json<'_>) {
        let written = self.messages.get_mut(message).filter(|written| written.has_part);
        written.into_iter().for_each(|written| written.shown = None);
    }

    pub(crate) fn mark_text(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        if self.shown == ShownItems::default() || outgoing.canonical_type.is_some() {
            return;
        }
        // An empty text begins no part.
        let has_text = get(&outgoing.members, Field::Delta).is_some_and(|delta| !delta.is_str(""));
        let Some(message) = get(&outgoing.members, Field::MessageId).filter(|_| has_text) else { return };
        let Some(written) = self.messages.get_mut(message).filter(|written| written.shown != Some(self.shown)) else {
            return;
        };
        written.shown = Some(self.shown);
        let message = message.clone();
        outgoing.canonical.push((MemberKey::Known(Field::MessageId), message));
    }

    /// Marks a call if necessary. `is_part` means that the call was in a part, which reading finds again. Returns the
    /// parent if a client makes it for the call.
    pub(crate) fn mark_call(&mut self, call: &mut Event<'_>, is_part: bool) -> Option<Json<'static>> {
        let shown = self.shown;
        self.shown.count_call();
        let parent = call.get_owned(Field::ParentMessageId)?;
        let Some(written) = self.messages.get_mut(&parent) else {
            self.messages.insert(parent.clone(), WrittenMessage { shown: Some(shown), has_part: true });
            return Some(parent);
        };
        let is_behind = written.shown.is_none_or(|before| before.others != shown.others);
        if is_behind && written.has_part && !is_part {
            carry::add_note(&mut call.members, OWN_PARENT);
        }
        written.has_part = true;
        None
    }

    pub(crate) fn count_other(&mut self) {
        self.shown.count_other();
    }
}
