//! How much at once: runs that are open, of a caller, of a route, and in all.

use super::dry_run::GateReport;
use super::gate::Gate;
use super::limit::{LimitDescriptor, LimitStatus, QuotaKey, RateLimitHeaders, local_key};
use super::route_match::{RequestKind, RouteMatch};
use crate::config::Config;
use crate::config::access::RateLimitKey;
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::Metrics;
use crate::telemetry::label::LimitDecision;
use crate::telemetry::metric::LimitMetrics;
use http::request::Parts;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A run may end at any moment, so nobody knows when there is room; asking again this much later is no burden.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The runs that are open.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    all: Option<StreamCap>,
    /// by name
    routes: HashMap<String, RouteCaps>,
    seed: RandomState,
    metrics: [LimitMetrics; 3],
}

/// What is limited; the position of its metrics.
#[derive(Clone, Copy, Debug)]
enum StreamScope {
    Caller,
    Route,
    All,
}

impl StreamScope {
    /// As metrics and refusals name it.
    const fn name(self) -> &'static str {
        match self {
            StreamScope::Caller => "streams:caller",
            StreamScope::Route => "streams:route",
            StreamScope::All => "streams:all",
        }
    }
}

#[derive(Debug)]
struct RouteCaps {
    route: Option<StreamCap>,
    caller: Option<CallerCap>,
}

/// A number of runs at once.
#[derive(Debug)]
struct StreamCap {
    descriptor: Arc<LimitDescriptor>,
    max: NonZeroUsize,
    open_count: Arc<AtomicUsize>,
}

/// A number of runs at once of each caller.
#[derive(Debug)]
struct CallerCap {
    descriptor: Arc<LimitDescriptor>,
    max: NonZeroUsize,
    open_by_caller: Arc<OpenByCaller>,
}

/// How many runs each caller has open. Whoever has none has no entry, so there are no more entries than runs.
#[derive(Debug, Default)]
struct OpenByCaller(Mutex<HashMap<QuotaKey, usize>>);

/// What a run holds while its client takes part; dropping it makes room. Among the extensions behind the gate.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamPermit(#[expect(dead_code, reason = "held, never read")] Option<Arc<StreamGuards>>);

#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
struct StreamGuards {
    caller: Option<CallerGuard>,
    route: Option<CountGuard>,
    all: Option<CountGuard>,
}

/// One of the runs that are counted.
#[derive(Debug)]
struct CountGuard(Arc<AtomicUsize>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One of the runs of a caller.
#[derive(Debug)]
struct CallerGuard {
    open_by_caller: Arc<OpenByCaller>,
    key: QuotaKey,
}

impl ConcurrencyLimiter {
    /// As configured. Runs that are open and were counted stay counted, whatever the numbers are now.
    #[must_use]
    pub(crate) fn new(config: &Config, metrics: &Arc<Metrics>, before: Option<&ConcurrencyLimiter>) -> Self {
        let caps = |route: &crate::config::RouteConfig| {
            let known = before.and_then(|before| before.routes.get(&route.name));
            let (own, caller) =
                (known.and_then(|caps| caps.route.as_ref()), known.and_then(|caps| caps.caller.as_ref()));
            RouteCaps {
                route: route.access.max_streams.map(|most| StreamCap::new(StreamScope::Route, most, own)),
                caller: route.access.max_streams_per_caller.map(|most| CallerCap {
                    descriptor: stream_descriptor(StreamScope::Caller, most),
                    max: most,
                    open_by_caller: caller.map(|cap| Arc::clone(&cap.open_by_caller)).unwrap_or_default(),
                }),
            }
        };
        let all = before.and_then(|before| before.all.as_ref());
        ConcurrencyLimiter {
            all: config.limits.max_streams.map(|most| StreamCap::new(StreamScope::All, most, all)),
            routes: config.routes.iter().map(|route| (route.name.clone(), caps(route))).collect(),
            // Callers are known again by it.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: [StreamScope::Caller, StreamScope::Route, StreamScope::All]
                .map(|scope| metrics.limit(scope.name())),
        }
    }

    /// Room for a run.
    ///
    /// # Errors
    /// There is none, and where.
    pub(crate) fn acquire(&self, head: &Parts, matched: &RouteMatch) -> Result<StreamPermit, Rejection> {
        let standings = || head.extensions.get().cloned().unwrap_or_default();
        self.try_acquire(head, matched).map_err(|refusal| refusal.rejection(standings()))
    }

    /// The same. The caller is asked first: a caller that has too many hears that, not that the gateway is full, and
    /// takes no room from others even for a moment.
    fn try_acquire(&self, head: &Parts, matched: &RouteMatch) -> Result<StreamPermit, CapExceeded<'_>> {
        let caps = self.routes.get(&*matched.name);
        let caller = caps.and_then(|caps| caps.caller.as_ref()).map(|cap| {
            let key = local_key(&RateLimitKey::Caller, head, matched, &self.seed);
            self.record_decision(StreamScope::Caller, &cap.descriptor, cap.open_by_caller.try_acquire(key, cap.max))
        });
        let caller = caller.transpose()?;
        let route = self.acquire_cap(StreamScope::Route, caps.and_then(|caps| caps.route.as_ref()))?;
        let all = self.acquire_cap(StreamScope::All, self.all.as_ref())?;
        if caller.is_none() && route.is_none() && all.is_none() {
            return Ok(StreamPermit::default());
        }
        Ok(StreamPermit(Some(Arc::new(StreamGuards { caller, route, all }))))
    }

    fn acquire_cap<'s>(
        &'s self,
        scope: StreamScope,
        cap: Option<&'s StreamCap>,
    ) -> Result<Option<CountGuard>, CapExceeded<'s>> {
        cap.map(|cap| self.record_decision(scope, &cap.descriptor, cap.try_acquire())).transpose()
    }

    fn record_decision<'s, T>(
        &self,
        scope: StreamScope,
        terms: &'s Arc<LimitDescriptor>,
        permit: Option<T>,
    ) -> Result<T, CapExceeded<'s>> {
        let decision = if permit.is_some() { LimitDecision::Allowed } else { LimitDecision::Refused };
        self.metrics[scope as usize].decisions.get(decision).inc();
        permit.ok_or(CapExceeded { scope, descriptor: terms })
    }
}

fn stream_descriptor(scope: StreamScope, most: NonZeroUsize) -> Arc<LimitDescriptor> {
    Arc::new(LimitDescriptor::for_streams(&scope.name().into(), most))
}

impl StreamCap {
    fn new(scope: StreamScope, max: NonZeroUsize, before: Option<&StreamCap>) -> StreamCap {
        StreamCap {
            descriptor: stream_descriptor(scope, max),
            max,
            open_count: before.map(|cap| Arc::clone(&cap.open_count)).unwrap_or_default(),
        }
    }

    fn try_acquire(&self) -> Option<CountGuard> {
        let one = |open: usize| (open < self.max.get()).then_some(open + 1);
        let counted = self.open_count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one);
        counted.is_ok().then(|| CountGuard(Arc::clone(&self.open_count)))
    }
}

impl OpenByCaller {
    fn try_acquire(self: &Arc<Self>, key: QuotaKey, most: NonZeroUsize) -> Option<CallerGuard> {
        let mut open = self.0.lock();
        let count = open.entry(key).or_default();
        if *count >= most.get() {
            return None;
        }
        *count += 1;
        Some(CallerGuard { open_by_caller: Arc::clone(self), key })
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        let mut open = self.open_by_caller.0.lock();
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

/// There is no room, and where.
#[derive(Debug)]
struct CapExceeded<'s> {
    scope: StreamScope,
    descriptor: &'s Arc<LimitDescriptor>,
}

impl CapExceeded<'_> {
    fn rejection(&self, mut headers: RateLimitHeaders) -> Rejection {
        headers.statuses.push(LimitStatus {
            descriptor: Arc::clone(self.descriptor),
            remaining: Some(0),
            reset: RETRY_AFTER,
        });
        let (kind, detail) = match self.scope {
            StreamScope::Caller => {
                (RejectionKind::TooManyStreams, "The caller has as many runs open as streams:caller lets it have.")
            }
            StreamScope::Route => {
                (RejectionKind::Overloaded, "The route has as many runs open as streams:route lets it have.")
            }
            StreamScope::All => {
                (RejectionKind::Overloaded, "The gateway has as many runs open as streams:all lets it have.")
            }
        };
        headers.add_to(Rejection::from(kind).with_detail(detail).with_policy(&self.descriptor.name))
    }
}

/// The gate.
#[derive(Clone, Debug)]
pub(crate) struct StreamGate(pub(crate) Arc<ConcurrencyLimiter>);

impl Gate for StreamGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let permits = match head.extensions.get::<Arc<RouteMatch>>().cloned() {
            // Whoever reads a run that was started takes part in that one, which holds what it needs.
            Some(matched) if matched.request_kind == RequestKind::Start => self.0.acquire(head, &matched)?,
            _ => StreamPermit::default(),
        };
        head.extensions.insert(permits);
        Ok(())
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let streams = &self.0;
        let Some(matched) = head.extensions.get::<Arc<RouteMatch>>() else {
            return GateReport::passes("streams", Vec::new());
        };
        // Who begins a run that may be known already asks for room once that is known, in the same words.
        let asks = matches!(matched.request_kind, RequestKind::Start | RequestKind::StartOrJoin);
        let caps = streams.routes.get(&*matched.name).filter(|_| asks);
        let caller = caps.and_then(|caps| caps.caller.as_ref()).map(|cap| (StreamScope::Caller, cap.max));
        let route = caps.and_then(|caps| caps.route.as_ref()).map(|cap| (StreamScope::Route, cap.max));
        let all = streams.all.as_ref().filter(|_| asks).map(|cap| (StreamScope::All, cap.max));
        let wants = [caller, route, all].into_iter().flatten();
        let wants = wants.map(|(scope, most)| format!("{}: at most {most} runs at once", scope.name())).collect();
        GateReport::depends_on("streams", wants, "how many runs are open")
    }
}
