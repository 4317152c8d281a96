//! All captured runs, and which routes' runs are captured.

use super::capture_budget::CaptureBudget;
use super::captured_run::{CapturedRequests, CapturedRun, RunHead};
use super::eviction::choose_runs;
use super::redaction::{BodyRedactor, Redaction};
use super::run_capture::RunCapture;
use super::stream_settings::StreamSettings;
use crate::config::inspect::{CaptureMode, InspectConfig};
use crate::telemetry::{Metrics, RunTimeline};
use crate::translate::ConversationState;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// A mode that an operator has set for some time.
#[derive(Clone, Debug)]
pub(crate) struct ModeOverride {
    /// the route's name, or with `*` a part of it
    pub(crate) route: String,
    pub(crate) mode: CaptureMode,
    pub(crate) until: Instant,
}

/// Time after which a beginning run evicts those that are too old.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Time to the next attempt if so many runs are in progress that too few could be evicted.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct KeptRuns {
    by_id: BTreeMap<u64, Arc<CapturedRun>>,
    next_sweep: Instant,
    /// the last eviction found fewer runs than it needed
    is_short: bool,
}

#[derive(Debug)]
pub(crate) struct CaptureStore {
    kept: Mutex<KeptRuns>,
    last_id: AtomicU64,
    budget: Arc<CaptureBudget>,
    config: Mutex<InspectConfig>,
    overrides: RwLock<Vec<ModeOverride>>,
    has_overrides: AtomicBool,
}

impl CaptureStore {
    pub(crate) fn new(config: InspectConfig, metrics: Arc<Metrics>) -> Arc<CaptureStore> {
        let budget = CaptureBudget::new(config, metrics);
        Arc::new(CaptureStore {
            kept: Mutex::new(KeptRuns { by_id: BTreeMap::new(), next_sweep: Instant::now(), is_short: false }),
            last_id: AtomicU64::new(0),
            budget: Arc::new(budget),
            config: Mutex::new(config),
            overrides: RwLock::default(),
            has_overrides: AtomicBool::new(false),
        })
    }

    pub(crate) fn set_bounds(&self, config: InspectConfig) {
        self.budget.set_limits(config);
        *self.config.lock() = config;
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
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.evict_for_next();
        let budget = Arc::clone(&self.budget);
        let run = CapturedRun::new(id, head, settings, conversation, timeline, requests, budget);
        let run = Arc::new(run);
        self.kept.lock().by_id.insert(id, Arc::clone(&run));
        RunCapture::new(run, redactor)
    }

    /// Makes room for a run that begins. Every run passes here, so all kept ones are looked at only now and then.
    fn evict_for_next(&self) {
        let config = *self.config.lock();
        let is_due = {
            let kept = self.kept.lock();
            let is_full = kept.by_id.len() >= config.runs.get() || self.budget.is_exceeded();
            (is_full && !kept.is_short) || Instant::now() >= kept.next_sweep
        };
        if is_due {
            self.evict(1);
        }
    }

    /// Evicts ended runs that are too old, too many or too large together, with room for `more` others.
    fn evict(&self, more: usize) {
        /// Part of each limit that eviction frees, so that the next runs have room.
        const FREED: usize = 16;
        let config = *self.config.lock();
        let excess = if self.budget.take_exceeded() { config.bytes / FREED } else { 0 };
        // Neither looking at a run nor freeing it happens under the lock, for which all beginning runs wait.
        let all: Vec<_> = self.kept.lock().by_id.values().cloned().collect();
        let ended = all.iter().filter_map(|run| Some((run.age()?, run.to_evictable()?)));
        let (old, ended): (Vec<_>, Vec<_>) = ended.partition(|(age, _)| *age > config.age);
        let surplus = (all.len() + more - old.len()).saturating_sub(config.runs.get());
        let wanted = if surplus == 0 { 0 } else { surplus.max(config.runs.get() / FREED) };
        let available = ended.len();
        let chosen = choose_runs(ended.into_iter().map(|(_, run)| run).collect(), wanted, excess);
        let mut kept = self.kept.lock();
        kept.is_short = chosen.len() < surplus || (excess > 0 && chosen.len() == available);
        kept.next_sweep = Instant::now() + if kept.is_short { RETRY_INTERVAL } else { SWEEP_INTERVAL };
        let ids = old.iter().map(|(_, run)| run.id).chain(chosen);
        let evicted: Vec<_> = ids.filter_map(|id| kept.by_id.remove(&id)).collect();
        drop(kept);
        drop(evicted);
    }

    /// Lists the kept runs in the order of their beginning.
    pub(crate) fn runs(&self) -> Vec<Arc<CapturedRun>> {
        self.evict(0);
        self.kept.lock().by_id.values().cloned().collect()
    }

    /// Lists the kept runs that began after the one with this id.
    pub(crate) fn runs_after(&self, id: u64) -> Vec<Arc<CapturedRun>> {
        self.kept.lock().by_id.range(id + 1..).map(|(_, run)| Arc::clone(run)).collect()
    }

    /// Returns the id of the run that began last.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<CapturedRun>> {
        self.kept.lock().by_id.get(&id).cloned()
    }

    /// Returns the memory of all kept runs.
    pub(crate) fn used_bytes(&self) -> usize {
        self.budget.used_bytes()
    }
}

/// Returns whether `text` matches a pattern in which `*` stands for any characters.
pub(crate) fn matches_glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(first) else { return false };
    let Some((part, _)) = rest.split_once('*') else { return text.ends_with(rest) };
    // The earliest match of a part leaves most for those behind it.
    text.find(part).is_some_and(|at| matches_glob(&rest[part.len()..], &text[at + part.len()..]))
}

#[cfg(test)]
mod tests {
    use super::matches_glob;

    #[test]
    fn globs_match_any_characters_at_each_star() {
        for (pattern, text, expected) in [
            ("chat", "chat", true),
            ("chat", "chats", false),
            ("chat*", "chats", true),
            ("*", "", true),
            ("*at", "chat", true),
            ("*at", "chats", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "ac", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches_glob(pattern, text), expected, "{pattern} {text}");
        }
    }
}
