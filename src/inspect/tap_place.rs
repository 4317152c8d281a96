//! The place of a tap among the captured runs, and how many runs it missed.

use super::captured_run::CapturedRun;
use super::glob::matches_glob;
use crate::telemetry::metric::Counter;
use std::sync::atomic::{AtomicU64, Ordering};

/// The runs that a tap selects, and those of them that were evicted before it read them.
#[derive(Debug)]
pub(crate) struct TapPlace {
    /// pattern of the routes
    routes: String,
    /// the only run, by its number or by the id of its request
    run: Option<ChosenRun>,
    /// id of the last run that it has come to
    last_id: AtomicU64,
    missed: AtomicU64,
    /// of all readers
    all_missed: Counter,
}

#[derive(Debug)]
struct ChosenRun {
    request_id: String,
    number: Option<u64>,
}

impl TapPlace {
    pub(super) fn new(routes: String, run: Option<String>, last_id: u64, all_missed: Counter) -> TapPlace {
        let run = run.map(|id| ChosenRun { number: id.strip_prefix('#').unwrap_or(&id).parse().ok(), request_id: id });
        TapPlace { routes, run, last_id: AtomicU64::new(last_id), missed: AtomicU64::new(0), all_missed }
    }

    pub(super) fn selects(&self, run: &CapturedRun) -> bool {
        let is_named = self.run.as_ref().is_none_or(|chosen| {
            chosen.number == Some(run.id) || run.settings.ids.run_id.text().is_some_and(|id| *id == *chosen.request_id)
        });
        is_named && matches_glob(&self.routes, &run.head.route)
    }

    pub(super) fn replace_last_id(&self, id: u64) -> u64 {
        self.last_id.swap(id, Ordering::Relaxed)
    }

    /// Takes note of an eviction, if the tap has not come to the run.
    pub(super) fn add_evicted(&self, run: &CapturedRun) {
        if run.id > self.last_id.load(Ordering::Relaxed) && self.selects(run) {
            self.add_missed();
        }
    }

    /// Counts a run of which nothing was read.
    pub(crate) fn add_missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
        self.all_missed.inc();
    }

    /// Returns how many runs were missed since the last call.
    pub(crate) fn take_missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}
