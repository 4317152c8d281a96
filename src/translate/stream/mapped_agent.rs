//! A stream of an agent whose dialect is described by a file, or is unknown.

use super::{Stream, StreamError};
use crate::dialect::{ThreadChange, ThreadState};
use crate::translate::RunIds;
use crate::translate::foreign_stream::UnknownFrames;
use crate::translate::frame_reader::AgentFrame;

impl Stream {
    /// Sets the ids and what earlier runs of the thread kept, for an agent whose dialect is described by a file.
    #[must_use]
    pub(crate) fn with_thread(mut self, ids: &RunIds, thread: ThreadState) -> Self {
        self.reader.begin_thread(ids, thread);
        self
    }

    /// Returns what changes for the next runs of the thread.
    pub(crate) fn take_thread_change(&mut self) -> Option<ThreadChange> {
        let change = self.reader.take_thread_change();
        if change.is_some() {
            self.stages.retained_bytes = None;
        }
        change
    }

    /// Returns the agent's frames, if its dialect knows none of them.
    pub(crate) fn unknown_frames(&self) -> Option<&UnknownFrames> {
        self.reader.unknown_frames()
    }

    /// Returns the path where the agent's dialect file has the frames' content, if no frame had any there.
    pub(crate) fn missing_payload(&self) -> Option<&'static str> {
        self.reader.missing_payload()
    }

    /// Reads one unframed event with the name that its `event:` line had.
    ///
    /// # Errors
    ///
    /// Fails as [`Stream::push`] does.
    pub(crate) fn push_named_event(
        &mut self,
        event_line: Option<&str>,
        data: &str,
        now: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), StreamError> {
        let Stream { reader, stages, .. } = self;
        stages.pipe(now, out).process_frame(reader, AgentFrame { event_line, ..AgentFrame::from_data(data) })
    }
}
