//! Where the process stands between start and end, for everybody who has to act on it.
//!
//! ```text
//!   Serving ── first signal ──▶ Draining ── deadline or second signal ──▶ Cut
//!                                  │ no run is open any more               │
//!                                  └───────────────▶ exit ◀────────────────┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

/// What the process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// runs are taken
    Serving,
    /// no new runs; open ones may finish
    Draining,
    /// open runs end now, with RUN_ERROR
    Cut,
}

/// Shared by the planes and every run.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    phase: Arc<watch::Sender<Phase>>,
    open: Arc<Open>,
}

#[derive(Debug, Default)]
struct Open {
    runs: AtomicUsize,
    idle: Notify,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Lifecycle { phase: Arc::new(watch::Sender::new(Phase::Serving)), open: Arc::default() }
    }
}

impl Lifecycle {
    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes on to `phase`; never back.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            if later {
                *now = phase;
            }
            later
        });
    }

    /// Waits until the process is at `phase` or beyond.
    pub async fn reached(&self, phase: Phase) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Counts a run as open until the returned value is dropped.
    #[must_use]
    pub fn enter(&self) -> Permit {
        self.open.runs.fetch_add(1, Ordering::AcqRel);
        Permit(Arc::clone(&self.open))
    }

    /// Waits until no run is open.
    pub async fn idle(&self) {
        loop {
            let notified = self.open.idle.notified();
            if self.open.runs.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// A run that is open.
#[derive(Debug)]
pub struct Permit(Arc<Open>);

impl Drop for Permit {
    fn drop(&mut self) {
        if self.0.runs.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_waits_for_the_last_permit_and_phases_only_advance() {
        let lifecycle = Lifecycle::default();
        lifecycle.idle().await;
        let permits = [lifecycle.enter(), lifecycle.enter()];
        let idle = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished());
        drop(permits);
        idle.await.expect("idle");
        lifecycle.advance(Phase::Cut);
        lifecycle.advance(Phase::Draining);
        assert_eq!(lifecycle.phase(), Phase::Cut);
        lifecycle.reached(Phase::Draining).await;
    }
}
