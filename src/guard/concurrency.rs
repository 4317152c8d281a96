//! How much at once: runs that are open, of a caller, of a route, and in all.

use super::limit::{Key, Standing, Standings, Terms, whose};
use super::{Errand, Gate, Guard, Matched, Told};
use crate::config::Config;
use crate::config::access::PolicyKey;
use crate::error::{Kind, Rejection};
use crate::telemetry::Metrics;
use crate::telemetry::label::Decision;
use crate::telemetry::metric::LimitMetrics;
use http::request::Parts;
use std::collections::HashMap;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A run may end at any moment, so nobody knows when there is room; asking again this much later is no burden.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The runs that are open.
#[derive(Debug)]
pub struct Streams {
    all: Option<Cap>,
    /// by name
    routes: HashMap<String, RouteCaps>,
    seed: RandomState,
    metrics: [LimitMetrics; 3],
}

/// What is limited; the position of its metrics.
#[derive(Clone, Copy, Debug)]
enum Scope {
    Caller,
    Route,
    All,
}

impl Scope {
    /// As metrics and refusals name it.
    const fn name(self) -> &'static str {
        match self {
            Scope::Caller => "streams:caller",
            Scope::Route => "streams:route",
            Scope::All => "streams:all",
        }
    }
}

#[derive(Debug)]
struct RouteCaps {
    route: Option<Cap>,
    caller: Option<CallerCap>,
}

/// A number of runs at once.
#[derive(Debug)]
struct Cap {
    terms: Arc<Terms>,
    most: NonZeroUsize,
    open: Arc<AtomicUsize>,
}

/// A number of runs at once of each caller.
#[derive(Debug)]
struct CallerCap {
    terms: Arc<Terms>,
    most: NonZeroUsize,
    open: Arc<Open>,
}

/// How many runs each caller has open. Whoever has none has no entry, so there are no more entries than runs.
#[derive(Debug, Default)]
struct Open(Mutex<HashMap<Key, usize>>);

/// What a run holds while its client takes part; dropping it makes room. Among the extensions behind the gate.
#[derive(Clone, Debug, Default)]
pub struct Permits(#[expect(dead_code, reason = "held, never read")] Option<Arc<Held>>);

#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
struct Held {
    caller: Option<OfCaller>,
    route: Option<One>,
    all: Option<One>,
}

/// One of the runs that are counted.
#[derive(Debug)]
struct One(Arc<AtomicUsize>);

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One of the runs of a caller.
#[derive(Debug)]
struct OfCaller {
    open: Arc<Open>,
    key: Key,
}

impl Streams {
    /// As configured. Runs that are open and were counted stay counted, whatever the numbers are now.
    #[must_use]
    pub fn new(config: &Config, metrics: &Arc<Metrics>, before: Option<&Streams>) -> Self {
        let caps = |route: &crate::config::Route| {
            let known = before.and_then(|before| before.routes.get(&route.name));
            let (own, caller) =
                (known.and_then(|caps| caps.route.as_ref()), known.and_then(|caps| caps.caller.as_ref()));
            RouteCaps {
                route: route.access.max_streams.map(|most| Cap::new(Scope::Route, most, own)),
                caller: route.access.max_streams_per_caller.map(|most| CallerCap {
                    terms: terms(Scope::Caller, most),
                    most,
                    open: caller.map(|cap| Arc::clone(&cap.open)).unwrap_or_default(),
                }),
            }
        };
        let all = before.and_then(|before| before.all.as_ref());
        Streams {
            all: config.limits.max_streams.map(|most| Cap::new(Scope::All, most, all)),
            routes: config.routes.iter().map(|route| (route.name.clone(), caps(route))).collect(),
            // Callers are known again by it.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: [Scope::Caller, Scope::Route, Scope::All].map(|scope| metrics.limit(scope.name())),
        }
    }

    /// Room for a run.
    ///
    /// # Errors
    /// There is none, and where.
    pub fn seat(&self, head: &Parts, matched: &Matched) -> Result<Permits, Rejection> {
        let standings = || head.extensions.get().cloned().unwrap_or_default();
        self.enter(head, matched).map_err(|refusal| refusal.rejection(standings()))
    }

    /// The same. The caller is asked first: a caller that has too many hears that, not that the gateway is full, and
    /// takes no room from others even for a moment.
    fn enter(&self, head: &Parts, matched: &Matched) -> Result<Permits, Refusal<'_>> {
        let caps = self.routes.get(&*matched.name);
        let caller = caps.and_then(|caps| caps.caller.as_ref()).map(|cap| {
            let key = whose(&PolicyKey::Caller, head, matched, &self.seed);
            self.decided(Scope::Caller, &cap.terms, cap.open.enter(key, cap.most))
        });
        let caller = caller.transpose()?;
        let route = self.room(Scope::Route, caps.and_then(|caps| caps.route.as_ref()))?;
        let all = self.room(Scope::All, self.all.as_ref())?;
        if caller.is_none() && route.is_none() && all.is_none() {
            return Ok(Permits::default());
        }
        Ok(Permits(Some(Arc::new(Held { caller, route, all }))))
    }

    fn room<'s>(&'s self, scope: Scope, cap: Option<&'s Cap>) -> Result<Option<One>, Refusal<'s>> {
        cap.map(|cap| self.decided(scope, &cap.terms, cap.enter())).transpose()
    }

    fn decided<'s, T>(&self, scope: Scope, terms: &'s Arc<Terms>, permit: Option<T>) -> Result<T, Refusal<'s>> {
        let decision = if permit.is_some() { Decision::Allowed } else { Decision::Refused };
        self.metrics[scope as usize].decided(decision);
        permit.ok_or(Refusal { scope, terms })
    }
}

fn terms(scope: Scope, most: NonZeroUsize) -> Arc<Terms> {
    Arc::new(Terms::streams(&scope.name().into(), most))
}

impl Cap {
    fn new(scope: Scope, most: NonZeroUsize, before: Option<&Cap>) -> Cap {
        Cap { terms: terms(scope, most), most, open: before.map(|cap| Arc::clone(&cap.open)).unwrap_or_default() }
    }

    fn enter(&self) -> Option<One> {
        let one = |open: usize| (open < self.most.get()).then_some(open + 1);
        let counted = self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one);
        counted.is_ok().then(|| One(Arc::clone(&self.open)))
    }
}

impl Open {
    fn enter(self: &Arc<Self>, key: Key, most: NonZeroUsize) -> Option<OfCaller> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(key).or_default();
        if *count >= most.get() {
            return None;
        }
        *count += 1;
        Some(OfCaller { open: Arc::clone(self), key })
    }
}

impl Drop for OfCaller {
    fn drop(&mut self) {
        let mut open = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
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
struct Refusal<'s> {
    scope: Scope,
    terms: &'s Arc<Terms>,
}

impl Refusal<'_> {
    fn rejection(&self, mut standings: Standings) -> Rejection {
        standings.list.push(Standing { terms: Arc::clone(self.terms), remaining: Some(0), reset: RETRY_AFTER });
        let (kind, detail) = match self.scope {
            Scope::Caller => (Kind::TooManyStreams, "The caller has as many runs open as streams:caller lets it have."),
            Scope::Route => (Kind::Overloaded, "The route has as many runs open as streams:route lets it have."),
            Scope::All => (Kind::Overloaded, "The gateway has as many runs open as streams:all lets it have."),
        };
        let rejection = Rejection::from(kind).detail(detail).policy(&self.terms.name);
        standings.announce(Rejection { retry_after: Some(RETRY_AFTER.as_secs().to_string()), ..rejection })
    }
}

/// The gate.
#[derive(Clone, Debug)]
pub struct Slots(pub Arc<Guard>);

impl Gate for Slots {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let permits = match head.extensions.get::<Arc<Matched>>().cloned() {
            // Whoever reads a run that was started takes part in that one, which holds what it needs.
            Some(matched) if matched.errand == Errand::Start => self.0.streams.seat(head, &matched)?,
            _ => Permits::default(),
        };
        head.extensions.insert(permits);
        Ok(())
    }

    fn told(&self, head: &Parts) -> Told {
        let streams = &self.0.streams;
        let Some(matched) = head.extensions.get::<Arc<Matched>>() else { return Told::passes("streams", Vec::new()) };
        // Who begins a run that may be known already asks for room once that is known, in the same words.
        let asks = matches!(matched.errand, Errand::Start | Errand::StartOrJoin);
        let caps = streams.routes.get(&*matched.name).filter(|_| asks);
        let caller = caps.and_then(|caps| caps.caller.as_ref()).map(|cap| (Scope::Caller, cap.most));
        let route = caps.and_then(|caps| caps.route.as_ref()).map(|cap| (Scope::Route, cap.most));
        let all = streams.all.as_ref().filter(|_| asks).map(|cap| (Scope::All, cap.most));
        let wants = [caller, route, all].into_iter().flatten();
        let wants = wants.map(|(scope, most)| format!("{}: at most {most} runs at once", scope.name())).collect();
        Told::depends("streams", wants, "how many runs are open")
    }
}
