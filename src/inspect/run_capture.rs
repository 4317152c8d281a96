//! The side of a captured run that the run itself has.

use super::capture_step::CaptureStep;
use super::captured_run::{CapturedRun, RunEnd, RunFacts, SeenTypes};
use super::kept_runs::KeptRuns;
use super::redaction::BodyRedactor;
use crate::codec::Framing;
use crate::telemetry::RunTimeline;
use crate::translate::TranslationReport;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Writes a captured run, which counts as ended when this is dropped.
#[derive(Debug)]
pub(crate) struct RunCapture {
    pub(super) run: Arc<CapturedRun>,
    kept: Arc<KeptRuns>,
    /// present if the route names content that must not be kept
    pub(super) redactor: Option<BodyRedactor>,
    /// set if the body cannot be redacted
    is_withheld: AtomicBool,
    /// copied to the run with its next facts, so that a write locks the log once
    types: SeenTypes,
    end: Option<RunEnd>,
}

impl RunCapture {
    pub(super) fn new(run: Arc<CapturedRun>, kept: Arc<KeptRuns>, redactor: Option<BodyRedactor>) -> RunCapture {
        let is_withheld = AtomicBool::new(false);
        RunCapture { run, kept, redactor, is_withheld, types: SeenTypes::default(), end: None }
    }

    pub(crate) fn timeline(&self) -> Arc<RunTimeline> {
        Arc::clone(&self.run.timeline)
    }

    /// Returns the time from the beginning of the capture to a moment.
    pub(crate) fn delay(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.run.head.started_at)
    }

    pub(crate) fn is_redacted(&self) -> bool {
        self.redactor.is_some()
    }

    pub(crate) fn record_read(&self, now_ms: i64, bytes: &[u8]) {
        match &self.redactor {
            None => self.append(now_ms, CaptureStep::Read(bytes.len()), bytes),
            Some(_) if self.is_withheld.load(Ordering::Relaxed) => self.run.withhold(bytes.len()),
            Some(redactor) => self.record_redacted(now_ms, &redactor.redact(bytes)),
        }
    }

    pub(crate) fn record_step(&self, now_ms: i64, step: CaptureStep) {
        if let Some(redactor) = &self.redactor {
            match &step {
                // Only the text of events is searched.
                CaptureStep::Responded(Framing::Proto) => self.is_withheld.store(true, Ordering::Relaxed),
                CaptureStep::BodyEnded | CaptureStep::Failed(_) => self.record_redacted(now_ms, &redactor.finish()),
                _ => {}
            }
        }
        self.append(now_ms, step, &[]);
    }

    fn record_redacted(&self, now_ms: i64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.append(now_ms, CaptureStep::Read(bytes.len()), bytes);
        }
    }

    fn append(&self, now_ms: i64, step: CaptureStep, bytes: &[u8]) {
        self.run.append(now_ms, step, bytes, || self.kept.evict_for_memory());
    }

    /// Records the types of the events that were counted since the last report.
    pub(crate) fn record_types(&mut self, report: &TranslationReport) {
        for switch in &report.dialect_switches {
            self.types.add(switch.from_dialect, &switch.events_read);
        }
        self.types.add(report.agent, &report.events_read);
        if let Some(names) = &report.agent_names {
            self.types.add_names(names.names());
        }
        self.types.add(report.client, &report.events_written);
    }

    pub(crate) fn update_facts(&self, facts: RunFacts) {
        let mut log = self.run.log.lock();
        self.run.add_types(&mut log, &self.types, || self.kept.evict_for_memory());
        log.facts = facts;
        log.version += 1;
    }

    pub(crate) fn run_facts(&self) -> RunFacts {
        self.run.facts()
    }

    /// Records how the agent refused the request, as far as the bounds allow it.
    pub(crate) fn record_refusal(&self, answer: &str) {
        self.run.add_refusal(answer, || self.kept.evict_for_memory());
    }

    /// Prepares the end, which counts when this is dropped: the agent may send something after it.
    pub(crate) fn prepare_end(&mut self, outcome: &'static str, code: Option<String>, message: Option<String>) {
        let duration = self.run.head.started_at.elapsed();
        self.end.get_or_insert(RunEnd { outcome, code, message, duration });
    }

    pub(crate) fn record_end(mut self, outcome: &'static str, code: Option<String>, message: Option<String>) {
        self.prepare_end(outcome, code, message);
    }
}

impl Drop for RunCapture {
    fn drop(&mut self) {
        self.prepare_end("drained", None, None);
        let Some(end) = self.end.take() else { return };
        let (outcome, duration) = (end.outcome, end.duration);
        let mut log = self.run.log.lock();
        log.facts.end = Some(end);
        log.version += 1;
        drop(log);
        self.kept.add_ended(&self.run, outcome, self.run.head.started_at + duration);
    }
}
