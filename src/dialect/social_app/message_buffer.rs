//! Gathers the events of each text message into one, since the dialect sends messages whole.
//!
//! ```text
//!   Plain   start, text in pieces, activity: only the text and the lengths of its pieces are kept
//!     ╰── any other event, order or member ──▶ Listed   all events as JSON, for the note that restores them
//! ```
//! Answers may have a hundred thousand pieces, so a piece takes little more memory than its text.
//!
//! Sends the text before a call, a result, a snapshot or another message ahead of that, and continues the message under
//! another id:
//! ```text
//!   text of `m` ──▶ call ──▶ more text ──▶ END      becomes   `m`, call, `m:2`
//!   text of `m` ──▶ call ──▶ END                    becomes   `m`, call, the END as CUSTOM
//! ```
//! A message that goes on while another one is written stays whole.

use super::calls;
use super::event_list::EventList;
use super::members::text_end;
use super::messages::{ACTIVITY_SUFFIX, EXTENSIONS, MESSAGE_PART, PART_ENDS, PART_GOES_ON, PIECE_LENGTHS};
use crate::codec::json;
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::{carry, memory_limits};
use crate::event::input::ASSISTANT;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, message_id};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Number of ids to remember; the oldest are dropped first.
const SENT_IDS_LIMIT: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct MessageBuffer {
    open: IdMap<BufferedMessage>,
    /// Open messages with unsent text, by the number of one of their texts. An end finds the earlier ones here without
    /// looking at all open messages. Entries may be stale.
    unsent_texts: BTreeMap<usize, Json<'static>>,
    /// ids of the client's messages; true for one that is not the agent's
    sent_ids: IdMap<bool>,
    /// number of the latest event of a message
    event_number: usize,
    text_bytes: usize,
    list_bytes: usize,
}

#[derive(Debug, Default)]
struct BufferedMessage {
    /// cost of the id as the first event spells it; later events may escape other characters
    id_bytes: usize,
    /// how many messages the client has of it
    sent_parts: usize,
    /// numbers of the first event that was not sent, and of the latest text
    first_event: usize,
    last_text: usize,
    /// of the first event
    role: Option<Json<'static>>,
    /// all pieces, with their escapes
    text: String,
    /// of the pieces, separated by commas
    lengths: String,
    piece_count: usize,
    second_answer: Option<Json<'static>>,
    end: Option<Event<'static>>,
    form: MessageForm,
}

#[derive(Debug)]
enum MessageForm {
    Plain { start: Option<Event<'static>>, activity: Option<Event<'static>> },
    Listed(EventList),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageState {
    Ended,
    /// another event came between
    GoesOn,
    /// the run failed
    Aborted,
}

impl MessageBuffer {
    /// Buffers an event of a message, and returns any other. `canonical_type` is the type of the original chunk, or
    /// empty for an added event.
    pub(crate) fn buffer_event<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        released: &mut ReleasedEvents<'a>,
    ) -> Option<Event<'a>> {
        let id = match event.kind {
            EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd => {
                message_id(&event.members)
            }
            EventType::ActivitySnapshot if is_activity(&event) => match self.owning_message(&event) {
                Some(id) => id,
                None => return Some(event),
            },
            EventType::ToolCallStart | EventType::ToolCallResult | EventType::MessagesSnapshot => {
                self.release_texts_before(usize::MAX, released);
                return Some(event);
            }
            _ => return Some(event),
        };
        let ends = event.kind == EventType::TextMessageEnd;
        self.event_number += 1;
        if !self.open.contains(&id) {
            let id_bytes = memory_limits::text_cost(id.as_str());
            self.text_bytes += id_bytes;
            self.open.insert(id.clone(), BufferedMessage { id_bytes, ..BufferedMessage::default() });
        }
        if let Some(message) = self.open.get_mut(&id).filter(|_| canonical_type != Some("")) {
            let event = restore_chunk(event, canonical_type);
            if message.is_sent() && shows_nothing(&event) {
                released.push(ReleasedEvent::AsCustomNoOp(event));
            } else {
                let (text_before, list_before) = (message.text_bytes(), message.list_bytes());
                let had_text = message.has_text();
                message.push(&id, event, self.event_number);
                if !had_text && message.has_text() {
                    self.text_bytes += memory_limits::text_cost(id.as_str());
                    self.unsent_texts.insert(self.event_number, id.clone());
                }
                self.text_bytes = self.text_bytes + message.text_bytes() - text_before;
                self.list_bytes = self.list_bytes + message.list_bytes() - list_before;
            }
        }
        if let Some(message) = ends.then(|| self.open.remove(&id)).flatten() {
            self.text_bytes -= message.text_bytes();
            self.list_bytes -= message.list_bytes();
            if !message.is_sent() {
                self.release_texts_before(message.first_event, released);
                released.push_event(self.merge(&id, message, MessageState::Ended), None);
            }
        }
        None
    }

    /// Releases the texts that ended before the event with this number.
    fn release_texts_before(&mut self, number: usize, released: &mut ReleasedEvents<'_>) {
        let mut earlier = Vec::new();
        while let Some(entry) = self.unsent_texts.first_entry().filter(|entry| *entry.key() < number) {
            let id = entry.remove();
            let id_bytes = memory_limits::text_cost(id.as_str());
            match self.open.get(&id).filter(|message| message.has_text()) {
                Some(message) if message.last_text >= number => {
                    if self.unsent_texts.insert(message.last_text, id).is_some() {
                        self.text_bytes -= id_bytes;
                    }
                    continue;
                }
                Some(message) => earlier.push((message.first_event, id)),
                None => {}
            }
            self.text_bytes -= id_bytes;
        }
        // As they began.
        earlier.sort_unstable_by_key(|(first, _)| *first);
        earlier.dedup_by_key(|(first, _)| *first);
        for (_, id) in earlier {
            let Some(message) = self.open.get_mut(&id) else { continue };
            let (text_before, list_before) = (message.text_bytes(), message.list_bytes());
            let part = message.take_part();
            self.text_bytes = self.text_bytes + message.text_bytes() - text_before;
            self.list_bytes = self.list_bytes + message.list_bytes() - list_before;
            released.push_event(self.merge(&id, part, MessageState::GoesOn), None);
        }
    }

    fn merge(&mut self, id: &Json<'static>, message: BufferedMessage, state: MessageState) -> Event<'static> {
        let client_id = self.choose_client_id(id, message.sent_parts);
        message.into_end_event(id, client_id, state)
    }

    /// Returns the agent's id, or an unused one for the next part of its message.
    fn choose_client_id(&mut self, id: &Json<'static>, sent_parts: usize) -> Json<'static> {
        let is_taken = |id: &Json<'_>| self.sent_ids.contains(id) || self.open.contains(id);
        let is_own = sent_parts == 0 && self.sent_ids.get(id) != Some(&true);
        let mut numbers = sent_parts.max(1) + 1..;
        let mut unused = || {
            numbers
                .find_map(|number| Some(id.with_suffix(&format!(":{number}"))).filter(|candidate| !is_taken(candidate)))
        };
        let other = if is_own { None } else { unused() };
        let is_other = other.is_some();
        let client_id = other.unwrap_or_else(|| id.clone());
        if client_id.as_str().len() <= memory_limits::MAX_ID_LEN {
            if self.sent_ids.len() == SENT_IDS_LIMIT {
                self.sent_ids.remove_first();
            }
            self.sent_ids.insert(client_id.clone(), is_other);
        }
        client_id
    }

    /// Returns the bytes of the messages' text, ids and other members.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Returns the bytes of what restores the messages' events.
    pub(crate) fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    fn owning_message(&self, event: &Event<'_>) -> Option<Json<'static>> {
        let id = Json::string(event.text(Field::MessageId)?.strip_suffix(ACTIVITY_SUFFIX)?);
        self.open.contains(&id).then_some(id)
    }

    /// Returns messages that have no end because the run failed.
    pub(crate) fn drain(&mut self) -> Vec<Event<'static>> {
        (self.text_bytes, self.list_bytes) = (0, 0);
        self.unsent_texts.clear();
        let open: Vec<_> = self.open.drain().filter(|(_, message)| !message.is_sent()).collect();
        open.into_iter().map(|(id, message)| self.merge(&id, message, MessageState::Aborted)).collect()
    }
}

fn is_activity(event: &Event<'_>) -> bool {
    event.get(Field::ActivityType).is_some_and(|kind| kind.is_str(text_end::UI_SCHEMA_ACTIVITY))
}

fn shows_nothing(event: &Event<'_>) -> bool {
    match event.kind {
        EventType::TextMessageEnd => true,
        EventType::TextMessageContent => event.get(Field::Delta).is_some_and(|delta| delta.is_str("")),
        _ => false,
    }
}

fn has_only(event: &Event<'_>, fields: &[Field]) -> bool {
    event.members.iter().all(|(key, _)| matches!(key, MemberKey::Known(field) if fields.contains(field)))
}

impl Default for MessageForm {
    fn default() -> Self {
        MessageForm::Plain { start: None, activity: None }
    }
}

impl BufferedMessage {
    fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    fn push(&mut self, id: &Json<'static>, event: Event<'_>, number: usize) {
        if self.is_empty() {
            self.first_event = number;
            if self.sent_parts == 0 {
                self.role = event.get_owned(Field::Role);
            }
        }
        if !self.admits_plain(&event) {
            self.list_events(id);
        }
        if let Some(delta) = event.get(Field::Delta).filter(|delta| delta.json_type() == JsonType::String) {
            self.push_piece(delta.unquoted());
            self.last_text = number;
        }
        if event.kind == EventType::ActivitySnapshot && self.second_answer.is_none() {
            self.second_answer = event.get_owned(Field::Content);
        }
        if event.kind == EventType::TextMessageEnd {
            self.end = Some(event.clone().into_owned());
        }
        match &mut self.form {
            MessageForm::Listed(events) => events.push(&event),
            MessageForm::Plain { start, activity } => match event.kind {
                EventType::TextMessageStart => *start = Some(event.into_owned()),
                EventType::ActivitySnapshot => *activity = Some(event.into_owned()),
                _ => {}
            },
        }
    }

    fn push_piece(&mut self, piece: &str) {
        self.text.push_str(piece);
        let comma = if self.piece_count == 0 { "" } else { "," };
        // Writing into memory cannot fail.
        let _ = write!(self.lengths, "{comma}{}", piece.len());
        self.piece_count += 1;
    }

    fn is_empty(&self) -> bool {
        self.piece_count == 0 && matches!(self.form, MessageForm::Plain { start: None, activity: None })
    }

    /// Returns true if the client has all of it.
    fn is_sent(&self) -> bool {
        self.sent_parts > 0 && self.is_empty()
    }

    /// Returns what is to be sent now; the rest of the message remains.
    fn take_part(&mut self) -> Self {
        let rest = BufferedMessage {
            id_bytes: self.id_bytes,
            sent_parts: self.sent_parts + 1,
            role: self.role.clone(),
            ..BufferedMessage::default()
        };
        std::mem::replace(self, rest)
    }

    /// Returns true if reading can restore the event from the merged message.
    fn admits_plain(&self, event: &Event<'_>) -> bool {
        let MessageForm::Plain { start, activity } = &self.form else { return false };
        match event.kind {
            EventType::TextMessageStart => {
                self.is_empty() && self.sent_parts == 0 && has_only(event, &[Field::MessageId, Field::Role])
            }
            EventType::TextMessageContent => {
                let has_text = event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::String);
                let is_started = start.is_some() || self.sent_parts > 0;
                has_text && is_started && activity.is_none() && has_only(event, &[Field::MessageId, Field::Delta])
            }
            EventType::ActivitySnapshot => {
                activity.is_none() && has_only(event, &[Field::MessageId, Field::ActivityType, Field::Content])
            }
            EventType::TextMessageEnd => true,
            _ => false,
        }
    }

    /// Lists the events so far, since more than the lengths of the pieces must be restored.
    fn list_events(&mut self, id: &Json<'static>) {
        let MessageForm::Plain { start, activity } = &mut self.form else { return };
        let mut events = EventList::default();
        start.take().iter().for_each(|start| events.push(start));
        let mut rest = self.text.as_str();
        for length in self.lengths.split(',').filter_map(|length| length.parse().ok()) {
            let Some((piece, more)) = rest.split_at_checked(length) else { break };
            let content = Event::new(EventType::TextMessageContent).with(Field::MessageId, id.clone());
            events.push(&content.with(Field::Delta, Json::from_trusted(format!("\"{piece}\""))));
            rest = more;
        }
        activity.take().iter().for_each(|activity| events.push(activity));
        self.form = MessageForm::Listed(events);
    }

    fn text_bytes(&self) -> usize {
        let start = match &self.form {
            MessageForm::Plain { start, .. } => start.as_ref(),
            MessageForm::Listed(_) => None,
        };
        let whole = start.into_iter().chain(&self.end).map(memory_limits::event_cost).sum::<usize>();
        // The activity's content is kept twice.
        self.id_bytes
            + whole
            + self.text.len()
            + self.second_answer.as_ref().map_or(0, |content| 2 * content.as_str().len())
    }

    fn list_bytes(&self) -> usize {
        let events = match &self.form {
            MessageForm::Plain { .. } => 0,
            MessageForm::Listed(events) => events.byte_size(),
        };
        events + self.lengths.len()
    }

    /// Returns the message as one event, under the id that the client gets.
    fn into_end_event(mut self, id: &Json<'static>, client_id: Json<'static>, state: MessageState) -> Event<'static> {
        if self.end.is_none() && state != MessageState::GoesOn {
            self.list_events(id);
        }
        let mut own: Members<'static> =
            vec![(MemberKey::Known(Field::Role), self.role.unwrap_or_else(|| Json::string(ASSISTANT)))];
        if self.piece_count > 0 {
            own.push((carry::extension_key(text_end::TEXT), Json::from_trusted(format!("\"{}\"", self.text))));
        }
        own.extend(self.second_answer.map(|content| (carry::extension_key(text_end::UI_SCHEMA), content)));
        if state == MessageState::Aborted {
            // The run failed before the message ended; on the way back, the events are read and not the status.
            own.push((carry::extension_key(text_end::STATUS), Json::string(text_end::FAILED)));
        }
        let mut end = self.end.unwrap_or_else(|| Event::new(EventType::TextMessageEnd));
        if !client_id.is_same(id) {
            end.members.push((carry::extension_key(Field::MessageId.camel()), id.clone()));
        }
        end.set(Field::MessageId, client_id);
        match self.form {
            MessageForm::Listed(events) => {
                end.members.push((carry::extension_key(calls::BUFFERED_EVENTS), events.into_json()));
            }
            MessageForm::Plain { .. } => {
                if self.piece_count != 1 {
                    let lengths = Json::from_trusted(format!("[{}]", self.lengths));
                    end.members.push((carry::extension_key(PIECE_LENGTHS), lengths));
                }
                let part = match state {
                    MessageState::GoesOn => Some(PART_GOES_ON),
                    _ if self.sent_parts > 0 => Some(PART_ENDS),
                    _ => None,
                };
                end.members.extend(part.map(|part| (carry::extension_key(MESSAGE_PART), Json::string(part))));
            }
        }
        end.members.push((carry::extension_key(EXTENSIONS), json::to_object(&own)));
        end
    }
}
