//! Reading: output blocks become text, and reasoning for the thinking that may come before it. One message `M`:
//! ```text
//!   start ──▶ Held ── thinking ──▶ Noted, a reasoning span M:reasoning:n open or closed
//!              │                     │
//!              │ text, another       │ text, another output, the end
//!              │ output, the end,    │
//!              │ any other event     ▼
//!              └─────────────────▶ Said (TEXT_MESSAGE_START has left)
//! ```
//! The start is held so that thinking which comes first stands first in the client's conversation. Only thinking overtakes
//! it: the span notes the start, so that the way back knows where it stood.

use super::{
    BlockCounts, DeltaContent, OUTPUT, OutputBlock, START, TEXT, carry_delta, carry_thinking_data, check_thinking_text,
    has_text_member, is_activity_block, parse_delta,
};
use crate::codec::json;
use crate::dialect::{Dialect, block};
use crate::event::input::ASSISTANT;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, get, message_id, remove};
use crate::translate::event_parts::IncomingEvent;
use crate::translate::event_repair::{EventLoss, EventRepair};
use crate::translate::{EventSink, carry};

/// A piece of content that is no string and no block.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::translate) struct UnreadableContent;

/// The reading side: messages that are open.
#[derive(Debug, Default)]
pub(in crate::translate) struct BlockReader {
    open_messages: Vec<OpenMessage>,
    /// whether the first text of the run came as a block
    uses_blocks: Option<bool>,
    /// how many reasoning spans a closed message had, for ids that stay unique when it is opened again
    closed_spans: Vec<(Json<'static>, u32)>,
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
    /// nobody has heard of it
    Deferred(Event<'static>),
    /// a reasoning span holds the note of it
    CarriedBySpan(Event<'static>),
    /// it has left
    Sent,
}

impl BlockReader {
    /// BUSINESS_DATA_START and the like.
    pub(crate) fn start_message(&mut self, event: Event<'_>, sink: &mut impl EventSink) {
        let id = message_id(&event.members);
        if self.position(&id).is_some() {
            return sink.report().count_loss(EventLoss::StrayBoundary);
        }
        let role = event.get(Field::Role).cloned().map(Json::into_owned);
        self.open_message(id, role, event.into_owned());
    }

    fn position(&self, id: &Json<'_>) -> Option<usize> {
        self.open_messages.iter().position(|message| message.id.is_same(id))
    }

    fn open_message(&mut self, id: Json<'static>, role: Option<Json<'static>>, start: Event<'static>) -> usize {
        let spans = match self.closed_spans.iter().position(|(known, _)| known.is_same(&id)) {
            Some(at) => self.closed_spans.swap_remove(at).1,
            None => 0,
        };
        // Most agents have one message open at a time.
        self.open_messages.reserve_exact(1);
        self.open_messages.push(OpenMessage {
            id,
            role,
            start: StartState::Deferred(start),
            span_id: None,
            span_count: spans,
        });
        self.open_messages.len() - 1
    }

    /// One piece of content.
    ///
    /// # Errors
    /// When it is nothing that a block or a text says: the message is open then, and the piece has to travel whole.
    pub(crate) fn read_content(
        &mut self,
        parts: IncomingEvent<'_>,
        of: &Dialect,
        sink: &mut impl EventSink,
    ) -> Result<(), UnreadableContent> {
        let dialect = of.name;
        let nameless = Json::from_trusted("\"\"");
        let at = match self.position(parts.event.get(Field::MessageId).unwrap_or(&nameless)) {
            Some(at) => at,
            None => {
                sink.report().count_repair(EventRepair::OpenerSupplied);
                let id = message_id(&parts.event.members);
                let start = Event::new(EventType::TextMessageStart).with(Field::MessageId, id.clone());
                self.open_message(id, None, start.with(Field::Role, Json::string(ASSISTANT)))
            }
        };
        let message = &mut self.open_messages[at];
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        if event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::String) {
            message.send_start(sink);
            if *self.uses_blocks.get_or_insert(false) {
                own.push((carry::extension_key(TEXT), Json::from_trusted("true")));
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
                let strings = !*self.uses_blocks.get_or_insert(true);
                if strings && output.is_empty() {
                    own.push((carry::extension_key(OUTPUT), Json::from_trusted("{}")));
                }
                carry_delta(&mut own, rest, output);
                event.set(Field::Delta, text.unwrap_or_else(|| Json::string("")));
                carry::pack(&mut event, dialect, own);
                sink.emit(event);
            }
            DeltaContent::Block { kind, mut output, rest }
                if kind.is_str(block::THINKING) && check_thinking_text(&output).is_some() =>
            {
                let data = carry::take(&mut output, block::DATA).unwrap_or(Json::NULL);
                let mut data = json::parse_members(&data).unwrap_or_default();
                let text = carry::take(&mut data, block::CONTENT).unwrap_or_else(|| Json::string(""));
                let ends =
                    data.iter().any(|(key, value)| carry::is_named(key, block::THINKING) && value.as_str() == "false");
                carry_delta(&mut own, rest, output);
                carry_thinking_data(&mut own, &data);
                message.send_thinking(event, own, text, dialect, sink);
                if ends {
                    message.stop_thinking(sink);
                }
            }
            DeltaContent::Block { kind, output, rest } if is_activity_block(&kind) => {
                message.send_start(sink);
                let message = event.remove(Field::MessageId).map_or_else(|| Json::string(""), Json::into_owned);
                let shown =
                    self.blocks.read(message, OutputBlock { kind, members: output, delta_members: rest }, &mut own, of);
                sink.emit(shown.into_event(event, own, of));
            }
            DeltaContent::Plain | DeltaContent::Block { .. } => {
                message.send_start(sink);
                return Err(UnreadableContent);
            }
        }
        Ok(())
    }

    /// BUSINESS_DATA_END and the like.
    pub(crate) fn end_message(&mut self, event: Event<'_>, sink: &mut impl EventSink) {
        if let Some(at) = self.position(&message_id(&event.members)) {
            let mut message = self.open_messages.remove(at);
            message.send_start(sink);
            if message.span_count > 0 {
                self.closed_spans.push((message.id, message.span_count));
            }
        }
        sink.emit(event);
    }

    /// An end that says the role of its start again says nothing: writing adds it back.
    pub(crate) fn drop_repeated_role(&self, parts: &mut IncomingEvent<'_>) {
        let start = self.position(&message_id(&parts.event.members)).map(|at| self.open_messages[at].role.clone());
        let said = start.map(|role| role.unwrap_or_else(|| Json::string(ASSISTANT)));
        if said.is_some() && said.as_ref() == get(&parts.extensions, Field::Role) {
            remove(&mut parts.extensions, Field::Role);
        }
    }

    /// Says every start that an event would overtake, unless it is an event of the message `but` itself.
    pub(crate) fn send_deferred_starts(&mut self, but: Option<&Json<'_>>, sink: &mut impl EventSink) {
        for message in &mut self.open_messages {
            if matches!(message.start, StartState::Deferred(_)) && !but.is_some_and(|but| message.id.is_same(but)) {
                message.send_start(sink);
            }
        }
    }

    /// Says every start that is still held; the run guard closes the messages.
    pub(crate) fn finish(&mut self, sink: &mut impl EventSink) {
        for mut message in self.open_messages.drain(..) {
            message.send_start(sink);
        }
    }
}

impl OpenMessage {
    fn send_start(&mut self, sink: &mut impl EventSink) {
        self.stop_thinking(sink);
        if let StartState::Deferred(start) | StartState::CarriedBySpan(start) =
            std::mem::replace(&mut self.start, StartState::Sent)
        {
            sink.emit(start);
        }
    }

    fn send_thinking(
        &mut self,
        event: Event<'_>,
        own: Members<'_>,
        text: Json<'_>,
        dialect: &str,
        sink: &mut impl EventSink,
    ) {
        let id = match &self.span_id {
            Some(id) => id.clone(),
            None => self.start_thinking(&event, dialect, sink),
        };
        let mut content = Event { kind: EventType::ReasoningMessageContent, ..event };
        content.set(Field::MessageId, id);
        content.set(Field::Delta, text.into_owned());
        carry::pack(&mut content, dialect, own);
        sink.emit(content);
    }

    fn start_thinking(&mut self, event: &Event<'_>, dialect: &str, sink: &mut impl EventSink) -> Json<'static> {
        self.span_count += 1;
        let id = self.id.with_suffix(&format!(":reasoning:{}", self.span_count));
        let mut span = Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone());
        let mut own: Members<'_> = vec![(MemberKey::Known(Field::MessageId), self.id.clone())];
        let mut happened = event.get(Field::Timestamp).cloned().map(Json::into_owned);
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

    fn stop_thinking(&mut self, sink: &mut impl EventSink) {
        if let Some(id) = self.span_id.take() {
            sink.emit(Event::new(EventType::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            sink.emit(Event::new(EventType::ReasoningEnd).with(Field::MessageId, id));
        }
    }
}
