//! Serves HTTP on one connection.

use super::activity::{ActiveRequest, ConnectionActivity, ConnectionTimeouts, TrackedBody};
use super::connection_limit::ConnectionLimit;
use super::http_version::{self, DetectedVersion, RewindStream};
use super::http1_handoff;
use super::http2_output::{ConnectionOutput, Http2Body, UnsentBudget};
use super::http2_refusals::RefusalFinder;
use super::read_ahead::ReadAheadStream;
use crate::config::inspect::CaptureMode;
use crate::config::{self, LimitsConfig};
use crate::net::peer_addr::PeerInfo;
use crate::telemetry::Metrics;
use crate::telemetry::internal_event::{Http2HeadRefused, Http2RequestRefused};
use crate::telemetry::label::ConnectionRejectReason;
use bytes::Bytes;
use futures_util::TryFutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pingora_core::server::ShutdownWatch;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{Service, ServiceExt};

/// Maximum number of open streams per HTTP/2 connection, the least that RFC 9113 §6.5.2 recommends.
const H2_MAX_STREAMS: u32 = 100;

/// The same for a process that may use little memory: h2 keeps the places of streams until the connection ends, 1.4 KiB
/// each (measured). Clients that have not read this number begin up to 100 streams: fewer than 36 here would make the
/// others more than [`H2_MAX_LOCAL_RESETS`].
const H2_MAX_STREAMS_IN_LITTLE_MEMORY: u32 = 40;

/// Memory in which all connections can keep the places of [`H2_MAX_STREAMS`].
const MUCH_MEMORY: usize = 2 << 30;

/// The same on the status plane, whose clients ask for one document after another.
const STATUS_H2_MAX_STREAMS: u32 = 4;

/// Bytes of a request's body that h2 keeps until they are read, such as while a token is checked. hyper's default is 1
/// MiB.
const H2_STREAM_WINDOW: u32 = 64 << 10;

/// Bytes that h2 takes of one response before its client has; it takes one more piece of up to 16 KiB. hyper's default
/// is 400 KiB.
const H2_SEND_BUFFER: usize = 16 << 10;

/// Maximum number of streams that the peer may reset before they are accepted ("rapid reset", CVE-2023-44487); one more
/// ends the connection with GOAWAY. This is h2's default.
const H2_MAX_PENDING_RESETS: usize = 20;

/// Maximum number of streams that the gateway may reset because of peer errors ("MadeYouReset", CVE-2025-8671); one
/// more ends the connection with GOAWAY. hyper's default of 1024 is for proxies that reset streams for other reasons.
const H2_MAX_LOCAL_RESETS: usize = 64;

/// Time without traffic after which a PING checks the HTTP/2 peer.
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);

/// Serves `S` over HTTP/1.1, or over HTTP/2 with prior knowledge or ALPN.
///
/// For malformed requests, hyper and h2 send bare statuses without a problem document: 400 for an invalid head, 431 for
/// one that is too large, 414 for a target of 64 KiB or more. If a head is late, the connection is closed without a
/// response. h2 ends floods of CONTINUATION or empty DATA with GOAWAY. [`RefusalFinder`] counts the 431 of h2.
#[derive(Clone)]
pub(crate) struct EdgeServer<S> {
    service: S,
    timeouts: ConnectionTimeouts,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    bounds: EdgeBounds,
}

/// Limits and counters that the connections of a plane share.
#[derive(Clone)]
pub(crate) struct EdgeBounds {
    pub(crate) connection_limit: ConnectionLimit,
    pub(crate) unsent: Arc<UnsentBudget>,
    pub(crate) metrics: Arc<Metrics>,
}

pub(crate) trait HttpService:
    Service<Request<Incoming>, Response = Response<Self::Body>, Error: Into<BoxError> + Send, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;
}

impl<S, B> HttpService for S
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Body = B;
}

impl<S> EdgeServer<S> {
    /// Creates the server of the data plane, with the limits in `config` and this module.
    ///
    /// `head_timeout` covers version detection, and then the first request head separately. After that, it starts with
    /// the first byte of each head; between requests `idle_timeout` applies.
    pub(crate) fn for_clients(service: S, limits: &LimitsConfig, bounds: EdgeBounds) -> Self {
        let max_streams =
            if config::is_memory_below(MUCH_MEMORY) { H2_MAX_STREAMS_IN_LITTLE_MEMORY } else { H2_MAX_STREAMS };
        EdgeServer::new(service, limits, bounds, max_streams)
    }

    /// Creates the server of the status plane, where anyone may ask for large documents.
    pub(crate) fn for_status(service: S, limits: &LimitsConfig, bounds: EdgeBounds) -> Self {
        EdgeServer::new(service, limits, bounds, STATUS_H2_MAX_STREAMS)
    }

    fn new(service: S, limits: &LimitsConfig, bounds: EdgeBounds, max_streams: u32) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // hyper has one timer for the idle time and the head; the gateway has two.
            .header_read_timeout(None)
            // All that hyper buffers per connection; configuration checks keep it above hyper's minimum of 8 KiB.
            .max_buf_size(limits.header_bytes)
            .max_header_size(limits.header_bytes)
            .max_headers(limits.headers.get());
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(max_streams)
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .max_send_buf_size(H2_SEND_BUFFER)
            .max_pending_accept_reset_streams(H2_MAX_PENDING_RESETS)
            .max_local_error_reset_streams(H2_MAX_LOCAL_RESETS)
            .keep_alive_interval(H2_PING_INTERVAL);
        let timeouts = ConnectionTimeouts { head: limits.head_timeout, idle: limits.idle_timeout };
        EdgeServer { service, timeouts, http1, http2, bounds }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S: HttpService> EdgeServer<S> {
    pub(super) async fn serve_connection<T>(
        &self,
        stream: T,
        peer: Option<PeerInfo>,
        capture: CaptureMode,
        shutdown: ShutdownWatch,
    ) -> Result<(), ConnectionRejectReason>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Boxed, like the stream it returns: a completed step must not take memory for the connection's lifetime.
        let Some((version, stream)) = Box::pin(self.detect_version(stream, shutdown.clone())).await? else {
            return Ok(());
        };
        let activity = ConnectionActivity::new();
        let inner = self.service.clone();
        let service = ConnectionInfoService { peer, capture, activity: Arc::clone(&activity), inner };
        match version {
            DetectedVersion::Http1 => {
                let io = ReadAheadStream::new(stream, Arc::clone(&activity));
                http1_handoff::serve(&self.http1, io, &service, self.timeouts, shutdown).await?;
            }
            // Boxed: HTTP/2 is rare, and larger than every HTTP/1 connection should pay for.
            DetectedVersion::Http2 => {
                Box::pin(self.serve_http2(stream, service, &activity, shutdown)).await;
            }
        }
        Ok(())
    }

    /// Serves HTTP/2, closing gracefully after the idle timeout or at shutdown.
    async fn serve_http2<T>(
        &self,
        stream: T,
        service: ConnectionInfoService<S>,
        activity: &ConnectionActivity,
        mut shutdown: ShutdownWatch,
    ) where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let output = self.bounds.unsent.register();
        let service = Http2Service { inner: service, output: Arc::clone(&output), bounds: self.bounds.clone() };
        let metrics = &self.bounds.metrics;
        let stream = RefusalFinder::new(stream, || Http2HeadRefused {}.emit(metrics));
        let mut connection = std::pin::pin!(self.http2.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // A request that has arrived is answered first, since an idle connection closes immediately.
            biased;
            // Broken connections need no report, since their runs notice by themselves.
            _ = &mut connection => return,
            () = output.wait_cut_off() => return,
            _ = shutdown.wait_for(|ending| *ending) => {}
            () = activity.wait_overdue(self.timeouts) => {}
        }
        connection.as_mut().graceful_shutdown();
        // After GOAWAY, the peer has limited time to close the connection.
        tokio::select! {
            _ = &mut connection => {}
            () = output.wait_cut_off() => {}
            () = async {
                tokio::time::sleep(self.timeouts.head).await;
                activity.wait_overdue(self.timeouts).await;
            } => {}
        }
    }

    /// Detects the version. Returns `None` if the peer disconnects first or the process is ending.
    async fn detect_version<T>(
        &self,
        stream: T,
        mut closing: ShutdownWatch,
    ) -> Result<Option<(DetectedVersion, Box<RewindStream<T>>)>, ConnectionRejectReason>
    where
        T: AsyncRead + Unpin,
    {
        let version = tokio::select! {
            // Bytes that have already arrived are served first.
            biased;
            read = tokio::time::timeout(self.timeouts.head, http_version::read_version(stream)) => read,
            _ = closing.wait_for(|closing| *closing) => return Ok(None),
        };
        match version {
            Ok(Ok((version, stream))) => Ok(Some((version, Box::new(stream)))),
            // Connecting and closing is normal: load balancers probe this way.
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(ConnectionRejectReason::NoData),
        }
    }
}

/// Adds the peer and the listener's capture mode to requests, and counts them as connection activity.
#[derive(Clone)]
struct ConnectionInfoService<S> {
    peer: Option<PeerInfo>,
    /// of runs on routes without a mode of their own
    capture: CaptureMode,
    activity: Arc<ConnectionActivity>,
    inner: S,
}

/// A boxed future, so that it is freed when the response begins: hyper reserves space for it for the connection's
/// lifetime.
type ResponseFuture<B, E> = Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>;

impl<S: HttpService> ConnectionInfoService<S> {
    /// Passes the request on, and the body of its response and its guard to `track`.
    fn call_inner<B>(
        &self,
        mut request: Request<Incoming>,
        track: impl FnOnce(S::Body, ActiveRequest) -> B + Send + 'static,
    ) -> ResponseFuture<B, S::Error> {
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        if self.capture != CaptureMode::Off {
            request.extensions_mut().insert(self.capture);
        }
        let active = self.activity.begin_request();
        let response = self.inner.clone().oneshot(request);
        Box::pin(async move { Ok(response.await?.map(|body| track(body, active))) })
    }
}

impl<S: HttpService> hyper::service::Service<Request<Incoming>> for ConnectionInfoService<S> {
    type Response = Response<TrackedBody<S::Body>>;
    type Error = S::Error;
    type Future = ResponseFuture<TrackedBody<S::Body>, S::Error>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.call_inner(request, TrackedBody::new)
    }
}

/// Limits the requests of all HTTP/2 connections, and counts their responses until they are sent.
struct Http2Service<S> {
    inner: ConnectionInfoService<S>,
    output: Arc<ConnectionOutput>,
    bounds: EdgeBounds,
}

impl<S: HttpService> hyper::service::Service<Request<Incoming>> for Http2Service<S> {
    type Response = Response<Http2Body<S::Body>>;
    type Error = BoxError;
    type Future = ResponseFuture<Http2Body<S::Body>, BoxError>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Some(permit) = self.bounds.connection_limit.try_begin_request() else {
            Http2RequestRefused {}.emit(&self.bounds.metrics);
            // "to indicate that the stream is being closed prior to any processing having occurred" [RFC 9113 §8.7]
            return Box::pin(std::future::ready(Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into())));
        };
        let output = Arc::clone(&self.output);
        let response = self.inner.call_inner(request, |body, active| Http2Body::new(body, active, permit, output));
        Box::pin(response.map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_timeout::WriteTimeoutStream;
    use super::*;
    use crate::proxy::pipe::{SEND_TIMEOUT, pipe};
    use http_body_util::{BodyExt, Empty, Full};
    use parking_lot::Mutex;
    use std::convert::Infallible;
    use std::num::NonZeroUsize;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::watch;
    use tokio::time::{Instant, timeout};
    use tower::service_fn;

    fn limits() -> LimitsConfig {
        let seconds = Duration::from_secs(30);
        LimitsConfig {
            request_body: 1 << 20,
            request_bodies: 1 << 20,
            frame: 1 << 20,
            client_buffer: 1 << 16,
            client_buffers: 1 << 26,
            run_memory: 1 << 26,
            header_bytes: 1 << 16,
            headers: NonZeroUsize::new(100).expect("not zero"),
            head_timeout: seconds,
            body_timeout: seconds,
            idle_timeout: seconds,
            connections: None,
            connections_per_address: None,
            max_streams: None,
            legacy_headers: false,
        }
    }

    fn edge<S>(service: S) -> Arc<EdgeServer<S>> {
        edge_within(16 << 20, service)
    }

    fn edge_within<S>(unsent_bytes: usize, service: S) -> Arc<EdgeServer<S>> {
        let metrics = Arc::new(Metrics::new().expect("unique names"));
        let unsent = UnsentBudget::with_limit(unsent_bytes, Arc::clone(&metrics));
        let bounds = EdgeBounds { connection_limit: ConnectionLimit::for_status(), unsent, metrics };
        Arc::new(EdgeServer::for_clients(service, &limits(), bounds))
    }

    #[tokio::test(start_paused = true)]
    async fn closes_the_connection_of_a_client_that_stops_reading() {
        let (mut client, stream) = tokio::io::duplex(1 << 10);
        let (writer, reader) = pipe(1 << 10, ());
        let body = Arc::new(Mutex::new(Some(reader)));
        let service = service_fn(move |_| {
            let body = body.lock().take().expect("one request");
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let edge = edge(service);
        let (_process, shutdown) = watch::channel(false);
        tokio::spawn(async move {
            edge.serve_connection(WriteTimeoutStream::new(stream, SEND_TIMEOUT), None, CaptureMode::Off, shutdown).await
        });
        client.write_all(b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n").await.expect("room");

        let since = Instant::now();
        let flood = async { while writer.write(&mut vec![b'x'; 1 << 10]).await.is_ok() {} };
        timeout(2 * SEND_TIMEOUT, flood).await.expect("the client is given up");
        assert!(since.elapsed() >= SEND_TIMEOUT);
        drop(client);
    }

    /// The client opens its windows and reads nothing: a piece of 16 KiB is on its way, and h2 has 16 KiB and a byte at
    /// most.
    #[tokio::test(start_paused = true)]
    async fn closes_the_connection_that_holds_most_of_what_is_unsent() {
        let (client, stream) = tokio::io::duplex(64);
        let (writer, reader) = pipe(1 << 20, ());
        let body = Arc::new(Mutex::new(Some(reader)));
        let service = service_fn(move |request: Request<Incoming>| {
            let body = body.lock().take().expect("one request");
            body.attach(request.version());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let edge = edge_within(20 << 10, service);
        let (_process, shutdown) = watch::channel(false);
        let served = tokio::spawn(async move { edge.serve_connection(stream, None, CaptureMode::Off, shutdown).await });
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.expect("HTTP/2");
        let request = Request::get("http://gateway/").body(Empty::<Bytes>::new()).expect("a request");
        let mut response = Box::pin(sender.send_request(request));
        let mut connection = Box::pin(connection);
        let _response = tokio::select! {
            _ = &mut connection => panic!("the connection has ended"),
            response = &mut response => response.expect("a response"),
        };
        // From here on, nobody reads from the socket.
        let since = Instant::now();
        let _ = timeout(SEND_TIMEOUT, writer.write(&mut vec![b'x'; 60 << 10])).await;
        timeout(SEND_TIMEOUT, served).await.expect("the connection is closed").expect("no panic").expect("HTTP");
        assert!(since.elapsed() < SEND_TIMEOUT, "{:?}", since.elapsed());
    }

    /// The client answers PING, so that only its closed window shows that it will never take the response.
    #[tokio::test(start_paused = true)]
    async fn closes_the_connection_of_a_client_that_never_takes_a_whole_response() {
        let (client, stream) = tokio::io::duplex(1 << 16);
        let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::from("two"))));
        let edge = edge(service);
        let (_process, shutdown) = watch::channel(false);
        let served = tokio::spawn(async move { edge.serve_connection(stream, None, CaptureMode::Off, shutdown).await });
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1);
        let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = Request::get("http://gateway/").body(Empty::<Bytes>::new()).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");

        let since = Instant::now();
        timeout(4 * SEND_TIMEOUT, served).await.expect("the connection is closed").expect("no panic").expect("HTTP");
        assert!(since.elapsed() >= SEND_TIMEOUT);
        drop(response);
    }

    /// The connection stays open because the client answers PING. The closed window must not hold the run or its
    /// permits.
    #[tokio::test(start_paused = true)]
    async fn resets_the_stream_of_a_client_with_a_closed_window() {
        let (client, stream) = tokio::io::duplex(1 << 16);
        let held = Arc::new(());
        let (writer, reader) = pipe(1 << 10, Arc::clone(&held));
        let body = Arc::new(Mutex::new(Some(reader)));
        let service = service_fn(move |request: Request<Incoming>| {
            let body = body.lock().take().expect("one request");
            body.attach(request.version());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let edge = edge(service);
        let (_process, shutdown) = watch::channel(false);
        tokio::spawn(async move {
            edge.serve_connection(WriteTimeoutStream::new(stream, SEND_TIMEOUT), None, CaptureMode::Off, shutdown).await
        });
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1);
        let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let request = Request::get("http://gateway/").body(Empty::<Bytes>::new()).expect("a request");
        let mut response = sender.send_request(request).await.expect("an answer");

        let since = Instant::now();
        let flood = async { while writer.write(&mut vec![b'x'; 1 << 10]).await.is_ok() {} };
        let run = async {
            tokio::select! { () = flood => {}, () = writer.wait_stalled() => {} }
        };
        timeout(2 * SEND_TIMEOUT, run).await.expect("the client is given up");
        assert!(since.elapsed() >= SEND_TIMEOUT);
        assert_eq!((Arc::strong_count(&held), connection.is_finished()), (1, false));
        // Reading opens the window.
        let end = async { while response.frame().await.expect("no proper end").is_ok() {} };
        timeout(SEND_TIMEOUT, end).await.expect("a reset");
        assert!(!connection.is_finished());
    }
}
