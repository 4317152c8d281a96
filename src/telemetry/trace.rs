//! To which trace a request belongs, what its agent hears of that, and what a collector does.
//!
//! ```text
//!   traceparent ─▶ Parent ─▶ Trace, the request's own span ─▶ Calls ─▶ Call, a request to its agent: its id is the
//!                              │ taken by the run, or ended           │ traceparent there
//!                              │ with the answer                      │
//!                              ╰── Recording ─────────────────────────┴──▶ a bounded queue ─▶ the collector (`otel`)
//! ```
//! Ids there are always, in the log and for the agent. What is recorded of a span, and whether, is the affair of the feature
//! `otel` and of an endpoint in the environment; without them a `Recording` is nothing and takes no room.

#[cfg(feature = "otel")]
mod exporter_client;
#[cfg(feature = "otel")]
mod span_queue;
#[cfg(feature = "otel")]
mod collector;
mod trace_context;
#[cfg(not(feature = "otel"))]
mod disabled_recording;
#[cfg(feature = "otel")]
mod span_recording;

#[cfg(not(feature = "otel"))]
use disabled_recording as span_recording;

pub(crate) use trace_context::{TraceId, TraceParent};

use self::span_recording::{SpanRecorder, SpanRecording};
use self::trace_context::TraceContext;
use super::internal_event::{RequestRejected, RunEnded};
use super::{Metrics, label::RequestMethod};
use crate::error::Rejection;
use http::HeaderValue;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where spans go: to a collector, or nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceProvider(Option<SpanRecorder>);

/// What is known of a request when its span begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestAttributes<'a> {
    /// how it asks
    pub(crate) method: RequestMethod,
    /// its route's name and path, as configured; empty where none matched
    pub(crate) route: (&'a str, &'a str),
    /// whether it came over TLS
    pub(crate) tls: bool,
}

/// A request's span. Whoever holds it last ends it.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    context: TraceContext,
    tracestate: Option<Arc<HeaderValue>>,
    recorder: Option<SpanRecorder>,
    recording: SpanRecording,
}

/// Makes the spans of what is asked of agents for one request.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamSpanBuilder {
    parent: TraceContext,
    tracestate: Option<Arc<HeaderValue>>,
    /// where they are recorded, if they are
    recorder: Option<SpanRecorder>,
}

/// The span of one request to an agent. Where it is dropped before it has ended, nobody waited for the agent any more.
#[derive(Debug)]
pub(crate) struct UpstreamSpan {
    context: TraceContext,
    tracestate: Option<Arc<HeaderValue>>,
    recording: SpanRecording,
}

/// A request's place in a trace: among its extensions, so that the run that it starts can take its span. What is left there
/// ends with the answer.
#[derive(Clone)]
pub(crate) struct TraceExtension {
    id: TraceId,
    trace: Arc<Mutex<Option<RequestSpan>>>,
}

impl TraceProvider {
    /// Spans go where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin), and nowhere if it says nothing.
    ///
    /// # Errors
    /// Which variable cannot be meant, and why.
    pub(crate) fn from_environment(metrics: &Arc<Metrics>) -> Result<TraceProvider, String> {
        SpanRecorder::from_environment(metrics).map(TraceProvider)
    }

    /// The span of a request that came just now.
    #[must_use]
    pub(crate) fn begin(&self, parent: Option<&TraceParent>, arrival: RequestAttributes<'_>) -> RequestSpan {
        let state = parent.and_then(|parent| parent.tracestate.clone()).map(Arc::new);
        if let Some(recorder) = &self.0 {
            let (own, recording) = recorder.start_server_span(parent, arrival);
            // Of a request that nobody records its calls are not recorded either.
            let recorder = recording.is_recording().then(|| recorder.clone());
            return RequestSpan { context: own, tracestate: state, recorder, recording };
        }
        let own = parent.map_or_else(TraceContext::root, |parent| parent.context.child());
        RequestSpan { context: own, tracestate: state, recorder: None, recording: SpanRecording::default() }
    }

    /// Sends what waits, for no longer than that: the process ends. Blocks.
    pub(crate) fn flush(&self, timeout: Duration) {
        if let Some(recorder) = &self.0 {
            recorder.flush(timeout);
        }
    }
}

impl RequestSpan {
    /// Which trace it belongs to.
    #[must_use]
    pub(crate) fn id(&self) -> TraceId {
        self.context.trace_id
    }

    /// What makes the spans of its calls.
    #[must_use]
    pub(crate) fn upstream_spans(&self) -> UpstreamSpanBuilder {
        UpstreamSpanBuilder {
            parent: self.context,
            tracestate: self.tracestate.clone(),
            recorder: self.recorder.clone(),
        }
    }

    /// The run of the request has ended so.
    pub(super) fn finish_run(mut self, ended: &RunEnded<'_>) {
        self.recording.finish_run(ended);
    }

    /// The request was refused.
    pub(super) fn finish_rejected(mut self, refused: &RequestRejected<'_>) {
        self.recording.finish_rejected(refused);
    }

    /// The request was answered with that status, and is over.
    pub(crate) fn finish_response(mut self, status: u16) {
        self.recording.finish_response(status);
    }
}

impl UpstreamSpanBuilder {
    /// The span of a request to an agent that begins now.
    #[must_use]
    pub(crate) fn begin(&self, method: RequestMethod, upstream: &str, path: &str) -> UpstreamSpan {
        let (own, recording) = match &self.recorder {
            Some(recorder) => {
                recorder.start_client_span(&self.parent, self.tracestate.as_deref(), method, upstream, path)
            }
            None => (self.parent.child(), SpanRecording::default()),
        };
        UpstreamSpan { context: own, tracestate: self.tracestate.clone(), recording }
    }
}

impl UpstreamSpan {
    /// What the agent is told: its `traceparent`, and the `tracestate` that goes with it.
    #[must_use]
    pub(crate) fn propagation_headers(&self) -> (Option<HeaderValue>, Option<&HeaderValue>) {
        (self.context.to_header(), self.tracestate.as_deref())
    }

    /// The agent answered with that status.
    pub(crate) fn record_status(&mut self, status: u16) {
        self.recording.record_status(status);
    }

    /// It came to nothing, or broke off.
    pub(crate) fn record_failure(&mut self, rejection: &Rejection) {
        self.recording.finish_failed(rejection);
    }

    /// It is over, whatever is read of it yet.
    pub(crate) fn finish(&mut self) {
        self.recording.finish();
    }
}

impl Drop for UpstreamSpan {
    fn drop(&mut self) {
        self.recording.abandon();
    }
}

impl TraceExtension {
    /// A request's place in the trace that its span belongs to.
    #[must_use]
    pub(crate) fn new(trace: RequestSpan) -> TraceExtension {
        TraceExtension { id: trace.id(), trace: Arc::new(Mutex::new(Some(trace))) }
    }

    /// Which trace.
    #[must_use]
    pub(crate) fn id(&self) -> TraceId {
        self.id
    }

    /// The span, once: whoever takes it ends it.
    #[must_use]
    pub(crate) fn take(&self) -> Option<RequestSpan> {
        self.trace.lock().take()
    }
}

impl fmt::Debug for TraceExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.id)
    }
}
