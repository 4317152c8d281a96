//! Thread ownership: on routes with `threads: owned`, a thread belongs to the caller that opened it.
//!
//! ```text
//!   unowned ── a run of a caller ──▶ owned by the caller ── run or read of another caller ──▶ refused
//!      ▲                                  │    ▲
//!      └──── a day without a run ─────────┘    └── a run: another day
//! ```
//! Each replica remembers the owners it has seen. With `redis`, the owner stored there takes precedence; the replica's
//! memory is used if Redis is unavailable or has no owner, for example after losing its data.

use super::fair_eviction::forget_excess;
use super::identity::Identity;
use super::route_match::RouteMatch;
use crate::config::Config;
use crate::config::access::OnError;
use crate::error::{Rejection, RejectionKind};
use crate::event::Json;
use crate::net::digest::{self, Sha256Digest};
use crate::net::redis_client::{RedisClient, RedisQueryFailed};
use crate::telemetry::Metrics;
use crate::telemetry::label::AuthReason;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use parking_lot::Mutex;
use redis::Script;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of remembered threads per route, about 15 MB. The callers with most threads lose their least recently
/// used ones, so that nobody can make the gateway forget the owners of others' threads.
const MAX_THREADS: usize = 100_000;

/// Number of threads that are forgotten at once, since finding them takes milliseconds.
const FORGOTTEN_AT_ONCE: usize = MAX_THREADS / 100;

/// Time after its last run during which a thread keeps its owner.
const OWNERSHIP_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Claims a thread (`KEYS[1]`) for a caller (`ARGV[1]`) if the caller owns it, according to Redis or, failing that, the
/// replica's memory (`ARGV[2]`). `SET … NX GET` cannot consult that memory, and needs Redis 7.
static CLAIM_SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1]) or ARGV[2]
        if owner ~= ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], owner, 'EX', ARGV[3])
        return 1",
    )
});

pub(crate) struct ThreadOwnership {
    routes: HashMap<String, Arc<ThreadOwners>>,
    shared: Option<(Arc<RedisClient>, OnError)>,
    metrics: Arc<Metrics>,
}

impl ThreadOwnership {
    /// Keeps the owners from `before` for routes that still exist.
    pub(crate) fn new(
        config: &Config,
        metrics: &Arc<Metrics>,
        redis: Option<Arc<RedisClient>>,
        before: Option<&ThreadOwnership>,
    ) -> Self {
        let owned = config.routes.iter().filter(|route| route.access.own_threads);
        let owners = |name: &String| before.and_then(|before| before.routes.get(name)).cloned().unwrap_or_default();
        ThreadOwnership {
            routes: owned.map(|route| (route.name.clone(), owners(&route.name))).collect(),
            shared: redis.zip(config.rate_limits.redis.as_ref().map(|redis| redis.on_error)),
            metrics: Arc::clone(metrics),
        }
    }

    /// Claims a thread for a caller's run.
    pub(crate) async fn claim(
        &self,
        route: &RouteMatch,
        identity: Option<&Arc<Identity>>,
        thread_id: &Json<'_>,
    ) -> Result<(), Rejection> {
        let (Some(owners), Some(caller)) = (self.routes.get(&*route.name), identity) else { return Ok(()) };
        // An agent may decode different escapes of a lone surrogate to the same id, or replace the surrogate.
        let text = serde_json::from_str::<String>(thread_id.as_str());
        let text = text.map_err(|_| {
            Rejection::from(RejectionKind::InvalidRequest).with_detail("/threadId: is not valid Unicode")
        })?;
        let thread = thread_digest(&route.name, &text);
        let owner = owner_digest(caller);
        let remembered = owners.owner(&thread).unwrap_or(owner);
        let mine = match self.claim_shared(&thread, &owner, &remembered).await? {
            ClaimAnswer::Owned => {
                insert_claim(&mut owners.0.lock(), thread, owner);
                true
            }
            ClaimAnswer::OwnedByOther => false,
            ClaimAnswer::UseMemory => owners.claim(thread, owner),
            ClaimAnswer::Unchecked => true,
        };
        if mine { Ok(()) } else { Err(reject_claim(route, caller)) }
    }

    /// Refuses to read a run in another caller's thread. The rejection is the same as for starting a run, since "not
    /// found" would hide nothing and would mislead a caller with the wrong credential.
    pub(crate) fn check_read(
        &self,
        route: &RouteMatch,
        identity: Option<&Arc<Identity>>,
        thread_id: Option<&str>,
    ) -> Result<(), Rejection> {
        let (Some(owners), Some(caller), Some(thread_id)) = (self.routes.get(&*route.name), identity, thread_id) else {
            return Ok(());
        };
        // Redis is not needed: the process that started the run also serves it and remembers the owner.
        let remembered = owners.owner(&thread_digest(&route.name, thread_id));
        if remembered.is_none_or(|owner| owner == owner_digest(caller)) {
            Ok(())
        } else {
            Err(reject_claim(route, caller))
        }
    }

    async fn claim_shared(
        &self,
        thread: &Sha256Digest,
        owner: &Sha256Digest,
        remembered: &Sha256Digest,
    ) -> Result<ClaimAnswer, Rejection> {
        let Some((redis, on_error)) = &self.shared else { return Ok(ClaimAnswer::UseMemory) };
        let key = format!("{}thread:{}", redis.settings.prefix, URL_SAFE_NO_PAD.encode(thread));
        let [owner, remembered] = [owner, remembered].map(|one| URL_SAFE_NO_PAD.encode(one));
        let response = redis.query(async |mut connection| {
            let mut claim = CLAIM_SCRIPT.key(key);
            claim.arg(owner).arg(remembered).arg(OWNERSHIP_TTL.as_secs()).invoke_async::<bool>(&mut connection).await
        });
        match (response.await, on_error) {
            (Ok(true), _) => return Ok(ClaimAnswer::Owned),
            (Ok(false), _) => return Ok(ClaimAnswer::OwnedByOther),
            (Err(RedisQueryFailed), _) => self.metrics.process.limit_backend_errors.inc(),
        }
        match on_error {
            OnError::Local => Ok(ClaimAnswer::UseMemory),
            OnError::Allow => Ok(ClaimAnswer::Unchecked),
            OnError::Deny => Err(RejectionKind::ThreadsUnavailable.into()),
        }
    }
}

enum ClaimAnswer {
    Owned,
    OwnedByOther,
    /// use this replica's memory
    UseMemory,
    /// allow the request without checking, as configured
    Unchecked,
}

/// Counts and returns the rejection, which does not reveal the owner.
fn reject_claim(route: &RouteMatch, identity: &Identity) -> Rejection {
    route.metrics.inc_auth(identity.method, AuthReason::Thread);
    Rejection::from(RejectionKind::ThreadNotOwned).with_policy(&"threads".into())
}

// Thread ids may be 64 KiB long, and caller names must not appear in Redis, so both are stored as digests.

fn thread_digest(route: &str, thread_id: &str) -> Sha256Digest {
    digest::sha256_parts(&[Some(route), Some(thread_id)])
}

/// Hashes source, tenant and subject, since two issuers may both have an `admin`.
fn owner_digest(identity: &Identity) -> Sha256Digest {
    digest::sha256_parts(&[Some(&identity.source), identity.tenant.as_deref(), Some(&identity.subject)])
}

/// A route's remembered threads, in order of last use.
struct ThreadOwners(Mutex<OwnerCache>);

type OwnerCache = LruCache<Sha256Digest, OwnerEntry>;

struct OwnerEntry {
    owner: Sha256Digest,
    last_used: Instant,
}

impl Default for ThreadOwners {
    fn default() -> Self {
        // Not `new`, which allocates the full capacity at once.
        ThreadOwners(Mutex::new(LruCache::unbounded()))
    }
}

impl ThreadOwners {
    fn owner(&self, thread: &Sha256Digest) -> Option<Sha256Digest> {
        current_owner(&self.0.lock(), thread)
    }

    /// Claims a thread; returns whether the caller owns it.
    fn claim(&self, thread: Sha256Digest, owner: Sha256Digest) -> bool {
        let mut claims = self.0.lock();
        let mine = current_owner(&claims, &thread).is_none_or(|own| own == owner);
        if mine {
            insert_claim(&mut claims, thread, owner);
        }
        mine
    }
}

fn current_owner(claims: &OwnerCache, thread: &Sha256Digest) -> Option<Sha256Digest> {
    claims.peek(thread).filter(|claim| claim.last_used.elapsed() < OWNERSHIP_TTL).map(|claim| claim.owner)
}

fn insert_claim(claims: &mut OwnerCache, thread: Sha256Digest, owner: Sha256Digest) {
    claims.put(thread, OwnerEntry { owner, last_used: Instant::now() });
    // Expired entries are at the least recently used end.
    while claims.peek_lru().is_some_and(|(_, oldest)| oldest.last_used.elapsed() >= OWNERSHIP_TTL) {
        claims.pop_lru();
    }
    if claims.len() > MAX_THREADS {
        forget_excess(claims, |claim| claim.owner, FORGOTTEN_AT_ONCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered_digest(number: usize) -> Sha256Digest {
        digest::sha256_parts(&[Some(&number.to_string())])
    }

    const ADA: Sha256Digest = [1; 32];
    const BOB: Sha256Digest = [2; 32];

    #[tokio::test(start_paused = true)]
    async fn keeps_a_thread_owner_for_a_day_after_its_last_run() {
        let owners = ThreadOwners::default();
        assert!(owners.claim(numbered_digest(1), ADA));
        for _ in 0..3 {
            tokio::time::advance(OWNERSHIP_TTL - Duration::from_secs(1)).await;
            assert!(!owners.claim(numbered_digest(1), BOB));
            assert!(owners.claim(numbered_digest(1), ADA));
        }
        // Attempts by another caller do not extend the ownership.
        tokio::time::advance(OWNERSHIP_TTL - Duration::from_secs(1)).await;
        assert!(!owners.claim(numbered_digest(1), BOB));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(owners.owner(&numbered_digest(1)), None);
        assert!(owners.claim(numbered_digest(1), BOB));
        assert!(!owners.claim(numbered_digest(1), ADA));
    }

    #[tokio::test(start_paused = true)]
    async fn remembers_the_most_recently_used_threads() {
        let owners = ThreadOwners::default();
        for number in 0..=MAX_THREADS {
            assert!(owners.claim(numbered_digest(number), ADA));
            assert!(owners.claim(numbered_digest(0), ADA));
        }
        let known = owners.0.lock().len();
        let owner = |number| owners.owner(&numbered_digest(number));
        assert_eq!(known, MAX_THREADS + 1 - FORGOTTEN_AT_ONCE);
        assert_eq!((owner(0), owner(1), owner(FORGOTTEN_AT_ONCE + 1)), (Some(ADA), None, Some(ADA)));
        // The next run of any thread evicts expired entries.
        tokio::time::advance(OWNERSHIP_TTL).await;
        assert!(owners.claim(numbered_digest(MAX_THREADS + 1), ADA));
        assert_eq!(owners.0.lock().len(), 1);
    }

    /// A caller that opens many threads must not be able to take those of others.
    #[test]
    fn forgets_the_threads_of_the_caller_that_has_most() {
        let owners = ThreadOwners::default();
        for number in 0..10 {
            assert!(owners.claim(numbered_digest(number), ADA));
        }
        for number in 10..MAX_THREADS + 2 * FORGOTTEN_AT_ONCE {
            assert!(owners.claim(numbered_digest(number), BOB));
        }
        assert!(owners.0.lock().len() <= MAX_THREADS);
        assert!((0..10).all(|number| owners.owner(&numbered_digest(number)) == Some(ADA)));
        assert_eq!(owners.owner(&numbered_digest(10)), None);
    }

    #[test]
    fn digests_differ_for_parts_that_concatenate_alike() {
        let lists: &[&[Option<&str>]] = &[
            &[Some("ab"), Some("c")],
            &[Some("a"), Some("bc")],
            &[Some("abc")],
            &[Some("abc"), Some("")],
            &[Some("abc"), None],
            &[None, Some("abc")],
            &[Some("ABC")],
        ];
        for (number, one) in lists.iter().enumerate() {
            assert!(
                lists[..number].iter().all(|other| digest::sha256_parts(other) != digest::sha256_parts(one)),
                "{one:?}"
            );
        }
    }
}
