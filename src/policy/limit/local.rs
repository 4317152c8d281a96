//! Quotas counted in this process.

use crate::config::access::RateLimitQuota;
use governor::RateLimiter;
use governor::clock::{Clock, DefaultClock, Reference};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of callers that a limiter counts individually (about 10 MiB); the rest share buckets.
const MAX_VOUCHED_KEYS: usize = 100_000;

/// Maximum number of unauthenticated keys (addresses, header values) counted individually.
const MAX_UNVOUCHED_KEYS: usize = 1 << 16;

/// Number of buckets that all other keys share, which limits memory during a flood.
const SHARED_BUCKETS: u64 = 1 << 16;

/// A hashed key of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QuotaKey {
    /// from an authenticated identity
    Vouched(u64),
    /// from data that any client can choose
    Unvouched(u64),
}

/// Counts a quota for each key with the generic cell rate algorithm (GCRA).
pub(crate) struct LocalLimiter<C: Clock = DefaultClock> {
    limiter: RateLimiter<QuotaKey, QuotaStore, C, StateInformationMiddleware>,
    store: QuotaStore,
    interval: Duration,
    burst: NonZeroU32,
    /// reference point for stored arrival times
    start: C::Instant,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalCount<I> {
    /// requests left
    pub(crate) remaining: u32,
    counted_at: I,
}

/// Returns the time to refill one request, rounded up so that the quota is never exceeded.
pub(crate) fn interval(quota: RateLimitQuota) -> Duration {
    let nanos = quota.per.as_nanos().div_ceil(u128::from(quota.requests.get())).max(1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl LocalLimiter {
    pub(crate) fn new(quota: RateLimitQuota) -> LocalLimiter {
        LocalLimiter::with_clock(quota, DefaultClock::default())
    }
}

impl<C: Clock> LocalLimiter<C> {
    pub(crate) fn with_clock(quota: RateLimitQuota, clock: C) -> LocalLimiter<C> {
        let interval = interval(quota);
        let burst = quota.burst;
        // `with_period` fails only for zero, which `interval` never returns.
        let governors = governor::Quota::with_period(interval).unwrap_or(governor::Quota::per_second(burst));
        let store = QuotaStore::default();
        let start = clock.now();
        let limiter = RateLimiter::new(governors.allow_burst(burst), store.clone(), clock);
        LocalLimiter { limiter, store, interval, burst, start }
    }

    /// Counts a request if the quota allows it; otherwise returns the time to wait.
    pub(crate) fn take(&self, key: QuotaKey) -> Result<LocalCount<C::Instant>, Duration> {
        let at = self.limiter.clock().now();
        match self.limiter.check_key(&key) {
            Ok(now) => Ok(LocalCount { remaining: now.remaining_burst_capacity(), counted_at: at }),
            Err(not) => Err(not.wait_time_from(self.limiter.clock().now())),
        }
    }

    /// Refunds a request that was refused later, unless the quota has already refilled it.
    pub(crate) fn refund(&self, key: QuotaKey, taken: LocalCount<C::Instant>) {
        if Duration::from(self.limiter.clock().now().duration_since(taken.counted_at)) < self.interval {
            let less = |arrival: Option<Nanos>| match arrival {
                Some(arrival) => Ok(((), arrival.saturating_sub(self.interval.into()))),
                None => Err(()),
            };
            // An evicted key has its full quota.
            let _ = self.store.measure_and_replace(&key, less);
        }
    }

    /// Lowers the local count of a shared quota to `remaining`.
    pub(crate) fn sync_remaining(&self, key: QuotaKey, remaining: u32) {
        let used = self.burst.get().saturating_sub(remaining);
        let now = self.limiter.clock().now().duration_since(self.start);
        let due = now + Nanos::from(self.interval.saturating_mul(used));
        // A new key has no arrival time to compare with.
        let later = |arrival: Option<Nanos>| match arrival {
            Some(arrival) if arrival >= due => Err(()),
            _ => Ok(((), due)),
        };
        let _ = self.store.measure_and_replace(&key, later);
    }

    pub(crate) fn evict_idle(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }

    pub(crate) fn key_count(&self) -> usize {
        self.limiter.len()
    }
}

/// Stores the theoretical arrival time (GCRA) of each key's next request.
#[derive(Clone, Default)]
struct QuotaStore(Arc<QuotaMaps>);

#[derive(Default)]
struct QuotaMaps {
    vouched: DashMapStateStore<u64>,
    unvouched: DashMapStateStore<u64>,
    shared_buckets: DashMapStateStore<u64>,
}

impl QuotaMaps {
    fn all(&self) -> [&DashMapStateStore<u64>; 3] {
        [&self.vouched, &self.unvouched, &self.shared_buckets]
    }
}

impl StateStore for QuotaStore {
    type Key = QuotaKey;

    fn measure_and_replace<T, F, E>(&self, key: &QuotaKey, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let QuotaMaps { vouched, unvouched, shared_buckets } = &*self.0;
        let (own, most, hash) = match *key {
            QuotaKey::Vouched(hash) => (vouched, MAX_VOUCHED_KEYS, hash),
            QuotaKey::Unvouched(hash) => (unvouched, MAX_UNVOUCHED_KEYS, hash),
        };
        // `len` last, because it visits every shard of the map.
        if own.contains_key(&hash) || own.len() < most {
            own.measure_and_replace(&hash, f)
        } else {
            shared_buckets.measure_and_replace(&(hash % SHARED_BUCKETS), f)
        }
    }
}

impl ShrinkableKeyedStateStore<QuotaKey> for QuotaStore {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.all().iter().for_each(|map| map.retain_recent(drop_below));
    }

    fn shrink_to_fit(&self) {
        self.0.all().iter().for_each(|map| map.shrink_to_fit());
    }

    fn len(&self) -> usize {
        self.0.all().iter().map(|map| map.len()).sum()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
