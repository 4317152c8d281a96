//! The adapter of `social-app` for one direction of one run.

use super::calls::{self, ArgsBuffer, OpenToolCalls};
use super::message_buffer::MessageBuffer;
use super::messages::{self, StreamedMessages};
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, ReleasedEvent, ReleasedEvents, UnreadableEvent};
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{flatten_parts, restore_chunk, supply_result_id};
use crate::dialect::row::EventRow;
use crate::dialect::table::{Dialect, PeerDialect};
use crate::event::{Event, EventLoss, EventType, Field};

#[derive(Debug)]
pub(super) struct SocialAppAdapter {
    dialect: &'static Dialect,
    open_calls: OpenToolCalls,
    streamed_messages: StreamedMessages,
    args_buffer: ArgsBuffer,
    message_buffer: MessageBuffer,
}

impl SocialAppAdapter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        Box::new(SocialAppAdapter {
            dialect: peer.dialect,
            open_calls: OpenToolCalls::default(),
            streamed_messages: StreamedMessages::default(),
            args_buffer: ArgsBuffer::default(),
            message_buffer: MessageBuffer::default(),
        })
    }

    /// Reads a call's arguments, as the original pieces if they were merged.
    fn read_args(&mut self, mut parts: IncomingEvent<'_>, sink: &mut dyn CanonicalSink) {
        let pieces = calls::take_buffered_events(&mut parts.event, |kind| {
            matches!(kind, EventType::ToolCallArgs | EventType::ToolCallChunk)
        });
        if let Some(pieces) = pieces {
            self.open_calls.strip_args(&mut parts);
            return pieces.into_iter().for_each(|piece| sink.emit(piece));
        }
        calls::read_args(&mut parts);
        self.open_calls.strip_args(&mut parts);
        sink.emit(parts.into_event(self.dialect.name));
    }
}

impl DialectAdapter for SocialAppAdapter {
    fn read(
        &mut self,
        row: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        match row.kind {
            EventType::TextMessageEnd => {
                self.streamed_messages.read_end(parts, self.dialect, sink);
                return Ok(());
            }
            EventType::ToolCallArgs => {
                self.read_args(parts, sink);
                return Ok(());
            }
            EventType::ToolCallStart => self.open_calls.read_start(&mut parts),
            EventType::ToolCallEnd => self.open_calls.strip_end(&mut parts),
            EventType::ToolCallResult => {
                self.open_calls.strip_result(&mut parts);
                supply_result_id(&mut parts);
                calls::read_result(&mut parts);
            }
            _ => {}
        }
        sink.emit(parts.into_event(self.dialect.name));
        Ok(())
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.streamed_messages.observe(event);
    }

    fn buffer<'a>(&mut self, event: Event<'a>, canonical_type: Option<&'static str>, _: i64) -> ReleasedEvents<'a> {
        if event.kind.is_terminal() {
            let mut event = event;
            let questions = messages::build_questions(&mut event);
            let earlier = self.message_buffer.drain().into_iter().chain(self.args_buffer.drain());
            let released =
                earlier.fold(ReleasedEvents::default(), |released, earlier| released.with_event(earlier, None));
            return questions
                .into_iter()
                .fold(released, |released, question| released.with_event(question, Some("")))
                .with_event(event, canonical_type);
        }
        let mut released = ReleasedEvents::default();
        let Some(event) = self.message_buffer.buffer_event(event, canonical_type, &mut released) else {
            return released;
        };
        match event.kind {
            EventType::ToolCallArgs if self.args_buffer.is_late(&event) => {
                released.push(ReleasedEvent::AsCustomNoOp(restore_chunk(event, canonical_type)));
                return released;
            }
            EventType::ToolCallArgs => {
                self.args_buffer.push(event.get_or_empty(Field::ToolCallId), restore_chunk(event, canonical_type));
                return released;
            }
            EventType::ToolCallEnd => {
                let args = self.args_buffer.finish(&event.get_or_empty(Field::ToolCallId));
                args.into_iter().for_each(|args| released.push_event(args, None));
            }
            // A result may come before the end, but not before the arguments.
            EventType::ToolCallResult => {
                let args = self.args_buffer.finish_early(&event.get_or_empty(Field::ToolCallId));
                args.into_iter().for_each(|args| released.push_event(args, None));
            }
            _ => {}
        }
        released.with_event(event, canonical_type)
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        match row.kind {
            EventType::TextMessageEnd => messages::write(outgoing),
            EventType::ToolCallStart => self.open_calls.write_start(outgoing),
            EventType::ToolCallArgs => {
                self.open_calls.write_repeats(outgoing);
                calls::write_args(outgoing);
            }
            EventType::ToolCallEnd => self.open_calls.write_repeats(outgoing),
            EventType::ToolCallResult => {
                flatten_parts(outgoing, false);
                calls::write_result(outgoing);
                self.open_calls.write_result(outgoing);
            }
            _ => {}
        }
    }

    fn take_losses(&mut self) -> Vec<EventLoss> {
        vec![EventLoss::EventNotShown; self.args_buffer.take_late_pieces()]
    }

    fn held_bytes(&self) -> usize {
        self.open_calls.retained_bytes() + self.args_buffer.text_bytes() + self.message_buffer.text_bytes()
    }

    fn bookkeeping_bytes(&self) -> usize {
        self.args_buffer.list_bytes() + self.message_buffer.list_bytes()
    }
}
