//! Rate limits, counted in this process or shared by replicas.
//!
//! A request must pass all limits of its route, and a refused request does not use up the others. Local limits are
//! checked first, since they are fast and can be refunded; then one Redis call counts the request against all shared
//! limits or none. A request refused by a local limit never reaches Redis, which protects Redis from floods. Limits
//! before authentication are not refunded, since they exist for requests that are refused later.

mod headers;
mod local;
mod key;
mod remote;
#[cfg(test)]
mod tests;

pub(crate) use headers::{LimitDescriptor, LimitStatus, RateLimitHeaders};
pub(crate) use key::RequestQuotaKey;
pub(crate) use local::QuotaKey;

use self::headers::ceil_seconds;
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

/// Time between evictions of idle callers.
const EVICT_INTERVAL: Duration = Duration::from_secs(10);

/// When a limit is checked. Limits by address, header or route without tiers do not need the caller's identity.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum LimitStage {
    BeforeAuth,
    AfterAuth,
}

pub(crate) struct RequestLimiter {
    policies: Vec<Arc<LimitPolicy>>,
    remote: Option<RemoteLimiter>,
    on_error: OnError,
    x_ratelimit: bool,
    seed: RandomState,
    metrics: Arc<Metrics>,
}

struct LimitPolicy {
    settings: access::RateLimitPolicy,
    name: Arc<str>,
    stage: LimitStage,
    metrics: LimitMetrics,
    default_tier: PolicyTier,
    tiers: Vec<PolicyTier>,
}

struct PolicyTier {
    /// tier name; empty for the default tier
    name: String,
    quota: RateLimitQuota,
    descriptor: Arc<LimitDescriptor>,
    local: LocalLimiter,
}

/// A limit that applies to a request, and the key to count it under.
struct QuotaCheck<'l> {
    policy: &'l LimitPolicy,
    tier: &'l PolicyTier,
    key: QuotaKey,
    /// Redis key without its prefix; empty if the limit is not shared
    redis_name: String,
}

struct QuotaDecision<'l> {
    check: QuotaCheck<'l>,
    verdict: QuotaVerdict,
    decision: LimitDecision,
    local_count: Option<LocalCount<<DefaultClock as Clock>::Instant>>,
}

impl RequestLimiter {
    /// Keeps the counts of unchanged limits from `before`. Does not connect to Redis.
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
            // Reuses the seed so that callers keep their keys.
            seed: before.map_or_else(RandomState::new, |before| before.seed.clone()),
            metrics: Arc::clone(metrics),
        }
    }

    /// Evicts idle callers periodically; never returns.
    pub(crate) async fn evict_loop(&self) {
        loop {
            tokio::time::sleep(EVICT_INTERVAL).await;
            for tier in self.tiers() {
                tier.local.evict_idle();
                // A full eviction takes several milliseconds, and this thread also serves the Redis connection.
                tokio::task::yield_now().await;
            }
        }
    }

    fn policies_for<'l>(&'l self, route: &'l RouteMatch, stage: LimitStage) -> impl Iterator<Item = &'l LimitPolicy> {
        // Reading a run is free for its caller, because the start was counted; guessing credentials is not.
        let authenticates = stage == LimitStage::BeforeAuth && !route.access.methods.is_empty();
        let counts = route.request_kind != RequestKind::Read || authenticates;
        let named = route.access.rate_limits.iter().filter(move |_| counts);
        let policies = named.filter_map(move |index| self.policies.get(*index).map(|policy| &**policy));
        policies.filter(move |policy| policy.stage == stage)
    }

    /// Updates the gauge for the number of counted callers.
    pub(crate) fn update_gauges(&self) {
        self.metrics.process.limit_keys.set_count(self.tiers().map(|tier| tier.local.key_count()).sum());
    }

    fn tiers(&self) -> impl Iterator<Item = &PolicyTier> {
        self.policies.iter().flat_map(|policy| policy.tiers.iter().chain([&policy.default_tier]))
    }

    async fn pass(&self, head: &mut Parts, stage: LimitStage) -> Result<(), Rejection> {
        let Some(route) = head.extensions.get::<Arc<RouteMatch>>().cloned() else { return Ok(()) };
        let checks: Vec<_> =
            self.policies_for(&route, stage).map(|policy| policy.check_for(head, &route, &self.seed)).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let decisions = self.check_quotas(checks).await;
        let mut headers = head.extensions.remove::<RateLimitHeaders>().unwrap_or_default();
        headers.x_ratelimit = self.x_ratelimit;
        let settled = settle_decisions(decisions, &mut headers);
        head.extensions.insert(headers);
        settled
    }

    async fn check_quotas<'l>(&self, checks: Vec<QuotaCheck<'l>>) -> Vec<QuotaDecision<'l>> {
        let (shared, local): (Vec<_>, Vec<_>) = checks.into_iter().partition(|check| check.policy.settings.shared);
        let mut decisions: Vec<_> =
            local.into_iter().map(|check| check.count_locally(LimitDecision::Allowed)).collect();
        let Some(remote) = self.remote.as_ref().filter(|_| !shared.is_empty()) else { return decisions };
        if decisions.iter().any(|one| one.verdict.is_err()) {
            return decisions;
        }
        let remote_check =
            |check: &QuotaCheck<'_>| RemoteCheck { name: check.redis_name.clone(), quota: check.tier.quota };
        let remote_checks: Vec<_> = shared.iter().map(remote_check).collect();
        match remote.take(&remote_checks).await {
            Ok(verdicts) => {
                let verdicts = shared.into_iter().zip(verdicts);
                decisions.extend(verdicts.map(|(check, verdict)| check.apply_remote(verdict)));
            }
            Err(RedisQueryFailed) => {
                self.metrics.process.limit_backend_errors.inc();
                decisions.extend(shared.into_iter().map(|check| check.apply_on_error(self.on_error)));
            }
        }
        decisions
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
            stage: if anonymous && policy.tiers.is_empty() { LimitStage::BeforeAuth } else { LimitStage::AfterAuth },
            metrics: metrics.limit(&policy.name),
            default_tier: tier("", policy.quota),
            tiers: policy.tiers.iter().map(|(name, quota)| tier(name, *quota)).collect(),
            name,
        }
    }

    fn check_for<'l>(&'l self, head: &Parts, route: &RouteMatch, seed: &RandomState) -> QuotaCheck<'l> {
        let key = RequestQuotaKey::new(&self.settings.key, head, route);
        let own = |caller: &Arc<Identity>| self.tiers.iter().find(|tier| Some(&tier.name) == caller.tier.as_ref());
        let tier = CallerContext::identity_from(head).and_then(own).unwrap_or(&self.default_tier);
        let redis_name = if self.settings.shared {
            format!("limit:{}:{}:{}", self.name, tier.name, key.to_redis_key())
        } else {
            String::new()
        };
        QuotaCheck { policy: self, tier, key: key.to_quota_key(seed), redis_name }
    }
}

impl<'l> QuotaCheck<'l> {
    fn decide(self, decision: LimitDecision, verdict: QuotaVerdict) -> QuotaDecision<'l> {
        QuotaDecision { check: self, verdict, decision, local_count: None }
    }

    fn count_locally(self, decision: LimitDecision) -> QuotaDecision<'l> {
        match self.tier.local.take(self.key) {
            Ok(taken) => QuotaDecision { local_count: Some(taken), ..self.decide(decision, Ok(taken.remaining)) },
            Err(wait) => self.decide(LimitDecision::Refused, Err(wait)),
        }
    }

    /// Applies the verdict from Redis, and stores it locally in case Redis becomes unavailable.
    fn apply_remote(self, verdict: QuotaVerdict) -> QuotaDecision<'l> {
        self.tier.local.sync_remaining(self.key, verdict.unwrap_or(0));
        let decision = if verdict.is_ok() { LimitDecision::Allowed } else { LimitDecision::Refused };
        self.decide(decision, verdict)
    }

    /// Applies the configured policy while Redis is unavailable.
    fn apply_on_error(self, on_error: OnError) -> QuotaDecision<'l> {
        match on_error {
            OnError::Local => self.count_locally(LimitDecision::Local),
            OnError::Allow => self.decide(LimitDecision::Unchecked, Ok(0)),
            OnError::Deny => self.decide(LimitDecision::Unavailable, Err(Duration::ZERO)),
        }
    }
}

impl QuotaDecision<'_> {
    /// Returns the remaining quota for the header fields; `refunded` if the request was given back to the local count.
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
                // With no request left, the time until the next one; otherwise the time until the quota is full.
                let due = if remaining == 0 { 1 } else { gone };
                (Some(remaining), local::interval(tier.quota).saturating_mul(due))
            }
        };
        LimitStatus { descriptor: Arc::clone(&tier.descriptor), remaining, reset }
    }
}

/// Applies the decisions: refunds, metrics, header fields, and the rejection if a limit refused the request.
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
    // After the longest wait, the request passes all limits.
    let slowest = decisions.iter().filter_map(|one| Some((one, one.verdict.err()?))).max_by_key(|(_, wait)| *wait);
    slowest.map_or(Ok(()), |(one, wait)| Err(one.rejection(wait, headers)))
}

impl QuotaDecision<'_> {
    fn rejection(&self, wait: Duration, headers: &RateLimitHeaders) -> Rejection {
        let (name, RateLimitQuota { requests, per, burst }) = (&self.check.policy.name, self.check.tier.quota);
        let (wait, plural) = (ceil_seconds(wait).max(1), if requests.get() == 1 { "" } else { "s" });
        let rejection = if matches!(self.decision, LimitDecision::Unavailable) {
            Rejection::from(RejectionKind::RateLimitUnavailable)
                .with_detail(format!("The rate limit {name} cannot be checked, because Redis is unavailable."))
        } else {
            Rejection::from(RejectionKind::RateLimited).with_detail(format!(
                "The rate limit {name} is exhausted: {requests} request{plural} per {per:?}, with bursts of up to {burst}. \
                 Retry in {wait} s."
            ))
        };
        let retry_after = Some(wait.to_string().into());
        headers.add_to(Rejection { retry_after, ..rejection.with_policy(name) })
    }
}

/// Checks the limits of one stage.
#[derive(Clone)]
pub(crate) struct LimitGate {
    pub(crate) limiter: Arc<RequestLimiter>,
    pub(crate) stage: LimitStage,
}

impl Gate for LimitGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        self.limiter.pass(head, self.stage).await
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let gate = match self.stage {
            LimitStage::BeforeAuth => "limits before auth",
            LimitStage::AfterAuth => "limits after auth",
        };
        let route = head.extensions.get::<Arc<RouteMatch>>();
        let policies = route.into_iter().flat_map(|route| self.limiter.policies_for(route, self.stage));
        let wants = policies.map(|policy| policy.settings.to_string()).collect();
        GateReport::depends_on(gate, wants, "how much of the limit is used up")
    }
}
