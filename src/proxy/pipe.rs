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
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::time::{Instant, sleep_until};

/// Most bytes that a reader over HTTP/2 takes at once, so that it is seen to take something while a large event is on a
/// slow line. A frame carries no more by default [RFC 9113 §4.2].
const PIECE: usize = 16 << 10;

/// The run's end.
#[derive(Debug)]
pub(super) struct Writer<T>(Arc<Shared<T>>);

/// The client's end: the body of the response. What the pipe was given to hold lives as long as the client takes part.
#[derive(Debug)]
pub(super) struct Reader<T>(Arc<Shared<T>>);

/// The run was cut off: its body has no proper end, so that nobody takes what came of it for the whole. HTTP/1 says so by a
/// connection that closes before the last chunk, HTTP/2 by a reset of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff;

impl std::fmt::Display for CutOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the run was cut off")
    }
}

impl std::error::Error for CutOff {}

/// The client has left, or was given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    capacity: usize,
}

#[derive(Debug)]
struct State<T> {
    bytes: Vec<u8>,
    /// what was begun to be taken, before `bytes`
    leaving: Bytes,
    end: End,
    client: Client,
    /// when something was first seen to wait for the client, since it last took anything
    waits: Option<Instant>,
    held: Option<T>,
    /// a write that was refused
    room: Option<Waker>,
    /// a run that waits for the client's leaving
    gone: Option<Waker>,
    /// a client that waits for bytes
    reader: Option<Waker>,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Open,
    Finished,
    /// without a last word; what was not read by then is dropped
    Cut,
    Gone,
}

/// Who is to see that the client takes something.
#[derive(Debug, PartialEq, Eq)]
enum Client {
    /// nobody: it has not come yet
    Awaited,
    /// nobody: it did not come in time, and will not
    Missing,
    /// its connection
    Connected,
    /// the pipe
    Multiplexed,
}

/// A pipe that holds at most `capacity` bytes, and one write more.
pub(super) fn pipe<T>(capacity: usize, held: T) -> (Writer<T>, Reader<T>) {
    let state = State {
        bytes: Vec::new(),
        leaving: Bytes::new(),
        end: End::Open,
        client: Client::Awaited,
        waits: None,
        held: Some(held),
        room: None,
        gone: None,
        reader: None,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), capacity });
    (Writer(Arc::clone(&shared)), Reader(shared))
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of everything; what is written from now on is for nobody.
    fn leave(&self) {
        let mut state = self.state();
        state.end = End::Gone;
        (state.bytes, state.leaving) = (Vec::new(), Bytes::new());
        let held = state.held.take();
        let wakers = [state.room.take(), state.gone.take(), state.reader.take()];
        // What is held may wake others when it is dropped.
        drop(state);
        drop(held);
        wakers.into_iter().for_each(wake);
    }
}

impl<T> State<T> {
    fn backlog(&self) -> usize {
        self.bytes.len() + self.leaving.len()
    }

    /// What leaves next.
    fn take(&mut self) -> Option<Bytes> {
        if self.leaving.is_empty() {
            if self.bytes.is_empty() {
                return None;
            }
            self.leaving = std::mem::take(&mut self.bytes).into();
        }
        let most = if self.client == Client::Multiplexed { PIECE } else { usize::MAX };
        let length = self.leaving.len().min(most);
        let piece = self.leaving.split_to(length);
        // Whoever looked before may not look again until the time is over.
        if self.waits.take().is_some() {
            let _ = self.patience();
        }
        Some(piece)
    }

    /// Until when the client has to take something. Only whoever asks starts the clock, so that an event costs nothing.
    fn patience(&mut self) -> Option<Instant> {
        // hyper asks for the end as well only when the window is open.
        let waits = self.backlog() > 0 || matches!(self.end, End::Finished | End::Cut);
        if !waits || self.client != Client::Multiplexed {
            return None;
        }
        Some(*self.waits.get_or_insert_with(Instant::now) + SEND_TIMEOUT)
    }
}

impl<T> Writer<T> {
    /// Hands all of `bytes` over and leaves it empty; waits while the backlog is at the bound.
    pub(super) async fn write(&self, bytes: &mut Vec<u8>) -> Result<(), Gone> {
        std::future::poll_fn(|cx| self.poll_write(bytes, cx)).await
    }

    /// Hands the last words over whatever the backlog is, and leaves `bytes` empty: there will be no time to wait.
    pub(super) fn push(&self, bytes: &mut Vec<u8>) -> Result<(), Gone> {
        let mut state = self.0.state();
        if state.end == End::Gone {
            return Err(Gone);
        }
        state.bytes.append(bytes);
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Ok(())
    }

    /// Ends the body with an error, at once.
    pub(super) fn cut(&self) {
        let mut state = self.0.state();
        if state.end == End::Open {
            (state.end, state.bytes, state.leaving) = (End::Cut, Vec::new(), Bytes::new());
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }

    fn poll_write(&self, bytes: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut state = self.0.state();
        if state.end == End::Gone {
            return Poll::Ready(Err(Gone));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.backlog() >= self.0.capacity {
            state.room = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if state.bytes.is_empty() {
            std::mem::swap(&mut state.bytes, bytes);
        } else {
            state.bytes.append(bytes);
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
        Poll::Ready(Ok(()))
    }

    /// Waits until the client has left.
    pub(super) async fn gone(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.state();
            if state.end == End::Gone {
                return Poll::Ready(());
            }
            state.gone = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Gives up a client that has taken nothing for [`SEND_TIMEOUT`] while something waited for it. Its body ends with an
    /// error if it is ever asked for again, and what was held for it is let go now.
    pub(super) fn check(&self) -> Result<(), Gone> {
        let patience = self.0.state().patience();
        if patience.is_some_and(|until| Instant::now() >= until) {
            self.0.leave();
            return Err(Gone);
        }
        Ok(())
    }

    /// Waits until the client is given up.
    pub(super) async fn stalled(&self) {
        while self.check().is_ok() {
            let patience = self.0.state().patience();
            // A client that is awaited yet may come meanwhile, and take nothing.
            let until = patience.unwrap_or_else(|| Instant::now() + SEND_TIMEOUT);
            // Boxed, because streams are many and those that wait are few.
            Box::pin(sleep_until(until)).await;
        }
    }

    /// Whether there is no client because none came in time.
    pub(super) fn is_unread(&self) -> bool {
        self.0.state().client == Client::Missing
    }

    /// Ends the body, and stays until the client has taken all of it, has left, or is given up.
    pub(super) async fn finish(self) {
        self.end();
        if self.0.state().client != Client::Connected {
            tokio::select! {
                () = self.gone() => {}
                () = self.stalled() => {}
            }
        }
    }

    fn end(&self) {
        let mut state = self.0.state();
        if state.end == End::Open {
            state.end = End::Finished;
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}

/// A run that ends its body does so before; one that is dropped without was torn down, and what came of it is not the whole.
impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.cut();
    }
}

impl<T> Reader<T> {
    /// The client has come, over HTTP of this version.
    pub(super) fn attach(&self, version: Version) {
        let multiplexed = version == Version::HTTP_2;
        let mut state = self.0.state();
        state.client = if multiplexed { Client::Multiplexed } else { Client::Connected };
        // A short run has ended by now, and will not look again soon.
        let _ = state.patience();
    }

    /// Nobody has come, and nobody is waited for any longer.
    pub(super) fn give_up(self) {
        self.0.state().client = Client::Missing;
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> Body for Reader<T> {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let mut state = self.0.state();
        if let Some(bytes) = state.take() {
            let room = state.room.take();
            drop(state);
            wake(room);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match state.end {
            End::Finished => return Poll::Ready(None),
            // Who asks has not left, so it was given up.
            End::Cut | End::Gone => return Poll::Ready(Some(Err(CutOff))),
            End::Open => {}
        }
        state.reader = Some(cx.waker().clone());
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
