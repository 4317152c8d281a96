//! One request to an agent and its response.

use super::agent_exchange::{SendError, SendProgress};
use super::dialer::PooledConnection;
use super::in_flight::InFlightGuard;
use super::low_water_mark::RaisedLowWaterMark;
use super::pingora_errors;
use super::request_head::AgentRequestHead;
use super::upstream_endpoint::UpstreamEndpoint;
use super::upstream_request::{AgentOperation, UpstreamRequest};
use crate::config::UpstreamConfig;
use crate::error::{Rejection, RejectionKind};
use crate::prefetch::prefetch;
use crate::telemetry::trace::UpstreamSpan;
use http::{StatusCode, response};
use pingora_core::BError;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum wait for a response from an agent that stopped reading the request.
const EARLY_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(in crate::proxy) struct EndpointRef(pub(super) Arc<UpstreamEndpoint>);

pub(in crate::proxy) struct Session {
    pub(super) connection: PooledConnection,
    pub(in crate::proxy) in_flight: InFlightGuard,
    pub(super) span: UpstreamSpan,
    /// until it is taken: a waiting run does not keep it
    head: Option<Box<response::Parts>>,
}

/// The method and the path of a request that the agent does not serve, for the log: without the query, which may have a
/// key.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct UnservedRequest(pub(in crate::proxy) String);

fn is_unserved(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
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

    fn from_read(error: &BError) -> ExchangeError {
        let is_unprocessed = pingora_errors::is_unprocessed(error);
        ExchangeError { rejection: pingora_errors::head_rejection(error), is_unprocessed }
    }
}

impl Session {
    pub(super) fn new(connection: PooledConnection, in_flight: InFlightGuard, span: UpstreamSpan) -> Self {
        Session { connection, in_flight, span, head: None }
    }

    pub(in crate::proxy) fn endpoint(&self) -> EndpointRef {
        EndpointRef(Arc::clone(&self.in_flight.endpoint))
    }

    /// Fetches what the next piece of the body touches.
    pub(in crate::proxy) fn prefetch(&self) {
        prefetch(self);
        self.connection.exchange.prefetch();
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
        let head = AgentRequestHead::for_request(upstream, request, &self.span).map_err(|error| ExchangeError {
            rejection: Rejection::from(RejectionKind::Internal).with_cause(error),
            is_unprocessed: false,
        })?;
        if let Some(timeline) = request.timeline {
            timeline.record_agent_head(&head.method, head.path(), &head.fields);
        }
        let body = match &request.operation {
            AgentOperation::Run(body) | AgentOperation::Start(body) => Some(body.clone()),
            AgentOperation::Events { .. } => None,
        };
        let sent = self.connection.exchange.send(&head, body).await;
        match sent {
            Ok(()) => {
                self.read_response_head().await?;
                if let Some(response) = self.head.as_mut().filter(|response| is_unserved(response.status)) {
                    let path = head.path().split('?').next().unwrap_or_default();
                    response.extensions.insert(UnservedRequest(format!("{} {path}", head.method)));
                }
                Ok(())
            }
            // Without the head, the agent has no request: no byte was sent that could start a run.
            Err(SendError { cause, progress: SendProgress::Nothing }) => Err(ExchangeError::from_write(&cause, true)),
            Err(SendError { cause, progress: SendProgress::Head }) => self.read_early_response(&cause).await,
            Err(SendError { cause, progress: SendProgress::NoResponse }) => Err(ExchangeError::from_read(&cause)),
        }
    }

    /// Reads the response of an agent that does not read the whole request. Over HTTP/2, an error from reading it takes
    /// precedence.
    async fn read_early_response(&mut self, error: &BError) -> Result<(), ExchangeError> {
        let is_unprocessed = pingora_errors::is_unprocessed(error);
        let unsent = ExchangeError::from_write(error, is_unprocessed);
        if is_unprocessed {
            return Err(unsent);
        }
        match timeout(EARLY_RESPONSE_TIMEOUT, self.read_response_head()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) if self.connection.exchange.is_http2() => Err(reason),
            Ok(Err(_)) | Err(_) => Err(unsent),
        }
    }

    async fn read_response_head(&mut self) -> Result<(), ExchangeError> {
        let head = self.connection.exchange.read_head().await.map_err(|error| ExchangeError::from_read(&error))?;
        self.head = Some(Box::new(head));
        Ok(())
    }

    pub(super) fn status(&self) -> Option<StatusCode> {
        self.head.as_ref().map(|head| head.status)
    }

    pub(in crate::proxy) fn take_response_head(&mut self) -> Option<Box<response::Parts>> {
        self.head.take()
    }

    /// Limits how many bytes the next reads of the body return. Over HTTP/2, they return what has been received.
    pub(in crate::proxy) const fn limit_reads(&mut self, bytes: usize) {
        self.connection.exchange.limit_reads(bytes);
    }

    /// Lets few bytes of the agent wake nobody until the mark is dropped.
    pub(in crate::proxy) fn raise_low_water_mark(&self) -> Option<RaisedLowWaterMark<'_>> {
        self.connection.exchange.raise_low_water_mark()
    }

    /// Returns whether another read of the body may return at once.
    pub(in crate::proxy) const fn may_have_more(&self) -> bool {
        self.connection.exchange.may_have_more()
    }

    /// Passes the next available piece of the body to `take`. Returns `false` at the end. Cancel safe. The error is
    /// boxed to keep waiting runs small.
    pub(in crate::proxy) async fn read_body(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, Box<Rejection>> {
        poll_fn(|cx| self.poll_body(cx, &mut take)).await
    }

    pub(in crate::proxy) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Box<Rejection>>> {
        let read = ready!(self.connection.exchange.poll_body(cx, take));
        Poll::Ready(read.map_err(|error| Box::new(pingora_errors::read_rejection(&error))))
    }
}
