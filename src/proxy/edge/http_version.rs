//! Detects a connection's HTTP version from its first bytes.
//!
//! hyper-util passes the inspected bytes to hyper as a separate read; hyper then finds an incomplete head and doubles
//! its buffer. Here the first read returns everything that is available.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Start of an HTTP/2 connection: "The client connection preface starts with a sequence of 24 octets" (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectedVersion {
    /// anything that does not begin with the preface
    Http1,
    /// HTTP/2 with prior knowledge
    Http2,
}

pub(super) async fn read_version<S: AsyncRead + Unpin>(
    mut stream: S,
) -> io::Result<(DetectedVersion, RewindStream<S>)> {
    let mut bytes = [0; PREFACE.len()];
    let mut len = 0;
    while len < PREFACE.len() && bytes[..len] == PREFACE[..len] {
        match stream.read(&mut bytes[len..]).await? {
            0 if len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => break,
            read => len += read,
        }
    }
    let version = if bytes == *PREFACE { DetectedVersion::Http2 } else { DetectedVersion::Http1 };
    Ok((version, RewindStream { bytes, consumed: 0, len, stream }))
}

/// A stream that first returns bytes that were already read.
#[derive(Debug)]
pub(super) struct RewindStream<S> {
    bytes: [u8; PREFACE.len()],
    consumed: usize,
    len: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for RewindStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.consumed == self.len {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let given = (self.len - self.consumed).min(buf.remaining());
        buf.put_slice(&self.bytes[self.consumed..self.consumed + given]);
        self.consumed += given;
        if buf.remaining() > 0 {
            // Adds any available bytes. Pending and errors recur at the next read.
            let _ = Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RewindStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn detect_at_split(bytes: &[u8], cut: usize) -> (DetectedVersion, Vec<u8>) {
        let (mut peer, stream) = tokio::io::duplex(64);
        let (first, second) = bytes.split_at(cut);
        let first = first.to_vec();
        let second = second.to_vec();
        tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            for part in [first, second] {
                peer.write_all(&part).await.expect("room");
                tokio::task::yield_now().await;
            }
        });
        let (version, mut stream) = read_version(stream).await.expect("bytes");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("the rest");
        (version, all)
    }

    #[tokio::test]
    async fn detects_the_version_at_every_split_without_losing_bytes() {
        let preface = [PREFACE.as_slice(), b"rest"].concat();
        for (bytes, version) in [
            (preface.as_slice(), DetectedVersion::Http2),
            (b"POST / HTTP/1.1\r\n\r\n".as_slice(), DetectedVersion::Http1),
            (b"PRI * HTTP/1.1\r\n\r\n".as_slice(), DetectedVersion::Http1),
            (b"PRI".as_slice(), DetectedVersion::Http1),
        ] {
            for cut in 1..bytes.len() {
                assert_eq!(detect_at_split(bytes, cut).await, (version, bytes.to_vec()), "cut at {cut}");
            }
        }
        let (_, silent) = tokio::io::duplex(1);
        assert!(read_version(silent).await.is_err());
    }
}
