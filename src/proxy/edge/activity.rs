//! What a connection does, and until when it may go on doing it.
//!
//! ```text
//!            first byte of a head              a request
//!   Quiet ─────────────────────────▶ Head ─────────────────▶ Busy(n)      Quiet: idle_timeout
//!     ▲                                                        │          Head:  head_timeout
//!     └──────────────── the last answer has ended ─────────────┘          Busy:  the run has deadlines of its own
//! ```
//! hyper has one clock for the pause before a request and for its head, and none for a connection of HTTP/2 that asks for
//! nothing but answers every PING. Nothing is timed per event or request: a clock that rings looks whether it should have.
//! It rings as often as the shorter of the two times passes, so that it is never late for a phase that began meanwhile.

use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a connection may stay in each phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// What one connection does.
#[derive(Debug)]
pub(super) struct Activity {
    phase: Mutex<Phase>,
    /// the last answer has ended, and somebody waits for that
    quiet: Notify,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Quiet {
        since: Instant,
    },
    Head {
        since: Instant,
    },
    Busy {
        /// those that have no whole answer yet
        requests: usize,
        /// whether somebody waits for the end of the last one
        awaited: bool,
    },
}

impl Activity {
    /// Of a connection whose first head has begun.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Activity { phase: Mutex::new(Phase::Head { since: Instant::now() }), quiet: Notify::new() })
    }

    /// A request came. It is in work until the returned value is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Busy {
        let mut phase = self.phase();
        match &mut *phase {
            Phase::Busy { requests, .. } => *requests += 1,
            Phase::Quiet { .. } | Phase::Head { .. } => *phase = Phase::Busy { requests: 1, awaited: false },
        }
        drop(phase);
        Busy(Arc::clone(self))
    }

    /// Bytes came.
    pub(super) fn heard(&self) {
        let mut phase = self.phase();
        if let Phase::Quiet { .. } = *phase {
            *phase = Phase::Head { since: Instant::now() };
        }
    }

    /// Bytes were taken by the peer. The end of an answer may leave when the request is over for everybody else.
    pub(super) fn taken(&self) {
        if let Phase::Quiet { since } = &mut *self.phase() {
            *since = Instant::now();
        }
    }

    /// Whether a request is in work.
    pub(super) fn is_busy(&self) -> bool {
        matches!(*self.phase(), Phase::Busy { .. })
    }

    /// Waits until the connection has been in one phase for too long. May be dropped while waiting.
    pub(super) async fn overdue(&self, patience: Patience) {
        let shorter = patience.head.min(patience.idle);
        loop {
            let until = match &mut *self.phase() {
                Phase::Quiet { since } => Some(*since + patience.idle),
                Phase::Head { since } => Some(*since + patience.head),
                Phase::Busy { awaited, .. } => {
                    *awaited = true;
                    None
                }
            };
            match until {
                Some(until) if until <= Instant::now() => return,
                // Boxed: a connection that is busy has no clock, and should not keep a place for one.
                Some(until) => Box::pin(sleep_until(until.min(Instant::now() + shorter))).await,
                None => self.quiet.notified().await,
            }
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in work.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut phase = self.0.phase();
        match &mut *phase {
            Phase::Busy { requests, .. } if *requests > 1 => *requests -= 1,
            Phase::Busy { awaited: true, .. } => {
                *phase = Phase::Quiet { since: Instant::now() };
                self.0.quiet.notify_one();
            }
            _ => *phase = Phase::Quiet { since: Instant::now() },
        }
    }
}

/// The body of an answer; its request is in work for as long as it is there.
#[derive(Debug)]
pub(super) struct Answering<B> {
    body: B,
    _busy: Busy,
}

impl<B> Answering<B> {
    pub(super) fn new(body: B, busy: Busy) -> Self {
        Answering { body, _busy: busy }
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, timeout};

    const PATIENCE: Patience = Patience { head: Duration::from_secs(30), idle: Duration::from_secs(75) };

    /// When the connection is given up, counted from now.
    async fn given_up(activity: &Activity) -> Option<Duration> {
        let since = Instant::now();
        let waited = timeout(Duration::from_secs(1000), activity.overdue(PATIENCE)).await;
        waited.ok().map(|()| since.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_own_clock_and_a_run_has_none() {
        let activity = Activity::new();
        assert_eq!(given_up(&activity).await, Some(PATIENCE.head));
        let (first, second) = (activity.enter(), activity.enter());
        assert_eq!(given_up(&activity).await, None);
        drop(first);
        assert!(activity.is_busy());
        drop(second);
        assert_eq!(given_up(&activity).await, Some(PATIENCE.idle));
        // Bytes of an answer that are taken late put the end off, bytes of a head do not, however they come.
        drop(activity.enter());
        advance(Duration::from_secs(60)).await;
        activity.taken();
        assert_eq!(given_up(&activity).await, Some(PATIENCE.idle));
        drop(activity.enter());
        activity.heard();
        advance(Duration::from_secs(20)).await;
        activity.heard();
        assert_eq!(given_up(&activity).await, Some(Duration::from_secs(10)));
    }

    /// A clock that was set for later does not keep an earlier one from ringing.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_hears_of_each_phase() {
        for patience in [PATIENCE, Patience { head: PATIENCE.idle, idle: PATIENCE.head }] {
            let activity = Activity::new();
            let waiting = Arc::clone(&activity);
            let waiting = tokio::spawn(async move { waiting.overdue(patience).await });
            let yields = async || tokio::task::yield_now().await;
            yields().await;
            let busy = activity.enter();
            yields().await;
            advance(Duration::from_secs(500)).await;
            drop(busy);
            yields().await;
            activity.heard();
            let since = Instant::now();
            waiting.await.expect("no panic");
            assert_eq!(since.elapsed(), patience.head);
        }
    }
}
