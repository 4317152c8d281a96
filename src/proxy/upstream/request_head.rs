//! The head of a request to an agent, for either version of HTTP.

use super::upstream_request::{AgentOperation, UpstreamRequest};
use crate::config::UpstreamConfig;
use crate::config::header_names::{LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::telemetry::trace::UpstreamSpan;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use pingora_core::{BError, Error, ErrorType};
use pingora_http::RequestHeader;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("diglot/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Number of fields that a request has besides those of the caller.
const OWN_FIELDS: usize = 10;

pub(in crate::proxy) struct AgentRequestHead {
    pub(in crate::proxy) method: http::Method,
    path: PathAndQuery,
    pub(in crate::proxy) fields: HeaderMap,
}

impl AgentRequestHead {
    pub(super) fn new(method: http::Method, path: &str, fields: HeaderMap) -> Result<AgentRequestHead, BError> {
        let path = PathAndQuery::try_from(path).map_err(|error| invalid("the path of the request", error))?;
        Ok(AgentRequestHead { method, path, fields })
    }

    pub(in crate::proxy) fn for_request(
        upstream: &UpstreamConfig,
        request: &UpstreamRequest<'_>,
        span: &UpstreamSpan,
    ) -> Result<AgentRequestHead, BError> {
        let (method, path) = request.method_and_path(upstream);
        // For some agents "`*/*` or `application/*` admits" protobuf, so the type is explicit [specs §4.4].
        let accept = match &request.operation {
            AgentOperation::Run(_) | AgentOperation::Events { .. } => EVENT_STREAM,
            AgentOperation::Start(_) => JSON,
        };
        let mut fields = HeaderMap::with_capacity(request.fields.len() + OWN_FIELDS);
        for (name, value) in request.fields {
            fields.append(name, value.clone());
        }
        fields.insert(header::HOST, field_value(upstream.authority().as_bytes())?);
        match &request.operation {
            AgentOperation::Run(body) | AgentOperation::Start(body) => {
                // Fields of the route are the operator's, so they stay.
                for (name, value) in request.target.iter().flat_map(|target| &target.headers) {
                    let name =
                        HeaderName::from_bytes(name.as_bytes()).map_err(|error| invalid("a field's name", error))?;
                    fields.entry(name).or_insert(field_value(value.as_bytes())?);
                }
                fields.insert(header::CONTENT_TYPE, JSON);
                // Legacy agents often cannot read chunked bodies, so the length is always sent.
                fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            }
            AgentOperation::Events { last_event_id, .. } => {
                if let Some(id) = last_event_id {
                    fields.insert(LAST_EVENT_ID, field_value(id.as_bytes())?);
                }
            }
        }
        fields.insert(header::ACCEPT, accept);
        fields.insert(header::ACCEPT_ENCODING, IDENTITY);
        fields.insert(header::USER_AGENT, USER_AGENT);
        fields.insert(REQUEST_ID, field_value(request.request_id.as_bytes())?);
        let (traceparent, tracestate) = span.propagation_headers();
        for (name, value) in [(TRACEPARENT, traceparent), (TRACESTATE, tracestate.cloned())] {
            if let Some(value) = value {
                fields.insert(name, value);
            }
        }
        AgentRequestHead::new(method, &path, fields)
    }

    pub(super) fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Returns the bytes of the head in HTTP/1.1.
    pub(super) fn to_http1(&self) -> Vec<u8> {
        let line = |name: &HeaderName, value: &HeaderValue| name.as_str().len() + value.len() + 4;
        let lines: usize = self.fields.iter().map(|(name, value)| line(name, value)).sum();
        let path = self.path.as_str();
        let mut wire = Vec::with_capacity(self.method.as_str().len() + path.len() + lines + 16);
        for part in [self.method.as_str(), " ", path, " HTTP/1.1\r\n"] {
            wire.extend_from_slice(part.as_bytes());
        }
        for (name, value) in &self.fields {
            for part in [wire_name(name).as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                wire.extend_from_slice(part);
            }
        }
        wire.extend_from_slice(b"\r\n");
        wire
    }

    /// Returns the head for pingora's HTTP/2.
    pub(super) fn to_http2(&self) -> Result<RequestHeader, BError> {
        let size = Some(self.fields.len());
        let mut head = RequestHeader::build_no_case(self.method.clone(), self.path.as_str().as_bytes(), size)?;
        for (name, value) in &self.fields {
            head.append_header(name, value)?;
        }
        Ok(head)
    }
}

/// Names are case-insensitive, but some old agents expect these in their common spelling.
fn wire_name(name: &HeaderName) -> &str {
    match *name {
        header::HOST => "Host",
        header::CONTENT_TYPE => "Content-Type",
        header::CONTENT_LENGTH => "Content-Length",
        _ => name.as_str(),
    }
}

pub(super) fn field_value(bytes: &[u8]) -> Result<HeaderValue, BError> {
    HeaderValue::from_bytes(bytes).map_err(|error| invalid("a field of the request", error))
}

fn invalid(what: &'static str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BError {
    Error::because(ErrorType::InvalidHTTPHeader, what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_head_of_http1() {
        let mut fields = HeaderMap::new();
        fields.insert(header::HOST, HeaderValue::from_static("agent:8000"));
        fields.append("x-one", HeaderValue::from_static("1"));
        fields.append("x-one", HeaderValue::from_static("2"));
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(7));
        let head = AgentRequestHead::new(http::Method::POST, "/run?a=b", fields).expect("a path");
        assert_eq!(
            String::from_utf8(head.to_http1()).expect("text"),
            "POST /run?a=b HTTP/1.1\r\nHost: agent:8000\r\nx-one: 1\r\nx-one: 2\r\nContent-Length: 7\r\n\r\n"
        );
        for path in ["/a b", "/a\r\nx: y", "/a\0"] {
            assert!(AgentRequestHead::new(http::Method::GET, path, HeaderMap::new()).is_err(), "{path:?}");
        }
    }
}
