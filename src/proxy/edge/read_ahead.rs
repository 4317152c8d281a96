//! A connection of HTTP/1 that is listened to while nobody reads from it.
//!
//! hyper notices that a client has left by reading on while it answers. It does not where bytes of a further request
//! are waiting in its buffer: a client that sends several requests at once and leaves would hold its run, its agent and its
//! slot until something is written to it. Here, below hyper, what comes meanwhile is set aside, so that the end is found.

use super::activity::Activity;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are set aside. A client that sends more than this ahead of its answers is read again when they
/// have ended; that it left is noticed by the next write.
const MOST: usize = 32 << 10;

/// How much is read at once.
const PIECE: usize = 4 << 10;

/// A stream that tells `activity` what passes through it.
#[derive(Debug)]
pub(super) struct Attending<S> {
    stream: S,
    activity: Arc<Activity>,
    /// what was read while nobody asked, and how much of it was given since
    aside: Vec<u8>,
    given: usize,
    /// whether somebody waits for bytes, and so will hear of the end
    waited_for: bool,
}

impl<S> Attending<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Attending { stream, activity, aside: Vec::new(), given: 0, waited_for: false }
    }

    /// Puts bytes that were read back, to be read again.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        (self.aside, self.given) = ([bytes, &self.aside[self.given..]].concat(), 0);
    }
}

impl<S: AsyncRead + Unpin> Attending<S> {
    /// Sets aside what has come. Pending is good news: the peer is there, and its next byte or its end wakes the task.
    fn listen(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.aside.len() < MOST {
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(cx, &mut piece)? {
                Poll::Pending => break,
                // As hyper has it: who closes before the answer has come does not want it.
                Poll::Ready(()) if piece.filled().is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
                Poll::Ready(()) => self.aside.extend_from_slice(piece.filled()),
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Attending<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.given < this.aside.len() {
            let rest = &this.aside[this.given..];
            let give = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..give]);
            this.given += give;
            if this.given == this.aside.len() {
                (this.aside, this.given) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        this.waited_for = true;
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buf));
        this.waited_for = false;
        if buf.filled().len() > before {
            this.activity.heard();
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Attending<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.activity.taken();
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
            self.activity.taken();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes at the end of each of its turns, after it has read whatever it wants to: the place to listen for
    /// what it does not want.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.waited_for) && self.activity.is_busy() {
            self.listen(cx)?;
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
    async fn an_end_behind_bytes_that_nobody_reads_is_found_and_no_byte_is_lost() {
        let (mut peer, stream) = tokio::io::duplex(1 << 20);
        let activity = Activity::new();
        let mut stream = Attending::new(stream, Arc::clone(&activity));
        let busy = activity.enter();
        let sent: Vec<u8> = (0..10_000_u32).flat_map(u32::to_be_bytes).collect();
        peer.write_all(&sent[..100]).await.expect("room");
        stream.flush().await.expect("the peer is there");
        let mut all = vec![0; 50];
        stream.read_exact(&mut all).await.expect("bytes");
        peer.write_all(&sent[100..]).await.expect("room");
        stream.flush().await.expect("the peer is there");
        assert!(stream.aside.len() <= MOST + PIECE, "{}", stream.aside.len());
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
    async fn who_waits_for_bytes_gets_them_itself() {
        let (mut peer, stream) = tokio::io::duplex(64);
        let activity = Activity::new();
        let mut stream = Attending::new(stream, Arc::clone(&activity));
        let _busy = activity.enter();
        let mut buffer = [0; 8];
        assert!(poll!(pin!(stream.read(&mut buffer))).is_pending());
        peer.write_all(b"bytes").await.expect("room");
        stream.flush().await.expect("the peer is there");
        assert!(stream.aside.is_empty());
    }
}
