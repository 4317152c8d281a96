//! Stubs for builds without the feature `otel`.

use super::request_attributes::RequestAttributes;
use super::setup_error::TraceSetupError;
use crate::error::Rejection;
use crate::telemetry::internal_event::{RequestRejected, RunEnded};
use crate::telemetry::label::RequestMethod;
use crate::telemetry::metric::Metrics;
use crate::telemetry::trace_context::{TraceContext, TraceParent};
use http::HeaderValue;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) enum SpanRecorder {}

#[derive(Debug, Default)]
pub(super) struct SpanRecording;

impl SpanRecorder {
    pub(super) fn from_environment(_: &Metrics) -> Result<Option<SpanRecorder>, TraceSetupError> {
        Ok(None)
    }

    pub(super) fn start_server_span(
        &self,
        _: Option<&TraceParent>,
        _: RequestAttributes<'_>,
    ) -> (TraceContext, SpanRecording) {
        match *self {}
    }

    pub(super) fn start_client_span(
        &self,
        _: &TraceContext,
        _: Option<&HeaderValue>,
        _: RequestMethod,
        _: &str,
        _: &str,
    ) -> (TraceContext, SpanRecording) {
        match *self {}
    }

    pub(super) fn flush(&self, _: Duration) {
        match *self {}
    }
}

impl SpanRecording {
    pub(super) fn is_recording(&self) -> bool {
        false
    }

    pub(super) fn finish_run(&mut self, _: &RunEnded<'_>) {}

    pub(super) fn finish_rejected(&mut self, _: &RequestRejected<'_>) {}

    pub(super) fn finish_response(&mut self, _: u16) {}

    pub(super) fn record_status(&mut self, _: u16) {}

    pub(super) fn finish_failed(&mut self, _: &Rejection) {}

    pub(super) fn finish(&mut self) {}

    pub(super) fn abandon(&mut self) {}
}
