//! How connections to agents are made: whom pingora is asked to reach, and the pool of those that are kept.

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

/// Idle connections to agents that are kept, in all.
const POOL_SIZE: usize = 1024;

/// How long an idle connection is kept. Below the keep-alive of common agents (uvicorn 5 s), so that we close it first.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// The same over HTTP/2, where an agent that closes says which requests it has not taken.
const POOL_IDLE_H2: Duration = Duration::from_secs(30);

/// Most runs that share one HTTP/2 connection; an agent may allow fewer.
const H2_MAX_STREAMS: usize = 100;

/// What an agent may send over HTTP/2 that nobody has read: of one run, and of all on a connection. The second is more than
/// all runs of a connection can have unread, so that a client that does not read holds up its own run alone.
const H2_STREAM_WINDOW: u32 = 64 << 10;
const H2_CONNECTION_WINDOW: u32 = 8 << 20;

/// Most connections that are looked at for one that is open. Closed ones go away by themselves in a moment.
const MAX_STALE: usize = 64;

/// How often an HTTP/2 connection is asked whether it still is one.
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);

/// The connections to all agents.
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

/// How the agents of a route are reached.
pub(super) struct AgentDialer {
    pub(crate) tls: Option<Arc<ClusterTls>>,
    pub(crate) timeouts: TimeoutsConfig,
    /// for what connections are pooled apart from those of runs
    pub(crate) for_checks: bool,
}

/// A connection, or a place on one, and what is needed to give it back.
pub(super) struct PooledConnection {
    /// `Custom` once it was given back
    session: HttpSession,
    /// what it was made with
    material_id: u64,
    /// how an HTTP/2 connection is told that it has one run fewer
    h2_release: Option<Box<(Arc<PingoraConnector>, HttpPeer)>>,
}

impl AgentDialer {
    /// A connection to an address of an upstream, and whether it served before. `timeouts.connect` is for all of it.
    pub(super) async fn connect(
        &self,
        connector: &Connector,
        member: &UpstreamEntry,
        target: &UpstreamEndpoint,
    ) -> Result<(PooledConnection, bool), Rejection> {
        let material = self.tls.as_ref().map(|tls| tls.material()).unwrap_or_default();
        let peer = self.http_peer(member, target, &material);
        let mut left = MAX_STALE;
        let (session, kept) = loop {
            left -= 1;
            let began = Instant::now();
            match self.open_session(connector, &peer).await {
                Ok((session, true)) if left > 0 && is_closed(&session) => {}
                // A kept HTTP/2 connection that has no room for one more, or is about to close, has not seen the request.
                Err(error) if left > 0 && error.etype == ErrorType::H2Error => {}
                Ok((session, false)) => {
                    if !self.for_checks {
                        member.metrics.overall.connect.observe(began.elapsed());
                    }
                    break (session, false);
                }
                Ok(kept) => break kept,
                Err(error) => return Err(pingora_errors::connect_rejection(&error)),
            }
        };
        let two = matches!(session, HttpSession::H2(_));
        if member.upstream.http == UpstreamHttpVersion::Two && !two {
            let what = "The agent does not speak HTTP/2 (`http: 2` of the upstream).";
            return Err(Rejection::from(RejectionKind::UpstreamProtocol).with_detail(what));
        }
        let shared = two.then(|| Box::new((Arc::clone(&connector.0), peer)));
        Ok((PooledConnection { session, material_id: material.id, h2_release: shared }, kept))
    }

    async fn open_session(&self, connector: &Connector, peer: &HttpPeer) -> Result<(HttpSession, bool), BError> {
        // pingora's own limit leaves out the wait for a place on an HTTP/2 connection.
        let opened = timeout(self.timeouts.connect, connector.0.get_http_session(peer)).await;
        opened
            .unwrap_or_else(|_| Err(pingora_core::Error::explain(ErrorType::ConnectTimedout, "no connection in time")))
    }

    /// Gives a connection back after a clean end. Dropping it instead closes it.
    pub(super) async fn release(
        &self,
        connector: &Connector,
        member: &UpstreamEntry,
        target: &UpstreamEndpoint,
        mut line: PooledConnection,
    ) {
        let material = self.tls.as_ref().map(|tls| tls.material()).unwrap_or_default();
        // One that was made with another certificate must not be taken for one of this. One of HTTP/2 goes back by itself.
        if material.id == line.material_id && line.h2_release.is_none() {
            let session = std::mem::replace(&mut line.session, HttpSession::Custom(()));
            // A peer is large, and its description is the same each time, so it is not kept while a run goes on.
            let peer = self.http_peer(member, target, &material);
            connector.0.release_http_session(session, &peer, Some(POOL_IDLE)).await;
        }
    }

    fn http_peer(&self, member: &UpstreamEntry, target: &UpstreamEndpoint, material: &ClusterTlsMaterial) -> HttpPeer {
        let upstream = &member.upstream;
        let host = match &upstream.address {
            UpstreamAddress::Host { host, .. } => host.as_str(),
            UpstreamAddress::Socket(_) => "localhost",
        };
        let name = self.tls.as_ref().and_then(|tls| tls.server_name()).unwrap_or(host);
        // What is known of the address is put in below; this one is not looked up.
        let mut peer = HttpPeer::new((Ipv4Addr::LOCALHOST, 0), upstream.uses_tls(), name.to_owned());
        peer._address = SocketAddr::clone(&target.address);
        peer.client_cert_key = material.identity.clone();
        // Connections that were made with other certificates, or for checks, are not shared.
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

/// Whether the agent has closed a kept connection. pingora looks as well, but only at what the runtime has noticed so far,
/// and on a busy machine that is late: a run would be sent to nobody, and could not be sent again.
fn is_closed(session: &HttpSession) -> bool {
    let look = |socket: RawFd| recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
    match session {
        // Nothing is due on it: whatever can be read, an end or some words before it, is the end of its use.
        HttpSession::H1(session) => !matches!(look(session.id()), Err(Errno::EAGAIN)),
        HttpSession::H2(session) => {
            let closed = session.conn.is_closed() || !matches!(look(session.fd()), Ok(1..) | Err(Errno::EAGAIN));
            if closed {
                session.conn.mark_shutdown();
            }
            closed
        }
        HttpSession::Custom(()) => false,
    }
}

impl PooledConnection {
    pub(super) fn session(&self) -> &HttpSession {
        &self.session
    }

    pub(super) fn session_mut(&mut self) -> &mut HttpSession {
        &mut self.session
    }
}

impl Drop for PooledConnection {
    /// A run on HTTP/2 that is dropped is cancelled by a RESET, and its connection serves on. It has to be told, or it
    /// would be kept for ever once nobody uses it.
    fn drop(&mut self) {
        use futures_util::FutureExt;
        if let Some(shared) = self.h2_release.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let (connector, peer) = *shared;
            let session = std::mem::replace(&mut self.session, HttpSession::Custom(()));
            // It waits for nothing with HTTP/2.
            let _ = connector.release_http_session(session, &peer, Some(POOL_IDLE_H2)).now_or_never();
        }
    }
}
