//! Values that runs keep for the later runs of their thread, such as the conversation id of an agent whose dialect is
//! described by a file.
//!
//! ```text
//!   unknown ── a run begins ──▶ known ── a rule keeps a value ──▶ known, with values
//!      ▲                          │                                   │
//!      └──────────────────────────┴── too many threads, too long ◀────┘
//! ```
//! Each process has them in its memory. With `redis`, the values that are stored there take precedence, so that each
//! replica goes on with the conversation; memory is used while Redis does not answer. A client that goes on with an
//! unknown thread is told so.

use super::run_keys::{caller_key, thread_key};
use crate::codec::json;
use crate::dialect::{Mapping, PeerDialect, ThreadValues};
use crate::event::Json;
use crate::net::cpu_work::run_sized;
use crate::net::redis_client::RedisClient;
use crate::policy::CallerContext;
use crate::policy::fair_eviction::forget_excess;
use crate::replay::ReplayKey;
use crate::telemetry::Metrics;
use crate::telemetry::internal_event::ThreadValuesTooLong;
use crate::translate::RunIds;
use crate::translate::request::decode_input;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Threads that are kept. The callers with most of them lose those that they used longest ago.
const MAX_THREADS: usize = 16_384;

/// Threads that are forgotten at once, since finding them takes about a millisecond.
const FORGOTTEN_AT_ONCE: usize = MAX_THREADS / 64;

/// Longest values of one thread together. Ids are shorter. With all threads, 8 MiB of text, and about 4 MiB for the
/// map.
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
    values: HashMap<Box<str>, Json<'static>>,
}

/// The thread of a run whose agent keeps something for later ones.
pub(super) struct KeptThread {
    store: Arc<ThreadStore>,
    key: ReplayKey,
    caller: ReplayKey,
    route: Arc<str>,
    mapping: &'static Mapping,
    redis: Option<Arc<RedisClient>>,
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

    /// Gets from Redis what another replica kept of the thread to which a request belongs.
    pub(super) async fn load(
        &self,
        redis: Option<Arc<RedisClient>>,
        mapping: Option<&'static Mapping>,
        route: &str,
        caller: &CallerContext,
        client: PeerDialect,
        body: &[u8],
    ) {
        let keeps = mapping.is_some_and(|mapping| !mapping.thread_names.is_empty());
        let Some(redis) = redis.filter(|_| keeps) else { return };
        let Some(thread_id) = run_sized(body.len(), || read_thread_id(body, client)) else { return };
        let key = thread_key(route, caller, &thread_id);
        let shared = shared_key(&redis, &key);
        let mut commands = redis::pipe();
        commands.hgetall(&shared).expire(&shared, SHARED_TTL.as_secs().cast_signed()).ignore();
        let stored = redis
            .query(async |mut connection| commands.query_async::<(HashMap<String, String>,)>(&mut connection).await);
        let Ok((stored,)) = stored.await else { return self.metrics.process.limit_backend_errors.inc() };
        if stored.is_empty() {
            return;
        }
        let values = stored.into_iter().filter_map(|(name, text)| Some((name, json::parse_value(&text)?.into_owned())));
        self.add(key, caller_key(caller), values.map(|(name, value)| (name.into(), value)));
    }

    /// Adds values to those of a thread. Returns false if they are too long together, and the thread is unknown then:
    /// those before them are no longer true.
    fn add(&self, key: ReplayKey, caller: ReplayKey, values: impl Iterator<Item = (Box<str>, Json<'static>)>) -> bool {
        let mut threads = self.threads.lock();
        let stored = threads.get_or_insert_mut(key, || StoredThread { caller, values: HashMap::new() });
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
    /// Returns the thread of a run that begins, if its agent's dialect keeps anything. The thread is known from now on.
    pub(super) fn new(
        store: &Arc<ThreadStore>,
        redis: Option<Arc<RedisClient>>,
        mapping: Option<&'static Mapping>,
        route: &Arc<str>,
        caller: &CallerContext,
        ids: &RunIds,
    ) -> Option<Box<Self>> {
        let mapping = mapping.filter(|mapping| !mapping.thread_names.is_empty())?;
        let key = thread_key(route, caller, &ids.thread_id.text().unwrap_or_default());
        let caller = caller_key(caller);
        store.add(key, caller, std::iter::empty());
        let (store, route) = (Arc::clone(store), Arc::clone(route));
        Some(Box::new(KeptThread { store, key, caller, route, mapping, redis }))
    }

    /// Stores the values that are new. Another run of the thread keeps what it has under other names.
    pub(super) async fn store(&self, values: ThreadValues) {
        let names = self.mapping.thread_names.iter();
        let new: Vec<_> = names.zip(values).filter_map(|(name, value)| Some((name.clone(), value?))).collect();
        let is_kept = self.store.add(self.key, self.caller, new.iter().cloned());
        if !is_kept {
            ThreadValuesTooLong { route: &self.route, limit: MAX_VALUES_LEN }.emit();
        }
        let Some(redis) = &self.redis else { return };
        let key = shared_key(redis, &self.key);
        let mut commands = redis::pipe();
        if is_kept {
            let texts: Vec<_> = new.iter().map(|(name, value)| (&**name, value.as_str())).collect();
            commands.hset_multiple(&key, &texts).ignore().expire(&key, SHARED_TTL.as_secs().cast_signed()).ignore();
        } else {
            commands.del(&key).ignore();
        }
        let stored = redis.query(async |mut connection| commands.query_async::<()>(&mut connection).await);
        if stored.await.is_err() {
            self.store.metrics.process.limit_backend_errors.inc();
        }
    }
}

/// Returns the thread to which a request belongs, if it names one and can be read.
fn read_thread_id(body: &[u8], client: PeerDialect) -> Option<String> {
    let input = decode_input(std::str::from_utf8(body).ok()?, client, &RunIds::new("", "")).ok()?;
    input.thread_id.text().filter(|id| !id.is_empty()).map(Into::into)
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

    fn text(value: &str) -> (Box<str>, Json<'static>) {
        ("a".into(), Json::string(value))
    }

    #[test]
    fn keeps_values_by_thread_and_name() {
        let store = store();
        let (own, later) = (mapping(&["a", "b"]), mapping(&["b", "c"]));
        assert_eq!(store.find(&key(1), own), None);
        assert!(store.add(key(1), ADA, std::iter::empty()));
        assert_eq!(store.find(&key(1), own), Some(vec![None, None]));
        assert!(store.add(key(1), ADA, std::iter::once(("b".into(), Json::string("x")))));
        assert!(store.add(key(1), ADA, std::iter::once(text("y"))));
        assert_eq!(store.find(&key(1), own), Some(vec![Some(Json::string("y")), Some(Json::string("x"))]));
        assert_eq!(store.find(&key(1), later), Some(vec![Some(Json::string("x")), None]));
        assert_eq!(store.find(&key(2), own), None);
        assert!(!store.add(key(1), ADA, std::iter::once(text(&"x".repeat(MAX_VALUES_LEN)))));
        assert_eq!(store.find(&key(1), own), None);
    }

    #[test]
    fn forgets_the_threads_of_the_caller_that_has_most() {
        let store = store();
        let own = mapping(&["a"]);
        assert!(store.add(key(0), ADA, std::iter::once(text("x"))));
        for number in 1..MAX_THREADS + FORGOTTEN_AT_ONCE {
            assert!(store.add(key(number), BOB, std::iter::empty()));
        }
        assert!(store.threads.lock().len() <= MAX_THREADS);
        assert_eq!(store.find(&key(0), own), Some(vec![Some(Json::string("x"))]));
        assert_eq!(store.find(&key(1), own), None);
        assert_eq!(store.find(&key(MAX_THREADS), own), Some(vec![None]));
    }
}
