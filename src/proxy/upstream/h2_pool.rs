//! HTTP/2 connections to agents, and which of them has a free stream.
//!
//! ```text
//!   open ─▶ a connection with a free stream ─▶ run ─▶ release ─▶ idle ── 30 s ──▶ closed
//!     │                 ▲
//!     ╰── none ─▶ dial ─╯  one at a time for each address, or another after 250 ms; at most `MAX_CONNECTIONS`
//! ```
//! pingora's own pool does not wait for the agent's SETTINGS, and so sends runs on streams that the agent does not
//! allow: they wait for the end of another run, or for ever. Here a new connection is used only once its SETTINGS have
//! arrived. If no connection has a free stream, and no other may be opened, the run fails at once.

use super::agent_exchange::{AgentExchange, OpenedExchange};
use super::http1_exchange::HEAD_LIMIT;
use super::pingora_errors::UPSTREAM_BUSY;
use bytes::Bytes;
use futures_util::FutureExt;
use h2::client::{Builder, Connection};
use parking_lot::Mutex;
use pingora_core::connectors::http::v2::ConnectionRef;
use pingora_core::protocols::http::v2::client::{Http2Session, drive_connection};
use pingora_core::protocols::{ALPN, Digest, Stream};
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{BError, Error, ErrorType};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Maximum number of connections to one address of an agent.
const MAX_CONNECTIONS: usize = 100;

/// Maximum number of runs on one connection, if the agent allows as many.
const MAX_STREAMS: usize = 100;

/// Number of addresses above which those without a connection are forgotten.
const MAX_ADDRESSES: usize = 1024;

const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Flow control windows for a run and for a connection, in bytes. The latter exceeds the sum for all runs, so that a
/// slow client delays only its own run.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 8 << 20;

const MAX_FRAME_SIZE: u32 = 64 << 10;

const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Time for which other runs wait for a connection that is being opened, before the next one is opened for them.
const DIAL_TURN: Duration = Duration::from_millis(250);

/// The limit before the agent's SETTINGS. No agent sends this number, so another one means that they have arrived.
const UNKNOWN_STREAM_LIMIT: usize = 0x7fff_fff1;

#[derive(Default)]
pub(super) struct Http2Pool {
    addresses: Mutex<HashMap<u64, Arc<AddressConnections>>>,
}

/// The connections to one address with the same TLS settings.
#[derive(Default)]
struct AddressConnections {
    open: Mutex<Vec<OpenConnection>>,
    /// held while a connection is opened, but not for long, so that a burst of runs shares it
    dial_turn: tokio::sync::Mutex<()>,
    /// connections that are being opened
    dialing: AtomicUsize,
    /// whether the agent has chosen HTTP/1.1, so that connections need not be opened one at a time
    is_http1: AtomicBool,
}

struct OpenConnection {
    connection: ConnectionRef,
    last_used: Instant,
    /// whether a task waits to close it
    has_timer: bool,
}

impl Http2Pool {
    /// Takes a free stream of an open connection.
    pub(super) fn reuse(&self, peer: &HttpPeer) -> Option<Http2Session> {
        self.find(peer)?.take_stream()
    }

    /// Takes a free stream, of a new connection if necessary, which is a plain one if the agent chooses HTTP/1.1.
    pub(super) async fn open(
        &self,
        peer: &HttpPeer,
        connect: impl Future<Output = Result<Stream, BError>>,
    ) -> Result<OpenedExchange, BError> {
        let address = self.find_or_insert(peer);
        let is_http1 = || address.is_http1.load(Ordering::Relaxed);
        let turn = if is_http1() { None } else { Some(address.dial_turn.lock().await) };
        let turn = turn.filter(|_| !is_http1());
        if let Some(session) = address.take_stream() {
            return Ok(OpenedExchange { exchange: AgentExchange::http2(session), is_reused: true });
        }
        let mut dialed = pin!(address.dial(peer, connect));
        let Some(turn) = turn else { return dialed.await };
        let _dialing = DialCount::new(&address.dialing);
        if address.open.lock().len() + address.dialing.load(Ordering::Relaxed) > MAX_CONNECTIONS {
            return Error::e_explain(UPSTREAM_BUSY, format!("no free stream on {MAX_CONNECTIONS} HTTP/2 connections"));
        }
        match timeout(DIAL_TURN, &mut dialed).await {
            Ok(dialed) => dialed,
            Err(_) => {
                drop(turn);
                dialed.await
            }
        }
    }

    /// Ends a stream; an unfinished one is reset. Its connection is closed if it then stays unused.
    pub(super) fn release(&self, peer: &HttpPeer, session: Http2Session) {
        let id = session.conn.id();
        drop(session);
        let Some(address) = self.find(peer) else { return };
        let mut open = address.open.lock();
        open.retain(OpenConnection::is_usable);
        let Some(own) = open.iter_mut().find(|own| own.connection.id() == id) else { return };
        own.last_used = Instant::now();
        if own.connection.is_idle() && !std::mem::replace(&mut own.has_timer, true) {
            tokio::spawn(Arc::clone(&address).close_when_unused(id));
        }
    }

    fn find(&self, peer: &HttpPeer) -> Option<Arc<AddressConnections>> {
        self.addresses.lock().get(&peer.reuse_hash()).cloned()
    }

    fn find_or_insert(&self, peer: &HttpPeer) -> Arc<AddressConnections> {
        let mut addresses = self.addresses.lock();
        if addresses.len() >= MAX_ADDRESSES {
            addresses.retain(|_, address| Arc::strong_count(address) > 1 || !address.open.lock().is_empty());
        }
        Arc::clone(addresses.entry(peer.reuse_hash()).or_default())
    }
}

impl AddressConnections {
    /// Takes a stream of the first connection that has one, so that the others become idle.
    fn take_stream(&self) -> Option<Http2Session> {
        let mut open = self.open.lock();
        open.retain(OpenConnection::is_usable);
        open.iter().find_map(|own| take_stream(&own.connection))
    }

    async fn dial(
        &self,
        peer: &HttpPeer,
        connect: impl Future<Output = Result<Stream, BError>>,
    ) -> Result<OpenedExchange, BError> {
        let stream = connect.await?;
        let is_http2 = match stream.selected_alpn_proto() {
            Some(protocol) => protocol == ALPN::H2,
            // Without TLS there is no negotiation; with it, agents that do not negotiate speak HTTP/1.1.
            None => !peer.tls() && peer.options.alpn.get_min_http_version() == 2,
        };
        self.is_http1.store(!is_http2, Ordering::Relaxed);
        if !is_http2 {
            return Ok(OpenedExchange { exchange: AgentExchange::http1(stream), is_reused: false });
        }
        let connection = connect_http2(stream).await?;
        let Some(session) = take_stream(&connection) else {
            if connection.is_closed() || connection.is_shutting_down() {
                return Error::e_explain(ErrorType::HandshakeError, "the agent closed the connection");
            }
            return Error::e_explain(UPSTREAM_BUSY, "the agent allows no HTTP/2 stream");
        };
        self.open.lock().push(OpenConnection { connection, last_used: Instant::now(), has_timer: false });
        Ok(OpenedExchange { exchange: AgentExchange::http2(session), is_reused: false })
    }

    /// Forgets the connection after it was unused for a while, which closes it.
    async fn close_when_unused(self: Arc<Self>, id: i32) {
        let mut wait = IDLE_TIMEOUT;
        loop {
            tokio::time::sleep(wait).await;
            let mut open = self.open.lock();
            let Some(at) = open.iter().position(|own| own.connection.id() == id) else { return };
            if !open[at].connection.is_idle() {
                open[at].has_timer = false;
                return;
            }
            wait = IDLE_TIMEOUT.saturating_sub(open[at].last_used.elapsed());
            if wait.is_zero() {
                open.swap_remove(at);
                return;
            }
        }
    }
}

/// Counts a connection that is being opened.
struct DialCount<'a>(&'a AtomicUsize);

impl DialCount<'_> {
    fn new(dialing: &AtomicUsize) -> DialCount<'_> {
        dialing.fetch_add(1, Ordering::Relaxed);
        DialCount(dialing)
    }
}

impl Drop for DialCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpenConnection {
    fn is_usable(&self) -> bool {
        !self.connection.is_closed() && !self.connection.is_shutting_down()
    }
}

/// Takes a stream that the agent allows now. The caller holds the lock, or nobody else has the connection.
fn take_stream(connection: &ConnectionRef) -> Option<Http2Session> {
    if !connection.can_accept_streams(1) {
        return None;
    }
    // pingora only waits for earlier streams of the same handle, and each call has its own.
    match connection.spawn_stream().now_or_never() {
        Some(Ok(session)) => session,
        Some(Err(_)) => {
            connection.mark_shutdown();
            None
        }
        None => None,
    }
}

/// Performs the HTTP/2 handshake and waits for the agent's SETTINGS.
async fn connect_http2(stream: Stream) -> Result<ConnectionRef, BError> {
    let id = stream.id();
    let handshake = Builder::new()
        .enable_push(false)
        .initial_max_send_streams(UNKNOWN_STREAM_LIMIT)
        .max_concurrent_streams(1)
        .max_frame_size(MAX_FRAME_SIZE)
        // h2's default is 16 MiB.
        .max_header_list_size(u32::try_from(HEAD_LIMIT).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake::<_, Bytes>(stream);
    let (requests, mut connection) = handshake.await.map_err(handshake_error)?;
    wait_for_settings(&mut connection).await?;
    let (closed_tx, closed) = watch::channel(false);
    let ping_timed_out = Arc::new(AtomicBool::new(false));
    tokio::spawn(drive_connection(connection, id, closed_tx, Some(PING_INTERVAL), Arc::clone(&ping_timed_out)));
    Ok(ConnectionRef::new(requests, closed, ping_timed_out, id, MAX_STREAMS, Digest::default()))
}

/// "The server connection preface consists of a potentially empty SETTINGS frame that MUST be the first frame the
/// server sends" (RFC 9113 §3.4).
async fn wait_for_settings(connection: &mut Connection<Stream, Bytes>) -> Result<(), BError> {
    poll_fn(|cx| {
        let ended = Pin::new(&mut *connection).poll(cx);
        if connection.max_concurrent_send_streams() != UNKNOWN_STREAM_LIMIT {
            return Poll::Ready(Ok(()));
        }
        match ended {
            Poll::Ready(Ok(())) => {
                Poll::Ready(Error::e_explain(ErrorType::HandshakeError, "the agent closed the connection"))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(handshake_error(error))),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn handshake_error(error: h2::Error) -> BError {
    Error::because(ErrorType::HandshakeError, "during the HTTP/2 handshake", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use futures_util::stream::FuturesUnordered;
    use std::future::pending;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_slow_dial_does_not_hold_others() {
        let pool = Http2Pool::default();
        let peer = HttpPeer::new("127.0.0.1:9", true, "agent".to_owned());
        let refused = || async { Error::e_explain(ErrorType::ConnectRefused, "refused") };
        let began = Instant::now();
        let others = async {
            sleep(DIAL_TURN / 2).await;
            let first = pool.open(&peer, refused()).await;
            let waited = began.elapsed();
            (first.is_err(), waited, pool.open(&peer, refused()).await.is_err(), began.elapsed())
        };
        tokio::select! {
            biased;
            _ = pool.open(&peer, pending()) => panic!("it never connects"),
            opened = others => assert_eq!(opened, (true, DIAL_TURN, true, DIAL_TURN)),
            () = sleep(Duration::from_secs(60)) => panic!("the others wait for the first"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_dials_count_as_connections() {
        let pool = Http2Pool::default();
        let peer = HttpPeer::new("127.0.0.1:9", true, "agent".to_owned());
        let mut dials: FuturesUnordered<_> = (0..=MAX_CONNECTIONS).map(|_| pool.open(&peer, pending())).collect();
        let first = timeout(DIAL_TURN * 1000, dials.next()).await.expect("one is refused").expect("an outcome");
        assert!(first.is_err_and(|error| *error.etype() == UPSTREAM_BUSY));
        assert!(timeout(DIAL_TURN * 1000, dials.next()).await.is_err(), "the others still connect");
    }
}
