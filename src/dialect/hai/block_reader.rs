//! Reads output blocks: text, thinking, which becomes reasoning, and other blocks, which become activities.
//!
//! A client shows messages in the order of their starts, so the text of message `M` is split where something else
//! stands between (seed §4.1 shows the parts of a message one after another):
//! ```text
//!   HAI       START M  thinking         table        text "a"        image        text "b"     END M
//!   AG-UI              M:reasoning:1    M:block:1    M: START "a" END   M:block:2    M:2: START "b" END
//! ```
//! A call and a message between agents stand between two texts, too (`calls`); the part before them ends when the text goes
//! on, since that may be a gateway's text, which has no parts (`continued_texts`). A start is sent with the first text. The boundaries that then have no event of their own (here START M), and empty
//! pieces of text outside of any part, are carried in a note on the next event, whichever it is, so that writing can
//! restore them.

mod calls;
mod cut_blocks;
mod joined;
mod missing_ids;
mod pending;
mod whole_text;

use super::block_activity::{BlockNumbers, OutputBlock};
use super::blocks::{
    BlockText, DeltaContent, OUTPUT, REST, STRING, TextPlace, carry_delta, is_scalar, parse_delta, read_scalar,
    split_braces, take_text,
};
use super::cut_block::{CutBlock, CutRead};
use super::joined_blocks::parse_joined_blocks;
use super::members::block;
use super::open_message::{BoundaryCarrier, MessageHistory, OpenMessage, StartState, id_of_part};
use super::shown_items::ShownItems;
use crate::dialect::adapter::{CanonicalSink, UnreadableEvent};
use crate::dialect::carry::{self, CANONICAL_PREFIX};
use crate::dialect::event_parts::IncomingEvent;
use crate::dialect::memory_limits::{self, OPEN_ITEMS_LIMIT};
use crate::event::input::ASSISTANT;
use crate::event::lane::ClosedStreams;
use crate::event::{
    Event, EventLoss, EventRepair, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get,
    message_id, remove,
};

#[derive(Debug, Default)]
pub(super) struct BlockReader {
    open_messages: IdMap<OpenMessage>,
    /// starts, ends and empty texts that the next event carries
    pending: Vec<Event<'static>>,
    /// bytes of pending events and carried starts
    held_bytes: usize,
    closed_messages: IdMap<MessageHistory>,
    /// ids of second and further parts, which no message of the agent may have
    part_ids: IdMap<()>,
    /// whether the run's first text was a block
    uses_blocks: Option<bool>,
    blocks: BlockNumbers,
    /// a text that a frame with its first piece carried whole; the next frames repeat the rest of it
    whole_text: String,
    /// length of its pieces that were read
    repeated_until: usize,
    shown: ShownItems,
    /// ids of the activities that the agent sends under AG-UI's name
    activities: IdMap<()>,
    /// the message id of the run's start, unless a message has it
    first_id: Option<Json<'static>>,
    run_id: Option<Json<'static>>,
    /// number of ids made for messages without one
    supplied_ids: u32,
    cut: Option<Box<CutBlock>>,
    /// the message that the last chunk of AG-UI opened
    chunk_id: Option<Json<'static>>,
}

impl BlockReader {
    pub(crate) fn start_message(&mut self, event: Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        self.release_cut_block(dialect, sink);
        let id = message_id(&event.members);
        if self.open_messages.contains(&id) {
            return sink.count_loss(EventLoss::StrayBoundary);
        }
        let role = event.get_owned(Field::Role);
        self.open_message(id, role, event.into_owned(), dialect, sink);
    }

    fn open_message(
        &mut self,
        id: Json<'static>,
        role: Option<Json<'static>>,
        start: Event<'static>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) {
        // The run guard limits open messages, so it must see them.
        if self.pending.len().max(self.open_messages.len()) >= OPEN_ITEMS_LIMIT {
            self.send_starts(dialect, sink);
        }
        let new = || MessageHistory { shown: self.shown, ..MessageHistory::default() };
        let mut history = self.closed_messages.remove(&id).unwrap_or_else(new);
        if self.part_ids.contains(&id) {
            history.part_count = history.part_count.max(1);
            history.is_split = true;
        }
        self.push_pending(start);
        let message =
            OpenMessage { id: id.clone(), role, start: StartState::Pending, part_id: None, span_id: None, history };
        self.open_messages.insert(id, message);
    }

    /// Opens the message of `parts` unless it is open. A chunk of AG-UI implies the start, with its role and its name.
    fn open_if_unknown(&mut self, parts: &mut IncomingEvent<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let is_chunk =
            std::mem::replace(&mut parts.event.kind, EventType::TextMessageContent) == EventType::TextMessageChunk;
        if self.open_messages.contains(parts.event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING)) {
            if is_chunk {
                self.drop_repeated_role(parts);
            }
            return;
        }
        let id = message_id(&parts.event.members);
        let mut start = Event::new(EventType::TextMessageStart).with(Field::MessageId, id.clone());
        let mut role = None;
        if is_chunk {
            self.end_chunks(dialect, sink);
            self.chunk_id = Some(id.clone());
            role = remove(&mut parts.extensions, Field::Role).map(Json::into_owned);
            let name = remove(&mut parts.extensions, Field::Name);
            name.into_iter().for_each(|name| start.set(Field::Name, name.into_owned()));
        } else {
            sink.count_repair(EventRepair::OpenerSupplied);
        }
        start.set(Field::Role, role.clone().unwrap_or_else(|| Json::string(ASSISTANT)));
        self.open_message(id, role, start, dialect, sink);
    }

    /// Reads text or a block, and opens the message if necessary.
    pub(crate) fn read_content(
        &mut self,
        mut parts: IncomingEvent<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        self.open_if_unknown(&mut parts, dialect, sink);
        if parts.restored_fields.contains(&Field::MessageId) {
            self.continue_text(&parts.event);
        }
        let is_restored = parts.restored_fields.contains(&Field::Delta);
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        if let Some(value) = event.get(Field::Delta).filter(|value| is_scalar(value) && !is_restored) {
            let text = read_scalar(value.clone().into_owned(), &mut own);
            event.set(Field::Delta, text);
        }
        let mut blocks = None;
        if !is_restored {
            (event, own) = match self.read_cut_block(event, own, dialect, sink) {
                CutRead::Held => return Ok(()),
                CutRead::Other(event, own) => (event, own),
                CutRead::Completed(event, own, completed) => {
                    blocks = Some(completed);
                    (event, own)
                }
            };
            blocks = blocks.or_else(|| parse_joined_blocks(event.get(Field::Delta)?));
        }
        if let Some(blocks) = blocks {
            let delta = event.remove(Field::Delta).map_or(Json::EMPTY_STRING, Json::into_owned);
            return self.read_blocks(&event, own, &delta, &blocks, dialect, sink);
        }
        if event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::String) {
            self.uses_blocks.get_or_insert(false);
            self.read_text(event, own, dialect, sink);
            return Ok(());
        }
        let value = event.remove(Field::Delta).ok_or(UnreadableEvent)?;
        self.read_block(event, own, &value, dialect, sink)
    }

    fn read_block(
        &mut self,
        mut event: Event<'_>,
        mut own: Members<'_>,
        value: &Json<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        let DeltaContent::Block { kind, mut output, rest } = parse_delta(Some(value)) else {
            return self.read_unusual_block(&event, own, value, dialect, sink);
        };
        match take_text(&kind, &mut output) {
            BlockText::None => {
                let one = OutputBlock { kind, members: output, delta_members: rest };
                self.read_activity(event, one, own, dialect, sink);
            }
            BlockText::Unreadable => {
                if kind.is_str(block::TEXT) {
                    self.uses_blocks.get_or_insert(true);
                }
                return self.read_unusual_block(&event, own, value, dialect, sink);
            }
            BlockText::Text { text, place } => {
                let whole = self.take_whole(&mut event, &text);
                if !is_in_string(&own) {
                    let is_string_run = !*self.uses_blocks.get_or_insert(true);
                    let must_stay = is_string_run || (whole.is_none() && !split_braces(&text).is_empty());
                    if must_stay && output.is_empty() && place.is_usual_for_text() {
                        own.push((carry::extension_key(OUTPUT), Json::from_trusted("{}")));
                    }
                }
                place.note_text(&mut own);
                carry_delta(&mut own, rest, output);
                event.set(Field::Delta, whole.unwrap_or_else(|| read_scalar(text, &mut own)));
                self.read_text(event, own, dialect, sink);
            }
            BlockText::Thinking { place: TextPlace::Missing(_), .. }
                if !(is_in_string(&own) || self.is_thinking(&event)) =>
            {
                return Err(UnreadableEvent);
            }
            BlockText::Thinking { text, place } => {
                let ends = place.ends_thinking();
                if ends && text.is_str("") && self.holds_empty_thought(&event) {
                    event.set(Field::Delta, Json::EMPTY_STRING);
                    if !is_in_string(&own) {
                        own.push((carry::extension_key(STRING), value.clone().into_owned()));
                    }
                    carry::pack(&mut event, dialect, own);
                    self.push_pending(event.into_owned());
                    return Ok(());
                }
                carry_delta(&mut own, rest, output);
                place.note_thinking(&mut own);
                event.set(Field::Delta, read_scalar(text, &mut own));
                self.read_thinking(event, own, ends, dialect, sink);
            }
        }
        Ok(())
    }

    fn read_text(&mut self, mut event: Event<'_>, mut own: Members<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let Some(message) = self.open_messages.get(id) else { return };
        if message.part_id.is_none() || message.history.shown != self.shown {
            // A client would show a message without text.
            let is_empty = event.get(Field::Delta).is_some_and(|delta| delta.is_str(""));
            let has_part = message.part_id.is_some();
            if is_empty && !has_part && self.pending.len() < OPEN_ITEMS_LIMIT {
                carry::pack(&mut event, dialect, own);
                return self.push_pending(event.into_owned());
            }
            if !(is_empty && has_part) {
                let id = id.clone().into_owned();
                self.begin_part(&id, dialect, sink);
            }
        }
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let note = if self.pending.is_empty() { None } else { self.carry_pending() };
        let mut out = BoundaryCarrier { note, dialect, sink };
        let Some(message) = self.open_messages.get_mut(id) else { return };
        message.history.has_output = true;
        message.stop_thinking(&mut out);
        if let Some(part) = message.part_id.as_ref().filter(|part| **part != message.id) {
            if !own.is_empty() {
                own.push((MemberKey::Known(Field::MessageId), message.id.clone()));
            }
            event.set(Field::MessageId, part.clone());
        }
        carry::pack(&mut event, dialect, own);
        out.emit(event);
    }

    /// Starts the part for the next text, behind what was shown since the last one.
    fn begin_part(&mut self, id: &Json<'static>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let Some(message) = self.open_messages.get_mut(id) else { return };
        if std::mem::replace(&mut message.history.shown, self.shown) != self.shown {
            let note = if message.part_id.is_some() { self.carry_pending() } else { None };
            let Some(message) = self.open_messages.get_mut(id) else { return };
            message.end_part(&mut BoundaryCarrier { note, dialect, sink });
        }
        self.start_part(id, dialect, sink);
    }

    /// Starts the text of a message, or its next part if something else followed the last one.
    fn start_part(&mut self, id: &Json<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let own_start = self.take_last_start(id);
        let note = self.carry_pending();
        let mut out = BoundaryCarrier { note, dialect, sink };
        let Some(message) = self.open_messages.get(id) else { return };
        let last_number = message.history.part_count;
        let (number, part_id) = match last_number == 0 || message.history.is_split {
            true => self.next_part(id, last_number),
            false => (last_number, id_of_part(id, last_number)),
        };
        if number > 1 {
            self.part_ids.insert(part_id.clone(), ());
        }
        let Some(message) = self.open_messages.get_mut(id) else { return };
        message.stop_thinking(&mut out);
        let carried = match std::mem::replace(&mut message.start, StartState::Sent) {
            StartState::Carried(start) => Some(start),
            StartState::Pending | StartState::Sent => None,
        };
        if let Some(start) = &carried {
            self.held_bytes = self.held_bytes.saturating_sub(memory_limits::event_cost(start));
        }
        let mut start = own_start.or(carried).unwrap_or_else(|| {
            let role = message.role.clone().unwrap_or_else(|| Json::string(ASSISTANT));
            Event::new(EventType::TextMessageStart).with(Field::MessageId, part_id.clone()).with(Field::Role, role)
        });
        if number > 1 {
            start.set(Field::MessageId, part_id.clone());
            carry::pack(&mut start, dialect, vec![(MemberKey::Known(Field::MessageId), message.id.clone())]);
        }
        message.history.part_count = number;
        message.history.is_split = false;
        message.part_id = Some(part_id);
        out.emit(start);
    }

    fn read_activity(
        &mut self,
        mut event: Event<'_>,
        one: OutputBlock<'_>,
        mut own: Members<'_>,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) {
        let mut out = BoundaryCarrier { note: self.carry_pending(), dialect, sink };
        let id = event.remove(Field::MessageId).map_or(Json::EMPTY_STRING, Json::into_owned);
        let activity = self.blocks.read(id.clone(), one, &mut own, dialect);
        if let Some(message) = self.open_messages.get_mut(&id) {
            message.history.has_output = true;
            message.stop_thinking(&mut out);
            // A block that replaces an earlier one stays in the place of that.
            if !activity.replaces_earlier {
                message.end_part(&mut out);
            }
        }
        out.emit(activity.into_event(event, own, dialect));
    }

    /// Returns true if the message has an open thought.
    fn is_thinking(&self, event: &Event<'_>) -> bool {
        let message = self.open_messages.get(event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING));
        message.is_some_and(|message| message.span_id.is_some())
    }

    /// Returns true if a thought that ends without text is carried by the next event: a client would show an empty one.
    fn holds_empty_thought(&mut self, event: &Event<'_>) -> bool {
        let is_free = self.pending.len() < OPEN_ITEMS_LIMIT;
        let message = self.open_messages.get_mut(event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING));
        let message = message.filter(|message| is_free && message.span_id.is_none());
        message.map(|message| message.history.has_output = true).is_some()
    }

    fn read_thinking(
        &mut self,
        event: Event<'_>,
        own: Members<'_>,
        ends: bool,
        dialect: &str,
        sink: &mut dyn CanonicalSink,
    ) {
        let note = self.carry_pending();
        let mut out = BoundaryCarrier { note, dialect, sink };
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let Some(message) = self.open_messages.get_mut(id) else { return };
        message.history.has_output = true;
        if std::mem::replace(&mut message.history.shown, self.shown) != self.shown {
            message.stop_thinking(&mut out);
        }
        let span_id = match &message.span_id {
            Some(span_id) => span_id.clone(),
            None => {
                message.end_part(&mut out);
                message.start_thinking(&event, &mut out)
            }
        };
        let mut content = Event { kind: EventType::ReasoningMessageContent, ..event };
        content.set(Field::MessageId, span_id);
        carry::pack(&mut content, dialect, own);
        out.emit(content);
        if ends {
            message.stop_thinking(&mut out);
        }
    }

    /// Ends a message. An end without open text is carried by the next event; an empty message starts first.
    pub(crate) fn end_message(&mut self, mut event: Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        self.release_cut_block(dialect, sink);
        let id = message_id(&event.members);
        self.chunk_id.take_if(|own| own.is_same(&id));
        let Some(message) = self.open_messages.get(&id) else {
            self.carry_pending_with(&mut event, dialect);
            return sink.emit(event);
        };
        if message.is_empty() {
            self.start_part(&id, dialect, sink);
        }
        let is_silent = self.open_messages.get(&id).is_none_or(OpenMessage::is_silent);
        let note = if is_silent { None } else { self.carry_pending() };
        let mut out = BoundaryCarrier { note, dialect, sink };
        let Some(mut message) = self.open_messages.remove(&id) else { return };
        message.stop_thinking(&mut out);
        match message.part_id.take() {
            Some(part_id) => {
                if part_id != message.id {
                    event.set(Field::MessageId, part_id);
                    carry::pack(&mut event, dialect, vec![(MemberKey::Known(Field::MessageId), id)]);
                }
                out.emit(event);
            }
            None => self.push_pending(event.into_owned()),
        }
        if let StartState::Carried(start) = &message.start {
            self.held_bytes = self.held_bytes.saturating_sub(memory_limits::event_cost(start));
        }
        self.closed_messages.insert(message.id, message.history);
    }

    /// Ends the message of chunks, which have no end of their own.
    fn end_chunks(&mut self, dialect: &str, sink: &mut dyn CanonicalSink) {
        if let Some(id) = self.chunk_id.take().filter(|id| self.open_messages.contains(id)) {
            self.end_message(Event::new(EventType::TextMessageEnd).with(Field::MessageId, id), dialect, sink);
        }
    }

    /// Closes the message of an end that a gateway carried, because it had ended the client's message before.
    fn close_sent_message(&mut self, end: &Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        let id = message_id(&end.members);
        if !self.open_messages.get(&id).is_some_and(|message| matches!(message.start, StartState::Sent)) {
            return;
        }
        let Some(mut message) = self.open_messages.remove(&id) else { return };
        message.stop_thinking(&mut BoundaryCarrier { note: None, dialect, sink });
        self.closed_messages.insert(message.id, message.history);
    }

    /// Drops the role from the end of a message; writing adds it again.
    pub(crate) fn drop_repeated_role(&self, parts: &mut IncomingEvent<'_>) {
        let open = self.open_messages.get(&message_id(&parts.event.members));
        let role = open.map(|message| message.role.clone().unwrap_or_else(|| Json::string(ASSISTANT)));
        if role.is_some() && role.as_ref() == get(&parts.extensions, Field::Role) {
            remove(&mut parts.extensions, Field::Role);
        }
    }

    /// Prepares an event that is not part of a message: it carries the pending boundaries.
    pub(crate) fn read_other(&mut self, event: &mut Event<'_>, dialect: &str, sink: &mut dyn CanonicalSink) {
        self.release_cut_block(dialect, sink);
        if ClosedStreams::by_event(event.kind) == ClosedStreams::All {
            self.end_chunks(dialect, sink);
        }
        match event.kind {
            EventType::ToolCallStart => self.read_call(event, dialect, sink),
            EventType::TextMessageEnd => self.close_sent_message(event, dialect, sink),
            // An empty piece of text that a gateway wrapped, behind the start of its message.
            EventType::Raw if event.text(Field::Source).is_some_and(|source| source.starts_with(CANONICAL_PREFIX)) => {
                self.send_starts(dialect, sink);
            }
            _ => {}
        }
        self.carry_pending_with(event, dialect);
    }

    /// Sends the pending starts.
    pub(crate) fn send_starts(&mut self, dialect: &str, sink: &mut dyn CanonicalSink) {
        self.release_cut_block(dialect, sink);
        let starts = self.pending.iter().filter(|event| event.kind == EventType::TextMessageStart);
        let ids: Vec<_> = starts.map(|start| message_id(&start.members)).collect();
        ids.iter().for_each(|id| self.start_part(id, dialect, sink));
    }

    /// Ends the reasoning of open messages; the run guard ends the messages. A run that has succeeded also starts the
    /// empty ones.
    pub(crate) fn finish(&mut self, has_succeeded: bool, dialect: &str, sink: &mut dyn CanonicalSink) {
        self.release_cut_block(dialect, sink);
        self.end_chunks(dialect, sink);
        let ids: Vec<_> = self.open_messages.iter().map(|(id, _)| id.clone()).collect();
        for id in &ids {
            let Some(message) = self.open_messages.get(id) else { continue };
            if has_succeeded && message.is_empty() {
                self.start_part(id, dialect, sink);
            } else if message.span_id.is_some() {
                let note = self.carry_pending();
                let mut out = BoundaryCarrier { note, dialect, sink };
                self.open_messages.get_mut(id).into_iter().for_each(|message| message.stop_thinking(&mut out));
            }
        }
        self.open_messages = IdMap::default();
    }
}

/// Returns true for a block of a string or list of blocks.
fn is_in_string(own: &Members<'_>) -> bool {
    [STRING, REST].iter().any(|note| find_member(own, note).is_some())
}
