//! Detects when the client of an HTTP/1 connection disconnects during a response.
//!
//! hyper detects this by reading, but not while its buffer contains bytes of another request: a client that pipelines
//! requests and disconnects would hold its run and permit until the next write. This stream, below hyper, reads such
//! bytes ahead to find the end of the stream.

use super::activity::ConnectionActivity;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes read ahead. Beyond that, only a write detects a disconnect.
const READ_AHEAD_LIMIT: usize = 16 << 10;

const READ_SIZE: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct ReadAheadStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// bytes read ahead, of which `consumed` have been passed on
    buffered: Vec<u8>,
    consumed: usize,
    /// hyper is waiting for bytes, so it detects the end itself
    is_read_pending: bool,
}

impl<S> ReadAheadStream<S> {
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        ReadAheadStream { stream, activity, buffered: Vec::new(), consumed: 0, is_read_pending: false }
    }

    pub(super) fn activity(&self) -> Arc<ConnectionActivity> {
        Arc::clone(&self.activity)
    }

    /// Returns the stream below, for a response of unknown length: until its end, the connection is busy anyway.
    pub(super) const fn inner_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Puts back bytes to be read again.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.buffered = [bytes, &self.buffered[self.consumed..]].concat();
        self.consumed = 0;
    }
}

/// Buffers up to `limit` bytes, as long as some are ready; the next byte or the end of the stream then wakes the task.
pub(super) fn buffer_available<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffered: &mut Vec<u8>,
    limit: usize,
    cx: &mut Context<'_>,
) -> io::Result<()> {
    while buffered.len() < limit {
        // Not filled with zeros, since this runs with each event.
        let mut piece = [MaybeUninit::uninit(); READ_SIZE];
        let mut piece = ReadBuf::uninit(&mut piece);
        match Pin::new(&mut *stream).poll_read(cx, &mut piece)? {
            Poll::Pending => break,
            // As in hyper, a client that closes before the end of the response is assumed not to want it.
            Poll::Ready(()) if piece.filled().is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Ready(()) => buffered.extend_from_slice(piece.filled()),
        }
    }
    Ok(())
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAheadStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.consumed < this.buffered.len() {
            let rest = &this.buffered[this.consumed..];
            let give = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..give]);
            this.consumed += give;
            if this.consumed == this.buffered.len() {
                this.buffered = Vec::new();
                this.consumed = 0;
            }
            return Poll::Ready(Ok(()));
        }
        this.is_read_pending = true;
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buf));
        this.is_read_pending = false;
        if buf.filled().len() > before {
            this.activity.on_read();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ReadAheadStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.activity.on_write();
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        if written.is_ready() {
            self.activity.on_write();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Reads ahead here because hyper flushes after it has finished reading.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.is_read_pending) && self.activity.is_busy() {
            let this = &mut *self;
            buffer_available(&mut this.stream, &mut this.buffered, READ_AHEAD_LIMIT, cx)?;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn detects_close_behind_unread_bytes_without_losing_any() {
        let (mut peer, stream) = tokio::io::duplex(1 << 20);
        let activity = ConnectionActivity::new();
        let mut stream = ReadAheadStream::new(stream, Arc::clone(&activity));
        let busy = activity.begin_request();
        let sent: Vec<u8> = (0..10_000_u32).flat_map(u32::to_be_bytes).collect();
        peer.write_all(&sent[..100]).await.expect("room");
        stream.flush().await.expect("the peer is there");
        let mut all = vec![0; 50];
        stream.read_exact(&mut all).await.expect("bytes");
        peer.write_all(&sent[100..]).await.expect("room");
        stream.flush().await.expect("the peer is there");
        assert!(stream.buffered.len() <= READ_AHEAD_LIMIT + READ_SIZE, "{}", stream.buffered.len());
        let mut rest = vec![0; sent.len() - 50];
        stream.read_exact(&mut rest).await.expect("bytes");
        all.extend(rest);
        assert!(all == sent);

        peer.write_all(b"more").await.expect("room");
        drop(peer);
        assert!(stream.flush().await.is_err());
        // With no response in progress, hyper detects the end.
        drop(busy);
        stream.flush().await.expect("the flush succeeds");
    }

    #[tokio::test]
    async fn leaves_bytes_to_a_pending_read() {
        let (mut peer, stream) = tokio::io::duplex(64);
        let activity = ConnectionActivity::new();
        let mut stream = ReadAheadStream::new(stream, Arc::clone(&activity));
        let _busy = activity.begin_request();
        let mut buffer = [0; 8];
        assert!(poll!(pin!(stream.read(&mut buffer))).is_pending());
        peer.write_all(b"bytes").await.expect("room");
        stream.flush().await.expect("the peer is there");
        assert!(stream.buffered.is_empty());
    }
}
