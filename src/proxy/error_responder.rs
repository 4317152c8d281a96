//! The one place where a refusal becomes an answer, is logged and counted.

use super::accept;
use super::clock::now;
use super::gateway::{Body, Found, Gateway, whole};
use super::lifecycle::Phase;
use super::respond;
use crate::codec::Framing;
use crate::config::access::Errors;
use crate::config::field::REQUEST_ID;
use crate::dialect::Side;
use crate::error::{Kind, Rejection};
use crate::guard::{Matched, Who};
use crate::telemetry::trace::Traced;
use crate::telemetry::{label, occurrence};
use crate::translate::Stream;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, Version, header};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tower::Service;

/// Turns refusals into answers.
#[derive(Clone)]
pub(super) struct Answer<S> {
    pub inner: S,
    pub gateway: Arc<Gateway>,
}

impl<S> Service<Request<Incoming>> for Answer<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Rejection>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The leaf is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let id = request.headers().get(REQUEST_ID).cloned().unwrap_or_else(|| HeaderValue::from_static(""));
        let matched = request.extensions().get::<Arc<Matched>>().cloned();
        let who = request.extensions().get::<Who>().cloned().unwrap_or_default();
        let traced = request.extensions().get::<Traced>().cloned();
        let listener = self.gateway.listener(&request);
        let (method, began) = (label::Method::of(request.method().as_str()), Instant::now());
        // A message with both Transfer-Encoding and Content-Length may be processed by the first alone, but "the server
        // MUST close the connection after responding to such a request" [RFC 9112 §6.1]. hyper takes Content-Length away
        // before we see the request, so every request in chunks is the last of its connection: what follows it there may
        // be what a proxy in front of us took for its body.
        let one = request.version() < Version::HTTP_2;
        let last = one && request.headers().contains_key(header::TRANSFER_ENCODING);
        let (answer, gateway) = (self.inner.call(request), Arc::clone(&self.gateway));
        Box::pin(async move {
            let route = matched.as_ref().map_or("", |matched| &*matched.name);
            let metrics = matched.as_ref().map_or(gateway.metrics.nowhere(), |matched| matched.metrics.requests());
            let mut response = match answer.await {
                Ok(response) => response,
                Err(rejection) => {
                    let request_id = id.to_str().unwrap_or_default();
                    let response = match listener.filter(|_| is_for_runs(&rejection)) {
                        Some(listener) => {
                            respond::failed(&rejection, listener.error(&rejection, request_id), listener.framing)
                        }
                        None => respond::refusal(&rejection, &id),
                    };
                    let refused = occurrence::Refused {
                        route,
                        method,
                        request_id,
                        trace_id: traced.as_ref().map(Traced::id),
                        caller: who.caller(),
                        rejection: &rejection,
                        answered: response.status().as_u16(),
                    };
                    refused.emit(metrics, traced.as_ref().and_then(Traced::take));
                    response.map(whole)
                }
            };
            let status = response.status().as_u16();
            metrics.answered(method, status);
            // What its run has taken ends with the run.
            if let Some(trace) = traced.as_ref().and_then(Traced::take) {
                trace.answered(status);
            }
            metrics.took(began.elapsed());
            response.headers_mut().insert(REQUEST_ID, id);
            // Who is told so goes elsewhere with the next request, before this process closes the connection by itself and
            // perhaps under a request that is on its way.
            if last || (one && gateway.lifecycle.phase() != Phase::Serving) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// Whether a refusal is the affair of who wanted a run. What is no proper HTTP, or a page of a stranger, hears of it in
/// HTTP, whatever the route says.
fn is_for_runs(rejection: &Rejection) -> bool {
    let improper = rejection.headers.iter().any(|(name, _)| *name == header::CONNECTION);
    !improper && !matches!(rejection.kind, Kind::OriginNotAllowed | Kind::HeadersTooLarge)
}

/// A client that hears of refusals as it hears of everything else: in events.
struct Listener {
    client: Side,
    framing: Framing,
}

impl Listener {
    /// A stream of one RUN_ERROR.
    fn error(&self, rejection: &Rejection, request_id: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut stream = Stream::new(self.client, self.client, None, Default::default());
        stream.write_as(self.framing);
        // Whoever sees the event sees no field of the answer.
        let message = format!("{} {} (request {request_id})", rejection.message(), rejection.kind.hint());
        stream.fail(rejection.kind.code(), &message, now(), &mut out);
        out
    }
}

impl Gateway {
    /// Who sent a request, if it is to hear of refusals in events: on routes with `errors: run_error`, where it takes a
    /// stream. The first of two steps is answered with JSON, so there refusals stay what they are.
    fn listener(&self, request: &Request<Incoming>) -> Option<Listener> {
        let Found::Run(route) = self.find(request.uri().path())? else { return None };
        if route.starting.access.errors != Errors::RunError || route.desk.is_some() {
            return None;
        }
        let framing = accept::framing(request.headers(), route.client).ok()?;
        // What a client of an open route speaks is told by its body, which may not have come; then it hears the dialect
        // that such a route begins with.
        let client = Side { auto: false, ..route.client };
        (request.method() == Method::POST).then_some(Listener { client, framing })
    }
}
