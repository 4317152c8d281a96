//! A run that is executed by the task of its client's connection.
//!
//! ```text
//!   start_run ── waits for the agent's answer, executing the run ──▶ head of the response, with the run in a slot
//!                                                                       │ HTTP/1: the connection takes it
//!                                                                       ▼
//!   one poll of the connection: the run reads, translates, writes to the pipe ─▶ the connection takes that and sends it
//! ```
//! So an event needs one wake-up and no other task. If the connection ends first, or cannot take the run, the run
//! continues in a task of its own, and notices through its pipe that the client is gone. Runs of HTTP/2 clients have
//! such a task from the beginning, since their streams share a connection; so have resumable runs and those that wait
//! for a second request, since they outlive a connection.

use super::pipe::PipeRelay;
pub(super) use super::pipe::RelayedPiece;
use crate::prefetch::prefetch;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A run until it ends. Dropped earlier, it continues in a task of its own.
pub(super) struct RunExecution(Option<BoxFuture<'static, ()>>);

impl RunExecution {
    pub(super) fn new(run: BoxFuture<'static, ()>) -> Self {
        RunExecution(Some(run))
    }

    /// Executes the run as far as possible.
    pub(super) fn poll_run(&mut self, cx: &mut Context<'_>) {
        let Some(mut run) = self.0.take() else { return };
        // As in a task of its own, a panic ends the run and aborts its pipe, not its connection.
        match std::panic::catch_unwind(AssertUnwindSafe(|| run.poll_unpin(cx))) {
            Ok(Poll::Pending) => self.0 = Some(run),
            Ok(Poll::Ready(())) | Err(_) => {}
        }
    }
}

impl Drop for RunExecution {
    fn drop(&mut self) {
        if let (Some(run), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(run);
        }
    }
}

/// A run and its pipe, for the connection that executes the one and empties the other.
pub(super) struct RelayedRun {
    execution: RunExecution,
    pipe: PipeRelay,
}

impl RelayedRun {
    pub(super) fn new(execution: RunExecution, pipe: PipeRelay) -> Self {
        RelayedRun { execution, pipe }
    }

    /// Fetches what an event touches, as far as it is known without the run.
    pub(super) fn prefetch(&self) {
        if let Some(run) = &self.execution.0 {
            prefetch(&**run);
        }
        self.pipe.prefetch();
    }

    pub(super) fn poll_run(&mut self, cx: &mut Context<'_>) {
        self.execution.poll_run(cx);
    }

    pub(super) fn take_piece(&self) -> RelayedPiece {
        self.pipe.take_piece()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_closed()
    }
}

/// Carries a run in the extensions of its response.
#[derive(Clone)]
pub(super) struct RelayedRunSlot(Arc<Mutex<Option<RelayedRun>>>);

impl RelayedRunSlot {
    pub(super) fn new(run: RelayedRun) -> Self {
        RelayedRunSlot(Arc::new(Mutex::new(Some(run))))
    }

    /// Returns the run if no other connection has taken it. From then on, the pipe wakes nobody.
    pub(super) fn take(&self) -> Option<RelayedRun> {
        let run = self.0.lock().take()?;
        run.pipe.begin();
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::pipe::{BodyAborted, pipe};
    use http_body_util::BodyExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;

    #[tokio::test]
    async fn a_dropped_run_continues_in_a_task() {
        let (ended, end) = tokio::sync::oneshot::channel();
        let mut execution = RunExecution::new(Box::pin(async move {
            tokio::task::yield_now().await;
            ended.send(()).expect("a listener");
        }));
        execution.poll_run(&mut Context::from_waker(Waker::noop()));
        drop(execution);
        end.await.expect("the run ends");
    }

    #[tokio::test]
    async fn a_run_that_panics_aborts_its_body_once() {
        let (writer, mut reader) = pipe(1, ());
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let mut execution = RunExecution::new(Box::pin(async move {
            let _writer = writer;
            assert!(runs.swap(true, Ordering::Relaxed), "a mistake in the run");
        }));
        for _ in 0..2 {
            execution.poll_run(&mut Context::from_waker(Waker::noop()));
        }
        assert_eq!(reader.frame().await.expect("an error").expect_err("cut off"), BodyAborted);
        assert!(has_run.load(Ordering::Relaxed));
    }
}
