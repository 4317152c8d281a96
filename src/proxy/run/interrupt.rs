//! The keep-alives of a run whose agent sends nothing, and the events that end it meanwhile.

use super::{OptionalCapture, RunTask, StartSender};
use crate::proxy::deadlines::RunDeadlines;
use crate::proxy::run_context::RunContext;
use crate::proxy::run_end::RunInterrupt;
use crate::proxy::run_output::RunOutput;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

impl RunTask {
    pub(super) async fn next_interrupt(&mut self, start_tx: Option<&StartSender>) -> RunInterrupt {
        let Self { output, capture, context, deadlines, .. } = self;
        poll_fn(|cx| Self::poll_interrupt(output, capture, context, deadlines, start_tx, cx)).await
    }

    /// Sends keep-alives while the agent sends nothing, until an event ends the run.
    pub(super) fn poll_interrupt(
        output: &mut RunOutput,
        capture: &OptionalCapture,
        context: &mut RunContext,
        deadlines: &mut RunDeadlines,
        start_tx: Option<&StartSender>,
        cx: &mut Context<'_>,
    ) -> Poll<RunInterrupt> {
        loop {
            if let Poll::Ready(reason) = output.poll_closed(cx) {
                return Poll::Ready(RunInterrupt::Stopped(reason));
            }
            if context.lifecycle.poll_cut(cx).is_ready() {
                return Poll::Ready(RunInterrupt::Cut);
            }
            let is_keep_alive_due = match ready!(deadlines.poll_tick(cx)) {
                Err(kind) => return Poll::Ready(RunInterrupt::DeadlineExpired(kind)),
                Ok(is_due) => is_due,
            };
            // A client that reads nothing must be noticed even if the agent sends so little that writes succeed.
            if let Err(reason) = output.drop_stalled() {
                return Poll::Ready(RunInterrupt::Stopped(reason));
            }
            if is_keep_alive_due {
                output.send_keep_alive(start_tx.is_none_or(oneshot::Sender::is_closed));
                capture.moment("keep_alive", || Some(format!("{} bytes so far", context.record.summary.bytes_read)));
            }
        }
    }
}
