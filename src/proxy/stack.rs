//! The stack that every request passes, outermost first.
//!
//! ```text
//!   request ─▶ id ─▶ route ─▶ trace ─▶ pages (CORS) ─▶ refusals become answers ─▶ the gates of the guard ─▶ the leaf: a run
//! ```
//! What stands here needs to know of HTTP and routes; who may call, how often and how much is decided by the gates, which
//! [`guard::gates`] lists in the same way.

use super::gateway::{Body, Gateway};
use super::refusal::Answer;
use crate::config::field::{REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::guard::cors::Pages;
use crate::guard::peer::Peer;
use crate::guard::upstream::is_nominated;
use crate::guard::{self, Matched, Who};
use crate::telemetry::label;
use crate::telemetry::trace::{Arrival, Parent, Trace, Traced, Tracing};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use tower::{Service, ServiceBuilder, service_fn};
use uuid::Uuid;

/// Longest request id that is taken over from a client.
const REQUEST_ID_LIMIT: usize = 128;

/// The stack in front of the gateway.
pub fn stack(
    gateway: Arc<Gateway>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let (matching, answering, tracing) = (Arc::clone(&gateway), Arc::clone(&gateway), gateway.tracing.clone());
    let guard = Arc::clone(&gateway.guard);
    let asked = Arc::clone(&guard);
    // The leaf: body, translation, run.
    let leaf = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.answer(request).await }
    });
    ServiceBuilder::new()
        // An id first, so that everything below, refusals too, is answered and logged with one.
        .map_request(with_request_id)
        // Then the route: everything below asks what it wants.
        .map_request(move |request| with_route(&matching, request))
        // Then its trace, which has the route in it. Refusals are part of it, too.
        .map_request(move |request| with_trace(&tracing, request))
        // Pages: outside of the next, so that they can read refusals as well.
        .layer_fn(move |inner| Pages { guard: Arc::clone(&asked), inner })
        // The one place where a refusal becomes an answer, is logged and counted.
        .layer_fn(move |inner| Answer { inner, gateway: Arc::clone(&answering) })
        // Policy, gate by gate; see there for the order and its reasons.
        .service(guard::gates(&guard, leaf))
}

fn with_request_id(mut request: Request<Incoming>) -> Request<Incoming> {
    let usable = |id: &HeaderValue| {
        id.len() <= REQUEST_ID_LIMIT && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if !request.headers().get(REQUEST_ID).is_some_and(usable) {
        let id = Uuid::now_v7().to_string();
        // A UUID is always a header value.
        if let Ok(id) = HeaderValue::from_str(&id) {
            request.headers_mut().insert(REQUEST_ID, id);
        }
    }
    request
}

/// The request, with its span among its extensions.
fn with_trace(tracing: &Tracing, mut request: Request<Incoming>) -> Request<Incoming> {
    let traced = Traced::new(trace(tracing, request.method(), request.headers(), request.extensions()));
    request.extensions_mut().insert(traced);
    request
}

/// The span of a request, which begins now: part of the client's trace, if it is in one.
pub(super) fn trace(tracing: &Tracing, method: &Method, headers: &HeaderMap, extensions: &Extensions) -> Trace {
    let lines = |name: &HeaderName| {
        let own = !is_nominated(headers, name);
        headers.get_all(name).iter().filter(move |_| own)
    };
    let parent = Parent::read(lines(&TRACEPARENT), lines(&TRACESTATE));
    let matched = extensions.get::<Arc<Matched>>();
    let arrival = Arrival {
        method: label::Method::of(method.as_str()),
        route: matched.map_or(("", ""), |matched| (&*matched.name, matched.path.as_str())),
        tls: extensions.get::<Peer>().is_some_and(|peer| peer.tls),
    };
    tracing.begin(parent.as_ref(), arrival)
}

/// The request, with what it leads to and a place for who calls among its extensions.
fn with_route(gateway: &Gateway, mut request: Request<Incoming>) -> Request<Incoming> {
    if let Some(matched) = gateway.find(request.uri().path()).map(|found| Arc::clone(found.matched())) {
        request.extensions_mut().insert(matched);
    }
    request.extensions_mut().insert(Who::default());
    request
}
