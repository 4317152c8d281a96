//! A stream that fails if its peer stops reading.
//!
//! It sits below HTTP because, above it, a large event on a slow connection looks like a client that reads nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Fails with `TimedOut` if the peer reads none of the pending bytes for `limit`.
#[derive(Debug)]
pub(super) struct WriteTimeoutStream<S> {
    pub(super) inner: S,
    limit: Duration,
    /// runs while a write is pending
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        WriteTimeoutStream { inner: stream, limit, stall_timer: None }
    }

    fn check_timeout(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stall_timer = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stall_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_timeout(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.check_timeout(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::{Instant, sleep};

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn times_out_a_stalled_peer_but_not_a_slow_one() {
        let (mut peer, stream) = tokio::io::duplex(4);
        let mut stream = WriteTimeoutStream::new(stream, LIMIT);
        let slow = tokio::spawn(async move {
            for _ in 0..3 {
                sleep(LIMIT - Duration::from_secs(1)).await;
                peer.read_exact(&mut [0; 4]).await.expect("bytes");
            }
            peer
        });
        stream.write_all(&[0; 16]).await.expect("taken, slowly");
        let _peer = slow.await.expect("the peer");
        // Time without a pending write does not count.
        sleep(2 * LIMIT).await;
        let since = Instant::now();
        let error = stream.write_all(&[0; 16]).await.expect_err("not taken");
        assert_eq!((error.kind(), since.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }
}
