//! Shows events that a dialect lacks by other events: activities, reasoning, subagents and interrupts.

use super::{EventWriter, OutputContext};
use crate::codec::json::JsonObject;
use crate::dialect::{CollaborationStep, EventRow, EventShape, TextFormat};
use crate::event::{Event, EventType, Field, Json, MemberKey, get, message_id};
use crate::translate::{carry, interrupt, output_blocks, placeholder};

impl EventWriter {
    /// Asks for a run's interrupts by calls of a tool, which have no canonical counterpart.
    pub(super) fn write_interrupt_calls(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) {
        if event.kind == EventType::RunFinished
            && let Some(tool) = self.peer.interrupt_tool_name()
        {
            interrupt::interrupt_calls(event, tool).into_iter().for_each(|call| self.write_mapped(call, Some(""), to));
        }
    }

    /// Returns whether other events can show events of this kind.
    pub(super) const fn has_fallback(kind: EventType) -> bool {
        placeholder::carries_event(kind)
    }

    /// Writes activities and subagents as messages between agents; other activities as output blocks.
    pub(super) fn write_fallback(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) {
        let dialect = self.peer.dialect;
        let talks = dialect.row_with_shape(EventShape::Collaboration(CollaborationStep::Start)).is_some();
        let steps = match event.kind {
            _ if !talks => Err(event),
            EventType::ActivitySnapshot | EventType::ActivityDelta => self.collaborations.write(event, dialect),
            _ => Ok(self.subagent_names.write_events(event)),
        };
        match steps {
            Ok(steps) => {
                for (step, said) in steps {
                    if let Some((label, row)) = dialect.row_with_shape(EventShape::Collaboration(step)) {
                        self.write_outgoing(label, row, said, to);
                    }
                }
            }
            Err(event) => self.write_activity_block(event, to),
        }
    }

    /// Writes an activity as its original output block, or as one that shows it where text is written in blocks.
    fn write_activity_block(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) {
        let dialect = self.peer.dialect;
        let Some(content) = self.content_row.filter(|_| event.kind == EventType::ActivitySnapshot) else {
            return self.write_as_custom(event, to);
        };
        match self.text_writer.try_block(event, dialect) {
            Ok(said) => self.write_complete(content, said, to),
            Err(event) if self.peer.text_format == TextFormat::String => self.write_as_custom(event, to),
            Err(event) => {
                let (said, alone) = self.text_writer.render_block(event, dialect);
                let edge = |kind| alone.clone().map(|id| Event::new(kind).with(Field::MessageId, id));
                edge(EventType::TextMessageStart).into_iter().for_each(|start| self.write_mapped(start, Some(""), to));
                self.write_complete(content, said, to);
                edge(EventType::TextMessageEnd).into_iter().for_each(|end| self.write_mapped(end, Some(""), to));
            }
        }
    }

    /// Returns whether reading would wrap an event of this row, with these members, whole.
    pub(super) fn is_read_wrapped(&self, row: &EventRow, object: &JsonObject<'_>) -> bool {
        match row.shape {
            EventShape::OutputBlock => output_blocks::is_opaque_content(&object.members),
            EventShape::Collaboration(step) => self.collaborations.interpret(step, &object.members).is_none(),
            _ => false,
        }
    }

    /// Writes reasoning as thinking blocks: inside the message it came in, or as a message of its own.
    pub(super) fn write_reasoning(
        &mut self,
        content: &'static EventRow,
        event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) {
        let (id, kind) = (message_id(&event.members), event.kind);
        if kind == EventType::ReasoningStart {
            let metadata = event.get(Field::Metadata).cloned().map(Json::into_owned);
            let own = metadata.map(|metadata| carry::unpack(metadata, self.peer.dialect.name, |_| true).0);
            let Some(start) = own.and_then(|mut own| self.text_writer.adopt_native(&id, &mut own)) else {
                return self.write_as_custom(event, to);
            };
            if let Some(start) = start {
                self.write_mapped(start, None, to);
            }
            return;
        }
        if let Some(message) = self.text_writer.message_of_reasoning(&id).cloned() {
            if kind == EventType::ReasoningMessageContent {
                let mut said = self.split_members(content, event, None);
                let text = get(&said.members, Field::Delta).cloned().unwrap_or_else(|| Json::string(""));
                crate::event::set(&mut said.members, MemberKey::Known(Field::MessageId), message);
                let delta = self.text_writer.build_thinking(&text, &mut said.extensions);
                crate::event::set(&mut said.members, MemberKey::Known(Field::Delta), delta);
                self.write_complete(content, said, to);
            }
            if kind == EventType::ReasoningEnd {
                self.text_writer.forget_span(&id);
            }
            return;
        }
        match self.peer.text_format {
            TextFormat::Blocks if kind != EventType::ReasoningEnd => {
                self.write_thinking(content, &id, event, canonical_type.unwrap_or(kind.wire()), to);
            }
            _ => self.write_as_custom(event, to),
        }
    }

    fn write_thinking(
        &mut self,
        content: &'static EventRow,
        id: &Json<'_>,
        event: Event<'_>,
        canonical_type: &'static str,
        to: &mut OutputContext<'_>,
    ) {
        let kind = event.kind;
        let at = event.get(Field::Timestamp).and_then(Json::as_i64).unwrap_or(to.now_ms);
        let mut data = self.text_writer.rendered_members(id, kind, at);
        if kind == EventType::ReasoningMessageStart {
            if let Some((label, row)) = self.row_of(EventType::TextMessageStart) {
                let mut said = self.split_members(row, event, Some(canonical_type));
                said.canonical.extend(
                    crate::event::remove(&mut said.members, Field::Role)
                        .map(|role| (MemberKey::Known(Field::Role), role)),
                );
                self.write_row(label, row, said, to);
            }
            return;
        }
        let mut said = self.split_members(content, event, Some(canonical_type));
        let text = crate::event::remove(&mut said.members, Field::Delta).unwrap_or_else(|| Json::string(""));
        let delta = self.text_writer.build_thinking(&text, &mut data);
        said.members.push((MemberKey::Known(Field::Delta), delta));
        self.write_complete(content, said, to);
        if kind == EventType::ReasoningMessageEnd
            && let Some((label, row)) = self.row_of(EventType::TextMessageEnd)
        {
            let end = Event::new(EventType::TextMessageEnd).with(Field::MessageId, id.clone());
            let said = self.split_members(row, end, Some(""));
            self.write_row(label, row, said, to);
        }
    }
}
