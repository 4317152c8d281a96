//! A plane: its accept loops, and the steps before the first byte of HTTP.
//!
//! pingora runs it as a service and provides the runtime. Its own accept loop is not used: it has no connection limit,
//! does the handshake in a task that lives as long as the connection, and retries without a pause when the system runs
//! out of descriptors (ENFILE).

use super::connection_limit::{ConnectionLimit, ConnectionPermit};
use super::listener::{Listener, ListeningSocket};
use super::listener_tls::{self, ListenerTls};
use super::local::{self, LocalListener};
use super::server::{EdgeServer, HttpService};
use super::transport::{EdgeTransport, RawStream};
use super::write_timeout::WriteTimeoutStream;
use crate::config::access::TrustedProxies;
use crate::config::inspect::CaptureMode;
use crate::net::peer_addr::{PeerAddr, PeerInfo};
use crate::net::proxy_protocol::{self, ProxySource};
use crate::proxy::drain_signal::DrainSignal;
use crate::proxy::pipe::SEND_TIMEOUT;
use crate::telemetry::internal_event::{AcceptFailed, AcceptRecovered, ConnectionRejected};
use crate::telemetry::label::ConnectionRejectReason;
use crate::telemetry::{ListenerMetrics, Metrics};
use async_trait::async_trait;
use pingora_core::server::{ListenFds, ShutdownWatch};
use pingora_core::services::Service as PingoraService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Timeout for the PROXY header. Short, since the header is in the first packet.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept, so that the loop does not spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Time and bytes for which a refused connection is read after its response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 64 << 10;

/// Sent to HTTP/1 clients when the connection limit is reached.
const RESPONSE_503: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";

#[derive(Debug)]
pub(crate) struct PlaneConfig {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) connection_limit: ConnectionLimit,
    /// addresses from which PROXY headers are trusted
    pub(crate) trusted_proxies: TrustedProxies,
    /// for connections from within the process
    pub(crate) local: Option<LocalListener>,
}

pub(crate) fn plane_service<S: HttpService>(
    plane: PlaneConfig,
    edge: EdgeServer<S>,
    metrics: &Metrics,
    drain: &DrainSignal,
) -> impl PingoraService + 'static {
    let metrics = plane.listeners.iter().map(|one| metrics.listener(plane.name, &one.key(), one.config.tls.is_some()));
    let watches = Some((drain.watch_accepting(), drain.watch_closing()));
    PlaneService { metrics: metrics.collect(), edge: Arc::new(edge), plane, watches }
}

struct PlaneService<S> {
    plane: PlaneConfig,
    edge: Arc<EdgeServer<S>>,
    metrics: Vec<Arc<ListenerMetrics>>,
    /// for listeners and connections; taken when the plane starts
    watches: Option<(ShutdownWatch, ShutdownWatch)>,
}

#[async_trait]
impl<S: HttpService> PingoraService for PlaneService<S> {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let Some((shutting, closing)) = self.watches.take() else { return };
        let mut acceptors = JoinSet::new();
        let PlaneConfig { listeners, connection_limit, trusted_proxies, local, .. } = &mut self.plane;
        if let Some(local) = local.take() {
            let edge = Arc::clone(&self.edge);
            // The playground's client could be one of any listener.
            let capture = listeners.iter().map(|one| one.config.inspect).max().unwrap_or_default();
            acceptors.spawn(local::accept_loop(local, capture, edge, shutting.clone(), closing.clone()));
        }
        for (listener, metrics) in listeners.drain(..).zip(&self.metrics) {
            let key = listener.key();
            let (opened, listen, tls) = match listener.into_listening() {
                Ok(opened) => opened,
                Err(error) => {
                    AcceptFailed { listener: &key, error: &error, already_logged: false }.emit(metrics);
                    continue;
                }
            };
            let acceptor = Arc::new(ConnectionAcceptor {
                listener_key: key,
                capture: listen.inspect,
                tls,
                trusted_proxies: listen.proxy_protocol.then(|| trusted_proxies.clone()),
                connection_limit: connection_limit.clone(),
                metrics: Arc::clone(metrics),
            });
            acceptors.spawn(accept_loop(acceptor, opened, Arc::clone(&self.edge), shutting.clone(), closing.clone()));
        }
        drop(closing);
        while acceptors.join_next().await.is_some() {}
    }

    fn name(&self) -> &str {
        self.plane.name
    }

    fn threads(&self) -> Option<usize> {
        Some(self.plane.threads)
    }
}

struct ConnectionAcceptor {
    listener_key: String,
    capture: CaptureMode,
    tls: Option<ListenerTls>,
    /// present if connections begin with a PROXY header
    trusted_proxies: Option<TrustedProxies>,
    connection_limit: ConnectionLimit,
    metrics: Arc<ListenerMetrics>,
}

/// The reason for closing the connection, and the library's error if there is one.
type AcceptError = (ConnectionRejectReason, Option<io::Error>);

async fn accept_loop<S: HttpService>(
    acceptor: Arc<ConnectionAcceptor>,
    opened: ListeningSocket,
    edge: Arc<EdgeServer<S>>,
    mut shutting: ShutdownWatch,
    closing: ShutdownWatch,
) {
    let accepting = async {
        let mut failing = false;
        loop {
            match opened.accept().await {
                Ok((stream, sender)) => {
                    if std::mem::take(&mut failing) {
                        AcceptRecovered { listener: &acceptor.listener_key }.emit();
                    }
                    let Some(permit) = acceptor.connection_limit.try_acquire(&acceptor.metrics) else {
                        acceptor.reject(ConnectionRejectReason::Limit, None);
                        acceptor.reject_overloaded(stream);
                        continue;
                    };
                    tokio::spawn(handle_connection(
                        Arc::clone(&acceptor),
                        Arc::clone(&edge),
                        stream,
                        sender,
                        permit,
                        closing.clone(),
                    ));
                }
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    AcceptFailed { listener: &acceptor.listener_key, error: &error, already_logged: failing }
                        .emit(&acceptor.metrics);
                    failing = true;
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    };
    let watching = async {
        match &acceptor.tls {
            Some(tls) => {
                tls.report_certificate(&acceptor.listener_key, &acceptor.metrics);
                tls.watch(&acceptor.listener_key, &acceptor.metrics).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = accepting => {}
        () = watching => {}
        // An error means that the sender was dropped because the process is ending.
        _ = shutting.wait_for(|shutting| *shutting) => {}
    }
}

async fn handle_connection<S: HttpService>(
    acceptor: Arc<ConnectionAcceptor>,
    edge: Arc<EdgeServer<S>>,
    stream: RawStream,
    sender: PeerAddr,
    mut permit: ConnectionPermit,
    shutdown: ShutdownWatch,
) {
    let mut closing = shutdown.clone();
    let entered = tokio::select! {
        // Boxed: a handshake is short, and must not take memory for the connection's lifetime.
        entered = Box::pin(acceptor.establish(stream, sender, &mut permit)) => entered,
        _ = closing.wait_for(|closing| *closing) => return,
    };
    drop(closing);
    let refused = match entered {
        Ok((stream, peer)) => {
            let served = edge.serve_connection(stream, Some(peer), acceptor.capture, shutdown).await;
            served.map_err(|why| (why, None))
        }
        Err(refused) => Err(refused),
    };
    if let Err((why, error)) = refused {
        acceptor.reject(why, error.as_ref());
    }
}

impl ConnectionAcceptor {
    /// Performs all steps before HTTP.
    async fn establish(
        &self,
        stream: RawStream,
        sender: PeerAddr,
        permit: &mut ConnectionPermit,
    ) -> Result<(EdgeTransport, PeerInfo), AcceptError> {
        // A peer that reads nothing must not keep a run open, whatever its protocol.
        let mut stream = WriteTimeoutStream::new(stream, SEND_TIMEOUT);
        let addr = match &self.trusted_proxies {
            Some(trusted) => self.resolve_origin(&mut stream, sender, trusted).await?,
            None => sender,
        };
        if !permit.try_count_address(addr) {
            self.reject_overloaded(stream.inner);
            return Err((ConnectionRejectReason::AddressLimit, None));
        }
        let Some(tls) = &self.tls else {
            return Ok((EdgeTransport::Plain(stream), PeerInfo { addr, tls: false }));
        };
        match timeout(HANDSHAKE_TIMEOUT, tls.handshake(stream)).await {
            Ok(Ok(stream)) => Ok((EdgeTransport::Tls(Box::new(stream)), PeerInfo { addr, tls: true })),
            Ok(Err(error)) => Err((listener_tls::reject_reason(&error), Some(error))),
            Err(_) => Err((ConnectionRejectReason::TlsTimeout, None)),
        }
    }

    /// Reads the PROXY header and uses its address if the sender is trusted.
    async fn resolve_origin(
        &self,
        stream: &mut WriteTimeoutStream<RawStream>,
        sender: PeerAddr,
        trusted: &TrustedProxies,
    ) -> Result<PeerAddr, AcceptError> {
        let named = match timeout(PROXY_TIMEOUT, proxy_protocol::read_header(stream)).await {
            Ok(read) => read.map_err(|error| (ConnectionRejectReason::ProxyHeader, Some(error)))?,
            Err(_) => return Err((ConnectionRejectReason::ProxyTimeout, None)),
        };
        let is_trusted = match sender {
            PeerAddr::Tcp(address) => trusted.contains(address.ip()),
            PeerAddr::Unix => trusted.unix,
        };
        Ok(match named {
            ProxySource::Address(address) if is_trusted => PeerAddr::Tcp(address),
            _ => sender,
        })
    }

    fn reject(&self, why: ConnectionRejectReason, error: Option<&io::Error>) {
        let cause = error.map(ToString::to_string);
        ConnectionRejected { listener: &self.listener_key, reason: why, cause: cause.as_deref() }.emit(&self.metrics);
    }

    /// Sends a 503 response, except over TLS, where the client could not read it.
    fn reject_overloaded(&self, stream: RawStream) {
        if self.tls.is_some() {
            return;
        }
        let Some(permit) = self.connection_limit.try_linger() else { return stream.try_send(RESPONSE_503) };
        tokio::spawn(async move {
            let _ = timeout(LINGER_TIMEOUT, stream.send_and_close(RESPONSE_503, LINGER_BYTES)).await;
            drop(permit);
        });
    }
}

/// Returns whether a failed accept affects only one connection [accept(2), "Error handling"].
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted};
    use io::ErrorKind::{NetworkDown, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | Interrupted
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
    )
}
