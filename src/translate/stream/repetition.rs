//! The shortcut of a stream for repeated frames: when it is taken, and what is learnt from the full way.

use super::{ClientOutput, Stream, StreamPipe, StreamStages, StreamState};
use crate::codec::Framing;
use crate::event::EventType;
use crate::prefetch::{prefetch, prefetch_start};
use crate::translate::frame_reader::AgentFrame;
use crate::translate::reader::EventReader;
use crate::translate::repeated_frames::{self, FrameLabels, RepeatedFrames, TranslatedFrame};
use crate::translate::writer::OutputContext;
use std::mem::offset_of;

/// Lengths of what a repeated frame touches, in a stream and in its output.
const HOT_START: usize = offset_of!(Stream, stages.report.dialect_switches);
const HOT_OUTPUT_START: usize = offset_of!(ClientOutput, writer.peer);

/// Marks of a run's state, which a frame that may be repeated leaves as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunStateMarks {
    report_entries: u64,
    retained_bytes: usize,
    open_items: usize,
}

impl Stream {
    /// Fetches what a frame touches that repeats the one before.
    pub(crate) fn prefetch(&self) {
        prefetch_start(self, HOT_START);
        prefetch_start(&self.stages.output, HOT_OUTPUT_START);
        if let Some(repeated) = &self.stages.repeated {
            prefetch(&**repeated);
            prefetch(&*repeated.texts);
        }
    }
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
        frame: &AgentFrame<'_>,
        output: &[u8],
    ) -> Option<Box<RepeatedFrames>> {
        let writer = &self.output.writer;
        let (label_read, kind) = reader.last_label()?;
        let is_running = matches!(self.output.state, StreamState::Running);
        let is_plain = writer.framing == Framing::Sse && self.report.trace.is_none() && !writer.measures_time(kind);
        if !(self.may_repeat && is_running && is_plain && repeated_frames::is_repeatable(kind)) {
            return None;
        }
        let labels = FrameLabels { kind, label_read, label_written: writer.last_label };
        let copies_time = reader.copies_time() && writer.peer.copies_time();
        let frame = TranslatedFrame {
            event_line: frame.event_line.filter(|_| reader.reads_event_line()),
            reads_event_line: reader.reads_event_line(),
            compares_texts: reader.compares_texts(),
            data: frame.data,
            output: writer.without_frame_id(output),
            labels,
            members: reader.varying_members(),
            copies_time,
            arguments: self.guard.last_arguments().filter(|_| kind == EventType::ToolCallArgs),
        };
        RepeatedFrames::learn(before, frame)
    }
}

impl StreamPipe<'_> {
    /// Writes a frame that repeats the one before it.
    pub(super) fn repeat_frame(&mut self, reader: &mut EventReader, frame: &AgentFrame<'_>) -> bool {
        let StreamPipe { stages, out, frame_start, now_ms } = self;
        let StreamStages { guard, output, report, repeated, retained_bytes, .. } = stages;
        let Some(repeated) = repeated else { return false };
        let Some(found) = repeated.find_values(frame.event_line, frame.data) else { return false };
        let text = if repeated.compares_texts { repeated.copied_text(frame.data, &found) } else { Some("") };
        let is_call = repeated.kind() == EventType::ToolCallArgs;
        let arguments = if is_call { repeated.varying_text(frame.data, &found) } else { Some("") };
        let Some(arguments) = arguments else { return false };
        let Some(text) = text.filter(|_| matches!(output.state, StreamState::Running)) else { return false };
        let mut to = OutputContext { out, frame_start: *frame_start, report, now_ms: *now_ms, is_final_error: false };
        let is_written = output.writer.write_repeated(repeated, frame.data, &found, &mut to);
        if is_written && is_call {
            let kept = guard.add_repeated_arguments(arguments);
            retained_bytes.iter_mut().for_each(|retained| *retained += kept);
        }
        if is_written && !text.is_empty() {
            // Its length and hash are kept, in the same memory as before.
            reader.add_repeated_text(text);
        }
        is_written
    }
}
