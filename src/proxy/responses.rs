//! Builds responses: stream heads, JSON and rejections.

use super::pipe::BodyAborted;
use crate::codec::Framing;
use crate::config::header_names::REQUEST_ID;
use crate::error::Rejection;
use crate::translate::RunIds;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyAborted>;

fn full_body(body: Full<Bytes>) -> ResponseBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn request_id(headers: &HeaderMap) -> &str {
    headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default()
}

/// Returns the head of an event stream that intermediaries must not store, compress or buffer.
pub(super) fn event_stream(body: ResponseBody, framing: Framing) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(framing.media_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

fn respond(
    status: u16,
    content_type: &'static str,
    cache_control: &'static str,
    body: String,
) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(Full::from(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
    response
}

pub(super) fn run_accepted(ids: &RunIds, events: &str) -> Response<ResponseBody> {
    // The ids are already JSON strings.
    let body = format!(r#"{{"threadId":{},"runId":{}}}"#, ids.thread_id.as_str(), ids.run_id.as_str());
    let mut response = respond(202, "application/json", "no-store", body);
    if let Ok(location) = HeaderValue::from_str(events) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Removes the content of a response to a HEAD request, and keeps its length [RFC 9110 §9.3.2]. hyper does this over
/// HTTP/1 only.
pub(super) fn remove_content(response: &mut Response<ResponseBody>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = full_body(Full::default());
}

pub(super) fn run_stopped() -> Response<ResponseBody> {
    let mut response = Response::new(full_body(Full::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the protected resource metadata (RFC 9728 §3.2), readable by pages of any origin.
pub(super) fn resource_metadata(document: &str) -> Response<ResponseBody> {
    let mut response = respond(200, "application/json", "public, max-age=300", document.to_owned());
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Returns a rejection as a problem document (RFC 9457), with the code as the client's dialect names it.
pub(super) fn problem(rejection: &Rejection, code: &str, request_id: &str) -> Response<ResponseBody> {
    let document = rejection.problem_document_with(request_id, code);
    let mut response = respond(rejection.status(), "application/problem+json", "no-store", document);
    rejection.add_headers(response.headers_mut());
    response
}

pub(super) fn run_error_stream(rejection: &Rejection, event: Vec<u8>, framing: Framing) -> Response<ResponseBody> {
    let mut response = event_stream(full_body(Full::from(event)), framing);
    rejection.add_headers(response.headers_mut());
    // Challenges belong to 401 responses [RFC 9110 §11.6.1].
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response
}
