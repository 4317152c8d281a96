//! Records the steps, the counts and the end of a run in its capture, if it has one.

use super::super::deadlines::now_millis;
use super::super::run_record::RunRecord;
use crate::error::{Rejection, RejectionKind};
use crate::inspect::{CaptureStep, RunCapture, RunFacts};
use crate::telemetry::SHOWN_GAP;
use crate::telemetry::label::RunOutcome;
use crate::translate::TranslationReport;
use tokio::time::Instant;

/// The capture of a run; empty unless its route is captured.
pub(in super::super) struct OptionalCapture(pub(in super::super) Option<Box<RunCapture>>);

impl OptionalCapture {
    pub(super) fn step(&self, step: impl FnOnce() -> CaptureStep) {
        if let Some(capture) = &self.0 {
            capture.record_step(now_millis(), step());
        }
    }

    pub(super) fn failure(&self, rejection: &Rejection) {
        let message = if rejection.has_secret_detail { rejection.kind.text() } else { rejection.message() };
        self.step(|| CaptureStep::Failed(Box::new((rejection.kind.code().to_owned(), message.to_owned()))));
    }

    pub(super) fn moment(&self, name: &'static str, detail: impl FnOnce() -> Option<String>) {
        if let Some(capture) = &self.0 {
            capture.timeline().record(name, detail());
        }
    }

    /// Records a wait for the client since `began`, if it is long enough to show.
    pub(super) fn client_wait(&self, began: Instant) {
        if let Some(capture) = self.0.as_ref().filter(|_| began.elapsed() >= SHOWN_GAP) {
            capture.timeline().record_client_wait(began);
        }
    }

    /// Returns whether the capture may have the names that the agent gives its events.
    pub(super) fn names_types(&self) -> bool {
        self.0.as_ref().is_some_and(|capture| !capture.is_redacted())
    }

    /// Records the types of the report's events, before they are counted.
    pub(super) fn types(&mut self, report: &TranslationReport) {
        if let Some(capture) = &mut self.0 {
            capture.record_types(report);
        }
    }

    pub(super) fn update(&self, record: &RunRecord) {
        let Some(capture) = &self.0 else { return };
        let summary = &record.summary;
        capture.update_facts(RunFacts {
            upstream: summary.upstream.clone(),
            events_in: summary.totals.events_in,
            events_out: summary.totals.events_out,
            bytes_in: summary.bytes_read,
            bytes_out: summary.bytes_written,
            repairs: summary.totals.repairs,
            losses: summary.totals.losses,
            repair_kinds: summary.totals.repair_kinds,
            loss_kinds: summary.totals.loss_kinds,
            looks_like: summary.totals.foreign_dialect,
            // The capture begins before the gates.
            first_event: summary.first_event.map(|after| after + capture.delay(record.started_at)),
            refusal: None,
            end: None,
        });
    }

    pub(super) fn end(&mut self, record: &RunRecord, outcome: RunOutcome, rejection: Option<&Rejection>) {
        self.update(record);
        let Some(capture) = &mut self.0 else { return };
        let agent_error = record.summary.agent_error.as_deref();
        let (code, message) = match (rejection, agent_error) {
            // Only dialects are in this cause, and the way out is the operator's.
            (Some(rejection), _) if rejection.kind == RejectionKind::UpstreamDialect => {
                (Some(rejection.kind.code().to_owned()), rejection.logged_cause().map(str::to_owned))
            }
            (Some(rejection), _) if rejection.has_secret_detail => {
                let message = format!("{} {}", rejection.kind.text(), rejection.hint());
                (Some(rejection.kind.code().to_owned()), Some(message))
            }
            (Some(rejection), _) => (Some(rejection.kind.code().to_owned()), Some(rejection.message_and_hint())),
            // The agent's message may contain text that the route redacts.
            (None, Some(error)) => (error.code.clone(), (!capture.is_redacted()).then(|| error.message.clone())),
            (None, None) => (None, None),
        };
        let refusal = rejection.and_then(Rejection::agent_answer);
        if let Some(answer) = refusal {
            capture.timeline().record("responded", Some(answer.to_owned()));
            capture.record_refusal(answer);
        }
        capture.prepare_end(outcome.label(), code, message);
    }
}
