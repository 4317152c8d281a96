//! One address of an upstream: how many runs it has, and whether it is to be asked for more.
//!
//! ```text
//!              so many failures in a row                     its time has passed, and a run is chosen for it
//!   Trusted ─────────────────────────────▶ Out ──────────────────────────────────────────────▶ Trial
//!      ▲  ╰── a success begins anew ──╯     ▲ ▲                                                  │ │ │
//!      │                                    │ ╰── nobody knows: the client left before an answer ╯ │ │
//!      │                                    ╰───────── it failed again: out for twice as long ─────╯ │
//!      ╰─────────────────────────────────────── it answered ─────────────────────────────────────────╯
//! ```
//! Beside that stand the active checks, whose thresholds pingora keeps: an address is asked when both find it fit.

use crate::config::Ejection;
use pingora_core::protocols::l4::socket::SocketAddr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which an address is left out, unless the first time is longer.
const LONGEST: Duration = Duration::from_secs(300);

/// One address of an upstream.
pub(super) struct Target {
    /// which upstream of the route it belongs to
    pub member: usize,
    pub address: SocketAddr,
    /// what its share of the runs is measured against
    pub weight: u32,
    /// how far its turn has come; kept by [`super::balance`] under its lock
    pub credit: AtomicI64,
    in_flight: AtomicUsize,
    /// what the active checks say; true where there are none
    healthy: AtomicBool,
    standing: Mutex<Standing>,
}

/// What the runs of an address say about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    /// it is asked
    Trusted {
        /// failures in a row
        failures: u32,
    },
    /// it is left out
    Out {
        until: Instant,
        /// how often in a row
        times: u32,
    },
    /// one run tries whether it answers again
    Trial { times: u32 },
}

/// What a failure or a success has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// it is left out from now on, for that long
    Out(Duration),
    /// it is asked again
    Back,
}

impl Target {
    pub(super) fn new(member: usize, address: SocketAddr, weight: u32) -> Self {
        Target {
            member,
            address,
            weight,
            credit: AtomicI64::new(0),
            in_flight: AtomicUsize::new(0),
            healthy: AtomicBool::new(true),
            standing: Mutex::new(Standing::Trusted { failures: 0 }),
        }
    }

    /// How many runs it has.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether a run may be sent there.
    pub(super) fn is_fit(&self, now: Instant) -> bool {
        let rested = match *self.standing() {
            Standing::Trusted { .. } => true,
            Standing::Out { until, .. } => until <= now,
            Standing::Trial { .. } => false,
        };
        rested && self.healthy.load(Ordering::Relaxed)
    }

    /// Whether it is thought to answer: what was left out has to show it first.
    pub(super) fn is_trusted(&self) -> bool {
        matches!(*self.standing(), Standing::Trusted { .. }) && self.is_healthy()
    }

    /// What the active checks say.
    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(super) fn checked(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    /// A run is sent there.
    pub(super) fn take(&self, now: Instant) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut standing = self.standing();
        if let Standing::Out { until, times } = *standing
            && until <= now
        {
            *standing = Standing::Trial { times };
        }
    }

    /// A run that was sent there is over.
    pub(super) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// It answered.
    pub(super) fn succeeded(&self) -> Change {
        let mut standing = self.standing();
        let change = if matches!(*standing, Standing::Trusted { .. }) { Change::None } else { Change::Back };
        *standing = Standing::Trusted { failures: 0 };
        change
    }

    /// It did not answer, or said that it cannot.
    pub(super) fn failed(&self, rule: &Ejection, now: Instant) -> Change {
        let mut standing = self.standing();
        let times = match *standing {
            Standing::Trusted { failures } if failures + 1 < rule.failures => {
                *standing = Standing::Trusted { failures: failures + 1 };
                return Change::None;
            }
            Standing::Trusted { .. } => 0,
            // Sent there before it was left out, or for want of anybody else: it says nothing new.
            Standing::Out { until, .. } if until > now => return Change::None,
            Standing::Out { times, .. } | Standing::Trial { times } => times + 1,
        };
        let duration = rule.duration.saturating_mul(1 << times.min(16)).min(LONGEST.max(rule.duration));
        *standing = Standing::Out { until: now + duration, times };
        Change::Out(duration)
    }

    /// Nobody knows whether it would have answered: somebody else may find out.
    pub(super) fn unknown(&self, now: Instant) {
        let mut standing = self.standing();
        if let Standing::Trial { times } = *standing {
            *standing = Standing::Out { until: now, times };
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        // Nothing panics while the lock is held.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Ejection = Ejection { failures: 3, duration: Duration::from_secs(30) };

    fn target() -> Target {
        Target::new(0, SocketAddr::Inet(([127, 0, 0, 1], 9).into()), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_leave_it_out_for_a_while() {
        let (target, now) = (target(), Instant::now());
        for _ in 0..2 {
            assert_eq!(target.failed(&RULE, now), Change::None);
            assert_eq!(target.failed(&RULE, now), Change::None);
            assert_eq!(target.succeeded(), Change::None);
        }
        target.failed(&RULE, now);
        target.failed(&RULE, now);
        assert!(target.is_fit(now));
        assert_eq!(target.failed(&RULE, now), Change::Out(RULE.duration));
        assert!(!target.is_fit(now) && !target.is_trusted());
        // Runs that were on their way there change nothing.
        assert_eq!(target.failed(&RULE, now), Change::None);
        assert!(target.is_fit(now + RULE.duration) && !target.is_trusted());
    }

    #[tokio::test(start_paused = true)]
    async fn one_run_tries_it_and_a_failure_doubles_the_time_up_to_a_bound() {
        let (target, mut now) = (target(), Instant::now());
        for _ in 0..3 {
            target.failed(&RULE, now);
        }
        let mut times = vec![30];
        for _ in 0..6 {
            now += Duration::from_secs(*times.last().expect("one"));
            assert!(target.is_fit(now));
            target.take(now);
            assert!(!target.is_fit(now), "one at a time");
            let Change::Out(duration) = target.failed(&RULE, now) else { panic!("it failed on its return") };
            times.push(duration.as_secs());
            target.leave();
        }
        assert_eq!(times, [30, 60, 120, 240, 300, 300, 300]);
        now += LONGEST;
        target.take(now);
        target.unknown(now);
        assert!(target.is_fit(now), "the next one may try");
        target.take(now);
        assert_eq!(target.succeeded(), Change::Back);
        assert!(target.is_trusted());
        assert_eq!(target.in_flight(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_checks_say_counts_beside_it() {
        let (target, now) = (target(), Instant::now());
        target.checked(false);
        assert!(!target.is_fit(now) && !target.is_trusted());
        target.checked(true);
        assert!(target.is_fit(now) && target.is_trusted());
    }
}
