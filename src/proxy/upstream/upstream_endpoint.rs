//! An upstream endpoint: its runs and its outlier detection.
//!
//! ```text
//!              consecutive failures                          the ejection has expired, and a run is sent
//!   Available ─────────────────────────▶ Ejected ─────────────────────────────────────────────▶ Trial
//!        ▲  ╰── a success resets ──╯        ▲ ▲                                                   │ │ │
//!        │                                  │ ╰── unknown: the client left before a response ─────╯ │ │
//!        │                                  ╰───────── another failure: twice as long ──────────────╯ │
//!        ╰──────────────────────────────────────────── a response ────────────────────────────────────╯
//! ```
//! An endpoint receives runs only if active health checks also allow it.

use crate::config::EjectionConfig;
use parking_lot::Mutex;
use pingora_core::protocols::l4::socket::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum ejection time, unless the initial one is configured to be longer.
const MAX_EJECTION: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct UpstreamEndpoint {
    /// index into the route's upstreams
    pub(crate) upstream_index: usize,
    pub(crate) address: SocketAddr,
    /// relative share of runs
    pub(crate) weight: u32,
    /// modified only under the lock of [`super::balancer`]
    pub(crate) credit: AtomicI64,
    in_flight: AtomicUsize,
    /// result of active health checks; `true` without them
    healthy: AtomicBool,
    outlier_state: Mutex<OutlierState>,
}

/// Passive health, based on the results of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OutlierState {
    Available {
        failures: usize,
    },
    Ejected {
        until: Instant,
        /// number of consecutive ejections
        times: u32,
    },
    /// one run tests whether the endpoint has recovered
    Trial {
        times: u32,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutlierChange {
    None,
    /// the endpoint was ejected for this long
    Ejected(Duration),
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

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn can_take_run(&self, now: Instant) -> bool {
        let rested = match *self.outlier_state.lock() {
            OutlierState::Available { .. } => true,
            OutlierState::Ejected { until, .. } => until <= now,
            OutlierState::Trial { .. } => false,
        };
        rested && self.is_healthy()
    }

    /// Returns whether the endpoint is healthy and not ejected.
    pub(super) fn is_available(&self) -> bool {
        matches!(*self.outlier_state.lock(), OutlierState::Available { .. }) && self.is_healthy()
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(super) fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    pub(super) fn begin_run(&self, now: Instant) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut state = self.outlier_state.lock();
        if let OutlierState::Ejected { until, times } = *state
            && until <= now
        {
            *state = OutlierState::Trial { times };
        }
    }

    pub(super) fn end_run(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn on_success(&self) -> OutlierChange {
        let mut state = self.outlier_state.lock();
        match std::mem::replace(&mut *state, OutlierState::Available { failures: 0 }) {
            OutlierState::Available { .. } => OutlierChange::None,
            OutlierState::Ejected { .. } | OutlierState::Trial { .. } => OutlierChange::Returned,
        }
    }

    pub(super) fn on_failure(&self, rule: &EjectionConfig, now: Instant) -> OutlierChange {
        let mut state = self.outlier_state.lock();
        let times = match *state {
            OutlierState::Available { failures } if failures + 1 < rule.failures.get() => {
                *state = OutlierState::Available { failures: failures + 1 };
                return OutlierChange::None;
            }
            OutlierState::Available { .. } => 0,
            // The run was sent before the ejection, or for lack of alternatives, so it gives no new information.
            OutlierState::Ejected { until, .. } if until > now => return OutlierChange::None,
            OutlierState::Ejected { times, .. } | OutlierState::Trial { times } => times + 1,
        };
        let duration = rule.duration.saturating_mul(1 << times.min(16)).min(MAX_EJECTION.max(rule.duration));
        *state = OutlierState::Ejected { until: now + duration, times };
        OutlierChange::Ejected(duration)
    }

    /// Ends a trial without a result, so that another run can try.
    pub(super) fn on_unknown(&self, now: Instant) {
        let mut state = self.outlier_state.lock();
        if let OutlierState::Trial { times } = *state {
            *state = OutlierState::Ejected { until: now, times };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const RULE: EjectionConfig =
        EjectionConfig { failures: NonZeroUsize::new(3).expect("three"), duration: Duration::from_secs(30) };

    fn target() -> UpstreamEndpoint {
        UpstreamEndpoint::new(0, SocketAddr::Inet(([127, 0, 0, 1], 9).into()), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn ejects_a_target_after_consecutive_failures() {
        let target = target();
        let now = Instant::now();
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
        // Runs in flight at the time of ejection change nothing.
        assert_eq!(target.on_failure(&RULE, now), OutlierChange::None);
        assert!(target.can_take_run(now + RULE.duration) && !target.is_available());
    }

    #[tokio::test(start_paused = true)]
    async fn probes_with_one_run_and_doubles_the_ejection_time() {
        let target = target();
        let mut now = Instant::now();
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
        let target = target();
        let now = Instant::now();
        target.set_healthy(false);
        assert!(!target.can_take_run(now) && !target.is_available());
        target.set_healthy(true);
        assert!(target.can_take_run(now) && target.is_available());
    }
}
