//! One request and its response, over either version of HTTP.

use super::http1_exchange::{EARLY_STALL_TIMEOUT, Http1Exchange};
use super::low_water_mark::RaisedLowWaterMark;
use super::request_head::AgentRequestHead;
use bytes::Bytes;
use http::response;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::v2::client::Http2Session;
use pingora_core::protocols::http::v2::write_body;
use pingora_core::{BError, Error, ErrorType};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for writing a request, in case `first_byte` is very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) enum AgentExchange {
    Http1(Http1Exchange),
    Http2(Box<Http2Session>),
    /// returned to its pool
    Released,
}

pub(super) struct OpenedExchange {
    pub(super) exchange: AgentExchange,
    /// over a connection that was open already
    pub(super) is_reused: bool,
}

/// A request that was not written whole.
pub(super) struct SendError {
    pub(super) cause: BError,
    pub(super) progress: SendProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// not even its whole head was written
    Nothing,
    Head,
    /// the response was awaited meanwhile, and there is none
    NoResponse,
}

impl AgentExchange {
    pub(super) fn http1(connection: Stream) -> Self {
        AgentExchange::Http1(Http1Exchange::new(connection))
    }

    pub(super) fn http2(session: Http2Session) -> Self {
        AgentExchange::Http2(Box::new(session))
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self, AgentExchange::Http2(_))
    }

    pub(super) async fn send(&mut self, head: &AgentRequestHead, body: Option<Bytes>) -> Result<(), SendError> {
        match self {
            AgentExchange::Http1(exchange) => send_http1(exchange, head, &body.unwrap_or_default()).await,
            AgentExchange::Http2(session) => {
                let sent = head.to_http2().and_then(|head| session.write_request_header(Box::new(head), false));
                sent.map_err(|cause| SendError { cause, progress: SendProgress::Nothing })?;
                send_http2_body(session, body).await
            }
            AgentExchange::Released => Err(SendError { cause: released(), progress: SendProgress::Nothing }),
        }
    }

    pub(super) async fn read_head(&mut self) -> Result<response::Parts, BError> {
        match self {
            AgentExchange::Http1(exchange) => exchange.read_head().await,
            AgentExchange::Http2(session) => {
                // An early response has been read already.
                if session.response_header().is_none() {
                    session.read_response_header().await?;
                }
                let head = session.response_header().map(|head| response::Parts::clone(head));
                head.ok_or_else(|| Error::explain(ErrorType::InvalidH2, "no head of a response"))
            }
            AgentExchange::Released => Err(released()),
        }
    }

    /// Fetches what reading the body touches, beside this.
    pub(super) fn prefetch(&self) {
        if let AgentExchange::Http1(exchange) = self {
            exchange.prefetch();
        }
    }

    /// Limits the bytes of each following read of the body over HTTP/1.
    pub(super) const fn limit_reads(&mut self, bytes: usize) {
        if let AgentExchange::Http1(exchange) = self {
            exchange.limit_reads(bytes);
        }
    }

    /// Returns whether another read of the body may return at once.
    pub(super) const fn may_have_more(&self) -> bool {
        match self {
            AgentExchange::Http1(exchange) => exchange.may_have_more(),
            AgentExchange::Http2(_) | AgentExchange::Released => true,
        }
    }

    /// Lets few bytes wake nobody until the mark is dropped. Over HTTP/2, runs share their connection.
    pub(super) fn raise_low_water_mark(&self) -> Option<RaisedLowWaterMark<'_>> {
        match self {
            AgentExchange::Http1(exchange) => exchange.raise_low_water_mark(),
            AgentExchange::Http2(_) | AgentExchange::Released => None,
        }
    }

    /// Passes the next piece of the body to `take`. Returns `false` at the end. Cancel safe.
    pub(super) async fn read_body(&mut self, mut take: impl FnMut(&[u8])) -> Result<bool, BError> {
        poll_fn(|cx| self.poll_body(cx, &mut take)).await
    }

    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, BError>> {
        match self {
            AgentExchange::Http1(exchange) => exchange.poll_body(cx, take),
            // The future keeps nothing from one poll to the next, since the session has no timeout of its own.
            AgentExchange::Http2(session) => {
                let piece = ready!(pin!(session.read_response_body()).poll(cx))?;
                Poll::Ready(Ok(piece.map(|piece| take(&piece)).is_some()))
            }
            AgentExchange::Released => Poll::Ready(Err(released())),
        }
    }
}

/// Writes the body until the agent refuses the request. "A server MAY send a complete response prior to the client
/// sending an entire request": then the rest is not sent, and the stream is reset with its end [RFC 9113 §8.1]. After a
/// success, the rest is written for as long as the agent reads it.
async fn send_http2_body(session: &mut Http2Session, body: Option<Bytes>) -> Result<(), SendError> {
    let failed = |cause| SendError { cause, progress: SendProgress::Head };
    let Some(body) = body.filter(|body| !body.is_empty()) else { return session.finish_request_body().map_err(failed) };
    let writer = session.take_request_body_writer();
    let mut writer =
        writer.ok_or_else(|| failed(Error::explain(ErrorType::InternalError, "no writer for the body")))?;
    let mut sending = pin!(write_body(&mut writer, body, true, Some(WRITE_TIMEOUT)));
    tokio::select! {
        biased;
        sent = &mut sending => return sent.map_err(failed),
        read = session.read_response_header() => {
            read.map_err(|cause| SendError { cause, progress: SendProgress::NoResponse })?;
        }
    }
    if session.response_header().is_none_or(|head| !head.status.is_success()) {
        return Ok(());
    }
    timeout(EARLY_STALL_TIMEOUT, sending).await.unwrap_or(Ok(())).map_err(failed)
}

async fn send_http1(exchange: &mut Http1Exchange, head: &AgentRequestHead, body: &[u8]) -> Result<(), SendError> {
    let head = head.to_http1();
    let mut written = 0;
    let cause = match timeout(WRITE_TIMEOUT, exchange.send(&head, body, &mut written)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => Error::because(ErrorType::WriteError, "while writing the request", error),
        Err(_) => Error::explain(ErrorType::WriteTimedout, "while writing the request"),
    };
    let progress = if written >= head.len() { SendProgress::Head } else { SendProgress::Nothing };
    Err(SendError { cause, progress })
}

fn released() -> BError {
    Error::explain(ErrorType::InternalError, "the connection was returned to its pool")
}
