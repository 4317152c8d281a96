//! Limits on concurrent runs: per caller, per route, and in total.

use super::dry_run::GateReport;
use super::gate::Gate;
use super::limit::{LimitDescriptor, LimitStatus, QuotaKey, RateLimitHeaders, RequestQuotaKey};
use super::route_match::{RequestKind, RouteMatch};
use crate::config::access::RateLimitKey;
use crate::config::{Config, RouteConfig};
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::Metrics;
use crate::telemetry::label::LimitDecision;
use crate::telemetry::metric::LimitMetrics;
use http::request::Parts;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{Hash, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Value of `Retry-After`; short, because a run may end at any moment.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct ConcurrencyLimiter {
    all: Option<StreamCap>,
    /// by route name
    routes: HashMap<String, RouteCaps>,
    seed: RandomState,
    metrics: [LimitMetrics; 3],
}

/// The scope of a limit; the discriminant is its index in the metrics.
#[derive(Clone, Copy, PartialEq)]
enum StreamScope {
    Caller,
    Route,
    All,
}

impl StreamScope {
    const fn name(self) -> &'static str {
        match self {
            StreamScope::Caller => "streams:caller",
            StreamScope::Route => "streams:route",
            StreamScope::All => "streams:all",
        }
    }
}

struct RouteCaps {
    caller: Option<StreamCap>,
    route: Option<StreamCap>,
}

struct StreamCap {
    scope: StreamScope,
    descriptor: Arc<LimitDescriptor>,
    max: NonZeroUsize,
    open_runs: Arc<OpenRunCounts>,
}

/// Counts concurrent uses per key.
#[derive(Debug)]
pub(crate) struct UsageCounts<K>(Mutex<HashMap<K, usize>>);

/// One use, counted until this is dropped.
pub(crate) struct CountedUse<K: Eq + Hash> {
    counts: Arc<UsageCounts<K>>,
    key: K,
}

/// Open runs per caller; the key `None` counts the runs of all callers.
type OpenRunCounts = UsageCounts<Option<QuotaKey>>;

/// Holds a run's slot until dropped. [`StreamGate`] adds this extension.
#[derive(Clone, Default)]
pub(crate) struct StreamPermit(#[expect(dead_code, reason = "held, never read")] Arc<[CountedUse<Option<QuotaKey>>]>);

impl ConcurrencyLimiter {
    /// Keeps the open-run counts from `before`, even if limits changed.
    pub(crate) fn new(config: &Config, metrics: &Arc<Metrics>, before: Option<&ConcurrencyLimiter>) -> Self {
        let route_caps = |route: &RouteConfig| {
            let known = before.and_then(|before| before.routes.get(&route.name));
            let caller_max = route.access.max_streams_per_caller;
            RouteCaps {
                caller: StreamCap::new(StreamScope::Caller, caller_max, known.and_then(|caps| caps.caller.as_ref())),
                route: StreamCap::new(
                    StreamScope::Route,
                    route.access.max_streams,
                    known.and_then(|caps| caps.route.as_ref()),
                ),
            }
        };
        let all = before.and_then(|before| before.all.as_ref());
        ConcurrencyLimiter {
            all: StreamCap::new(StreamScope::All, Some(config.limits.max_runs()), all),
            routes: config.routes.iter().map(|route| (route.name.clone(), route_caps(route))).collect(),
            // Reuses the seed so that callers keep their keys.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: [StreamScope::Caller, StreamScope::Route, StreamScope::All]
                .map(|scope| metrics.limit(scope.name())),
        }
    }

    pub(crate) fn acquire(&self, head: &Parts, matched: &RouteMatch) -> Result<StreamPermit, Rejection> {
        let count = |cap: &StreamCap| {
            let is_callers = cap.scope == StreamScope::Caller;
            let key =
                is_callers.then(|| RequestQuotaKey::new(&RateLimitKey::Caller, head, matched).to_quota_key(&self.seed));
            let counted = cap.open_runs.count(key, cap.max);
            let decision = if counted.is_some() { LimitDecision::Allowed } else { LimitDecision::Refused };
            self.metrics[cap.scope as usize].decisions.get(decision).inc();
            counted.ok_or_else(|| cap.rejection(head.extensions.get().cloned().unwrap_or_default()))
        };
        self.caps_of(matched).map(count).collect::<Result<_, _>>().map(StreamPermit)
    }

    /// Returns the caller's limit first, so that a caller with too many runs takes no slots from others.
    fn caps_of(&self, matched: &RouteMatch) -> impl Iterator<Item = &StreamCap> {
        let caps = self.routes.get(&*matched.name);
        let own = caps.into_iter().flat_map(|caps| [&caps.caller, &caps.route]);
        own.chain([&self.all]).flatten()
    }
}

impl StreamCap {
    fn new(scope: StreamScope, max: Option<NonZeroUsize>, before: Option<&StreamCap>) -> Option<StreamCap> {
        let max = max?;
        Some(StreamCap {
            scope,
            descriptor: Arc::new(LimitDescriptor::for_streams(&scope.name().into(), max)),
            max,
            open_runs: before.map(|cap| Arc::clone(&cap.open_runs)).unwrap_or_default(),
        })
    }

    fn rejection(&self, mut headers: RateLimitHeaders) -> Rejection {
        headers.statuses.push(LimitStatus {
            descriptor: Arc::clone(&self.descriptor),
            remaining: Some(0),
            reset: RETRY_AFTER,
        });
        let (kind, scope) = match self.scope {
            StreamScope::Caller => (RejectionKind::TooManyStreams, "The caller"),
            StreamScope::Route => (RejectionKind::Overloaded, "The route"),
            StreamScope::All => (RejectionKind::Overloaded, "The gateway"),
        };
        let detail =
            format!("{scope} has reached the limit {} (at most {} at a time).", self.descriptor.name, self.max);
        headers.add_to(Rejection::from(kind).with_detail(detail).with_policy(&self.descriptor.name))
    }
}

impl<K> Default for UsageCounts<K> {
    fn default() -> Self {
        UsageCounts(Mutex::default())
    }
}

impl<K: Eq + Hash + Copy> UsageCounts<K> {
    /// Counts another use. Returns `None` if `key` already has `max`.
    pub(crate) fn count(self: &Arc<Self>, key: K, max: NonZeroUsize) -> Option<CountedUse<K>> {
        let mut counts = self.0.lock();
        let count = counts.entry(key).or_default();
        if *count >= max.get() {
            return None;
        }
        *count += 1;
        Some(CountedUse { counts: Arc::clone(self), key })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl<K: Eq + Hash> Drop for CountedUse<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct StreamGate(pub(crate) Arc<ConcurrencyLimiter>);

impl Gate for StreamGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let permit = match head.extensions.get::<Arc<RouteMatch>>().cloned() {
            // A reader of a run shares that run's permit.
            Some(matched) if matched.request_kind == RequestKind::Start => self.0.acquire(head, &matched)?,
            _ => StreamPermit::default(),
        };
        head.extensions.insert(permit);
        Ok(())
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let matched = head.extensions.get::<Arc<RouteMatch>>();
        // `StartOrJoin` acquires the same permit after the body has been read.
        let starts = |one: &&Arc<RouteMatch>| matches!(one.request_kind, RequestKind::Start | RequestKind::StartOrJoin);
        let caps = matched.filter(starts).into_iter().flat_map(|matched| self.0.caps_of(matched));
        let wants = caps.map(|cap| {
            let plural = if cap.max.get() == 1 { "" } else { "s" };
            format!("{}: at most {} run{plural} at once", cap.scope.name(), cap.max)
        });
        GateReport::depends_on("streams", wants.collect(), "how many runs are open")
    }
}
