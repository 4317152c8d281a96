//! CORS: requests from web pages on other origins (WHATWG Fetch §3.3).
//!
//! ```text
//!   request  ─▶ CorsService ─▶ ErrorResponder ─▶ gates: OriginGate, … ─▶ leaf
//!                 │ preflight of an allowed page: 204
//!   response ◀────┴─ with the fields that allow the page to read it
//! ```
//! [`CorsService`] wraps the layer that creates error responses, so that pages can read those, too. Requests from
//! origins that are not allowed are refused: without a `Content-Type` they need no preflight, so the agent would run
//! before the browser checks the response.

use super::auth::Authenticator;
use super::client_addr::ClientAddrResolver;
use super::dry_run::GateReport;
use super::gate::Gate;
use super::host::HeadRules;
use super::route_match::RouteMatch;
use crate::config::access::CorsConfig;
use crate::config::header_names;
use crate::error::{Rejection, RejectionKind};
use crate::telemetry::internal_event;
use crate::telemetry::trace::TraceExtension;
use futures_util::future::{BoxFuture, Either, Ready, ready};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use tower::Service;

/// Request fields that every allowed page may send, in addition to credentials and `forward_headers`.
const REQUEST_FIELDS: [HeaderName; 7] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::AUTHORIZATION,
    header_names::REQUEST_ID,
    header_names::TRACEPARENT,
    header_names::TRACESTATE,
    header_names::LAST_EVENT_ID,
];

/// Response fields that pages may read, in addition to those that CORS always allows.
const EXPOSED_FIELDS: [HeaderName; 10] = [
    header_names::REQUEST_ID,
    header::RETRY_AFTER,
    header_names::RATE_LIMIT,
    header_names::RATE_LIMIT_POLICY,
    header_names::LEGACY_LIMIT,
    header_names::LEGACY_REMAINING,
    header_names::LEGACY_RESET,
    header::WWW_AUTHENTICATE,
    crate::error::PROXY_STATUS,
    header::LOCATION,
];

static EXPOSED_LIST: LazyLock<HeaderValue> =
    LazyLock::new(|| join_names(&EXPOSED_FIELDS).unwrap_or(HeaderValue::from_static("")));

/// The origin of the page that sent a request. [`CorsService`] adds this extension.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PageOrigin {
    /// no page, or the gateway's own origin; the response gets no CORS fields
    SameOrigin,
    /// an allowed origin, with its `Access-Control-Allow-Origin`
    Allowed(HeaderValue),
    Foreign,
}

/// Answers preflights and adds CORS fields to all responses.
#[derive(Clone)]
pub(crate) struct CorsService<S> {
    pub(crate) policy: CorsPolicy,
    pub(crate) inner: S,
}

impl<S, A, B> Service<Request<A>> for CorsService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Default + Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Either<
        Either<Ready<Result<Response<B>, S::Error>>, S::Future>,
        BoxFuture<'static, Result<Response<B>, S::Error>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // Responses without a route have no CORS fields.
        let Some(matched) = request.extensions().get::<Arc<RouteMatch>>().cloned() else {
            return Either::Left(Either::Right(self.inner.call(request)));
        };
        let (mut head, body) = request.into_parts();
        let cors = matched.access.cors.as_ref();
        let (page, preflight) = self.policy.inspect_origin(&mut head, &matched);
        if let Some(response) = preflight {
            let answered = response.status().as_u16();
            if let Some(span) = head.extensions.get::<TraceExtension>().and_then(TraceExtension::take) {
                span.finish_response(answered);
            }
            internal_event::PreflightAnswered { route: &matched.name, response_status: answered }
                .emit(matched.metrics.requests());
            return Either::Left(Either::Left(ready(Ok(response))));
        }
        let answer = self.inner.call(Request::from_parts(head, body));
        if cors.is_none() {
            return Either::Left(Either::Right(answer));
        }
        Either::Right(Box::pin(async move {
            let mut response = answer.await?;
            let headers = response.headers_mut();
            // Even without a page, caches must know that the response depends on the origin.
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
            if let (PageOrigin::Allowed(origin), Some(cors)) = (&page, &matched.access.cors) {
                add_allow_origin(headers, cors, origin);
                headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_LIST.clone());
            }
            Ok(response)
        }))
    }
}

#[derive(Clone)]
pub(crate) struct OriginGate;

impl Gate for OriginGate {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        check_origin(head)
    }

    fn dry_run(&self, head: &Parts) -> GateReport {
        let cors = head.extensions.get::<Arc<RouteMatch>>().map(|matched| matched.access.cors.as_ref());
        let wants = match cors {
            None => Vec::new(),
            Some(None) => vec!["no page but the gateway's own".to_owned()],
            Some(Some(cors)) if cors.allows_any_origin() => vec!["pages of any origin".to_owned()],
            Some(Some(CorsConfig { origins, .. })) => {
                vec![format!("pages of {}, or the gateway's own", origins.join(", "))]
            }
        };
        GateReport::from_result("origin", wants, &check_origin(head))
    }
}

fn check_origin(head: &Parts) -> Result<(), Rejection> {
    if head.extensions.get::<PageOrigin>() == Some(&PageOrigin::Foreign) {
        let what = "The Origin of the request is neither that of the gateway nor among `cors.origins` of the route.";
        return Err(Rejection::from(RejectionKind::OriginNotAllowed).with_detail(what));
    }
    Ok(())
}

#[derive(Clone)]
pub(crate) struct CorsPolicy {
    pub(super) addresses: Arc<ClientAddrResolver>,
    pub(super) host: Arc<HeadRules>,
    pub(super) auth: Arc<Authenticator>,
}

impl CorsPolicy {
    /// Adds the page's origin to the extensions. Also returns the response if the request is a preflight from an
    /// allowed page.
    fn inspect_origin<B: Default>(&self, head: &mut Parts, matched: &RouteMatch) -> (PageOrigin, Option<Response<B>>) {
        let cors = matched.access.cors.as_ref();
        let page = self.page_origin(head, cors);
        if let (PageOrigin::Allowed(origin), Some(cors)) = (&page, cors)
            && is_preflight(head)
            && self.host.check(head).is_ok()
        {
            let mut response = self.preflight_response(head, matched, cors);
            add_allow_origin(response.headers_mut(), cors, origin);
            return (page, Some(response));
        }
        head.extensions.insert(page.clone());
        (page, None)
    }

    /// Returns the header fields for a preflight response, since preflights bypass the gates.
    pub(crate) fn preflight_headers(&self, head: &mut Parts, matched: &RouteMatch) -> Option<HeaderMap> {
        let (_, answer) = self.inspect_origin::<()>(head, matched);
        answer.map(|answer| answer.into_parts().0.headers)
    }

    fn page_origin(&self, head: &Parts, cors: Option<&CorsConfig>) -> PageOrigin {
        let mut lines = head.headers.get_all(header::ORIGIN).iter();
        let Some(origin) = lines.next() else { return PageOrigin::SameOrigin };
        if lines.next().is_some() {
            return PageOrigin::Foreign;
        }
        match cors {
            // The configuration check rejects the wildcard combined with credentials.
            Some(cors) if cors.allows_any_origin() => return PageOrigin::Allowed(HeaderValue::from_static("*")),
            // Compared as bytes, because browsers serialize each origin in only one way.
            Some(cors) if cors.origins.iter().any(|own| own.as_bytes() == origin.as_bytes()) => {
                return PageOrigin::Allowed(origin.clone());
            }
            _ => {}
        }
        let origin = origin.to_str().unwrap_or_default();
        // Any scheme, because a proxy that terminates TLS hides the client's.
        let authority = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
        let own = authority.is_some() && authority == self.addresses.requested_host(head);
        if own { PageOrigin::SameOrigin } else { PageOrigin::Foreign }
    }

    /// Answers a preflight before authentication, since browsers send it without credentials.
    fn preflight_response<B: Default>(&self, head: &Parts, matched: &RouteMatch, cors: &CorsConfig) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let method = matched.request_kind.method();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(method));
        if let Some(fields) = self.allowed_request_fields(head, matched) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, fields);
        }
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
        let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
        headers.insert(header::VARY, HeaderValue::from_static(vary));
        if let Some(id) = head.headers.get(header_names::REQUEST_ID) {
            headers.insert(header_names::REQUEST_ID, id.clone());
        }
        response
    }

    fn allowed_request_fields(&self, head: &Parts, matched: &RouteMatch) -> Option<HeaderValue> {
        let lines = head.headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
        let wanted = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
        let key_fields = self.auth.key_fields(matched);
        let may = |field: &HeaderName| {
            REQUEST_FIELDS.contains(field)
                || matched.access.forward_headers.contains(field)
                || key_fields.contains(&field)
        };
        let fields: Vec<_> = wanted.filter_map(|name| name.trim().parse().ok()).filter(may).collect();
        if fields.is_empty() { None } else { join_names(&fields) }
    }
}

fn join_names(fields: &[HeaderName]) -> Option<HeaderValue> {
    let names: Vec<_> = fields.iter().map(HeaderName::as_str).collect();
    HeaderValue::try_from(names.join(", ")).ok()
}

/// Returns whether a request is a preflight: "A CORS-preflight request is a CORS request that [...] uses `OPTIONS` as
/// method and includes" this field [§3.3.2].
fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn add_allow_origin(headers: &mut HeaderMap, cors: &CorsConfig, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    if cors.credentials {
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}
