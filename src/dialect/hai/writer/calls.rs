//! Writes calls, each in a message of the client.

use super::HaiWriter;
use super::texts::hide;
use crate::dialect::adapter::ReleasedEvents;
use crate::dialect::carry;
use crate::dialect::event_parts::ABSENT_FIELDS;
use crate::event::{Event, Field};

impl HaiWriter {
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
        let shown = parent.as_ref().map(|parent| self.last_message.message_of(parent));
        match (shown, self.last_message.get().cloned()) {
            (None, Some(last)) if self.block_writer.is_open(&last) || self.last_message.takes_calls(&last) => {
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
            (shown, _) => {
                self.leave_message(&mut released);
                let message = shown.unwrap_or_else(|| call.get_or_empty(Field::ToolCallId));
                self.kept_messages.record_message(&message);
                // In the client's message of an earlier run, the call would stand before later messages.
                let is_earlier =
                    parent.is_some() && !self.last_message.is_native() && self.last_message.is_earlier(&message);
                let message = match is_earlier {
                    true => self.last_message.add_for_call(&message),
                    false => {
                        self.last_message.add(&message);
                        message
                    }
                };
                if let Some(parent) = parent.filter(|parent| *parent != message) {
                    call.set(Field::ParentMessageId, message);
                    call.members.push((carry::extension_key(Field::ParentMessageId.camel()), parent));
                }
            }
        }
        if !self.last_message.is_native() {
            self.open_calls.start(&call);
        }
        released.with_event(call, canonical_type)
    }

    /// Writes arguments, unless the client does not have the call: it would fail.
    pub(super) fn write_call_arguments<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        if self.open_calls.add_arguments(&event) {
            return released.with_event(event, canonical_type);
        }
        hide(event, canonical_type, &mut released);
        released
    }

    /// Writes a snapshot, and behind it again the open calls that it lacks.
    pub(super) fn write_snapshot<'a>(
        &mut self,
        snapshot: Event<'a>,
        mut released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        if self.open_calls.is_empty() {
            return released.with_event(snapshot, None);
        }
        let missing = self.open_calls.missing_events(&snapshot);
        released.push_event(snapshot, None);
        for event in missing {
            if let Some(message) = event.get(Field::ParentMessageId).or(event.get(Field::ToolCallId)) {
                self.last_message.add(message);
            }
            released.push_event(event, Some(""));
        }
        released
    }

    /// Marks a call whose parent a reader would take for another one.
    pub(super) fn record_call(&mut self, call: &mut Event<'_>, canonical_type: Option<&'static str>) {
        if canonical_type != Some("") {
            self.block_writer.record_call(call, self.message_parts.is_last_a_part());
        }
    }
}
