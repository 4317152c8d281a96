//! The record of a run, written to the log, metrics and traces when the run ends.

use crate::error::{Rejection, RejectionKind};
use crate::policy::CallerContext;
use crate::telemetry::RouteMetrics;
use crate::telemetry::internal_event::{self, RunInfo, RunSummary};
use crate::telemetry::label::{EventDirection, RunOutcome};
use crate::telemetry::trace::RequestSpan;
use crate::translate::RunIds;
use std::sync::Arc;
use tokio::time::Instant;

// In this order in memory: what every event touches comes first.
#[repr(C)]
pub(super) struct RunRecord {
    pub(crate) metrics: Arc<RouteMetrics>,
    pub(crate) summary: RunSummary,
    pub(crate) started_at: Instant,
    pub(crate) route: Arc<str>,
    pub(crate) request_id: String,
    pub(crate) ids: RunIds,
    pub(crate) caller: CallerContext,
    /// `None` after the record has been written
    pub(crate) span: Option<RequestSpan>,
}

impl RunRecord {
    pub(super) fn log_fields(&self) -> RunInfo<'_> {
        RunInfo { route: &self.route, request_id: &self.request_id, ids: &self.ids }
    }

    pub(super) fn count_written(&mut self, bytes: usize) {
        self.metrics.series.bytes.get(EventDirection::ToClient).inc_by(bytes as u64);
        self.summary.bytes_written += bytes as u64;
    }

    /// Writes the record unless it has already been written.
    pub(super) fn close(&mut self, outcome: RunOutcome, rejection: Option<&Rejection>) {
        let Some(span) = self.span.take() else { return };
        let ended = internal_event::RunEnded {
            run: self.log_fields(),
            trace_id: span.id(),
            caller: self.caller.caller(),
            summary: &self.summary,
            outcome,
            rejection,
            duration: self.started_at.elapsed(),
        };
        span.finish_run(&ended);
        ended.emit(&self.metrics);
    }
}

impl Drop for RunRecord {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.close(RunOutcome::GatewayError, Some(&RejectionKind::Internal.into()));
        } else {
            // An exiting process does not wait for runs that did not end in time.
            self.close(RunOutcome::Drained, Some(&RejectionKind::Draining.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI, PeerDialect};
    use crate::telemetry::Metrics;
    use crate::telemetry::label::RequestMethod;
    use crate::telemetry::trace::{RequestAttributes, TraceProvider};

    fn test_record(metrics: &Metrics) -> RunRecord {
        let arrival = RequestAttributes { method: RequestMethod::Post, route: "r", path: "/r", tls: false };
        RunRecord {
            route: "r".into(),
            request_id: "q".to_owned(),
            ids: RunIds::new("t", "1"),
            caller: CallerContext::default(),
            started_at: Instant::now(),
            metrics: metrics.route("r", PeerDialect::new(&AG_UI), PeerDialect::new(&HAI)),
            summary: RunSummary::default(),
            span: Some(TraceProvider::default().begin(None, arrival)),
        }
    }

    #[test]
    fn records_each_run_exactly_once_even_when_dropped() {
        let metrics = Metrics::new().expect("unique names");
        // Its series exist as long as the handles.
        let one = test_record(&metrics);
        let ended = |outcome: &str| {
            metrics.render().contains(&format!("diglot_streams_total{{outcome=\"{outcome}\",route=\"r\"}} 1"))
        };
        let mut closed = test_record(&metrics);
        closed.close(RunOutcome::Finished, None);
        closed.close(RunOutcome::Finished, None);
        drop(closed);
        assert!(ended("finished") && !ended("drained") && !ended("gateway_error"));
        let torn = test_record(&metrics);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _torn = torn;
            panic!("as a fault of ours would");
        }));
        assert!(panicked.is_err() && ended("gateway_error") && !ended("drained"));
        drop(test_record(&metrics));
        assert!(ended("drained"));
        drop(one);
    }
}
