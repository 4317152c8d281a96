//! Tests of the pipe and slow clients.

use super::*;
use crate::telemetry::Metrics;
use futures_util::{FutureExt, poll};
use http_body_util::BodyExt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;
use tokio::time::timeout;

async fn next_data(reader: &mut PipeReader) -> Option<Bytes> {
    reader.frame().await.map(|frame| frame.expect("not cut off").into_data().expect("data"))
}

async fn finish(writer: PipeWriter) {
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    writer.finish(&SlowClients::new(usize::MAX, metrics), [0; 32]).await;
}

/// The memory of a large event counts as a slow client's for as long as it is there, also while its connection sends
/// it.
#[tokio::test]
async fn a_large_write_waits_until_it_is_sent() {
    let (writer, mut reader) = pipe(2, ());
    let mut event = vec![0; 2 * LARGE_WRITE];
    assert!(writer.write(&mut event).now_or_never().is_none());
    assert_eq!((event.len(), writer.unread_bytes()), (0, 2 * LARGE_WRITE));
    next_data(&mut reader).await.expect("data");
    assert_eq!(writer.unread_bytes(), 2 * LARGE_WRITE);
    let mut rest = Vec::new();
    let mut written = pin!(writer.write(&mut rest));
    assert!(poll!(&mut written).is_pending());
    assert!(reader.frame().now_or_never().is_none());
    written.await.expect("an open pipe");
    assert_eq!(writer.unread_bytes(), 0);
}

/// A client that reads nothing after its run has ended is disconnected if all slow clients take too much.
#[tokio::test]
async fn the_rest_of_an_ended_run_counts_as_a_slow_clients() {
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    let clients = SlowClients::new(LARGE_REMAINDER, metrics);
    let (writer, mut reader) = pipe(2, ());
    reader.attach(Version::HTTP_11);
    writer.write(&mut vec![0; 2 * LARGE_REMAINDER]).await.expect("room");
    let mut end = Box::pin(writer.finish(&clients, [0; 32]));
    assert!(poll!(&mut end).is_pending());
    let _other = clients.wait([1; 32], 1);
    end.await;
    assert_eq!(reader.frame().await.expect("an error").expect_err("cut off"), BodyAborted);
}

#[tokio::test]
async fn coalesces_waiting_writes_and_delivers_the_end_last() {
    let (writer, mut reader) = pipe(64, ());
    writer.write(&mut b"a".to_vec()).await.expect("room");
    writer.write(&mut b"b".to_vec()).await.expect("room");
    assert_eq!(next_data(&mut reader).await.expect("data"), "ab");
    writer.write(&mut b"c".to_vec()).await.expect("room");
    writer.end_body();
    drop(writer);
    assert_eq!(next_data(&mut reader).await.expect("data"), "c");
    assert!(next_data(&mut reader).await.is_none());
}

/// An aborted run must not look like one that ended normally.
#[tokio::test]
async fn fails_the_body_when_the_writer_is_dropped() {
    let (writer, mut reader) = pipe(64, ());
    writer.write(&mut b"a".to_vec()).await.expect("room");
    assert_eq!(next_data(&mut reader).await.expect("data"), "a");
    drop(writer);
    assert_eq!(reader.frame().await.expect("no end").expect_err("no data"), BodyAborted);
}

#[tokio::test]
async fn fails_the_body_when_the_run_is_cut_off() {
    let (writer, mut reader) = pipe(64, ());
    writer.write(&mut b"a".to_vec()).await.expect("room");
    assert_eq!(next_data(&mut reader).await.expect("data"), "a");
    writer.write(&mut b"b".to_vec()).await.expect("room");
    writer.abort();
    let end = reader.frame().await.expect("no end").expect_err("no data");
    assert_eq!(end, BodyAborted);
}

#[tokio::test]
async fn a_full_pipe_makes_the_writer_wait() {
    let (writer, mut reader) = pipe(2, ());
    writer.write(&mut b"abc".to_vec()).await.expect("room");
    let mut more = b"d".to_vec();
    {
        let mut write = std::pin::pin!(writer.write(&mut more));
        assert!(futures_util::poll!(write.as_mut()).is_pending());
        assert_eq!(next_data(&mut reader).await.expect("data"), "abc");
        write.await.expect("room");
    }
    assert!(more.is_empty());
}

/// Frames are frequent but disconnects are not: client reads must not wake a run that waits for its agent.
#[tokio::test]
async fn wakes_only_a_blocked_write_when_room_appears() {
    let wakes = Arc::new(Wakes::default());
    let wakes_of_write = Arc::new(Wakes::default());
    let (writer, mut reader) = pipe(1, ());
    let mut gone = std::pin::pin!(writer.wait_closed());
    let waker = Arc::clone(&wakes).into();
    assert!(gone.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    writer.write(&mut b"a".to_vec()).await.expect("room");
    assert_eq!(next_data(&mut reader).await.expect("data"), "a");
    assert_eq!(wakes.count(), 0);

    writer.write(&mut b"b".to_vec()).await.expect("room");
    let mut more = b"c".to_vec();
    let mut write = std::pin::pin!(writer.write(&mut more));
    let waker = Arc::clone(&wakes_of_write).into();
    assert!(write.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(next_data(&mut reader).await.expect("data"), "b");
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
async fn stops_waiting_and_writing_when_the_client_leaves() {
    let (writer, reader) = pipe(1, ());
    writer.write(&mut b"a".to_vec()).await.expect("room");
    drop(reader);
    writer.wait_closed().await;
    assert_eq!(writer.write(&mut b"b".to_vec()).await, Err(PipeClosed));
}

const SOON: Duration = Duration::from_secs(1);

/// Returns a two-byte pipe with an attached client, and a function that returns whether its resource is still held.
fn attached_pipe(version: Version) -> (PipeWriter, PipeReader, impl Fn() -> bool) {
    let held = Arc::new(());
    let (writer, reader) = pipe(2, Arc::clone(&held));
    reader.attach(version);
    (writer, reader, move || Arc::strong_count(&held) > 1)
}

#[tokio::test(start_paused = true)]
async fn abandons_a_stalled_http_2_client_while_its_body_is_kept() {
    let (writer, mut reader, held) = attached_pipe(Version::HTTP_2);
    // A client without unread bytes never times out.
    timeout(10 * SEND_TIMEOUT, writer.wait_stalled()).await.expect_err("nothing waits");
    writer.write(&mut b"abc".to_vec()).await.expect("room");
    let since = Instant::now();
    let more = &mut b"d".to_vec();
    tokio::select! {
        biased;
        _ = writer.write(more) => panic!("no room"),
        () = writer.wait_stalled() => {}
    }
    assert!(since.elapsed() >= SEND_TIMEOUT && since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
    assert!(!held());
    writer.wait_closed().await;
    assert_eq!(writer.write(more).await, Err(PipeClosed));
    assert_eq!(reader.frame().await.expect("no end").expect_err("no data"), BodyAborted);
}

/// A run that waits for its agent checks the client only occasionally.
#[tokio::test(start_paused = true)]
async fn check_abandons_a_stalled_client_despite_comments() {
    let (writer, _reader, held) = attached_pipe(Version::HTTP_2);
    let since = Instant::now();
    while writer.drop_stalled().is_ok() {
        let _ = writer.write(&mut b":\n\n".to_vec()).now_or_never();
        tokio::time::sleep(15 * SOON).await;
    }
    assert_eq!((since.elapsed(), held()), (SEND_TIMEOUT + 15 * SOON, false));
}

#[tokio::test(start_paused = true)]
async fn keeps_a_client_that_reads_slowly() {
    let (writer, mut reader, held) = attached_pipe(Version::HTTP_2);
    let mut all = 4 * H2_CHUNK_LIMIT;
    writer.write(&mut vec![0; all]).await.expect("room");
    let run = tokio::spawn(finish(writer));
    while all > 0 {
        tokio::time::sleep(SEND_TIMEOUT - SOON).await;
        let piece = reader.frame().await.expect("no end").expect("not given up").into_data().expect("data");
        assert!(piece.len() <= H2_CHUNK_LIMIT, "{}", piece.len());
        all -= piece.len();
    }
    assert!(held() && !run.is_finished());
    assert!(reader.frame().await.is_none());
    drop(reader);
    run.await.expect("an end");
}

#[tokio::test(start_paused = true)]
async fn releases_its_permit_when_the_rest_is_never_read() {
    for rest in ["a", ""] {
        let (writer, reader, held) = attached_pipe(Version::HTTP_2);
        writer.write(&mut rest.into()).await.expect("room");
        let since = Instant::now();
        let run = tokio::spawn(finish(writer));
        tokio::time::sleep(SEND_TIMEOUT - SOON).await;
        assert!(held());
        run.await.expect("an end");
        assert!(!held() && since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
        drop(reader);
    }
}

#[tokio::test(start_paused = true)]
async fn starts_the_send_timeout_only_once_the_client_attaches() {
    let held = Arc::new(());
    let (writer, mut reader) = pipe(2, Arc::clone(&held));
    writer.write(&mut b"a".to_vec()).await.expect("room");
    let run = tokio::spawn(finish(writer));
    tokio::time::sleep(10 * SEND_TIMEOUT).await;
    assert_eq!(Arc::strong_count(&held), 2);
    tokio::time::sleep(SOON).await;
    reader.attach(Version::HTTP_2);
    let since = Instant::now();
    // hyper takes a chunk before it checks the window.
    assert!(reader.frame().await.expect("no end").is_ok());
    tokio::time::sleep(SEND_TIMEOUT - SOON).await;
    assert_eq!(Arc::strong_count(&held), 2);
    run.await.expect("an end");
    assert_eq!(Arc::strong_count(&held), 1);
    assert!(since.elapsed() <= SEND_TIMEOUT + SOON, "{:?}", since.elapsed());
}

/// The connection sees every byte that the client reads; a pipe above a slow connection does not.
#[tokio::test(start_paused = true)]
async fn leaves_http_1_send_timeouts_to_the_connection() {
    let (writer, _reader, held) = attached_pipe(Version::HTTP_11);
    writer.write(&mut b"abc".to_vec()).await.expect("room");
    timeout(10 * SEND_TIMEOUT, writer.wait_stalled()).await.expect_err("not given up");
    finish(writer).await;
    assert!(held());
}
