//! All captured runs, and which routes' runs are captured.

use super::capture_budget::CaptureBudget;
use super::captured_run::{CapturedRequests, CapturedRun, RunHead};
use super::cause_search::CauseFinder;
use super::glob::matches_glob;
use super::kept_runs::{KeptRuns, MissingRun};
use super::redaction::{BodyRedactor, Redaction};
use super::run_capture::RunCapture;
use super::stream_settings::StreamSettings;
use super::tap_place::TapPlace;
use crate::config::inspect::{CaptureMode, InspectConfig};
use crate::telemetry::{Metrics, RunTimeline};
use crate::translate::ConversationState;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// A mode that an operator has set for some time.
#[derive(Clone, Debug)]
pub(crate) struct ModeOverride {
    /// the route's name, or with `*` a part of it
    pub(crate) route: String,
    pub(crate) mode: CaptureMode,
    pub(crate) until: Instant,
}

#[derive(Debug)]
pub(crate) struct CaptureStore {
    kept: Arc<KeptRuns>,
    budget: Arc<CaptureBudget>,
    overrides: RwLock<Vec<ModeOverride>>,
    has_overrides: AtomicBool,
    causes: Mutex<CauseFinder>,
}

impl CaptureStore {
    pub(crate) fn new(config: InspectConfig, metrics: Arc<Metrics>) -> Arc<CaptureStore> {
        let missed = metrics.process.inspect_missed.clone();
        let budget = CaptureBudget::new(config, metrics);
        Arc::new(CaptureStore {
            kept: Arc::new(KeptRuns::new(config, missed)),
            budget: Arc::new(budget),
            overrides: RwLock::default(),
            has_overrides: AtomicBool::new(false),
            causes: Mutex::default(),
        })
    }

    pub(crate) fn set_bounds(&self, config: InspectConfig) {
        self.budget.set_limits(config);
        self.kept.set_bounds(config);
    }

    /// Returns how much is captured of runs of a route that begin now.
    pub(crate) fn mode(&self, route: &str, configured: CaptureMode) -> CaptureMode {
        if !self.has_overrides.load(Ordering::Relaxed) {
            return configured;
        }
        self.find_override(route).map_or(configured, |found| found.mode)
    }

    pub(crate) fn find_override(&self, route: &str) -> Option<ModeOverride> {
        let now = Instant::now();
        let overrides = self.overrides.read();
        overrides.iter().rev().find(|one| one.until > now && matches_glob(&one.route, route)).cloned()
    }

    /// Sets a mode for some time, or with `None` removes what was set for these routes.
    pub(crate) fn set_override(&self, route: &str, mode: Option<ModeOverride>) {
        let now = Instant::now();
        let mut overrides = self.overrides.write();
        overrides.retain(|one| one.until > now && !matches_glob(route, &one.route));
        overrides.extend(mode);
        self.has_overrides.store(!overrides.is_empty(), Ordering::Relaxed);
    }

    /// Begins to capture a run.
    pub(crate) fn begin_run(
        &self,
        head: RunHead,
        mut settings: StreamSettings,
        conversation: ConversationState,
        timeline: Arc<RunTimeline>,
        requests: Option<CapturedRequests>,
        redaction: Option<Redaction>,
    ) -> RunCapture {
        let redactor = redaction.clone().map(|rules| BodyRedactor::new(rules, settings.limits));
        let requests = requests.map(|CapturedRequests { client, agent }| match &redaction {
            None => CapturedRequests { client, agent },
            Some(rules) => CapturedRequests { client: rules.redact_json(&client), agent: rules.redact_json(&agent) },
        });
        if redaction.is_some() {
            // They are an agent's, like the members that the rules name.
            settings.thread.values.clear();
        }
        let budget = Arc::clone(&self.budget);
        let mut run = CapturedRun::new(head, settings, conversation, timeline, requests, budget);
        run.is_redacted = redaction.is_some();
        run.charge_beginning(|| self.kept.evict_for_memory());
        let run = self.kept.add(run);
        RunCapture::new(run, Arc::clone(&self.kept), redactor)
    }

    /// Lists the kept runs in the order of their beginning.
    pub(crate) fn runs(&self) -> Vec<Arc<CapturedRun>> {
        self.kept.all()
    }

    /// Finds why runs went wrong that have ended, until a moment.
    pub(crate) fn find_causes(&self, until: Instant) {
        // Another list may search meanwhile.
        if let Some(mut finder) = self.causes.try_lock_until(until.into_std()) {
            finder.find(self.kept.all(), || Instant::now() < until);
        }
    }

    /// Begins to count for a tap which runs it misses. Without `after`, it begins with the next run.
    pub(crate) fn add_tap(&self, routes: String, run: Option<String>, after: Option<u64>) -> Arc<TapPlace> {
        self.kept.add_tap(routes, run, after)
    }

    /// Lists the runs of a tap that began since the last call.
    pub(crate) fn new_runs(&self, tap: &TapPlace) -> Vec<Arc<CapturedRun>> {
        self.kept.new_runs(tap)
    }

    /// Counts a run that was evicted while it was read.
    pub(crate) fn count_partly_missed(&self) {
        self.kept.count_partly_missed();
    }

    /// Returns why no run with this number is kept.
    pub(crate) fn explain_missing(&self, id: u64) -> MissingRun {
        self.kept.explain_missing(id)
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<CapturedRun>> {
        self.kept.find(id)
    }

    /// Returns the memory of all kept runs.
    pub(crate) fn used_bytes(&self) -> usize {
        self.budget.used_bytes()
    }
}
