//! Chooses the better of two endpoints for a run.
//!
//! The first is next in weighted round robin order, the second is random. The one with fewer runs relative to its
//! weight wins; in a tie, the first. Round robin alone would pile up long runs, and always choosing the least loaded
//! endpoint would send a whole burst of runs to one that has just recovered.

use super::upstream_endpoint::UpstreamEndpoint;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A weighted balancer. Endpoints must not be shared between balancers.
#[derive(Debug, Default)]
pub(super) struct WeightedBalancer(Mutex<u64>);

impl WeightedBalancer {
    pub(super) fn choose<'t>(&self, all: &[&'t Arc<UpstreamEndpoint>]) -> Option<&'t Arc<UpstreamEndpoint>> {
        let (first, rest) = all.split_first()?;
        if rest.is_empty() {
            return Some(first);
        }
        let mut random = self.0.lock();
        // Smooth weighted round robin: every endpoint gains credit equal to its weight, and the chosen one pays the
        // total.
        let mut total = 0;
        let mut due = 0;
        let mut highest = i64::MIN;
        for (index, target) in all.iter().enumerate() {
            let weight = i64::from(target.weight);
            total += weight;
            let credit = target.credit.load(Relaxed) + weight;
            target.credit.store(credit, Relaxed);
            if credit > highest {
                due = index;
                highest = credit;
            }
        }
        let other = draw_other(due, all, next_random(&mut random));
        let chosen = if is_less_loaded(all[other], all[due]) { all[other] } else { all[due] };
        chosen.credit.fetch_sub(total, Relaxed);
        Some(chosen)
    }
}

/// Chooses one of the other endpoints at random, by weight.
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

fn is_less_loaded(one: &UpstreamEndpoint, other: &UpstreamEndpoint) -> bool {
    // Cross-multiplied, to compare the quotients as integers.
    one.in_flight() as u128 * u128::from(other.weight) < other.in_flight() as u128 * u128::from(one.weight)
}

/// Returns the next pseudo-random number (splitmix64, Steele et al. 2014), which need not be secure.
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

    /// Returns the number of runs per endpoint if all runs stay open (`stay`), or if each ends before the next begins.
    fn shares(weights: &[u32], runs: usize, stay: bool) -> Vec<usize> {
        let all = targets(weights);
        let balancer = WeightedBalancer::default();
        let all: Vec<_> = all.iter().collect();
        let mut shares = vec![0; weights.len()];
        for _ in 0..runs {
            let chosen = balancer.choose(&all).expect("one");
            shares[chosen.upstream_index] += 1;
            if stay {
                chosen.begin_run(&[0; 32], Instant::now());
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
        let all = targets(&[1, 1]);
        let balancer = WeightedBalancer::default();
        (0..10).for_each(|_| all[0].begin_run(&[0; 32], Instant::now()));
        let all: Vec<_> = all.iter().collect();
        for _ in 0..10 {
            let chosen = balancer.choose(&all).expect("one");
            assert_eq!(chosen.upstream_index, 1);
            chosen.begin_run(&[0; 32], Instant::now());
        }
    }

    #[test]
    fn does_not_flood_a_target_that_comes_back() {
        let all = targets(&[1; 10]);
        let balancer = WeightedBalancer::default();
        for target in &all[1..] {
            (0..100).for_each(|_| target.begin_run(&[0; 32], Instant::now()));
        }
        let all: Vec<_> = all.iter().collect();
        let chosen = (0..90).filter(|_| {
            let chosen = balancer.choose(&all).expect("one");
            chosen.begin_run(&[0; 32], Instant::now());
            chosen.upstream_index == 0
        });
        assert!((9..60).contains(&chosen.count()));
    }

    #[test]
    fn chooses_nothing_from_no_targets() {
        assert!(WeightedBalancer::default().choose(&[]).is_none());
    }
}
