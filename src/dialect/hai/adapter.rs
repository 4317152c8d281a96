//! The adapter of `hai` for one direction of one run.
//!
//! For events that the dialect lacks, writing uses its own: thinking blocks for reasoning, output blocks for other
//! activities, messages between agents for subagents, and tool calls for interrupts.

use super::block_activity::is_opaque_content;
use super::block_reader::BlockReader;
use super::block_writer::{BlockWriter, ReasoningOrigin, RenderedBlock};
use super::blocks::block_text;
use super::collaboration::{CollaborationState, CollaborationStep};
use super::shown_activities::ShownActivities;
use super::subagents::SubagentNames;
use super::{placeholder, run_boundary, state_delta};
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, ReleasedEvent, ReleasedEvents, UnreadableEvent};
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::interrupts;
use crate::dialect::row::EventRow;
use crate::dialect::table::PeerDialect;
use crate::dialect::text_format::TextFormat;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, get, message_id, remove, set};

#[derive(Debug)]
pub(super) struct HaiAdapter {
    peer: PeerDialect,
    collaborations: CollaborationState,
    block_reader: BlockReader,
    block_writer: BlockWriter,
    shown_activities: ShownActivities,
    subagent_names: SubagentNames,
}

impl HaiAdapter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        // Only a client's text is written here.
        let peer = peer.for_client();
        Box::new(HaiAdapter {
            peer,
            collaborations: CollaborationState::default(),
            block_reader: BlockReader::default(),
            block_writer: BlockWriter::default(),
            shown_activities: ShownActivities::default(),
            subagent_names: SubagentNames::default(),
        })
    }

    fn writes_blocks(&self) -> bool {
        self.peer.text_format == TextFormat::Blocks
    }

    fn split_members<'a>(
        &self,
        kind: EventType,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
        let (_, row) = self.peer.dialect.row_for_kind(kind, self.peer.peer_version)?;
        Some((row, self.peer.dialect.split_members(row, event, canonical_type)))
    }

    fn write_content<'a>(&mut self, row: &'static EventRow, outgoing: OutgoingEvent<'a>) -> ReleasedEvents<'a> {
        if self.writes_blocks() {
            self.block_writer.mark_nonempty(&outgoing);
        }
        ReleasedEvents::from(ReleasedEvent::Complete { row, outgoing })
    }

    /// Writes activities and subagents as messages between agents, or as output blocks.
    fn write_activity<'a>(&mut self, event: Event<'a>) -> ReleasedEvents<'a> {
        let dialect = self.peer.dialect;
        if self.shown_activities.is_kept(&event) {
            return ReleasedEvents::from(ReleasedEvent::AsCustomNoOp(event));
        }
        let steps = match event.kind {
            EventType::ActivitySnapshot | EventType::ActivityDelta => {
                let id = message_id(&event.members);
                match self.collaborations.write(event, dialect.name) {
                    Ok(steps) => {
                        self.shown_activities.show_elsewhere(id);
                        steps
                    }
                    Err(event) => return self.write_activity_block(event),
                }
            }
            _ => self.subagent_names.write_events(event),
        };
        let complete = |(step, outgoing): (CollaborationStep, _)| {
            let (_, row) = dialect.row_with_shape(step.shape())?;
            Some(ReleasedEvent::Complete { row, outgoing })
        };
        steps.into_iter().filter_map(complete).collect()
    }

    /// Restores an activity's block. If text is written in blocks, other activities become new blocks, and a change becomes
    /// the block with its new content.
    fn write_activity_block<'a>(&mut self, event: Event<'a>) -> ReleasedEvents<'a> {
        let dialect = self.peer.dialect;
        let Some((_, row)) = dialect.row_for_kind(EventType::TextMessageContent, self.peer.peer_version) else {
            return ReleasedEvents::from(ReleasedEvent::AsCustom(event));
        };
        if event.kind == EventType::ActivityDelta {
            return match self.shown_activities.apply(&event) {
                Some(content) => self.render_block(row, event, content),
                None => ReleasedEvents::from(ReleasedEvent::AsCustom(event)),
            };
        }
        if let Some(outgoing) = self.block_writer.match_block(&event, dialect.name) {
            self.shown_activities.show_block(&event, Some(&outgoing));
            return self.write_content(row, outgoing);
        }
        if !self.writes_blocks() {
            return ReleasedEvents::from(ReleasedEvent::AsCustom(event));
        }
        self.shown_activities.show_block(&event, None);
        let content = event.get_or_empty(Field::Content);
        self.render_block(row, event, content)
    }

    /// Writes a block in the open message, or in a message of its own.
    fn render_block<'a>(
        &mut self,
        row: &'static EventRow,
        event: Event<'a>,
        content: Json<'static>,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let open = self.block_writer.last_open_message();
        let is_own = open.is_none();
        let message = open.unwrap_or_else(|| self.shown_activities.open_message(&id));
        let block_id = self.shown_activities.block_id(&id);
        let boundary = |kind| Event::new(kind).with(Field::MessageId, message.clone());
        let mut released = ReleasedEvents::default();
        if is_own {
            released.push_event(boundary(EventType::TextMessageStart), Some(""));
        }
        let block = RenderedBlock { content, message: message.clone(), block_id };
        let outgoing = block.write(event, self.peer.dialect.name);
        self.write_content(row, outgoing).into_iter().for_each(|content| released.push(content));
        if is_own {
            released.push_event(boundary(EventType::TextMessageEnd), Some(""));
        }
        released
    }

    /// Writes reasoning as thinking blocks, in its original message or in a new one.
    fn write_reasoning<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let kind = event.kind;
        if kind == EventType::ReasoningStart {
            let metadata = event.get_owned(Field::Metadata);
            let own = metadata.map(|metadata| carry::unpack(metadata, self.peer.dialect.name, |_| true).0);
            return match own.map(|mut own| self.block_writer.adopt_native(&id, &mut own)) {
                None | Some(ReasoningOrigin::Foreign) => ReleasedEvents::from(ReleasedEvent::AsCustom(event)),
                Some(ReasoningOrigin::OpenMessage) => ReleasedEvents::default(),
                Some(ReasoningOrigin::NewMessage(start)) => ReleasedEvents::pass(start, None),
            };
        }
        let Some(message) = self.block_writer.message_of_reasoning(&id).cloned() else {
            if !self.writes_blocks() || kind == EventType::ReasoningEnd {
                return ReleasedEvents::from(ReleasedEvent::AsCustom(event));
            }
            let canonical_type = canonical_type.unwrap_or(kind.wire());
            return self.write_thinking(&id, event, canonical_type, now_ms).unwrap_or_default();
        };
        match kind {
            EventType::ReasoningMessageContent => self.write_native_thinking(message, event).unwrap_or_default(),
            EventType::ReasoningEnd => {
                self.block_writer.forget_span(&id);
                ReleasedEvents::default()
            }
            _ => ReleasedEvents::default(),
        }
    }

    fn write_native_thinking<'a>(&mut self, message: Json<'static>, event: Event<'a>) -> Option<ReleasedEvents<'a>> {
        let (row, mut outgoing) = self.split_members(EventType::TextMessageContent, event, None)?;
        let text = get(&outgoing.members, Field::Delta).cloned().unwrap_or(Json::EMPTY_STRING);
        set(&mut outgoing.members, MemberKey::Known(Field::MessageId), message);
        let delta = self.block_writer.build_thinking(&text, &mut outgoing.extensions);
        set(&mut outgoing.members, MemberKey::Known(Field::Delta), delta);
        Some(self.write_content(row, outgoing))
    }

    fn write_thinking<'a>(
        &mut self,
        id: &Json<'static>,
        event: Event<'a>,
        canonical_type: &'static str,
        now_ms: i64,
    ) -> Option<ReleasedEvents<'a>> {
        let kind = event.kind;
        let time = event.get(Field::Timestamp).and_then(Json::as_i64).unwrap_or(now_ms);
        let mut data = self.block_writer.rendered_members(id, kind, time);
        if kind == EventType::ReasoningMessageStart {
            let (row, mut outgoing) = self.split_members(EventType::TextMessageStart, event, Some(canonical_type))?;
            let role = remove(&mut outgoing.members, Field::Role);
            outgoing.canonical.extend(role.map(|role| (MemberKey::Known(Field::Role), role)));
            self.block_writer.start_message(&mut outgoing);
            return Some(ReleasedEvents::from(ReleasedEvent::Complete { row, outgoing }));
        }
        let (row, mut outgoing) = self.split_members(EventType::TextMessageContent, event, Some(canonical_type))?;
        let text = remove(&mut outgoing.members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
        let delta = self.block_writer.build_thinking(&text, &mut data);
        outgoing.members.push((MemberKey::Known(Field::Delta), delta));
        let mut released = self.write_content(row, outgoing);
        if kind == EventType::ReasoningMessageEnd {
            let end = Event::new(EventType::TextMessageEnd).with(Field::MessageId, id.clone());
            let (row, mut outgoing) = self.split_members(EventType::TextMessageEnd, end, Some(""))?;
            self.block_writer.end_message(&mut outgoing);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        Some(released)
    }

    /// Writes calls for a run's interrupts before the run ends.
    fn write_finish<'a>(&self, mut event: Event<'a>, canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        let mut released = ReleasedEvents::default();
        let calls = interrupts::write_calls(&mut event, &self.peer);
        calls.into_iter().for_each(|call| released.push_event(call, Some("")));
        released.with_event(event, canonical_type)
    }
}

impl DialectAdapter for HaiAdapter {
    fn read(
        &mut self,
        row: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        let dialect = self.peer.dialect.name;
        let is_message =
            matches!(row.kind, EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd);
        self.block_reader.send_deferred_start(parts.event.get(Field::MessageId).filter(|_| is_message), sink);
        match row.kind {
            EventType::TextMessageStart => {
                self.block_reader.start_message(parts.into_event(dialect), sink);
                return Ok(());
            }
            EventType::TextMessageContent => return self.block_reader.read_content(parts, dialect, sink),
            EventType::TextMessageEnd => {
                self.block_reader.drop_repeated_role(&mut parts);
                self.block_reader.end_message(parts.into_event(dialect), sink);
                return Ok(());
            }
            EventType::RunStarted => run_boundary::read(&mut parts),
            EventType::RunFinished => {
                run_boundary::read(&mut parts);
                self.block_reader.finish(sink);
            }
            EventType::StateDelta => state_delta::read(&mut parts, sink),
            _ => {
                if let Some(step) = CollaborationStep::from_shape(row.shape) {
                    self.collaborations.read(step, &mut parts, dialect)?;
                }
            }
        }
        sink.emit(parts.into_event(dialect));
        Ok(())
    }

    fn is_unreadable(&self, row: &'static EventRow, members: &Members<'_>) -> bool {
        match CollaborationStep::from_shape(row.shape) {
            Some(step) => self.collaborations.interpret(step, members).is_none(),
            None => row.kind == EventType::TextMessageContent && is_opaque_content(members),
        }
    }

    fn read_other(&mut self, sink: &mut dyn CanonicalSink) {
        self.block_reader.send_deferred_start(None, sink);
    }

    fn finish(&mut self, sink: &mut dyn CanonicalSink) {
        self.block_reader.finish(sink);
    }

    fn text_of_delta<'a>(&self, delta: &'a Json<'_>) -> Option<Json<'a>> {
        block_text(delta)
    }

    fn restore<'a>(
        &mut self,
        _: &'static EventRow,
        kind: EventType,
        mut parts: IncomingEvent<'a>,
        dialect: &str,
    ) -> Event<'a> {
        if placeholder::carries_event(kind) {
            return placeholder::read_placeholder(kind, parts, dialect);
        }
        if let Some(text) = parts.event.get(Field::Delta).and_then(block_text).map(Json::into_owned) {
            parts.event.set(Field::Delta, text);
        }
        parts.into_canonical_event(kind, dialect)
    }

    fn buffer<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
    ) -> ReleasedEvents<'a> {
        match event.kind {
            // Thinking may have already opened the message.
            EventType::TextMessageStart
                if canonical_type.is_none() && self.block_writer.is_open(&message_id(&event.members)) =>
            {
                ReleasedEvents::default()
            }
            EventType::TextMessageEnd if self.writes_blocks() && self.block_writer.is_empty_end(&event) => {
                let id = message_id(&event.members);
                let empty = Event::new(EventType::TextMessageContent).with(Field::MessageId, id);
                ReleasedEvents::pass(empty.with(Field::Delta, Json::EMPTY_STRING), Some(""))
                    .with_event(event, canonical_type)
            }
            EventType::RunFinished => self.write_finish(event, canonical_type),
            EventType::MessagesSnapshot => {
                if self.writes_blocks() {
                    self.shown_activities.replace(&event);
                }
                ReleasedEvents::pass(event, canonical_type)
            }
            kind if kind.is_reasoning() => self.write_reasoning(event, canonical_type, now_ms),
            kind if placeholder::carries_event(kind) => self.write_activity(event),
            _ => ReleasedEvents::pass(event, canonical_type),
        }
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        match row.kind {
            EventType::RunStarted | EventType::RunFinished => run_boundary::write(outgoing),
            EventType::TextMessageStart => self.block_writer.start_message(outgoing),
            EventType::TextMessageContent => {
                self.block_writer.write_content(outgoing, self.peer.text_format);
                if self.writes_blocks() {
                    self.block_writer.mark_nonempty(outgoing);
                }
            }
            EventType::TextMessageEnd => self.block_writer.end_message(outgoing),
            EventType::StateDelta => state_delta::write(outgoing),
            _ => {}
        }
    }

    fn bookkeeping_bytes(&self) -> usize {
        self.shown_activities.content_bytes()
    }
}
