//! How often: rate limits, counted here or together with other replicas.
//!
//! All limits of a route have to let a request pass, and one that refuses costs the others nothing: limits of this process
//! are asked first, since they answer at once and take back what they counted when another refuses; then the shared ones,
//! all in one question that counts against all of them or none. Those that have refused already are not asked about in
//! Redis: a flood ends here. Only what the gate before authentication counted stays counted, for it is there to count what is
//! refused later.

mod key;
mod local;
mod shared;
mod standing;
#[cfg(test)]
mod tests;

pub use local::Key;
pub use standing::{Standing, Standings, Terms};

use self::key::Whose;
use self::local::{Local, Taken};
use self::shared::{Question, Shared, Verdict};
use self::standing::seconds;
use super::redis::{Away, Redis};
use super::{Errand, Gate, Guard, Identity, Matched, Told, Who};
use crate::config::access::{self, OnError, PolicyKey, Quota, RateLimits};
use crate::error::{Kind, Rejection};
use crate::telemetry::Metrics;
use crate::telemetry::label::Decision;
use crate::telemetry::metric::LimitMetrics;
use governor::clock::{Clock, DefaultClock};
use http::request::Parts;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// How often callers that were quiet are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// What only the moment knows.
const COUNTED: &str = "how much of it is used up";

/// The rate limits of the gateway.
#[derive(Debug)]
pub struct Limits {
    policies: Vec<Arc<Policy>>,
    shared: Option<Shared>,
    on_error: OnError,
    legacy: bool,
    seed: RandomState,
    metrics: Arc<Metrics>,
}

/// One rate limit and its quotas.
#[derive(Debug)]
struct Policy {
    settings: access::Policy,
    name: Arc<str>,
    key: PolicyKey,
    /// whether it is asked before authentication
    early: bool,
    shared: bool,
    metrics: LimitMetrics,
    everybody: Tier,
    tiers: Vec<Tier>,
}

/// A quota and what was counted against it.
#[derive(Debug)]
struct Tier {
    /// empty for everybody
    name: String,
    quota: Quota,
    terms: Arc<Terms>,
    local: Local,
}

/// A limit that a request is counted against, and as whose.
struct Asked<'l> {
    policy: &'l Policy,
    tier: &'l Tier,
    key: Key,
    /// the name in Redis; empty where the limit is not shared
    name: String,
}

/// What one limit said.
struct Said<'l> {
    asked: Asked<'l>,
    verdict: Verdict,
    decision: Decision,
    taken: Option<Taken<<DefaultClock as Clock>::Instant>>,
}

impl Limits {
    /// As configured. Nothing is connected to yet. A policy that was configured like that before goes on counting.
    #[must_use]
    pub fn new(
        limits: &RateLimits,
        metrics: &Arc<Metrics>,
        redis: Option<Arc<Redis>>,
        before: Option<&Limits>,
    ) -> Self {
        let policy = |settings: &access::Policy| {
            let known = before.and_then(|before| before.policies.iter().find(|policy| policy.settings == *settings));
            known.map_or_else(|| Arc::new(Policy::new(settings, metrics)), Arc::clone)
        };
        Limits {
            policies: limits.policies.iter().map(policy).collect(),
            shared: redis.map(Shared::new),
            on_error: limits.redis.as_ref().map_or(OnError::default(), |redis| redis.on_error),
            legacy: limits.legacy_headers,
            // Callers are known again by it.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: Arc::clone(metrics),
        }
    }

    /// Forgets callers that were quiet for long: never returns.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            for tier in self.tiers() {
                tier.local.forget();
                // Some milliseconds for a full one, and the connection to Redis is served by the same thread.
                tokio::task::yield_now().await;
            }
        }
    }

    /// The limits that a request is counted against before it is known who calls, or behind that.
    fn of<'l>(&'l self, route: &'l Matched, early: bool) -> impl Iterator<Item = &'l Policy> {
        // Whoever reads a run was counted when it was started.
        let counts = route.errand != Errand::Read;
        let named = route.access.rate_limits.iter().filter(move |_| counts);
        let policies = named.filter_map(move |index| self.policies.get(*index).map(|policy| &**policy));
        policies.filter(move |policy| policy.early == early)
    }

    /// The same in words.
    fn told(&self, head: &Parts, early: bool) -> Vec<String> {
        let Some(route) = head.extensions.get::<Arc<Matched>>() else { return Vec::new() };
        self.of(route, early).map(|policy| policy.settings.to_string()).collect()
    }

    /// Says in the metrics how many callers are counted now.
    pub fn measure(&self) {
        self.metrics.limit_keys(self.tiers().map(|tier| tier.local.keys()).sum());
    }

    fn tiers(&self) -> impl Iterator<Item = &Tier> {
        self.policies.iter().flat_map(|policy| policy.tiers.iter().chain([&policy.everybody]))
    }

    async fn pass(&self, head: &mut Parts, early: bool) -> Result<(), Rejection> {
        let Some(route) = head.extensions.get::<Arc<Matched>>().cloned() else { return Ok(()) };
        let asked: Vec<_> = self.of(&route, early).map(|policy| policy.asked(head, &route, &self.seed)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let said = self.ask(asked).await;
        let mut standings = head.extensions.remove::<Standings>().unwrap_or_default();
        standings.legacy = self.legacy;
        let settled = settle(said, &mut standings);
        head.extensions.insert(standings);
        settled
    }

    async fn ask<'l>(&self, asked: Vec<Asked<'l>>) -> Vec<Said<'l>> {
        let (shared, local): (Vec<_>, Vec<_>) = asked.into_iter().partition(|asked| asked.policy.shared);
        let mut said: Vec<_> = local.into_iter().map(|asked| asked.locally(Decision::Allowed)).collect();
        let Some(redis) = self.shared.as_ref().filter(|_| !shared.is_empty()) else { return said };
        if said.iter().any(|one| one.verdict.is_err()) {
            return said;
        }
        let question = |asked: &Asked<'_>| Question { name: asked.name.clone(), quota: asked.tier.quota };
        let questions: Vec<_> = shared.iter().map(question).collect();
        match redis.take(&questions).await {
            Ok(verdicts) => {
                let verdicts = shared.into_iter().zip(verdicts);
                said.extend(verdicts.map(|(asked, verdict)| asked.elsewhere(verdict)));
            }
            Err(Away) => {
                self.metrics.limit_backend_error();
                said.extend(shared.into_iter().map(|asked| asked.without(self.on_error)));
            }
        }
        said
    }
}

impl Policy {
    fn new(policy: &access::Policy, metrics: &Metrics) -> Policy {
        let name: Arc<str> = policy.name.as_str().into();
        let tier = |tier: &str, quota: Quota| Tier {
            name: tier.to_owned(),
            quota,
            terms: Arc::new(Terms::rate(&name, quota)),
            local: Local::new(quota),
        };
        let anonymous = matches!(policy.key, PolicyKey::Address | PolicyKey::Header(_) | PolicyKey::Route);
        Policy {
            settings: policy.clone(),
            key: policy.key.clone(),
            early: anonymous && policy.tiers.is_empty(),
            shared: policy.shared,
            metrics: metrics.limit(&policy.name),
            everybody: tier("", policy.quota),
            tiers: policy.tiers.iter().map(|(name, quota)| tier(name, *quota)).collect(),
            name,
        }
    }

    fn asked<'l>(&'l self, head: &Parts, route: &Matched, seed: &RandomState) -> Asked<'l> {
        let whose = Whose::new(&self.key, head, route);
        let own = |who: &Arc<Identity>| self.tiers.iter().find(|tier| Some(&tier.name) == who.tier.as_ref());
        let tier = Who::of(head).and_then(own).unwrap_or(&self.everybody);
        let name =
            if self.shared { format!("limit:{}:{}:{}", self.name, tier.name, whose.shared()) } else { String::new() };
        Asked { policy: self, tier, key: whose.local(seed), name }
    }
}

impl<'l> Asked<'l> {
    /// Counts here.
    fn locally(self, decision: Decision) -> Said<'l> {
        match self.tier.local.take(self.key) {
            Ok(taken) => Said { asked: self, verdict: Ok(taken.remaining), decision, taken: Some(taken) },
            Err(wait) => Said { asked: self, verdict: Err(wait), decision: Decision::Refused, taken: None },
        }
    }

    /// What Redis said. It is remembered here, so that what replicas have used up together is that still when Redis goes
    /// away.
    fn elsewhere(self, verdict: Verdict) -> Said<'l> {
        self.tier.local.follow(self.key, verdict.unwrap_or(0));
        let decision = if verdict.is_ok() { Decision::Allowed } else { Decision::Refused };
        Said { asked: self, verdict, decision, taken: None }
    }

    /// Redis said nothing.
    fn without(self, on_error: OnError) -> Said<'l> {
        match on_error {
            OnError::Local => self.locally(Decision::Local),
            OnError::Allow => Said { asked: self, verdict: Ok(0), decision: Decision::Unchecked, taken: None },
            OnError::Deny => {
                Said { asked: self, verdict: Err(Duration::ZERO), decision: Decision::Unavailable, taken: None }
            }
        }
    }
}

impl Said<'_> {
    /// How the caller stands with the limit now; `back` when what was counted was given back.
    fn standing(&self, back: bool) -> Standing {
        let Asked { tier, .. } = &self.asked;
        let (remaining, reset) = match self.verdict {
            _ if matches!(self.decision, Decision::Unchecked | Decision::Unavailable) => (None, Duration::ZERO),
            Err(wait) => (Some(0), wait),
            Ok(remaining) => {
                let remaining = remaining + u32::from(back && self.taken.is_some());
                let gone = tier.quota.burst.get().saturating_sub(remaining);
                // Where none remain the next one is what matters, else the whole.
                let due = if remaining == 0 { 1 } else { gone };
                (Some(remaining), local::interval(tier.quota).saturating_mul(due))
            }
        };
        Standing { terms: Arc::clone(&tier.terms), remaining, reset }
    }
}

/// What a request is counted by under `key`; see [`PolicyKey`].
pub fn whose(key: &PolicyKey, head: &Parts, route: &Matched, seed: &RandomState) -> Key {
    Whose::new(key, head, route).local(seed)
}

/// Counts what became of the request and writes down how its caller stands.
fn settle(said: Vec<Said<'_>>, standings: &mut Standings) -> Result<(), Rejection> {
    let refused = said.iter().any(|one| one.verdict.is_err());
    for one in &said {
        match one.taken {
            Some(taken) if refused => one.asked.tier.local.give_back(one.asked.key, taken),
            _ if refused && one.verdict.is_ok() => {}
            _ => one.asked.policy.metrics.decided(one.decision),
        }
        standings.list.push(one.standing(refused));
    }
    // Who waits as long as the slowest of them asks for passes all of them.
    let slowest = said.iter().filter_map(|one| Some((one, one.verdict.err()?))).max_by_key(|(_, wait)| *wait);
    slowest.map_or(Ok(()), |(one, wait)| Err(one.rejection(wait, standings)))
}

impl Said<'_> {
    fn rejection(&self, wait: Duration, standings: &Standings) -> Rejection {
        let (name, Quota { requests, per, burst }) = (&self.asked.policy.name, self.asked.tier.quota);
        let wait = seconds(wait).max(1);
        let rejection = if matches!(self.decision, Decision::Unavailable) {
            Rejection::from(Kind::RateLimitUnavailable)
                .detail(format!("The rate limit {name} is counted in Redis, which does not answer now."))
        } else {
            Rejection::from(Kind::RateLimited).detail(format!(
                "The rate limit {name} is used up: {requests} requests in {per:?}, {burst} of them at once. \
                 The next one passes in {wait} s."
            ))
        };
        let retry_after = Some(wait.to_string());
        standings.announce(Rejection { retry_after, ..rejection.policy(name) })
    }
}

/// The gate of the limits that need not know who calls: by address, header and route, without tiers.
#[derive(Clone, Debug)]
pub struct Unknown(pub Arc<Guard>);

impl Gate for Unknown {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.0.limits.pass(head, true).await
    }

    fn told(&self, head: &Parts) -> Told {
        Told::depends("limits of anybody", self.0.limits.told(head, true), COUNTED)
    }
}

/// The gate of all other limits.
#[derive(Clone, Debug)]
pub struct Known(pub Arc<Guard>);

impl Gate for Known {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.0.limits.pass(head, false).await
    }

    fn told(&self, head: &Parts) -> Told {
        Told::depends("limits of callers", self.0.limits.told(head, false), COUNTED)
    }
}
