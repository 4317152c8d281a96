//! The layers through which every request passes, outermost first.
//!
//! ```text
//!   request ─▶ id ─▶ route ─▶ trace ─▶ CORS ─▶ ErrorResponder ─▶ the gates of `policy` ─▶ the leaf: a run
//! ```
//! The gates are listed in [`policy::gates`].

use super::error_responder::ErrorResponder;
use super::gateway::Gateway;
use super::request_body::RequestBody;
use super::responses::ResponseBody;
use crate::config::header_names::{REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::net::peer_addr::PeerInfo;
use crate::policy::cors::CorsService;
use crate::policy::upstream_fields::is_nominated;
use crate::policy::{self, CallerContext, RouteMatch};
use crate::telemetry::label;
use crate::telemetry::trace::{RequestAttributes, RequestSpan, TraceExtension, TraceParent, TraceProvider};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use tower::{Service, ServiceBuilder, service_fn};
use uuid::Uuid;

const REQUEST_ID_LIMIT: usize = 128;

pub(crate) fn stack(
    gateway: Arc<Gateway>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<ResponseBody>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<ResponseBody>, Infallible>> + Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let routes = Arc::clone(&gateway);
    let responder = Arc::clone(&gateway);
    let tracing = gateway.tracing.clone();
    let policy = Arc::clone(&gateway.policy);
    let cors = policy.cors();
    // The innermost service: body, translation, run.
    let leaf = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.handle_request(request).await }
    });
    ServiceBuilder::new()
        // First an id, so that every response and log line below has one, including rejections.
        .map_request(with_request_id)
        // Then the route, on which everything below depends.
        .map_request(move |request| with_route(&routes, request))
        // Then the trace, which contains the route and covers rejections.
        .map_request(move |request| with_trace(&tracing, request))
        // CORS is outside the next layer, so that pages can read rejections.
        .layer_fn(move |inner| CorsService { policy: cors.clone(), inner })
        // The only place where rejections become responses, are logged and are counted.
        .layer_fn(move |inner| ErrorResponder { inner, gateway: Arc::clone(&responder) })
        // Policy, gate by gate; see there for the order and its reasons.
        .service(policy::gates(&policy, leaf))
}

fn with_request_id(request: Request<Incoming>) -> Request<RequestBody> {
    let (parts, body) = request.into_parts();
    let body = RequestBody::new(body, &parts.headers);
    let mut request = Request::from_parts(parts, body);
    let is_valid = request.headers().get(REQUEST_ID).is_some_and(|id| {
        id.len() <= REQUEST_ID_LIMIT && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    if !is_valid {
        let id = Uuid::now_v7().to_string();
        // A UUID is always a valid header value.
        if let Ok(id) = HeaderValue::from_str(&id) {
            request.headers_mut().insert(REQUEST_ID, id);
        }
    }
    request
}

fn with_trace(tracing: &TraceProvider, mut request: Request<RequestBody>) -> Request<RequestBody> {
    let traced = TraceExtension::new(start_trace(tracing, request.method(), request.headers(), request.extensions()));
    request.extensions_mut().insert(traced);
    request
}

pub(super) fn start_trace(
    tracing: &TraceProvider,
    method: &Method,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> RequestSpan {
    let lines = |name: &HeaderName| {
        let own = !is_nominated(headers, name);
        headers.get_all(name).iter().filter(move |_| own)
    };
    let parent = TraceParent::from_headers(lines(&TRACEPARENT), lines(&TRACESTATE));
    let matched = extensions.get::<Arc<RouteMatch>>();
    let arrival = RequestAttributes {
        method: label::RequestMethod::from_name(method.as_str()),
        route: matched.map_or("", |matched| &*matched.name),
        path: matched.map_or("", |matched| matched.path.as_str()),
        tls: extensions.get::<PeerInfo>().is_some_and(|peer| peer.tls),
    };
    tracing.begin(parent.as_ref(), arrival)
}

/// Adds the matched route and an empty caller to the extensions.
fn with_route(gateway: &Gateway, mut request: Request<RequestBody>) -> Request<RequestBody> {
    if let Some(matched) = gateway.find(request.uri().path()).map(|found| Arc::clone(found.route_match)) {
        request.extensions_mut().insert(matched);
    }
    request.extensions_mut().insert(CallerContext::default());
    request
}
