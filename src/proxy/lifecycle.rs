//! Where the process stands between start and end, for everybody who has to act on it.
//!
//! ```text
//!   Serving ── signal, order ──▶ Leaving ── grace ──▶ Draining ── deadline ──▶ Cut
//!                                   │                    │ no run is open       │
//!                                   │                    └───────▶ exit ◀───────┤
//!                                   └────────────── second signal ──────────────┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};

/// What the process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// runs are taken
    Serving,
    /// runs are taken yet; everybody is told to go elsewhere
    Leaving,
    /// the doors are closed; open runs may finish, and so may who crossed the word that their connection ends
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

    /// The process's end as one run sees it. It is subscribed to once, and borrowed at every wait of the run.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(self.phase.subscribe())
    }

    /// Counts a run as open until the returned value is dropped.
    #[must_use]
    pub fn enter(&self) -> Permit {
        self.open.runs.fetch_add(1, Ordering::AcqRel);
        Permit(Arc::clone(&self.open))
    }

    /// How many runs are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.runs.load(Ordering::Acquire)
    }

    /// Waits until no run is open and the doors are closed.
    pub async fn drained(&self) {
        // It fails where nobody is left who could say so, and then the process is at its end.
        let _ = self.phase.subscribe().wait_for(|now| *now >= Phase::Draining).await;
        self.idle().await;
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

/// Tells a run when it has to end.
#[derive(Debug)]
pub struct Watch(watch::Receiver<Phase>);

impl Watch {
    /// Whether open runs end now.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        *self.0.borrow() == Phase::Cut
    }

    /// Waits until open runs end. May be dropped while waiting.
    pub async fn cut(&mut self) {
        // It fails where nobody is left who could say so, and then the process is at its end as well.
        let _ = self.0.wait_for(|now| *now == Phase::Cut).await;
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
    }

    #[tokio::test]
    async fn a_run_hears_of_the_cut_and_of_nothing_before() {
        let lifecycle = Lifecycle::default();
        let mut watch = lifecycle.watch();
        lifecycle.advance(Phase::Draining);
        assert!(!watch.is_cut() && futures_util::poll!(Box::pin(watch.cut())).is_pending());
        lifecycle.advance(Phase::Cut);
        assert!(watch.is_cut() && lifecycle.watch().is_cut());
        watch.cut().await;
        lifecycle.watch().cut().await;
    }
}
