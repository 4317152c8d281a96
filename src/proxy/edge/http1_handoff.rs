//! Writes HTTP/1 streams without hyper, to save memory.
//!
//! ```text
//!   hyper ── has encoded the head of a stream ──▶ RawChunkedWriter ── its last chunk ──▶ hyper, for the next request
//!     │ the connection ends                           │ the client left, the body was aborted, HTTP/1.0
//!     ▼                                               ▼
//!   closed                                          closed
//! ```
//! hyper holds two buffers of 8 KiB and a state of 2 KiB per connection, which a run that waits for its agent does not
//! need: without them an idle stream takes 11 KiB less (measured). So hyper reads the request and encodes the head, and
//! this module writes the head and a body of unknown length. If the first events are already there, they leave with the
//! head in one write.

use super::activity::ConnectionTimeouts;
use super::http1_chunk::{BodyFraming, ChunkData, Http1Chunk};
use super::read_ahead::{ReadAheadStream, buffer_available};
use crate::prefetch::prefetch;
use crate::proxy::registered_waker::RegisteredWaker;
use crate::proxy::relayed_run::{RelayedPiece, RelayedRun, RelayedRunSlot};
use crate::telemetry::label::ConnectionRejectReason;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use pingora_core::server::ShutdownWatch;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

#[cfg(test)]
mod tests;

/// Maximum bytes of pipelined requests read during a stream. Beyond that, only a write detects a disconnect.
const READ_AHEAD_LIMIT: usize = 16 << 10;

pub(super) async fn serve<I, S, B>(
    builder: &http1::Builder,
    mut io: ReadAheadStream<Box<I>>,
    service: &S,
    timeouts: ConnectionTimeouts,
    mut shutdown: ShutdownWatch,
) -> Result<(), ConnectionRejectReason>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Future: Unpin,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let activity = io.activity();
    loop {
        // The connection's timeouts matter only here: a stream's run has deadlines of its own.
        let requests = async {
            tokio::select! {
                next = serve_until_stream(builder, io, service.clone(), &mut shutdown) => next,
                () = activity.wait_overdue(timeouts) => Ok(None),
            }
        };
        // Broken connections need no report, since their runs notice by themselves. Both futures are boxed, so that an
        // idle stream holds only itself.
        let Some(mut stream) = Box::pin(requests).await? else { return Ok(()) };
        if (&mut stream).await.is_err() {
            return Ok(());
        }
        let RawChunkedWriter { framing, read_ahead, .. } = *stream;
        io = stream.io;
        if framing != BodyFraming::Chunked || *shutdown.borrow() {
            let _ = io.shutdown().await;
            return Ok(());
        }
        io.put_back(&read_ahead);
    }
}

async fn serve_until_stream<I, S, B>(
    builder: &http1::Builder,
    io: ReadAheadStream<Box<I>>,
    service: S,
    shutdown: &mut ShutdownWatch,
) -> Result<Option<Box<RawChunkedWriter<I, B>>>, ConnectionRejectReason>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Future: Unpin,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let handoff = Arc::new(Mutex::new(HandoffState::Idle));
    let io = TokioIo::new(HeadTap { handoff: Arc::clone(&handoff), io });
    let service = CapturingService { handoff: Arc::clone(&handoff), inner: service };
    // Boxed, so that it can be freed during a stream.
    let mut connection = Box::new(builder.serve_connection(io, service));
    let mut is_closing = false;
    let CapturedStream { body, run, framing, head } = loop {
        let served = poll_fn(|cx| match Pin::new(&mut *connection).poll(cx) {
            Poll::Ready(Err(why)) if why.is_parse_too_large() => Poll::Ready(Err(ConnectionRejectReason::HeadTooLarge)),
            // Any other error belongs to a request that is counted elsewhere.
            Poll::Ready(Err(why)) if why.is_parse() => Poll::Ready(Err(ConnectionRejectReason::NotHttp)),
            Poll::Ready(_) => Poll::Ready(Ok(None)),
            Poll::Pending => handoff.lock().poll_stream(cx).map(|captured| Ok(Some(captured))),
        });
        tokio::select! {
            captured = served => match captured? {
                Some(captured) => break captured,
                None => return Ok(None),
            },
            _ = shutdown.changed(), if !is_closing => is_closing = true,
        }
        Pin::new(&mut *connection).graceful_shutdown();
    };
    let parts = connection.into_parts();
    let HeadTap { io, .. } = parts.io.into_inner();
    let chunk = Some(Http1Chunk::from_head(head, framing));
    let read_ahead = parts.read_buf.to_vec();
    let client_waker = RegisteredWaker::default();
    Ok(Some(Box::new(RawChunkedWriter { io, body, run, framing, chunk, read_ahead, client_waker })))
}

/// State shared between the service above hyper and the socket below it.
type HandoffCell<B> = Arc<Mutex<HandoffState<B>>>;

enum HandoffState<B> {
    /// hyper has no pending output
    Idle,
    /// an earlier response is not flushed yet, so hyper must also write the next stream, since the start of its head
    /// cannot be located
    Flushing,
    Captured {
        body: B,
        run: Option<RelayedRun>,
        /// as far as hyper has encoded it
        head: Vec<u8>,
    },
}

struct CapturedStream<B> {
    body: B,
    run: Option<RelayedRun>,
    framing: BodyFraming,
    head: Vec<u8>,
}

impl<B> HandoffState<B> {
    fn capture(&mut self, body: B, run: Option<&RelayedRunSlot>) -> HyperBody<B> {
        match self {
            HandoffState::Idle => {
                let run = run.and_then(RelayedRunSlot::take);
                *self = HandoffState::Captured { body, run, head: Vec::new() };
                HyperBody::Captured
            }
            HandoffState::Flushing | HandoffState::Captured { .. } => HyperBody::Inline(body),
        }
    }

    /// Returns the stream once its head is encoded. Until then its run is executed here.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<CapturedStream<B>> {
        let HandoffState::Captured { run, head, .. } = self else { return Poll::Pending };
        let Some(framing) = BodyFraming::parse(head) else {
            run.iter_mut().for_each(|run| run.poll_run(cx));
            return Poll::Pending;
        };
        match std::mem::replace(self, HandoffState::Idle) {
            HandoffState::Captured { body, run, head } => Poll::Ready(CapturedStream { body, run, framing, head }),
            HandoffState::Idle | HandoffState::Flushing => Poll::Pending,
        }
    }
}

struct CapturingService<S, B> {
    handoff: HandoffCell<B>,
    inner: S,
}

impl<S, B> Service<Request<Incoming>> for CapturingService<S, B>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Unpin,
    B: Body,
{
    type Response = Response<HyperBody<B>>;
    type Error = S::Error;
    type Future = CapturingFuture<S::Future, B>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // HEAD responses have no body, whatever the head says [RFC 9110 §9.3.2]. After the handoff, hyper no longer
        // knows how much of the request's body is unread, and the rest would be taken for the next request. A POST is
        // read to its end before its stream begins; with any other body, hyper writes the stream, and then skips the
        // rest or closes.
        let is_read = *request.method() == Method::POST || request.body().is_end_stream();
        let handoff = (is_read && *request.method() != Method::HEAD).then(|| Arc::clone(&self.handoff));
        CapturingFuture { handoff, inner: self.inner.call(request) }
    }
}

struct CapturingFuture<F, B> {
    handoff: Option<HandoffCell<B>>,
    inner: F,
}

impl<F, B, E> Future for CapturingFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>> + Unpin,
    B: Body,
{
    type Output = Result<Response<HyperBody<B>>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut parts, body) = ready!(Pin::new(&mut self.inner).poll(cx))?.into_parts();
        // Dropped if hyper writes the body: then the run has a task of its own.
        let run = parts.extensions.remove::<RelayedRunSlot>();
        let is_stream = body.size_hint().exact().is_none() && !body.is_end_stream();
        let body = match self.handoff.take().filter(|_| is_stream) {
            None => HyperBody::Inline(body),
            Some(handoff) => handoff.lock().capture(body, run.as_ref()),
        };
        Poll::Ready(Ok(Response::from_parts(parts, body)))
    }
}

/// The body passed to hyper.
enum HyperBody<B> {
    Inline(B),
    /// written by this module; hyper sees none of its frames
    Captured,
}

impl<B: Body + Unpin> Body for HyperBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match &mut *self {
            HyperBody::Inline(body) => Pin::new(body).poll_frame(cx),
            // The task checks the handoff when hyper has nothing more to do.
            HyperBody::Captured => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, HyperBody::Inline(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HyperBody::Inline(body) => body.size_hint(),
            HyperBody::Captured => SizeHint::default(),
        }
    }
}

struct HeadTap<I, B> {
    handoff: HandoffCell<B>,
    io: I,
}

impl<I: AsyncRead + Unpin, B> AsyncRead for HeadTap<I, B> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<I: AsyncWrite + Unpin, B> AsyncWrite for HeadTap<I, B> {
    /// Takes the head of a captured stream, which leaves with its first events.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let HeadTap { handoff, io } = &mut *self;
        let mut state = handoff.lock();
        if let HandoffState::Captured { head, .. } = &mut *state {
            head.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(io).poll_write(cx, bytes);
        if let (HandoffState::Idle, Poll::Pending) = (&*state, &wrote) {
            *state = HandoffState::Flushing;
        }
        wrote
    }

    /// Leaves `Flushing`, since hyper flushes only after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let state @ HandoffState::Flushing = &mut *self.handoff.lock() {
            *state = HandoffState::Idle;
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

// In this order in memory: what every event touches comes first.
#[repr(C)]
struct RawChunkedWriter<I, B> {
    run: Option<RelayedRun>,
    /// wakes the task if the client sends something or leaves
    client_waker: RegisteredWaker,
    io: ReadAheadStream<Box<I>>,
    framing: BodyFraming,
    chunk: Option<Http1Chunk>,
    /// kept until the end, also if `run` provides the bytes
    body: B,
    /// bytes of later requests
    read_ahead: Vec<u8>,
}

impl<I, B> Future for RawChunkedWriter<I, B>
where
    I: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin + 'static,
{
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        prefetch(this);
        if let Some(run) = &mut this.run {
            run.prefetch();
            prefetch(&**this.io.inner_mut());
            this.client_waker.prefetch();
            run.poll_run(cx);
        }
        let (io, read_ahead) = (&mut this.io, &mut this.read_ahead);
        let mut client = poll_fn(|cx| match buffer_available(io, read_ahead, READ_AHEAD_LIMIT, cx) {
            Ok(()) => Poll::Pending,
            Err(left) => Poll::Ready(left),
        });
        if let Poll::Ready(left) = this.client_waker.poll(Pin::new(&mut client), cx) {
            return Poll::Ready(Err(left));
        }
        loop {
            this.add_first_piece(cx)?;
            if let Some(chunk) = &mut this.chunk {
                if chunk.poll_write(this.io.inner_mut(), cx)?.is_pending() {
                    // A client that reads nothing was disconnected: the chunk is freed, too.
                    return if this.is_disconnected() { Poll::Ready(Err(aborted())) } else { Poll::Pending };
                }
                if chunk.is_last {
                    return Pin::new(this.io.inner_mut()).poll_flush(cx);
                }
                this.chunk = None;
            }
            match this.poll_chunk(cx)? {
                Poll::Ready(chunk) => this.chunk = Some(chunk),
                Poll::Pending => {
                    let _ = Pin::new(this.io.inner_mut()).poll_flush(cx)?;
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin, B: Body<Data = Bytes> + Unpin> RawChunkedWriter<I, B> {
    /// Returns what to write next, or an error if the body was aborted: closing without a last chunk tells the client.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Http1Chunk>> {
        let (data, is_last) = match &self.run {
            Some(run) => match run.take_piece() {
                RelayedPiece::Nothing => return Poll::Pending,
                RelayedPiece::Bytes { bytes, is_last } => (ChunkData::Owned(bytes), is_last),
                RelayedPiece::Aborted => return Poll::Ready(Err(aborted())),
            },
            None => match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => (ChunkData::Shared(frame.into_data().unwrap_or_default()), false),
                Some(Err(_)) => return Poll::Ready(Err(aborted())),
                None => (ChunkData::Shared(Bytes::new()), true),
            },
        };
        Poll::Ready(Ok(Http1Chunk::new(data, self.framing, is_last)))
    }

    /// Adds what there is of the body to a head that has not been sent.
    fn add_first_piece(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(mut head) = self.chunk.take_if(|chunk| chunk.is_unsent_head()) else { return Ok(()) };
        match self.poll_chunk(cx) {
            Poll::Ready(Ok(mut first)) => {
                first.head = std::mem::take(&mut head.head);
                self.chunk = Some(first);
            }
            Poll::Pending => self.chunk = Some(head),
            // A body that ends at once differs from no response at all.
            Poll::Ready(Err(error)) => {
                let _ = head.poll_write(self.io.inner_mut(), cx)?;
                let _ = Pin::new(self.io.inner_mut()).poll_flush(cx)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn is_disconnected(&self) -> bool {
        match &self.run {
            Some(run) => run.is_closed(),
            None => self.body.size_hint().exact() == Some(0),
        }
    }
}

fn aborted() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
