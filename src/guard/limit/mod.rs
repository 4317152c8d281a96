//! How often: rate limits, counted here or together with other replicas.
//!
//! All limits of a route have to let a request pass, and one that refuses costs the others nothing: limits of this process
//! are asked first, since they answer at once and take back what they counted when another refuses; then the shared ones,
//! all in one question that counts against all of them or none. Those that have refused already are not asked about in
//! Redis: a flood ends here. Only what the gate before authentication counted stays counted, for it is there to count what is
//! refused later.

mod headers;
mod local;
mod key;
mod remote;
#[cfg(test)]
mod tests;

pub(crate) use headers::{LimitDescriptor, LimitStatus, RateLimitHeaders};
pub(crate) use local::QuotaKey;

use self::headers::ceil_seconds;
use self::key::LimitKeySource;
use self::local::{LocalCount, LocalLimiter};
use self::remote::{QuotaVerdict, RemoteCheck, RemoteLimiter};
use super::dry_run::GateReport;
use super::gate::Gate;
use super::identity::{CallerContext, Identity};
use super::route_match::{RequestKind, RouteMatch};
use crate::config::access::{self, OnError, RateLimitKey, RateLimitQuota, RateLimitsConfig};
use crate::error::{Rejection, RejectionKind};
use crate::net::redis_client::{RedisClient, RedisQueryFailed};
use crate::telemetry::Metrics;
use crate::telemetry::label::LimitDecision;
use crate::telemetry::metric::LimitMetrics;
use governor::clock::{Clock, DefaultClock};
use http::request::Parts;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

/// How often callers that were quiet are forgotten.
const EVICT_INTERVAL: Duration = Duration::from_secs(10);

/// What only the moment knows.
const DEPENDS_ON_COUNT: &str = "how much of it is used up";

/// The rate limits of the gateway.
#[derive(Debug)]
pub(crate) struct RequestLimiter {
    policies: Vec<Arc<LimitPolicy>>,
    remote: Option<RemoteLimiter>,
    on_error: OnError,
    x_ratelimit: bool,
    seed: RandomState,
    metrics: Arc<Metrics>,
}

/// One rate limit and its quotas.
#[derive(Debug)]
struct LimitPolicy {
    settings: access::RateLimitPolicy,
    name: Arc<str>,
    key: RateLimitKey,
    /// whether it is asked before authentication
    before_auth: bool,
    shared: bool,
    metrics: LimitMetrics,
    default_tier: PolicyTier,
    tiers: Vec<PolicyTier>,
}

/// A quota and what was counted against it.
#[derive(Debug)]
struct PolicyTier {
    /// empty for everybody
    name: String,
    quota: RateLimitQuota,
    descriptor: Arc<LimitDescriptor>,
    local: LocalLimiter,
}

/// A limit that a request is counted against, and as whose.
struct QuotaCheck<'l> {
    policy: &'l LimitPolicy,
    tier: &'l PolicyTier,
    key: QuotaKey,
    /// the name in Redis; empty where the limit is not shared
    name: String,
}

/// What one limit said.
struct QuotaDecision<'l> {
    check: QuotaCheck<'l>,
    verdict: QuotaVerdict,
    decision: LimitDecision,
    local_count: Option<LocalCount<<DefaultClock as Clock>::Instant>>,
}

impl RequestLimiter {
    /// As configured. Nothing is connected to yet. A policy that was configured like that before goes on counting.
    #[must_use]
    pub(crate) fn new(
        limits: &RateLimitsConfig,
        metrics: &Arc<Metrics>,
        redis: Option<Arc<RedisClient>>,
        before: Option<&RequestLimiter>,
    ) -> Self {
        let policy = |settings: &access::RateLimitPolicy| {
            let known = before.and_then(|before| before.policies.iter().find(|policy| policy.settings == *settings));
            known.map_or_else(|| Arc::new(LimitPolicy::new(settings, metrics)), Arc::clone)
        };
        RequestLimiter {
            policies: limits.policies.iter().map(policy).collect(),
            remote: redis.map(RemoteLimiter::new),
            on_error: limits.redis.as_ref().map_or(OnError::default(), |redis| redis.on_error),
            x_ratelimit: limits.legacy_headers,
            // Callers are known again by it.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: Arc::clone(metrics),
        }
    }

    /// Forgets callers that were quiet for long: never returns.
    pub(crate) async fn evict_loop(&self) {
        loop {
            tokio::time::sleep(EVICT_INTERVAL).await;
            for tier in self.tiers() {
                tier.local.evict_idle();
                // Some milliseconds for a full one, and the connection to Redis is served by the same thread.
                tokio::task::yield_now().await;
            }
        }
    }

    /// The limits that a request is counted against before it is known who calls, or behind that.
    fn policies_for<'l>(&'l self, route: &'l RouteMatch, early: bool) -> impl Iterator<Item = &'l LimitPolicy> {
        // Whoever reads a run was counted when it was started.
        let counts = route.request_kind != RequestKind::Read;
        let named = route.access.rate_limits.iter().filter(move |_| counts);
        let policies = named.filter_map(move |index| self.policies.get(*index).map(|policy| &**policy));
        policies.filter(move |policy| policy.before_auth == early)
    }

    /// The same in words.
    fn describe(&self, head: &Parts, early: bool) -> Vec<String> {
        let Some(route) = head.extensions.get::<Arc<RouteMatch>>() else { return Vec::new() };
        self.policies_for(route, early).map(|policy| policy.settings.to_string()).collect()
    }

    /// Says in the metrics how many callers are counted now.
    pub(crate) fn update_gauges(&self) {
        self.metrics.process().limit_keys.set_count(self.tiers().map(|tier| tier.local.key_count()).sum());
    }

    fn tiers(&self) -> impl Iterator<Item = &PolicyTier> {
        self.policies.iter().flat_map(|policy| policy.tiers.iter().chain([&policy.default_tier]))
    }

    async fn pass(&self, head: &mut Parts, early: bool) -> Result<(), Rejection> {
        let Some(route) = head.extensions.get::<Arc<RouteMatch>>().cloned() else { return Ok(()) };
        let asked: Vec<_> =
            self.policies_for(&route, early).map(|policy| policy.check_for(head, &route, &self.seed)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let said = self.check_quotas(asked).await;
        let mut standings = head.extensions.remove::<RateLimitHeaders>().unwrap_or_default();
        standings.x_ratelimit = self.x_ratelimit;
        let settled = settle_decisions(said, &mut standings);
        head.extensions.insert(standings);
        settled
    }

    async fn check_quotas<'l>(&self, checks: Vec<QuotaCheck<'l>>) -> Vec<QuotaDecision<'l>> {
        let (shared, local): (Vec<_>, Vec<_>) = checks.into_iter().partition(|asked| asked.policy.shared);
        let mut said: Vec<_> = local.into_iter().map(|asked| asked.count_locally(LimitDecision::Allowed)).collect();
        let Some(redis) = self.remote.as_ref().filter(|_| !shared.is_empty()) else { return said };
        if said.iter().any(|one| one.verdict.is_err()) {
            return said;
        }
        let question = |asked: &QuotaCheck<'_>| RemoteCheck { name: asked.name.clone(), quota: asked.tier.quota };
        let questions: Vec<_> = shared.iter().map(question).collect();
        match redis.take(&questions).await {
            Ok(verdicts) => {
                let verdicts = shared.into_iter().zip(verdicts);
                said.extend(verdicts.map(|(asked, verdict)| asked.apply_remote(verdict)));
            }
            Err(RedisQueryFailed) => {
                self.metrics.process().limit_backend_errors.inc();
                said.extend(shared.into_iter().map(|asked| asked.apply_on_error(self.on_error)));
            }
        }
        said
    }
}

impl LimitPolicy {
    fn new(policy: &access::RateLimitPolicy, metrics: &Metrics) -> LimitPolicy {
        let name: Arc<str> = policy.name.as_str().into();
        let tier = |tier: &str, quota: RateLimitQuota| PolicyTier {
            name: tier.to_owned(),
            quota,
            descriptor: Arc::new(LimitDescriptor::for_rate(&name, quota)),
            local: LocalLimiter::new(quota),
        };
        let anonymous = matches!(policy.key, RateLimitKey::Address | RateLimitKey::Header(_) | RateLimitKey::Route);
        LimitPolicy {
            settings: policy.clone(),
            key: policy.key.clone(),
            before_auth: anonymous && policy.tiers.is_empty(),
            shared: policy.shared,
            metrics: metrics.limit(&policy.name),
            default_tier: tier("", policy.quota),
            tiers: policy.tiers.iter().map(|(name, quota)| tier(name, *quota)).collect(),
            name,
        }
    }

    fn check_for<'l>(&'l self, head: &Parts, route: &RouteMatch, seed: &RandomState) -> QuotaCheck<'l> {
        let whose = LimitKeySource::new(&self.key, head, route);
        let own = |who: &Arc<Identity>| self.tiers.iter().find(|tier| Some(&tier.name) == who.tier.as_ref());
        let tier = CallerContext::identity_from(head).and_then(own).unwrap_or(&self.default_tier);
        let name = if self.shared {
            format!("limit:{}:{}:{}", self.name, tier.name, whose.redis_key())
        } else {
            String::new()
        };
        QuotaCheck { policy: self, tier, key: whose.local_key(seed), name }
    }
}

impl<'l> QuotaCheck<'l> {
    /// Counts here.
    fn count_locally(self, decision: LimitDecision) -> QuotaDecision<'l> {
        match self.tier.local.take(self.key) {
            Ok(taken) => {
                QuotaDecision { check: self, verdict: Ok(taken.remaining), decision, local_count: Some(taken) }
            }
            Err(wait) => {
                QuotaDecision { check: self, verdict: Err(wait), decision: LimitDecision::Refused, local_count: None }
            }
        }
    }

    /// What Redis said. It is remembered here, so that what replicas have used up together is that still when Redis goes
    /// away.
    fn apply_remote(self, verdict: QuotaVerdict) -> QuotaDecision<'l> {
        self.tier.local.sync_remaining(self.key, verdict.unwrap_or(0));
        let decision = if verdict.is_ok() { LimitDecision::Allowed } else { LimitDecision::Refused };
        QuotaDecision { check: self, verdict, decision, local_count: None }
    }

    /// Redis said nothing.
    fn apply_on_error(self, on_error: OnError) -> QuotaDecision<'l> {
        match on_error {
            OnError::Local => self.count_locally(LimitDecision::Local),
            OnError::Allow => {
                QuotaDecision { check: self, verdict: Ok(0), decision: LimitDecision::Unchecked, local_count: None }
            }
            OnError::Deny => QuotaDecision {
                check: self,
                verdict: Err(Duration::ZERO),
                decision: LimitDecision::Unavailable,
                local_count: None,
            },
        }
    }
}

impl QuotaDecision<'_> {
    /// How the caller stands with the limit now; `back` when what was counted was given back.
    fn status(&self, refunded: bool) -> LimitStatus {
        let QuotaCheck { tier, .. } = &self.check;
        let (remaining, reset) = match self.verdict {
            _ if matches!(self.decision, LimitDecision::Unchecked | LimitDecision::Unavailable) => {
                (None, Duration::ZERO)
            }
            Err(wait) => (Some(0), wait),
            Ok(remaining) => {
                let remaining = remaining + u32::from(refunded && self.local_count.is_some());
                let gone = tier.quota.burst.get().saturating_sub(remaining);
                // Where none remain the next one is what matters, else the whole.
                let due = if remaining == 0 { 1 } else { gone };
                (Some(remaining), local::interval(tier.quota).saturating_mul(due))
            }
        };
        LimitStatus { descriptor: Arc::clone(&tier.descriptor), remaining, reset }
    }
}

/// What a request is counted by under `key`; see [`PolicyKey`].
pub(crate) fn local_key(key: &RateLimitKey, head: &Parts, route: &RouteMatch, seed: &RandomState) -> QuotaKey {
    LimitKeySource::new(key, head, route).local_key(seed)
}

/// Counts what became of the request and writes down how its caller stands.
fn settle_decisions(decisions: Vec<QuotaDecision<'_>>, headers: &mut RateLimitHeaders) -> Result<(), Rejection> {
    let refused = decisions.iter().any(|one| one.verdict.is_err());
    for one in &decisions {
        match one.local_count {
            Some(taken) if refused => one.check.tier.local.refund(one.check.key, taken),
            _ if refused && one.verdict.is_ok() => {}
            _ => one.check.policy.metrics.decisions.get(one.decision).inc(),
        }
        headers.statuses.push(one.status(refused));
    }
    // Who waits as long as the slowest of them asks for passes all of them.
    let slowest = decisions.iter().filter_map(|one| Some((one, one.verdict.err()?))).max_by_key(|(_, wait)| *wait);
    slowest.map_or(Ok(()), |(one, wait)| Err(one.rejection(wait, headers)))
}

impl QuotaDecision<'_> {
    fn rejection(&self, wait: Duration, headers: &RateLimitHeaders) -> Rejection {
        let (name, RateLimitQuota { requests, per, burst }) = (&self.check.policy.name, self.check.tier.quota);
        let wait = ceil_seconds(wait).max(1);
        let rejection = if matches!(self.decision, LimitDecision::Unavailable) {
            Rejection::from(RejectionKind::RateLimitUnavailable)
                .with_detail(format!("The rate limit {name} is counted in Redis, which does not answer now."))
        } else {
            Rejection::from(RejectionKind::RateLimited).with_detail(format!(
                "The rate limit {name} is used up: {requests} requests in {per:?}, {burst} of them at once. \
                 The next one passes in {wait} s."
            ))
        };
        let retry_after = Some(wait.to_string());
        headers.add_to(Rejection { retry_after, ..rejection.with_policy(name) })
    }
}

/// The gate of the limits that need not know who calls: by address, header and route, without tiers.
#[derive(Clone, Debug)]
pub(crate) struct PreAuthLimitGate(pub(crate) Arc<RequestLimiter>);

impl Gate for PreAuthLimitGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.0.pass(head, true).await
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        GateReport::depends_on("limits of anybody", self.0.describe(head, true), DEPENDS_ON_COUNT)
    }
}

/// The gate of all other limits.
#[derive(Clone, Debug)]
pub(crate) struct PostAuthLimitGate(pub(crate) Arc<RequestLimiter>);

impl Gate for PostAuthLimitGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.0.pass(head, false).await
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        GateReport::depends_on("limits of callers", self.0.describe(head, false), DEPENDS_ON_COUNT)
    }
}
