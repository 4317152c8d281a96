//! Connects to agents via pingora and pools the connections.

use super::pingora_errors;
use super::upstream_endpoint::UpstreamEndpoint;
use super::upstream_set::UpstreamEntry;
use super::upstream_tls::{ClusterTls, ClusterTlsMaterial};
use crate::config::{TimeoutsConfig, UpstreamAddress, UpstreamHttpVersion};
use crate::error::{Rejection, RejectionKind};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector as PingoraConnector;
use pingora_core::protocols::UniqueID;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{BError, ErrorType};
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Maximum number of idle agent connections, in total.
const POOL_SIZE: usize = 1024;

/// Maximum idle time of pooled connections, shorter than in common agents (uvicorn: 5 s), so that the gateway closes
/// them first.
const POOL_IDLE: Duration = Duration::from_secs(4);

const POOL_IDLE_H2: Duration = Duration::from_secs(30);

const H2_MAX_STREAMS: usize = 100;

/// HTTP/2 flow control windows for a run and for a connection, in bytes. The latter exceeds the sum for all runs, so
/// that a slow client delays only its own run.
const H2_STREAM_WINDOW: u32 = 64 << 10;
const H2_CONNECTION_WINDOW: u32 = 8 << 20;

/// Maximum number of stale connections to skip; the pool itself soon removes closed ones.
const MAX_STALE: usize = 64;

const H2_PING_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Connector(Arc<PingoraConnector>);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Default for Connector {
    fn default() -> Self {
        Connector(Arc::new(PingoraConnector::new(Some(ConnectorOptions::new(POOL_SIZE)))))
    }
}

pub(super) struct AgentDialer {
    pub(crate) tls: Option<Arc<ClusterTls>>,
    pub(crate) timeouts: TimeoutsConfig,
    /// whether this is for health checks, which have their own pool
    pub(crate) for_checks: bool,
}

pub(super) struct PooledConnection {
    /// `Custom` once the session has been returned to the pool
    pub(super) session: HttpSession,
    /// id of the TLS material used by this connection
    material_id: u64,
    /// returns an HTTP/2 stream to its connection
    h2_release: Option<Box<H2Release>>,
}

struct H2Release {
    connector: Arc<PingoraConnector>,
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
        let (session, is_reused) = loop {
            left -= 1;
            let started_at = Instant::now();
            match self.open_session(connector, &peer).await {
                Ok((session, true)) if left > 0 && is_closed(&session) => {}
                // The request was not sent, since the pooled HTTP/2 connection has no free stream or is about to close.
                Err(error) if left > 0 && error.etype == ErrorType::H2Error => {}
                Ok((session, false)) => {
                    if !self.for_checks {
                        member.metrics.overall.connect.observe(started_at.elapsed());
                    }
                    break (session, false);
                }
                Ok(reused) => break reused,
                Err(error) => return Err(pingora_errors::connect_rejection(&error, &target.address)),
            }
        };
        let is_h2 = matches!(session, HttpSession::H2(_));
        if member.upstream.http == UpstreamHttpVersion::Two && !is_h2 {
            let detail = "The agent does not speak HTTP/2 (`http: 2` of the upstream).";
            return Err(Rejection::from(RejectionKind::UpstreamProtocol).with_detail(detail));
        }
        let h2_release = is_h2.then(|| Box::new(H2Release { connector: Arc::clone(&connector.0), peer }));
        let connection = PooledConnection { session, material_id: material.id, h2_release };
        Ok(DialedConnection { connection, is_reused })
    }

    async fn open_session(&self, connector: &Connector, peer: &HttpPeer) -> Result<(HttpSession, bool), BError> {
        // pingora's own timeout excludes waiting for a free HTTP/2 stream.
        let opened = timeout(self.timeouts.connect, connector.0.get_http_session(peer)).await;
        opened.unwrap_or_else(|_| Err(pingora_core::Error::new(ErrorType::ConnectTimedout)))
    }

    pub(super) async fn release(
        &self,
        connector: &Connector,
        member: &UpstreamEntry,
        target: &UpstreamEndpoint,
        mut connection: PooledConnection,
    ) {
        let material = self.material();
        // Connections made with other TLS material must not be reused. HTTP/2 streams return by themselves.
        if material.id == connection.material_id && connection.h2_release.is_none() {
            let session = std::mem::replace(&mut connection.session, HttpSession::Custom(()));
            // A peer is large and always the same, so it is not kept during a run.
            let peer = self.http_peer(member, target, &material);
            connector.0.release_http_session(session, &peer, Some(POOL_IDLE)).await;
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
        options.max_h2_streams = H2_MAX_STREAMS;
        options.h2_stream_window_size = Some(H2_STREAM_WINDOW);
        options.h2_connection_window_size = Some(H2_CONNECTION_WINDOW);
        options.h2_ping_interval = Some(H2_PING_INTERVAL);
        peer
    }
}

/// Returns whether the agent has closed a pooled connection. On a busy machine, pingora detects this late: the run
/// would be sent over a closed connection and could not be retried.
fn is_closed(session: &HttpSession) -> bool {
    let peek = |socket: RawFd| recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
    match session {
        // No data is expected: anything readable, whether data or an end, makes the connection unusable.
        HttpSession::H1(session) => !matches!(peek(session.id()), Err(Errno::EAGAIN)),
        HttpSession::H2(session) => {
            let closed = session.conn.is_closed() || !matches!(peek(session.fd()), Ok(1..) | Err(Errno::EAGAIN));
            if closed {
                session.conn.mark_shutdown();
            }
            closed
        }
        HttpSession::Custom(()) => false,
    }
}

impl Drop for PooledConnection {
    /// Releases the HTTP/2 connection, which pingora would otherwise keep forever. An unfinished stream is reset, which
    /// cancels the run.
    fn drop(&mut self) {
        use futures_util::FutureExt;
        if let Some(release) = self.h2_release.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let H2Release { connector, peer } = *release;
            let session = std::mem::replace(&mut self.session, HttpSession::Custom(()));
            // HTTP/2 connections are released without waiting.
            let _ = connector.release_http_session(session, &peer, Some(POOL_IDLE_H2)).now_or_never();
        }
    }
}
