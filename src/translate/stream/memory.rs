//! Counts what a stream retains of its run, and limits that.

use super::{Stream, StreamStages};
use crate::translate::memory_limits;
use crate::translate::reader::EventReader;
use crate::translate::stream_error::RunStateLimit;

impl Stream {
    /// Returns how many earlier bytes the next ones may complete: the unfinished frame, and what waits for an end.
    pub(crate) fn pending_bytes(&self, next: &[u8]) -> usize {
        if !self.frame_reader.may_complete(next) {
            return 0;
        }
        let output = &self.stages.output.writer;
        self.frame_reader.heap_size() + output.buffered_bytes() + output.bookkeeping_bytes()
    }

    /// Returns about the memory that the run holds: an unfinished frame, events that wait, and ids.
    pub(crate) fn retained_bytes(&mut self) -> usize {
        let StreamStages { guard, output, retained_bytes, .. } = &mut self.stages;
        let retained = retained_bytes.get_or_insert_with(|| {
            let reading = self.reader.kept_bytes() + self.reader.retained_bytes();
            let waiting = output.writer.buffered_bytes() + output.writer.bookkeeping_bytes();
            let run = guard.retained_bytes + guard.arguments_bytes() + guard.conversation.retained_bytes;
            reading + waiting + run
        });
        self.frame_reader.heap_size() + *retained
    }
}

impl StreamStages {
    pub(super) fn exceeded_limit(&self, reader: &EventReader) -> Option<RunStateLimit> {
        let limit = self.buffer_limit;
        let retained_bytes = self.guard.retained_bytes + self.output.writer.bookkeeping_bytes();
        if self.report.has_excess {
            Some(RunStateLimit::ListElements)
        } else if reader.retained_bytes() + self.output.writer.buffered_bytes() > limit {
            Some(RunStateLimit::PendingText { limit })
        } else if self.guard.open_count() > memory_limits::OPEN_ITEMS_LIMIT {
            Some(RunStateLimit::OpenItems)
        } else {
            (retained_bytes > memory_limits::RETAINED_IDS_LIMIT).then_some(RunStateLimit::RetainedIds)
        }
    }
}
