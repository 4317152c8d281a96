//! A map by JSON id that keeps the order of insertion: the open items of a run.
//!
//! ```text
//!   Few   up to eight, searched one by one: most runs have one or two
//!   Many  an index by id, until the map is empty again
//! ```
//! Agents choose how many items they open, so a search must not take longer with each. Ids are equal as
//! [`Json::is_same`] says: strings with escapes resolved, and other values by their text.

use super::{FEW, Json, JsonType, heap_size, push_tight};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug)]
pub(crate) enum IdMap<V> {
    Few(Vec<IdEntry<V>>),
    Many(Box<IdIndex<V>>),
}

type IdEntry<V> = (Json<'static>, V);

#[derive(Clone, Debug)]
pub(crate) struct IdIndex<V> {
    /// by number in order of insertion
    entries: BTreeMap<usize, IdEntry<V>>,
    strings: HashMap<Box<str>, usize>,
    /// ids that are not strings
    others: HashMap<Box<str>, usize>,
    next_number: usize,
}

impl<V> Default for IdMap<V> {
    fn default() -> Self {
        IdMap::Few(Vec::new())
    }
}

impl<V> FromIterator<IdEntry<V>> for IdMap<V> {
    fn from_iter<I: IntoIterator<Item = IdEntry<V>>>(entries: I) -> Self {
        let mut map = IdMap::default();
        entries.into_iter().for_each(|(id, value)| drop(map.insert(id, value)));
        map
    }
}

fn key_of<'i>(id: &'i Json<'_>) -> Cow<'i, str> {
    id.text().unwrap_or(Cow::Borrowed(id.as_str()))
}

impl<V> IdIndex<V> {
    fn numbers(&self, id: &Json<'_>) -> &HashMap<Box<str>, usize> {
        if id.json_type() == JsonType::String { &self.strings } else { &self.others }
    }

    fn number_of(&self, id: &Json<'_>) -> Option<usize> {
        self.numbers(id).get(&*key_of(id)).copied()
    }

    fn push(&mut self, id: Json<'static>, value: V) {
        let key = Box::from(&*key_of(&id));
        let numbers = if id.json_type() == JsonType::String { &mut self.strings } else { &mut self.others };
        numbers.insert(key, self.next_number);
        self.entries.insert(self.next_number, (id, value));
        self.next_number += 1;
    }

    fn remove(&mut self, id: &Json<'_>) -> Option<IdEntry<V>> {
        let numbers = if id.json_type() == JsonType::String { &mut self.strings } else { &mut self.others };
        let number = numbers.remove(&*key_of(id))?;
        self.entries.remove(&number)
    }
}

impl<V> IdMap<V> {
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        match self {
            IdMap::Few(list) => list.len(),
            IdMap::Many(index) => index.entries.len(),
        }
    }

    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub(crate) fn get(&self, id: &Json<'_>) -> Option<&V> {
        match self {
            IdMap::Few(list) => list.iter().find(|(own, _)| own.is_same(id)).map(|(_, value)| value),
            IdMap::Many(index) => index.entries.get(&index.number_of(id)?).map(|(_, value)| value),
        }
    }

    pub(crate) fn get_mut(&mut self, id: &Json<'_>) -> Option<&mut V> {
        match self {
            IdMap::Few(list) => list.iter_mut().find(|(own, _)| own.is_same(id)).map(|(_, value)| value),
            IdMap::Many(index) => {
                let number = index.number_of(id)?;
                index.entries.get_mut(&number).map(|(_, value)| value)
            }
        }
    }

    #[must_use]
    pub(crate) fn contains(&self, id: &Json<'_>) -> bool {
        self.get(id).is_some()
    }

    /// Sets a value. A known id keeps its place, and its former value is returned.
    pub(crate) fn insert(&mut self, id: Json<'static>, value: V) -> Option<V> {
        match self.get_mut(&id) {
            Some(own) => Some(std::mem::replace(own, value)),
            None => {
                self.push(id, value);
                None
            }
        }
    }

    fn push(&mut self, id: Json<'static>, value: V) {
        match self {
            IdMap::Few(list) if list.len() < FEW => {
                push_tight(list, (id, value));
            }
            IdMap::Few(list) => {
                let mut index = IdIndex {
                    entries: BTreeMap::new(),
                    strings: HashMap::new(),
                    others: HashMap::new(),
                    next_number: 0,
                };
                std::mem::take(list).into_iter().for_each(|(id, value)| index.push(id, value));
                index.push(id, value);
                *self = IdMap::Many(Box::new(index));
            }
            IdMap::Many(index) => index.push(id, value),
        }
    }

    pub(crate) fn remove(&mut self, id: &Json<'_>) -> Option<V> {
        let removed = match self {
            IdMap::Few(list) => {
                let at = list.iter().position(|(own, _)| own.is_same(id))?;
                list.remove(at)
            }
            IdMap::Many(index) => index.remove(id)?,
        };
        self.shrink();
        Some(removed.1)
    }

    pub(crate) fn remove_first(&mut self) {
        match self {
            IdMap::Few(list) if list.is_empty() => {}
            IdMap::Few(list) => drop(list.remove(0)),
            IdMap::Many(index) => {
                if let Some(first) = index.entries.values().next().map(|(id, _)| id.clone()) {
                    index.remove(&first);
                }
            }
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        if matches!(self, IdMap::Many(index) if index.entries.is_empty()) {
            *self = IdMap::default();
        }
    }

    #[must_use]
    pub(crate) fn last(&self) -> Option<&IdEntry<V>> {
        match self {
            IdMap::Few(list) => list.last(),
            IdMap::Many(index) => index.entries.values().next_back(),
        }
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut V> {
        match self {
            IdMap::Few(list) => list.last_mut().map(|(_, value)| value),
            IdMap::Many(index) => index.entries.values_mut().next_back().map(|(_, value)| value),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &IdEntry<V>> {
        let (few, many) = match self {
            IdMap::Few(list) => (list.as_slice(), None),
            IdMap::Many(index) => (&[][..], Some(index.entries.values())),
        };
        few.iter().chain(many.into_iter().flatten())
    }

    /// Returns the memory of the map and its ids, and of its values as `own_size` says.
    pub(crate) fn heap_size(&self, own_size: impl Fn(&V) -> usize) -> usize {
        let entries: usize = self.iter().map(|(id, value)| id.heap_size() + own_size(value)).sum();
        let places = match self {
            IdMap::Few(list) => heap_size::list_size::<IdEntry<V>>(list.capacity()),
            IdMap::Many(index) => {
                let keys: usize =
                    index.entries.values().map(|(id, _)| heap_size::allocation_size(id.as_str().len())).sum();
                let tables = index.strings.capacity() + index.others.capacity();
                size_of::<IdIndex<V>>()
                    + heap_size::tree_size::<(usize, IdEntry<V>)>(index.entries.len())
                    + heap_size::table_size::<(Box<str>, usize)>(tables)
                    + keys
            }
        };
        places + entries
    }

    /// Removes all entries and returns them in their order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = IdEntry<V>> + use<V> {
        let (few, many) = match std::mem::take(self) {
            IdMap::Few(list) => (list, BTreeMap::new()),
            IdMap::Many(index) => (Vec::new(), index.entries),
        };
        few.into_iter().chain(many.into_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(map: &mut IdMap<usize>) -> Vec<usize> {
        map.clone().drain().map(|(_, value)| value).collect()
    }

    #[test]
    fn keeps_the_order_and_finds_equal_ids_however_many_there_are() {
        for count in [1, FEW, FEW + 1, 1000] {
            let mut map = IdMap::default();
            for at in 0..count {
                assert_eq!(map.insert(Json::string(&format!("m{at}")), at), None);
            }
            assert_eq!(ids(&mut map), (0..count).collect::<Vec<_>>());
            assert_eq!(map.last().map(|(_, value)| *value), Some(count - 1));
            assert_eq!(map.get(&Json::from_trusted(r#""\u006d0""#)), Some(&0), "escapes are resolved");
            assert_eq!(map.insert(Json::from_trusted(r#""\u006d0""#), 7), Some(0));
            assert_eq!(map.len(), count);
            assert_eq!(map.insert(Json::from_trusted("0"), 8), None, "a number is no string");
            assert!(!map.contains(&Json::string("0")));
            assert_eq!(map.remove(&Json::from_trusted("0")), Some(8));
            map.remove_first();
            assert_eq!(ids(&mut map), (1..count).collect::<Vec<_>>());
            for at in 1..count {
                assert_eq!(map.remove(&Json::string(&format!("m{at}"))), Some(at));
            }
            assert!(map.is_empty() && map.last_mut().is_none());
            assert!(matches!(map, IdMap::Few(_)), "an empty map needs no index");
        }
    }
}
