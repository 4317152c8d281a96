//! What a collector is told of a span: names and attributes by OpenTelemetry's semantic conventions for HTTP and for agents,
//! and `diglot.…` for what those have no word for. No credential, no body, no query; of who calls the address alone.

use super::collector::Collector;
use super::context::{Context, Parent, RANDOM, SpanId, TraceId};
use super::{Arrival, Method};
use crate::error::Rejection;
use crate::telemetry::Metrics;
use crate::telemetry::label::Outcome;
use crate::telemetry::occurrence::{Caller, Refused, RunEnded, shown};
use http::HeaderValue;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt, TraceFlags, TraceState, Tracer};
use opentelemetry::{Context as Surroundings, KeyValue, Value};
use opentelemetry_sdk::trace::Span;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Begins recordings.
#[derive(Clone)]
pub(super) struct Recorder(Arc<Collector>);

/// A span that a collector will hear of, unless nobody wants to.
#[derive(Default)]
pub(super) struct Recording(Option<Box<Span>>);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({})", self.is_recording())
    }
}

impl Recorder {
    pub(super) fn from_environment(metrics: &Arc<Metrics>) -> Result<Option<Recorder>, String> {
        Ok(Collector::from_environment(metrics)?.map(|collector| Recorder(Arc::new(collector))))
    }

    /// The span of a request of a client.
    pub(super) fn server(&self, parent: Option<&Parent>, arrival: Arrival<'_>) -> (Context, Recording) {
        let Arrival { method, route: (route, path), tls } = arrival;
        let mut attributes = vec![of_method(method), of("url.scheme", if tls { "https" } else { "http" })];
        // "HTTP span names SHOULD be `{method} {target}` if there is a (low-cardinality) `target` available": not what
        // the client wrote.
        let mut name = named(method).to_owned();
        if !route.is_empty() {
            attributes.extend([
                of("http.route", path.to_owned()),
                of("url.path", path.to_owned()),
                of("diglot.route", route.to_owned()),
            ]);
            name = format!("{name} {path}");
        }
        let parent = parent.map(|parent| (&parent.context, parent.state.as_ref()));
        self.begin(SpanKind::Server, name, attributes, parent)
    }

    /// The span of a request to an agent.
    pub(super) fn client(
        &self,
        of_request: &Context,
        state: Option<&HeaderValue>,
        method: Method,
        upstream: &str,
        path: &str,
    ) -> (Context, Recording) {
        let mut attributes = vec![
            of_method(method),
            of("url.full", format!("{upstream}{path}")),
            of("gen_ai.operation.name", "invoke_agent"),
            of("diglot.upstream", upstream.to_owned()),
        ];
        if let Some((_, place)) = upstream.split_once("://")
            && let Some((host, port)) = place.rsplit_once(':')
        {
            attributes.push(of("server.address", host.trim_matches(['[', ']']).to_owned()));
            attributes.extend(port.parse().ok().map(|port: i64| of("server.port", port)));
        }
        self.begin(SpanKind::Client, named(method).to_owned(), attributes, Some((of_request, state)))
    }

    pub(super) fn flush(&self, patience: Duration) {
        self.0.flush(patience);
    }

    fn begin(
        &self,
        kind: SpanKind,
        name: String,
        attributes: Vec<KeyValue>,
        parent: Option<(&Context, Option<&HeaderValue>)>,
    ) -> (Context, Recording) {
        let remote = kind == SpanKind::Server;
        let surroundings = parent.map_or_else(Surroundings::new, |(context, state)| {
            let state = state.and_then(|state| state.to_str().ok()?.parse().ok()).unwrap_or(TraceState::NONE);
            let (trace_id, span_id) = (context.trace_id.0.to_be_bytes(), context.span_id.0.to_be_bytes());
            let (flags, trace_id) = (TraceFlags::new(context.flags), opentelemetry::TraceId::from_bytes(trace_id));
            let span_id = opentelemetry::SpanId::from_bytes(span_id);
            Surroundings::new().with_remote_span_context(SpanContext::new(trace_id, span_id, flags, remote, state))
        });
        let tracer = self.0.tracer();
        let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let span = tracer.build_with_context(builder, &surroundings);
        let said = span.span_context();
        let own = Context {
            trace_id: TraceId(u128::from_be_bytes(said.trace_id().to_bytes())),
            span_id: SpanId(u64::from_be_bytes(said.span_id().to_bytes())),
            flags: parent.map_or(0, |(context, _)| context.flags & RANDOM),
        };
        let own = own.sampled(said.is_sampled());
        let recording = Recording(span.is_recording().then(|| Box::new(span)));
        (own, recording)
    }
}

impl Recording {
    pub(super) fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// The end of a run: its events, what it was, and how it ended.
    pub(super) fn run(&mut self, ended: &RunEnded<'_>) {
        let Some(mut span) = self.0.take() else { return };
        let now = SystemTime::now();
        if let Some(first) = ended.first_event {
            let at = now.checked_sub(ended.duration).and_then(|began| began.checked_add(first));
            span.add_event_with_timestamp("first event", at.unwrap_or(now), Vec::new());
        }
        let outcome = ended.outcome.label();
        span.add_event_with_timestamp("closed", now, vec![of("diglot.outcome", outcome)]);
        let code = ended.rejection.map_or(outcome, |rejection| rejection.kind.code());
        match ended.outcome {
            Outcome::Finished | Outcome::Cancelled => {}
            // Nothing is wrong with the gateway or the agent when its client leaves or has an old credential.
            Outcome::ClientGone | Outcome::Unread | Outcome::Expired => span.set_attribute(of("error.type", code)),
            Outcome::AgentError
            | Outcome::UpstreamError
            | Outcome::Drained
            | Outcome::Limited
            | Outcome::GatewayError => {
                span.set_attribute(of("error.type", code));
                // "For HTTP status codes in the 4xx range span status MUST be left unset in case of SpanKind.SERVER".
                if !(400..500).contains(&ended.status) {
                    span.set_status(Status::error(code));
                }
            }
        }
        let ids = ended.run.ids;
        let number = |name, value: u64| of(name, i64::try_from(value).unwrap_or(i64::MAX));
        let attributes = [
            of("http.response.status_code", i64::from(ended.status)),
            of("gen_ai.operation.name", "invoke_agent"),
            of("gen_ai.conversation.id", shown(&ids.thread_id.text().unwrap_or_default())),
            of("diglot.run_id", shown(&ids.run_id.text().unwrap_or_default())),
            of("diglot.request_id", ended.run.request_id.to_owned()),
            of("diglot.client_dialect", ended.dialects.0),
            of("diglot.agent_dialect", ended.dialects.1),
            of("diglot.outcome", outcome),
            number("diglot.events_in", ended.totals.events_in),
            number("diglot.events_out", ended.totals.events_out),
            number("diglot.bytes_in", ended.bytes.0),
            number("diglot.bytes_out", ended.bytes.1),
            number("diglot.repairs", ended.totals.repairs),
            number("diglot.losses", ended.totals.losses),
            number("diglot.resumed", ended.resumed.into()),
        ];
        span.set_attributes(attributes);
        span.set_attributes(ended.upstream.map(|upstream| of("diglot.upstream", upstream.to_owned())));
        span.set_attributes(address(ended.caller));
        span.end_with_timestamp(now);
    }

    pub(super) fn refusal(&mut self, refused: &Refused<'_>) {
        let Some(mut span) = self.0.take() else { return };
        let code = refused.rejection.kind.code();
        span.set_attribute(of("http.response.status_code", i64::from(refused.answered)));
        span.set_attribute(of("error.type", code));
        span.set_attribute(of("diglot.request_id", refused.request_id.to_owned()));
        span.set_attributes(address(refused.caller));
        // The same, also where the client hears of it in an event.
        if refused.rejection.status() >= 500 {
            span.set_status(Status::error(code));
        }
        span.end();
    }

    pub(super) fn answer(&mut self, status: u16) {
        if let Some(mut span) = self.0.take() {
            span.set_attribute(of("http.response.status_code", i64::from(status)));
            span.end();
        }
    }

    /// An agent has answered, and may say more. Where that is a refusal, it fails in a moment.
    pub(super) fn head(&mut self, status: u16) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(of("http.response.status_code", i64::from(status)));
        }
    }

    pub(super) fn fail(&mut self, rejection: &Rejection) {
        if let Some(mut span) = self.0.take() {
            let code = rejection.kind.code();
            span.set_attribute(of("error.type", code));
            span.set_status(Status::error(code));
            span.end();
        }
    }

    /// Nobody wants to know any more.
    pub(super) fn abandon(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.set_attribute(of("error.type", "cancelled"));
            span.end();
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.end();
        }
    }
}

fn of(name: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(name, value)
}

/// "If the HTTP request method is not known to instrumentation, it MUST set the `http.request.method` attribute to `_OTHER`."
fn of_method(method: Method) -> KeyValue {
    of("http.request.method", if method == Method::Other { "_OTHER" } else { method.label() })
}

/// In the name of a span: "when `{http.request.method}` is set to `_OTHER`, `{method}` MUST be `HTTP`."
fn named(method: Method) -> &'static str {
    if method == Method::Other { "HTTP" } else { method.label() }
}

fn address(caller: Caller<'_>) -> Option<KeyValue> {
    caller.address.map(|address| of("client.address", address.to_string()))
}
