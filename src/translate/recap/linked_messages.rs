//! A list of messages in which one is found, inserted, replaced and removed without a look at the others.
//!
//! Agents choose how many messages there are, and how often they replace some of them.

use super::recap_message::RecapMessage;
use crate::event::heap_size::{allocation_size, tree_size};
use crate::event::{IdMap, Json};
use std::collections::{BTreeMap, BTreeSet};

/// A doubly linked list. Messages have numbers, which are not used again.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkedMessages {
    /// boxed, since nodes of the tree are half empty
    entries: BTreeMap<usize, Box<LinkedMessage>>,
    first: Option<usize>,
    last: Option<usize>,
    next_number: usize,
}

#[derive(Clone, Debug)]
struct LinkedMessage {
    message: RecapMessage,
    previous: Option<usize>,
    next: Option<usize>,
}

impl LinkedMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&RecapMessage> {
        self.entries.get(&number).map(|entry| &entry.message)
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut RecapMessage> {
        self.entries.get_mut(&number).map(|entry| &mut entry.message)
    }

    pub(crate) fn last(&self) -> Option<usize> {
        self.last
    }

    pub(crate) fn next_of(&self, number: usize) -> Option<usize> {
        self.entries.get(&number)?.next
    }

    pub(crate) fn previous_of(&self, number: usize) -> Option<usize> {
        self.entries.get(&number)?.previous
    }

    /// Returns the messages in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecapMessage> {
        let numbers = std::iter::successors(self.first, |number| self.next_of(*number));
        numbers.filter_map(|number| self.get(number))
    }

    pub(crate) fn heap_size(&self) -> usize {
        let entry = |entry: &LinkedMessage| allocation_size(size_of::<LinkedMessage>()) + entry.message.heap_size();
        let entries = self.entries.values().map(|own| entry(own)).sum::<usize>();
        tree_size::<(usize, Box<LinkedMessage>)>(self.entries.len()) + entries
    }

    /// Inserts a message after another one, or as the first, and returns its number.
    pub(crate) fn insert_after(&mut self, previous: Option<usize>, message: RecapMessage) -> usize {
        let number = self.next_number;
        self.next_number += 1;
        let next = previous.map_or(self.first, |previous| self.next_of(previous));
        self.link(previous, Some(number));
        self.link_back(next, Some(number));
        self.entries.insert(number, Box::new(LinkedMessage { message, previous, next }));
        number
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<RecapMessage> {
        let LinkedMessage { message, previous, next } = *self.entries.remove(&number)?;
        self.link(previous, next);
        self.link_back(next, previous);
        Some(message)
    }

    fn link(&mut self, at: Option<usize>, next: Option<usize>) {
        match at.and_then(|at| self.entries.get_mut(&at)) {
            Some(entry) => entry.next = next,
            None => self.first = next,
        }
    }

    fn link_back(&mut self, at: Option<usize>, previous: Option<usize>) {
        match at.and_then(|at| self.entries.get_mut(&at)) {
            Some(entry) => entry.previous = previous,
            None => self.last = previous,
        }
    }
}

/// The places with each id, of which the first counts.
#[derive(Clone, Debug)]
pub(super) struct IdPlaces<P> {
    first: IdMap<P>,
    /// of ids that several have
    others: IdMap<BTreeSet<P>>,
}

impl<P> Default for IdPlaces<P> {
    fn default() -> Self {
        IdPlaces { first: IdMap::default(), others: IdMap::default() }
    }
}

impl<P: Copy + Ord> IdPlaces<P> {
    pub(crate) fn heap_size(&self) -> usize {
        self.first.heap_size(|_| 0) + self.others.heap_size(|places| tree_size::<P>(places.len()))
    }

    pub(crate) fn contains(&self, id: &Json<'_>) -> bool {
        self.first.contains(id)
    }

    pub(crate) fn find_first(&self, id: &Json<'_>) -> Option<P> {
        self.first.get(id).copied()
    }

    pub(crate) fn insert(&mut self, id: &Json<'_>, mut place: P) {
        let Some(first) = self.first.get_mut(id) else {
            self.first.insert(id.clone().into_owned(), place);
            return;
        };
        if place < *first {
            std::mem::swap(first, &mut place);
        }
        match self.others.get_mut(id) {
            Some(others) => _ = others.insert(place),
            None => _ = self.others.insert(id.clone().into_owned(), BTreeSet::from([place])),
        }
    }

    pub(crate) fn remove(&mut self, id: &Json<'_>, place: P) {
        let is_first = self.find_first(id) == Some(place);
        let others = self.others.get_mut(id);
        match others.and_then(|others| if is_first { others.pop_first() } else { others.take(&place) }) {
            Some(next) if is_first => _ = self.first.get_mut(id).map(|first| *first = next),
            None if is_first => _ = self.first.remove(id),
            _ => {}
        }
        if self.others.get(id).is_some_and(BTreeSet::is_empty) {
            self.others.remove(id);
        }
    }
}
