//! An open message of the agent, and what of it the client has open: a part of its text, or its reasoning.

use super::blocks::{BEFORE, PART_END};
use super::shown_items::ShownItems;
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::carry;
use crate::event::input::REASONING;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members};

#[derive(Debug)]
pub(super) struct OpenMessage {
    pub(crate) id: Json<'static>,
    pub(crate) role: Option<Json<'static>>,
    pub(crate) start: StartState,
    /// the id of the text part that is open
    pub(crate) part_id: Option<Json<'static>>,
    /// the id of the reasoning that is open
    pub(crate) span_id: Option<Json<'static>>,
    pub(crate) history: MessageHistory,
}

#[derive(Debug)]
pub(super) enum StartState {
    /// among the pending boundaries
    Pending,
    /// carried by another event, before any text
    Carried(Event<'static>),
    Sent,
}

/// Remains of a message, in case that its id is used again.
#[derive(Debug, Default)]
pub(super) struct MessageHistory {
    pub(crate) has_output: bool,
    pub(crate) span_count: u32,
    /// number of the last text part
    pub(crate) part_count: u32,
    /// whether something else followed the last text
    pub(crate) is_split: bool,
    /// what was shown before the last text or thinking
    pub(crate) shown: ShownItems,
}

/// Sends events, the first of which carries the pending boundaries.
pub(super) struct BoundaryCarrier<'s> {
    pub(crate) note: Option<Json<'static>>,
    pub(crate) dialect: &'s str,
    pub(crate) sink: &'s mut dyn CanonicalSink,
}

/// Returns the id of a message's text part.
pub(super) fn id_of_part(message: &Json<'_>, number: u32) -> Json<'static> {
    if number == 1 { message.clone().into_owned() } else { message.with_suffix(&format!(":{number}")) }
}

impl BoundaryCarrier<'_> {
    pub(crate) fn emit(&mut self, mut event: Event<'_>) {
        if let Some(note) = self.note.take() {
            carry::pack(&mut event, self.dialect, vec![(carry::extension_key(BEFORE), note)]);
        }
        self.sink.emit(event);
    }
}

impl OpenMessage {
    /// Returns true if neither this message nor an earlier one with its id had any output.
    pub(crate) fn is_empty(&self) -> bool {
        !self.history.has_output && !matches!(self.start, StartState::Sent)
    }

    /// Returns true if the end of the message ends nothing that the client has.
    pub(crate) fn is_silent(&self) -> bool {
        self.part_id.is_none() && self.span_id.is_none()
    }

    /// Ends the open text part, since something else follows.
    pub(crate) fn end_part(&mut self, out: &mut BoundaryCarrier<'_>) {
        self.history.is_split = self.history.part_count > 0;
        let Some(part_id) = self.part_id.take() else { return };
        let mut own = Members::new();
        carry::add_note(&mut own, PART_END);
        if part_id != self.id {
            own.push((MemberKey::Known(Field::MessageId), self.id.clone()));
        }
        let mut end = Event::new(EventType::TextMessageEnd).with(Field::MessageId, part_id);
        carry::pack(&mut end, out.dialect, own);
        out.emit(end);
    }

    pub(crate) fn start_thinking(&mut self, event: &Event<'_>, out: &mut BoundaryCarrier<'_>) -> Json<'static> {
        self.history.span_count += 1;
        let id = self.id.with_suffix(&format!(":reasoning:{}", self.history.span_count));
        let mut span = Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone());
        // Thinking begins with the message if nothing else comes first.
        let began = match &self.start {
            StartState::Carried(start) if out.note.is_some() => start.get(Field::Timestamp).cloned(),
            _ => event.get_owned(Field::Timestamp),
        };
        if let Some(timestamp) = began {
            span.set(Field::Timestamp, timestamp);
        }
        carry::pack(&mut span, out.dialect, vec![(MemberKey::Known(Field::MessageId), self.id.clone())]);
        out.emit(span);
        let start = Event::new(EventType::ReasoningMessageStart).with(Field::MessageId, id.clone());
        out.emit(start.with(Field::Role, Json::string(REASONING)));
        self.span_id = Some(id.clone());
        id
    }

    pub(crate) fn stop_thinking(&mut self, out: &mut BoundaryCarrier<'_>) {
        if let Some(id) = self.span_id.take() {
            out.emit(Event::new(EventType::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            out.emit(Event::new(EventType::ReasoningEnd).with(Field::MessageId, id));
        }
    }
}
