//! Values that runs keep for the later runs of their thread, such as the conversation id of an agent whose dialect is
//! described by a file.
//!
//! ```text
//!   unknown ── its agent answers ──▶ known ── a rule keeps a value ──▶ known, with values
//!      ▲                               │                                    │
//!      └───────────────────────────────┴── too many threads, too long, ◀────┘
//!                                          forgotten by the agent
//! ```
//! Each process has them in its memory. With `redis`, the values that are stored there take precedence, so that each
//! replica goes on with the conversation; memory is used while Redis does not answer, or has nothing, for example
//! after losing its data. A client that goes on with an unknown thread gets `diglot.conversation_lost`.

use super::run_keys::{caller_key, thread_key};
use crate::codec::json;
use crate::dialect::{Mapping, ThreadChange, ThreadValues};
use crate::event::Json;
use crate::net::redis_client::RedisClient;
use crate::policy::CallerContext;
use crate::policy::fair_eviction::forget_excess;
use crate::replay::ReplayKey;
use crate::telemetry::Metrics;
use crate::telemetry::internal_event::ThreadValuesTooLong;
use crate::translate::request::TranslatedRequest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use parking_lot::Mutex;
use redis::Script;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Threads that are kept. The callers with the most lose those that they used longest ago.
const MAX_THREADS: usize = 16_384;

/// Threads that are forgotten at once, since finding them takes about a millisecond.
const FORGOTTEN_AT_ONCE: usize = MAX_THREADS / 64;

/// Longest values of one thread together. Ids are shorter. With all threads, 8 MiB of text, and about 6 MiB for the
/// maps.
const MAX_VALUES_LEN: usize = 512;

/// Time after its last run during which Redis keeps a thread.
const SHARED_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The values of threads, by the key of thread and caller.
pub(crate) struct ThreadStore {
    threads: Mutex<LruCache<ReplayKey, StoredThread>>,
    metrics: Arc<Metrics>,
}

struct StoredThread {
    caller: ReplayKey,
    values: KeptValues,
    /// names of values that Redis does not have, because it did not answer
    unsaved: HashSet<Box<str>>,
}

/// By name.
type KeptValues = HashMap<Box<str>, Json<'static>>;

/// The field of a thread in Redis that is forgotten, so that no replica goes on with the values that it has.
const FORGOTTEN: &str = "";

/// Forgets a thread (`KEYS[1]`) for a time (`ARGV[1]`), unless Redis has another value for one of the names behind it.
static FORGET_SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 then
            for at = 2, #ARGV, 2 do
                if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then return end
            end
        end
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], '', '')
        redis.call('EXPIRE', KEYS[1], ARGV[1])",
    )
});

/// The thread of a run whose agent keeps something for later ones.
pub(super) struct KeptThread {
    store: Arc<ThreadStore>,
    key: ReplayKey,
    caller: ReplayKey,
    route: Arc<str>,
    mapping: &'static Mapping,
    redis: Option<Arc<RedisClient>>,
    /// what the agent got, and what its run has kept since
    known: ThreadValues,
}

impl ThreadStore {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(ThreadStore { threads: Mutex::new(LruCache::unbounded()), metrics })
    }

    /// Returns what earlier runs of the thread kept, in the order of the mapping's names; `None` if the thread is
    /// unknown.
    pub(super) fn get(
        &self,
        mapping: Option<&'static Mapping>,
        route: &str,
        caller: &CallerContext,
        thread_id: &Json<'_>,
    ) -> Option<ThreadValues> {
        let Some(mapping) = mapping.filter(|mapping| !mapping.thread_names.is_empty()) else { return Some(Vec::new()) };
        self.find(&thread_key(route, caller, &thread_id.text().unwrap_or_default()), mapping)
    }

    fn find(&self, key: &ReplayKey, mapping: &Mapping) -> Option<ThreadValues> {
        let mut threads = self.threads.lock();
        let stored = threads.get(key)?;
        // A file that was changed since may have other names.
        Some(mapping.thread_names.iter().map(|name| stored.values.get(name).cloned()).collect())
    }

    /// Gets from Redis what another replica kept of a thread, after saving what Redis does not have.
    pub(super) async fn load(
        &self,
        redis: &RedisClient,
        mapping: &'static Mapping,
        route: &str,
        caller: &CallerContext,
        thread_id: &Json<'_>,
    ) {
        let key = thread_key(route, caller, &thread_id.text().unwrap_or_default());
        let unsaved = self.unsaved(&key);
        if !unsaved.is_empty() && !self.save(redis, &key, Some(unsaved)).await {
            return;
        }
        let shared = shared_key(redis, &key);
        let mut commands = redis::pipe();
        commands.hgetall(&shared).expire(&shared, SHARED_TTL.as_secs().cast_signed()).ignore();
        let stored = redis
            .query(async |mut connection| commands.query_async::<(HashMap<String, String>,)>(&mut connection).await);
        let Ok((stored,)) = stored.await else { return self.metrics.process.limit_backend_errors.inc() };
        if stored.is_empty() {
            return;
        }
        self.threads.lock().pop(&key);
        let is_named = |name: &str| mapping.thread_names.iter().any(|own| **own == *name);
        let values = stored.into_iter().filter(|(name, _)| is_named(name));
        let values = values.filter_map(|(name, text)| Some((name.into(), json::parse_value(&text)?.into_owned())));
        let values: KeptValues = values.collect();
        if !values.is_empty() && !self.add(key, caller_key(caller), values) {
            ThreadValuesTooLong { route, limit: MAX_VALUES_LEN }.emit();
        }
    }

    /// Returns the values of a thread that Redis does not have.
    fn unsaved(&self, key: &ReplayKey) -> KeptValues {
        let threads = self.threads.lock();
        let Some(thread) = threads.peek(key) else { return KeptValues::new() };
        let unsaved = thread.unsaved.iter();
        unsaved.filter_map(|name| Some((name.clone(), thread.values.get(name)?.clone()))).collect()
    }

    /// Writes values to Redis; without any, writes that the thread is forgotten. Returns whether Redis has them.
    async fn save(&self, redis: &RedisClient, key: &ReplayKey, values: Option<KeptValues>) -> bool {
        let shared = shared_key(redis, key);
        let mut commands = redis::pipe();
        match &values {
            Some(values) => {
                let texts: Vec<_> = values.iter().map(|(name, value)| (&**name, value.as_str())).collect();
                commands.hset_multiple(&shared, &texts).ignore().hdel(&shared, FORGOTTEN).ignore();
            }
            None => drop(commands.del(&shared).ignore().hset(&shared, FORGOTTEN, "").ignore()),
        }
        commands.expire(&shared, SHARED_TTL.as_secs().cast_signed()).ignore();
        let saved = redis.query(async |mut connection| commands.query_async::<()>(&mut connection).await).await;
        if saved.is_err() {
            self.metrics.process.limit_backend_errors.inc();
        }
        self.mark_saved(key, &values.unwrap_or_default(), saved.is_ok());
        saved.is_ok()
    }

    /// Forgets a thread that still has these values.
    fn forget(&self, key: &ReplayKey, mapping: &Mapping, known: &[Option<Json<'static>>]) {
        let mut threads = self.threads.lock();
        let is_known = |thread: &StoredThread| {
            mapping.thread_names.iter().map(|name| thread.values.get(name)).eq(known.iter().map(Option::as_ref))
        };
        if threads.peek(key).is_some_and(is_known) {
            threads.pop(key);
        }
    }

    /// Forgets a thread in Redis that still has these values there.
    async fn forget_shared(
        &self,
        redis: &RedisClient,
        key: &ReplayKey,
        mapping: &Mapping,
        known: &[Option<Json<'static>>],
    ) {
        let forgotten = redis.query(async |mut connection| {
            let mut forget = FORGET_SCRIPT.key(shared_key(redis, key));
            forget.arg(SHARED_TTL.as_secs());
            for (name, value) in mapping.thread_names.iter().zip(known) {
                forget.arg(&**name).arg(value.as_ref().map_or("", Json::as_str));
            }
            forget.invoke_async::<()>(&mut connection).await
        });
        if forgotten.await.is_err() {
            self.metrics.process.limit_backend_errors.inc();
        }
    }

    /// Marks values that Redis has, or does not have.
    fn mark_saved(&self, key: &ReplayKey, values: &KeptValues, is_saved: bool) {
        let mut threads = self.threads.lock();
        let Some(thread) = threads.peek_mut(key) else { return };
        for (name, value) in values {
            if !is_saved {
                thread.unsaved.insert(name.clone());
            // Another run may have a newer value by now.
            } else if thread.values.get(name) == Some(value) {
                thread.unsaved.remove(name);
            }
        }
    }

    /// Adds values to those of a thread. Returns false if they are too long together, and the thread is unknown then:
    /// those before them are no longer true.
    fn add(&self, key: ReplayKey, caller: ReplayKey, values: KeptValues) -> bool {
        let mut threads = self.threads.lock();
        let stored = threads.get_or_insert_mut(key, || StoredThread {
            caller,
            values: KeptValues::new(),
            unsaved: HashSet::new(),
        });
        stored.values.extend(values);
        if stored.values.values().map(|value| value.as_str().len()).sum::<usize>() > MAX_VALUES_LEN {
            threads.pop(&key);
            return false;
        }
        if threads.len() > MAX_THREADS {
            forget_excess(&mut threads, |thread| thread.caller, FORGOTTEN_AT_ONCE);
        }
        true
    }
}

impl KeptThread {
    /// Returns the thread of a run, if its agent's dialect keeps anything.
    pub(super) fn new(
        store: &Arc<ThreadStore>,
        redis: Option<Arc<RedisClient>>,
        mapping: Option<&'static Mapping>,
        route: &Arc<str>,
        caller: &CallerContext,
        request: &TranslatedRequest,
    ) -> Option<Box<Self>> {
        let mapping = mapping.filter(|mapping| !mapping.thread_names.is_empty())?;
        let key = thread_key(route, caller, &request.ids.thread_id.text().unwrap_or_default());
        let (store, route) = (Arc::clone(store), Arc::clone(route));
        let mut known = request.thread.values.clone();
        known.resize(mapping.thread_names.len(), None);
        Some(Box::new(KeptThread { store, key, caller: caller_key(caller), route, mapping, redis, known }))
    }

    /// Makes the thread known, whose agent has answered.
    pub(super) fn begin(&self) {
        self.store.add(self.key, self.caller, KeptValues::new());
    }

    /// Stores the values that are new, or forgets all. Another run of the thread keeps what it has under other names.
    pub(super) async fn change(&mut self, change: ThreadChange) {
        match change {
            ThreadChange::Keep(values) => self.store(values).await,
            ThreadChange::Forget => self.forget().await,
        }
    }

    /// Forgets what the agent no longer knows. Another run may have begun a new conversation meanwhile, which stays.
    async fn forget(&self) {
        self.store.forget(&self.key, self.mapping, &self.known);
        if let Some(redis) = &self.redis {
            self.store.forget_shared(redis, &self.key, self.mapping, &self.known).await;
        }
    }

    async fn store(&mut self, values: ThreadValues) {
        for (known, value) in self.known.iter_mut().zip(&values).filter(|(_, value)| value.is_some()) {
            known.clone_from(value);
        }
        let names = self.mapping.thread_names.iter();
        let new = names.zip(values).filter_map(|(name, value)| Some((name.clone(), value?)));
        let new: KeptValues = new.collect();
        let is_kept = self.store.add(self.key, self.caller, new.clone());
        if !is_kept {
            ThreadValuesTooLong { route: &self.route, limit: MAX_VALUES_LEN }.emit();
        }
        if let Some(redis) = &self.redis {
            let saved = is_kept.then(|| self.store.unsaved(&self.key).into_iter().chain(new).collect());
            self.store.save(redis, &self.key, saved).await;
        }
    }
}

/// Returns the key in Redis, where names of threads and callers must not appear.
fn shared_key(redis: &RedisClient, key: &ReplayKey) -> String {
    format!("{}kept:{}", redis.settings.prefix, URL_SAFE_NO_PAD.encode(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ReplayKey = [1; 32];
    const BOB: ReplayKey = [2; 32];

    fn mapping(names: &[&str]) -> &'static Mapping {
        let thread_names = names.iter().map(|name| (*name).into()).collect();
        Box::leak(Box::new(Mapping { thread_names, ..Mapping::default() }))
    }

    fn store() -> Arc<ThreadStore> {
        ThreadStore::new(Arc::new(Metrics::new().expect("metrics")))
    }

    fn key(number: usize) -> ReplayKey {
        std::array::from_fn(|at| number.to_be_bytes().get(at).copied().unwrap_or(0))
    }

    fn values(name: &str, value: &str) -> KeptValues {
        KeptValues::from([(name.into(), Json::string(value))])
    }

    #[test]
    fn keeps_values_by_thread_and_name() {
        let store = store();
        let (own, later) = (mapping(&["a", "b"]), mapping(&["b", "c"]));
        assert_eq!(store.find(&key(1), own), None);
        assert!(store.add(key(1), ADA, KeptValues::new()));
        assert_eq!(store.find(&key(1), own), Some(vec![None, None]));
        assert!(store.add(key(1), ADA, values("b", "x")));
        assert!(store.add(key(1), ADA, values("a", "y")));
        assert_eq!(store.find(&key(1), own), Some(vec![Some(Json::string("y")), Some(Json::string("x"))]));
        assert_eq!(store.find(&key(1), later), Some(vec![Some(Json::string("x")), None]));
        assert_eq!(store.find(&key(2), own), None);
        assert!(!store.add(key(1), ADA, values("a", &"x".repeat(MAX_VALUES_LEN))));
        assert_eq!(store.find(&key(1), own), None);
    }

    #[test]
    fn forgets_only_the_values_that_a_run_knows() {
        let store = store();
        let own = mapping(&["a", "b"]);
        let (one, two) = (Some(Json::string("1")), Some(Json::string("2")));
        for (name, value) in [("a", "1"), ("old", "x")] {
            assert!(store.add(key(1), ADA, values(name, value)));
        }
        for other in [[two, None], [one.clone(), one.clone()], [None, None]] {
            store.forget(&key(1), own, &other);
            assert_eq!(store.find(&key(1), own), Some(vec![one.clone(), None]), "not after {other:?}");
        }
        store.forget(&key(1), own, &[one, None]);
        assert_eq!(store.find(&key(1), own), None);
    }

    #[test]
    fn values_stay_unsaved_until_they_are_saved_themselves() {
        let store = store();
        assert!(store.add(key(1), ADA, values("a", "x")));
        store.mark_saved(&key(1), &values("a", "x"), false);
        assert!(store.add(key(1), ADA, values("b", "y")));
        store.mark_saved(&key(1), &values("b", "y"), true);
        assert_eq!(store.unsaved(&key(1)), values("a", "x"), "others that are saved do not count for it");
        assert!(store.add(key(1), ADA, values("a", "z")));
        store.mark_saved(&key(1), &values("a", "x"), true);
        assert_eq!(store.unsaved(&key(1)), values("a", "z"), "nor does its older value");
        store.mark_saved(&key(1), &values("a", "z"), true);
        assert_eq!(store.unsaved(&key(1)), KeptValues::new());
    }

    #[test]
    fn forgets_the_threads_of_the_caller_that_has_most() {
        let store = store();
        let own = mapping(&["a"]);
        assert!(store.add(key(0), ADA, values("a", "x")));
        for number in 1..MAX_THREADS + FORGOTTEN_AT_ONCE {
            assert!(store.add(key(number), BOB, KeptValues::new()));
        }
        assert!(store.threads.lock().len() <= MAX_THREADS);
        assert_eq!(store.find(&key(0), own), Some(vec![Some(Json::string("x"))]));
        assert_eq!(store.find(&key(1), own), None);
        assert_eq!(store.find(&key(MAX_THREADS), own), Some(vec![None]));
    }
}
