//! Responses: the head of a stream, JSON, and rejections.

use super::pipe::BodyAborted;
use crate::codec::Framing;
use crate::error::Rejection;
use crate::translate::RunIds;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyAborted>;

pub(super) fn full_body(body: Full<Bytes>) -> ResponseBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

/// Returns the head of an event stream. No intermediary may store, compress or buffer it.
pub(super) fn event_stream<B>(body: B, framing: Framing) -> Response<B> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(framing.media_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Returns the response to the first step of a two-step run: its ids and the location of its events.
pub(super) fn run_accepted(ids: &RunIds, events: &str) -> Response<Full<Bytes>> {
    // Ids are JSON strings already.
    let body = format!(r#"{{"threadId":{},"runId":{}}}"#, ids.thread_id.as_str(), ids.run_id.as_str());
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(events) {
        headers.insert(header::LOCATION, location);
    }
    response
}

pub(super) fn run_stopped() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the protected resource metadata (RFC 9728, section 3.2). Public, so pages of any origin may read it.
pub(super) fn resource_metadata(document: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(document.to_owned()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Returns a rejection as a problem document (RFC 9457).
pub(super) fn problem(rejection: &Rejection, request_id: &HeaderValue) -> Response<Full<Bytes>> {
    let id = request_id.to_str().unwrap_or_default();
    let mut response = Response::new(Full::from(rejection.problem_document(id)));
    *response.status_mut() = StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    rejection.add_headers(headers);
    response
}

/// Returns a rejection as a stream of one event.
pub(super) fn run_error_stream(rejection: &Rejection, event: Vec<u8>, framing: Framing) -> Response<Full<Bytes>> {
    let mut response = event_stream(Full::from(event), framing);
    rejection.add_headers(response.headers_mut());
    // A challenge belongs to 401 [RFC 9110 §11.6.1].
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response
}
