//! The keep-alives of a run whose agent sends nothing, and the events that end it meanwhile.

use super::capture::OptionalCapture;
use crate::proxy::deadlines::RunDeadlines;
use crate::proxy::registered_waker::RegisteredWaker;
use crate::proxy::run_context::{RunContext, StartSender};
use crate::proxy::run_end::RunInterrupt;
use crate::proxy::run_output::RunOutput;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// The parts of a waiting run that may end it.
pub(super) struct InterruptSources<'r> {
    pub(super) output: &'r mut RunOutput,
    pub(super) capture: &'r OptionalCapture,
    pub(super) context: &'r mut RunContext,
    pub(super) deadlines: &'r mut RunDeadlines,
    /// present while the client has no response
    pub(super) start_tx: Option<&'r StartSender>,
}

impl InterruptSources<'_> {
    /// Sends keep-alives while the agent sends nothing, until an event ends the run. Looks at its sources only if one
    /// of them has woken the task: the agent wakes it far more often.
    pub(super) fn poll(&mut self, waker: &mut RegisteredWaker, cx: &mut Context<'_>) -> Poll<RunInterrupt> {
        if self.deadlines.is_timer_stale() {
            waker.clear();
        }
        waker.poll(pin!(poll_fn(|cx| self.poll_all(cx))), cx)
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<RunInterrupt> {
        loop {
            if let Poll::Ready(reason) = self.output.poll_closed(cx) {
                return Poll::Ready(RunInterrupt::Stopped(reason));
            }
            if self.context.lifecycle.poll_cut(cx).is_ready() {
                return Poll::Ready(RunInterrupt::Cut);
            }
            let is_keep_alive_due = match ready!(self.deadlines.poll_tick(cx)) {
                Err(kind) => return Poll::Ready(RunInterrupt::DeadlineExpired(kind)),
                Ok(is_due) => is_due,
            };
            // A client that reads nothing must be noticed even if the agent sends so little that writes succeed.
            if let Err(reason) = self.output.drop_stalled() {
                return Poll::Ready(RunInterrupt::Stopped(reason));
            }
            if is_keep_alive_due {
                self.output.send_keep_alive(self.start_tx.is_none_or(oneshot::Sender::is_closed));
                let bytes_read = self.context.record.summary.bytes_read;
                self.capture.moment("keep_alive", || Some(format!("{bytes_read} bytes so far")));
            }
        }
    }
}
