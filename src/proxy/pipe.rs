//! A bounded pipe between a run and its client, with one writer and one reader.
//!
//! Everything written since the last read leaves as one body frame, so that events that came together leave together;
//! aborting discards it. The capacity is the client's whole backlog: at that point the run waits, and with it the
//! agent.
//!
//! A client that reads nothing is disconnected. Over HTTP/1 its connection notices (see `write_timeout`); over HTTP/2 a
//! client whose stream window stays at zero still answers PING and SETTINGS, so there the pipe checks.

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame};
use parking_lot::{Mutex, MutexGuard};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Longest time that a client may read nothing while bytes wait for it. Then its connection is closed (over HTTP/2
/// perhaps one stream is reset), its runs end as after a disconnect, and their agents are released. The default of
/// nginx's `send_timeout`.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes that an HTTP/2 reader takes at once, so that it makes visible progress with a large event on a slow line.
/// A frame carries no more by default [RFC 9113 §4.2].
const H2_CHUNK_LIMIT: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct PipeWriter<T>(Arc<PipeShared<T>>);

/// The client's end: the body of the response. The pipe's resource is held until this is dropped.
#[derive(Debug)]
pub(super) struct PipeReader<T>(Arc<PipeShared<T>>);

/// The run was aborted: its body has no proper end, so that it is not mistaken for complete. HTTP/1 closes the
/// connection before the last chunk, HTTP/2 resets the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run was cut off")]
pub(crate) struct BodyAborted;

/// The client has disconnected or timed out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PipeClosed;

#[derive(Debug)]
struct PipeShared<T> {
    state: Mutex<PipeState<T>>,
    capacity: usize,
}

#[derive(Debug)]
struct PipeState<T> {
    bytes: Vec<u8>,
    /// what remains of a chunk that was split, before `bytes`
    partial: Bytes,
    end: PipeEnd,
    reader_state: PipeReaderState,
    /// when unread bytes were first noticed since the last read
    stalled_since: Option<Instant>,
    resource: Option<T>,
    /// a write at capacity
    write_waker: Option<Waker>,
    /// a run that waits for the client to disconnect
    close_waker: Option<Waker>,
    /// a client that waits for bytes
    read_waker: Option<Waker>,
}

#[derive(Debug, PartialEq, Eq)]
enum PipeEnd {
    Open,
    Finished,
    /// without a terminal event; unread bytes are dropped
    Aborted,
    Closed,
}

/// Decides where a stalled client is noticed.
#[derive(Debug, PartialEq, Eq)]
enum PipeReaderState {
    /// nowhere: it has not attached yet
    Pending,
    /// nowhere: it did not attach in time
    Abandoned,
    /// in its connection
    Http1,
    /// in the pipe
    Http2,
}

/// Creates a pipe of `capacity` bytes, and one write more.
pub(super) fn pipe<T>(capacity: usize, resource: T) -> (PipeWriter<T>, PipeReader<T>) {
    let state = PipeState {
        bytes: Vec::new(),
        partial: Bytes::new(),
        end: PipeEnd::Open,
        reader_state: PipeReaderState::Pending,
        stalled_since: None,
        resource: Some(resource),
        write_waker: None,
        close_waker: None,
        read_waker: None,
    };
    let shared = Arc::new(PipeShared { state: Mutex::new(state), capacity });
    (PipeWriter(Arc::clone(&shared)), PipeReader(shared))
}

impl<T> PipeShared<T> {
    /// Discards everything; later writes fail.
    fn close(&self) {
        let mut state = self.state.lock();
        state.end = PipeEnd::Closed;
        state.bytes = Vec::new();
        state.partial = Bytes::new();
        let resource = state.resource.take();
        let wakers = [state.write_waker.take(), state.close_waker.take(), state.read_waker.take()];
        // Dropping the resource may wake other tasks.
        drop(state);
        drop(resource);
        wakers.into_iter().for_each(wake);
    }
}

impl<T> PipeState<T> {
    fn backlog(&self) -> usize {
        self.bytes.len() + self.partial.len()
    }

    fn take_chunk(&mut self) -> Option<Bytes> {
        if self.partial.is_empty() {
            if self.bytes.is_empty() {
                return None;
            }
            self.partial = std::mem::take(&mut self.bytes).into();
        }
        let most = if self.reader_state == PipeReaderState::Http2 { H2_CHUNK_LIMIT } else { usize::MAX };
        let length = self.partial.len().min(most);
        let piece = self.partial.split_to(length);
        // The last check may have been before this read, with the next one after the deadline.
        if self.stalled_since.take().is_some() {
            let _ = self.stall_deadline();
        }
        Some(piece)
    }

    /// Returns when a stalled client times out. Only a call starts the clock, so that an event costs nothing.
    fn stall_deadline(&mut self) -> Option<Instant> {
        // hyper polls for the end, too, only while the window is open.
        let waits = self.backlog() > 0 || matches!(self.end, PipeEnd::Finished | PipeEnd::Aborted);
        if !waits || self.reader_state != PipeReaderState::Http2 {
            return None;
        }
        Some(*self.stalled_since.get_or_insert_with(Instant::now) + SEND_TIMEOUT)
    }
}

impl<T> PipeWriter<T> {
    /// Writes all of `bytes` and leaves it empty; waits while the backlog is at capacity.
    pub(super) async fn write(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        std::future::poll_fn(|cx| self.poll_write(bytes, cx)).await
    }

    /// Writes the last bytes whatever the backlog, and leaves `bytes` empty: there is no time to wait.
    pub(super) fn push(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        let mut state = self.0.state.lock();
        if state.end == PipeEnd::Closed {
            return Err(PipeClosed);
        }
        state.bytes.append(bytes);
        wake_reader(state);
        Ok(())
    }

    /// Ends the body with an error, at once.
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
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.backlog() >= self.0.capacity {
            state.write_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if state.bytes.is_empty() {
            std::mem::swap(&mut state.bytes, bytes);
        } else {
            state.bytes.append(bytes);
        }
        wake_reader(state);
        Poll::Ready(Ok(()))
    }

    /// Waits until the client has disconnected.
    pub(super) async fn wait_closed(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.state.lock();
            if state.end == PipeEnd::Closed {
                return Poll::Ready(());
            }
            state.close_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Disconnects a client that has read nothing for [`SEND_TIMEOUT`] while bytes waited for it. Its body ends with an
    /// error if it is polled again, and its resource is released now.
    pub(super) fn drop_stalled(&self) -> Result<(), PipeClosed> {
        let deadline = self.0.state.lock().stall_deadline();
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.0.close();
            return Err(PipeClosed);
        }
        Ok(())
    }

    /// Waits until a stalled client times out.
    pub(super) async fn wait_stalled(&self) {
        while self.drop_stalled().is_ok() {
            let deadline = self.0.state.lock().stall_deadline();
            // A client that attaches meanwhile may stall, too.
            let until = deadline.unwrap_or_else(|| Instant::now() + SEND_TIMEOUT);
            // Boxed: most streams never wait here.
            Box::pin(sleep_until(until)).await;
        }
    }

    /// Returns whether no client attached in time.
    pub(super) fn is_unread(&self) -> bool {
        self.0.state.lock().reader_state == PipeReaderState::Abandoned
    }

    /// Ends the body, and waits until the client has read it, has disconnected or timed out.
    pub(super) async fn finish(self) {
        self.end_body();
        if self.0.state.lock().reader_state != PipeReaderState::Http1 {
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

/// A writer that is dropped without `finish` was torn down, and its body is incomplete.
impl<T> Drop for PipeWriter<T> {
    fn drop(&mut self) {
        self.abort();
    }
}

impl<T> PipeReader<T> {
    pub(super) fn attach(&self, version: Version) {
        let multiplexed = version == Version::HTTP_2;
        let mut state = self.0.state.lock();
        state.reader_state = if multiplexed { PipeReaderState::Http2 } else { PipeReaderState::Http1 };
        // A short run has ended by now, and does not check again soon.
        let _ = state.stall_deadline();
    }

    /// Gives up waiting for a client.
    pub(super) fn abandon(self) {
        self.0.state.lock().reader_state = PipeReaderState::Abandoned;
    }
}

impl<T> Drop for PipeReader<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Wakes the reader outside the lock.
fn wake_reader<T>(mut state: MutexGuard<'_, PipeState<T>>) {
    let waker = state.read_waker.take();
    drop(state);
    wake(waker);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> Body for PipeReader<T> {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let mut state = self.0.state.lock();
        if let Some(bytes) = state.take_chunk() {
            let writer = state.write_waker.take();
            drop(state);
            wake(writer);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match state.end {
            PipeEnd::Finished => return Poll::Ready(None),
            // A client that polls has not left, so it timed out.
            PipeEnd::Aborted | PipeEnd::Closed => return Poll::Ready(Some(Err(BodyAborted))),
            PipeEnd::Open => {}
        }
        state.read_waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
