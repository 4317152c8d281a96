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

use crate::config::EjectionConfig;
use parking_lot::{Mutex, MutexGuard};
use pingora_core::protocols::l4::socket::SocketAddr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which an address is left out, unless the first time is longer.
const MAX_EJECTION: Duration = Duration::from_secs(300);

/// One address of an upstream.
pub(super) struct UpstreamEndpoint {
    /// which upstream of the route it belongs to
    pub(crate) upstream_index: usize,
    pub(crate) address: SocketAddr,
    /// what its share of the runs is measured against
    pub(crate) weight: u32,
    /// how far its turn has come; kept by [`super::balance`] under its lock
    pub(crate) credit: AtomicI64,
    in_flight: AtomicUsize,
    /// what the active checks say; true where there are none
    healthy: AtomicBool,
    outlier_state: Mutex<OutlierState>,
}

/// What the runs of an address say about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OutlierState {
    /// it is asked
    Available {
        /// failures in a row
        failures: u32,
    },
    /// it is left out
    Ejected {
        until: Instant,
        /// how often in a row
        times: u32,
    },
    /// one run tries whether it answers again
    Trial { times: u32 },
}

/// What a failure or a success has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutlierChange {
    None,
    /// it is left out from now on, for that long
    Ejected(Duration),
    /// it is asked again
    Returned,
}

impl UpstreamEndpoint {
    pub(super) fn new(upstream_index: usize, address: SocketAddr, weight: u32) -> Self {
        UpstreamEndpoint {
            upstream_index,
            address,
            weight,
            credit: AtomicI64::new(0),
            in_flight: AtomicUsize::new(0),
            healthy: AtomicBool::new(true),
            outlier_state: Mutex::new(OutlierState::Available { failures: 0 }),
        }
    }

    /// How many runs it has.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether a run may be sent there.
    pub(super) fn can_take_run(&self, now: Instant) -> bool {
        let rested = match *self.outlier_state() {
            OutlierState::Available { .. } => true,
            OutlierState::Ejected { until, .. } => until <= now,
            OutlierState::Trial { .. } => false,
        };
        rested && self.healthy.load(Ordering::Relaxed)
    }

    /// Whether it is thought to answer: what was left out has to show it first.
    pub(super) fn is_available(&self) -> bool {
        matches!(*self.outlier_state(), OutlierState::Available { .. }) && self.is_healthy()
    }

    /// What the active checks say.
    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(super) fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    /// A run is sent there.
    pub(super) fn begin_run(&self, now: Instant) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut standing = self.outlier_state();
        if let OutlierState::Ejected { until, times } = *standing
            && until <= now
        {
            *standing = OutlierState::Trial { times };
        }
    }

    /// A run that was sent there is over.
    pub(super) fn end_run(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// It answered.
    pub(super) fn on_success(&self) -> OutlierChange {
        let mut standing = self.outlier_state();
        let change = if matches!(*standing, OutlierState::Available { .. }) {
            OutlierChange::None
        } else {
            OutlierChange::Returned
        };
        *standing = OutlierState::Available { failures: 0 };
        change
    }

    /// It did not answer, or said that it cannot.
    pub(super) fn on_failure(&self, rule: &EjectionConfig, now: Instant) -> OutlierChange {
        let mut standing = self.outlier_state();
        let times = match *standing {
            OutlierState::Available { failures } if failures + 1 < rule.failures => {
                *standing = OutlierState::Available { failures: failures + 1 };
                return OutlierChange::None;
            }
            OutlierState::Available { .. } => 0,
            // Sent there before it was left out, or for want of anybody else: it says nothing new.
            OutlierState::Ejected { until, .. } if until > now => return OutlierChange::None,
            OutlierState::Ejected { times, .. } | OutlierState::Trial { times } => times + 1,
        };
        let duration = rule.duration.saturating_mul(1 << times.min(16)).min(MAX_EJECTION.max(rule.duration));
        *standing = OutlierState::Ejected { until: now + duration, times };
        OutlierChange::Ejected(duration)
    }

    /// Nobody knows whether it would have answered: somebody else may find out.
    pub(super) fn on_unknown(&self, now: Instant) {
        let mut standing = self.outlier_state();
        if let OutlierState::Trial { times } = *standing {
            *standing = OutlierState::Ejected { until: now, times };
        }
    }

    fn outlier_state(&self) -> MutexGuard<'_, OutlierState> {
        self.outlier_state.lock()
    }
}

impl fmt::Debug for UpstreamEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: EjectionConfig = EjectionConfig { failures: 3, duration: Duration::from_secs(30) };

    fn target() -> UpstreamEndpoint {
        UpstreamEndpoint::new(0, SocketAddr::Inet(([127, 0, 0, 1], 9).into()), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn ejects_a_target_after_consecutive_failures() {
        let (target, now) = (target(), Instant::now());
        for _ in 0..2 {
            assert_eq!(target.on_failure(&RULE, now), OutlierChange::None);
            assert_eq!(target.on_failure(&RULE, now), OutlierChange::None);
            assert_eq!(target.on_success(), OutlierChange::None);
        }
        target.on_failure(&RULE, now);
        target.on_failure(&RULE, now);
        assert!(target.can_take_run(now));
        assert_eq!(target.on_failure(&RULE, now), OutlierChange::Ejected(RULE.duration));
        assert!(!target.can_take_run(now) && !target.is_available());
        // Runs that were on their way there change nothing.
        assert_eq!(target.on_failure(&RULE, now), OutlierChange::None);
        assert!(target.can_take_run(now + RULE.duration) && !target.is_available());
    }

    #[tokio::test(start_paused = true)]
    async fn probes_with_one_run_and_doubles_the_ejection_time() {
        let (target, mut now) = (target(), Instant::now());
        for _ in 0..3 {
            target.on_failure(&RULE, now);
        }
        let mut times = vec![30];
        for _ in 0..6 {
            now += Duration::from_secs(*times.last().expect("one"));
            assert!(target.can_take_run(now));
            target.begin_run(now);
            assert!(!target.can_take_run(now), "one at a time");
            let OutlierChange::Ejected(duration) = target.on_failure(&RULE, now) else {
                panic!("it failed on its return")
            };
            times.push(duration.as_secs());
            target.end_run();
        }
        assert_eq!(times, [30, 60, 120, 240, 300, 300, 300]);
        now += MAX_EJECTION;
        target.begin_run(now);
        target.on_unknown(now);
        assert!(target.can_take_run(now), "the next one may try");
        target.begin_run(now);
        assert_eq!(target.on_success(), OutlierChange::Returned);
        assert!(target.is_available());
        assert_eq!(target.in_flight(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_health_checks_make_a_target_unfit() {
        let (target, now) = (target(), Instant::now());
        target.set_healthy(false);
        assert!(!target.can_take_run(now) && !target.is_available());
        target.set_healthy(true);
        assert!(target.can_take_run(now) && target.is_available());
    }
}
