//! Limits what one read takes from an agent's HTTP/1.1 connection.
//!
//! pingora keeps a buffer of 64 KiB per run for the body. The kernel provides memory only for the part that was written
//! once, so shorter reads save the rest.

use async_trait::async_trait;
use pingora_core::connectors::TransportConnector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::protocols::http::v1::client::HttpSession as Http1Session;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::{SslDigest, TlsRef};
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// Maximum bytes of one read.
const MAX_READ: u64 = 8 << 10;

/// Begins an exchange on a connection, whose reads are short.
pub(super) fn http1_session(stream: Stream, peer: &HttpPeer) -> HttpSession {
    HttpSession::H1(Http1Session::new_with_options(Box::new(ShortReads(stream.take(MAX_READ))), peer))
}

/// Returns the connection of a session to its pool, as it was before [`http1_session`], if it can be used again.
pub(super) async fn release_http1_session(
    mut session: Http1Session,
    pool: &TransportConnector,
    peer: &HttpPeer,
    idle: Duration,
) {
    session.respect_keepalive();
    if let Some(stream) = session.reuse().await
        && let Ok(short) = stream.into_any().downcast::<ShortReads>()
    {
        pool.release_stream(short.0.into_inner(), peer.reuse_hash(), Some(idle));
    }
}

/// A connection whose reads are short.
#[derive(Debug)]
pub(super) struct ShortReads(Take<Stream>);

impl ShortReads {
    fn inner(&self) -> &Stream {
        self.0.get_ref()
    }

    fn pinned(&mut self) -> Pin<&mut Stream> {
        Pin::new(self.0.get_mut())
    }
}

impl AsyncRead for ShortReads {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.set_limit(MAX_READ);
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for ShortReads {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner().is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for ShortReads {
    async fn shutdown(&mut self) {
        Shutdown::shutdown(&mut **self.0.get_mut()).await;
    }
}

impl UniqueID for ShortReads {
    fn id(&self) -> UniqueIDType {
        self.inner().id()
    }
}

impl Ssl for ShortReads {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.inner().get_ssl()
    }

    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.inner().get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.inner().selected_alpn_proto()
    }
}

impl GetTimingDigest for ShortReads {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.inner().get_timing_digest()
    }
}

impl GetProxyDigest for ShortReads {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.inner().get_proxy_digest()
    }
}

impl GetSocketDigest for ShortReads {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.inner().get_socket_digest()
    }
}

#[async_trait]
impl Peek for ShortReads {
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        self.0.get_mut().try_peek(buf).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn takes_little_at_a_time_and_everything_in_the_end() {
        let (mut agent, connection) = tokio::io::duplex(64 << 10);
        agent.write_all(&[7; 20_000]).await.expect("room");
        drop(agent);
        let connection: Stream = Box::new(connection);
        let mut short = ShortReads(connection.take(MAX_READ));
        let mut sizes = Vec::new();
        loop {
            let mut buffer = Vec::with_capacity(64 << 10);
            match short.read_buf(&mut buffer).await.expect("readable") {
                0 => break,
                size => sizes.push(size),
            }
        }
        assert_eq!(sizes, [8192, 8192, 3616]);
    }
}
