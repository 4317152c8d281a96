//! Reads the frames of a run with a file's rules.
//!
//! ```text
//!   text       closed ──first text──▶ open ──other id, thinking, call, list of messages, end──▶ closed
//!   thinking   the same, with text instead of thinking
//!   call       unnamed ──name──▶ open ──text, thinking, its result or end, list of messages, end──▶ closed
//!              with a key, text and thinking only interrupt it
//!   run        running ──finish──▶ succeeded ──done, end of the stream──▶ ended
//!                 ╰──────────────────done, fail────────────────────────▶ ended
//! ```
//! Several calls may be open. An id that the agent does not give is made from the run's.

use super::frame_trace::FrameTrace;
use super::list_allowance::{ListAllowance, RunAllowance};
use super::rule::{EmittedEvent, MappingRule, MemberTemplate, RuleEffect};
use super::run_pieces::{RunPieces, TextKind};
use super::template::{ValueScope, ValueTemplate, has_value};
use super::{CONVERSATION_GONE, Mapping, ThreadChange, ThreadState, ThreadValues};
use crate::codec::json::{self, PathTree};
use crate::dialect::CanonicalSink;
use crate::event::lane::ChunkStreamKind;
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, MemberKey, Members, set};

/// The CUSTOM event of a run whose agent begins a new conversation, although the client goes on with one.
const CONVERSATION_LOST: &str = "diglot.conversation_lost";

const CONVERSATION_LOST_TEXT: &str = "The gateway has nothing from the earlier runs of this conversation, so the agent may not know its earlier messages.";

/// Reads one run.
#[derive(Debug)]
pub(crate) struct MappedReader {
    mapping: &'static Mapping,
    dialect: &'static str,
    values: RunValues,
    pieces: RunPieces,
    /// members of RUN_FINISHED, once the run has succeeded
    finish: Option<Members<'static>>,
    /// whether earlier runs of the thread kept nothing, although there were some
    is_thread_lost: bool,
    /// whether earlier runs kept something, so that the agent should know the thread
    has_kept_values: bool,
    forgets_thread: bool,
    /// those of the thread that are new; empty without any
    new_thread_values: ThreadValues,
    has_begun: bool,
    has_ended: bool,
    /// whether a frame had a value where all paths begin
    has_payload: bool,
    /// of the frame that is read, if the run is explained
    pub(crate) trace: Option<FrameTrace>,
    /// what the rules did with the last frame
    last_effects: FrameEffects,
    /// bytes of the values that the run keeps
    value_bytes: usize,
    allowance: RunAllowance,
}

/// The values that rules read besides those of the frame.
#[derive(Debug)]
struct RunValues {
    thread_id: Option<Json<'static>>,
    run_id: Option<Json<'static>>,
    /// by position in [`Mapping::run_names`]
    run: Vec<Option<Json<'static>>>,
    /// by position in [`Mapping::thread_names`]
    thread: ThreadValues,
    /// of the frame that is read
    lists: ListAllowance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameEffects {
    None,
    /// one piece of a text or of arguments, with the frame's own delta
    OneCopy(EventType),
    Other,
}

/// The frame that is read.
#[derive(Clone, Copy)]
struct MappedFrame<'f> {
    slots: &'f [Option<Json<'f>>],
    event_line: Option<&'f str>,
    data: &'f str,
    item: Option<&'f Json<'f>>,
}

impl RunValues {
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
            lists: Some(&self.lists),
            ..ValueScope::default()
        }
    }

    fn make(&self, template: &ValueTemplate, frame: MappedFrame<'_>) -> Option<Json<'static>> {
        template.make(&self.scope(frame)).map(Json::into_owned)
    }
}

impl MappedReader {
    /// Creates a reader of the dialect of this name.
    pub(crate) fn new(mapping: &'static Mapping, dialect: &'static str) -> Self {
        MappedReader {
            mapping,
            dialect,
            values: RunValues {
                thread_id: None,
                run_id: None,
                run: vec![None; mapping.run_names.len()],
                thread: vec![None; mapping.thread_names.len()],
                lists: ListAllowance::default(),
            },
            pieces: RunPieces::new(mapping.has_whole_texts),
            finish: None,
            is_thread_lost: false,
            has_kept_values: false,
            forgets_thread: false,
            new_thread_values: Vec::new(),
            has_begun: false,
            has_ended: false,
            has_payload: mapping.payload.is_none(),
            trace: None,
            last_effects: FrameEffects::None,
            value_bytes: 0,
            allowance: RunAllowance::default(),
        }
    }

    /// Sets the ids of the request, and what earlier runs of the thread kept.
    pub(crate) fn begin(&mut self, thread_id: Json<'static>, run_id: Json<'static>, thread: ThreadState) {
        self.values.thread_id = Some(thread_id);
        self.values.run_id = Some(run_id.clone());
        self.pieces.run_id = Some(run_id);
        self.is_thread_lost = thread.is_lost;
        self.has_kept_values = thread.has_values();
        self.values.thread.iter_mut().zip(thread.values).for_each(|(own, kept)| *own = kept);
        self.count_value_bytes();
    }

    /// Returns what changes for the next runs of the thread.
    pub(crate) fn take_thread_change(&mut self) -> Option<ThreadChange> {
        let values = std::mem::take(&mut self.new_thread_values);
        if std::mem::take(&mut self.forgets_thread) {
            return Some(ThreadChange::Forget);
        }
        Some(values).filter(|values| !values.is_empty()).map(ThreadChange::Keep)
    }

    /// Returns the path where the frames' content should be, if no frame of the run had a value there.
    pub(crate) fn missing_payload(&self) -> Option<&'static str> {
        let payload = self.mapping.payload.as_ref();
        payload.filter(|_| self.has_begun && !self.has_payload).map(|payload| &*payload.path)
    }

    /// Returns the bytes of the values that the run keeps.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.value_bytes + self.pieces.held_bytes()
    }

    /// Counts the bytes of values. Most frames change none.
    fn count_value_bytes(&mut self) {
        let values = self.values.run.iter().chain(&self.values.thread).flatten().map(Json::heap_size).sum::<usize>();
        let finish = self.finish.iter().flatten().map(|(_, value)| value.heap_size()).sum::<usize>();
        self.value_bytes = values + finish;
    }

    /// Returns whether the lists of the last frame have too many elements, or too much was made of it or of all frames.
    pub(crate) const fn has_excess(&self) -> bool {
        self.values.lists.is_exceeded() || self.allowance.is_exceeded()
    }

    /// Returns the type of the content that the last frame became, if the frame's delta was copied and nothing else
    /// happened.
    pub(crate) fn copied_content(&self) -> Option<EventType> {
        match self.last_effects {
            FrameEffects::OneCopy(EventType::TextMessageChunk) => Some(EventType::TextMessageContent),
            FrameEffects::OneCopy(EventType::ReasoningMessageChunk) => Some(EventType::ReasoningMessageContent),
            // Whole arguments are compared with what was sent of their call.
            FrameEffects::OneCopy(_) if !self.mapping.has_whole_texts => Some(EventType::ToolCallArgs),
            _ => None,
        }
    }

    /// Takes note of another text of the open message or thinking, in place of a frame that repeats the last one.
    pub(crate) fn add_repeated_text(&mut self, text: &str) {
        self.pieces.add_sent_text(text);
    }

    /// Reads a frame. Returns the type of the first event that it stands for; `None` if no rule is for it.
    pub(crate) fn read_frame(
        &mut self,
        event_line: Option<&str>,
        data: &str,
        sink: &mut dyn CanonicalSink,
    ) -> Option<EventType> {
        self.last_effects = FrameEffects::None;
        self.values.lists = ListAllowance::new(data.len());
        let slots = self.mapping.paths.read(data);
        let frame = MappedFrame { slots: &slots, event_line, data, item: None };
        if self.has_ended {
            self.count_late_frame(frame, sink);
            return None;
        }
        if let Some(payload) = self.mapping.payload.as_ref().filter(|_| !self.has_payload) {
            self.has_payload = slots[payload.slot].is_some();
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin_run(sink);
        }
        let mut first = None;
        let mut is_known = false;
        let mapping = self.mapping;
        let mut rules = mapping.rule_index.find(&slots, event_line).map(|at| &mapping.rules[at]);
        while !self.has_ended {
            let scope = self.values.scope(frame);
            // A rule that does nothing only says that the frame is known, or explains it.
            let skips_ignored = is_known && self.trace.is_none();
            let next = rules.find(|rule| match &rule.each {
                _ if skips_ignored && rule.effects.is_empty() => false,
                None => scope.holds(&rule.conditions),
                Some(list) => scope.list(list).is_some(),
            });
            let Some(rule) = next else { break };
            match &rule.each {
                None => is_known |= self.apply_rule(rule, frame, &mut first, sink),
                Some(list) => {
                    let list = scope.list(list).map(Json::into_owned).unwrap_or(Json::NULL);
                    for item in self.values.lists.elements(&list) {
                        let frame = MappedFrame { item: Some(&item), ..frame };
                        let is_over = self.has_ended || self.has_excess();
                        if !is_over && self.values.scope(frame).holds(&rule.conditions) {
                            is_known |= self.apply_rule(rule, frame, &mut first, sink);
                        }
                    }
                }
            }
        }
        if !is_known {
            self.emit_unknown(frame, sink);
        }
        self.allowance.add_frame(data.len(), &self.values.lists);
        if self.last_effects == FrameEffects::Other {
            self.count_value_bytes();
        }
        first.or(is_known.then_some(EventType::Raw))
    }

    /// Ends the run at the end of the agent's stream, if it has succeeded.
    pub(crate) fn end_stream(&mut self, sink: &mut dyn CanonicalSink) {
        if self.has_ended {
            return;
        }
        match self.finish {
            Some(_) => self.end_run(sink),
            None => self.pieces.count_unnamed(sink),
        }
    }

    /// Counts a frame after the end of the run, unless it is one with which agents end their streams.
    fn count_late_frame(&mut self, frame: MappedFrame<'_>, sink: &mut dyn CanonicalSink) {
        let mut trace = self.trace.take();
        let scope = self.values.scope(frame);
        let (mut is_known, mut emits) = (false, false);
        for rule in self.mapping.rules.iter().filter(|rule| rule.each.is_none() && scope.holds(&rule.conditions)) {
            is_known = true;
            emits |= rule.effects.iter().any(|effect| matches!(effect, RuleEffect::Emit(_)));
            if let Some(trace) = &mut trace {
                trace.add_rule(rule, &scope);
            }
        }
        if let Some(trace) = trace.as_mut().filter(|_| !is_known) {
            trace.name_unknown(&self.mapping.rules, &scope);
        }
        self.trace = trace;
        if !is_known || emits {
            sink.count_loss(EventLoss::AfterTerminal);
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

    /// Applies a rule whose conditions hold. Returns false if the frame lacks the rule's values, and is then unknown.
    fn apply_rule(
        &mut self,
        rule: &'static MappingRule,
        frame: MappedFrame<'_>,
        first: &mut Option<EventType>,
        sink: &mut dyn CanonicalSink,
    ) -> bool {
        if let Some(trace) = &mut self.trace {
            trace.add_rule(rule, &self.values.scope(frame));
        }
        let mut is_used = rule.effects.is_empty();
        for effect in &rule.effects {
            match effect {
                RuleEffect::Emit(event) => {
                    if self.emit(event, frame, sink) {
                        first.get_or_insert(event.kind);
                        is_used = true;
                        let is_only = event.copies_text && self.last_effects == FrameEffects::None;
                        self.last_effects =
                            if is_only { FrameEffects::OneCopy(event.kind) } else { FrameEffects::Other };
                    }
                    continue;
                }
                // A flag that is set again changes nothing.
                RuleEffect::Set(at, ValueTemplate::Literal(value)) if self.values.run[*at].as_ref() == Some(value) => {
                    is_used = true;
                    continue;
                }
                RuleEffect::Set(at, value) => self.values.run[*at] = self.values.make(value, frame),
                RuleEffect::Append(at, value) => self.append(*at, value, frame),
                RuleEffect::Keep(at, value) => {
                    if let Some(value) = self.values.make(value, frame).filter(has_value)
                        && self.values.thread[*at].as_ref() != Some(&value)
                    {
                        if let Some(trace) = &mut self.trace {
                            trace.add_kept(&self.mapping.thread_names[*at], &value);
                        }
                        self.new_thread_values.resize(self.values.thread.len(), None);
                        self.new_thread_values[*at] = Some(value.clone());
                        self.values.thread[*at] = Some(value);
                    }
                }
                RuleEffect::Finish(members) => {
                    let made = make_members(members, &self.values.scope(frame));
                    let finish = self.finish.get_or_insert_default();
                    made.into_iter().for_each(|(key, value)| set(finish, key.into_owned(), value.into_owned()));
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
            is_used = true;
            self.last_effects = FrameEffects::Other;
        }
        is_used
    }

    fn append(&mut self, at: usize, template: &ValueTemplate, frame: MappedFrame<'_>) {
        let Some(more) = self.values.make(template, frame) else { return };
        let more = more.into_string_value();
        match &mut self.values.run[at] {
            Some(before) => before.push_suffix(more.unquoted()),
            none => *none = Some(more),
        }
    }

    /// Emits an event. Returns false if the frame lacks what makes the event.
    fn emit(&mut self, template: &'static EmittedEvent, frame: MappedFrame<'_>, sink: &mut dyn CanonicalSink) -> bool {
        let scope = self.values.scope(frame);
        let event = Event { kind: template.kind, members: make_members(&template.members, &scope), source: None };
        let key = template.key.as_ref().and_then(|key| key.make(&scope));
        let whole = template.whole_text.as_ref().and_then(|whole| whole.make(&scope));
        // It may lack members.
        if self.has_excess() {
            return true;
        }
        let is_piece = ChunkStreamKind::from_event(event.kind).is_some();
        if is_piece && whole.is_none() && event.get(Field::Delta).or(event.get(Field::ToolCallName)).is_none() {
            return false;
        }
        match template.kind {
            EventType::TextMessageChunk => self.pieces.add_text(TextKind::Answer, event, whole, sink),
            EventType::ReasoningMessageChunk => self.pieces.add_text(TextKind::Thought, event, whole, sink),
            EventType::ToolCallChunk => self.pieces.add_arguments(event, key, whole, sink),
            EventType::ToolCallEnd | EventType::ToolCallResult => self.pieces.end_call(event, key, sink),
            EventType::MessagesSnapshot => {
                self.pieces.close_all(sink);
                sink.emit(event);
            }
            _ => sink.emit(event),
        }
        true
    }

    fn end_run(&mut self, sink: &mut dyn CanonicalSink) {
        self.pieces.close_all(sink);
        self.pieces.count_unnamed(sink);
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
            let value = self.values.make(template?, frame).filter(has_value)?;
            Some(value.into_string_value())
        };
        let message = text(message);
        let mut code = text(code);
        let own_code = code.as_ref().and_then(Json::text);
        let mut message = message.unwrap_or_else(|| Json::string("The agent failed without a message."));
        if self.has_kept_values && self.mapping.error.forgets(None, own_code.as_deref()) {
            self.forgets_thread = true;
            let (gone_code, gone_text) = CONVERSATION_GONE;
            message = Json::string(&format!("{gone_text} {}", message.text().unwrap_or_default()));
            code = Some(Json::string(gone_code));
        }
        self.pieces.close_all(sink);
        self.pieces.count_unnamed(sink);
        self.has_ended = true;
        let mut error = Event::new(EventType::RunError).with(Field::Message, message);
        if let Some(code) = code {
            error.set(Field::Code, code);
        }
        sink.emit(error);
    }

    /// Passes on a frame for which there is no rule.
    fn emit_unknown(&mut self, frame: MappedFrame<'_>, sink: &mut dyn CanonicalSink) {
        if let Some(trace) = &mut self.trace {
            trace.name_unknown(&self.mapping.rules, &self.values.scope(frame));
        }
        sink.count_repair(EventRepair::UnknownType);
        sink.count_loss(EventLoss::EventNotShown);
        let data = frame.slots[PathTree::ROOT].clone().unwrap_or_else(|| Json::string(frame.data));
        let event = match frame.event_line.filter(|_| self.mapping.reads_event_line) {
            // Without its line, the frame cannot be told from others.
            Some(line) => json::build_object(|object| {
                object.copy_member(&(MemberKey::Other("event".into()), Json::string(line)), false);
                object.copy_member(&(MemberKey::Other("data".into()), data), false);
            }),
            None => data,
        };
        sink.emit(Event::new(EventType::Raw).with(Field::Event, event).with(Field::Source, Json::string(self.dialect)));
    }
}

fn make_members<'s>(templates: &'s [MemberTemplate], scope: &ValueScope<'s>) -> Members<'s> {
    let mut made = Members::with_capacity(templates.len());
    for (key, template) in templates {
        made.extend(template.make(scope).map(|value| (key.clone(), value)));
    }
    made
}
