//! Values that runs keep for the later runs of their thread, such as the conversation id of an agent whose dialect is
//! described by a file. In memory: a restart or another replica begins without them, and says so to the client.

use super::run_keys::thread_key;
use crate::dialect::{Mapping, ThreadValues};
use crate::event::Json;
use crate::policy::CallerContext;
use crate::replay::ReplayKey;
use crate::translate::RunIds;
use lru::LruCache;
use parking_lot::Mutex;
use std::sync::Arc;

/// Threads that are kept; the one that was used longest ago is forgotten first.
const MAX_THREADS: usize = 16_384;

/// Longest values of one thread together. Ids are shorter. With all threads, 8 MiB of text, and about 3 MiB for the
/// map.
const MAX_VALUES_LEN: usize = 512;

/// The values of threads, by the key of thread and caller.
#[derive(Debug)]
pub(crate) struct ThreadStore(Mutex<LruCache<ReplayKey, StoredThread>>);

#[derive(Debug)]
struct StoredThread {
    names: &'static [Box<str>],
    values: ThreadValues,
}

/// The thread of a run whose agent keeps something for later ones.
#[derive(Debug)]
pub(super) struct KeptThread {
    store: Arc<ThreadStore>,
    key: ReplayKey,
    mapping: &'static Mapping,
}

impl ThreadStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(ThreadStore(Mutex::new(LruCache::unbounded())))
    }

    /// Returns what earlier runs of the thread kept, in the order of the mapping's names.
    pub(super) fn get(
        &self,
        mapping: Option<&'static Mapping>,
        route: &str,
        caller: &CallerContext,
        thread_id: &Json<'_>,
    ) -> ThreadValues {
        let Some(mapping) = mapping.filter(|mapping| !mapping.thread_names.is_empty()) else { return Vec::new() };
        self.find(&thread_key(route, caller, &thread_id.text().unwrap_or_default()), mapping)
    }

    fn find(&self, key: &ReplayKey, mapping: &Mapping) -> ThreadValues {
        let mut threads = self.0.lock();
        let stored = threads.get(key);
        // A file that was changed since may have other names.
        let value = |name: &str| {
            let stored = stored.as_ref()?;
            let at = stored.names.iter().position(|own| **own == *name)?;
            stored.values.get(at)?.clone()
        };
        mapping.thread_names.iter().map(|name| value(name)).collect()
    }
}

impl KeptThread {
    /// Returns the thread of a run, if its agent's dialect keeps anything.
    pub(super) fn new(
        store: &Arc<ThreadStore>,
        mapping: Option<&'static Mapping>,
        route: &str,
        caller: &CallerContext,
        ids: &RunIds,
    ) -> Option<Box<Self>> {
        let mapping = mapping.filter(|mapping| !mapping.thread_names.is_empty())?;
        let key = thread_key(route, caller, &ids.thread_id.text().unwrap_or_default());
        Some(Box::new(KeptThread { store: Arc::clone(store), key, mapping }))
    }

    /// Stores values. Values that are too long for ids remove those before them, which are no longer true.
    pub(super) fn store(&self, values: ThreadValues) {
        let length: usize = values.iter().flatten().map(|value: &Json<'_>| value.as_str().len()).sum();
        let mut threads = self.store.0.lock();
        if length > MAX_VALUES_LEN {
            threads.pop(&self.key);
            return;
        }
        threads.put(self.key, StoredThread { names: &self.mapping.thread_names, values });
        if threads.len() > MAX_THREADS {
            threads.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(names: &[&str]) -> &'static Mapping {
        let thread_names = names.iter().map(|name| (*name).into()).collect();
        Box::leak(Box::new(Mapping { thread_names, ..Mapping::default() }))
    }

    #[test]
    fn keeps_values_by_thread_and_name() {
        let store = ThreadStore::new();
        let (own, later) = (mapping(&["a", "b"]), mapping(&["b", "c"]));
        let thread = KeptThread { store: Arc::clone(&store), key: [1; 32], mapping: own };
        assert_eq!(store.find(&[1; 32], own), [None, None]);
        thread.store(vec![None, Some(Json::string("x"))]);
        assert_eq!(store.find(&[1; 32], own), [None, Some(Json::string("x"))]);
        assert_eq!(store.find(&[1; 32], later), [Some(Json::string("x")), None]);
        assert_eq!(store.find(&[2; 32], own), [None, None]);
        thread.store(vec![None, Some(Json::string(&"x".repeat(MAX_VALUES_LEN)))]);
        assert_eq!(store.find(&[1; 32], own), [None, None]);
    }

    #[test]
    fn forgets_the_thread_that_was_used_longest_ago() {
        let store = ThreadStore::new();
        let own = mapping(&["a"]);
        let key = |number: usize| -> ReplayKey {
            std::array::from_fn(|at| number.to_be_bytes().get(at).copied().unwrap_or(0))
        };
        for number in 0..=MAX_THREADS {
            KeptThread { store: Arc::clone(&store), key: key(number), mapping: own }.store(vec![Some(Json::NULL)]);
            assert!(store.find(&key(1.min(number)), own)[0].is_some(), "{number}");
        }
        assert_eq!(store.find(&key(0), own), [None]);
    }
}
