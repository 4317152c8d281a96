//! Reads captured runs as rows.

use super::aligner::RunAligner;
use super::capture_step::LogEntry;
use super::captured_run::CapturedRun;
use super::row::AlignedRow;
use super::step_log::ReadPosition;
use std::sync::{Arc, Weak};

/// Reads a captured run from its beginning, as far as it has come. It keeps no run from being evicted.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: Weak<CapturedRun>,
    aligner: RunAligner,
    read: ReadPosition,
    /// milliseconds from the run's start to the step that was read last
    at_ms: u64,
    /// the client's request is read with the first batch, where a thread may block
    has_begun: bool,
    /// the row for what was not kept, or for a client that left, is made
    is_done: bool,
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
        RunReader {
            run: Arc::downgrade(run),
            aligner,
            read: ReadPosition::default(),
            at_ms: 0,
            has_begun: false,
            is_done: false,
        }
    }

    /// Returns the number of the last row that was read.
    pub(crate) fn last_row(&self) -> u64 {
        self.aligner.rows()
    }

    /// Translates the run to the end of its next event, which takes some milliseconds.
    pub(crate) fn next(&mut self) -> ReaderStep {
        let Some(run) = self.run.upgrade() else { return ReaderStep::Evicted };
        if !std::mem::replace(&mut self.has_begun, true) && !run.is_redacted {
            self.aligner.check_patches(run.client_state().as_ref());
        }
        // Before the batch, since a run that has ended adds nothing.
        let is_ended = run.is_ended();
        let mut rows = Vec::new();
        // A batch may lie within a large event, and completes none.
        while rows.is_empty() {
            let batch = run.copy_batch(&mut self.read);
            if batch.is_empty() && !is_ended {
                break;
            }
            if batch.is_empty() {
                let missed = run.kept_and_missed().1;
                match run.left_at_ms() {
                    _ if std::mem::replace(&mut self.is_done, true) => return ReaderStep::Ended,
                    _ if missed > 0 => {
                        self.aligner.end_kept_part(self.at_ms, missed, run.is_withheld(), &mut rows);
                    }
                    Some(at_ms) => self.aligner.end_at_disconnect(self.at_ms, at_ms, &mut rows),
                    None => return ReaderStep::Ended,
                }
            }
            for (LogEntry { now_ms, step }, body) in batch.entries() {
                self.at_ms = run.since_start(*now_ms);
                self.aligner.apply(*now_ms, self.at_ms, step, body, &mut rows);
            }
        }
        ReaderStep::Rows(rows)
    }
}
