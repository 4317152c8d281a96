//! The pipe between a run and its client: bounded bytes, one writer, one reader.
//!
//! Whatever the run wrote since the client last took something leaves as one body frame, so that events which came
//! together leave together; a run that is cut off takes it back. The bound is the client's whole backlog; the run waits at it, and with the run the agent.
//!
//! A client that takes nothing is given up. Over HTTP/1 its connection says so (see `sending`); over HTTP/2 one that lets
//! its window of a stream stay at zero takes PING and SETTINGS all the same, so there the pipe has to look.

use super::edge::SEND_TIMEOUT;
use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::{Instant, sleep_until};

/// Most bytes that a reader over HTTP/2 takes at once, so that it is seen to take something while a large event is on a
/// slow line. A frame carries no more by default [RFC 9113 §4.2].
const H2_CHUNK_LIMIT: usize = 16 << 10;

/// The run's end.
#[derive(Debug)]
pub(super) struct PipeWriter<T>(Arc<PipeShared<T>>);

/// The client's end: the body of the response. What the pipe was given to hold lives as long as the client takes part.
#[derive(Debug)]
pub(super) struct PipeReader<T>(Arc<PipeShared<T>>);

/// The run was cut off: its body has no proper end, so that nobody takes what came of it for the whole. HTTP/1 says so by a
/// connection that closes before the last chunk, HTTP/2 by a reset of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyAborted;

impl std::fmt::Display for BodyAborted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the run was cut off")
    }
}

impl std::error::Error for BodyAborted {}

/// The client has left, or was given up.
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
    /// what was begun to be taken, before `bytes`
    partial: Bytes,
    end: PipeEnd,
    reader_state: PipeReaderState,
    /// when something was first seen to wait for the client, since it last took anything
    stalled_since: Option<Instant>,
    resource: Option<T>,
    /// a write that was refused
    write_waker: Option<Waker>,
    /// a run that waits for the client's leaving
    close_waker: Option<Waker>,
    /// a client that waits for bytes
    read_waker: Option<Waker>,
}

#[derive(Debug, PartialEq, Eq)]
enum PipeEnd {
    Open,
    Finished,
    /// without a last word; what was not read by then is dropped
    Aborted,
    Closed,
}

/// Who is to see that the client takes something.
#[derive(Debug, PartialEq, Eq)]
enum PipeReaderState {
    /// nobody: it has not come yet
    Pending,
    /// nobody: it did not come in time, and will not
    Abandoned,
    /// its connection
    Http1,
    /// the pipe
    Http2,
}

/// A pipe that holds at most `capacity` bytes, and one write more.
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
    fn state(&self) -> MutexGuard<'_, PipeState<T>> {
        self.state.lock()
    }

    /// Lets go of everything; what is written from now on is for nobody.
    fn close(&self) {
        let mut state = self.state();
        state.end = PipeEnd::Closed;
        (state.bytes, state.partial) = (Vec::new(), Bytes::new());
        let held = state.resource.take();
        let wakers = [state.write_waker.take(), state.close_waker.take(), state.read_waker.take()];
        // What is held may wake others when it is dropped.
        drop(state);
        drop(held);
        wakers.into_iter().for_each(wake);
    }
}

impl<T> PipeState<T> {
    fn backlog(&self) -> usize {
        self.bytes.len() + self.partial.len()
    }

    /// What leaves next.
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
        // Whoever looked before may not look again until the time is over.
        if self.stalled_since.take().is_some() {
            let _ = self.stall_deadline();
        }
        Some(piece)
    }

    /// Until when the client has to take something. Only whoever asks starts the clock, so that an event costs nothing.
    fn stall_deadline(&mut self) -> Option<Instant> {
        // hyper asks for the end as well only when the window is open.
        let waits = self.backlog() > 0 || matches!(self.end, PipeEnd::Finished | PipeEnd::Aborted);
        if !waits || self.reader_state != PipeReaderState::Http2 {
            return None;
        }
        Some(*self.stalled_since.get_or_insert_with(Instant::now) + SEND_TIMEOUT)
    }
}

impl<T> PipeWriter<T> {
    /// Hands all of `bytes` over and leaves it empty; waits while the backlog is at the bound.
    pub(super) async fn write(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        std::future::poll_fn(|cx| self.poll_write(bytes, cx)).await
    }

    /// Hands the last words over whatever the backlog is, and leaves `bytes` empty: there will be no time to wait.
    pub(super) fn push(&self, bytes: &mut Vec<u8>) -> Result<(), PipeClosed> {
        let mut state = self.0.state();
        if state.end == PipeEnd::Closed {
            return Err(PipeClosed);
        }
        state.bytes.append(bytes);
        let reader = state.read_waker.take();
        drop(state);
        wake(reader);
        Ok(())
    }

    /// Ends the body with an error, at once.
    pub(super) fn abort(&self) {
        let mut state = self.0.state();
        if state.end == PipeEnd::Open {
            (state.end, state.bytes, state.partial) = (PipeEnd::Aborted, Vec::new(), Bytes::new());
        }
        let reader = state.read_waker.take();
        drop(state);
        wake(reader);
    }

    fn poll_write(&self, bytes: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<Result<(), PipeClosed>> {
        let mut state = self.0.state();
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
        let reader = state.read_waker.take();
        drop(state);
        wake(reader);
        Poll::Ready(Ok(()))
    }

    /// Waits until the client has left.
    pub(super) async fn wait_closed(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.state();
            if state.end == PipeEnd::Closed {
                return Poll::Ready(());
            }
            state.close_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Gives up a client that has taken nothing for [`SEND_TIMEOUT`] while something waited for it. Its body ends with an
    /// error if it is ever asked for again, and what was held for it is let go now.
    pub(super) fn drop_stalled(&self) -> Result<(), PipeClosed> {
        let patience = self.0.state().stall_deadline();
        if patience.is_some_and(|until| Instant::now() >= until) {
            self.0.close();
            return Err(PipeClosed);
        }
        Ok(())
    }

    /// Waits until the client is given up.
    pub(super) async fn wait_stalled(&self) {
        while self.drop_stalled().is_ok() {
            let patience = self.0.state().stall_deadline();
            // A client that is awaited yet may come meanwhile, and take nothing.
            let until = patience.unwrap_or_else(|| Instant::now() + SEND_TIMEOUT);
            // Boxed, because streams are many and those that wait are few.
            Box::pin(sleep_until(until)).await;
        }
    }

    /// Whether there is no client because none came in time.
    pub(super) fn is_unread(&self) -> bool {
        self.0.state().reader_state == PipeReaderState::Abandoned
    }

    /// Ends the body, and stays until the client has taken all of it, has left, or is given up.
    pub(super) async fn finish(self) {
        self.end_body();
        if self.0.state().reader_state != PipeReaderState::Http1 {
            tokio::select! {
                () = self.wait_closed() => {}
                () = self.wait_stalled() => {}
            }
        }
    }

    fn end_body(&self) {
        let mut state = self.0.state();
        if state.end == PipeEnd::Open {
            state.end = PipeEnd::Finished;
        }
        let reader = state.read_waker.take();
        drop(state);
        wake(reader);
    }
}

/// A run that ends its body does so before; one that is dropped without was torn down, and what came of it is not the whole.
impl<T> Drop for PipeWriter<T> {
    fn drop(&mut self) {
        self.abort();
    }
}

impl<T> PipeReader<T> {
    /// The client has come, over HTTP of this version.
    pub(super) fn attach(&self, version: Version) {
        let multiplexed = version == Version::HTTP_2;
        let mut state = self.0.state();
        state.reader_state = if multiplexed { PipeReaderState::Http2 } else { PipeReaderState::Http1 };
        // A short run has ended by now, and will not look again soon.
        let _ = state.stall_deadline();
    }

    /// Nobody has come, and nobody is waited for any longer.
    pub(super) fn abandon(self) {
        self.0.state().reader_state = PipeReaderState::Abandoned;
    }
}

impl<T> Drop for PipeReader<T> {
    fn drop(&mut self) {
        self.0.close();
    }
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
        let mut state = self.0.state();
        if let Some(bytes) = state.take_chunk() {
            let room = state.write_waker.take();
            drop(state);
            wake(room);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match state.end {
            PipeEnd::Finished => return Poll::Ready(None),
            // Who asks has not left, so it was given up.
            PipeEnd::Aborted | PipeEnd::Closed => return Poll::Ready(Some(Err(BodyAborted))),
            PipeEnd::Open => {}
        }
        state.read_waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests;
