//! Writes a captured run as a recording, part by part.

use super::captured_run::CapturedRun;
use super::recording::{RecordingEnd, RecordingHead, RecordingLine};
use super::replayed_stream::ReplayedStream;
use super::step_log::ReadPosition;
use std::sync::{Arc, Weak};

/// Reads a captured run from its beginning to what it has at that moment. It keeps no run from being evicted.
#[derive(Debug)]
pub(crate) struct RunRecorder {
    run: Weak<CapturedRun>,
    stream: ReplayedStream,
    has_head: bool,
    is_done: bool,
    is_gone: bool,
    read: ReadPosition,
}

impl RunRecorder {
    pub(crate) fn new(run: &Arc<CapturedRun>) -> RunRecorder {
        let stream = ReplayedStream::new(&run.settings, run.conversation().clone());
        RunRecorder {
            run: Arc::downgrade(run),
            stream,
            has_head: false,
            is_done: false,
            is_gone: false,
            read: ReadPosition::default(),
        }
    }

    /// Returns whether the run was evicted before its end was recorded.
    pub(crate) const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns the next lines, or `None` after the last one. Translating them takes some milliseconds.
    pub(crate) fn next_lines(&mut self) -> Option<Vec<u8>> {
        if self.is_done {
            return None;
        }
        let mut lines = Vec::new();
        let Some(run) = self.run.upgrade() else {
            (self.is_done, self.is_gone) = (true, true);
            RecordingLine::End(RecordingEnd::Gone).write(&mut lines);
            return Some(lines);
        };
        if !std::mem::replace(&mut self.has_head, true) {
            write_beginning(&run, &mut lines);
            return Some(lines);
        }
        // Before the batch, since a run that has ended adds nothing.
        let is_ended = run.is_ended();
        let batch = run.copy_batch(&mut self.read);
        if batch.is_empty() {
            self.is_done = true;
            let missed_bytes = run.kept_and_missed().1;
            let end = if is_ended { RecordingEnd::Ended { missed_bytes } } else { RecordingEnd::Running };
            RecordingLine::End(end).write(&mut lines);
            return Some(lines);
        }
        for (entry, body) in batch.entries() {
            let at_ms = run.since_start(entry.now_ms);
            let mut written = Vec::new();
            // The error needs no line: the run ends with a step of its own.
            let _ =
                self.stream.apply(run.head.started_ms.saturating_add_unsigned(at_ms), &entry.step, body, &mut written);
            RecordingLine::Step { at_ms, step: entry.step.clone(), bytes: body.to_vec() }.write(&mut lines);
            if !written.is_empty() {
                RecordingLine::Client { at_ms, bytes: written }.write(&mut lines);
            }
        }
        Some(lines)
    }
}

/// Writes the head, and what was there before the run's first step.
fn write_beginning(run: &CapturedRun, lines: &mut Vec<u8>) {
    RecordingHead::new(run).write(lines);
    RecordingLine::Known(run.conversation().to_recorded()).write(lines);
    if let Some(requests) = &run.requests {
        RecordingLine::ClientRequest(requests.client.to_vec()).write(lines);
        RecordingLine::AgentRequest(requests.agent.to_vec()).write(lines);
    }
}
