//! Chooses which ended runs are evicted, so that many of one kind do not push out those of others.
//!
//! A kind is a route and an outcome. The kind that has most loses the run that ended first, so a flood of refusals, or
//! of tiny runs of one route, evicts itself, and the failed run before it stays. Every run passes here when it begins
//! and when it ends, so nothing looks at all runs.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;

/// A route, and a label of `diglot_streams_total` or `refused`.
pub(super) type RunKind = (Arc<str>, &'static str);

/// An ended run.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvictableRun {
    pub(super) id: u64,
    pub(super) ended_at: Instant,
    pub(super) bytes: usize,
}

/// The ended runs of one kind, in the order of their ends.
#[derive(Debug, Default)]
struct EndedOfKind {
    runs: VecDeque<EvictableRun>,
    bytes: usize,
}

/// The ended runs of all kinds; none is empty.
#[derive(Debug, Default)]
pub(super) struct EndedRuns {
    kinds: HashMap<RunKind, EndedOfKind>,
}

impl EndedRuns {
    pub(super) fn add(&mut self, kind: RunKind, run: EvictableRun) {
        let of_kind = self.kinds.entry(kind).or_default();
        of_kind.bytes += run.bytes;
        of_kind.runs.push_back(run);
    }

    /// Removes a run of the kind that has most of them.
    pub(super) fn remove_of_most(&mut self) -> Option<u64> {
        self.remove_of_largest(|of_kind| of_kind.runs.len())
    }

    /// Removes a run of the kind that has most memory, which may be one of few runs.
    pub(super) fn remove_of_most_bytes(&mut self) -> Option<u64> {
        self.remove_of_largest(|of_kind| of_kind.bytes)
    }

    fn remove_of_largest(&mut self, size: fn(&EndedOfKind) -> usize) -> Option<u64> {
        let first = |of_kind: &EndedOfKind| Reverse(of_kind.runs.front().map(|run| run.id));
        let largest = self.kinds.iter_mut().max_by_key(|(_, of_kind)| (size(of_kind), first(of_kind)));
        let (kind, of_kind) = largest?;
        let run = of_kind.runs.pop_front()?;
        of_kind.bytes -= run.bytes;
        if of_kind.runs.is_empty() {
            let kind = kind.clone();
            self.kinds.remove(&kind);
        }
        Some(run.id)
    }

    /// Removes the runs that ended before a moment.
    pub(super) fn remove_ended_before(&mut self, moment: Instant) -> Vec<u64> {
        let mut removed = Vec::new();
        self.kinds.retain(|_, of_kind| {
            while let Some(run) = of_kind.runs.front().filter(|run| run.ended_at < moment) {
                of_kind.bytes -= run.bytes;
                removed.push(run.id);
                of_kind.runs.pop_front();
            }
            !of_kind.runs.is_empty()
        });
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Adds runs that end one after another.
    fn ended(runs: &[(u64, &str, &'static str, usize)]) -> EndedRuns {
        let (mut ended, mut ended_at) = (EndedRuns::default(), Instant::now());
        for (id, route, outcome, bytes) in runs {
            ended_at += Duration::from_secs(1);
            ended.add(((*route).into(), outcome), EvictableRun { id: *id, ended_at, bytes: *bytes });
        }
        ended
    }

    #[test]
    fn the_kind_with_most_runs_loses_the_one_that_ended_first() {
        let mut runs = vec![(1, "chat", "upstream_error", 9), (3, "chat", "refused", 1), (2, "chat", "refused", 1)];
        runs.extend([(4, "chat", "refused", 1), (6, "other", "refused", 1), (7, "other", "refused", 1)]);
        let mut ended = ended(&runs);
        // Of kinds with as many, the oldest.
        for expected in [Some(3), Some(2), Some(6), Some(1), Some(4), Some(7), None] {
            assert_eq!(ended.remove_of_most(), expected);
        }
        assert!(ended.kinds.is_empty());
    }

    #[test]
    fn memory_is_taken_from_the_kind_that_has_most() {
        let mut runs: Vec<_> = (1..9).map(|id| (id, "tiny", "finished", 1)).collect();
        runs.extend([(9, "large", "finished", 50), (10, "large", "finished", 5)]);
        let mut ended = ended(&runs);
        for expected in [Some(9), Some(1), Some(2), Some(3), Some(4), Some(10)] {
            assert_eq!(ended.remove_of_most_bytes(), expected);
        }
    }

    #[test]
    fn old_runs_of_all_kinds_are_removed() {
        let mut ended =
            ended(&[(1, "a", "finished", 1), (2, "b", "finished", 1), (3, "a", "refused", 1), (4, "a", "finished", 1)]);
        let third = ended.kinds[&("a".into(), "refused")].runs[0].ended_at;
        let mut removed = ended.remove_ended_before(third);
        removed.sort_unstable();
        assert_eq!(removed, [1, 2]);
        assert_eq!(
            (ended.remove_of_most_bytes(), ended.remove_of_most_bytes(), ended.remove_of_most()),
            (Some(3), Some(4), None)
        );
    }
}
