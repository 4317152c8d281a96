//! Converts every rejection to a response, logs it and counts it.

use super::deadlines::now_millis;
use super::gateway::Gateway;
use super::lifecycle::LifecyclePhase;
use super::negotiation;
use super::request_body::RequestBody;
use super::responses::{self, ResponseBody};
use super::routes::{PathMatch, PathTarget};
use crate::codec::Framing;
use crate::config::access::RouteErrorFormat;
use crate::config::header_names::REQUEST_ID;
use crate::dialect::{PeerDialect, value_aliases};
use crate::error::Rejection;
use crate::policy::{CallerContext, RouteMatch};
use crate::telemetry::trace::TraceExtension;
use crate::telemetry::{internal_event, label};
use crate::translate::Stream;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, Version, header};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tower::Service;

#[derive(Clone)]
pub(super) struct ErrorResponder<S> {
    pub(crate) inner: S,
    pub(crate) gateway: Arc<Gateway>,
}

impl<S> Service<Request<RequestBody>> for ErrorResponder<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Error = Rejection>,
    S::Future: Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The innermost service is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        let id = request.headers().get(REQUEST_ID).cloned().unwrap_or_else(|| HeaderValue::from_static(""));
        let matched = request.extensions().get::<Arc<RouteMatch>>().cloned();
        let caller = request.extensions().get::<CallerContext>().cloned().unwrap_or_default();
        let trace = request.extensions().get::<TraceExtension>().cloned();
        let run_error_writer = self.gateway.run_error_writer(&request);
        let found = self.gateway.find(request.uri().path());
        let client = found.as_ref().map(|found| found.route.client);
        let captured = found.and_then(|found| self.gateway.capture_request(&found, &mut request));
        let method = label::RequestMethod::from_name(request.method().as_str());
        let is_head = request.method() == Method::HEAD;
        let started_at = Instant::now();
        let is_http1 = request.version() < Version::HTTP_2;
        let is_last = is_http1 && is_last_of_connection(&request);
        let response = self.inner.call(request);
        let gateway = Arc::clone(&self.gateway);
        Box::pin(async move {
            let route = matched.as_ref().map_or("", |matched| &*matched.name);
            let metrics = matched.as_ref().map_or(&gateway.metrics.unrouted, |matched| matched.metrics.requests());
            let mut response = match response.await {
                Ok(response) => response,
                Err(rejection) => {
                    let request_id = id.to_str().unwrap_or_default();
                    let response = match run_error_writer.filter(|_| rejection.is_run_error()) {
                        Some(writer) => writer.respond(&rejection, request_id),
                        None => {
                            let code = rejection.kind.code();
                            let code = client.map_or(code, |client| value_aliases::wire_code(client, code));
                            responses::problem(&rejection, code, request_id)
                        }
                    };
                    let event = internal_event::RequestRejected {
                        route,
                        method,
                        request_id,
                        trace_id: trace.as_ref().map(TraceExtension::id),
                        caller: caller.caller(),
                        rejection: &rejection,
                        response_status: response.status().as_u16(),
                    };
                    // If the agent rejected the run, the run has the span.
                    if let Some(span) = trace.as_ref().and_then(TraceExtension::take) {
                        span.finish_rejected(&event);
                        if let Some(captured) = captured {
                            captured.record_refusal(&caller, &rejection);
                        }
                    }
                    event.emit(metrics);
                    response
                }
            };
            if is_head && !is_http1 {
                responses::remove_content(&mut response);
            }
            let status = response.status().as_u16();
            metrics.inc_response(method, status);
            // If a run was started, it owns the trace and will finish it.
            if let Some(trace) = trace.as_ref().and_then(TraceExtension::take) {
                trace.finish_response(status);
            }
            metrics.head_latency.observe(started_at.elapsed());
            response.headers_mut().insert(REQUEST_ID, id);
            // Makes the client send its next request elsewhere, before this process closes the connection, possibly
            // with a request in flight.
            if is_last || (is_http1 && gateway.lifecycle.phase() != LifecyclePhase::Serving) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// Returns true for a chunked request. A message with both Transfer-Encoding and Content-Length may be processed by the
/// former alone, but "the server MUST close the connection after responding to such a request" [RFC 9112 §6.1]. hyper
/// removes Content-Length before this code sees the request, so every chunked request is its connection's last: what
/// follows may be what a proxy in front considered its body.
fn is_last_of_connection(request: &Request<RequestBody>) -> bool {
    request.headers().contains_key(header::TRANSFER_ENCODING)
}

/// Formats rejections as RUN_ERROR, for clients that display nothing else.
struct RunErrorWriter {
    client: PeerDialect,
    framing: Framing,
}

impl RunErrorWriter {
    fn respond(&self, rejection: &Rejection, request_id: &str) -> Response<ResponseBody> {
        let mut out = Vec::new();
        let mut stream = Stream::new(self.client, self.client, None, Default::default());
        stream.write_as(self.framing);
        let mut message = rejection.message_and_hint();
        // A streaming client sees none of the response headers. The message may have the id as a reference.
        if !message.contains(&format!(": {request_id}.")) {
            message += &format!(" (request {request_id})");
        }
        stream.fail(rejection.kind.code(), &message, now_millis(), &mut out);
        responses::run_error_stream(rejection, out, self.framing)
    }
}

impl Gateway {
    /// Returns a writer on routes with `errors: run_error` if the client accepts a stream. The JSON start of a two-step
    /// run still gets problem documents.
    fn run_error_writer(&self, request: &Request<RequestBody>) -> Option<RunErrorWriter> {
        let PathMatch { route, target: PathTarget::Run, .. } = self.find(request.uri().path())? else { return None };
        if route.start_match.access.errors != RouteErrorFormat::RunError || route.two_step.is_some() {
            return None;
        }
        let framing = negotiation::negotiate(request.headers(), route.client).ok()?;
        // On an `auto` route the body reveals the client's dialect, but it may not have arrived yet; in that case the
        // route's initial dialect is used.
        let client = PeerDialect { is_auto: false, ..route.client };
        (request.method() == Method::POST).then_some(RunErrorWriter { client, framing })
    }
}
