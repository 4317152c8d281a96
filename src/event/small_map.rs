//! A map by key: searched one by one while it is small, and by hash beyond.
//!
//! A run has a few messages and calls, and hashing an id costs more than comparing it with all of them. Agents choose
//! how many there are, so a large map must have an index, with hashes that they cannot predict.

use super::{FEW, push_tight};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Clone, Debug)]
pub(crate) enum SmallMap<K, V> {
    Few(Vec<(K, V)>),
    Many(HashMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap::Few(Vec::new())
    }
}

impl<K: Eq + Hash, V> SmallMap<K, V> {
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        match self {
            SmallMap::Few(list) => list.len(),
            SmallMap::Many(map) => map.len(),
        }
    }

    #[must_use]
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            SmallMap::Few(list) => list.iter().find(|(own, _)| own.borrow() == key).map(|(_, value)| value),
            SmallMap::Many(map) => map.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            SmallMap::Few(list) => list.iter_mut().find(|(own, _)| own.borrow() == key).map(|(_, value)| value),
            SmallMap::Many(map) => map.get_mut(key),
        }
    }

    #[must_use]
    pub(crate) fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets a value, and returns the former one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(own) = self.get_mut(&key) {
            return Some(std::mem::replace(own, value));
        }
        match self {
            SmallMap::Few(list) if list.len() < FEW => push_tight(list, (key, value)),
            SmallMap::Few(list) => {
                let mut map: HashMap<K, V> = std::mem::take(list).into_iter().collect();
                map.insert(key, value);
                *self = SmallMap::Many(map);
            }
            SmallMap::Many(map) => drop(map.insert(key, value)),
        }
        None
    }

    /// Changes the value of a key, which is new if there was none.
    pub(crate) fn update(&mut self, key: K, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        match self.get_mut(&key) {
            Some(value) => change(value),
            None => {
                let mut value = V::default();
                change(&mut value);
                self.insert(key, value);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match self {
            SmallMap::Few(list) => (list.as_slice(), None),
            SmallMap::Many(map) => (&[][..], Some(map)),
        };
        few.iter().map(|(key, value)| (key, value)).chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_replaces_entries_however_many_there_are() {
        for count in [0, 1, FEW, FEW + 1, 1000] {
            let mut map: SmallMap<Box<str>, usize> = SmallMap::default();
            for at in 0..count {
                assert_eq!(map.insert(at.to_string().into(), at), None);
            }
            for at in 0..count {
                assert_eq!(map.insert(at.to_string().into(), at + 1), Some(at));
                assert_eq!(map.get(at.to_string().as_str()), Some(&(at + 1)));
            }
            assert_eq!(map.len(), count);
            assert_eq!(map.iter().map(|(_, value)| value).sum::<usize>(), count * (count + 1) / 2);
            assert!(!map.contains_key("x") && map.get_mut("x").is_none());
            assert_eq!(matches!(map, SmallMap::Many(_)), count > FEW);
        }
    }
}
