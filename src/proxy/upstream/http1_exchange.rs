//! One request and its response on an HTTP/1.1 connection, which pingora's pool provides.
//!
//! ```text
//!   send: head and body in one write ─▶ read_head ─▶ read_body, piece by piece ─▶ into_connection, for another request
//!     ╰── an early response comes before all is sent ─▶ read_head
//! ```
//! pingora's own session keeps the request, both heads and a buffer of 64 KiB for each run. Here, a run that waits
//! holds only its connection: all reads of bodies on a thread share one buffer, in which they are decoded.

use super::http1_body::Http1Body;
use super::low_water_mark::RaisedLowWaterMark;
use crate::prefetch::prefetch;
use http::header::{self, AsHeaderName, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, response};
use pingora_core::protocols::{Stream, UniqueIDType};
use pingora_core::{BError, Error, ErrorType};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

/// Maximum bytes of one read of a body.
const READ_SIZE: usize = 16 << 10;

/// Maximum length of one head, over HTTP/2 too. Interim ones have a limit of time alone (`timeouts.first_byte`).
pub(super) const HEAD_LIMIT: usize = 16 << 10;

/// Maximum number of fields in a head.
const HEADER_COUNT_LIMIT: usize = 128;

/// Time after which an agent that has begun its response, and reads nothing of the rest of its request, gets no more of
/// it.
pub(super) const EARLY_STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of reads in a row without data.
const EMPTY_READS: usize = 16;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into());
}

pub(super) struct Http1Exchange {
    connection: Stream,
    /// bytes of the body that arrived with the head
    unread: Vec<u8>,
    body: Http1Body,
    max_read: usize,
    /// over TLS, a read returns what has been decrypted, and there may be more
    is_tls: bool,
    /// whether the last read of the body got less than it could take
    is_drained: bool,
    is_request_sent: bool,
    is_keep_alive: bool,
}

/// A step of sending a request, or of the response that comes meanwhile.
enum SendStep {
    /// more than nothing, unless an error
    Written(io::Result<usize>),
    Flushed(io::Result<()>),
    /// bytes of an early response, or that there are none
    Read(io::Result<usize>),
}

impl SendStep {
    fn from_write(written: io::Result<usize>) -> SendStep {
        SendStep::Written(match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        })
    }
}

/// The head of a response that is not interim.
struct ParsedHead {
    length: usize,
    parts: response::Parts,
}

impl Http1Exchange {
    pub(super) fn new(connection: Stream) -> Self {
        Http1Exchange {
            is_tls: connection.get_ssl_digest().is_some(),
            connection,
            unread: Vec::new(),
            body: Http1Body::UntilClose,
            max_read: usize::MAX,
            is_drained: false,
            is_request_sent: false,
            is_keep_alive: false,
        }
    }

    pub(super) fn id(&self) -> UniqueIDType {
        self.connection.id()
    }

    /// Writes a request. `written` counts its bytes, also if the write fails; then the agent may have answered early.
    ///
    /// "A client sending a message body SHOULD monitor the connection for an error status code while it is transmitting
    /// the request. If the client sees an error status code, it SHOULD immediately cease transmitting the body" [RFC
    /// 9112 §9.3.1, RFC 2616 §8.2.2]. After another status, the rest is written for as long as the agent reads it.
    pub(super) async fn send(&mut self, head: &[u8], body: &[u8], written: &mut usize) -> io::Result<()> {
        loop {
            let early = self.early_status();
            if early.is_some_and(|status| !status.is_success()) {
                return Ok(());
            }
            let step = poll_fn(|cx| self.poll_send(cx, [head, body], *written));
            let step = match early {
                None => step.await,
                Some(_) => match timeout(EARLY_STALL_TIMEOUT, step).await {
                    Ok(step) => step,
                    Err(_) => return Ok(()),
                },
            };
            match step {
                SendStep::Written(bytes) => *written += bytes?,
                SendStep::Flushed(flushed) => {
                    self.is_request_sent = true;
                    return flushed;
                }
                SendStep::Read(Ok(0)) => return Err(io::ErrorKind::ConnectionAborted.into()),
                SendStep::Read(read) => drop(read?),
            }
        }
    }

    /// Writes what it can, or else reads the beginning of an early response.
    fn poll_send(&mut self, cx: &mut Context<'_>, [head, body]: [&[u8]; 2], written: usize) -> Poll<SendStep> {
        let rest_of_head = &head[written.min(head.len())..];
        let rest_of_body = &body[written.saturating_sub(head.len())..];
        let connection = Pin::new(&mut self.connection);
        let is_written = rest_of_head.is_empty() && rest_of_body.is_empty();
        let step = match (is_written, rest_of_head.is_empty()) {
            (true, _) => connection.poll_flush(cx).map(SendStep::Flushed),
            (false, true) => connection.poll_write(cx, rest_of_body).map(SendStep::from_write),
            (false, false) => {
                let parts = [IoSlice::new(rest_of_head), IoSlice::new(rest_of_body)];
                connection.poll_write_vectored(cx, &parts).map(SendStep::from_write)
            }
        };
        if step.is_ready() || self.early_status().is_some() {
            return step;
        }
        let mut unread = std::mem::take(&mut self.unread);
        let read = self.poll_read_head(cx, &mut unread);
        self.unread = unread;
        read.map(SendStep::Read)
    }

    /// Returns the status of a response that began before the request was sent.
    fn early_status(&self) -> Option<StatusCode> {
        let mut bytes = self.unread.as_slice();
        while !bytes.is_empty()
            && let Ok(Some(head)) = parse_head(bytes)
        {
            if is_final(head.parts.status) {
                return Some(head.parts.status);
            }
            bytes = &bytes[head.length..];
        }
        None
    }

    /// Reads the head of the response, and skips interim ones [RFC 9110 §15.2].
    pub(super) async fn read_head(&mut self) -> Result<response::Parts, BError> {
        let mut bytes = std::mem::take(&mut self.unread);
        loop {
            while let Some(head) = parse_head(&bytes)? {
                bytes.drain(..head.length);
                if is_final(head.parts.status) {
                    self.body = response_body(&head.parts)?;
                    self.is_keep_alive = self.is_request_sent && is_keep_alive(&head.parts);
                    // An empty buffer is freed here: the run may wait for its body.
                    self.unread = if bytes.is_empty() { Vec::new() } else { bytes };
                    return Ok(head.parts);
                }
                // An agent that floods the gateway with them must not keep the run from its deadlines.
                tokio::task::yield_now().await;
            }
            if bytes.len() >= HEAD_LIMIT {
                let cause = format!("the head of the response is longer than {HEAD_LIMIT} bytes");
                return Error::e_explain(ErrorType::InvalidHTTPHeader, cause);
            }
            let received = bytes.len();
            let what = || format!("while reading the head of the response, after {received} bytes");
            match poll_fn(|cx| self.poll_read_head(cx, &mut bytes)).await {
                Ok(0) => return Error::e_explain(ErrorType::ConnectionClosed, what()),
                Ok(_) => {}
                Err(error) => return Error::e_because(ErrorType::ReadError, what(), error),
            }
        }
    }

    /// Adds what can be read at once, which is often a part of the body, too. A run that waits holds no buffer for it.
    fn poll_read_head(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let room = READ_SIZE.min(HEAD_LIMIT - bytes.len());
            let mut buffer = ReadBuf::new(&mut buffer[..room]);
            ready!(Pin::new(&mut self.connection).poll_read(cx, &mut buffer))?;
            bytes.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    pub(super) fn prefetch(&self) {
        prefetch(&*self.connection);
    }

    /// Limits the bytes of each following read of the body.
    pub(super) const fn limit_reads(&mut self, bytes: usize) {
        self.max_read = bytes;
    }

    /// Returns whether another read may return at once.
    pub(super) const fn may_have_more(&self) -> bool {
        !self.is_drained || matches!(self.body, Http1Body::Ended { .. } | Http1Body::Invalid)
    }

    /// Lets less than a whole read wake nobody until the mark is dropped.
    #[expect(unsafe_code, reason = "pingora's streams give their descriptor as a number")]
    pub(super) fn raise_low_water_mark(&self) -> Option<RaisedLowWaterMark<'_>> {
        // SAFETY: it is open for as long as `connection`, which owns it and is borrowed for as long as the mark.
        RaisedLowWaterMark::new(unsafe { BorrowedFd::borrow_raw(self.id()) })
    }

    /// Passes the next piece of the body to `take`. Returns `false` at the end.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, BError>> {
        for _ in 0..EMPTY_READS {
            match self.body {
                Http1Body::Ended { .. } if self.unread.is_empty() => return Poll::Ready(Ok(false)),
                Http1Body::Invalid => {
                    return Poll::Ready(Error::e_explain(ErrorType::Custom("InvalidChunk"), "an invalid chunk"));
                }
                _ => {}
            }
            let has_data = if self.unread.is_empty() {
                READ_BUFFER.with_borrow_mut(|buffer| {
                    let mut buffer = ReadBuf::new(&mut buffer[..self.max_read.min(READ_SIZE)]);
                    ready!(Pin::new(&mut self.connection).poll_read(cx, &mut buffer)).map_err(|error| {
                        Error::because(ErrorType::ReadError, "while reading the body of the response", error)
                    })?;
                    self.is_drained = !self.is_tls && buffer.remaining() > 0;
                    match buffer.filled_mut() {
                        [] => Poll::Ready(self.end_connection().map(|()| false)),
                        bytes => Poll::Ready(Ok(decode_piece(&mut self.body, bytes, take))),
                    }
                })
            } else {
                let mut bytes = std::mem::take(&mut self.unread);
                Poll::Ready(Ok(decode_piece(&mut self.body, &mut bytes, take)))
            };
            if ready!(has_data)? {
                return Poll::Ready(Ok(true));
            }
        }
        // An agent that floods the gateway with chunks without data must not keep the run from its deadlines.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ends a body whose connection has ended.
    fn end_connection(&mut self) -> Result<(), BError> {
        match self.body {
            Http1Body::UntilClose => {
                self.body = Http1Body::Ended { is_reusable: false };
                Ok(())
            }
            Http1Body::Sized { left } => {
                let cause = format!("the connection was closed with {left} bytes of the body left to read");
                Error::e_explain(ErrorType::ConnectionClosed, cause)
            }
            _ => Error::e_explain(ErrorType::ConnectionClosed, "the connection was closed before the last chunk"),
        }
    }

    /// Returns the connection for another request, or closes it.
    pub(super) async fn into_connection(mut self) -> Option<Stream> {
        if self.is_keep_alive && self.unread.is_empty() && self.body == (Http1Body::Ended { is_reusable: true }) {
            return Some(self.connection);
        }
        let _ = AsyncWriteExt::shutdown(&mut self.connection).await;
        None
    }
}

fn is_final(status: StatusCode) -> bool {
    !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS
}

/// Passes the data in `bytes` to `take`, and returns whether there are any.
fn decode_piece(body: &mut Http1Body, bytes: &mut [u8], take: &mut dyn FnMut(&[u8])) -> bool {
    let data = body.decode(bytes);
    if data.is_empty() {
        return false;
    }
    take(&bytes[data]);
    true
}

/// Parses a head if `bytes` begin with a whole one.
fn parse_head(bytes: &[u8]) -> Result<Option<ParsedHead>, BError> {
    let invalid = |cause: &dyn std::fmt::Display| {
        let start = bytes[..bytes.len().min(200)].escape_ascii();
        Error::explain(ErrorType::InvalidHTTPHeader, format!("the head of the response is not valid: {cause}: {start}"))
    };
    let mut fields = [const { std::mem::MaybeUninit::uninit() }; HEADER_COUNT_LIMIT];
    let mut head = httparse::Response::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    // "A proxy MUST remove any such whitespace from a response message before forwarding" [RFC 9112 §5.1]
    parser.allow_spaces_after_header_name_in_responses(true);
    let parsed = parser.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    let httparse::Status::Complete(length) = parsed.map_err(|error| invalid(&error))? else { return Ok(None) };
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(head.code.unwrap_or_default()).map_err(|error| invalid(&error))?;
    parts.version = if head.version == Some(0) { http::Version::HTTP_10 } else { http::Version::HTTP_11 };
    parts.headers = HeaderMap::with_capacity(head.headers.len());
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|error| invalid(&error))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|error| invalid(&error))?;
        parts.headers.append(name, value);
    }
    Ok(Some(ParsedHead { length, parts }))
}

/// Returns how the body of a response to GET or POST ends [RFC 9112 §6.3].
fn response_body(head: &response::Parts) -> Result<Http1Body, BError> {
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::SWITCHING_PROTOCOLS) {
        return Ok(Http1Body::sized(0));
    }
    // "the Transfer-Encoding overrides the Content-Length" [RFC 9112 §6.3]
    if head.headers.contains_key(header::TRANSFER_ENCODING) {
        let last = tokens(head, header::TRANSFER_ENCODING).last();
        let is_chunked = last.is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
        return Ok(if is_chunked { Http1Body::CHUNKED } else { Http1Body::UntilClose });
    }
    let mut lengths = tokens(head, header::CONTENT_LENGTH);
    let Some(first) = lengths.next() else { return Ok(Http1Body::UntilClose) };
    let digits = str::from_utf8(first).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(length) if lengths.all(|other| other == first) => Ok(Http1Body::sized(length)),
        _ => Error::e_explain(ErrorType::InvalidHTTPHeader, "the response has an invalid Content-Length"),
    }
}

/// Returns whether the connection may be used again after the body [RFC 9112 §9.3].
fn is_keep_alive(head: &response::Parts) -> bool {
    // The agent, or a proxy before it, may see the end of the body elsewhere [RFC 9112 §6.1].
    if head.headers.contains_key(header::TRANSFER_ENCODING) && head.headers.contains_key(header::CONTENT_LENGTH) {
        return false;
    }
    let has = |option: &[u8]| tokens(head, header::CONNECTION).any(|token| token.eq_ignore_ascii_case(option));
    match head.version {
        http::Version::HTTP_10 => has(b"keep-alive") && !head.headers.contains_key(header::TRANSFER_ENCODING),
        _ => !has(b"close") && head.status != StatusCode::SWITCHING_PROTOCOLS,
    }
}

/// Returns the members of a field whose value is a list.
fn tokens(head: &response::Parts, name: impl AsHeaderName) -> impl Iterator<Item = &[u8]> {
    head.headers
        .get_all(name)
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests;
