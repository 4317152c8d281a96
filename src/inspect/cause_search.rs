//! Finds why runs went wrong, as far as their rows have it, for lists of runs.
//!
//! A run is translated again, once, when it has ended and somebody looks at the list.

use super::aligner::BROKEN_CODES;
use super::captured_run::CapturedRun;
use super::row::RunCause;
use super::run_reader::{ReaderStep, RunReader};
use crate::event::EventType;
use crate::telemetry::label::RunOutcome;
use std::sync::{Arc, Weak};

/// Types of events that may not fit what the client holds.
const PATCHES: [EventType; 2] = [EventType::StateDelta, EventType::ActivityDelta];

/// Finds the causes of runs, some at a time.
#[derive(Debug, Default)]
pub(super) struct CauseFinder {
    /// the last one that took longer than there was time
    paused: Option<RowSearch>,
    /// the run that is searched; after a panic, that which caused it
    current: Weak<CapturedRun>,
}

/// A search through the rows of a run.
#[derive(Debug)]
struct RowSearch {
    run: Weak<CapturedRun>,
    reader: RunReader,
    /// how little it tells, and the cause
    found: Option<(u8, RunCause)>,
}

impl CauseFinder {
    /// Searches runs that have ended, the last first, as long as there is time. Keeps no run from being freed.
    pub(super) fn find(&mut self, runs: Vec<Arc<CapturedRun>>, mut has_time: impl FnMut() -> bool) {
        if let Some(run) = std::mem::take(&mut self.current).upgrade() {
            // It would panic again, and no earlier run would be searched.
            run.set_cause(None);
        }
        let runs: Vec<_> = runs.into_iter().map(|run| Arc::downgrade(&run)).collect();
        for run in runs.iter().rev() {
            if !has_time() {
                break;
            }
            self.current = Weak::clone(run);
            if let Some(search) = self.begin_search(run) {
                self.continue_search(search, &mut has_time);
            }
            self.current = Weak::new();
        }
        self.paused.take_if(|search| search.run.strong_count() == 0);
    }

    /// Begins or resumes a search, unless the cause is known, the run goes on, or nothing is wrong with it.
    fn begin_search(&mut self, run: &Weak<CapturedRun>) -> Option<RowSearch> {
        let kept = run.upgrade().filter(|run| !run.is_searched() && run.is_ended())?;
        let paused = self.paused.take_if(|search| Weak::ptr_eq(&search.run, run));
        if paused.is_none() && !may_have_cause(&kept) {
            kept.set_cause(None);
            return None;
        }
        paused.or_else(|| Some(RowSearch { run: Weak::clone(run), reader: RunReader::new(&kept), found: None }))
    }

    /// Reads rows until the end, or pauses.
    fn continue_search(&mut self, mut search: RowSearch, has_time: &mut impl FnMut() -> bool) {
        while let ReaderStep::Rows(rows) = search.reader.next() {
            for (rank, cause) in rows.iter().filter_map(RunCause::from_row) {
                if search.found.as_ref().is_none_or(|(least, _)| rank < *least) {
                    search.found = Some((rank, cause));
                }
            }
            if !has_time() {
                self.paused = Some(search);
                return;
            }
        }
        if let Some(run) = search.run.upgrade() {
            run.set_cause(search.found.map(|(_, cause)| cause));
        }
    }
}

fn may_have_cause(run: &CapturedRun) -> bool {
    let facts = run.facts();
    let end = facts.end.as_ref();
    let is_broken = end.and_then(|end| end.code.as_deref()).is_some_and(|code| BROKEN_CODES.contains(&code));
    let is_left = end.is_some_and(|end| end.outcome == RunOutcome::ClientGone.label());
    let has_patch = || run.types().iter().any(|name| PATCHES.iter().any(|kind| *name == kind.wire()));
    is_broken || is_left || facts.repairs + facts.losses > 0 || has_patch()
}
