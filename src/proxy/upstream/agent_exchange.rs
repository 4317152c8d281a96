//! One request and its response, over either version of HTTP.

use super::http1_exchange::Http1Exchange;
use super::request_head::AgentRequestHead;
use bytes::Bytes;
use http::response;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::v2::client::Http2Session;
use pingora_core::{BError, Error, ErrorType};
use std::time::Duration;
use tokio::time::timeout;

/// Timeout for writing a request, in case `first_byte` is very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) enum AgentExchange {
    Http1(Box<Http1Exchange>),
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
    /// whether its whole head was written
    pub(super) has_head: bool,
}

impl AgentExchange {
    pub(super) fn http1(connection: Stream) -> Self {
        AgentExchange::Http1(Box::new(Http1Exchange::new(connection)))
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
                session.write_timeout = Some(WRITE_TIMEOUT);
                let sent = head.to_http2().and_then(|head| session.write_request_header(Box::new(head), false));
                sent.map_err(|cause| SendError { cause, has_head: false })?;
                let sent = async {
                    if let Some(body) = body {
                        session.write_request_body(body, true).await?;
                    }
                    session.finish_request_body()
                };
                sent.await.map_err(|cause| SendError { cause, has_head: true })
            }
            AgentExchange::Released => Err(SendError { cause: released(), has_head: false }),
        }
    }

    pub(super) async fn read_head(&mut self) -> Result<response::Parts, BError> {
        match self {
            AgentExchange::Http1(exchange) => exchange.read_head().await,
            AgentExchange::Http2(session) => {
                session.read_response_header().await?;
                let head = session.response_header().map(|head| response::Parts::clone(head));
                head.ok_or_else(|| Error::explain(ErrorType::InvalidH2, "no head of a response"))
            }
            AgentExchange::Released => Err(released()),
        }
    }

    /// Passes the next piece of the body to `take`. Returns `false` at the end. Cancel safe.
    pub(super) async fn read_body(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, BError> {
        match self {
            AgentExchange::Http1(exchange) => exchange.read_body(take).await,
            AgentExchange::Http2(session) => {
                Ok(session.read_response_body().await?.map(|piece| take(&piece)).is_some())
            }
            AgentExchange::Released => Err(released()),
        }
    }
}

async fn send_http1(exchange: &mut Http1Exchange, head: &AgentRequestHead, body: &[u8]) -> Result<(), SendError> {
    let head = head.to_http1();
    let mut written = 0;
    let cause = match timeout(WRITE_TIMEOUT, exchange.send(&head, body, &mut written)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => Error::because(ErrorType::WriteError, "while writing the request", error),
        Err(_) => Error::explain(ErrorType::WriteTimedout, "while writing the request"),
    };
    Err(SendError { cause, has_head: written >= head.len() })
}

fn released() -> BError {
    Error::explain(ErrorType::InternalError, "the connection was returned to its pool")
}
