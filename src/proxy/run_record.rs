//! What is known of a run by its end. It is gathered while the run goes on and said once, whatever becomes of the run: to the
//! log, the metrics and the collector of traces.
//!
//! ```text
//!   Due ── close: how it ended ─────────────────────────────────────▶ Said
//!    ╰──── dropped: the gateway failed, or was ended before the run ──▲
//! ```

use crate::error::{Kind, Rejection};
use crate::guard::Who;
use crate::telemetry::RouteMetrics;
use crate::telemetry::label::Outcome;
use crate::telemetry::metric::Totals;
use crate::telemetry::occurrence::{self, Which};
use crate::telemetry::trace::Trace;
use crate::translate::Ids;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One run, as the log tells of it.
pub(super) struct Account {
    pub route: Arc<str>,
    pub request_id: String,
    pub ids: Ids,
    /// who asked for the run
    pub who: Who,
    pub began: Instant,
    pub metrics: Arc<RouteMetrics>,
    /// what its client and its agent speak, as far as that is known
    pub dialects: (&'static str, &'static str),
    /// the upstream that answered last
    pub upstream: Option<Arc<str>>,
    /// what its client is answered with
    pub status: u16,
    /// from the request to the first event for the client
    pub first_event: Option<Duration>,
    pub totals: Totals,
    /// of the agent's events, and for the client
    pub bytes: (u64, u64),
    /// how often its agent's stream went on
    pub resumed: u32,
    /// how many streams have read it, where it outlives its client
    pub readers: Option<u64>,
    pub line: Line,
}

/// The last line of a run.
pub(super) enum Line {
    /// to be said; with it ends the span
    Due(Trace),
    Said,
}

impl Account {
    /// The run in lines of the log.
    pub(super) fn which(&self) -> Which<'_> {
        Which { route: &self.route, request_id: &self.request_id, ids: &self.ids }
    }

    /// Says how it ended.
    pub(super) fn close(&mut self, outcome: Outcome, rejection: Option<&Rejection>) {
        let Line::Due(trace) = std::mem::replace(&mut self.line, Line::Said) else { return };
        occurrence::RunEnded {
            run: self.which(),
            caller: self.who.caller(),
            dialects: self.dialects,
            upstream: self.upstream.as_deref(),
            status: self.status,
            outcome,
            rejection,
            first_event: self.first_event,
            duration: self.began.elapsed(),
            totals: self.totals,
            bytes: self.bytes,
            resumed: self.resumed,
            readers: self.readers,
        }
        .emit(&self.metrics, trace);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Where the process ends it no longer waits for a run that was not told so in time.
        let (outcome, kind) = match std::thread::panicking() {
            true => (Outcome::GatewayError, Kind::Internal),
            false => (Outcome::Drained, Kind::Draining),
        };
        self.close(outcome, Some(&kind.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI, Side};
    use crate::telemetry::Metrics;
    use crate::telemetry::label::Method;
    use crate::telemetry::trace::{Arrival, Tracing};

    fn account(metrics: &Metrics) -> Account {
        let arrival = Arrival { method: Method::Post, route: ("r", "/r"), tls: false };
        Account {
            route: "r".into(),
            request_id: "q".to_owned(),
            ids: Ids::new("t", "1"),
            who: Who::default(),
            began: Instant::now(),
            metrics: metrics.route("r", Side::new(&AG_UI), Side::new(&HAI)),
            dialects: ("ag-ui", "hai"),
            upstream: None,
            status: 200,
            first_event: None,
            totals: Totals::default(),
            bytes: (0, 0),
            resumed: 0,
            readers: None,
            line: Line::Due(Tracing::default().begin(None, arrival)),
        }
    }

    /// However a run ends, it is counted once, and so it has one line.
    #[test]
    fn a_run_that_is_torn_down_is_told_of_as_well_and_each_is_once() {
        let metrics = Metrics::new().expect("unique names");
        // Its series last as long as the handles.
        let one = account(&metrics);
        let ended = |outcome: &str| {
            metrics.render().contains(&format!("diglot_streams_total{{outcome=\"{outcome}\",route=\"r\"}} 1"))
        };
        let mut closed = account(&metrics);
        closed.close(Outcome::Finished, None);
        closed.close(Outcome::Finished, None);
        drop(closed);
        assert!(ended("finished") && !ended("drained") && !ended("gateway_error"));
        let torn = account(&metrics);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _torn = torn;
            panic!("as a fault of ours would");
        }));
        assert!(panicked.is_err() && ended("gateway_error") && !ended("drained"));
        drop(account(&metrics));
        assert!(ended("drained"));
        drop(one);
    }
}
