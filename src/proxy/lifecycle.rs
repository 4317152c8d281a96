//! The phases of the process between start and exit.
//!
//! ```text
//!   Serving ── signal, admin command ──▶ Leaving ── grace ──▶ Draining ── deadline ──▶ Cut
//!                                           │                    │ no run is open       │
//!                                           │                    ╰───────▶ exit ◀───────┤
//!                                           ╰────────────── second signal ──────────────╯
//! ```

use futures_util::future::{BoxFuture, FutureExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{Notify, watch};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LifecyclePhase {
    #[default]
    Serving,
    /// runs are accepted, but clients are asked to reconnect elsewhere
    Leaving,
    /// listeners are closed; open runs and requests already sent may finish
    Draining,
    /// open runs end now, with RUN_ERROR
    Cut,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lifecycle {
    phase: Arc<watch::Sender<LifecyclePhase>>,
    open_runs: Arc<OpenRuns>,
}

#[derive(Debug, Default)]
struct OpenRuns {
    count: AtomicUsize,
    /// runs that were open at the cut
    cut: AtomicUsize,
    idle: Notify,
}

impl Lifecycle {
    pub(crate) fn phase(&self) -> LifecyclePhase {
        *self.phase.borrow()
    }

    /// Advances to `phase`; never goes back.
    pub(crate) fn advance(&self, phase: LifecyclePhase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            if later {
                *now = phase;
            }
            later
        });
    }

    pub(crate) fn watch(&self) -> LifecycleWatch {
        LifecycleWatch { phase: self.phase.subscribe(), cut: None }
    }

    #[must_use]
    pub(crate) fn enter(&self) -> RunPermit {
        self.open_runs.count.fetch_add(1, Ordering::AcqRel);
        RunPermit(Arc::clone(&self.open_runs))
    }

    pub(crate) fn open_runs(&self) -> usize {
        self.open_runs.count.load(Ordering::Acquire)
    }

    /// Ends all open runs.
    pub(crate) fn cut(&self) {
        self.open_runs.cut.store(self.open_runs(), Ordering::Release);
        self.advance(LifecyclePhase::Cut);
    }

    /// Returns the number of runs that were open at the cut.
    pub(crate) fn cut_runs(&self) -> usize {
        self.open_runs.cut.load(Ordering::Acquire)
    }

    pub(crate) async fn wait_drained(&self) {
        // An error means that the sender was dropped because the process is ending.
        let _ = self.phase.subscribe().wait_for(|now| *now >= LifecyclePhase::Draining).await;
        self.wait_idle().await;
    }

    pub(crate) async fn wait_idle(&self) {
        loop {
            let notified = self.open_runs.idle.notified();
            if self.open_runs.count.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// Notifies a run that it must end.
pub(crate) struct LifecycleWatch {
    phase: watch::Receiver<LifecyclePhase>,
    /// waits for the cut, from the first poll on
    cut: Option<BoxFuture<'static, ()>>,
}

impl LifecycleWatch {
    pub(crate) fn is_cut(&self) -> bool {
        *self.phase.borrow() == LifecyclePhase::Cut
    }

    /// Waits until open runs must end. Cancel safe.
    pub(crate) fn wait_cut(&self) -> impl Future<Output = ()> + Send + use<> {
        wait_for_cut(self.phase.clone())
    }

    /// Wakes the task of the last poll at the cut.
    pub(crate) fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.cut.get_or_insert_with(|| wait_for_cut(self.phase.clone()).boxed()).poll_unpin(cx);
        if polled.is_ready() {
            self.cut = None;
        }
        polled
    }
}

async fn wait_for_cut(mut phase: watch::Receiver<LifecyclePhase>) {
    // An error means that the sender was dropped because the process is ending.
    let _ = phase.wait_for(|now| *now == LifecyclePhase::Cut).await;
}

#[derive(Debug)]
pub(crate) struct RunPermit(Arc<OpenRuns>);

impl Drop for RunPermit {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn idle_waits_for_the_last_permit_and_phases_never_go_back() {
        let lifecycle = Lifecycle::default();
        lifecycle.wait_idle().await;
        let permits = [lifecycle.enter(), lifecycle.enter()];
        let idle = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.wait_idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished());
        drop(permits);
        idle.await.expect("idle");
        lifecycle.advance(LifecyclePhase::Cut);
        lifecycle.advance(LifecyclePhase::Draining);
        assert_eq!(lifecycle.phase(), LifecyclePhase::Cut);
    }

    #[tokio::test]
    async fn notifies_runs_of_the_cut_but_not_of_draining() {
        let lifecycle = Lifecycle::default();
        let watch = lifecycle.watch();
        lifecycle.advance(LifecyclePhase::Draining);
        assert!(!watch.is_cut() && futures_util::poll!(Box::pin(watch.wait_cut())).is_pending());
        lifecycle.advance(LifecyclePhase::Cut);
        assert!(watch.is_cut() && lifecycle.watch().is_cut());
        watch.wait_cut().await;
        lifecycle.watch().wait_cut().await;
    }

    /// As for a run: its task looks for the cut at each event, while other threads change the phase.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn wakes_a_run_that_waits_at_the_cut_after_other_phases() {
        for _ in 0..500 {
            let lifecycle = Lifecycle::default();
            let mut watch = lifecycle.watch();
            let waiting = tokio::spawn(async move {
                for _ in 0..20 {
                    if futures_util::poll!(poll_fn(|cx| watch.poll_cut(cx))).is_ready() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                poll_fn(|cx| watch.poll_cut(cx)).await;
            });
            for phase in [LifecyclePhase::Leaving, LifecyclePhase::Draining, LifecyclePhase::Cut] {
                tokio::task::yield_now().await;
                lifecycle.advance(phase);
            }
            let limit = std::time::Duration::from_secs(9);
            tokio::time::timeout(limit, waiting).await.expect("a wake-up").expect("no panic");
        }
    }
}
