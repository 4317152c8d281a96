//! The record of a run: collected while it runs, emitted once to log, metrics and traces.

use crate::error::{Rejection, RejectionKind};
use crate::guard::CallerContext;
use crate::telemetry::RouteMetrics;
use crate::telemetry::internal_event::{self, RunInfo};
use crate::telemetry::label::RunOutcome;
use crate::telemetry::metric::RunTotals;
use crate::telemetry::trace::RequestSpan;
use crate::translate::RunIds;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct RunRecord {
    pub(crate) route: Arc<str>,
    pub(crate) request_id: String,
    pub(crate) ids: RunIds,
    pub(crate) caller: CallerContext,
    pub(crate) started_at: Instant,
    pub(crate) metrics: Arc<RouteMetrics>,
    pub(crate) client_dialect: &'static str,
    /// the detected one, once it is known
    pub(crate) agent_dialect: &'static str,
    /// the last one that responded
    pub(crate) upstream: Option<Arc<str>>,
    /// of the client's response
    pub(crate) status: u16,
    /// from the request to the first event for the client
    pub(crate) first_event: Option<Duration>,
    pub(crate) totals: RunTotals,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) reconnects: u32,
    /// present if the run outlives its client
    pub(crate) reader_count: Option<u64>,
    /// ends with the record; absent once that is emitted
    pub(crate) span: Option<RequestSpan>,
}

impl RunRecord {
    pub(super) fn log_fields(&self) -> RunInfo<'_> {
        RunInfo { route: &self.route, request_id: &self.request_id, ids: &self.ids }
    }

    /// Emits the record, unless that has happened.
    pub(super) fn close(&mut self, outcome: RunOutcome, rejection: Option<&Rejection>) {
        let Some(span) = self.span.take() else { return };
        let ended = internal_event::RunEnded {
            run: self.log_fields(),
            trace_id: span.id(),
            caller: self.caller.caller(),
            client_dialect: self.client_dialect,
            agent_dialect: self.agent_dialect,
            upstream: self.upstream.as_deref(),
            status: self.status,
            outcome,
            rejection,
            first_event: self.first_event,
            duration: self.started_at.elapsed(),
            totals: self.totals,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            resumed: self.reconnects,
            readers: self.reader_count,
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
            // An exiting process does not wait for runs that were not cut in time.
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
            client_dialect: "ag-ui",
            agent_dialect: "hai",
            upstream: None,
            status: 200,
            first_event: None,
            totals: RunTotals::default(),
            bytes_read: 0,
            bytes_written: 0,
            reconnects: 0,
            reader_count: None,
            span: Some(TraceProvider::default().begin(None, arrival)),
        }
    }

    #[test]
    fn records_each_run_exactly_once_even_when_dropped() {
        let metrics = Metrics::new().expect("unique names");
        // Its series last as long as the handles.
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
