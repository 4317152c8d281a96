//! Which of several addresses a run is sent to: the better of two.
//!
//! The first is whose turn it is, by weight; the second is drawn. Of the two the one with fewer runs for its weight is
//! taken, and at a tie the first. Runs last long, so turns alone would pile them up where they happen to last longest; and
//! looking for the least of all would send every run of a rush to an address that has just come back.

use super::upstream_endpoint::UpstreamEndpoint;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Takes turns. All addresses that are chosen from by one of these are chosen from by no other.
#[derive(Debug, Default)]
pub(super) struct WeightedBalancer(Mutex<u64>);

impl WeightedBalancer {
    /// Chooses one; `None` of none.
    pub(super) fn choose<'t>(&self, all: &[&'t Arc<UpstreamEndpoint>]) -> Option<&'t Arc<UpstreamEndpoint>> {
        let (first, rest) = all.split_first()?;
        if rest.is_empty() {
            return Some(first);
        }
        let mut drawn = self.0.lock();
        // Smooth weighted turns: everybody is credited with its weight, whoever is chosen pays for all.
        let mut total = 0;
        let (mut due, mut most) = (0, i64::MIN);
        for (index, target) in all.iter().enumerate() {
            let weight = i64::from(target.weight);
            total += weight;
            let credit = target.credit.load(Relaxed) + weight;
            target.credit.store(credit, Relaxed);
            if credit > most {
                (due, most) = (index, credit);
            }
        }
        let other = draw_other(due, all, next_random(&mut drawn));
        let chosen = if is_less_loaded(all[other], all[due]) { all[other] } else { all[due] };
        chosen.credit.fetch_sub(total, Relaxed);
        Some(chosen)
    }
}

/// One of the others, each as likely as its weight.
fn draw_other(due: usize, all: &[&Arc<UpstreamEndpoint>], drawn: u64) -> usize {
    let others = || all.iter().enumerate().filter(|(index, _)| *index != due);
    let total: u64 = others().map(|(_, target)| u64::from(target.weight)).sum();
    let mut left = drawn % total.max(1);
    for (index, target) in others() {
        match left.checked_sub(u64::from(target.weight)) {
            Some(rest) => left = rest,
            None => return index,
        }
    }
    due
}

/// Whether one has fewer runs for its weight than the other.
fn is_less_loaded(one: &UpstreamEndpoint, other: &UpstreamEndpoint) -> bool {
    let load =
        |runs: &UpstreamEndpoint, weight: &UpstreamEndpoint| runs.in_flight() as u128 * u128::from(weight.weight);
    load(one, other) < load(other, one)
}

/// The next number of a sequence that looks like chance (splitmix64, Steele et al. 2014). Nobody gains by foreseeing it.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora_core::protocols::l4::socket::SocketAddr;
    use tokio::time::Instant;

    fn targets(weights: &[u32]) -> Vec<Arc<UpstreamEndpoint>> {
        let target = |(index, weight): (usize, &u32)| {
            let port = u16::try_from(index).expect("few");
            Arc::new(UpstreamEndpoint::new(index, SocketAddr::Inet(([127, 0, 0, 1], port).into()), *weight))
        };
        weights.iter().enumerate().map(target).collect()
    }

    /// How many of `runs` each gets, when they stay open or when each is over before the next comes.
    fn shares(weights: &[u32], runs: usize, stay: bool) -> Vec<usize> {
        let (all, turns) = (targets(weights), WeightedBalancer::default());
        let all: Vec<_> = all.iter().collect();
        let mut shares = vec![0; weights.len()];
        for _ in 0..runs {
            let chosen = turns.choose(&all).expect("one");
            shares[chosen.upstream_index] += 1;
            if stay {
                chosen.begin_run(Instant::now());
            }
        }
        shares
    }

    #[test]
    fn rotates_short_runs_by_weight() {
        assert_eq!(shares(&[1, 1], 300, false), [150, 150]);
        assert_eq!(shares(&[3, 1, 2], 300, false), [150, 50, 100]);
        assert_eq!(shares(&[1], 3, false), [3]);
    }

    #[test]
    fn spreads_long_runs_by_weight() {
        assert_eq!(shares(&[3, 1], 300, true), [225, 75]);
        let shares = shares(&[3, 1, 2], 300, true);
        for (share, fair) in shares.iter().zip([150, 50, 100]) {
            assert!(share.abs_diff(fair) <= 3, "{shares:?}");
        }
    }

    #[test]
    fn prefers_the_target_with_fewer_runs() {
        let (all, turns) = (targets(&[1, 1]), WeightedBalancer::default());
        (0..10).for_each(|_| all[0].begin_run(Instant::now()));
        let all: Vec<_> = all.iter().collect();
        for _ in 0..10 {
            let chosen = turns.choose(&all).expect("one");
            assert_eq!(chosen.upstream_index, 1);
            chosen.begin_run(Instant::now());
        }
    }

    #[test]
    fn does_not_flood_a_target_that_comes_back() {
        let (all, turns) = (targets(&[1; 10]), WeightedBalancer::default());
        for target in &all[1..] {
            (0..100).for_each(|_| target.begin_run(Instant::now()));
        }
        let all: Vec<_> = all.iter().collect();
        let chosen = (0..90).filter(|_| {
            let chosen = turns.choose(&all).expect("one");
            chosen.begin_run(Instant::now());
            chosen.upstream_index == 0
        });
        assert!((9..60).contains(&chosen.count()));
    }

    #[test]
    fn chooses_nothing_from_no_targets() {
        assert!(WeightedBalancer::default().choose(&[]).is_none());
    }
}
