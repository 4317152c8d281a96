//! Chooses which ended runs are evicted, so that many of one kind do not push out those of others.
//!
//! A kind is a route and an outcome. The kind that has most loses its oldest run, so a flood of refusals, or of tiny
//! runs of one route, evicts itself, and the failed run before it stays.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// An ended run.
pub(super) struct EvictableRun {
    pub(super) id: u64,
    pub(super) route: Arc<str>,
    /// a label of `diglot_streams_total`, or `refused`
    pub(super) outcome: &'static str,
    pub(super) bytes: usize,
}

/// The runs of one kind, oldest first.
#[derive(Default)]
struct RunKind {
    runs: VecDeque<EvictableRun>,
    bytes: usize,
}

/// Returns the ids of at least `surplus` runs that have at least `excess` bytes together, as far as there are so many.
pub(super) fn choose_runs(ended: Vec<EvictableRun>, mut surplus: usize, mut excess: usize) -> Vec<u64> {
    let mut kinds: HashMap<(Arc<str>, &str), RunKind> = HashMap::new();
    for run in ended {
        let kind = kinds.entry((Arc::clone(&run.route), run.outcome)).or_default();
        kind.bytes += run.bytes;
        kind.runs.push_back(run);
    }
    let mut chosen = Vec::new();
    while surplus > 0 || excess > 0 {
        // Memory is taken from the kind that has most of it, which may be one of few runs.
        let size = |kind: &RunKind| if excess > 0 { kind.bytes } else { kind.runs.len() };
        let oldest = |kind: &RunKind| Reverse(kind.runs.front().map(|run| run.id));
        let evictable = kinds.values_mut().filter(|kind| !kind.runs.is_empty());
        let Some(largest) = evictable.max_by_key(|kind| (size(kind), oldest(kind))) else { break };
        let Some(run) = largest.runs.pop_front() else { break };
        largest.bytes -= run.bytes;
        surplus = surplus.saturating_sub(1);
        excess = excess.saturating_sub(run.bytes);
        chosen.push(run.id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: u64, route: &str, outcome: &'static str, bytes: usize) -> EvictableRun {
        EvictableRun { id, route: route.into(), outcome, bytes }
    }

    #[test]
    fn the_kind_with_most_runs_loses_its_oldest() {
        let failed = run(1, "chat", "upstream_error", 9);
        let refused = (2..6).map(|id| run(id, "chat", "refused", 1));
        let other = [run(6, "other", "refused", 1), run(7, "other", "refused", 1)];
        let ended: Vec<_> = std::iter::once(failed).chain(refused).chain(other).collect();
        assert_eq!(choose_runs(ended, 3, 0), [2, 3, 4]);
    }

    #[test]
    fn kinds_of_the_same_size_lose_the_oldest_run() {
        let ended = || vec![run(1, "a", "finished", 1), run(2, "b", "finished", 1)];
        assert_eq!(choose_runs(ended(), 1, 0), [1]);
        assert_eq!(choose_runs(ended(), 9, 0), [1, 2]);
        assert_eq!(choose_runs(ended(), 0, 0), [] as [u64; 0]);
    }

    #[test]
    fn memory_is_taken_from_the_kind_that_has_most() {
        let tiny = (1..9).map(|id| run(id, "tiny", "finished", 1));
        let ended: Vec<_> = tiny.chain([run(9, "large", "finished", 50), run(10, "large", "finished", 50)]).collect();
        assert_eq!(choose_runs(ended, 0, 20), [9]);
    }
}
