//! The pipe between a run and its client: bounded bytes, one writer, one reader.
//!
//! Whatever the run wrote since the client last took something leaves as one body frame, so that events which came
//! together leave together; a run that is cut off takes it back. The bound is the client's whole backlog; the run waits at it, and with the run the agent.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The run's end.
#[derive(Debug)]
pub(super) struct Writer(Arc<Shared>);

/// The client's end: the body of the response. `held` lives as long as the client takes part.
#[derive(Debug)]
pub(super) struct Reader<T> {
    shared: Arc<Shared>,
    _held: T,
}

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

/// The client has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    end: End,
    /// a write that was refused
    room: Option<Waker>,
    /// a run that waits for the client's leaving
    gone: Option<Waker>,
    /// a client that waits for bytes
    reader: Option<Waker>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Finished,
    /// without a last word; what was not read by then is dropped
    Cut,
    Gone,
}

/// A pipe that holds at most `capacity` bytes, and one write more.
pub(super) fn pipe<T>(capacity: usize, held: T) -> (Writer, Reader<T>) {
    let shared = Arc::new(Shared { state: Mutex::default(), capacity });
    (Writer(Arc::clone(&shared)), Reader { shared, _held: held })
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
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
            (state.end, state.bytes) = (End::Cut, Vec::new());
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
        if state.bytes.len() >= self.0.capacity {
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
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.end == End::Open {
            state.end = End::Finished;
        }
        let reader = state.reader.take();
        drop(state);
        wake(reader);
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.end = End::Gone;
        state.bytes = Vec::new();
        let (room, gone) = (state.room.take(), state.gone.take());
        drop(state);
        wake(room);
        wake(gone);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T: Unpin> Body for Reader<T> {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let mut state = self.shared.state();
        if !state.bytes.is_empty() {
            let bytes = std::mem::take(&mut state.bytes);
            let room = state.room.take();
            drop(state);
            wake(room);
            return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        }
        match state.end {
            End::Finished => return Poll::Ready(None),
            End::Cut => return Poll::Ready(Some(Err(CutOff))),
            End::Open | End::Gone => {}
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
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    async fn next(reader: &mut Reader<()>) -> Option<Bytes> {
        reader.frame().await.map(|frame| frame.expect("not cut off").into_data().expect("data"))
    }

    #[tokio::test]
    async fn writes_that_wait_together_leave_together_and_the_end_comes_last() {
        let (writer, mut reader) = pipe(64, ());
        writer.write(&mut b"a".to_vec()).await.expect("room");
        writer.write(&mut b"b".to_vec()).await.expect("room");
        assert_eq!(next(&mut reader).await.expect("data"), "ab");
        writer.write(&mut b"c".to_vec()).await.expect("room");
        drop(writer);
        assert_eq!(next(&mut reader).await.expect("data"), "c");
        assert!(next(&mut reader).await.is_none());
    }

    #[tokio::test]
    async fn a_run_that_is_cut_off_has_no_proper_end() {
        let (writer, mut reader) = pipe(64, ());
        writer.write(&mut b"a".to_vec()).await.expect("room");
        assert_eq!(next(&mut reader).await.expect("data"), "a");
        writer.write(&mut b"b".to_vec()).await.expect("room");
        writer.cut();
        let end = reader.frame().await.expect("no end").expect_err("no data");
        assert_eq!(end, CutOff);
    }

    #[tokio::test]
    async fn a_full_pipe_makes_the_writer_wait() {
        let (writer, mut reader) = pipe(2, ());
        writer.write(&mut b"abc".to_vec()).await.expect("room");
        let mut more = b"d".to_vec();
        {
            let mut write = std::pin::pin!(writer.write(&mut more));
            assert!(futures_util::poll!(write.as_mut()).is_pending());
            assert_eq!(next(&mut reader).await.expect("data"), "abc");
            write.await.expect("room");
        }
        assert!(more.is_empty());
    }

    /// Frames are many and clients leave once: a run that waits for its agent sleeps on while its client reads.
    #[tokio::test]
    async fn only_a_write_that_was_refused_is_woken_by_room() {
        let (wakes, wakes_of_write) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        let (writer, mut reader) = pipe(1, ());
        let mut gone = std::pin::pin!(writer.gone());
        let waker = Arc::clone(&wakes).into();
        assert!(gone.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        writer.write(&mut b"a".to_vec()).await.expect("room");
        assert_eq!(next(&mut reader).await.expect("data"), "a");
        assert_eq!(wakes.count(), 0);

        writer.write(&mut b"b".to_vec()).await.expect("room");
        let mut more = b"c".to_vec();
        let mut write = std::pin::pin!(writer.write(&mut more));
        let waker = Arc::clone(&wakes_of_write).into();
        assert!(write.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(next(&mut reader).await.expect("data"), "b");
        assert_eq!((wakes.count(), wakes_of_write.count()), (0, 1));
        drop(reader);
        assert_eq!(wakes.count(), 1);
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wakes {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_waiting_and_writing() {
        let (writer, reader) = pipe(1, ());
        writer.write(&mut b"a".to_vec()).await.expect("room");
        drop(reader);
        writer.gone().await;
        assert_eq!(writer.write(&mut b"b".to_vec()).await, Err(Gone));
    }
}
