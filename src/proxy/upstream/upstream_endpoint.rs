//! An upstream endpoint: its runs and its outlier detection.
//!
//! ```text
//!              consecutive failures                     the ejection has expired, or another caller sends a run
//!   Available ─────────────────────────▶ Ejected ─────────────────────────────────────────────▶ Trial
//!        ▲  ╰── a success resets ──╯        ▲ ▲                                                   │ │ │
//!        │                                  │ ╰── unknown: the client left before a response ─────╯ │ │
//!        │                                  ╰───────── another failure: twice as long ──────────────╯ │
//!        ╰──────────────────────────────────────────── a response ────────────────────────────────────╯
//! ```
//! An endpoint receives runs only if active health checks also allow it. The requests of one caller may be the reason
//! why its runs fail. Therefore they alone do not eject an endpoint that answers others, and after an ejection for
//! them, or after a failed trial, a run of another caller is a trial at once: its failure confirms the ejection.

use crate::config::EjectionConfig;
use crate::replay::ReplayKey;
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
    outliers: Mutex<OutlierDetection>,
}

#[derive(Debug)]
struct OutlierDetection {
    state: OutlierState,
    /// the last answers to two different callers, the later first
    answers: [Option<CallerAnswer>; 2],
}

#[derive(Clone, Copy, Debug)]
struct CallerAnswer {
    caller: ReplayKey,
    at: Instant,
}

/// Passive health, based on the results of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OutlierState {
    Available {
        failures: usize,
        callers: FailedCallers,
    },
    Ejected {
        until: Instant,
        /// number of consecutive ejections
        times: u32,
        /// whose failures were the reason
        callers: FailedCallers,
    },
    /// one run tests whether the endpoint has recovered; the fields are those of the ejection
    Trial {
        until: Instant,
        times: u32,
        callers: FailedCallers,
    },
}

/// The callers of consecutive failures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FailedCallers {
    None,
    One(ReplayKey),
    /// several, or a failure that no request can have caused
    Any,
}

const NO_FAILURE: OutlierState = OutlierState::Available { failures: 0, callers: FailedCallers::None };

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
            outliers: Mutex::new(OutlierDetection { state: NO_FAILURE, answers: [None; 2] }),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn can_take_run(&self, caller: &ReplayKey, now: Instant) -> bool {
        let state = self.outliers.lock().state;
        let is_allowed = matches!(state, OutlierState::Available { .. }) || state.allows_trial(caller, now);
        is_allowed && self.is_healthy()
    }

    /// Returns whether the endpoint is healthy and not ejected.
    pub(super) fn is_available(&self) -> bool {
        matches!(self.outliers.lock().state, OutlierState::Available { .. }) && self.is_healthy()
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    pub(super) fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    pub(super) fn begin_run(&self, caller: &ReplayKey, now: Instant) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let state = &mut self.outliers.lock().state;
        if let OutlierState::Ejected { until, times, callers } = *state
            && state.allows_trial(caller, now)
        {
            *state = OutlierState::Trial { until, times, callers };
        }
    }

    pub(super) fn end_run(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn on_success(&self, caller: &ReplayKey, now: Instant) -> OutlierChange {
        let mut outliers = self.outliers.lock();
        if outliers.answers[0].is_none_or(|last| last.caller != *caller) {
            outliers.answers[1] = outliers.answers[0];
        }
        outliers.answers[0] = Some(CallerAnswer { caller: *caller, at: now });
        match std::mem::replace(&mut outliers.state, NO_FAILURE) {
            OutlierState::Available { .. } => OutlierChange::None,
            OutlierState::Ejected { .. } | OutlierState::Trial { .. } => OutlierChange::Returned,
        }
    }

    /// Counts a failure of a caller's run, or of none if no request can have caused it.
    pub(super) fn on_failure(&self, rule: &EjectionConfig, caller: Option<&ReplayKey>, now: Instant) -> OutlierChange {
        let mut outliers = self.outliers.lock();
        let (times, callers) = match outliers.state {
            OutlierState::Available { failures, callers } => {
                let failures = failures + 1;
                let callers = callers.with(caller);
                let is_answering_others = matches!(callers, FailedCallers::One(only)
                    if outliers.has_answered_other(&only, rule.duration, now));
                if failures < rule.failures.get() || is_answering_others {
                    outliers.state = OutlierState::Available { failures, callers };
                    return OutlierChange::None;
                }
                (0, callers)
            }
            // The run was sent before the ejection, or for lack of alternatives, so it gives no new information.
            OutlierState::Ejected { until, .. } if until > now => return OutlierChange::None,
            OutlierState::Ejected { times, callers, .. } | OutlierState::Trial { times, callers, .. } => {
                let is_confirmation = matches!(callers, FailedCallers::One(_)) && callers.with(caller) != callers;
                if is_confirmation {
                    (times, FailedCallers::Any)
                } else {
                    (times + 1, FailedCallers::None.with(caller))
                }
            }
        };
        let duration = rule.duration.saturating_mul(1 << times.min(16)).min(MAX_EJECTION.max(rule.duration));
        outliers.state = OutlierState::Ejected { until: now + duration, times, callers };
        OutlierChange::Ejected(duration)
    }

    /// Ends a trial without a result, so that another run can try.
    pub(super) fn on_unknown(&self) {
        let state = &mut self.outliers.lock().state;
        if let OutlierState::Trial { until, times, callers } = *state {
            *state = OutlierState::Ejected { until, times, callers };
        }
    }
}

impl OutlierState {
    fn allows_trial(self, caller: &ReplayKey, now: Instant) -> bool {
        matches!(self, OutlierState::Ejected { until, callers, .. }
            if until <= now || matches!(callers, FailedCallers::One(only) if only != *caller))
    }
}

impl FailedCallers {
    fn with(self, caller: Option<&ReplayKey>) -> FailedCallers {
        match (self, caller) {
            (FailedCallers::None, Some(caller)) => FailedCallers::One(*caller),
            (FailedCallers::One(only), Some(caller)) if only == *caller => self,
            _ => FailedCallers::Any,
        }
    }
}

impl OutlierDetection {
    fn has_answered_other(&self, caller: &ReplayKey, within: Duration, now: Instant) -> bool {
        let others = self.answers.iter().flatten().filter(|answer| answer.caller != *caller);
        others.map(|answer| now.saturating_duration_since(answer.at)).any(|age| age < within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const RULE: EjectionConfig =
        EjectionConfig { failures: NonZeroUsize::new(3).expect("three"), duration: Duration::from_secs(30) };

    const ADA: ReplayKey = [1; 32];
    const BOB: ReplayKey = [2; 32];

    fn target() -> UpstreamEndpoint {
        UpstreamEndpoint::new(0, SocketAddr::Inet(([127, 0, 0, 1], 9).into()), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn ejects_a_target_after_consecutive_failures() {
        let target = target();
        let now = Instant::now();
        for _ in 0..2 {
            assert_eq!(target.on_failure(&RULE, Some(&ADA), now), OutlierChange::None);
            assert_eq!(target.on_failure(&RULE, Some(&ADA), now), OutlierChange::None);
            assert_eq!(target.on_success(&ADA, now), OutlierChange::None);
        }
        target.on_failure(&RULE, Some(&ADA), now);
        target.on_failure(&RULE, Some(&ADA), now);
        assert!(target.can_take_run(&ADA, now));
        assert_eq!(target.on_failure(&RULE, Some(&ADA), now), OutlierChange::Ejected(RULE.duration));
        assert!(!target.can_take_run(&ADA, now) && !target.is_available());
        // Runs in flight at the time of ejection change nothing.
        assert_eq!(target.on_failure(&RULE, Some(&ADA), now), OutlierChange::None);
        assert!(target.can_take_run(&ADA, now + RULE.duration) && !target.is_available());
    }

    #[tokio::test(start_paused = true)]
    async fn one_callers_failures_do_not_eject_a_target_that_answers_others() {
        let target = target();
        let mut now = Instant::now();
        target.on_success(&BOB, now);
        // Its own answers do not count.
        target.on_success(&ADA, now);
        for _ in 0..100 {
            assert_eq!(target.on_failure(&RULE, Some(&ADA), now), OutlierChange::None);
        }
        assert!(target.is_available());
        assert!(matches!(target.on_failure(&RULE, Some(&BOB), now), OutlierChange::Ejected(_)), "it fails for others");
        now += RULE.duration;
        target.on_success(&BOB, now);
        for _ in 0..100 {
            target.on_failure(&RULE, Some(&ADA), now);
        }
        assert!(matches!(target.on_failure(&RULE, None, now), OutlierChange::Ejected(_)), "it cannot be reached");
        now += RULE.duration;
        target.on_success(&BOB, now);
        now += RULE.duration;
        for _ in 0..3 {
            target.on_failure(&RULE, Some(&ADA), now);
        }
        assert!(!target.is_available(), "nobody else was answered of late");
    }

    #[tokio::test(start_paused = true)]
    async fn probes_with_one_run_and_doubles_the_ejection_time() {
        let target = target();
        let mut now = Instant::now();
        for _ in 0..3 {
            target.on_failure(&RULE, Some(&ADA), now);
        }
        let mut times = vec![30];
        for _ in 0..6 {
            now += Duration::from_secs(*times.last().expect("one"));
            assert!(target.can_take_run(&ADA, now));
            target.begin_run(&ADA, now);
            assert!(!target.can_take_run(&ADA, now), "one at a time");
            let OutlierChange::Ejected(duration) = target.on_failure(&RULE, Some(&ADA), now) else {
                panic!("it failed on its return")
            };
            times.push(duration.as_secs());
            target.end_run();
        }
        assert_eq!(times, [30, 60, 120, 240, 300, 300, 300]);
        now += MAX_EJECTION;
        target.begin_run(&ADA, now);
        target.on_unknown();
        assert!(target.can_take_run(&ADA, now), "the next one may try");
        target.begin_run(&ADA, now);
        assert_eq!(target.on_success(&ADA, now), OutlierChange::Returned);
        assert!(target.is_available());
        assert_eq!(target.in_flight(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_callers_failed_trials_keep_out_only_its_own_runs() {
        let target = target();
        let mut now = Instant::now();
        let eject = |caller, now| {
            target.begin_run(&caller, now);
            target.on_failure(&RULE, Some(&caller), now)
        };
        for _ in 0..3 {
            target.on_failure(&RULE, None, now);
        }
        assert!(!target.can_take_run(&ADA, now) && !target.can_take_run(&BOB, now), "it could not be reached");
        now += RULE.duration;
        assert_eq!(eject(ADA, now), OutlierChange::Ejected(2 * RULE.duration));
        assert!(!target.can_take_run(&ADA, now) && target.can_take_run(&BOB, now));
        target.begin_run(&BOB, now);
        assert!(!target.can_take_run(&BOB, now), "one at a time");
        target.on_unknown();
        assert!(!target.can_take_run(&ADA, now) && target.can_take_run(&BOB, now));
        // Another caller's failure confirms the ejection and does not prolong it further.
        assert_eq!(eject(BOB, now), OutlierChange::Ejected(2 * RULE.duration));
        assert!(!target.can_take_run(&ADA, now) && !target.can_take_run(&BOB, now));
        now += 2 * RULE.duration;
        assert_eq!(eject(ADA, now), OutlierChange::Ejected(4 * RULE.duration));
        target.begin_run(&BOB, now);
        assert_eq!(target.on_success(&BOB, now), OutlierChange::Returned);
        assert!(target.can_take_run(&ADA, now));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_health_checks_make_a_target_unfit() {
        let target = target();
        let now = Instant::now();
        target.set_healthy(false);
        assert!(!target.can_take_run(&ADA, now) && !target.is_available());
        target.set_healthy(true);
        assert!(target.can_take_run(&ADA, now) && target.is_available());
    }
}
