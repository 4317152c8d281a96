//! Writes activities and subagents.

use super::HaiWriter;
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::hai::block_writer::RenderedBlock;
use crate::dialect::hai::collaboration::CollaborationStep;
use crate::dialect::row::EventRow;
use crate::event::{Event, EventType, Field, Json, message_id};

impl HaiWriter {
    /// Writes activities and subagents as messages between agents, or as output blocks.
    pub(super) fn write_activity<'a>(&mut self, event: Event<'a>) -> ReleasedEvents<'a> {
        let dialect = self.peer.dialect;
        if self.shown_activities.is_ignored_snapshot(&event) {
            return ReleasedEvents::from(ReleasedEvent::AsCustomNoOp(event));
        }
        let steps = match event.kind {
            EventType::ActivitySnapshot | EventType::ActivityDelta => {
                let id = message_id(&event.members);
                let is_new = event.kind == EventType::ActivitySnapshot;
                match self.collaborations.write(event, dialect.name) {
                    Ok(steps) => {
                        if is_new {
                            self.block_writer.texts.count_other();
                        }
                        self.shown_activities.record_without_block(id);
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
        if let Some(outgoing) = self.block_writer.match_block(&event, &self.message_parts, dialect.name) {
            self.shown_activities.record_block(&event, Some(&outgoing));
            return self.write_native_content(row, outgoing);
        }
        if !self.writes_blocks() {
            return ReleasedEvents::from(ReleasedEvent::AsCustom(event));
        }
        self.shown_activities.record_block(&event, None);
        let content = event.get_or_empty(Field::Content);
        self.render_block(row, event, content)
    }

    /// Writes a block in the last message if that is open, or else in a message of its own.
    fn render_block<'a>(
        &mut self,
        row: &'static EventRow,
        event: Event<'a>,
        content: Json<'static>,
    ) -> ReleasedEvents<'a> {
        let id = message_id(&event.members);
        let open = self.last_message.get().filter(|last| self.block_writer.is_open(last)).cloned();
        let is_own = open.is_none();
        let mut released = ReleasedEvents::default();
        if is_own {
            self.leave_message(&mut released);
        }
        let message = open.unwrap_or_else(|| self.last_message.add_for(&id));
        self.kept_messages.record_activity(&event, &message);
        let block_id = self.shown_activities.block_id(&id);
        if is_own {
            self.add_boundary(EventType::TextMessageStart, &message, None, &mut released);
        }
        let block = RenderedBlock { content, message: message.clone(), block_id };
        let outgoing = block.write(event, self.peer.dialect.name);
        self.write_content(row, outgoing).into_iter().for_each(|content| released.push(content));
        if is_own {
            self.add_boundary(EventType::TextMessageEnd, &message, None, &mut released);
        }
        released
    }
}
