//! One exchange with an agent: the request as it is sent, and its answer as it comes.

use super::dialer::PooledConnection;
use super::in_flight::InFlightGuard;
use super::pingora_errors;
use super::upstream_endpoint::UpstreamEndpoint;
use crate::config::UpstreamConfig;
use crate::config::header_names::{LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE};
use crate::error::{Rejection, RejectionKind};
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

/// Most time for writing the head of a request, and again for its body: a connection that takes neither is dead. `first_byte`
/// ends it as well; this is for where the operator made that very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an agent that took no more of a request over HTTP/2 may take to say why.
const EARLY_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a request says about the sender.
const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

/// A request on its way to an agent.
pub(in crate::proxy) struct UpstreamRequest<'a> {
    /// what is asked for
    pub(crate) operation: AgentOperation<'a>,
    /// the request's id, passed on
    pub(crate) request_id: &'a str,
    /// what makes its span, which the agent is told of
    pub(crate) spans: &'a UpstreamSpanBuilder,
    /// what the agent hears about the caller; fields of the request itself are not among it, or overruled
    pub(crate) fields: &'a http::HeaderMap,
}

/// What an agent is asked for.
pub(in crate::proxy) enum AgentOperation<'a> {
    /// a run, and its events in the answer; JSON
    Run(Bytes),
    /// a run, whose events are asked for afterwards; JSON
    Start(Bytes),
    /// the events of a run that was started
    Events {
        /// path and query
        path: &'a str,
        /// those behind this one; all of them where it is `None`
        last_event_id: Option<&'a str>,
    },
}

impl UpstreamRequest<'_> {
    /// Its method, and its path with its query.
    fn method_and_path<'l>(&'l self, upstream: &'l UpstreamConfig) -> (http::Method, &'l str) {
        match &self.operation {
            AgentOperation::Run(_) | AgentOperation::Start(_) => (http::Method::POST, upstream.path_and_query.as_str()),
            AgentOperation::Events { path, .. } => (http::Method::GET, path),
        }
    }

    /// Its span, which begins now. A query may hold a secret of the operator's.
    pub(in crate::proxy) fn start_span(&self, upstream: &UpstreamConfig, label: &str) -> UpstreamSpan {
        let (method, path) = self.method_and_path(upstream);
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        self.spans.begin(RequestMethod::from_name(method.as_str()), label, path)
    }
}

impl AgentOperation<'_> {
    /// Whether it does no harm to ask twice: reading does not, starting a run does.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self, AgentOperation::Events { .. })
    }
}

/// The address of an agent that took a run, to be asked for more of it.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct EndpointRef(pub(super) Arc<UpstreamEndpoint>);

/// One exchange with an agent. Its run counts as one of the address until it is dropped.
pub(in crate::proxy) struct Session {
    pub(super) connection: PooledConnection,
    pub(super) in_flight: InFlightGuard,
    pub(super) span: UpstreamSpan,
}

/// Why there is no answer, and what that leaves open.
pub(super) enum ExchangeError {
    /// no run can have begun: the agent did not get a whole request, or says that it did nothing with it
    Unprocessed(Rejection),
    /// it may have begun
    MaybeProcessed(Rejection),
}

impl ExchangeError {
    pub(super) fn rejection(&self) -> &Rejection {
        match self {
            ExchangeError::Unprocessed(rejection) | ExchangeError::MaybeProcessed(rejection) => rejection,
        }
    }

    pub(super) fn into_rejection(self) -> Rejection {
        match self {
            ExchangeError::Unprocessed(rejection) | ExchangeError::MaybeProcessed(rejection) => rejection,
        }
    }
}

impl Session {
    /// Who was asked.
    pub(in crate::proxy) fn endpoint(&self) -> EndpointRef {
        EndpointRef(Arc::clone(self.in_flight.endpoint()))
    }

    /// The upstream that was asked, as metrics call it.
    pub(in crate::proxy) fn upstream_label(&self) -> Arc<str> {
        self.in_flight.upstream_label()
    }

    /// The exchange has come to its end, with the agent's words or with another's.
    pub(in crate::proxy) fn finish(&mut self, failure: Option<&Rejection>) {
        match failure {
            Some(failure) => self.span.record_failure(failure),
            None => self.span.finish(),
        }
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn send(
        &mut self,
        upstream: &UpstreamConfig,
        request: &UpstreamRequest<'_>,
    ) -> Result<(), ExchangeError> {
        let head = request_head(upstream, request, &self.span);
        let head = head.map_err(|error| {
            ExchangeError::MaybeProcessed(Rejection::from(RejectionKind::Internal).with_cause(error))
        })?;
        let inner = self.connection.session_mut();
        inner.set_write_timeout(Some(WRITE_TIMEOUT));
        let broken = |error: &BError| Rejection::from(RejectionKind::UpstreamReset).with_cause(error);
        // Whoever did not even get the head has no request: "only if no byte was sent" that could begin a run.
        let sent = inner.write_request_header(Box::new(head)).await;
        sent.map_err(|error| ExchangeError::Unprocessed(broken(&error)))?;
        let sent = async {
            if let AgentOperation::Run(body) | AgentOperation::Start(body) = &request.operation {
                inner.write_request_body(body.clone(), true).await?;
            }
            inner.finish_request_body().await
        };
        if let Err(error) = sent.await {
            return Err(self
                .write_failure(&error)
                .await
                .unwrap_or_else(|| ExchangeError::MaybeProcessed(broken(&error))));
        }
        self.read_response_head().await
    }

    /// Why an agent takes no more of a request, where it says so.
    async fn write_failure(&mut self, error: &BError) -> Option<ExchangeError> {
        let rejection = Rejection::from(RejectionKind::UpstreamReset).with_cause(error);
        if pingora_errors::is_unprocessed(error) {
            return Some(ExchangeError::Unprocessed(rejection));
        }
        let HttpSession::H2(_) = self.connection.session() else { return None };
        timeout(EARLY_RESPONSE_TIMEOUT, self.read_response_head()).await.ok()?.err()
    }

    /// Reads the head of the response, past any 1xx.
    async fn read_response_head(&mut self) -> Result<(), ExchangeError> {
        let inner = self.connection.session_mut();
        loop {
            inner.read_response_header().await.map_err(|error| {
                let rejection = pingora_errors::head_rejection(&error);
                if pingora_errors::is_unprocessed(&error) {
                    ExchangeError::Unprocessed(rejection)
                } else {
                    ExchangeError::MaybeProcessed(rejection)
                }
            })?;
            // With HTTP/2 those before the last are not shown, and it is read once.
            let shown = matches!(inner, HttpSession::H1(_));
            match inner.response_header().map(|head| head.status) {
                Some(status)
                    if shown && status.is_informational() && status != http::StatusCode::SWITCHING_PROTOCOLS => {}
                _ => return Ok(()),
            }
        }
    }

    /// The head that was read.
    pub(in crate::proxy) fn response_head(&self) -> Option<&ResponseHeader> {
        self.connection.session().response_header()
    }

    /// Reads what there is of the body into `take`: at least one piece, `false` at the end. May be dropped while waiting.
    ///
    /// A refusal is boxed, so that runs that wait keep little room for one.
    pub(in crate::proxy) async fn read_body(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, Box<Rejection>> {
        let read = match self.connection.session_mut() {
            HttpSession::H1(session) => match session.read_body_ref().await {
                Ok(Some(piece)) => {
                    take(piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
            session => match session.read_response_body().await {
                Ok(Some(piece)) => {
                    take(&piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
        };
        read.map_err(|error| Box::new(pingora_errors::read_rejection(&error)))
    }
}

/// The head of a request, as it goes out.
pub(in crate::proxy) fn request_head(
    upstream: &UpstreamConfig,
    request: &UpstreamRequest<'_>,
    call: &UpstreamSpan,
) -> Result<RequestHeader, BError> {
    let (method, path) = request.method_and_path(upstream);
    // "`*/*` or `application/*` admits" protobuf at some agents, so the wish is explicit [specs §4.4].
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
            // Legacy agents often cannot read chunks, so the length is always said.
            head.insert_header(header::CONTENT_LENGTH, body.len().to_string())?;
        }
        AgentOperation::Events { last_event_id: Some(id), .. } => head.insert_header(LAST_EVENT_ID, id.as_bytes())?,
        AgentOperation::Events { last_event_id: None, .. } => {}
    }
    head.insert_header(header::ACCEPT, accept)?;
    head.insert_header(header::ACCEPT_ENCODING, "identity")?;
    head.insert_header(header::USER_AGENT, USER_AGENT)?;
    head.insert_header(REQUEST_ID, request.request_id)?;
    let (traceparent, tracestate) = call.propagation_headers();
    for (name, value) in [(TRACEPARENT, traceparent.as_ref()), (TRACESTATE, tracestate)] {
        if let Some(value) = value {
            head.insert_header(name, value)?;
        }
    }
    Ok(head)
}
