//! Opens and closes messages, thinking and calls for the pieces that rules emit.

use super::sent_text::{SentText, text_of};
use super::template::has_value;
use crate::dialect::CanonicalSink;
use crate::event::{Event, EventLoss, EventType, Field, IdMap, Json, MemberKey};

/// Members of a piece that belong to the start of what it opens.
const START_FIELDS: [Field; 4] = [Field::Role, Field::Name, Field::ToolCallName, Field::ParentMessageId];

/// The memory of a text or a call without its texts.
const ITEM_COST: usize = 160;

/// The items of a run.
#[derive(Debug, Default)]
pub(super) struct RunPieces {
    pub(super) run_id: Option<Json<'static>>,
    /// whether whole texts are compared with what was sent
    has_whole_texts: bool,
    answers: KnownTexts,
    thoughts: KnownTexts,
    /// the text that is open, and in none of the maps; a run has one at a time
    open_text: Option<UnfinishedText>,
    /// by key, or by id without one; kept when they are closed, since pieces may come late
    calls: IdMap<KnownCall>,
    /// keys of the calls that have an id of their own, by this id
    call_keys: IdMap<Json<'static>>,
    /// keys of open calls
    open_calls: IdMap<()>,
    /// of these, keys of calls with a piece since the last text or thinking
    current_calls: IdMap<()>,
    made_ids: usize,
    /// bytes of all items, counted as they are added: every frame asks for them
    held_bytes: usize,
}

/// Closed texts by the agent's id, or [`Json::EMPTY_STRING`] without one. They are kept only if whole texts may follow.
type KnownTexts = IdMap<KnownText>;

#[derive(Debug)]
struct UnfinishedText {
    kind: TextKind,
    key: Json<'static>,
    text: KnownText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Answer,
    Thought,
}

#[derive(Debug)]
struct KnownText {
    /// as sent: another one than the agent's after a replacement
    id: Json<'static>,
    sent: SentText,
}

#[derive(Debug)]
struct KnownCall {
    id: Json<'static>,
    /// whether the gateway made its id: the agent's may come with a later piece
    has_made_id: bool,
    /// the agent's id, if the call had begun under the gateway's
    late_id: Option<Json<'static>>,
    /// whether its pieces name it by a key, and may go on behind a text or thinking
    has_key: bool,
    name: Option<Json<'static>>,
    /// arguments that came before the name
    waiting: String,
    state: CallState,
    sent: SentText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// its name did not come yet
    Unnamed,
    Open,
    /// open, and a text or thinking began since its last piece
    Interrupted,
    Closed,
}

impl KnownCall {
    fn has_id(&self, id: &Json<'_>) -> bool {
        self.id.is_same(id) || self.late_id.as_ref().is_some_and(|late| late.is_same(id))
    }
}

impl TextKind {
    const fn content(self) -> EventType {
        match self {
            TextKind::Answer => EventType::TextMessageContent,
            TextKind::Thought => EventType::ReasoningMessageContent,
        }
    }

    /// The letter of ids that the gateway makes.
    const fn letter(self) -> char {
        match self {
            TextKind::Answer => 'm',
            TextKind::Thought => 'r',
        }
    }
}

impl RunPieces {
    pub(super) fn new(has_whole_texts: bool) -> Self {
        RunPieces { has_whole_texts, ..RunPieces::default() }
    }

    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    const fn texts(&self, kind: TextKind) -> &KnownTexts {
        match kind {
            TextKind::Answer => &self.answers,
            TextKind::Thought => &self.thoughts,
        }
    }

    const fn texts_mut(&mut self, kind: TextKind) -> &mut KnownTexts {
        match kind {
            TextKind::Answer => &mut self.answers,
            TextKind::Thought => &mut self.thoughts,
        }
    }

    pub(super) fn add_text(
        &mut self,
        kind: TextKind,
        mut piece: Event<'_>,
        whole: Option<Json<'_>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let own_id = piece.remove(Field::MessageId).filter(has_value).map(Json::into_string_value);
        let key = own_id.as_ref().map_or(Json::EMPTY_STRING, Json::as_borrowed);
        let is_open = self.open_text.as_ref().is_some_and(|open| open.kind == kind && open.key.is_same(&key));
        let open = self.open_text.as_ref().filter(|_| is_open).map(|open| &open.text);
        let known = whole.as_ref().and_then(|_| open.or_else(|| self.texts(kind).get(&key)));
        let (delta, is_replaced) = match (&whole, known) {
            (None, _) => (piece.remove(Field::Delta).map(Json::into_string_value), false),
            (Some(whole), None) => (Some(whole.to_string_value()), false),
            (Some(whole), Some(known)) => match known.sent.find_new(&text_of(whole)) {
                Some(new) => (Some(Json::string(new)), false),
                None => (Some(whole.to_string_value()), true),
            },
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if !is_open || is_replaced {
            self.close_text(sink);
        }
        self.interrupt_calls(sink);
        if !is_open || is_replaced {
            let id = self.open_text(kind, &key, own_id.is_some(), is_replaced);
            if kind == TextKind::Thought {
                sink.emit(Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone()));
                piece.set(Field::Role, Json::string("reasoning"));
                emit_start(Event::new(EventType::ReasoningMessageStart).with(Field::MessageId, id), &mut piece, sink);
            } else {
                emit_start(Event::new(EventType::TextMessageStart).with(Field::MessageId, id), &mut piece, sink);
            }
        }
        let is_compared = self.has_whole_texts;
        let Some(UnfinishedText { text, .. }) = &mut self.open_text else { return };
        if is_compared {
            text.sent.add(&text_of(&delta));
        }
        emit_content(kind.content(), text.id.as_borrowed(), delta, piece, sink);
    }

    /// Takes note of a text that was sent for the open message or thinking.
    pub(super) fn add_sent_text(&mut self, text: &str) {
        if let Some(open) = &mut self.open_text {
            open.text.sent.add(text);
        }
    }

    /// Opens a text under its id, or under one that the gateway makes, and returns the id.
    fn open_text(&mut self, kind: TextKind, key: &Json<'_>, has_own_id: bool, is_replaced: bool) -> Json<'static> {
        let before = self.texts_mut(kind).remove(key);
        let key = key.clone().into_owned();
        let id = match &before {
            Some(text) if has_own_id && !is_replaced => text.id.clone(),
            None if has_own_id => key.clone(),
            // A text without an id that goes on behind something else is another message.
            _ => self.make_id(kind.letter()),
        };
        if before.is_none() {
            self.held_bytes += ITEM_COST + 2 * id.heap_size();
        }
        let sent = before.filter(|_| !is_replaced).map(|text| text.sent).unwrap_or_default();
        self.open_text = Some(UnfinishedText { kind, key, text: KnownText { id: id.clone(), sent } });
        id
    }

    pub(super) fn add_arguments(
        &mut self,
        mut piece: Event<'_>,
        key: Option<Json<'_>>,
        whole: Option<Json<'_>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let id = piece.remove(Field::ToolCallId).filter(has_value).map(Json::into_string_value);
        let name = piece.remove(Field::ToolCallName).filter(has_value).map(Json::into_owned);
        let handle = self.find_or_add_call(key, id, name.is_some(), sink);
        let is_compared = self.has_whole_texts;
        let Some(call) = self.calls.get_mut(&handle) else { return };
        call.name = call.name.take().or(name);
        let delta = match whole {
            Some(whole) => {
                let new = call.sent.find_new(&text_of(&whole)).map(Json::string);
                if new.is_none() {
                    sink.count_loss(EventLoss::EventNotShown);
                }
                new
            }
            None => piece.remove(Field::Delta).map(Json::into_string_value),
        };
        let delta = delta.filter(has_value);
        if let Some(delta) = delta.as_ref().filter(|_| is_compared) {
            call.sent.add(&text_of(delta));
        }
        let Some(name) = call.name.clone() else {
            if let Some(delta) = delta {
                let text = text_of(&delta);
                self.held_bytes += text.len();
                call.waiting.push_str(&text);
            }
            return;
        };
        let (id, state) = (call.id.clone(), call.state);
        let waiting = std::mem::take(&mut call.waiting);
        // A call that goes on behind something else starts again under its own name.
        let starts = state == CallState::Unnamed || (state == CallState::Closed && delta.is_some());
        if starts || state == CallState::Interrupted {
            call.state = CallState::Open;
            self.current_calls.insert(handle.clone(), ());
        }
        if starts {
            self.open_calls.insert(handle, ());
            self.close_text(sink);
            let start = Event::new(EventType::ToolCallStart).with(Field::ToolCallId, id.clone());
            emit_start(start.with(Field::ToolCallName, name), &mut piece, sink);
        }
        let waiting = Some(waiting).filter(|waiting| !waiting.is_empty()).map(|waiting| Json::string(&waiting));
        for delta in waiting.into_iter().chain(delta) {
            let members = std::mem::take(&mut piece.members);
            let piece = Event { members, ..Event::new(EventType::ToolCallArgs) };
            emit_content(EventType::ToolCallArgs, id.clone(), delta, piece, sink);
        }
    }

    /// Finds the call of a piece by its key, its id, or as the latest one, and returns its key.
    fn find_or_add_call(
        &mut self,
        key: Option<Json<'_>>,
        id: Option<Json<'_>>,
        has_name: bool,
        sink: &mut dyn CanonicalSink,
    ) -> Json<'static> {
        let (key, id) = (key.map(Json::into_owned), id.map(Json::into_owned));
        let by_id = || id.as_ref().map(|id| self.call_keys.get(id).unwrap_or(id).clone());
        // A piece without id and key goes on with the latest call.
        let latest = || self.open_calls.last().filter(|_| id.is_none() && !has_name).map(|(key, ())| key.clone());
        let has_key = key.is_some();
        let handle = key.or_else(by_id).or_else(latest).unwrap_or_else(|| self.make_id('c'));
        let is_known = self.calls.get(&handle).is_some_and(|call| match (&id, call.state) {
            (Some(id), _) if call.has_id(id) => true,
            (Some(_), CallState::Unnamed) => call.has_made_id,
            (Some(_), _) => call.has_made_id && call.late_id.is_none() && !has_name,
            // Agents begin to count again with each answer of their model.
            (None, CallState::Interrupted | CallState::Closed) => !has_name,
            (None, CallState::Unnamed | CallState::Open) => true,
        });
        if is_known {
            self.take_late_id(&handle, id);
            return handle;
        }
        self.close_call(&handle, sink);
        let has_made_id = id.is_none() && has_key;
        let id = match id {
            Some(id) => id,
            None if has_key => self.make_id('c'),
            None => handle.clone(),
        };
        self.held_bytes += ITEM_COST + 2 * id.heap_size() + handle.heap_size();
        if !id.is_same(&handle) {
            self.call_keys.insert(id.clone(), handle.clone());
        }
        let (state, sent) = (CallState::Unnamed, SentText::default());
        let (late_id, name, waiting) = (None, None, String::new());
        let call = KnownCall { id, has_made_id, late_id, has_key, name, waiting, state, sent };
        self.calls.insert(handle.clone(), call);
        handle
    }

    /// Gives a call its own id, unless it has begun under one of the gateway's.
    fn take_late_id(&mut self, handle: &Json<'static>, id: Option<Json<'static>>) {
        let is_late = |call: &&mut KnownCall| call.has_made_id && call.late_id.is_none();
        let (Some(id), Some(call)) = (id, self.calls.get_mut(handle).filter(is_late)) else { return };
        self.held_bytes += 2 * id.heap_size();
        self.call_keys.insert(id.clone(), handle.clone());
        if call.state == CallState::Unnamed {
            call.has_made_id = false;
            call.id = id;
        } else {
            call.late_id = Some(id);
        }
    }

    /// Ends a call before its result, or because the agent says so.
    pub(super) fn end_call(&mut self, mut event: Event<'_>, key: Option<Json<'_>>, sink: &mut dyn CanonicalSink) {
        let id = event.remove(Field::ToolCallId).filter(has_value).map(Json::into_string_value);
        let by_id = || {
            let id = id.as_ref()?;
            let handle = self.call_keys.get(id).unwrap_or(id);
            // The key may be another call's by now.
            self.calls.get(handle).filter(|call| call.has_id(id)).map(|_| handle.as_borrowed().into_owned())
        };
        let handle = key.filter(|key| self.calls.contains(key)).map(Json::into_owned).or_else(by_id);
        if let Some(handle) = &handle {
            self.close_call(handle, sink);
        }
        if event.kind != EventType::ToolCallResult {
            return;
        }
        self.close_text(sink);
        let call = handle.and_then(|handle| self.calls.get(&handle));
        let own = call.filter(|call| id.as_ref().is_none_or(|id| call.has_id(id))).map(|call| call.id.clone());
        if let Some(id) = own.or(id) {
            event.set(Field::ToolCallId, id);
        }
        if event.get(Field::MessageId).is_none() {
            event.set(Field::MessageId, self.make_id('t'));
        }
        let content = event.remove(Field::Content).unwrap_or(Json::EMPTY_STRING).into_string_value();
        sink.emit(event.with(Field::Content, content));
    }

    fn close_call(&mut self, handle: &Json<'_>, sink: &mut dyn CanonicalSink) {
        self.open_calls.remove(handle);
        self.current_calls.remove(handle);
        // Without a name, nothing was sent of it.
        if self.calls.get_mut(handle).is_some_and(|call| !std::mem::take(&mut call.waiting).is_empty()) {
            sink.count_loss(EventLoss::EventNotShown);
        }
        let is_open = |call: &&mut KnownCall| matches!(call.state, CallState::Open | CallState::Interrupted);
        if let Some(call) = self.calls.get_mut(handle).filter(is_open) {
            call.state = CallState::Closed;
            sink.emit(Event::new(EventType::ToolCallEnd).with(Field::ToolCallId, call.id.clone()));
        }
    }

    fn close_text(&mut self, sink: &mut dyn CanonicalSink) {
        let Some(UnfinishedText { kind, key, text }) = self.open_text.take() else { return };
        let id = text.id.clone();
        if self.has_whole_texts {
            self.texts_mut(kind).insert(key, text);
        } else {
            self.held_bytes -= ITEM_COST + 2 * id.heap_size();
        }
        if kind == TextKind::Answer {
            return sink.emit(Event::new(EventType::TextMessageEnd).with(Field::MessageId, id));
        }
        sink.emit(Event::new(EventType::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
        sink.emit(Event::new(EventType::ReasoningEnd).with(Field::MessageId, id));
    }

    /// Ends the open calls before a text or thinking, but those by a key: a delta may have pieces of both.
    fn interrupt_calls(&mut self, sink: &mut dyn CanonicalSink) {
        // Every delta of a text comes here.
        if self.current_calls.is_empty() {
            return;
        }
        for (handle, ()) in std::mem::take(&mut self.current_calls).drain() {
            match self.calls.get_mut(&handle).filter(|call| call.has_key) {
                Some(call) => call.state = CallState::Interrupted,
                None => self.close_call(&handle, sink),
            }
        }
    }

    fn close_calls(&mut self, sink: &mut dyn CanonicalSink) {
        for (handle, ()) in std::mem::take(&mut self.open_calls).drain() {
            self.close_call(&handle, sink);
        }
    }

    pub(super) fn close_all(&mut self, sink: &mut dyn CanonicalSink) {
        self.close_text(sink);
        self.close_calls(sink);
    }

    /// Counts the arguments of calls whose name never came, at the end of the run.
    pub(super) fn count_unnamed(&self, sink: &mut dyn CanonicalSink) {
        let unnamed = self.calls.iter().filter(|(_, call)| !call.waiting.is_empty());
        unnamed.for_each(|_| sink.count_loss(EventLoss::EventNotShown));
    }

    fn make_id(&mut self, letter: char) -> Json<'static> {
        self.made_ids += 1;
        let run = self.run_id.as_ref().map_or("run".into(), text_of);
        Json::string(&format!("{run}-{letter}{}", self.made_ids))
    }
}

/// Emits the start of what a piece opens, with the piece's members other than its delta.
fn emit_start<'p>(mut start: Event<'p>, piece: &mut Event<'p>, sink: &mut dyn CanonicalSink) {
    let delta = piece.remove(Field::Delta);
    start.members.append(&mut piece.members);
    if start.kind == EventType::TextMessageStart && start.get(Field::Role).is_none() {
        start.set(Field::Role, Json::string("assistant"));
    }
    piece.members.extend(delta.map(|delta| (MemberKey::Known(Field::Delta), delta)));
    sink.emit(start);
}

/// Emits a delta with the piece's members, in the memory of the piece.
fn emit_content<'p>(
    kind: EventType,
    id: Json<'p>,
    delta: Json<'p>,
    mut piece: Event<'p>,
    sink: &mut dyn CanonicalSink,
) {
    piece.members.retain(|(key, _)| !START_FIELDS.iter().any(|field| *key == MemberKey::Known(*field)));
    let id_field = if kind == EventType::ToolCallArgs { Field::ToolCallId } else { Field::MessageId };
    piece.members.insert(0, (MemberKey::Known(Field::Delta), delta));
    piece.members.insert(0, (MemberKey::Known(id_field), id));
    sink.emit(Event { kind, ..piece });
}
