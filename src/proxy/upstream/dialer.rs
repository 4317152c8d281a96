//! Connects to agents via pingora. HTTP/1.1 connections are in its pool, HTTP/2 connections in ours.

use super::agent_exchange::{AgentExchange, OpenedExchange};
use super::h2_pool::Http2Pool;
use super::pingora_errors;
use super::upstream_endpoint::UpstreamEndpoint;
use super::upstream_set::UpstreamEntry;
use super::upstream_tls::{ClusterTls, ClusterTlsMaterial};
use crate::config::{TimeoutsConfig, UpstreamAddress, UpstreamHttpVersion};
use crate::error::{Rejection, RejectionKind};
use futures_util::FutureExt;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::Stream;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{BError, ErrorType};
use std::fmt;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Maximum number of idle HTTP/1.1 connections to agents, in total.
const POOL_SIZE: usize = 1024;

/// Maximum idle time of pooled connections, shorter than in common agents (uvicorn: 5 s), so that the gateway closes
/// them first.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Maximum number of stale connections to skip; the pool itself soon removes closed ones.
const MAX_STALE: usize = 64;

pub(crate) struct Connector(Arc<AgentConnections>);

struct AgentConnections {
    http1: TransportConnector,
    http2: Http2Pool,
    /// opens the connections of `http2`
    http2_transport: TransportConnector,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Default for Connector {
    fn default() -> Self {
        let options = || Some(ConnectorOptions::new(POOL_SIZE));
        Connector(Arc::new(AgentConnections {
            http1: TransportConnector::new(options()),
            http2: Http2Pool::default(),
            http2_transport: TransportConnector::new(options()),
        }))
    }
}

impl AgentConnections {
    /// Takes a connection from a pool. Waits for nothing but the pool.
    async fn reuse(&self, peer: &HttpPeer) -> Option<AgentExchange> {
        let versions = &peer.options.alpn;
        if versions.get_max_http_version() != 1
            && let Some(session) = self.http2.reuse(peer)
        {
            return Some(AgentExchange::http2(session));
        }
        // An agent that may choose has perhaps chosen HTTP/1.1.
        match versions.get_min_http_version() {
            1 => self.reuse_http1(peer).await.map(AgentExchange::http1),
            _ => None,
        }
    }

    /// Opens a connection, or waits for one that another run opens.
    async fn open(&self, peer: &HttpPeer) -> Result<OpenedExchange, BError> {
        if peer.options.alpn.get_max_http_version() != 1 {
            return self.http2.open(peer, self.http2_transport.new_stream(peer)).await;
        }
        let exchange = AgentExchange::http1(self.http1.new_stream(peer).await?);
        Ok(OpenedExchange { exchange, is_reused: false })
    }

    async fn reuse_http1(&self, peer: &HttpPeer) -> Option<Stream> {
        let stream = self.http1.reused_stream(&PooledPeer(peer)).await?;
        let digest = stream.get_socket_digest();
        digest.is_some_and(|digest| digest.peer_addr() == Some(peer.address())).then_some(stream)
    }
}

/// A peer whose connections are in the pool. pingora would ask the system for the other end of a connection at each
/// use; `reuse_http1` compares the address to which it was opened instead.
#[derive(Clone)]
struct PooledPeer<'p>(&'p HttpPeer);

impl fmt::Display for PooledPeer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Peer for PooledPeer<'_> {
    fn address(&self) -> &SocketAddr {
        self.0.address()
    }

    fn tls(&self) -> bool {
        self.0.tls()
    }

    fn sni(&self) -> &str {
        self.0.sni()
    }

    fn reuse_hash(&self) -> u64 {
        self.0.reuse_hash()
    }

    fn matches_fd<V: AsRawFd>(&self, _: V) -> bool {
        true
    }
}

pub(super) struct AgentDialer {
    pub(crate) tls: Option<Arc<ClusterTls>>,
    pub(crate) timeouts: TimeoutsConfig,
    /// whether this is for health checks, which have their own pool
    pub(crate) for_checks: bool,
}

pub(super) struct PooledConnection {
    pub(super) exchange: AgentExchange,
    /// id of the TLS material used by this connection
    material_id: u64,
    /// its place in the pool
    pool_key: u64,
    /// returns an HTTP/2 stream to its connection
    h2_release: Option<Box<H2Release>>,
}

struct H2Release {
    connections: Arc<AgentConnections>,
    peer: HttpPeer,
}

pub(super) struct DialedConnection {
    pub(super) connection: PooledConnection,
    pub(super) is_reused: bool,
}

impl AgentDialer {
    /// Connects to an endpoint or reuses a connection, within `timeouts.connect`.
    pub(super) async fn connect(
        &self,
        connector: &Connector,
        member: &UpstreamEntry,
        target: &UpstreamEndpoint,
    ) -> Result<DialedConnection, Rejection> {
        let material = self.material();
        let peer = self.http_peer(member, target, &material);
        let mut left = MAX_STALE;
        let OpenedExchange { exchange, is_reused } = loop {
            left -= 1;
            let started_at = Instant::now();
            let opened = self.open_exchange(connector, &peer).await;
            let opened = opened.map_err(|error| pingora_errors::connect_rejection(&error, &target.address))?;
            if !opened.is_reused && !self.for_checks {
                member.metrics.overall.connect.observe(started_at.elapsed());
            }
            if !opened.is_reused || left == 0 || !is_closed(&opened.exchange) {
                break opened;
            }
        };
        let is_h2 = exchange.is_http2();
        if member.upstream.http == UpstreamHttpVersion::Two && !is_h2 {
            let detail = "The agent does not speak HTTP/2 (`http: 2` of the upstream).";
            return Err(Rejection::from(RejectionKind::UpstreamProtocol).with_detail(detail));
        }
        let pool_key = peer.reuse_hash();
        let h2_release = is_h2.then(|| Box::new(H2Release { connections: Arc::clone(&connector.0), peer }));
        let connection = PooledConnection { exchange, material_id: material.id, pool_key, h2_release };
        Ok(DialedConnection { connection, is_reused })
    }

    async fn open_exchange(&self, connector: &Connector, peer: &HttpPeer) -> Result<OpenedExchange, BError> {
        if let Some(exchange) = connector.0.reuse(peer).await {
            return Ok(OpenedExchange { exchange, is_reused: true });
        }
        // pingora's own timeout excludes the HTTP/2 handshake. Boxed: most runs reuse a connection, and the future of a
        // new one is large.
        let opened = timeout(self.timeouts.connect, connector.0.open(peer)).boxed().await;
        opened.unwrap_or_else(|_| Err(pingora_core::Error::new(ErrorType::ConnectTimedout)))
    }

    pub(super) async fn release(&self, connector: &Connector, mut connection: PooledConnection) {
        // Connections made with other TLS material must not be reused. HTTP/2 streams return by themselves.
        if self.material().id == connection.material_id && connection.h2_release.is_none() {
            let exchange = std::mem::replace(&mut connection.exchange, AgentExchange::Released);
            if let AgentExchange::Http1(exchange) = exchange
                && let Some(stream) = exchange.into_connection().await
            {
                connector.0.http1.release_stream(stream, connection.pool_key, Some(POOL_IDLE));
            }
        }
    }

    fn material(&self) -> Arc<ClusterTlsMaterial> {
        self.tls.as_ref().map(|tls| tls.material()).unwrap_or_default()
    }

    fn http_peer(&self, member: &UpstreamEntry, target: &UpstreamEndpoint, material: &ClusterTlsMaterial) -> HttpPeer {
        let upstream = &member.upstream;
        let host = match &upstream.address {
            UpstreamAddress::Host { host, .. } => host.as_str(),
            UpstreamAddress::Socket(_) => "localhost",
        };
        let name = self.tls.as_ref().and_then(|tls| tls.server_name.as_deref()).unwrap_or(host);
        // The address is set below; this one is never resolved.
        let mut peer = HttpPeer::new((Ipv4Addr::LOCALHOST, 0), upstream.uses_tls(), name.to_owned());
        peer._address = SocketAddr::clone(&target.address);
        peer.client_cert_key = material.identity.clone();
        // Connections made with other TLS material or for health checks are not shared.
        peer.group_key = material.id << 1 | u64::from(self.for_checks);
        let options = &mut peer.options;
        options.ca = material.ca.clone();
        options.total_connection_timeout = Some(self.timeouts.connect);
        options.connection_timeout = Some(self.timeouts.connect);
        match (upstream.http, upstream.uses_tls()) {
            (UpstreamHttpVersion::Two, _) => options.set_http_version(2, 2),
            (UpstreamHttpVersion::Auto, true) => options.set_http_version(2, 1),
            (UpstreamHttpVersion::Auto, false) | (UpstreamHttpVersion::One, _) => options.set_http_version(1, 1),
        }
        peer
    }
}

/// Returns whether the agent has closed a pooled connection. On a busy machine, pingora detects this late: the run
/// would be sent over a closed connection and could not be retried.
fn is_closed(exchange: &AgentExchange) -> bool {
    let peek = |socket: RawFd| recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
    match exchange {
        // No data is expected: anything readable, whether data or an end, makes the connection unusable.
        AgentExchange::Http1(exchange) => !matches!(peek(exchange.id()), Err(Errno::EAGAIN)),
        AgentExchange::Http2(session) => {
            let closed = session.conn.is_closed() || !matches!(peek(session.fd()), Ok(1..) | Err(Errno::EAGAIN));
            if closed {
                session.conn.mark_shutdown();
            }
            closed
        }
        AgentExchange::Released => true,
    }
}

impl Drop for PooledConnection {
    /// Returns the HTTP/2 stream to its connection. An unfinished one is reset, which cancels the run.
    fn drop(&mut self) {
        if let Some(release) = self.h2_release.take()
            && tokio::runtime::Handle::try_current().is_ok()
            && let AgentExchange::Http2(session) = std::mem::replace(&mut self.exchange, AgentExchange::Released)
        {
            release.connections.http2.release(&release.peer, *session);
        }
    }
}
