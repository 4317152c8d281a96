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

use super::{Block, Blocks, Delta, OUTPUT, START, TEXT, delta, is_text, keep_data, keep_delta, takes, thinking_text};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Dialect, block};
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, message_id, remove};
use crate::translate::read::Parts;
use crate::translate::report::{Loss, Repair};
use crate::translate::{Sink, carry};

/// A piece of content that is no string and no block.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::translate) struct NoText;

/// The reading side: messages that are open.
#[derive(Debug, Default)]
pub(in crate::translate) struct Reading {
    open: Vec<Message>,
    /// whether the first text of the run came as a block
    in_blocks: Option<bool>,
    /// how many reasoning spans a closed message had, for ids that stay unique when it is opened again
    spans: Vec<(Json<'static>, u32)>,
    blocks: Blocks,
}

#[derive(Debug)]
struct Message {
    id: Json<'static>,
    role: Option<Json<'static>>,
    start: Start,
    thinking: Option<Json<'static>>,
    spans: u32,
}

#[derive(Debug)]
enum Start {
    /// nobody has heard of it
    Held(Event<'static>),
    /// a reasoning span holds the note of it
    Noted(Event<'static>),
    /// it has left
    Said,
}

impl Reading {
    /// BUSINESS_DATA_START and the like.
    pub fn start(&mut self, event: Event<'_>, sink: &mut impl Sink) {
        let id = message_id(&event.members);
        if self.position(&id).is_some() {
            return sink.report().loss(Loss::StrayBoundary);
        }
        let role = event.get(Field::Role).cloned().map(Json::into_owned);
        self.open_message(id, role, event.into_owned());
    }

    fn position(&self, id: &Json<'_>) -> Option<usize> {
        self.open.iter().position(|message| message.id.same(id))
    }

    fn open_message(&mut self, id: Json<'static>, role: Option<Json<'static>>, start: Event<'static>) -> usize {
        let spans = match self.spans.iter().position(|(known, _)| known.same(&id)) {
            Some(at) => self.spans.swap_remove(at).1,
            None => 0,
        };
        // Most agents have one message open at a time.
        self.open.reserve_exact(1);
        self.open.push(Message { id, role, start: Start::Held(start), thinking: None, spans });
        self.open.len() - 1
    }

    /// One piece of content.
    ///
    /// # Errors
    /// When it is nothing that a block or a text says: the message is open then, and the piece has to travel whole.
    pub fn content(&mut self, parts: Parts<'_>, of: &Dialect, sink: &mut impl Sink) -> Result<(), NoText> {
        let dialect = of.name;
        let nameless = Json::trusted("\"\"");
        let at = match self.position(parts.event.get(Field::MessageId).unwrap_or(&nameless)) {
            Some(at) => at,
            None => {
                sink.report().repair(Repair::OpenerSupplied);
                let id = message_id(&parts.event.members);
                let start = Event::new(Kind::TextMessageStart).with(Field::MessageId, id.clone());
                self.open_message(id, None, start.with(Field::Role, Json::string(ASSISTANT)))
            }
        };
        let message = &mut self.open[at];
        let Parts { mut event, mut own, .. } = parts;
        if event.get(Field::Delta).is_some_and(|delta| delta.shape() == Type::String) {
            message.say_start(sink);
            if *self.in_blocks.get_or_insert(false) {
                own.push((carry::own(TEXT), Json::trusted("true")));
            }
            carry::pack(&mut event, dialect, own);
            sink.event(event);
            return Ok(());
        }
        let value = event.remove(Field::Delta);
        match delta(value.as_ref()) {
            Delta::Block { kind, mut output, rest } if kind.is(block::TEXT) && is_text(&output, block::CONTENT) => {
                message.say_start(sink);
                let text = carry::take(&mut output, block::CONTENT).map(Json::into_owned);
                let strings = !*self.in_blocks.get_or_insert(true);
                if strings && output.is_empty() {
                    own.push((carry::own(OUTPUT), Json::trusted("{}")));
                }
                keep_delta(&mut own, rest, output);
                event.set(Field::Delta, text.unwrap_or_else(|| Json::string("")));
                carry::pack(&mut event, dialect, own);
                sink.event(event);
            }
            Delta::Block { kind, mut output, rest } if kind.is(block::THINKING) && thinking_text(&output).is_some() => {
                let data = carry::take(&mut output, block::DATA).unwrap_or(Json::NULL);
                let mut data = json::members(&data).unwrap_or_default();
                let text = carry::take(&mut data, block::CONTENT).unwrap_or_else(|| Json::string(""));
                let ends =
                    data.iter().any(|(key, value)| carry::is_named(key, block::THINKING) && value.as_str() == "false");
                keep_delta(&mut own, rest, output);
                keep_data(&mut own, &data);
                message.think(event, own, text, dialect, sink);
                if ends {
                    message.stop_thinking(sink);
                }
            }
            Delta::Block { kind, output, rest } if takes(&kind) => {
                message.say_start(sink);
                let message = event.remove(Field::MessageId).map_or_else(|| Json::string(""), Json::into_owned);
                let shown = self.blocks.read(message, Block { kind, output, rest }, &mut own, of);
                sink.event(shown.into_event(event, own, of));
            }
            Delta::Plain | Delta::Block { .. } => {
                message.say_start(sink);
                return Err(NoText);
            }
        }
        Ok(())
    }

    /// BUSINESS_DATA_END and the like.
    pub fn end(&mut self, event: Event<'_>, sink: &mut impl Sink) {
        if let Some(at) = self.position(&message_id(&event.members)) {
            let mut message = self.open.remove(at);
            message.say_start(sink);
            if message.spans > 0 {
                self.spans.push((message.id, message.spans));
            }
        }
        sink.event(event);
    }

    /// An end that says the role of its start again says nothing: writing adds it back.
    pub fn forget_role(&self, parts: &mut Parts<'_>) {
        let start = self.position(&message_id(&parts.event.members)).map(|at| self.open[at].role.clone());
        let said = start.map(|role| role.unwrap_or_else(|| Json::string(ASSISTANT)));
        if said.is_some() && said.as_ref() == get(&parts.own, Field::Role) {
            remove(&mut parts.own, Field::Role);
        }
    }

    /// Says every start that an event would overtake, unless it is an event of the message `but` itself.
    pub fn release(&mut self, but: Option<&Json<'_>>, sink: &mut impl Sink) {
        for message in &mut self.open {
            if matches!(message.start, Start::Held(_)) && !but.is_some_and(|but| message.id.same(but)) {
                message.say_start(sink);
            }
        }
    }

    /// Says every start that is still held; the run guard closes the messages.
    pub fn close_all(&mut self, sink: &mut impl Sink) {
        for mut message in self.open.drain(..) {
            message.say_start(sink);
        }
    }
}

impl Message {
    fn say_start(&mut self, sink: &mut impl Sink) {
        self.stop_thinking(sink);
        if let Start::Held(start) | Start::Noted(start) = std::mem::replace(&mut self.start, Start::Said) {
            sink.event(start);
        }
    }

    fn think(&mut self, event: Event<'_>, own: Members<'_>, text: Json<'_>, dialect: &str, sink: &mut impl Sink) {
        let id = match &self.thinking {
            Some(id) => id.clone(),
            None => self.start_thinking(&event, dialect, sink),
        };
        let mut content = Event { kind: Kind::ReasoningMessageContent, ..event };
        content.set(Field::MessageId, id);
        content.set(Field::Delta, text.into_owned());
        carry::pack(&mut content, dialect, own);
        sink.event(content);
    }

    fn start_thinking(&mut self, event: &Event<'_>, dialect: &str, sink: &mut impl Sink) -> Json<'static> {
        self.spans += 1;
        let id = self.id.followed_by(&format!(":reasoning:{}", self.spans));
        let mut span = Event::new(Kind::ReasoningStart).with(Field::MessageId, id.clone());
        let mut own: Members<'_> = vec![(Key::Known(Field::MessageId), self.id.clone())];
        let mut happened = event.get(Field::Timestamp).cloned().map(Json::into_owned);
        self.start = match std::mem::replace(&mut self.start, Start::Said) {
            Start::Held(start) => {
                own.push((carry::own(START), json::to_object(&start.members)));
                happened = start.get(Field::Timestamp).cloned();
                Start::Noted(start)
            }
            later => later,
        };
        if let Some(timestamp) = happened {
            span.set(Field::Timestamp, timestamp);
        }
        carry::pack(&mut span, dialect, own);
        sink.event(span);
        let start = Event::new(Kind::ReasoningMessageStart).with(Field::MessageId, id.clone());
        sink.event(start.with(Field::Role, Json::string(crate::event::input::REASONING)));
        self.thinking = Some(id.clone());
        id
    }

    fn stop_thinking(&mut self, sink: &mut impl Sink) {
        if let Some(id) = self.thinking.take() {
            sink.event(Event::new(Kind::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            sink.event(Event::new(Kind::ReasoningEnd).with(Field::MessageId, id));
        }
    }
}
