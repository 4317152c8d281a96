//! The client's side of the network: pingora accepts, hyper speaks HTTP.

use super::door::{Behind, Door};
use super::preface::{self, Version};
use super::sending::Sending;
use crate::config::Limits;
use crate::guard::peer::Peer;
use async_trait::async_trait;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pingora_core::apps::ServerApp;
use pingora_core::listeners::{L4BufferSettings, ListenerConfig};
use pingora_core::protocols::Stream;
use pingora_core::server::{ListenFds, ShutdownWatch};
use pingora_core::services::Service as PingoraService;
use pingora_core::services::listening::Service as ListeningService;
use socket2::{Domain, Socket, Type};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// How long a client may take nothing while bytes wait for it. Then its connection is closed (over HTTP/2 it may be one
/// stream that is cut off), its runs end as those of a client that left, and their agents are let go. The default of nginx's `send_timeout`.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Streams that one HTTP/2 connection may have open.
const H2_STREAMS: u32 = 256;

/// Streams of one HTTP/2 connection that were reset before we took them up ("rapid reset", CVE-2023-44487). Nobody does
/// that by accident more often than once in a while; the next one ends the connection with GOAWAY. What h2 does by itself.
const H2_RESETS: usize = 20;

/// Streams of one HTTP/2 connection that we have to reset for an error of the peer ("MadeYouReset", CVE-2025-8671) before
/// the connection ends with GOAWAY. hyper's own limit of 1024 is for proxies that reset for reasons of their own.
const H2_FAULTS: usize = 64;

/// Silence after which an HTTP/2 peer is asked whether it is still there.
const H2_PING: Duration = Duration::from_secs(30);

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Serves `S` on every connection of a listener, over HTTP/1.1 or HTTP/2 with prior knowledge.
///
/// What HTTP/1 and hyper leave no room for saying properly is answered with a bare status and the end of the connection:
/// 400 for a head that is none, 431 for one that is too large or has too many fields, 414 for a target of 64 KiB and more.
/// A head that is late ends the connection without an answer. Of HTTP/2, h2 answers a list of fields that is too large
/// with a bare 431, ends a CONTINUATION without end (so many frames as the list may fill, and a few) and a flood of empty
/// DATA with GOAWAY, and holds back PING and SETTINGS until their answers are written.
#[derive(Clone, Debug)]
pub struct Edge<S> {
    service: S,
    head_timeout: Duration,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl<S> Edge<S> {
    /// An edge with the limits of `config` and of this module.
    ///
    /// `head_timeout` runs from the accepted connection to what tells its version, and from there to the end of the first
    /// request head: two clocks, so a peer that is late with both takes up to twice as long. And from one request of a
    /// connection to the end of the next one's head.
    pub fn new(service: S, limits: &Limits) -> Self {
        let (mut http1, mut http2) = (http1::Builder::new(), http2::Builder::new(TokioExecutor::new()));
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            // What hyper buffers of a connection at all; never below its minimum of 8 KiB, by the configuration's check.
            .max_buf_size(limits.header_bytes)
            .max_header_size(limits.header_bytes)
            .max_headers(limits.headers);
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
            .max_concurrent_streams(H2_STREAMS)
            .max_pending_accept_reset_streams(H2_RESETS)
            .max_local_error_reset_streams(H2_FAULTS)
            .keep_alive_interval(H2_PING);
        Edge { service, head_timeout: limits.head_timeout, http1, http2 }
    }
}

#[async_trait]
impl<S, B> ServerApp for Edge<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        // A task of its own: pingora's holds the frame of its handshake for as long as it lives, nine KiB for every idle
        // stream.
        let (edge, shutdown) = (Arc::clone(self), shutdown.clone());
        let digest = stream.get_socket_digest();
        let peer = digest.and_then(|digest| digest.peer_addr()?.as_inet().copied()).map(Peer);
        tokio::spawn(async move {
            // A peer that takes nothing must not hold a run, whichever version it speaks.
            let stream = Sending::new(stream, SEND_TIMEOUT);
            // A peer that says nothing must not hold a connection; hyper's own timer starts with the version.
            let mut closing = shutdown.clone();
            let begun = tokio::select! {
                begun = tokio::time::timeout(edge.head_timeout, preface::read(stream)) => begun,
                _ = closing.wait_for(|closing| *closing) => return,
            };
            let Ok(Ok((version, stream))) = begun else { return };
            drop(closing);
            let (io, service) =
                (TokioIo::new(stream), TowerToHyperService::new(From { peer, inner: edge.service.clone() }));
            match version {
                Version::Http1 => {
                    let connection = edge.http1.serve_connection(io, service);
                    serve(connection, shutdown, |connection| connection.graceful_shutdown()).await;
                }
                // Boxed: rare, and larger than what every HTTP/1 connection should pay for.
                Version::Http2 => {
                    let connection = edge.http2.serve_connection(io, service);
                    Box::pin(serve(connection, shutdown, |connection| connection.graceful_shutdown())).await;
                }
            }
        });
        None
    }
}

/// A service whose requests know where they come from.
#[derive(Clone)]
struct From<S> {
    peer: Option<Peer>,
    inner: S,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for From<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> S::Future {
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        self.inner.call(request)
    }
}

/// Serves one connection until it closes, which it is asked to when the door of its plane does.
async fn serve<C: Future>(connection: C, mut shutdown: ShutdownWatch, close: impl Fn(Pin<&mut C>)) {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // A request that has come already is answered: an idle connection is closed at once.
        biased;
        // A connection that breaks is the client's business; its runs notice by themselves.
        _ = &mut connection => return,
        _ = shutdown.changed() => close(connection.as_mut()),
    }
    connection.await;
}

/// A bound socket, not yet served.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// where it is bound; the port is the real one
    pub address: SocketAddr,
}

impl Listener {
    /// Binds `address`. Port 0 takes a free one.
    ///
    /// # Errors
    /// Those of the operating system: the port is taken, or not ours to take.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let address = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Listener { socket, address })
    }

    /// A socket that another process bound.
    ///
    /// # Errors
    /// That it is none of the internet.
    pub fn inherit(socket: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Listener { socket, address })
    }

    /// The same socket for somebody else: one queue of connections.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }
}

/// A pingora service that listens on sockets which are bound already.
///
/// pingora binds inside its own tasks, where a taken port can only panic. It takes a socket from its table of inherited
/// ones first, so that is where ours go.
struct Bound<S> {
    inner: ListeningService<Behind<Edge<S>>>,
    shutting: ShutdownWatch,
    listeners: Vec<Listener>,
}

/// Serves `edge` on `listeners`, with `threads` worker threads, until the door is closed.
pub fn bound<S>(
    name: &str,
    edge: Edge<S>,
    listeners: Vec<Listener>,
    threads: usize,
    door: &Door,
) -> impl PingoraService + 'static
where
    Edge<S>: ServerApp + Send + Sync + 'static,
    S: 'static,
{
    let behind = Behind { app: Arc::new(edge), closing: door.closing() };
    let mut inner = ListeningService::new(name.to_owned(), behind);
    inner.threads = Some(threads);
    for listener in &listeners {
        let endpoint = ListenerConfig::tcp(listener.address.to_string());
        // hyper buffers both ways and writes vectors; a second buffer only costs memory on every idle stream.
        inner.add_listener(endpoint.l4_buffer(L4BufferSettings::unbuffered()));
    }
    Bound { inner, shutting: door.shutting(), listeners }
}

#[async_trait]
impl<S> PingoraService for Bound<S>
where
    Edge<S>: ServerApp + Send + Sync + 'static,
{
    async fn start_service(&mut self, fds: Option<ListenFds>, _: ShutdownWatch, listeners_per_fd: usize) {
        if let Some(table) = &fds {
            for listener in self.listeners.drain(..) {
                table.lock().add(listener.address.to_string(), listener.socket.into_raw_fd());
            }
        }
        self.inner.start_service(fds, self.shutting.clone(), listeners_per_fd).await;
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn threads(&self) -> Option<usize> {
        self.inner.threads()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipe::pipe;
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};
    use std::convert::Infallible;
    use std::sync::Mutex;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::watch;
    use tokio::time::{Instant, timeout};
    use tower::service_fn;

    fn limits() -> Limits {
        let seconds = Duration::from_secs(30);
        Limits {
            request_body: 1 << 20,
            frame: 1 << 20,
            client_buffer: 1 << 16,
            header_bytes: 1 << 16,
            headers: 100,
            head_timeout: seconds,
            body_timeout: seconds,
            max_streams: None,
        }
    }

    /// The body of the answer is dropped with the connection, and by that a run knows that its client has left.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_loses_its_connection() {
        let (mut client, stream) = tokio::io::duplex(1 << 10);
        let (writer, reader) = pipe(1 << 10, ());
        let body = Arc::new(Mutex::new(Some(reader)));
        let service = service_fn(move |_| {
            let body = body.lock().expect("nobody panics").take().expect("one request");
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let edge = Arc::new(Edge::new(service, &limits()));
        let (_process, shutdown) = watch::channel(false);
        edge.process_new(Box::new(stream), &shutdown).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n").await.expect("room");

        let since = Instant::now();
        let flood = async { while writer.write(&mut vec![b'x'; 1 << 10]).await.is_ok() {} };
        timeout(2 * SEND_TIMEOUT, flood).await.expect("the client is given up");
        assert!(since.elapsed() >= SEND_TIMEOUT);
        drop(client);
    }

    /// It answers PING, so that its connection lives on; a window that is closed holds neither the run nor what is held for
    /// it, and a window that is opened again shows that the body was cut off.
    #[tokio::test(start_paused = true)]
    async fn a_client_whose_window_stays_closed_loses_its_stream() {
        let (client, stream) = tokio::io::duplex(1 << 16);
        let held = Arc::new(());
        let (writer, reader) = pipe(1 << 10, Arc::clone(&held));
        let body = Arc::new(Mutex::new(Some(reader)));
        let service = service_fn(move |request: Request<Incoming>| {
            let body = body.lock().expect("nobody panics").take().expect("one request");
            body.attach(request.version());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        let edge = Arc::new(Edge::new(service, &limits()));
        let (_process, shutdown) = watch::channel(false);
        edge.process_new(Box::new(stream), &shutdown).await;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(1);
        let (mut sender, connection) = builder.handshake(TokioIo::new(client)).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let request = Request::get("http://gateway/").body(Empty::<Bytes>::new()).expect("a request");
        let mut response = sender.send_request(request).await.expect("an answer");

        let since = Instant::now();
        let flood = async { while writer.write(&mut vec![b'x'; 1 << 10]).await.is_ok() {} };
        let run = async {
            tokio::select! { () = flood => {}, () = writer.stalled() => {} }
        };
        timeout(2 * SEND_TIMEOUT, run).await.expect("the client is given up");
        assert!(since.elapsed() >= SEND_TIMEOUT);
        assert_eq!((Arc::strong_count(&held), connection.is_finished()), (1, false));
        // Who reads opens the window.
        let end = async { while response.frame().await.expect("no proper end").is_ok() {} };
        timeout(SEND_TIMEOUT, end).await.expect("a reset");
        assert!(!connection.is_finished());
    }
}
