//! Span names and attributes, from OpenTelemetry's semantic conventions for HTTP and GenAI; others begin with
//! `diglot.`. They contain no credentials, bodies or queries, and no caller data except the address.

pub(super) use super::collector::SpanRecorder;
use super::request_attributes::RequestAttributes;
use crate::error::Rejection;
use crate::telemetry::internal_event::{CallerInfo, RequestRejected, RunEnded, format_id};
use crate::telemetry::label::{RequestMethod, RunOutcome};
use crate::telemetry::trace_context::{RANDOM_FLAG, SpanId, TraceContext, TraceId, TraceParent};
use http::HeaderValue;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt, TraceFlags, TraceState, Tracer};
use opentelemetry::{Context as SpanParent, KeyValue, Value};
use opentelemetry_sdk::trace::Span;
use std::time::SystemTime;

/// An open span; `None` if it is not recorded.
#[derive(Debug, Default)]
pub(super) struct SpanRecording(Option<Box<Span>>);

impl SpanRecorder {
    pub(super) fn start_server_span(
        &self,
        parent: Option<&TraceParent>,
        arrival: RequestAttributes<'_>,
    ) -> (TraceContext, SpanRecording) {
        let RequestAttributes { method, route, path, tls } = arrival;
        let mut attributes =
            vec![method_attribute(method), attribute("url.scheme", if tls { "https" } else { "http" })];
        // "HTTP span names SHOULD be `{method} {target}` if there is a (low-cardinality) `target` available": the
        // route's path, not the client's.
        let mut name = span_name(method).to_owned();
        if !route.is_empty() {
            attributes.extend([
                attribute("http.route", path.to_owned()),
                attribute("url.path", path.to_owned()),
                attribute("diglot.route", route.to_owned()),
            ]);
            name = format!("{name} {path}");
        }
        let parent = parent.map(|parent| (&parent.context, parent.tracestate.as_ref()));
        self.start_span(SpanKind::Server, name, attributes, parent)
    }

    pub(super) fn start_client_span(
        &self,
        parent: &TraceContext,
        state: Option<&HeaderValue>,
        method: RequestMethod,
        upstream: &str,
        path: &str,
    ) -> (TraceContext, SpanRecording) {
        let mut attributes = vec![
            method_attribute(method),
            attribute("url.full", format!("{upstream}{path}")),
            attribute("gen_ai.operation.name", "invoke_agent"),
            attribute("diglot.upstream", upstream.to_owned()),
        ];
        if let Some((_, place)) = upstream.split_once("://")
            && let Some((host, port)) = place.rsplit_once(':')
        {
            attributes.push(attribute("server.address", host.trim_matches(['[', ']']).to_owned()));
            attributes.extend(port.parse().ok().map(|port: i64| attribute("server.port", port)));
        }
        self.start_span(SpanKind::Client, span_name(method).to_owned(), attributes, Some((parent, state)))
    }

    fn start_span(
        &self,
        kind: SpanKind,
        name: String,
        attributes: Vec<KeyValue>,
        parent: Option<(&TraceContext, Option<&HeaderValue>)>,
    ) -> (TraceContext, SpanRecording) {
        let remote = kind == SpanKind::Server;
        let otel_parent = parent.map_or_else(SpanParent::new, |(context, state)| {
            SpanParent::new().with_remote_span_context(SpanContext::new(
                context.trace_id.0.into(),
                context.span_id.0.into(),
                TraceFlags::new(context.flags),
                remote,
                state.and_then(|state| state.to_str().ok()?.parse().ok()).unwrap_or(TraceState::NONE),
            ))
        });
        let builder = self.tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &otel_parent);
        let assigned = span.span_context();
        let own = TraceContext {
            trace_id: TraceId(u128::from_be_bytes(assigned.trace_id().to_bytes())),
            span_id: SpanId(u64::from_be_bytes(assigned.span_id().to_bytes())),
            flags: parent.map_or(0, |(context, _)| context.flags & RANDOM_FLAG),
        };
        let own = own.with_sampled(assigned.is_sampled());
        let recording = SpanRecording(span.is_recording().then(|| Box::new(span)));
        (own, recording)
    }
}

impl SpanRecording {
    pub(super) fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn finish_run(&mut self, ended: &RunEnded<'_>) {
        let Some(mut span) = self.0.take() else { return };
        let now = SystemTime::now();
        if let Some(first) = ended.summary.first_event {
            let at = now.checked_sub(ended.duration).and_then(|began| began.checked_add(first));
            span.add_event_with_timestamp("first event", at.unwrap_or(now), Vec::new());
        }
        let outcome = ended.outcome.label();
        span.add_event_with_timestamp("closed", now, vec![attribute("diglot.outcome", outcome)]);
        let code = ended.rejection.map_or(outcome, |rejection| rejection.kind.code());
        match ended.outcome {
            RunOutcome::Finished | RunOutcome::Cancelled => {}
            // Neither the gateway nor the agent failed: the client left, or its credential expired.
            RunOutcome::ClientGone | RunOutcome::Unread | RunOutcome::Expired => {
                span.set_attribute(attribute("error.type", code));
            }
            RunOutcome::AgentError
            | RunOutcome::UpstreamError
            | RunOutcome::Drained
            | RunOutcome::Limited
            | RunOutcome::GatewayError => {
                span.set_attribute(attribute("error.type", code));
                // "For HTTP status codes in the 4xx range span status MUST be left unset in case of SpanKind.SERVER".
                if !(400..500).contains(&ended.summary.status) {
                    span.set_status(Status::error(code));
                }
            }
        }
        let ids = ended.run.ids;
        let number = |name, value: u64| attribute(name, i64::try_from(value).unwrap_or(i64::MAX));
        let attributes = [
            attribute("http.response.status_code", i64::from(ended.summary.status)),
            attribute("gen_ai.operation.name", "invoke_agent"),
            attribute("gen_ai.conversation.id", format_id(&ids.thread_id)),
            attribute("diglot.run_id", format_id(&ids.run_id)),
            attribute("diglot.request_id", ended.run.request_id.to_owned()),
            attribute("diglot.client_dialect", ended.summary.client_dialect),
            attribute("diglot.agent_dialect", ended.summary.agent_dialect),
            attribute("diglot.outcome", outcome),
            number("diglot.events_in", ended.summary.totals.events_in),
            number("diglot.events_out", ended.summary.totals.events_out),
            number("diglot.bytes_in", ended.summary.bytes_read),
            number("diglot.bytes_out", ended.summary.bytes_written),
            number("diglot.repairs", ended.summary.totals.repairs),
            number("diglot.losses", ended.summary.totals.losses),
            number("diglot.resumed", ended.summary.reconnects.into()),
        ];
        span.set_attributes(attributes);
        span.set_attributes(
            ended.summary.upstream.as_deref().map(|upstream| attribute("diglot.upstream", upstream.to_owned())),
        );
        span.set_attributes(client_address(ended.caller));
        span.end_with_timestamp(now);
    }

    pub(super) fn finish_rejected(&mut self, refused: &RequestRejected<'_>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(attribute("diglot.request_id", refused.request_id.to_owned()));
            span.set_attributes(client_address(refused.caller));
        }
        self.record_status(refused.response_status);
        let code = refused.rejection.kind.code();
        // Uses the rejection's own status, even if the client receives an event.
        self.finish_with_error(code, refused.rejection.status() >= 500);
    }

    pub(super) fn finish_response(&mut self, status: u16) {
        self.record_status(status);
        self.finish();
    }

    /// Records the agent's status without ending the span.
    pub(super) fn record_status(&mut self, status: u16) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(attribute("http.response.status_code", i64::from(status)));
        }
    }

    pub(super) fn finish_failed(&mut self, rejection: &Rejection) {
        self.finish_with_error(rejection.kind.code(), true);
    }

    pub(super) fn abandon(&mut self) {
        self.finish_with_error("cancelled", false);
    }

    pub(super) fn finish(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.end();
        }
    }

    fn finish_with_error(&mut self, error_type: &'static str, is_failure: bool) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(attribute("error.type", error_type));
            if is_failure {
                span.set_status(Status::error(error_type));
            }
        }
        self.finish();
    }
}

fn attribute(name: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(name, value)
}

/// Returns the method as a span attribute: "If the HTTP request method is not known to instrumentation, it MUST set the
/// `http.request.method` attribute to `_OTHER`."
fn method_attribute(method: RequestMethod) -> KeyValue {
    attribute("http.request.method", if method == RequestMethod::Other { "_OTHER" } else { method.label() })
}

/// Returns the method for a span's name: "when `{http.request.method}` is set to `_OTHER`, `{method}` MUST be `HTTP`."
fn span_name(method: RequestMethod) -> &'static str {
    if method == RequestMethod::Other { "HTTP" } else { method.label() }
}

fn client_address(caller: CallerInfo<'_>) -> Option<KeyValue> {
    caller.address.map(|address| attribute("client.address", address.to_string()))
}
