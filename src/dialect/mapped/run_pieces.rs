//! Opens and closes messages, thinking and calls for the pieces that rules emit.

use super::open_piece::{SentText, text_of};
use super::template::has_value;
use crate::dialect::CanonicalSink;
use crate::event::{Event, EventType, Field, IdMap, Json, JsonType, MemberKey};

/// Members of a piece that belong to the start of what it opens.
const START_FIELDS: [Field; 4] = [Field::Role, Field::Name, Field::ToolCallName, Field::ParentMessageId];

/// The items of a run.
#[derive(Debug, Default)]
pub(super) struct RunPieces {
    pub(super) run_id: Option<Json<'static>>,
    /// whether texts are compared with what was sent
    has_whole_content: bool,
    text: MappedText,
    thinking: MappedText,
    /// by key, or by id without one; kept when they are closed, as texts are
    calls: IdMap<KnownCall>,
    /// keys of the calls that have an id of their own, by this id
    call_keys: IdMap<Json<'static>>,
    /// keys of open calls
    open_calls: IdMap<()>,
    made_ids: usize,
}

/// A message, or thinking. It is kept when it is closed, to compare the whole text with it.
#[derive(Debug, Default)]
struct MappedText {
    id: Option<Json<'static>>,
    is_open: bool,
    sent: SentText,
}

#[derive(Debug)]
struct KnownCall {
    id: Json<'static>,
    state: CallState,
    sent: SentText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// its name did not come yet
    Unnamed,
    Open,
    Closed,
}

impl RunPieces {
    pub(super) fn new(has_whole_content: bool) -> Self {
        RunPieces { has_whole_content, ..RunPieces::default() }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let keys = self.call_keys.heap_size(Json::heap_size) + self.open_calls.heap_size(|()| 0);
        self.calls.heap_size(|call| call.id.heap_size()) + keys
    }

    pub(super) fn add_text(
        &mut self,
        mut piece: Event<'static>,
        content: Option<Json<'static>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let mut id = piece.remove(Field::MessageId).filter(has_value).map(string_id);
        let is_other = id.is_some() && self.text.id.is_some() && !same_id(id.as_ref(), self.text.id.as_ref());
        if is_other {
            self.close_text(sink);
            self.text = MappedText::default();
        }
        let (delta, is_replaced) = match &content {
            Some(whole) => self.text.find_new(whole),
            None => (piece.remove(Field::Delta).map(|delta| delta.to_string_value()), false),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if is_replaced {
            self.close_text(sink);
            self.text = MappedText::default();
            id = None;
        }
        self.close_thinking(sink);
        self.close_calls(sink);
        if !self.text.is_open {
            // A text without an id of its own that goes on behind something else is another message.
            if id.is_none() || self.text.id.is_none() {
                self.text = MappedText { id: Some(id.unwrap_or_else(|| self.make_id('m'))), ..MappedText::default() };
            }
            self.text.is_open = true;
            let id = self.text.id.clone().unwrap_or(Json::EMPTY_STRING);
            emit_start(id_event(EventType::TextMessageStart, Field::MessageId, id), &mut piece, sink);
        }
        let id = self.text.id.clone().unwrap_or(Json::EMPTY_STRING);
        self.text.record(self.has_whole_content, &delta);
        emit_content(id_event(EventType::TextMessageContent, Field::MessageId, id), delta, piece, sink);
    }

    pub(super) fn add_thinking(
        &mut self,
        mut piece: Event<'static>,
        content: Option<Json<'static>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let id = piece.remove(Field::MessageId).filter(has_value).map(string_id);
        if id.is_some() && self.thinking.id.is_some() && !same_id(id.as_ref(), self.thinking.id.as_ref()) {
            self.close_thinking(sink);
            self.thinking = MappedText::default();
        }
        let (delta, is_replaced) = match &content {
            Some(whole) => self.thinking.find_new(whole),
            None => (piece.remove(Field::Delta).map(|delta| delta.to_string_value()), false),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if is_replaced {
            self.close_thinking(sink);
            self.thinking = MappedText::default();
        }
        self.close_text(sink);
        self.close_calls(sink);
        if !self.thinking.is_open {
            if id.is_none() || self.thinking.id.is_none() || is_replaced {
                let id = id.filter(|_| !is_replaced).unwrap_or_else(|| self.make_id('r'));
                self.thinking = MappedText { id: Some(id), ..MappedText::default() };
            }
            self.thinking.is_open = true;
            let id = self.thinking.id.clone().unwrap_or(Json::EMPTY_STRING);
            sink.emit(Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone()));
            piece.set(Field::Role, Json::string("reasoning"));
            emit_start(id_event(EventType::ReasoningMessageStart, Field::MessageId, id), &mut piece, sink);
        }
        let id = self.thinking.id.clone().unwrap_or(Json::EMPTY_STRING);
        self.thinking.record(self.has_whole_content, &delta);
        emit_content(id_event(EventType::ReasoningMessageContent, Field::MessageId, id), delta, piece, sink);
    }

    pub(super) fn add_arguments(
        &mut self,
        mut piece: Event<'static>,
        key: Option<Json<'static>>,
        content: Option<Json<'static>>,
        sink: &mut dyn CanonicalSink,
    ) {
        self.close_text(sink);
        self.close_thinking(sink);
        let id = piece.remove(Field::ToolCallId).filter(has_value).map(string_id);
        let has_name = piece.get(Field::ToolCallName).is_some_and(has_value);
        // A piece without id and key goes on with the latest call.
        let latest = self.open_calls.last().filter(|_| id.is_none() && !has_name).map(|(key, ())| key.clone());
        let handle = key.or_else(|| id.clone()).or(latest).unwrap_or_else(|| self.make_id('c'));
        let is_known = self.calls.get(&handle).is_some_and(|call| match (&id, call.state) {
            (Some(id), _) => call.id.is_same(id),
            // Agents begin to count again with each answer of their model.
            (None, CallState::Closed) => !has_name,
            (None, CallState::Unnamed | CallState::Open) => true,
        });
        if !is_known {
            self.close_call(&handle, sink);
            let id = id.unwrap_or_else(|| self.make_id('c'));
            if !id.is_same(&handle) {
                self.call_keys.insert(id.clone(), handle.clone());
            }
            self.calls.insert(handle.clone(), KnownCall { id, state: CallState::Unnamed, sent: SentText::default() });
        }
        let has_whole_content = self.has_whole_content;
        let Some(call) = self.calls.get_mut(&handle) else { return };
        let id = call.id.clone();
        if call.state == CallState::Unnamed && has_name {
            call.state = CallState::Open;
            self.open_calls.insert(handle, ());
            emit_start(id_event(EventType::ToolCallStart, Field::ToolCallId, id.clone()), &mut piece, sink);
        }
        let delta = match content {
            Some(whole) => call.sent.find_new(&text_of(&whole)).map(Json::string),
            None => piece.remove(Field::Delta).map(|delta| delta.to_string_value()),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if has_whole_content {
            call.sent.add(&text_of(&delta));
        }
        emit_content(id_event(EventType::ToolCallArgs, Field::ToolCallId, id), delta, piece, sink);
    }

    /// Ends a call before its result, or because the agent says so.
    pub(super) fn end_call(
        &mut self,
        mut event: Event<'static>,
        key: Option<Json<'static>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let id = event.remove(Field::ToolCallId).filter(has_value).map(string_id);
        let by_id = || {
            let id = id.as_ref()?;
            self.call_keys.get(id).cloned().or_else(|| self.calls.contains(id).then(|| id.clone()))
        };
        let handle = key.filter(|key| self.calls.contains(key)).or_else(by_id);
        if let Some(handle) = &handle {
            self.close_call(handle, sink);
        }
        if event.kind != EventType::ToolCallResult {
            return;
        }
        self.close_text(sink);
        self.close_thinking(sink);
        let own = handle.and_then(|handle| self.calls.get(&handle)).map(|call| call.id.clone());
        if let Some(id) = id.or(own) {
            event.set(Field::ToolCallId, id);
        }
        if event.get(Field::MessageId).is_none() {
            event.set(Field::MessageId, self.make_id('t'));
        }
        let content = event.remove(Field::Content).unwrap_or(Json::EMPTY_STRING).to_string_value();
        sink.emit(event.with(Field::Content, content));
    }

    fn close_call(&mut self, handle: &Json<'_>, sink: &mut dyn CanonicalSink) {
        self.open_calls.remove(handle);
        if let Some(call) = self.calls.get_mut(handle).filter(|call| call.state == CallState::Open) {
            call.state = CallState::Closed;
            sink.emit(Event::new(EventType::ToolCallEnd).with(Field::ToolCallId, call.id.clone()));
        }
    }

    fn close_text(&mut self, sink: &mut dyn CanonicalSink) {
        if std::mem::take(&mut self.text.is_open)
            && let Some(id) = self.text.id.clone()
        {
            sink.emit(Event::new(EventType::TextMessageEnd).with(Field::MessageId, id));
        }
    }

    fn close_thinking(&mut self, sink: &mut dyn CanonicalSink) {
        if std::mem::take(&mut self.thinking.is_open)
            && let Some(id) = self.thinking.id.clone()
        {
            sink.emit(Event::new(EventType::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            sink.emit(Event::new(EventType::ReasoningEnd).with(Field::MessageId, id));
        }
    }

    fn close_calls(&mut self, sink: &mut dyn CanonicalSink) {
        for (handle, ()) in std::mem::take(&mut self.open_calls).drain() {
            self.close_call(&handle, sink);
        }
    }

    pub(super) fn close_all(&mut self, sink: &mut dyn CanonicalSink) {
        self.close_text(sink);
        self.close_thinking(sink);
        self.close_calls(sink);
    }

    fn make_id(&mut self, kind: char) -> Json<'static> {
        self.made_ids += 1;
        let run = self.run_id.as_ref().map_or("run".into(), text_of);
        Json::string(&format!("{run}-{kind}{}", self.made_ids))
    }
}

impl MappedText {
    /// Returns what a whole text adds, and whether it replaces what was sent.
    fn find_new(&self, whole: &Json<'_>) -> (Option<Json<'static>>, bool) {
        let whole = text_of(whole);
        match self.sent.find_new(&whole) {
            Some(new) => (Some(Json::string(new)), false),
            None => (Some(Json::string(&whole)), true),
        }
    }

    fn record(&mut self, is_compared: bool, delta: &Json<'_>) {
        if is_compared {
            self.sent.add(&text_of(delta));
        }
    }
}

fn id_event(kind: EventType, field: Field, id: Json<'static>) -> Event<'static> {
    Event::new(kind).with(field, id)
}

/// Emits the start of what a piece opens, with the piece's members other than its delta.
fn emit_start(mut start: Event<'static>, piece: &mut Event<'static>, sink: &mut dyn CanonicalSink) {
    let delta = piece.remove(Field::Delta);
    start.members.append(&mut piece.members);
    if start.kind == EventType::TextMessageStart && start.get(Field::Role).is_none() {
        start.set(Field::Role, Json::string("assistant"));
    }
    piece.members.extend(delta.map(|delta| (MemberKey::Known(Field::Delta), delta)));
    sink.emit(start);
}

fn emit_content(
    content: Event<'static>,
    delta: Json<'static>,
    mut piece: Event<'static>,
    sink: &mut dyn CanonicalSink,
) {
    START_FIELDS.into_iter().for_each(|field| drop(piece.remove(field)));
    let mut content = content.with(Field::Delta, delta);
    content.members.append(&mut piece.members);
    sink.emit(content);
}

/// Returns an id as a string, as AG-UI's are.
fn string_id(id: Json<'static>) -> Json<'static> {
    if id.json_type() == JsonType::String { id } else { id.to_string_value() }
}

fn same_id(own: Option<&Json<'_>>, other: Option<&Json<'_>>) -> bool {
    matches!((own, other), (Some(own), Some(other)) if own.is_same(other))
}
