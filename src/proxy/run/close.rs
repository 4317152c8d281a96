//! The end of a run: the terminal event or a rejection, and the record.

use super::super::closed_run::ClosedRun;
use super::super::deadlines::now_millis;
use super::super::run_context::{RunContext, StartSender};
use super::super::run_end::{RunEndReason, explain_by_dialect, find_foreign_stream};
use super::super::upstream::Session;
use super::RunTask;
use super::late_events::{LateEvents, release_session};
use crate::config::access::{OnExpiry, RouteErrorFormat};
use crate::dialect::ThreadChange;
use crate::error::{Rejection, RejectionKind};
use crate::inspect::CaptureStep;
use crate::telemetry::label::RunOutcome;
use tokio::time::Instant;

impl RunTask {
    /// Ends the run. `session` is that of an agent that has ended it, and is used again.
    pub(super) async fn close(
        mut self: Box<Self>,
        reason: RunEndReason,
        start_tx: Option<StartSender>,
        session: Option<Box<Session>>,
    ) -> ClosedRun {
        let reason = match reason {
            RunEndReason::ClientGone if self.output.is_unread() => RunEndReason::Unread,
            reason => reason,
        };
        let abort = matches!(reason, RunEndReason::Expired) && self.context.access.on_token_expiry == OnExpiry::Close;
        let stopped = matches!(reason, RunEndReason::Stopped);
        let (outcome, mut rejection) = reason.into_outcome();
        let foreign = rejection.as_ref().and_then(|failure| find_foreign_stream(failure, &self.stream));
        let missing_payload = self.stream.missing_payload();
        rejection = foreign.map(|foreign| explain_by_dialect(foreign, missing_payload)).or(rejection);
        let is_gone = |failure: &Rejection| failure.kind == RejectionKind::UpstreamConversationLost;
        // Before the client can send the thread's next request.
        if rejection.as_ref().is_some_and(is_gone)
            && let Some(thread) = &mut self.context.thread
        {
            thread.change(ThreadChange::Forget).await;
        }
        let refused = start_tx.is_some_and(|start_tx| self.send_start(start_tx, rejection.as_ref()));
        // Sends the reason to a client that returns to an abandoned run.
        if outcome == RunOutcome::ClientGone && self.output.is_logged() {
            rejection = Some(RejectionKind::RunAbandoned.into());
        }
        match &rejection {
            // The only client already has its response.
            Some(_) if refused && !self.output.is_logged() => {}
            Some(_) if abort => self.output.abort(),
            Some(rejection) => {
                let (code, message) = (rejection.kind.code(), rejection.message());
                self.capture.failure(rejection);
                self.stream.fail(code, message, now_millis(), &mut self.out);
                self.flush_final().await;
            }
            None if stopped => {
                self.capture.step(|| CaptureStep::Cancelled);
                self.stream.cancel(now_millis(), &mut self.out);
                self.flush_final().await;
            }
            None => {}
        }
        if outcome == RunOutcome::AgentError {
            self.record_agent_error();
        }
        // Also counts what was read without producing an event for the client.
        self.capture.types(self.stream.report_mut());
        self.context.record_metrics(self.stream.report_mut());
        if let Some(foreign) = foreign {
            let totals = &mut self.context.record.summary.totals;
            (totals.foreign, totals.foreign_dialect) = (foreign.events, foreign.looks_like);
        }
        self.context.record.summary.totals.missing_payload = missing_payload;
        self.context.record.summary.reader_count = self.output.reader_count();
        self.capture.end(&self.context.record, outcome, rejection.as_ref());
        self.context.record.close(outcome, rejection.as_ref());
        let RunTask { output, capture, stream, context, memory, .. } = *self;
        let RunContext { lifecycle, slow_clients, caller_key, cluster, connector, .. } = context;
        if let Some(session) = session {
            let late = LateEvents::new(capture, stream, memory);
            tokio::spawn(async move { release_session(session, late, &cluster, &connector).await });
        }
        ClosedRun { output, lifecycle, slow_clients, caller: caller_key }
    }

    fn record_agent_error(&mut self) {
        let mut error = self.stream.take_agent_error();
        if let Some(error) = &mut error {
            let redaction = self.context.redaction.as_ref();
            error.shorten(|text| redaction.map_or_else(|| text.to_owned(), |redaction| redaction.redact_text(text)));
        }
        self.context.record.summary.agent_error = error;
    }

    fn send_start(&mut self, start_tx: StartSender, rejection: Option<&Rejection>) -> bool {
        let Some(rejection) = rejection else {
            // The client learns of the run's end from the stream.
            let _ = start_tx.send(Ok(()));
            return false;
        };
        if start_tx.is_closed() {
            return false;
        }
        // Before responding to the client, because it may immediately repeat the request.
        self.output.forget();
        let refused = start_tx.send(Err(rejection.clone())).is_ok();
        if refused && self.context.access.errors == RouteErrorFormat::Http {
            self.context.record.summary.status = rejection.status();
        }
        refused
    }

    async fn flush_final(&mut self) {
        // The run may have waited since it read.
        self.now = Instant::now();
        if self.flush_output().await.is_err() {
            // A client that has left misses nothing; one that returns reads it from the log.
            self.context.record.count_written(self.out.len());
            let _ = self.output.push(&mut self.out, self.stream.last_frame_number());
        }
    }
}
