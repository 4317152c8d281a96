//! Reads captured runs as rows.

use super::aligner::RunAligner;
use super::capture_step::{CaptureStep, LogEntry};
use super::captured_run::CapturedRun;
use super::row::AlignedRow;
use std::sync::{Arc, Weak};

/// Reads a captured run from its beginning, as far as it has come. It keeps no run from being evicted.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: Weak<CapturedRun>,
    aligner: RunAligner,
    /// number of entries read so far
    entries: usize,
    bytes: usize,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) enum ReaderStep {
    /// none if there are no more yet
    Rows(Vec<AlignedRow>),
    /// there are no more, and will be none
    Ended,
    /// the run was evicted
    Evicted,
}

impl RunReader {
    pub(crate) fn new(run: &Arc<CapturedRun>) -> RunReader {
        let aligner = RunAligner::new(&run.settings, run.conversation.clone());
        RunReader { run: Arc::downgrade(run), aligner, entries: 0, bytes: 0 }
    }

    /// Translates the next part of the run, which takes some milliseconds.
    pub(crate) fn next(&mut self) -> ReaderStep {
        let Some(run) = self.run.upgrade() else { return ReaderStep::Evicted };
        // Before the batch, since a run that has ended adds nothing.
        let is_ended = run.is_ended();
        let (entries, bytes) = run.copy_batch(self.entries, self.bytes);
        if entries.is_empty() && is_ended {
            return ReaderStep::Ended;
        }
        self.entries += entries.len();
        self.bytes += bytes.len();
        let (mut rows, mut rest) = (Vec::new(), bytes.as_slice());
        for LogEntry { now_ms, step } in entries {
            let length = if let CaptureStep::Read(length) = step { length } else { 0 };
            let (body, after) = rest.split_at(length);
            rest = after;
            self.aligner.apply(now_ms, run.since_start(now_ms), &step, body, &mut rows);
        }
        ReaderStep::Rows(rows)
    }
}
