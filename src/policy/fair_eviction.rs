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
