//! The adapter of `social-app` for one direction of one run.

use super::calls::{self, ArgsBuffer, OpenToolCalls};
use super::messages::{self, BufferResult, MessageBuffer, StreamedMessages};
use crate::dialect::adapter::{DialectAdapter, ReleasedEvents};
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{
    call_id, flatten_parts, restore_chunk, stringify_value, supply_result_id, write_as_json,
};
use crate::dialect::row::EventRow;
use crate::dialect::table::Dialect;
use crate::event::{Event, EventType, Field};

#[derive(Debug)]
pub(super) struct SocialAppAdapter {
    dialect: &'static Dialect,
    open_calls: OpenToolCalls,
    /// reading
    streamed_messages: StreamedMessages,
    /// writing
    args_buffer: ArgsBuffer,
    /// writing
    message_buffer: MessageBuffer,
}

impl SocialAppAdapter {
    pub(super) fn boxed(dialect: &'static Dialect) -> Box<dyn DialectAdapter> {
        Box::new(SocialAppAdapter {
            dialect,
            open_calls: OpenToolCalls::default(),
            streamed_messages: StreamedMessages::default(),
            args_buffer: ArgsBuffer::default(),
            message_buffer: MessageBuffer::default(),
        })
    }

    /// Reads all arguments of a call, or the pieces that were merged into them.
    fn read_args(&mut self, mut parts: IncomingEvent<'_>, emit: &mut dyn FnMut(Event<'_>)) {
        let pieces = calls::take_buffered_events(&mut parts.event, |kind| {
            matches!(kind, EventType::ToolCallArgs | EventType::ToolCallChunk)
        });
        if let Some(pieces) = pieces {
            self.open_calls.strip_args(&mut parts);
            return pieces.into_iter().for_each(emit);
        }
        calls::read_args(&mut parts);
        self.open_calls.strip_args(&mut parts);
        emit(parts.into_event(self.dialect.name));
    }
}

impl DialectAdapter for SocialAppAdapter {
    fn read(&mut self, row: &'static EventRow, mut parts: IncomingEvent<'_>, emit: &mut dyn FnMut(Event<'_>)) {
        match row.kind {
            EventType::TextMessageEnd => return self.streamed_messages.read_end(parts, self.dialect, emit),
            EventType::ToolCallArgs => return self.read_args(parts, emit),
            EventType::ToolCallStart => self.open_calls.read_start(&mut parts),
            EventType::ToolCallEnd => self.open_calls.strip_end(&mut parts),
            EventType::ToolCallResult => {
                self.open_calls.strip_result(&mut parts);
                supply_result_id(&mut parts);
                stringify_value(&mut parts, Field::Content);
            }
            _ => {}
        }
        emit(parts.into_event(self.dialect.name));
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.streamed_messages.observe(event);
    }

    fn buffer<'a>(&mut self, event: Event<'a>, canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        if event.kind.is_terminal() {
            let earlier = [self.message_buffer.drain(), self.args_buffer.drain()].concat();
            return ReleasedEvents { earlier, current: Some(event) };
        }
        let event = match self.message_buffer.buffer_event(event, canonical_type) {
            BufferResult::Buffered => return ReleasedEvents::default(),
            BufferResult::Complete(message) => return ReleasedEvents::merged(message),
            BufferResult::PassThrough(event) => event,
        };
        match event.kind {
            EventType::ToolCallArgs => {
                self.args_buffer.push(call_id(&event), restore_chunk(event, canonical_type));
                ReleasedEvents::default()
            }
            // A result may precede the end, but not the arguments.
            EventType::ToolCallEnd | EventType::ToolCallResult => {
                let args = self.args_buffer.finish(&call_id(&event));
                ReleasedEvents { earlier: args.into_iter().collect(), current: Some(event) }
            }
            _ => ReleasedEvents::pass(event),
        }
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
                flatten_parts(outgoing);
                write_as_json(outgoing, Field::Content);
                self.open_calls.write_result(outgoing);
            }
            _ => {}
        }
    }

    fn held_bytes(&self) -> usize {
        self.open_calls.retained_bytes() + self.args_buffer.buffered_bytes() + self.message_buffer.buffered_bytes()
    }
}
