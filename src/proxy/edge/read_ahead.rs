//! A connection of HTTP/1 that is listened to while nobody reads from it.
//!
//! hyper notices that a client has left by reading on while it answers. It does not where bytes of a further request
//! are waiting in its buffer: a client that sends several requests at once and leaves would hold its run, its agent and its
//! slot until something is written to it. Here, below hyper, what comes meanwhile is set aside, so that the end is found.

use super::activity::ConnectionActivity;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are set aside. A client that sends more than this ahead of its answers is read again when they
/// have ended; that it left is noticed by the next write.
const READ_AHEAD_LIMIT: usize = 32 << 10;

/// How much is read at once.
const READ_SIZE: usize = 4 << 10;

/// A stream that tells `activity` what passes through it.
#[derive(Debug)]
pub(super) struct ReadAheadStream<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// what was read while nobody asked, and how much of it was given since
    buffered: Vec<u8>,
    consumed: usize,
    /// whether somebody waits for bytes, and so will hear of the end
    is_read_pending: bool,
}

impl<S> ReadAheadStream<S> {
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        ReadAheadStream { stream, activity, buffered: Vec::new(), consumed: 0, is_read_pending: false }
    }

    /// Puts bytes that were read back, to be read again.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        (self.buffered, self.consumed) = ([bytes, &self.buffered[self.consumed..]].concat(), 0);
    }
}

impl<S: AsyncRead + Unpin> ReadAheadStream<S> {
    /// Sets aside what has come. Pending is good news: the peer is there, and its next byte or its end wakes the task.
    fn read_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.buffered.len() < READ_AHEAD_LIMIT {
            let mut piece = [0; READ_SIZE];
            let mut piece = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(cx, &mut piece)? {
                Poll::Pending => break,
                // As hyper has it: who closes before the answer has come does not want it.
                Poll::Ready(()) if piece.filled().is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
                Poll::Ready(()) => self.buffered.extend_from_slice(piece.filled()),
            }
        }
        Ok(())
    }
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
                (this.buffered, this.consumed) = (Vec::new(), 0);
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

    /// hyper flushes at the end of each of its turns, after it has read whatever it wants to: the place to listen for
    /// what it does not want.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.is_read_pending) && self.activity.is_busy() {
            self.read_ahead(cx)?;
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
        // Where no answer is under way the end is found by whoever reads.
        drop(busy);
        stream.flush().await.expect("nobody is left alone");
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
