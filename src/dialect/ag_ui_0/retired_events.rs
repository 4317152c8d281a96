//! Reads the thinking that AG-UI 1.0 retired, from agents of dialects without thinking of their own.
//!
//! `@ag-ui/client` 1.0.0 shows it as reasoning, with ids that it makes, whatever ids the agent sent (`specs/ag-ui-1.0.md`
//! §1.3). The events leave as if the agent's dialect were `ag-ui-0`, so an older client gets them back as they were.

use super::{AG_UI_0, downgrade};
use crate::dialect::adapter::CanonicalSink;
use crate::dialect::event_parts::IncomingEvent;
use crate::dialect::reasoning_ids::ReasoningIds;
use crate::dialect::row::EventRow;
use crate::dialect::table::Dialect;
use crate::event::{Event, EventRepair, Field, Json, remove, retired};

#[derive(Debug, Default)]
pub(crate) struct RetiredEventReader(ReasoningIds);

impl RetiredEventReader {
    /// Creates a reader whose ids are based on the id of the run.
    pub(crate) fn new(run_id: Option<&Json<'static>>) -> Self {
        let mut reader = RetiredEventReader::default();
        if let Some(id) = run_id {
            reader.0.set_run_id(id);
        }
        reader
    }

    pub(crate) fn read<'a>(&mut self, mut parts: IncomingEvent<'a>, sink: &mut dyn CanonicalSink) -> Event<'a> {
        sink.count_repair(EventRepair::RetiredType);
        if downgrade::repair_title(&mut parts.extensions) {
            sink.count_repair(EventRepair::TypeConverted);
        }
        if let Some(metadata) = remove(&mut parts.extensions, Field::Metadata) {
            parts.event.set(Field::Metadata, metadata);
        }
        // The events have no ids; one that an agent adds may be that of its text.
        remove(&mut parts.extensions, Field::MessageId);
        self.0.assign_ids(&mut parts);
        parts.into_event(AG_UI_0.name)
    }
}

/// Returns the row that reads a retired event, unless the dialect has such events of its own.
pub(crate) fn find_retired_row(dialect: &Dialect, wire: &str) -> Option<&'static EventRow> {
    retired::find_by_wire(wire)?;
    let is_own = dialect.rows.iter().any(|row| retired::find_by_wire(row.wire).is_some());
    AG_UI_0.row_for_wire(wire).filter(|_| !is_own).map(|(_, row)| row)
}
