//! Gathers the events of each text message into one, since the dialect sends messages whole.
//!
//! ```text
//!   Plain   start, text in pieces, activity: only the text and the lengths of its pieces are kept
//!     ╰── any other event, order or member ──▶ Listed   all events as JSON, for the note that restores them
//! ```
//! Answers may have a hundred thousand pieces, so a piece takes little more memory than its text.

use super::calls;
use super::event_list::EventList;
use super::members::text_end;
use super::messages::{ACTIVITY_SUFFIX, EXTENSIONS, PIECE_LENGTHS};
use crate::codec::json;
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::{carry, memory_limits};
use crate::event::input::ASSISTANT;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, message_id};
use std::fmt::Write as _;

#[derive(Debug, Default)]
pub(super) struct MessageBuffer {
    open: IdMap<BufferedMessage>,
    text_bytes: usize,
    list_bytes: usize,
}

#[derive(Debug, Default)]
struct BufferedMessage {
    /// cost of the id as the first event spells it; later events may escape other characters
    id_bytes: usize,
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

pub(super) enum BufferResult<'a> {
    Buffered,
    Complete(Event<'static>),
    PassThrough(Event<'a>),
}

impl MessageBuffer {
    /// Buffers an event of a message. `canonical_type` is the type of the original chunk, or empty for an added event.
    pub(crate) fn buffer_event<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> BufferResult<'a> {
        let id = match event.kind {
            EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd => {
                message_id(&event.members)
            }
            EventType::ActivitySnapshot if is_activity(&event) => match self.owning_message(&event) {
                Some(id) => id,
                None => return BufferResult::PassThrough(event),
            },
            _ => return BufferResult::PassThrough(event),
        };
        let ends = event.kind == EventType::TextMessageEnd;
        if !self.open.contains(&id) {
            let id_bytes = memory_limits::text_cost(id.as_str());
            self.text_bytes += id_bytes;
            self.open.insert(id.clone(), BufferedMessage { id_bytes, ..BufferedMessage::default() });
        }
        if let Some(message) = self.open.get_mut(&id).filter(|_| canonical_type != Some("")) {
            let (text_before, list_before) = (message.text_bytes(), message.list_bytes());
            message.push(&id, restore_chunk(event, canonical_type));
            self.text_bytes = self.text_bytes + message.text_bytes() - text_before;
            self.list_bytes = self.list_bytes + message.list_bytes() - list_before;
        }
        let Some(message) = ends.then(|| self.open.remove(&id)).flatten() else { return BufferResult::Buffered };
        self.text_bytes -= message.text_bytes();
        self.list_bytes -= message.list_bytes();
        BufferResult::Complete(message.into_end_event(id, true))
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
        self.open.drain().map(|(id, message)| message.into_end_event(id, false)).collect()
    }
}

fn is_activity(event: &Event<'_>) -> bool {
    event.get(Field::ActivityType).is_some_and(|kind| kind.is_str(text_end::UI_SCHEMA_ACTIVITY))
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
    fn push(&mut self, id: &Json<'static>, event: Event<'_>) {
        if self.is_empty() {
            self.role = event.get_owned(Field::Role);
        }
        if !self.admits_plain(&event) {
            self.list_events(id);
        }
        if let Some(delta) = event.get(Field::Delta).filter(|delta| delta.json_type() == JsonType::String) {
            self.push_piece(delta.unquoted());
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

    /// Returns true if reading can restore the event from the merged message.
    fn admits_plain(&self, event: &Event<'_>) -> bool {
        let MessageForm::Plain { start, activity } = &self.form else { return false };
        match event.kind {
            EventType::TextMessageStart => self.is_empty() && has_only(event, &[Field::MessageId, Field::Role]),
            EventType::TextMessageContent => {
                let has_text = event.get(Field::Delta).is_some_and(|delta| delta.json_type() == JsonType::String);
                has_text && start.is_some() && activity.is_none() && has_only(event, &[Field::MessageId, Field::Delta])
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

    /// Returns the message as one event; `ended` is false if it was aborted.
    fn into_end_event(mut self, id: Json<'static>, ended: bool) -> Event<'static> {
        if self.end.is_none() {
            self.list_events(&id);
        }
        let BufferedMessage { id_bytes: _, role, text, lengths, piece_count, second_answer, end, form } = self;
        let mut own: Members<'static> =
            vec![(MemberKey::Known(Field::Role), role.unwrap_or_else(|| Json::string(ASSISTANT)))];
        if piece_count > 0 {
            own.push((carry::extension_key(text_end::TEXT), Json::from_trusted(format!("\"{text}\""))));
        }
        own.extend(second_answer.map(|content| (carry::extension_key(text_end::UI_SCHEMA), content)));
        if !ended {
            // The run failed before the message ended; on the way back, the events are read and not the status.
            own.push((carry::extension_key(text_end::STATUS), Json::string(text_end::FAILED)));
        }
        let mut end = end.unwrap_or_else(|| Event::new(EventType::TextMessageEnd).with(Field::MessageId, id));
        match form {
            MessageForm::Listed(events) => {
                end.members.push((carry::extension_key(calls::BUFFERED_EVENTS), events.into_json()));
            }
            MessageForm::Plain { .. } if piece_count != 1 => {
                end.members.push((carry::extension_key(PIECE_LENGTHS), Json::from_trusted(format!("[{lengths}]"))));
            }
            MessageForm::Plain { .. } => {}
        }
        end.members.push((carry::extension_key(EXTENSIONS), json::to_object(&own)));
        end
    }
}
