//! A bounded pipe from a run to its client, with one writer and one reader.
//!
//! Everything written since the last read is sent as one body frame; aborting discards it. At capacity the run waits,
//! and so does the agent.
//!
//! A write of more than [`LARGE_WRITE`] ends only when its client has it, so that the run counts as waiting (see
//! `slow_clients`) for as long as the bytes are in memory.
//!
//! A client that stops reading is disconnected: over HTTP/1 by its connection (see `write_timeout`), over HTTP/2 by the
//! pipe, since such a client may still answer PING and SETTINGS.

use super::slow_clients::SlowClients;
use crate::prefetch::prefetch;
use crate::replay::ReplayKey;
use crate::sync::{Mutex, MutexGuard};
use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Maximum time that a client may leave waiting bytes unread, as in nginx (`send_timeout`). Then its connection or
/// stream is closed, and its runs end as after a disconnect.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of bytes per read over HTTP/2, so that progress is visible on a slow connection. This is also the
/// default maximum frame size [RFC 9113 §4.2].
const H2_CHUNK_LIMIT: usize = 16 << 10;

/// Size of a write that waits until it is sent: more than an ordinary batch of events.
const LARGE_WRITE: usize = 64 << 10;

/// Unread bytes of a run that has ended, above which its client counts as slow.
pub(super) const LARGE_REMAINDER: usize = 8 << 10;

pub(super) struct PipeWriter(Arc<PipeShared>);

/// The response body. Holds the pipe's resource until dropped.
pub(super) struct PipeReader(Arc<PipeShared>);

/// The run was aborted. The error makes HTTP/1 close the connection before the last chunk, and HTTP/2 reset the stream,
/// so that the body does not appear complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was cut off")]
pub(crate) struct BodyAborted;

/// The client has disconnected or timed out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PipeClosed;

// In this order in memory: what every event touches comes first.
#[repr(C)]
struct PipeShared {
    capacity: usize,
    state: Mutex<PipeState>,
}

// In this order in memory: what every event touches comes first.
#[repr(C)]
struct PipeState {
    bytes: Vec<u8>,
    /// the piece that the connection is sending
    sending: usize,
    /// whether the last write was large, and is not sent yet
    is_large: bool,
    /// the connection executes the run, and takes what it has written right afterwards
    is_relayed: bool,
    /// whether the response has begun with data
    is_sending: bool,
    end: PipeEnd,
    reader_state: PipeReaderState,
    write_waker: Option<Waker>,
    read_waker: Option<Waker>,
    /// what is left of a write that is sent in pieces
    partial: Bytes,
    close_waker: Option<Waker>,
    /// when unread bytes were first detected since the last read
    stalled_since: Option<Instant>,
    resource: Option<Box<dyn Send>>,
    /// wakes a connection that is sending, to abort it
    send_waker: Option<Waker>,
}

#[derive(Debug, PartialEq, Eq)]
enum PipeEnd {
    Open,
    Finished,
    /// no terminal event was written; unread bytes are dropped
    Aborted,
    Closed,
}

/// The state of the reader. It determines which layer detects that a client has stopped reading.
#[derive(Debug, PartialEq, Eq)]
enum PipeReaderState {
    /// no client has attached yet
    Pending,
    /// no client attached in time
    Abandoned,
    /// attached; the connection detects it
    Http1,
    /// attached; the pipe detects it
    Http2,
}

/// Creates a pipe whose `capacity` may be exceeded by one write.
pub(super) fn pipe(capacity: usize, resource: impl Send + 'static) -> (PipeWriter, PipeReader) {
    let state = PipeState {
        bytes: Vec::new(),
        partial: Bytes::new(),
        sending: 0,
        is_large: false,
        end: PipeEnd::Open,
        reader_state: PipeReaderState::Pending,
        stalled_since: None,
        resource: Some(Box::new(resource)),
        write_waker: None,
        close_waker: None,
        read_waker: None,
        send_waker: None,
        is_sending: false,
        is_relayed: false,
    };
    let shared = Arc::new(PipeShared { state: Mutex::new(state), capacity });
    (PipeWriter(Arc::clone(&shared)), PipeReader(shared))
}

impl PipeShared {
    fn is_closed(&self) -> bool {
        self.state.lock().end == PipeEnd::Closed
    }

    /// Discards all bytes and makes later writes fail.
    fn close(&self) {
        let mut state = self.state.lock();
        state.end = PipeEnd::Closed;
        state.bytes = Vec::new();
        state.partial = Bytes::new();
        let resource = state.resource.take();
        let wakers =
            [state.write_waker.take(), state.close_waker.take(), state.read_waker.take(), state.send_waker.take()];
        // Dropping the resource may wake other tasks.
        drop(state);
        drop(resource);
        wakers.into_iter().for_each(wake);
    }
}

impl PipeState {
    fn backlog(&self) -> usize {
        // Only HTTP/2 leaves a part, and it lies apart from what other events touch.
        let partial = if self.reader_state == PipeReaderState::Http2 { self.partial.len() } else { 0 };
        self.bytes.len() + partial
    }

    /// Returns whether a large write is not sent yet.
    fn has_large_backlog(&mut self) -> bool {
        self.is_large = self.is_large && self.backlog() + self.sending > LARGE_WRITE;
        self.is_large
    }

    /// Moves `bytes` to the end. A buffer that stays here holds no more than its bytes.
    fn append(&mut self, bytes: &mut Vec<u8>) {
        if !self.bytes.is_empty() {
            self.bytes.append(bytes);
        } else if (self.is_relayed && self.sending == 0) || bytes.capacity() <= 2 * bytes.len() {
            std::mem::swap(&mut self.bytes, bytes);
        } else {
            self.bytes = bytes.as_slice().into();
            bytes.clear();
        }
    }

    fn take_chunk(&mut self) -> Option<Bytes> {
        let most = if self.reader_state == PipeReaderState::Http2 { H2_CHUNK_LIMIT } else { usize::MAX };
        let piece = if self.partial.is_empty() {
            let bytes: Bytes = match self.bytes.len() {
                0 => return None,
                _ => std::mem::take(&mut self.bytes).into(),
            };
            if bytes.len() <= most { bytes } else { self.split_partial(bytes, most) }
        } else {
            let bytes = std::mem::take(&mut self.partial);
            self.split_partial(bytes, most)
        };
        let length = piece.len();
        self.sending = length;
        // The last check may have preceded this read, and the next one may follow the deadline.
        if self.stalled_since.take().is_some() {
            let _ = self.stall_deadline();
        }
        Some(piece)
    }

    /// Returns a copy of the next piece, since the connection may keep it for longer than the run keeps the rest.
    fn split_partial(&mut self, mut bytes: Bytes, most: usize) -> Bytes {
        let was_large = bytes.len() > LARGE_WRITE;
        let piece = bytes.split_to(bytes.len().min(most));
        let is_large = bytes.len() > LARGE_WRITE;
        // Without a copy, a small rest would hold the memory of the whole write.
        self.partial = if was_large && !is_large { Bytes::copy_from_slice(&bytes) } else { bytes };
        Bytes::copy_from_slice(&piece)
    }

    /// Returns when a stalled client times out. The timeout starts at the first call, which keeps writing cheap.
    fn stall_deadline(&mut self) -> Option<Instant> {
        // hyper polls for the end, too, only while the window is open.
        let waits = self.backlog() > 0 || matches!(self.end, PipeEnd::Finished | PipeEnd::Aborted);
        if !waits || self.reader_state != PipeReaderState::Http2 {
            return None;
        }
        Some(*self.stalled_since.get_or_insert_with(Instant::now) + SEND_TIMEOUT)
    }
}

impl PipeWriter {
    /// Writes and clears `bytes`, waiting while at capacity.
    pub(super) async fn write(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        std::future::poll_fn(|cx| self.poll_write(bytes, cx)).await
    }

    /// Writes and clears the last bytes regardless of the capacity.
    pub(super) fn push(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Closed {
            return Err(PipeClosed);
        }
        state.append(bytes);
        wake_reader(state);
        Ok(())
    }

    /// Ends the body with an error immediately.
    pub(super) fn abort(&self) {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Open {
            state.end = PipeEnd::Aborted;
            state.bytes = Vec::new();
            state.partial = Bytes::new();
        }
        wake_reader(state);
    }

    fn poll_write(&self, bytes: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<Result<(), PipeClosed>> {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Closed {
            return Poll::Ready(Err(PipeClosed));
        }
        if state.has_large_backlog() {
            state.write_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.backlog() >= self.0.capacity {
            state.write_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.is_large = bytes.len() > LARGE_WRITE;
        state.append(bytes);
        let is_large = state.is_large;
        if is_large {
            state.write_waker = Some(cx.waker().clone());
        }
        wake_reader(state);
        if is_large { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    pub(super) async fn wait_closed(&self) {
        std::future::poll_fn(|cx| self.poll_closed(cx)).await;
    }

    pub(super) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Closed {
            return Poll::Ready(());
        }
        state.close_waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Disconnects a client that has read none of the waiting bytes for [`SEND_TIMEOUT`].
    pub(super) fn drop_stalled(&self) -> Result<(), PipeClosed> {
        let deadline = self.0.state.lock().stall_deadline();
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.0.close();
            return Err(PipeClosed);
        }
        Ok(())
    }

    pub(super) async fn wait_stalled(&self) {
        while self.drop_stalled().is_ok() {
            let deadline = self.0.state.lock().stall_deadline();
            // A client that attaches in the meantime may also stall.
            let until = deadline.unwrap_or_else(|| Instant::now() + SEND_TIMEOUT);
            // Boxed: most streams never wait here.
            Box::pin(sleep_until(until)).await;
        }
    }

    /// Returns about the memory of what the client has not read.
    pub(super) fn unread_bytes(&self) -> usize {
        let state = self.0.state.lock();
        state.backlog() + state.sending
    }

    /// Disconnects the client immediately.
    pub(super) fn disconnect(&self) {
        self.0.close();
    }

    pub(super) fn is_unread(&self) -> bool {
        self.0.state.lock().reader_state == PipeReaderState::Abandoned
    }

    /// Ends the body, then waits until the client has read it, disconnected or timed out. Over HTTP/1, the connection
    /// does that, but a client that has much to read counts as slow.
    pub(super) async fn finish(self, slow_clients: &SlowClients, caller: ReplayKey) {
        self.end_body();
        let unread = self.unread_bytes();
        if unread > LARGE_REMAINDER {
            let waiting = slow_clients.wait(caller, unread);
            tokio::select! {
                () = self.wait_closed() => {}
                () = self.wait_stalled() => {}
                () = waiting.wait_cut_off() => self.disconnect(),
            }
        } else if self.0.state.lock().reader_state != PipeReaderState::Http1 {
            tokio::select! {
                () = self.wait_closed() => {}
                () = self.wait_stalled() => {}
            }
        }
    }

    fn end_body(&self) {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Open {
            state.end = PipeEnd::Finished;
        }
        wake_reader(state);
    }
}

/// Aborts the body if the run ended without calling `finish`.
impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.abort();
    }
}

impl PipeReader {
    pub(super) fn attach(&self, version: Version) {
        let multiplexed = version == Version::HTTP_2;
        let mut state = self.0.state.lock();
        state.reader_state = if multiplexed { PipeReaderState::Http2 } else { PipeReaderState::Http1 };
        // A short run has ended by now, and will not check again soon.
        let _ = state.stall_deadline();
    }

    pub(super) fn abandon(self) {
        self.0.state.lock().reader_state = PipeReaderState::Abandoned;
    }
}

/// The reader's end for the connection that executes the run.
pub(super) struct PipeRelay(Arc<PipeShared>);

/// The result of emptying a pipe.
pub(super) enum RelayedPiece {
    /// the run has written nothing since
    Nothing,
    /// empty only at the end of the body
    Bytes {
        bytes: Vec<u8>,
        is_last: bool,
    },
    Aborted,
}

impl PipeReader {
    pub(super) fn relay(&self) -> PipeRelay {
        PipeRelay(Arc::clone(&self.0))
    }
}

impl PipeRelay {
    pub(super) fn prefetch(&self) {
        prefetch(&*self.0);
    }

    /// From now on, each [`take_piece`](Self::take_piece) follows the execution of the run, which therefore wakes
    /// nobody.
    pub(super) fn begin(&self) {
        let mut state = self.0.state.lock();
        state.is_relayed = true;
        state.read_waker = None;
    }

    /// Returns what the run has written since the last piece, which was sent.
    pub(super) fn take_piece(&self) -> RelayedPiece {
        let mut state = self.0.state.lock();
        let bytes = std::mem::take(&mut state.bytes);
        state.sending = bytes.len();
        // The run continues after this piece, or after a large one that was sent.
        let writer = state.write_waker.take();
        let piece = match state.end {
            PipeEnd::Aborted | PipeEnd::Closed => RelayedPiece::Aborted,
            PipeEnd::Open if bytes.is_empty() => RelayedPiece::Nothing,
            PipeEnd::Open | PipeEnd::Finished => RelayedPiece::Bytes { bytes, is_last: state.end == PipeEnd::Finished },
        };
        drop(state);
        wake(writer);
        piece
    }

    /// Returns whether the run has disconnected its client.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Wakes the reader after releasing the lock.
fn wake_reader(mut state: MutexGuard<'_, PipeState>) {
    let waker = state.read_waker.take();
    drop(state);
    wake(waker);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Body for PipeReader {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let mut state = self.0.state.lock();
        // The connection asks for more when it has sent the last piece.
        state.sending = 0;
        if let Some(bytes) = state.take_chunk() {
            let writer = state.write_waker.take();
            state.is_sending = true;
            if !state.send_waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.send_waker = Some(cx.waker().clone());
            }
            drop(state);
            wake(writer);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match state.end {
            PipeEnd::Finished => return Poll::Ready(None),
            // A client that still polls has not left, so it timed out.
            PipeEnd::Aborted | PipeEnd::Closed => return Poll::Ready(Some(Err(BodyAborted))),
            PipeEnd::Open => {}
        }
        state.read_waker = Some(cx.waker().clone());
        let writer = if state.is_large { state.write_waker.take() } else { None };
        drop(state);
        wake(writer);
        Poll::Pending
    }

    /// Nothing follows in a body whose client was disconnected while its connection is sending, which may stop.
    fn size_hint(&self) -> SizeHint {
        let state = self.0.state.lock();
        if state.is_sending && state.end == PipeEnd::Closed { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod schedules;

#[cfg(test)]
mod tests;
