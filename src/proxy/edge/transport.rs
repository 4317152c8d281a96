//! TCP and Unix connections, with or without TLS.

use super::write_timeout::WriteTimeoutStream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

#[derive(Debug)]
pub(super) enum RawStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl RawStream {
    /// Writes as many bytes as fit into the system's buffer.
    pub(super) fn try_send(&self, bytes: &[u8]) {
        // It does not matter if a rejected client misses the reason.
        let _ = match self {
            RawStream::Tcp(stream) => stream.try_write(bytes),
            RawStream::Unix(stream) => stream.try_write(bytes),
        };
    }

    /// Sends `bytes` and the end of the stream, then reads up to `limit` bytes until the peer closes. With unread
    /// bytes, closing would reset the connection, and the peer might lose `bytes`.
    pub(super) async fn send_and_close(mut self, bytes: &[u8], limit: usize) {
        if self.write_all(bytes).await.is_err() || self.shutdown().await.is_err() {
            return;
        }
        let mut discarded = [0; 1024];
        let mut left = limit;
        while let Ok(length @ 1..) = self.read(&mut discarded).await {
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum EdgeTransport {
    Plain(WriteTimeoutStream<RawStream>),
    /// boxed, to save memory on connections without TLS
    Tls(Box<TlsStream<WriteTimeoutStream<RawStream>>>),
}

macro_rules! forward_io {
    ($name:ident { $($variant:ident),+ }) => {
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() { $($name::$variant(stream) => Pin::new(stream).poll_read(cx, buf)),+ }
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() { $($name::$variant(stream) => Pin::new(stream).poll_write(cx, bytes)),+ }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() { $($name::$variant(stream) => Pin::new(stream).poll_write_vectored(cx, bytes)),+ }
            }

            fn is_write_vectored(&self) -> bool {
                match self { $($name::$variant(stream) => stream.is_write_vectored()),+ }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() { $($name::$variant(stream) => Pin::new(stream).poll_flush(cx)),+ }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() { $($name::$variant(stream) => Pin::new(stream).poll_shutdown(cx)),+ }
            }
        }
    };
}

forward_io!(RawStream { Tcp, Unix });
forward_io!(EdgeTransport { Plain, Tls });
