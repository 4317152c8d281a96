//! The shortcut of a stream for repeated frames: when it is taken, and what is learnt from the full way.

use super::{StreamPipe, StreamStages, StreamState};
use crate::codec::Framing;
use crate::translate::reader::EventReader;
use crate::translate::repeated_frames::{self, FrameEffect, RepeatedFrames};
use crate::translate::writer::OutputContext;

/// Marks of a run's state, which a frame that may be repeated leaves as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunStateMarks {
    report_entries: u64,
    retained_bytes: usize,
    open_items: usize,
}

impl StreamStages {
    pub(super) fn marks(&self, reader: &EventReader) -> RunStateMarks {
        let writer = &self.output.writer;
        RunStateMarks {
            report_entries: self.report.entries,
            retained_bytes: reader.retained_bytes()
                + writer.buffered_bytes()
                + writer.bookkeeping_bytes()
                + self.guard.retained_bytes,
            open_items: self.guard.open_count(),
        }
    }

    /// Compares a frame that was translated in full with the one before it.
    pub(super) fn learn_frame(
        &self,
        before: Option<Box<RepeatedFrames>>,
        reader: &EventReader,
        data: &str,
        output: &[u8],
    ) -> Option<Box<RepeatedFrames>> {
        let writer = &self.output.writer;
        let (label_read, kind) = reader.last_label()?;
        let is_running = matches!(self.output.state, StreamState::Running);
        let is_plain = writer.framing == Framing::Sse && self.report.trace.is_none() && !writer.measures_time(kind);
        if !(self.may_repeat && is_running && is_plain && repeated_frames::is_repeatable(kind)) {
            return None;
        }
        let effect = FrameEffect { label_read, label_written: writer.last_label };
        let copies_time = reader.copies_time() && writer.peer.copies_time();
        RepeatedFrames::learn(before, data, writer.without_frame_id(output), effect, copies_time)
    }
}

impl StreamPipe<'_> {
    /// Writes a frame that repeats the one before it.
    pub(super) fn repeat_frame(&mut self, data: &str) -> bool {
        let StreamPipe { stages: StreamStages { output, report, repeated, .. }, out, now_ms } = self;
        let Some(repeated) = repeated else { return false };
        let Some(found) = repeated.find_values(data) else { return false };
        let mut to = OutputContext { out, report, now_ms: *now_ms, is_final_error: false };
        matches!(output.state, StreamState::Running) && output.writer.write_repeated(repeated, data, &found, &mut to)
    }
}
