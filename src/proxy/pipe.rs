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
        self.waits = None;
        let most = if self.client == Client::Multiplexed { PIECE } else { usize::MAX };
        let length = self.leaving.len().min(most);
        Some(self.leaving.split_to(length))
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

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.end();
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
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;
    use tokio::time::timeout;

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

    const SOON: Duration = Duration::from_secs(1);

    /// A pipe of two bytes whose client has come, and a way to see whether anything is held for it.
    fn attached(version: Version) -> (Writer<Arc<()>>, Reader<Arc<()>>, impl Fn() -> bool) {
        let held = Arc::new(());
        let (writer, reader) = pipe(2, Arc::clone(&held));
        reader.attach(version);
        (writer, reader, move || Arc::strong_count(&held) > 1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_over_http_2_is_given_up_while_its_body_is_kept() {
        let (writer, mut reader, held) = attached(Version::HTTP_2);
        // A client that nothing waits for is patient for ever.
        timeout(10 * SEND_TIMEOUT, writer.stalled()).await.expect_err("nothing waits");
        writer.write(&mut b"abc".to_vec()).await.expect("room");
        let since = Instant::now();
        let more = &mut b"d".to_vec();
        tokio::select! {
            biased;
            _ = writer.write(more) => panic!("no room"),
            () = writer.stalled() => {}
        }
        assert!(since.elapsed() >= SEND_TIMEOUT && since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
        assert!(!held());
        writer.gone().await;
        assert_eq!(writer.write(more).await, Err(Gone));
        assert_eq!(reader.frame().await.expect("no end").expect_err("no data"), CutOff);
    }

    /// The run waits for its agent, and only looks at its client now and then.
    #[tokio::test(start_paused = true)]
    async fn a_client_is_given_up_by_looking_and_comments_that_find_no_room_do_not_help_it() {
        let (writer, _reader, held) = attached(Version::HTTP_2);
        let since = Instant::now();
        while writer.check().is_ok() {
            let _ = writer.write(&mut b":\n\n".to_vec()).now_or_never();
            tokio::time::sleep(15 * SOON).await;
        }
        assert_eq!((since.elapsed(), held()), (SEND_TIMEOUT + 15 * SOON, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_something_now_and_then_is_not_given_up() {
        let (writer, mut reader, held) = attached(Version::HTTP_2);
        let mut all = 4 * PIECE;
        writer.write(&mut vec![0; all]).await.expect("room");
        let run = tokio::spawn(writer.finish());
        while all > 0 {
            tokio::time::sleep(SEND_TIMEOUT - SOON).await;
            let piece = reader.frame().await.expect("no end").expect("not given up").into_data().expect("data");
            assert!(piece.len() <= PIECE, "{}", piece.len());
            all -= piece.len();
        }
        assert!(held() && !run.is_finished());
        assert!(reader.frame().await.is_none());
        drop(reader);
        run.await.expect("an end");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_comes_back_when_the_rest_or_the_end_is_not_taken() {
        for rest in ["a", ""] {
            let (writer, reader, held) = attached(Version::HTTP_2);
            writer.write(&mut rest.into()).await.expect("room");
            let since = Instant::now();
            let run = tokio::spawn(writer.finish());
            tokio::time::sleep(SEND_TIMEOUT - SOON).await;
            assert!(held());
            run.await.expect("an end");
            assert!(!held() && since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
            drop(reader);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_awaited_is_given_up_only_after_it_came() {
        let held = Arc::new(());
        let (writer, reader) = pipe(2, Arc::clone(&held));
        writer.write(&mut b"a".to_vec()).await.expect("room");
        let run = tokio::spawn(writer.finish());
        tokio::time::sleep(10 * SEND_TIMEOUT).await;
        assert_eq!(Arc::strong_count(&held), 2);
        tokio::time::sleep(SOON).await;
        reader.attach(Version::HTTP_2);
        let since = Instant::now();
        tokio::time::sleep(SEND_TIMEOUT - SOON).await;
        assert_eq!(Arc::strong_count(&held), 2);
        run.await.expect("an end");
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
    }

    /// Its connection sees every byte that it takes, which a pipe above a slow line does not.
    #[tokio::test(start_paused = true)]
    async fn a_client_over_http_1_is_its_connections_business() {
        let (writer, _reader, held) = attached(Version::HTTP_11);
        writer.write(&mut b"abc".to_vec()).await.expect("room");
        timeout(10 * SEND_TIMEOUT, writer.stalled()).await.expect_err("not given up");
        writer.finish().await;
        assert!(held());
    }
}
