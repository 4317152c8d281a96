//! Finds why a run went wrong, as far as its rows have it, for lists of runs.
//!
//! The run is translated again, once, when it has ended and somebody looks at the list.

use super::aligner::BROKEN_CODES;
use super::captured_run::CapturedRun;
use super::row::RunCause;
use super::run_reader::{ReaderStep, RunReader};
use crate::event::EventType;
use crate::telemetry::label::RunOutcome;
use std::sync::Arc;

/// Types of events that may not fit what the client holds.
const PATCHES: [EventType; 2] = [EventType::StateDelta, EventType::ActivityDelta];

/// Finds the cause of a run, unless it is known, the run goes on, or nothing is wrong with it.
pub(super) fn find_cause(run: &Arc<CapturedRun>) {
    if run.cause.get().is_none() && run.is_ended() {
        run.cause.get_or_init(|| if may_have_cause(run) { search_rows(run).map(Box::new) } else { None });
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

fn search_rows(run: &Arc<CapturedRun>) -> Option<RunCause> {
    let mut reader = RunReader::new(run);
    let mut found: Option<(u8, RunCause)> = None;
    while let ReaderStep::Rows(rows) = reader.next() {
        for (rank, cause) in rows.iter().filter_map(RunCause::from_row) {
            if found.as_ref().is_none_or(|(least, _)| rank < *least) {
                found = Some((rank, cause));
            }
        }
    }
    found.map(|(_, cause)| cause)
}
