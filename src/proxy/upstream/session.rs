//! One request to an agent and its response.

use super::dialer::PooledConnection;
use super::in_flight::InFlightGuard;
use super::pingora_errors;
use super::upstream_endpoint::UpstreamEndpoint;
use crate::config::UpstreamConfig;
use crate::config::header_names::{LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::error::{Rejection, RejectionKind};
use crate::replay::ReplayKey;
use crate::telemetry::label::RequestMethod;
use crate::telemetry::trace::{UpstreamSpan, UpstreamSpanBuilder};
use bytes::Bytes;
use http::header;
use pingora_core::BError;
use pingora_core::protocols::http::client::HttpSession;
use pingora_http::{RequestHeader, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for writing a request head, and again for the body, in case `first_byte` is very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum wait for a response from an HTTP/2 agent that stopped reading the request.
const EARLY_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

pub(in crate::proxy) struct UpstreamRequest<'a> {
    pub(crate) operation: AgentOperation<'a>,
    pub(crate) request_id: &'a str,
    pub(crate) caller: ReplayKey,
    pub(crate) spans: &'a UpstreamSpanBuilder,
    /// header fields from the caller; the request's own fields take precedence
    pub(crate) fields: &'a http::HeaderMap,
}

pub(in crate::proxy) enum AgentOperation<'a> {
    Run(Bytes),
    /// starts a run whose events are requested later; the body is JSON
    Start(Bytes),
    /// requests the events of a started run
    Events {
        /// path and query
        path: &'a str,
        /// `None` requests all events
        last_event_id: Option<&'a str>,
    },
}

impl UpstreamRequest<'_> {
    fn method_and_path<'l>(&'l self, upstream: &'l UpstreamConfig) -> (http::Method, &'l str) {
        match &self.operation {
            AgentOperation::Run(_) | AgentOperation::Start(_) => (http::Method::POST, upstream.path_and_query.as_str()),
            AgentOperation::Events { path, .. } => (http::Method::GET, path),
        }
    }

    pub(in crate::proxy) fn start_span(&self, upstream: &UpstreamConfig, label: &str) -> UpstreamSpan {
        let (method, path) = self.method_and_path(upstream);
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        self.spans.begin(RequestMethod::from_name(method.as_str()), label, path)
    }
}

#[derive(Clone, Debug)]
pub(in crate::proxy) struct EndpointRef(pub(super) Arc<UpstreamEndpoint>);

pub(in crate::proxy) struct Session {
    pub(super) connection: PooledConnection,
    pub(in crate::proxy) in_flight: InFlightGuard,
    pub(super) span: UpstreamSpan,
}

/// The reason why there is no response.
pub(super) struct ExchangeError {
    pub(super) rejection: Rejection,
    /// whether no run can have begun: the request is incomplete, or the agent reported that it did not process it
    pub(super) is_unprocessed: bool,
}

impl ExchangeError {
    fn from_write(error: &BError, is_unprocessed: bool) -> ExchangeError {
        ExchangeError { rejection: Rejection::from(RejectionKind::UpstreamReset).with_cause(error), is_unprocessed }
    }
}

impl Session {
    pub(in crate::proxy) fn endpoint(&self) -> EndpointRef {
        EndpointRef(Arc::clone(&self.in_flight.endpoint))
    }

    pub(in crate::proxy) fn finish(&mut self, failure: Option<&Rejection>) {
        match failure {
            Some(failure) => self.span.record_failure(failure),
            None => self.span.finish(),
        }
    }

    pub(super) async fn send(
        &mut self,
        upstream: &UpstreamConfig,
        request: &UpstreamRequest<'_>,
    ) -> Result<(), ExchangeError> {
        let head = request_head(upstream, request, &self.span).map_err(|error| ExchangeError {
            rejection: Rejection::from(RejectionKind::Internal).with_cause(error),
            is_unprocessed: false,
        })?;
        let inner = &mut self.connection.session;
        inner.set_write_timeout(Some(WRITE_TIMEOUT));
        // Without the head, the agent has no request: no byte was sent that could start a run.
        let sent = inner.write_request_header(Box::new(head)).await;
        sent.map_err(|error| ExchangeError::from_write(&error, true))?;
        let sent = async {
            if let AgentOperation::Run(body) | AgentOperation::Start(body) = &request.operation {
                inner.write_request_body(body.clone(), true).await?;
            }
            inner.finish_request_body().await
        };
        match sent.await {
            Ok(()) => self.read_response_head().await,
            Err(error) => Err(self.write_failure(&error).await),
        }
    }

    /// Converts a failed write to an error. Over HTTP/2, an error from reading the response takes precedence.
    async fn write_failure(&mut self, error: &BError) -> ExchangeError {
        let is_unprocessed = pingora_errors::is_unprocessed(error);
        if !is_unprocessed
            && let HttpSession::H2(_) = self.connection.session
            && let Ok(Err(reason)) = timeout(EARLY_RESPONSE_TIMEOUT, self.read_response_head()).await
        {
            return reason;
        }
        ExchangeError::from_write(error, is_unprocessed)
    }

    async fn read_response_head(&mut self) -> Result<(), ExchangeError> {
        let inner = &mut self.connection.session;
        loop {
            inner.read_response_header().await.map_err(|error| ExchangeError {
                rejection: pingora_errors::head_rejection(&error),
                is_unprocessed: pingora_errors::is_unprocessed(&error),
            })?;
            let status = inner.response_header().map(|head| head.status);
            let is_interim = status
                .is_some_and(|status| status.is_informational() && status != http::StatusCode::SWITCHING_PROTOCOLS);
            // With HTTP/2, earlier heads are not visible and the last is read only once.
            if !is_interim || !matches!(inner, HttpSession::H1(_)) {
                return Ok(());
            }
        }
    }

    pub(in crate::proxy) fn response_head(&self) -> Option<&ResponseHeader> {
        self.connection.session.response_header()
    }

    /// Passes the next available piece of the body to `take`. Returns `false` at the end. Cancel safe. The error is
    /// boxed to keep waiting runs small.
    pub(in crate::proxy) async fn read_body(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, Box<Rejection>> {
        let read = match &mut self.connection.session {
            HttpSession::H1(session) => session.read_body_ref().await.map(|piece| piece.map(take).is_some()),
            session => session.read_response_body().await.map(|piece| piece.map(|piece| take(&piece)).is_some()),
        };
        read.map_err(|error| Box::new(pingora_errors::read_rejection(&error)))
    }
}

pub(in crate::proxy) fn request_head(
    upstream: &UpstreamConfig,
    request: &UpstreamRequest<'_>,
    span: &UpstreamSpan,
) -> Result<RequestHeader, BError> {
    let (method, path) = request.method_and_path(upstream);
    // For some agents "`*/*` or `application/*` admits" protobuf, so the type is explicit [specs §4.4].
    let accept = match &request.operation {
        AgentOperation::Run(_) | AgentOperation::Events { .. } => "text/event-stream",
        AgentOperation::Start(_) => "application/json",
    };
    let mut head = RequestHeader::build_no_case(method, path.as_bytes(), Some(8))?;
    for (name, value) in request.fields {
        head.append_header(name, value)?;
    }
    head.insert_header(header::HOST, upstream.authority())?;
    match &request.operation {
        AgentOperation::Run(body) | AgentOperation::Start(body) => {
            head.insert_header(header::CONTENT_TYPE, "application/json")?;
            // Legacy agents often cannot read chunked bodies, so the length is always sent.
            head.insert_header(header::CONTENT_LENGTH, body.len().to_string())?;
        }
        AgentOperation::Events { last_event_id: Some(id), .. } => head.insert_header(LAST_EVENT_ID, id.as_bytes())?,
        AgentOperation::Events { last_event_id: None, .. } => {}
    }
    head.insert_header(header::ACCEPT, accept)?;
    head.insert_header(header::ACCEPT_ENCODING, "identity")?;
    head.insert_header(header::USER_AGENT, USER_AGENT)?;
    head.insert_header(REQUEST_ID, request.request_id)?;
    let (traceparent, tracestate) = span.propagation_headers();
    for (name, value) in [(TRACEPARENT, traceparent.as_ref()), (TRACESTATE, tracestate)] {
        if let Some(value) = value {
            head.insert_header(name, value)?;
        }
    }
    Ok(head)
}
