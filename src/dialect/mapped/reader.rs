//! Reads the frames of a run with a file's rules.
//!
//! ```text
//!   text       closed ──first text──▶ open ──other id, thinking, call, list of messages, end──▶ closed
//!   thinking   the same, with text instead of thinking
//!   call       unnamed ──name──▶ open ──text, thinking, its result or end, list of messages, end──▶ closed
//!   run        running ──finish──▶ succeeded ──done, end of the stream──▶ ended
//!                 ╰──────────────────done, fail────────────────────────▶ ended
//! ```
//! Several calls may be open. An id that the agent does not give is made from the run's.

use super::open_piece::{SentText, text_of};
use super::rule::{EmittedEvent, MappingRule, MemberTemplate, RuleEffect};
use super::template::{ValueScope, ValueTemplate, has_value};
use super::{Mapping, ThreadState, ThreadValues};
use crate::codec::json;
use crate::dialect::CanonicalSink;
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, IdMap, Json, JsonType, MemberKey, Members, set};

/// Members of a piece that belong to the start of what it opens.
const START_FIELDS: [Field; 4] = [Field::Role, Field::Name, Field::ToolCallName, Field::ParentMessageId];

/// The CUSTOM event of a run whose agent begins a new conversation, although the client goes on with one.
const CONVERSATION_LOST: &str = "diglot.conversation_lost";

const CONVERSATION_LOST_TEXT: &str =
    "The agent does not know the earlier messages of this conversation: what the gateway kept of it is gone.";

/// Reads one run.
#[derive(Debug)]
pub(crate) struct MappedReader {
    mapping: &'static Mapping,
    dialect: &'static str,
    thread_id: Option<Json<'static>>,
    run_id: Option<Json<'static>>,
    run: Vec<Option<Json<'static>>>,
    thread: ThreadValues,
    text: OpenText,
    thinking: OpenText,
    /// by key, or by id without one; kept when they are closed, as texts are
    calls: IdMap<KnownCall>,
    /// keys of open calls
    open_calls: Vec<Json<'static>>,
    made_ids: usize,
    /// members of RUN_FINISHED, once the run has succeeded
    finish: Option<Members<'static>>,
    /// whether earlier runs of the thread kept nothing, although there were some
    is_thread_lost: bool,
    has_new_thread_values: bool,
    has_begun: bool,
    has_ended: bool,
}

/// A message, or thinking. It is kept when it is closed, to compare the whole text with it.
#[derive(Debug, Default)]
struct OpenText {
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

/// The frame that is read.
#[derive(Clone, Copy)]
struct MappedFrame<'f> {
    slots: &'f [Option<Json<'f>>],
    event_line: Option<&'f str>,
    data: &'f str,
    item: Option<&'f Json<'f>>,
}

impl MappedReader {
    /// Creates a reader of the dialect of this name.
    pub(crate) fn new(mapping: &'static Mapping, dialect: &'static str) -> Self {
        MappedReader {
            mapping,
            dialect,
            thread_id: None,
            run_id: None,
            run: vec![None; mapping.run_names.len()],
            thread: vec![None; mapping.thread_names.len()],
            text: OpenText::default(),
            thinking: OpenText::default(),
            calls: IdMap::default(),
            open_calls: Vec::new(),
            made_ids: 0,
            finish: None,
            is_thread_lost: false,
            has_new_thread_values: false,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Sets the ids of the request, and what earlier runs of the thread kept.
    pub(crate) fn begin(&mut self, thread_id: Json<'static>, run_id: Json<'static>, thread: ThreadState) {
        self.thread_id = Some(thread_id);
        self.run_id = Some(run_id);
        self.is_thread_lost = thread.is_lost;
        self.thread.iter_mut().zip(thread.values).for_each(|(own, kept)| *own = kept);
    }

    /// Returns what the next runs of the thread need, if it is new.
    pub(crate) fn take_thread_values(&mut self) -> Option<ThreadValues> {
        std::mem::take(&mut self.has_new_thread_values).then(|| self.thread.clone())
    }

    /// Returns the bytes of the values that the run keeps.
    pub(crate) fn held_bytes(&self) -> usize {
        let values = self.run.iter().chain(&self.thread).flatten().map(Json::heap_size).sum::<usize>();
        let finish = self.finish.iter().flatten().map(|(_, value)| value.heap_size()).sum::<usize>();
        values + finish + self.calls.heap_size(|call| call.id.heap_size() + size_of::<KnownCall>())
    }

    /// Reads a frame. Returns the type of the first event that it stands for; `None` if no rule is for it.
    pub(crate) fn read_frame(
        &mut self,
        event_line: Option<&str>,
        data: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Option<EventType> {
        if self.has_ended {
            sink.count_loss(EventLoss::AfterTerminal);
            return None;
        }
        let parsed = json::parse_value(data.trim());
        let slots = self.mapping.paths.read(parsed.clone().unwrap_or(Json::NULL));
        let frame = MappedFrame { slots: &slots, event_line, data, item: None };
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin_run(sink);
        }
        let mapping = self.mapping;
        let mut first = None;
        let mut is_known = false;
        for rule in &mapping.rules {
            match &rule.each {
                None => is_known |= self.apply_rule(rule, frame, &mut first, sink),
                Some(list) => {
                    let Some(list) = self.scope(frame).list(list).map(Json::into_owned) else { continue };
                    for item in json::parse_elements(&list).unwrap_or_default() {
                        let frame = MappedFrame { item: Some(&item), ..frame };
                        is_known |= self.apply_rule(rule, frame, &mut first, sink);
                    }
                }
            }
            if self.has_ended {
                break;
            }
        }
        if !is_known {
            self.emit_unknown(parsed, data, sink);
        }
        first.or(is_known.then_some(EventType::Raw))
    }

    /// Ends the run at the end of the agent's stream, if it has succeeded.
    pub(crate) fn end_stream(&mut self, sink: &mut dyn CanonicalSink) {
        if self.finish.is_some() && !self.has_ended {
            self.end_run(sink);
        }
    }

    fn begin_run(&self, sink: &mut dyn CanonicalSink) {
        let start = Event::new(EventType::RunStarted).with(Field::ThreadId, Json::EMPTY_STRING);
        sink.emit(start.with(Field::RunId, Json::EMPTY_STRING));
        if self.is_thread_lost {
            sink.count_loss(EventLoss::ConversationLost);
            let lost = Event::new(EventType::Custom).with(Field::Name, Json::string(CONVERSATION_LOST));
            sink.emit(lost.with(Field::Value, Json::string(CONVERSATION_LOST_TEXT)));
        }
    }

    fn scope<'s>(&'s self, frame: MappedFrame<'s>) -> ValueScope<'s> {
        ValueScope {
            slots: frame.slots,
            item: frame.item,
            run: &self.run,
            thread: &self.thread,
            event_line: frame.event_line,
            data: frame.data,
            thread_id: self.thread_id.as_ref(),
            run_id: self.run_id.as_ref(),
            ..ValueScope::default()
        }
    }

    /// Applies a rule if its conditions hold, which it returns.
    fn apply_rule(
        &mut self,
        rule: &'static MappingRule,
        frame: MappedFrame<'_>,
        first: &mut Option<EventType>,
        sink: &mut dyn CanonicalSink,
    ) -> bool {
        if self.has_ended || !self.scope(frame).holds(&rule.conditions) {
            return false;
        }
        for effect in &rule.effects {
            match effect {
                RuleEffect::Emit(event) => {
                    first.get_or_insert(event.kind);
                    self.emit(event, frame, sink);
                }
                RuleEffect::Set(at, value) => self.run[*at] = self.make(value, frame),
                RuleEffect::Append(at, value) => self.append(*at, value, frame),
                RuleEffect::Keep(at, value) => {
                    if let Some(value) = self.make(value, frame).filter(has_value)
                        && self.thread[*at].as_ref() != Some(&value)
                    {
                        self.thread[*at] = Some(value);
                        self.has_new_thread_values = true;
                    }
                }
                RuleEffect::Finish(members) => {
                    let made = self.make_members(members, frame);
                    let finish = self.finish.get_or_insert_default();
                    made.into_iter().for_each(|(key, value)| set(finish, key, value));
                }
                RuleEffect::Done => {
                    first.get_or_insert(EventType::RunFinished);
                    self.end_run(sink);
                }
                RuleEffect::Fail { message, code } => {
                    first.get_or_insert(EventType::RunError);
                    self.fail(message.as_ref(), code.as_ref(), frame, sink);
                }
            }
        }
        true
    }

    fn make(&self, template: &ValueTemplate, frame: MappedFrame<'_>) -> Option<Json<'static>> {
        template.make(&self.scope(frame)).map(Json::into_owned)
    }

    fn make_members(&self, templates: &[MemberTemplate], frame: MappedFrame<'_>) -> Members<'static> {
        let made = templates.iter().map(|(key, template)| Some((key.clone(), self.make(template, frame)?)));
        made.flatten().collect()
    }

    fn append(&mut self, at: usize, template: &ValueTemplate, frame: MappedFrame<'_>) {
        let Some(more) = self.make(template, frame) else { return };
        let more = more.to_string_value();
        self.run[at] = Some(match self.run[at].take() {
            Some(before) => before.with_suffix(more.unquoted()),
            None => more,
        });
    }

    fn emit(&mut self, template: &'static EmittedEvent, frame: MappedFrame<'_>, sink: &mut dyn CanonicalSink) {
        let members = self.make_members(&template.members, frame);
        let event = Event { kind: template.kind, members, source: None };
        let key = template.key.as_ref().and_then(|key| self.make(key, frame));
        let content = template.content.as_ref().and_then(|content| self.make(content, frame));
        match template.kind {
            EventType::TextMessageChunk => self.add_text(event, content, sink),
            EventType::ReasoningMessageChunk => self.add_thinking(event, content, sink),
            EventType::ToolCallChunk => self.add_arguments(event, key, content, sink),
            EventType::ToolCallEnd | EventType::ToolCallResult => self.end_call(event, key, sink),
            EventType::MessagesSnapshot => {
                self.close_all(sink);
                sink.emit(event);
            }
            _ => sink.emit(event),
        }
    }

    fn add_text(&mut self, mut piece: Event<'static>, content: Option<Json<'static>>, sink: &mut dyn CanonicalSink) {
        let mut id = piece.remove(Field::MessageId).filter(has_value).map(string_id);
        let is_other = id.is_some() && self.text.id.is_some() && !same_id(id.as_ref(), self.text.id.as_ref());
        if is_other {
            self.close_text(sink);
            self.text = OpenText::default();
        }
        let (delta, is_replaced) = match &content {
            Some(whole) => self.text.find_new(whole),
            None => (piece.remove(Field::Delta).map(|delta| delta.to_string_value()), false),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if is_replaced {
            self.close_text(sink);
            self.text = OpenText::default();
            id = None;
        }
        self.close_thinking(sink);
        self.close_calls(sink);
        if !self.text.is_open {
            // A text without an id of its own that goes on behind something else is another message.
            if id.is_none() || self.text.id.is_none() {
                self.text = OpenText { id: Some(id.unwrap_or_else(|| self.make_id('m'))), ..OpenText::default() };
            }
            self.text.is_open = true;
            let id = self.text.id.clone().unwrap_or(Json::EMPTY_STRING);
            emit_start(EventType::TextMessageStart, (Field::MessageId, id), &mut piece, sink);
        }
        let id = self.text.id.clone().unwrap_or(Json::EMPTY_STRING);
        self.text.record(self.mapping, &delta);
        emit_content(EventType::TextMessageContent, (Field::MessageId, id), delta, piece, sink);
    }

    fn add_thinking(
        &mut self,
        mut piece: Event<'static>,
        content: Option<Json<'static>>,
        sink: &mut dyn CanonicalSink,
    ) {
        let id = piece.remove(Field::MessageId).filter(has_value).map(string_id);
        if id.is_some() && self.thinking.id.is_some() && !same_id(id.as_ref(), self.thinking.id.as_ref()) {
            self.close_thinking(sink);
            self.thinking = OpenText::default();
        }
        let (delta, is_replaced) = match &content {
            Some(whole) => self.thinking.find_new(whole),
            None => (piece.remove(Field::Delta).map(|delta| delta.to_string_value()), false),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if is_replaced {
            self.close_thinking(sink);
            self.thinking = OpenText::default();
        }
        self.close_text(sink);
        self.close_calls(sink);
        if !self.thinking.is_open {
            if id.is_none() || self.thinking.id.is_none() || is_replaced {
                let id = id.filter(|_| !is_replaced).unwrap_or_else(|| self.make_id('r'));
                self.thinking = OpenText { id: Some(id), ..OpenText::default() };
            }
            self.thinking.is_open = true;
            let id = self.thinking.id.clone().unwrap_or(Json::EMPTY_STRING);
            sink.emit(Event::new(EventType::ReasoningStart).with(Field::MessageId, id.clone()));
            piece.set(Field::Role, Json::string("reasoning"));
            emit_start(EventType::ReasoningMessageStart, (Field::MessageId, id), &mut piece, sink);
        }
        let id = self.thinking.id.clone().unwrap_or(Json::EMPTY_STRING);
        self.thinking.record(self.mapping, &delta);
        emit_content(EventType::ReasoningMessageContent, (Field::MessageId, id), delta, piece, sink);
    }

    fn add_arguments(
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
        let latest = self.open_calls.last().filter(|_| id.is_none() && !has_name).cloned();
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
            self.calls.insert(handle.clone(), KnownCall { id, state: CallState::Unnamed, sent: SentText::default() });
        }
        let has_whole_content = self.mapping.has_whole_content;
        let Some(call) = self.calls.get_mut(&handle) else { return };
        let id = call.id.clone();
        if call.state == CallState::Unnamed && has_name {
            call.state = CallState::Open;
            self.open_calls.push(handle);
            emit_start(EventType::ToolCallStart, (Field::ToolCallId, id.clone()), &mut piece, sink);
        }
        let delta = match content {
            Some(whole) => call.sent.find_new(&text_of(&whole)).map(Json::string),
            None => piece.remove(Field::Delta).map(|delta| delta.to_string_value()),
        };
        let Some(delta) = delta.filter(has_value) else { return };
        if has_whole_content {
            call.sent.add(&text_of(&delta));
        }
        emit_content(EventType::ToolCallArgs, (Field::ToolCallId, id), delta, piece, sink);
    }

    /// Ends a call before its result, or because the agent says so.
    fn end_call(&mut self, mut event: Event<'static>, key: Option<Json<'static>>, sink: &mut dyn CanonicalSink) {
        let id = event.remove(Field::ToolCallId).filter(has_value).map(string_id);
        let by_id = || {
            let is_its = |handle: &&Json<'static>| {
                self.calls.get(handle).is_some_and(|call| same_id(Some(&call.id), id.as_ref()))
            };
            self.open_calls.iter().find(is_its).cloned()
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
        self.open_calls.retain(|open| !open.is_same(handle));
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
        for handle in std::mem::take(&mut self.open_calls) {
            self.close_call(&handle, sink);
        }
    }

    fn close_all(&mut self, sink: &mut dyn CanonicalSink) {
        self.close_text(sink);
        self.close_thinking(sink);
        self.close_calls(sink);
    }

    fn end_run(&mut self, sink: &mut dyn CanonicalSink) {
        self.close_all(sink);
        self.has_ended = true;
        let mut end = Event::new(EventType::RunFinished)
            .with(Field::ThreadId, Json::EMPTY_STRING)
            .with(Field::RunId, Json::EMPTY_STRING);
        end.members.extend(self.finish.take().unwrap_or_default());
        sink.emit(end);
    }

    fn fail(
        &mut self,
        message: Option<&ValueTemplate>,
        code: Option<&ValueTemplate>,
        frame: MappedFrame<'_>,
        sink: &mut dyn CanonicalSink,
    ) {
        let text = |template: Option<&ValueTemplate>| {
            let value = self.make(template?, frame).filter(has_value)?;
            Some(value.to_string_value())
        };
        let message = text(message).unwrap_or_else(|| Json::string("The agent failed without a message."));
        let code = text(code);
        self.close_all(sink);
        self.has_ended = true;
        let mut error = Event::new(EventType::RunError).with(Field::Message, message);
        if let Some(code) = code {
            error.set(Field::Code, code);
        }
        sink.emit(error);
    }

    /// Passes on a frame for which there is no rule.
    fn emit_unknown(&self, parsed: Option<Json<'_>>, data: &str, sink: &mut dyn CanonicalSink) {
        sink.count_repair(EventRepair::UnknownType);
        sink.count_loss(EventLoss::EventNotShown);
        let event = parsed.unwrap_or_else(|| Json::string(data));
        sink.emit(Event::new(EventType::Raw).with(Field::Event, event).with(Field::Source, Json::string(self.dialect)));
    }

    fn make_id(&mut self, kind: char) -> Json<'static> {
        self.made_ids += 1;
        let run = self.run_id.as_ref().map_or("run".into(), text_of);
        Json::string(&format!("{run}-{kind}{}", self.made_ids))
    }
}

impl OpenText {
    /// Returns what a whole text adds, and whether it replaces what was sent.
    fn find_new(&self, whole: &Json<'_>) -> (Option<Json<'static>>, bool) {
        let whole = text_of(whole);
        match self.sent.find_new(&whole) {
            Some(new) => (Some(Json::string(new)), false),
            None => (Some(Json::string(&whole)), true),
        }
    }

    fn record(&mut self, mapping: &Mapping, delta: &Json<'_>) {
        if mapping.has_whole_content {
            self.sent.add(&text_of(delta));
        }
    }
}

/// Emits the start of what a piece opens, with the piece's members other than its delta.
fn emit_start(
    kind: EventType,
    (field, id): (Field, Json<'static>),
    piece: &mut Event<'static>,
    sink: &mut dyn CanonicalSink,
) {
    let mut start = Event::new(kind).with(field, id);
    let delta = piece.remove(Field::Delta);
    start.members.append(&mut piece.members);
    if kind == EventType::TextMessageStart && start.get(Field::Role).is_none() {
        start.set(Field::Role, Json::string("assistant"));
    }
    piece.members.extend(delta.map(|delta| (MemberKey::Known(Field::Delta), delta)));
    sink.emit(start);
}

fn emit_content(
    kind: EventType,
    (field, id): (Field, Json<'static>),
    delta: Json<'static>,
    mut piece: Event<'static>,
    sink: &mut dyn CanonicalSink,
) {
    START_FIELDS.into_iter().for_each(|field| drop(piece.remove(field)));
    let mut content = Event::new(kind).with(field, id).with(Field::Delta, delta);
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
