//! The adapter that reads `hai`.

use super::block_reader::BlockReader;
use super::blocks::block_text;
use super::collaboration::{CollaborationState, CollaborationStep};
use super::members::{block, rename};
use super::{placeholder, run_boundary, state_delta};
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, UnreadableEvent};
use crate::dialect::event_parts::IncomingEvent;
use crate::dialect::row::EventRow;
use crate::dialect::table::PeerDialect;
use crate::event::{Event, EventType, Field, Json, get_owned};

#[derive(Debug)]
pub(super) struct HaiReader {
    dialect: &'static str,
    collaborations: CollaborationState,
    block_reader: BlockReader,
}

impl HaiReader {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        Box::new(HaiReader {
            dialect: peer.dialect.name,
            collaborations: CollaborationState::default(),
            block_reader: BlockReader::default(),
        })
    }
}

impl DialectAdapter for HaiReader {
    fn read(
        &mut self,
        row: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        let dialect = self.dialect;
        match row.kind {
            EventType::TextMessageStart => {
                self.block_reader.supply_id(&mut parts.event, sink);
                self.block_reader.start_message(parts.into_event(dialect), dialect, sink);
                return Ok(());
            }
            EventType::TextMessageContent => {
                rename(&mut parts.extensions, block::BLOCK_ID_SNAKE, block::BLOCK_ID);
                self.block_reader.supply_id(&mut parts.event, sink);
                return self.block_reader.read_content(parts, dialect, sink);
            }
            EventType::TextMessageEnd => {
                self.block_reader.supply_id(&mut parts.event, sink);
                self.block_reader.drop_repeated_role(&mut parts);
                self.block_reader.end_message(parts.into_event(dialect), dialect, sink);
                return Ok(());
            }
            EventType::RunStarted => {
                let message = get_owned(&parts.extensions, Field::MessageId);
                run_boundary::read(&mut parts);
                self.block_reader.start_run(message);
            }
            EventType::RunFinished => {
                run_boundary::read(&mut parts);
                self.block_reader.finish(true, dialect, sink);
            }
            EventType::StateDelta => state_delta::read(&mut parts, sink),
            _ => {
                if let Some(step) = CollaborationStep::from_shape(row.shape) {
                    self.collaborations.read(step, &mut parts, dialect)?;
                    if parts.event.kind == EventType::ActivitySnapshot {
                        self.block_reader.count_collaboration();
                    }
                }
            }
        }
        let mut event = parts.into_event(dialect);
        self.block_reader.read_other(&mut event, dialect, sink);
        sink.emit(event);
        Ok(())
    }

    fn set_run_id(&mut self, run_id: &Json<'static>) {
        self.block_reader.set_run_id(run_id);
    }

    fn read_other(&mut self, event: &mut Event<'_>, sink: &mut dyn CanonicalSink) {
        self.block_reader.read_other(event, self.dialect, sink);
    }

    fn read_ag_ui_name(&mut self, event: &mut Event<'_>, sink: &mut dyn CanonicalSink) {
        self.block_reader.read_ag_ui_name(event, self.dialect, sink);
    }

    fn read_sent_starts(&mut self, sink: &mut dyn CanonicalSink) {
        self.block_reader.send_starts(self.dialect, sink);
    }

    fn finish(&mut self, sink: &mut dyn CanonicalSink) {
        self.block_reader.finish(false, self.dialect, sink);
    }

    fn take_added_text<'a>(&mut self, delta: &'a Json<'_>) -> Option<Json<'a>> {
        let text = block_text(delta)?;
        Some(if self.block_reader.skip_repeated(&text) { Json::EMPTY_STRING } else { text })
    }

    fn restore<'a>(
        &mut self,
        row: &'static EventRow,
        kind: EventType,
        mut parts: IncomingEvent<'a>,
        dialect: &str,
    ) -> Event<'a> {
        if row.kind == EventType::TextMessageContent {
            rename(&mut parts.extensions, block::BLOCK_ID_SNAKE, block::BLOCK_ID);
        }
        if placeholder::carries_event(kind) {
            return placeholder::read_placeholder(kind, parts, dialect);
        }
        if let Some(text) = parts.event.get(Field::Delta).and_then(block_text) {
            let whole = self.block_reader.take_whole(&mut parts.event, &text);
            parts.event.set(Field::Delta, whole.unwrap_or(text));
        }
        parts.into_canonical_event(kind, dialect)
    }

    fn held_bytes(&self) -> usize {
        self.block_reader.held_bytes()
    }
}
