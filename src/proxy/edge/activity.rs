//! The phases of a client connection, and their timeouts.
//!
//! ```text
//!            first byte of a head              a request
//!   Idle ─────────────────────▶ ReadingHead ───────────────▶ Busy(n)      Idle:        idle_timeout
//!     ▲                                                         │         ReadingHead: head_timeout
//!     ╰──────────────── the last response has ended ────────────╯         Busy:        SEND_TIMEOUT for whole
//! responses;
//!                                                                                      a run has its own deadlines
//! ```
//! hyper has one timer for the pause before a request and for its head, and none for an idle HTTP/2 connection that
//! answers every PING. Here one timer checks the phase when it fires, at least once per shorter timeout, so that events
//! and requests cost nothing.

use crate::proxy::pipe::SEND_TIMEOUT;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimeouts {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

#[derive(Debug)]
pub(super) struct ConnectionActivity {
    phase: Mutex<ConnectionPhase>,
    /// wakes a task that waits for the end of the last response
    idle: Notify,
}

#[derive(Clone, Copy, Debug)]
enum ConnectionPhase {
    Idle {
        since: Instant,
    },
    ReadingHead {
        since: Instant,
    },
    Busy {
        /// requests whose responses are incomplete
        requests: usize,
        /// responses with a body of known size, which an HTTP/2 client with a closed window may never take
        whole_responses: usize,
        /// when one of them last began or ended
        progress_at: Instant,
        has_waiter: bool,
    },
}

impl ConnectionActivity {
    /// Creates the state of a connection that is waiting for its first request head.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(ConnectionActivity {
            phase: Mutex::new(ConnectionPhase::ReadingHead { since: Instant::now() }),
            idle: Notify::new(),
        })
    }

    /// Counts a request until the returned guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        let mut phase = self.phase.lock();
        match &mut *phase {
            ConnectionPhase::Busy { requests, .. } => *requests += 1,
            ConnectionPhase::Idle { .. } | ConnectionPhase::ReadingHead { .. } => {
                *phase = ConnectionPhase::Busy {
                    requests: 1,
                    whole_responses: 0,
                    progress_at: Instant::now(),
                    has_waiter: false,
                }
            }
        }
        drop(phase);
        ActiveRequest { activity: Arc::clone(self), has_whole_response: AtomicBool::new(false) }
    }

    pub(super) fn on_read(&self) {
        let mut phase = self.phase.lock();
        if let ConnectionPhase::Idle { .. } = *phase {
            *phase = ConnectionPhase::ReadingHead { since: Instant::now() };
        }
    }

    /// Restarts the idle timeout, since the end of a response may be written after its request is done.
    pub(super) fn on_write(&self) {
        if let ConnectionPhase::Idle { since } = &mut *self.phase.lock() {
            *since = Instant::now();
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(*self.phase.lock(), ConnectionPhase::Busy { .. })
    }

    /// Waits until the current phase exceeds its timeout. Cancel safe.
    pub(super) async fn wait_overdue(&self, timeouts: ConnectionTimeouts) {
        let shorter = timeouts.head.min(timeouts.idle);
        loop {
            let until = match &mut *self.phase.lock() {
                ConnectionPhase::Idle { since } => Some(*since + timeouts.idle),
                ConnectionPhase::ReadingHead { since } => Some(*since + timeouts.head),
                ConnectionPhase::Busy { has_waiter, whole_responses, progress_at, .. } => {
                    *has_waiter = true;
                    (*whole_responses > 0).then(|| *progress_at + SEND_TIMEOUT)
                }
            };
            match until {
                Some(until) if until <= Instant::now() => return,
                // Boxed: a busy connection has no timer, and must not reserve memory for one.
                Some(until) => Box::pin(sleep_until(until.min(Instant::now() + shorter))).await,
                None => self.idle.notified().await,
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct ActiveRequest {
    activity: Arc<ConnectionActivity>,
    has_whole_response: AtomicBool,
}

impl ActiveRequest {
    /// Starts [`SEND_TIMEOUT`] for a response of known size. Responses of unknown size notice a stalled client
    /// themselves.
    pub(super) fn begin_response(&self, size: SizeHint) {
        if size.exact().is_some_and(|bytes| bytes > 0) {
            self.begin_rest();
        }
    }

    /// Starts [`SEND_TIMEOUT`] for the rest of a response, which nothing is added to.
    pub(super) fn begin_rest(&self) {
        if self.has_whole_response.swap(true, Ordering::Relaxed) {
            return;
        }
        if let ConnectionPhase::Busy { whole_responses, progress_at, has_waiter, .. } = &mut *self.activity.phase.lock()
        {
            *whole_responses += 1;
            if *whole_responses == 1 {
                *progress_at = Instant::now();
                if *has_waiter {
                    self.activity.idle.notify_one();
                }
            }
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut phase = self.activity.phase.lock();
        match &mut *phase {
            ConnectionPhase::Busy { requests, whole_responses, progress_at, .. } if *requests > 1 => {
                *requests -= 1;
                if *self.has_whole_response.get_mut() {
                    *whole_responses -= 1;
                    *progress_at = Instant::now();
                }
            }
            ConnectionPhase::Busy { has_waiter, .. } => {
                if *has_waiter {
                    self.activity.idle.notify_one();
                }
                *phase = ConnectionPhase::Idle { since: Instant::now() };
            }
            ConnectionPhase::Idle { .. } | ConnectionPhase::ReadingHead { .. } => {}
        }
    }
}

/// Keeps the request counted until the body is dropped.
#[derive(Debug)]
pub(super) struct TrackedBody<B> {
    body: B,
    _request: ActiveRequest,
}

impl<B: Body> TrackedBody<B> {
    pub(super) fn new(body: B, request: ActiveRequest) -> Self {
        request.begin_response(body.size_hint());
        TrackedBody { body, _request: request }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
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

    const TIMEOUTS: ConnectionTimeouts =
        ConnectionTimeouts { head: Duration::from_secs(30), idle: Duration::from_secs(75) };

    async fn time_until_overdue(activity: &ConnectionActivity) -> Option<Duration> {
        let since = Instant::now();
        let waited = timeout(Duration::from_secs(1000), activity.wait_overdue(TIMEOUTS)).await;
        waited.ok().map(|()| since.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn times_out_the_head_and_idle_phases_but_not_a_run() {
        let activity = ConnectionActivity::new();
        assert_eq!(time_until_overdue(&activity).await, Some(TIMEOUTS.head));
        let first = activity.begin_request();
        let second = activity.begin_request();
        assert_eq!(time_until_overdue(&activity).await, None);
        drop(first);
        assert!(activity.is_busy());
        drop(second);
        assert_eq!(time_until_overdue(&activity).await, Some(TIMEOUTS.idle));
        // Late reads of a response postpone the timeout; the bytes of a head do not.
        drop(activity.begin_request());
        advance(Duration::from_secs(60)).await;
        activity.on_write();
        assert_eq!(time_until_overdue(&activity).await, Some(TIMEOUTS.idle));
        drop(activity.begin_request());
        activity.on_read();
        advance(Duration::from_secs(20)).await;
        activity.on_read();
        assert_eq!(time_until_overdue(&activity).await, Some(Duration::from_secs(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_the_waiting_task_at_each_phase_change() {
        for timeouts in [TIMEOUTS, ConnectionTimeouts { head: TIMEOUTS.idle, idle: TIMEOUTS.head }] {
            let activity = ConnectionActivity::new();
            let waiting = Arc::clone(&activity);
            let waiting = tokio::spawn(async move { waiting.wait_overdue(timeouts).await });
            let yields = async || tokio::task::yield_now().await;
            yields().await;
            let busy = activity.begin_request();
            yields().await;
            advance(Duration::from_secs(500)).await;
            drop(busy);
            yields().await;
            activity.on_read();
            let since = Instant::now();
            waiting.await.expect("no panic");
            assert_eq!(since.elapsed(), timeouts.head);
        }
    }
}
