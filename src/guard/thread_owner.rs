//! Whose a thread is: of whoever opened it, on routes that say `threads: owned`.
//!
//! ```text
//!   nobody's ── a run of a caller ──▶ the caller's ── another one's run or read ──▶ refused
//!      ▲                                  │    ▲
//!      └──── a day without a run ─────────┘    └── a run: another day
//! ```
//! Each replica remembers what it saw. With `redis`, what stands there decides. Where that is nothing, because it lost its
//! data or was away when the thread was opened, and where it does not answer, the memory does.

use super::digest::{self, Digest};
use super::redis::{Away, Redis};
use super::{Identity, Matched};
use crate::config::Config;
use crate::config::access::OnError;
use crate::error::{Kind, Rejection};
use crate::event::Json;
use crate::telemetry::Metrics;
use crate::telemetry::label::AuthReason;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use redis::Script;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How many threads of a route are remembered; the one that was not used for longest is forgotten first. That is some 15
/// MB. Whoever opens as many makes the gateway forget those of others, which a rate limit is there to prevent.
const MOST: usize = 100_000;

/// How long a thread is its owner's behind its last run.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes a thread (`KEYS[1]`) for a caller (`ARGV[1]`), if that is its owner: by what stands here, or else by what the replica
/// says (`ARGV[2]`). `SET … NX GET` would not know of the second, and is one command only since Redis 7.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1]) or ARGV[2]
        if owner ~= ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], owner, 'EX', ARGV[3])
        return 1",
    )
});

/// Who opened which thread, of the routes where that matters.
#[derive(Debug)]
pub struct Threads {
    routes: HashMap<String, Arc<Owners>>,
    shared: Option<(Arc<Redis>, OnError)>,
    metrics: Arc<Metrics>,
}

impl Threads {
    /// As configured. What is known of the threads of a route stays known.
    #[must_use]
    pub fn new(config: &Config, metrics: &Arc<Metrics>, redis: Option<Arc<Redis>>, before: Option<&Threads>) -> Self {
        let owned = config.routes.iter().filter(|route| route.access.own_threads);
        let owners = |name: &String| before.and_then(|before| before.routes.get(name)).cloned().unwrap_or_default();
        Threads {
            routes: owned.map(|route| (route.name.clone(), owners(&route.name))).collect(),
            shared: redis.zip(config.rate_limits.redis.as_ref().map(|redis| redis.on_error)),
            metrics: Arc::clone(metrics),
        }
    }

    /// Takes a thread for the run of a caller.
    ///
    /// # Errors
    /// That it is another one's, or that nobody can say; an id that has no one spelling.
    pub async fn claim(
        &self,
        route: &Matched,
        who: Option<&Arc<Identity>>,
        thread_id: &Json<'_>,
    ) -> Result<(), Rejection> {
        let (Some(owners), Some(who)) = (self.routes.get(&*route.name), who) else { return Ok(()) };
        // An agent may read two spellings of a lone surrogate as one id, or as another id with a replacement in its place.
        let text = serde_json::from_str::<String>(thread_id.as_str());
        let text = text.map_err(|_| Rejection::from(Kind::InvalidRequest).detail("/threadId: is no Unicode text"))?;
        let (thread, owner) = (thread(&route.name, &text), owner(who));
        let remembered = owners.owner(&thread).unwrap_or(owner);
        let mine = match self.claim_shared(&thread, &owner, &remembered).await? {
            Answer::Mine => {
                owners.keep(thread, owner);
                true
            }
            Answer::Anothers => false,
            Answer::AskMemory => owners.claim(thread, owner),
            Answer::Unchecked => true,
        };
        if mine { Ok(()) } else { Err(refused(route, who)) }
    }

    /// Lets a caller read the run of a thread, unless it is another one's. The refusal is that of a run, and not of a
    /// thread that does not exist: starting a run would tell the same, and a caller with the wrong one of its credentials
    /// learns what is wrong.
    ///
    /// # Errors
    /// That it is another one's.
    pub fn read(&self, route: &Matched, who: Option<&Arc<Identity>>, thread_id: Option<&str>) -> Result<(), Rejection> {
        let (Some(owners), Some(who), Some(thread_id)) = (self.routes.get(&*route.name), who, thread_id) else {
            return Ok(());
        };
        let (thread, owner) = (thread(&route.name, thread_id), owner(who));
        // A run waits in the process that started it, and that remembers whose thread it is: nothing is asked.
        if owners.owner(&thread).is_none_or(|own| own == owner) { Ok(()) } else { Err(refused(route, who)) }
    }

    async fn claim_shared(&self, thread: &Digest, owner: &Digest, remembered: &Digest) -> Result<Answer, Rejection> {
        let Some((redis, on_error)) = &self.shared else { return Ok(Answer::AskMemory) };
        let key = format!("{}thread:{}", redis.prefix(), URL_SAFE_NO_PAD.encode(thread));
        let [owner, remembered] = [owner, remembered].map(|one| URL_SAFE_NO_PAD.encode(one));
        let asked = redis.ask(async |mut connection| {
            let mut claim = CLAIM.key(key);
            claim.arg(owner).arg(remembered).arg(KEPT.as_secs()).invoke_async::<bool>(&mut connection).await
        });
        match (asked.await, on_error) {
            (Ok(true), _) => return Ok(Answer::Mine),
            (Ok(false), _) => return Ok(Answer::Anothers),
            (Err(Away), _) => self.metrics.limit_backend_error(),
        }
        match on_error {
            OnError::Local => Ok(Answer::AskMemory),
            OnError::Allow => Ok(Answer::Unchecked),
            OnError::Deny => Err(Rejection { retry_after: Some("1".to_owned()), ..Kind::ThreadsUnavailable.into() }),
        }
    }
}

/// What the replicas together say of a thread.
enum Answer {
    Mine,
    Anothers,
    /// each replica for itself
    AskMemory,
    /// nobody knows, and that is no reason to refuse
    Unchecked,
}

/// The refusal, counted. It has no trace of the owner.
fn refused(route: &Matched, who: &Identity) -> Rejection {
    route.metrics.authenticated(who.method, AuthReason::Thread);
    Rejection::from(Kind::ThreadNotOwned).policy(&"threads".into())
}

// Ids of threads may be 64 KiB long, and names of callers are nobody's business in Redis: both are kept as digests.

fn thread(route: &str, thread_id: &str) -> Digest {
    digest::of_parts(&[Some(route), Some(thread_id)])
}

/// A subject of a tenant, by whoever vouches for it: two issuers may both know an `admin`.
fn owner(who: &Identity) -> Digest {
    digest::of_parts(&[Some(&who.source), who.tenant.as_deref(), Some(&who.subject)])
}

/// The threads of a route that this replica knows, in the order of their last use.
#[derive(Debug)]
struct Owners(Mutex<LruCache<Digest, Claim>>);

#[derive(Debug)]
struct Claim {
    owner: Digest,
    used: Instant,
}

impl Default for Owners {
    fn default() -> Self {
        // Not `new`, which makes room for all of them at once.
        Owners(Mutex::new(LruCache::unbounded()))
    }
}

impl Owners {
    /// Whose a thread is, if it is anybody's.
    fn owner(&self, thread: &Digest) -> Option<Digest> {
        owner_of(&self.lock(), thread)
    }

    /// Takes a thread unless it is another one's. `false` if so.
    fn claim(&self, thread: Digest, owner: Digest) -> bool {
        let mut claims = self.lock();
        let mine = owner_of(&claims, &thread).is_none_or(|own| own == owner);
        if mine {
            put(&mut claims, thread, owner);
        }
        mine
    }

    /// Remembers an owner, whoever it was before.
    fn keep(&self, thread: Digest, owner: Digest) {
        put(&mut self.lock(), thread, owner);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Digest, Claim>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner_of(claims: &LruCache<Digest, Claim>, thread: &Digest) -> Option<Digest> {
    claims.peek(thread).filter(|claim| claim.used.elapsed() < KEPT).map(|claim| claim.owner)
}

fn put(claims: &mut LruCache<Digest, Claim>, thread: Digest, owner: Digest) {
    claims.put(thread, Claim { owner, used: Instant::now() });
    // What is over the number goes, and what is too old: both lie at the same end.
    while claims.peek_lru().is_some_and(|(_, oldest)| claims.len() > MOST || oldest.used.elapsed() >= KEPT) {
        claims.pop_lru();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(number: usize) -> Digest {
        digest::of_parts(&[Some(&number.to_string())])
    }

    const ADA: Digest = [1; 32];
    const BOB: Digest = [2; 32];

    #[tokio::test(start_paused = true)]
    async fn a_thread_is_its_owners_until_a_day_behind_its_last_run() {
        let owners = Owners::default();
        assert!(owners.claim(named(1), ADA));
        for _ in 0..3 {
            tokio::time::advance(KEPT - Duration::from_secs(1)).await;
            assert!(!owners.claim(named(1), BOB));
            assert!(owners.claim(named(1), ADA));
        }
        // Another one's attempts keep nothing.
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert!(!owners.claim(named(1), BOB));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(owners.owner(&named(1)), None);
        assert!(owners.claim(named(1), BOB));
        assert!(!owners.claim(named(1), ADA));
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_are_opened_the_last_used_are_remembered() {
        let owners = Owners::default();
        assert!(owners.claim(named(0), ADA));
        assert!(owners.claim(named(1), ADA));
        for number in 2..=MOST {
            assert!(owners.claim(named(number), BOB));
            assert!(owners.claim(named(0), ADA));
        }
        let known = owners.lock().len();
        assert_eq!((known, owners.owner(&named(0)), owners.owner(&named(1))), (MOST, Some(ADA), None));
        // What is too old goes with the next run of any thread.
        tokio::time::advance(KEPT).await;
        assert!(owners.claim(named(MOST + 1), ADA));
        assert_eq!(owners.lock().len(), 1);
    }

    #[test]
    fn parts_that_only_read_alike_together_are_told_apart() {
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
            assert!(lists[..number].iter().all(|other| digest::of_parts(other) != digest::of_parts(one)), "{one:?}");
        }
    }
}
