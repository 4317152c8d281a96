//! Connections of HTTP/1 whose streams are written without hyper.
//!
//! ```text
//!   hyper ── has written the head of a stream ──▶ Streaming ── its last chunk ──▶ hyper, for the next request
//!     │ the connection ends                           │ the client left, the body was cut off, HTTP/1.0
//!     ▼                                               ▼
//!   closed                                          closed
//! ```
//! hyper holds two buffers of 8 KiB and a state of 2 KiB for every connection, and needs them to read requests and to write
//! heads. A run that waits for its agent needs neither, and most runs wait most of the time: measured, an idle stream takes
//! 11 KiB less without them. So hyper reads the request and writes the head; a body whose length is not known leaves from
//! here, in the chunks that the head promised.

use super::attending::Attending;
use bytes::{Buf, Bytes};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use pingora_core::server::ShutdownWatch;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Most bytes that a client may send while its stream lasts: requests that it does not wait with. With more the socket is
/// left to fill up, and whether the client is there is seen by what it takes alone.
const AHEAD: usize = 64 << 10;

/// What is read at once of those.
const READ: usize = 2 << 10;

/// What ends the head of an answer.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Serves HTTP/1 on `io` until the connection is closed, which it is asked to when the process ends.
pub(super) async fn serve<I, S, B>(
    builder: &http1::Builder,
    mut io: Attending<I>,
    service: &S,
    mut shutdown: ShutdownWatch,
) where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Future: Unpin,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // A connection that breaks is the client's business; its runs notice by themselves.
    // Both are boxed, so that an idle stream keeps itself and nothing else.
    while let Some(mut stream) = Box::pin(until_stream(builder, io, service.clone(), &mut shutdown)).await {
        if (&mut stream).await.is_err() {
            return;
        }
        let Streaming { head, ahead, io: given_back, .. } = *stream;
        io = given_back;
        if head.closes || *shutdown.borrow() {
            let _ = io.shutdown().await;
            return;
        }
        io.put_back(&ahead);
    }
}

/// Lets hyper serve until it has written the head of a stream. `None` when the connection has ended before.
async fn until_stream<I, S, B>(
    builder: &http1::Builder,
    io: Attending<I>,
    service: S,
    shutdown: &mut ShutdownWatch,
) -> Option<Box<Streaming<Attending<I>, B>>>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Future: Unpin,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let switch = Switch::default();
    let tapped = TokioIo::new(Tapped { switch: switch.clone(), io });
    let diverting = Diverting { switch: switch.clone(), inner: service };
    // Boxed, so that nothing is left of it while a stream lasts.
    let mut connection = Box::new(builder.serve_connection(tapped, diverting));
    let mut asked = false;
    let (body, head) = loop {
        let served = poll_fn(|cx| match Pin::new(&mut *connection).poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => switch.written().map_or(Poll::Pending, |written| Poll::Ready(Some(written))),
        });
        tokio::select! {
            written = served => break written?,
            _ = shutdown.changed(), if !asked => asked = true,
        }
        Pin::new(&mut *connection).graceful_shutdown();
    };
    let parts = connection.into_parts();
    let Tapped { io, .. } = parts.io.into_inner();
    Some(Box::new(Streaming { io, body, head, out: Out::Waiting, ahead: parts.read_buf.to_vec() }))
}

/// What the head of a stream says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// the body is in chunks; otherwise it ends with the connection
    chunked: bool,
    /// the connection ends with the body
    closes: bool,
}

impl Head {
    /// Reads what hyper wrote, as soon as that is a whole head. Interim answers (1xx) before it are none.
    fn read(written: &[u8]) -> Option<Head> {
        let end = memchr::memmem::find(written, HEAD_END)?;
        let (head, rest) = written.split_at(end + HEAD_END.len());
        // "HTTP/1.1 100": the first digit of the status.
        if head.get(9) == Some(&b'1') {
            return Head::read(rest);
        }
        let has =
            |field: &[u8]| head.split(|byte| *byte == b'\n').any(|line| line.trim_ascii().eq_ignore_ascii_case(field));
        let chunked = has(b"transfer-encoding: chunked");
        Some(Head { chunked, closes: !chunked || has(b"connection: close") })
    }
}

/// What the service and the socket of a connection tell each other past hyper, which is between them.
struct Switch<B>(Arc<Mutex<Option<Diverted<B>>>>);

/// The body of a stream, and what hyper wrote since it was taken.
struct Diverted<B> {
    body: B,
    written: Vec<u8>,
}

impl<B> Default for Switch<B> {
    fn default() -> Self {
        Switch(Arc::default())
    }
}

impl<B> Clone for Switch<B> {
    fn clone(&self) -> Self {
        Switch(Arc::clone(&self.0))
    }
}

impl<B> Switch<B> {
    fn state(&self) -> MutexGuard<'_, Option<Diverted<B>>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of a stream whose head has left.
    fn written(&self) -> Option<(B, Head)> {
        let mut state = self.state();
        let head = Head::read(&state.as_ref()?.written)?;
        Some((state.take()?.body, head))
    }
}

/// A service whose streams hyper sees the head of, and no more.
struct Diverting<S, B> {
    switch: Switch<B>,
    inner: S,
}

impl<S, B> Service<Request<Incoming>> for Diverting<S, B>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Unpin,
    B: Body,
{
    type Response = Response<Given<B>>;
    type Error = S::Error;
    type Future = Awaited<S::Future, B>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // HEAD has no body, whatever its head says [RFC 9110 §9.3.2].
        let switch = (*request.method() != Method::HEAD).then(|| self.switch.clone());
        Awaited { switch, inner: self.inner.call(request) }
    }
}

/// An answer that is awaited.
struct Awaited<F, B> {
    switch: Option<Switch<B>>,
    inner: F,
}

impl<F, B, E> Future for Awaited<F, B>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
    B: Body,
{
    type Output = Result<Response<Given<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (parts, body) = ready!(Pin::new(&mut self.inner).poll(cx))?.into_parts();
        let stream = body.size_hint().exact().is_none() && !body.is_end_stream();
        let body = match self.switch.take().filter(|_| stream) {
            None => Given::Here(body),
            Some(switch) => {
                *switch.state() = Some(Diverted { body, written: Vec::new() });
                Given::Elsewhere
            }
        };
        Poll::Ready(Ok(Response::from_parts(parts, body)))
    }
}

/// The body that hyper is given.
enum Given<B> {
    Here(B),
    /// none that it will ever see
    Elsewhere,
}

impl<B: Body + Unpin> Body for Given<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match &mut *self {
            Given::Here(body) => Pin::new(body).poll_frame(cx),
            // Whoever polls looks at the switch when hyper has nothing more to do.
            Given::Elsewhere => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Given::Here(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Given::Here(body) => body.size_hint(),
            Given::Elsewhere => SizeHint::default(),
        }
    }
}

/// A socket that notes what is written of a stream's head.
struct Tapped<I, B> {
    switch: Switch<B>,
    io: I,
}

impl<I: AsyncRead + Unpin, B> AsyncRead for Tapped<I, B> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin, B> AsyncWrite for Tapped<I, B> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
        if let Some(diverted) = &mut *self.switch.state() {
            diverted.written.extend_from_slice(&bytes[..written]);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A stream on its way: a future that is ready when all of it was written, and fails when it cannot or may not be.
struct Streaming<I, B> {
    io: I,
    body: B,
    head: Head,
    out: Out,
    /// what the client sent meanwhile: its next requests
    ahead: Vec<u8>,
}

/// What is being written.
enum Out {
    Waiting,
    Chunk(Chunk),
    Last(Chunk),
}

impl<I, B> Future for Streaming<I, B>
where
    I: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin + 'static,
{
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Streaming { io, body, head, out, ahead } = &mut *self;
        listen(io, ahead, cx)?;
        loop {
            match out {
                Out::Chunk(chunk) => {
                    ready!(chunk.poll_write(io, cx))?;
                    *out = Out::Waiting;
                }
                Out::Last(chunk) => {
                    ready!(chunk.poll_write(io, cx))?;
                    return Pin::new(io).poll_flush(cx);
                }
                Out::Waiting => match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        // A chunk of no bytes would be the last one [RFC 9112 §7.1].
                        if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                            *out = Out::Chunk(Chunk::new(data, head.chunked));
                        }
                    }
                    // Cut off: the connection ends without a last chunk, which tells the client so.
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                    Poll::Ready(None) => *out = Out::Last(Chunk::last(head.chunked)),
                    Poll::Pending => {
                        let _ = Pin::new(io).poll_flush(cx)?;
                        return Poll::Pending;
                    }
                },
            }
        }
    }
}

/// Takes what the client sends, so that its leaving is noticed.
fn listen<I: AsyncRead + Unpin>(io: &mut I, ahead: &mut Vec<u8>, cx: &mut Context<'_>) -> io::Result<()> {
    while ahead.len() < AHEAD {
        let mut bytes = [0; READ];
        let mut buf = ReadBuf::new(&mut bytes);
        match Pin::new(&mut *io).poll_read(cx, &mut buf) {
            Poll::Pending => return Ok(()),
            Poll::Ready(read) => read?,
        }
        if buf.filled().is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        ahead.extend_from_slice(buf.filled());
    }
    Ok(())
}

/// One chunk as it is written: its length, its bytes, the end of their line [RFC 9112 §7.1]. Without the first and the last
/// where the end of the connection is the body's.
struct Chunk {
    line: Bytes,
    data: Bytes,
    end: &'static [u8],
}

impl Chunk {
    fn new(data: Bytes, chunked: bool) -> Self {
        if !chunked {
            return Chunk { line: Bytes::new(), data, end: b"" };
        }
        Chunk { line: format!("{:X}\r\n", data.len()).into(), data, end: b"\r\n" }
    }

    fn last(chunked: bool) -> Self {
        Chunk { line: Bytes::new(), data: Bytes::new(), end: if chunked { b"0\r\n\r\n" } else { b"" } }
    }

    fn poll_write<I: AsyncWrite + Unpin>(&mut self, io: &mut I, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.line.len() + self.data.len() + self.end.len() > 0 {
            let slices = [IoSlice::new(&self.line), IoSlice::new(&self.data), IoSlice::new(self.end)];
            let mut written = ready!(Pin::new(&mut *io).poll_write_vectored(cx, &slices))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            for part in [&mut self.line, &mut self.data] {
                let taken = written.min(part.len());
                part.advance(taken);
                written -= taken;
            }
            self.end = &self.end[written..];
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::pipe::{CutOff, Writer as PipeWriter, pipe};
    use super::super::activity::Activity;
    use super::*;
    use http_body_util::BodyExt;
    use http_body_util::Full;
    use http_body_util::combinators::UnsyncBoxBody;
    use hyper::service::service_fn;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, DuplexStream};
    use tokio::sync::watch;
    use tokio::task::JoinHandle;

    type TestBody = UnsyncBoxBody<Bytes, CutOff>;
    type Writers = Arc<Mutex<Vec<Writer>>>;

    /// A connection whose requests for `/stream` are answered with what the returned writer is given, the `n`th of them
    /// after "<n>;"; others at once and whole. At most `window` bytes are on their way.
    fn connection(window: usize) -> (DuplexStream, JoinHandle<()>, watch::Sender<bool>, Writers) {
        let (client, stream) = tokio::io::duplex(window);
        let writers = Writers::default();
        let (process, shutdown) = watch::channel(false);
        let (kept, count) = (Arc::clone(&writers), Arc::new(AtomicUsize::new(0)));
        let service = service_fn(move |request: Request<Incoming>| {
            let (kept, number) = (Arc::clone(&kept), count.fetch_add(1, Ordering::Relaxed));
            Box::pin(async move {
                let path = request.uri().path().to_owned();
                request.into_body().collect().await.expect("a whole request");
                let body: TestBody = if path == "/stream" {
                    let (writer, reader) = pipe(1 << 20, ());
                    writer.write(&mut format!("{number};").into_bytes()).await.expect("room");
                    kept.lock().expect("nobody panics").push(writer);
                    reader.boxed_unsync()
                } else {
                    Full::from("whole").map_err(|never| match never {}).boxed_unsync()
                };
                Ok::<_, Infallible>(Response::new(body))
            })
        });
        let served = tokio::spawn(async move {
            serve(&http1::Builder::new(), Attending::new(stream, Activity::new()), &service, shutdown).await;
        });
        (client, served, process, writers)
    }

    type Writer = PipeWriter<()>;

    async fn until(client: &mut DuplexStream, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            let mut byte = [0];
            assert_eq!(client.read(&mut byte).await.expect("bytes"), 1, "{}", String::from_utf8_lossy(&heard));
            heard.push(byte[0]);
        }
        String::from_utf8(heard).expect("text")
    }

    /// Ends a body. The client of a test does not say that it has come, so nobody waits for it.
    fn end(writer: Writer) {
        tokio::spawn(writer.finish());
    }

    fn last(writers: &Mutex<Vec<Writer>>) -> Writer {
        writers.lock().expect("nobody panics").pop().expect("a stream")
    }

    const ASK: &[u8] = b"POST /stream HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}";

    #[tokio::test]
    async fn a_stream_leaves_in_chunks_and_its_connection_serves_the_next_request() {
        // A narrow window: heads, chunks and ends are torn at every place.
        for window in [1, 7, 64, 4096] {
            let (mut client, _served, _process, writers) = connection(window);
            for number in [0, 2, 4] {
                client.write_all(ASK).await.expect("taken");
                let head = until(&mut client, "\r\n\r\n").await;
                assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
                assert_eq!(until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
                let writer = last(&writers);
                let long = "x".repeat(5000);
                writer.write(&mut long.clone().into_bytes()).await.expect("room");
                assert_eq!(until(&mut client, "x\r\n").await, format!("1388\r\n{long}\r\n"));
                end(writer);
                assert_eq!(until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
                client.write_all(b"GET /whole HTTP/1.1\r\nHost: g\r\n\r\n").await.expect("taken");
                assert!(until(&mut client, "whole").await.contains("content-length: 5"));
            }
        }
    }

    #[tokio::test]
    async fn requests_that_do_not_wait_are_served_in_their_order_and_none_is_lost() {
        let (mut client, _served, _process, writers) = connection(1 << 16);
        client.write_all(&ASK.repeat(3)).await.expect("taken");
        for number in 0..3 {
            assert!(until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
            assert_eq!(until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
            end(last(&writers));
            assert_eq!(until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_lets_go_of_its_run_whatever_it_sent_before() {
        for asked in [ASK.to_vec(), ASK.repeat(20)] {
            let (mut client, served, _process, writers) = connection(1 << 16);
            client.write_all(&asked).await.expect("taken");
            until(&mut client, ";\r\n").await;
            let writer = last(&writers);
            drop(client);
            writer.gone().await;
            served.await.expect("the connection has ended");
            assert!(writers.lock().expect("nobody panics").is_empty(), "another run began for a client that left");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_cut_off_has_no_last_chunk() {
        let (mut client, served, _process, writers) = connection(1 << 16);
        client.write_all(ASK).await.expect("taken");
        until(&mut client, ";\r\n").await;
        last(&writers).cut();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, b"");
        served.await.expect("the connection has ended");
    }

    #[tokio::test]
    async fn http_1_0_and_who_asks_for_it_get_the_end_of_the_connection() {
        let old = b"POST /stream HTTP/1.0\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}".as_slice();
        let closing =
            b"POST /stream HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".as_slice();
        for (ask, body) in [(old, "0;"), (closing, "2\r\n0;\r\n0\r\n\r\n")] {
            let (mut client, served, _process, writers) = connection(1 << 16);
            client.write_all(ask).await.expect("taken");
            until(&mut client, "0;").await;
            end(last(&writers));
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.expect("the end");
            served.await.expect("the connection has ended");
            assert_eq!(String::from_utf8_lossy(&rest), body.split_once("0;").expect("its first bytes").1);
        }
    }

    #[tokio::test]
    async fn a_process_that_ends_lets_a_stream_finish_and_closes_then() {
        let (mut client, served, process, writers) = connection(1 << 16);
        client.write_all(ASK).await.expect("taken");
        until(&mut client, ";\r\n").await;
        process.send(true).expect("a listener");
        let writer = last(&writers);
        writer.write(&mut b"more;".to_vec()).await.expect("room");
        until(&mut client, "more;\r\n").await;
        end(writer);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("the end");
        assert_eq!(rest, b"0\r\n\r\n");
        served.await.expect("the connection has ended");
    }

    #[test]
    fn a_head_is_read_when_it_is_whole_and_interim_answers_are_none() {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        assert!((0..head.len()).all(|cut| Head::read(&head[..cut]).is_none()));
        assert_eq!(Head::read(head), Some(Head { chunked: true, closes: true }));
        let interim = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), head].concat();
        assert_eq!(Head::read(&interim[..25]), None);
        assert_eq!(Head::read(&interim), Head::read(head));
        assert_eq!(Head::read(b"HTTP/1.0 200 OK\r\n\r\n"), Some(Head { chunked: false, closes: true }));
    }
}
