//! Reads output blocks: they become text, and thinking before the text becomes reasoning. For one message `M`:
//! ```text
//!   start ──▶ Deferred ── thinking ──▶ CarriedBySpan, M:reasoning:n open or closed
//!                │                        │
//!                │ text, another          │ text, another output, the end
//!                │ output, the end,       │
//!                │ any other event        ▼
//!                └────────────────────▶ Sent (TEXT_MESSAGE_START)
//! ```
//! The start is deferred so that thinking comes before the message in the client's conversation. The reasoning span
//! carries the start in a note, so that writing can restore its position.

use super::block_activity::{BlockCounts, OutputBlock, is_activity_block};
use super::blocks::{
    DATA, DeltaContent, OUTPUT, START, TEXT, THINKING_MEMBERS, carry_delta, carry_members, check_thinking_text,
    has_text_member, parse_delta,
};
use super::members::block;
use crate::codec::json;
use crate::dialect::adapter::{CanonicalSink, UnreadableEvent};
use crate::dialect::carry;
use crate::dialect::event_parts::IncomingEvent;
use crate::event::input::ASSISTANT;
use crate::event::{
    Event, EventLoss, EventRepair, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get,
    message_id, remove,
};

#[derive(Debug, Default)]
pub(super) struct BlockReader {
    open_messages: IdMap<OpenMessage>,
    /// the message whose start is deferred: any event of another sends it
    deferred: Option<Json<'static>>,
    /// whether the run's first text was a block
    uses_blocks: Option<bool>,
    /// number of reasoning spans per closed message, to keep their ids unique if it opens again
    closed_spans: IdMap<u32>,
    blocks: BlockCounts,
}

#[derive(Debug)]
struct OpenMessage {
    id: Json<'static>,
    role: Option<Json<'static>>,
    start: StartState,
    span_id: Option<Json<'static>>,
    span_count: u32,
}

#[derive(Debug)]
enum StartState {
    Deferred(Event<'static>),
    CarriedBySpan(Event<'static>),
    Sent,
}

impl BlockReader {
    pub(crate) fn start_message(&mut self, event: Event<'_>, sink: &mut dyn CanonicalSink) {
        let id = message_id(&event.members);
        if self.open_messages.contains(&id) {
            return sink.count_loss(EventLoss::StrayBoundary);
        }
        let role = event.get_owned(Field::Role);
        self.open_message(id, role, event.into_owned());
    }

    fn open_message(&mut self, id: Json<'static>, role: Option<Json<'static>>, start: Event<'static>) {
        let span_count = self.closed_spans.remove(&id).unwrap_or_default();
        self.deferred = Some(id.clone());
        let start = StartState::Deferred(start);
        self.open_messages.insert(id.clone(), OpenMessage { id, role, start, span_id: None, span_count });
    }

    fn open_if_unknown(&mut self, event: &Event<'_>, sink: &mut dyn CanonicalSink) {
        if self.open_messages.contains(event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING)) {
            return;
        }
        sink.count_repair(EventRepair::OpenerSupplied);
        let id = message_id(&event.members);
        let start = Event::new(EventType::TextMessageStart).with(Field::MessageId, id.clone());
        self.open_message(id, None, start.with(Field::Role, Json::string(ASSISTANT)));
    }

    /// Reads text or a block, and opens the message if necessary.
    pub(crate) fn read_content(
        &mut self,
        parts: IncomingEvent<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        self.open_if_unknown(&parts.event, sink);
        // The start is sent or carried, for content of any kind.
        self.deferred = None;
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let Some(message) = self.open_messages.get_mut(id) else { return Err(UnreadableEvent) };
        if event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::String) {
            message.send_start(sink);
            if *self.uses_blocks.get_or_insert(false) {
                carry::add_note(&mut own, TEXT);
            }
            carry::pack(&mut event, dialect, own);
            sink.emit(event);
            return Ok(());
        }
        let value = event.remove(Field::Delta);
        match parse_delta(value.as_ref()) {
            DeltaContent::Block { kind, mut output, rest }
                if kind.is_str(block::TEXT) && has_text_member(&output, block::CONTENT) =>
            {
                message.send_start(sink);
                let text = carry::take(&mut output, block::CONTENT).map(Json::into_owned);
                let is_string_run = !*self.uses_blocks.get_or_insert(true);
                if is_string_run && output.is_empty() {
                    own.push((carry::extension_key(OUTPUT), Json::from_trusted("{}")));
                }
                carry_delta(&mut own, rest, output);
                event.set(Field::Delta, text.unwrap_or(Json::EMPTY_STRING));
                carry::pack(&mut event, dialect, own);
                sink.emit(event);
            }
            DeltaContent::Block { kind, mut output, rest }
                if kind.is_str(block::THINKING) && check_thinking_text(&output).is_some() =>
            {
                let data = carry::take(&mut output, block::DATA).unwrap_or(Json::NULL);
                carry_delta(&mut own, rest, output);
                message.read_thinking(event, own, &data, dialect, sink);
            }
            DeltaContent::Block { kind, output, rest } if is_activity_block(&kind) => {
                message.send_start(sink);
                let id = event.remove(Field::MessageId).map_or(Json::EMPTY_STRING, Json::into_owned);
                let block = OutputBlock { kind, members: output, delta_members: rest };
                let activity = self.blocks.read(id, block, &mut own, dialect);
                sink.emit(activity.into_event(event, own, dialect));
            }
            DeltaContent::Plain | DeltaContent::Block { .. } => {
                message.send_start(sink);
                return Err(UnreadableEvent);
            }
        }
        Ok(())
    }

    pub(crate) fn end_message(&mut self, event: Event<'_>, sink: &mut dyn CanonicalSink) {
        if let Some(mut message) = self.open_messages.remove(&message_id(&event.members)) {
            message.send_start(sink);
            if message.span_count > 0 {
                self.closed_spans.insert(message.id, message.span_count);
            }
        }
        sink.emit(event);
    }

    /// Drops the role from the end of a message; writing adds it again.
    pub(crate) fn drop_repeated_role(&self, parts: &mut IncomingEvent<'_>) {
        let open = self.open_messages.get(&message_id(&parts.event.members));
        let role = open.map(|message| message.role.clone().unwrap_or_else(|| Json::string(ASSISTANT)));
        if role.is_some() && role.as_ref() == get(&parts.extensions, Field::Role) {
            remove(&mut parts.extensions, Field::Role);
        }
    }

    /// Sends the deferred start, unless it is the one of the message `but`.
    pub(crate) fn send_deferred_start(&mut self, but: Option<&Json<'_>>, sink: &mut dyn CanonicalSink) {
        let Some(id) = self.deferred.take_if(|id| !but.is_some_and(|but| id.is_same(but))) else { return };
        if let Some(message) = self.open_messages.get_mut(&id)
            && matches!(message.start, StartState::Deferred(_))
        {
            message.send_start(sink);
        }
    }

    /// Sends the deferred starts; the run guard closes the messages.
    pub(crate) fn finish(&mut self, sink: &mut dyn CanonicalSink) {
        for (_, mut message) in self.open_messages.drain() {
            message.send_start(sink);
        }
    }
}

impl OpenMessage {
    fn send_start(&mut self, sink: &mut dyn CanonicalSink) {
        self.stop_thinking(sink);
        if let StartState::Deferred(start) | StartState::CarriedBySpan(start) =
            std::mem::replace(&mut self.start, StartState::Sent)
        {
            sink.emit(start);
        }
    }

    fn read_thinking(
        &mut self,
        event: Event<'_>,
        mut own: Members<'_>,
        data: &Json<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) {
        let mut data = json::parse_members(data).unwrap_or_default();
        let text = carry::take(&mut data, block::CONTENT).unwrap_or(Json::EMPTY_STRING);
        let ends = find_member(&data, block::THINKING).is_some_and(|value| value.as_str() == "false");
        carry_members(&mut own, &THINKING_MEMBERS, &data, DATA);
        let id = match &self.span_id {
            Some(id) => id.clone(),
            None => self.start_thinking(&event, dialect, sink),
        };
        let mut content = Event { kind: EventType::ReasoningMessageContent, ..event };
        content.set(Field::MessageId, id);
        content.set(Field::Delta, text.into_owned());
        carry::pack(&mut content, dialect, own);
        sink.emit(content);
        if ends {
            self.stop_thinking(sink);
        }
    }

    fn start_thinking(&mut self, event: &Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) -> Json<'static> {
        self.span_count += 1;
        let id = self.id.with_suffix(&format!(":reasoning:{}", self.span_count));
        let mut span = Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone());
        let mut own: Members<'_> = vec![(MemberKey::Known(Field::MessageId), self.id.clone())];
        let mut happened = event.get_owned(Field::Timestamp);
        self.start = match std::mem::replace(&mut self.start, StartState::Sent) {
            StartState::Deferred(start) => {
                own.push((carry::extension_key(START), json::to_object(&start.members)));
                happened = start.get(Field::Timestamp).cloned();
                StartState::CarriedBySpan(start)
            }
            later => later,
        };
        if let Some(timestamp) = happened {
            span.set(Field::Timestamp, timestamp);
        }
        carry::pack(&mut span, dialect, own);
        sink.emit(span);
        let start = Event::new(EventType::ReasoningMessageStart).with(Field::MessageId, id.clone());
        sink.emit(start.with(Field::Role, Json::string(crate::event::input::REASONING)));
        self.span_id = Some(id.clone());
        id
    }

    fn stop_thinking(&mut self, sink: &mut dyn CanonicalSink) {
        if let Some(id) = self.span_id.take() {
            sink.emit(Event::new(EventType::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            sink.emit(Event::new(EventType::ReasoningEnd).with(Field::MessageId, id));
        }
    }
}
