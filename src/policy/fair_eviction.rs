//! Eviction from a map that many callers share: the callers with the most entries lose their oldest ones, so no caller
//! can evict another's.

use crate::net::digest::Sha256Digest;
use lru::LruCache;
use std::collections::HashMap;

/// Forgets the least recently used entries of the callers that have most, `count` together, until each of them has as
/// many as the next. It looks at all entries, so it is called for many at once.
pub(crate) fn forget_excess<V>(
    cache: &mut LruCache<Sha256Digest, V>,
    caller: impl Fn(&V) -> Sha256Digest,
    count: usize,
) {
    let mut counts: HashMap<Sha256Digest, usize> = HashMap::new();
    for (_, entry) in cache.iter() {
        *counts.entry(caller(entry)).or_default() += 1;
    }
    let excess_above = |level: usize| counts.values().map(|own| own.saturating_sub(level)).sum::<usize>();
    // The highest number of entries above which there are enough to forget.
    let (mut level, mut too_high) = (0, cache.len() + 1);
    while too_high - level > 1 {
        let middle = usize::midpoint(level, too_high);
        if excess_above(middle) >= count {
            level = middle;
        } else {
            too_high = middle;
        }
    }
    let mut is_forgotten =
        |entry: &V| counts.get_mut(&caller(entry)).filter(|own| **own > level).map(|own| *own -= 1).is_some();
    let oldest_first = cache.iter().rev().filter(|(_, entry)| is_forgotten(entry)).map(|(key, _)| *key);
    let forgotten: Vec<_> = oldest_first.take(count).collect();
    for key in forgotten {
        cache.pop(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a cache with so many entries of each caller, the oldest first.
    fn cache_of(counts: &[(u8, u8)]) -> LruCache<Sha256Digest, u8> {
        let mut cache = LruCache::unbounded();
        for (caller, number) in counts.iter().flat_map(|(caller, count)| (0..*count).map(move |at| (*caller, at))) {
            cache.put(key(caller, number), caller);
        }
        cache
    }

    fn key(caller: u8, number: u8) -> Sha256Digest {
        std::array::from_fn(|at| [caller, number].get(at).copied().unwrap_or(0))
    }

    /// Returns caller and number of each entry that is left.
    fn left(cache: &LruCache<Sha256Digest, u8>) -> Vec<(u8, u8)> {
        let mut left: Vec<_> = cache.iter().map(|(key, _)| (key[0], key[1])).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn callers_with_the_most_entries_lose_those_that_they_used_longest_ago() {
        let caller = |caller: &u8| key(*caller, 0);
        let mut cache = cache_of(&[(1, 1), (2, 3), (3, 5)]);
        // A use makes an entry the latest one.
        assert_eq!(cache.get(&key(3, 0)), Some(&3));
        forget_excess(&mut cache, caller, 2);
        assert_eq!(left(&cache), [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (3, 3), (3, 4)], "only of the one with most");
        forget_excess(&mut cache, caller, 2);
        assert_eq!(left(&cache), [(1, 0), (2, 1), (2, 2), (3, 0), (3, 4)], "of both that have most");
        forget_excess(&mut cache, caller, 4);
        assert_eq!(left(&cache), [(3, 0)], "of all in the end, the oldest first");
        forget_excess(&mut cache, caller, 4);
        assert!(cache.is_empty());
    }
}
