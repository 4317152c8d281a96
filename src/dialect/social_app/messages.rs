//! Text messages of `social-app`: each is a single event, the end of the message.
//!
//! Reading expands the event into start, text, activity and end. Writing buffers until the message ends
//! (`message_buffer`):
//! ```text
//!   START ─▶ BufferedMessage ── CONTENT, ui_schema ──▶ … ── END ──▶ one event
//!                                         ├── the run fails ──▶ one event, without an end
//!                                         └── a call, a result, a snapshot ──▶ one event for each part
//! ```
//! The lengths of the pieces are noted so that they can be restored. Other events between the pieces are not noted. An
//! error without an answer becomes the text, and so does the JSON of an answer that is not a string.

use super::calls::{self, FILLED_MEMBERS};
use super::members::text_end;
use crate::codec::json;
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::interrupts::{self, PendingInterrupt};
use crate::dialect::table::Dialect;
use crate::event::input::ASSISTANT;
use crate::event::kind::TEXT_ROLES;
use crate::event::{
    Event, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, find_member, get, message_id, remove, set,
};

/// Stores the length of each piece of text, in bytes of JSON.
pub(super) const PIECE_LENGTHS: &str = "$pieces";

/// Marks an event that is a part of a message: whether the message goes on after it, or ends.
pub(super) const MESSAGE_PART: &str = "$part";
pub(super) const PART_GOES_ON: &str = "open";
pub(super) const PART_ENDS: &str = "last";

/// Suffix of the activity id for `ui_schema`.
pub(super) const ACTIVITY_SUFFIX: &str = ":ui_schema";

/// Stores the answer in an end event whose text had already been streamed.
const SECOND_ANSWER: &str = "$answer";

/// Marks text that is the JSON of the answer.
const ANSWER_AS_JSON: &str = "$json_answer";

/// Number of messages to remember; the oldest are dropped first.
const STREAMED_LIMIT: usize = 1024;

/// Messages that the agent streamed although the dialect has no streaming; true once text has arrived.
#[derive(Debug, Default)]
pub(super) struct StreamedMessages(IdMap<bool>);

impl StreamedMessages {
    /// Records an event. A content event opens its message, like a start.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        if let (EventType::TextMessageEnd, Some(id)) = (event.kind, event.get(Field::MessageId)) {
            self.0.remove(id);
        }
        if !matches!(
            event.kind,
            EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageChunk
        ) {
            return;
        }
        let has_text = event.get(Field::Delta).is_some_and(|delta| !delta.is_str("") && !delta.is_null());
        let id = event.get(Field::MessageId);
        let known = match id {
            Some(id) => self.0.get_mut(id),
            // A chunk without an id continues the previous message.
            None => self.0.last_mut(),
        };
        match (known, id) {
            (Some(known), _) => *known |= has_text,
            (None, Some(id)) => {
                if self.0.len() == STREAMED_LIMIT {
                    self.0.remove_first();
                }
                self.0.insert(id.clone().into_owned(), has_text);
            }
            (None, None) => {}
        }
    }

    /// Reads the end of a message, without its text if that was already streamed.
    pub(crate) fn read_end(&mut self, mut parts: IncomingEvent<'_>, dialect: &Dialect, sink: &mut dyn CanonicalSink) {
        calls::remove_fillers(&mut parts, text_end::FILLERS);
        let text = carry::take(&mut parts.extensions, text_end::TEXT).map(Json::into_owned);
        if let Some(events) = calls::take_buffered_events(&mut parts.event, is_text) {
            // Those of a part leave their message open.
            return events.into_iter().for_each(|event| {
                self.observe(&event);
                sink.emit(event);
            });
        }
        let pieces = carry::take(&mut parts.event.members, PIECE_LENGTHS).map(Json::into_owned);
        let second_answer = carry::take(&mut parts.event.members, SECOND_ANSWER).map(Json::into_owned);
        let part = carry::take(&mut parts.event.members, MESSAGE_PART).map(Json::into_owned);
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        let id = message_id(&event.members);
        let open = self.0.remove(&id);
        // Without an id there is no message; the guard reports this as a fault of the event.
        let is_named = event.get(Field::MessageId).is_some();
        if open.is_none() && is_named {
            let start = Event::new(EventType::TextMessageStart).with(Field::MessageId, id.clone());
            sink.emit(start.with(Field::Role, take_role(&mut own)));
        } else if part.is_some() {
            take_role(&mut own);
        }
        let is_new = part.is_some() || open.is_none_or(|has_text| !has_text);
        let shows_text = is_named && is_new;
        let is_written_by_gateway = pieces.is_some() || part.is_some() || second_answer.is_some();
        let error = match shows_text && !is_written_by_gateway && text.as_ref().is_none_or(is_nothing) {
            true => calls::take_error_text(&mut own),
            false => None,
        };
        let (shown, left) = match text {
            text if error.is_some() => (error, text),
            Some(text) if text.is_null() || !shows_text => (None, second_answer.or(Some(text))),
            Some(text) if text.json_type() == JsonType::String => (Some(text), second_answer),
            Some(value) => {
                carry::add_note(&mut own, ANSWER_AS_JSON);
                (Some(Json::string(value.as_str())), second_answer)
            }
            None => (None, second_answer),
        };
        for piece in shown.iter().flat_map(|text| split_text(text, pieces.as_ref())) {
            let content = Event::new(EventType::TextMessageContent).with(Field::MessageId, id.clone());
            sink.emit(content.with(Field::Delta, piece));
        }
        own.extend(left.map(|text| (carry::extension_key(text_end::TEXT), text)));
        if is_named {
            emit_activity(&id, &mut own, sink);
        }
        if part.is_some_and(|part| part.is_str(PART_GOES_ON)) {
            self.observe(&Event::new(EventType::TextMessageStart).with(Field::MessageId, id));
            return;
        }
        carry::pack(&mut event, dialect.name, own);
        sink.emit(event);
    }
}

fn is_nothing(answer: &Json<'_>) -> bool {
    answer.is_null() || answer.is_str("")
}

/// Returns the role of a new message. A role that AG-UI text messages cannot have stays in `own`.
fn take_role(own: &mut Members<'_>) -> Json<'static> {
    let is_role = |role: &Json<'_>| role.text().is_some_and(|role| TEXT_ROLES.contains(&&*role));
    match get(own, Field::Role).is_some_and(is_role).then(|| remove(own, Field::Role)).flatten() {
        Some(role) => role.into_owned(),
        None => Json::string(ASSISTANT),
    }
}

fn emit_activity(id: &Json<'static>, own: &mut Members<'_>, sink: &mut dyn CanonicalSink) {
    let shown = own.iter().position(|(key, value)| {
        carry::is_named(key, text_end::UI_SCHEMA)
            && json::parse_members(value).is_some_and(|members| !members.is_empty())
    });
    if let Some(at) = shown {
        let (_, content) = own.remove(at);
        let second_answer =
            Event::new(EventType::ActivitySnapshot).with(Field::MessageId, id.with_suffix(ACTIVITY_SUFFIX));
        let second_answer = second_answer.with(Field::ActivityType, Json::string(text_end::UI_SCHEMA_ACTIVITY));
        sink.emit(second_answer.with(Field::Content, content));
    }
}

const fn is_text(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::TextMessageStart
            | EventType::TextMessageContent
            | EventType::TextMessageEnd
            | EventType::TextMessageChunk
            | EventType::ActivitySnapshot
    )
}

/// Splits text into its original pieces if the lengths, which are external input, match.
fn split_text(text: &Json<'_>, lengths: Option<&Json<'_>>) -> Vec<Json<'static>> {
    let unsplit = || vec![text.clone().into_owned()];
    let Some(lengths) = lengths.and_then(json::parse_elements) else {
        return unsplit();
    };
    let mut rest = text.unquoted();
    let mut pieces = Vec::with_capacity(lengths.len());
    for length in &lengths {
        let piece = length.as_i64().and_then(|length| rest.split_at_checked(usize::try_from(length).ok()?));
        let Some((piece, more)) = piece else { return unsplit() };
        let piece = format!("\"{piece}\"");
        let Some(piece) = json::parse_value(&piece).map(Json::into_owned) else { return unsplit() };
        pieces.push(piece);
        rest = more;
    }
    if rest.is_empty() { pieces } else { unsplit() }
}

/// Temporary key for a buffered message's dialect members.
pub(super) const EXTENSIONS: &str = "$own";

/// Builds a message for each interrupt of a run: the question that the user's next message answers.
pub(super) fn build_questions(finish: &mut Event<'_>) -> Vec<Event<'static>> {
    if finish.kind != EventType::RunFinished {
        return Vec::new();
    }
    let build = |interrupt: PendingInterrupt| {
        let own = json::build_object(|object| {
            object.string_member(Field::Role.camel(), ASSISTANT);
            object.member(text_end::TEXT, interrupt.question().map_or("\"\"", Json::as_str));
            object.string_member(text_end::RESULT_TYPE, text_end::CLARIFICATION);
        });
        let mut end = Event::new(EventType::TextMessageEnd).with(Field::MessageId, interrupt.item_id);
        end.members.push((carry::extension_key(EXTENSIONS), own));
        end
    };
    interrupts::take_interrupts(finish).into_iter().map(build).collect()
}

/// Adds the required members to a merged message, and moves the dialect's own members out of it.
pub(super) fn write(outgoing: &mut OutgoingEvent<'_>) {
    if let Some(own) = carry::take(&mut outgoing.canonical, EXTENSIONS) {
        let mut own = json::parse_message(&own).map(crate::event::into_owned_members).unwrap_or_default();
        let text = find_member(&own, text_end::TEXT).cloned();
        let is_error = text.as_ref().is_some_and(|text| calls::restore_error(outgoing, text));
        if is_error {
            carry::take(&mut own, text_end::TEXT);
        }
        let is_value = carry::take(&mut outgoing.extensions, ANSWER_AS_JSON).is_some();
        if let Some(value) = text
            .filter(|_| is_value && !is_error)
            .and_then(|text| json::parse_value(&text.text()?).map(Json::into_owned))
        {
            set(&mut own, carry::extension_key(text_end::TEXT), value);
        }
        for (key, value) in own {
            if key == MemberKey::Known(Field::Role) && get(&outgoing.extensions, Field::Role).is_some() {
                continue;
            }
            if carry::is_named(&key, text_end::TEXT) {
                let second_answer = carry::take(&mut outgoing.extensions, text_end::TEXT);
                outgoing.canonical.extend(second_answer.map(|answer| (carry::extension_key(SECOND_ANSWER), answer)));
            }
            set(&mut outgoing.extensions, key, value);
        }
        if !is_error && find_member(&outgoing.extensions, text_end::TEXT).is_none() {
            outgoing.extensions.push((carry::extension_key(text_end::TEXT), Json::EMPTY_STRING));
        }
        calls::add_fillers(outgoing, text_end::FILLERS);
    }
    debug_assert!(
        outgoing.canonical.iter().filter(|(key, _)| carry::is_named(key, FILLED_MEMBERS)).count() <= 1,
        "noted once"
    );
}
