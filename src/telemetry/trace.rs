//! Request traces: propagation to the agent, and the export of spans to a collector.
//!
//! ```text
//!   traceparent ─▶ TraceParent ─▶ RequestSpan ─▶ UpstreamSpanBuilder ─▶ UpstreamSpan, a request to the agent: its id is
//!                                   │ moved to the run, or ended          │ the traceparent there
//!                                   │ with the response                   │
//!                                   ╰── SpanRecording ────────────────────┴──▶ a bounded queue ─▶ the collector (`otel`)
//! ```
//! The log and the agent always get ids. Spans are recorded only with the feature `otel` and an endpoint in the
//! environment; without the feature a `SpanRecording` is zero-sized.

mod setup_error;
#[cfg(feature = "otel")]
mod exporter_client;
#[cfg(feature = "otel")]
mod span_queue;
#[cfg(feature = "otel")]
mod collector;
mod request_attributes;
#[cfg(not(feature = "otel"))]
mod disabled_recording;
#[cfg(feature = "otel")]
mod span_recording;

#[cfg(not(feature = "otel"))]
use disabled_recording as span_recording;

pub(crate) use super::trace_context::{TraceId, TraceParent};
pub(crate) use request_attributes::RequestAttributes;
pub(crate) use setup_error::TraceSetupError;

use self::span_recording::{SpanRecorder, SpanRecording};
use super::internal_event::{RequestRejected, RunEnded};
use super::label::RequestMethod;
use super::metric::Metrics;
use super::trace_context::TraceContext;
use crate::error::Rejection;
use http::HeaderValue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Starts request spans, and records them if a collector is configured.
#[derive(Clone, Default)]
pub(crate) struct TraceProvider(Option<SpanRecorder>);

/// The span of a request. Dropping it ends it.
pub(crate) struct RequestSpan {
    upstream_spans: UpstreamSpanBuilder,
    recording: SpanRecording,
}

/// Starts child spans for requests to agents.
#[derive(Clone)]
pub(crate) struct UpstreamSpanBuilder {
    parent: TraceContext,
    tracestate: Option<Arc<HeaderValue>>,
    recorder: Option<SpanRecorder>,
}

/// The span of one request to an agent. Dropping it before it is finished means that the request was cancelled.
pub(crate) struct UpstreamSpan {
    context: TraceContext,
    tracestate: Option<Arc<HeaderValue>>,
    recording: SpanRecording,
}

/// Holds the span in the request's extensions until a run takes it or the response ends.
#[derive(Clone)]
pub(crate) struct TraceExtension {
    id: TraceId,
    trace: Arc<Mutex<Option<RequestSpan>>>,
}

impl TraceProvider {
    /// Configures the collector from `OTEL_EXPORTER_OTLP_ENDPOINT` and related variables. Without them, no spans are
    /// recorded.
    pub(crate) fn from_environment(metrics: &Metrics) -> Result<TraceProvider, TraceSetupError> {
        SpanRecorder::from_environment(metrics).map(TraceProvider)
    }

    pub(crate) fn begin(&self, parent: Option<&TraceParent>, arrival: RequestAttributes<'_>) -> RequestSpan {
        let (context, recording) = match &self.0 {
            Some(recorder) => recorder.start_server_span(parent, arrival),
            None => {
                let own = parent.map_or_else(TraceContext::root, |parent| parent.context.child());
                (own, SpanRecording::default())
            }
        };
        let tracestate = parent.and_then(|parent| parent.tracestate.clone()).map(Arc::new);
        // If the request is not recorded, neither are its requests to agents.
        let recorder = self.0.clone().filter(|_| recording.is_recording());
        RequestSpan { upstream_spans: UpstreamSpanBuilder { parent: context, tracestate, recorder }, recording }
    }

    /// Sends the queued spans; blocks for at most `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) {
        if let Some(recorder) = &self.0 {
            recorder.flush(timeout);
        }
    }
}

impl RequestSpan {
    pub(crate) fn id(&self) -> TraceId {
        self.upstream_spans.parent.trace_id
    }

    pub(crate) fn upstream_spans(&self) -> UpstreamSpanBuilder {
        self.upstream_spans.clone()
    }

    pub(crate) fn finish_run(mut self, ended: &RunEnded<'_>) {
        self.recording.finish_run(ended);
    }

    pub(crate) fn finish_rejected(mut self, refused: &RequestRejected<'_>) {
        self.recording.finish_rejected(refused);
    }

    pub(crate) fn finish_response(mut self, status: u16) {
        self.recording.finish_response(status);
    }
}

impl UpstreamSpanBuilder {
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
    /// Returns `traceparent` and `tracestate` for a request to the agent.
    pub(crate) fn propagation_headers(&self) -> (Option<HeaderValue>, Option<&HeaderValue>) {
        (self.context.to_header(), self.tracestate.as_deref())
    }

    pub(crate) fn record_status(&mut self, status: u16) {
        self.recording.record_status(status);
    }

    pub(crate) fn record_failure(&mut self, rejection: &Rejection) {
        self.recording.finish_failed(rejection);
    }

    /// Ends the span, even if the response is never read completely.
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
    pub(crate) fn new(trace: RequestSpan) -> TraceExtension {
        TraceExtension { id: trace.id(), trace: Arc::new(Mutex::new(Some(trace))) }
    }

    pub(crate) fn id(&self) -> TraceId {
        self.id
    }

    /// Takes the span; the caller must end it.
    pub(crate) fn take(&self) -> Option<RequestSpan> {
        self.trace.lock().take()
    }
}
