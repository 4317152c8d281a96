//! Tests streams written without hyper: chunks, ends, pipelined requests.

use super::*;
use crate::proxy::edge::activity::ConnectionActivity;
use crate::proxy::pipe::{BodyAborted, PipeWriter, pipe};
use crate::proxy::relayed_run::RunExecution;
use crate::proxy::slow_clients::SlowClients;
use crate::telemetry::Metrics;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const TIMEOUTS: ConnectionTimeouts =
    ConnectionTimeouts { head: Duration::from_secs(30), idle: Duration::from_secs(75) };

type TestBody = UnsyncBoxBody<Bytes, BodyAborted>;
type Writers = Arc<Mutex<Vec<Writer>>>;

/// Serves `/stream` with a body per request, which begins with the request's number and is continued by the returned
/// writers; other requests get an immediate, complete response. At most `window` bytes are in flight.
fn connection(window: usize) -> (DuplexStream, JoinHandle<()>, watch::Sender<bool>, Writers) {
    let (client, stream) = tokio::io::duplex(window);
    let writers = Writers::default();
    let (process, shutdown) = watch::channel(false);
    let kept = Arc::clone(&writers);
    let count = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<Incoming>| {
        let kept = Arc::clone(&kept);
        let number = count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            request.into_body().collect().await.expect("a whole request");
            let body: TestBody = if path == "/stream" {
                let (writer, reader) = pipe(1 << 20, ());
                writer.write(&mut format!("{number};").into_bytes()).await.expect("room");
                kept.lock().push(writer);
                reader.boxed_unsync()
            } else {
                Full::from("whole").map_err(|never| match never {}).boxed_unsync()
            };
            Ok::<_, Infallible>(Response::new(body))
        })
    });
    let served = tokio::spawn(async move {
        // The tests check what the client receives.
        let _ = serve(
            &http1::Builder::new(),
            ReadAheadStream::new(Box::new(stream), ConnectionActivity::new()),
            &service,
            TIMEOUTS,
            shutdown,
        )
        .await;
    });
    (client, served, process, writers)
}

type Writer = PipeWriter;

async fn read_until(client: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut received = Vec::new();
    while !received.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(client.read(&mut byte).await.expect("bytes"), 1, "{}", String::from_utf8_lossy(&received));
        received.push(byte[0]);
    }
    String::from_utf8(received).expect("text")
}

/// Ends a body without waiting, since a test's client never attaches.
fn finish_body(writer: Writer) {
    let clients = SlowClients::new(usize::MAX, Arc::new(Metrics::new().expect("unique names")));
    tokio::spawn(async move { writer.finish(&clients, [0; 32]).await });
}

fn last_writer(writers: &Mutex<Vec<Writer>>) -> Writer {
    writers.lock().pop().expect("a stream")
}

const STREAM_REQUEST: &[u8] = b"POST /stream HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}";

#[tokio::test]
async fn streams_in_chunks_then_serves_the_next_request() {
    // A narrow window splits heads, chunks and ends at every possible place.
    for window in [1, 7, 64, 4096] {
        let (mut client, _served, _process, writers) = connection(window);
        for number in [0, 2, 4] {
            client.write_all(STREAM_REQUEST).await.expect("taken");
            let head = read_until(&mut client, "\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
            assert_eq!(read_until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
            let writer = last_writer(&writers);
            let long = "x".repeat(5000);
            writer.write(&mut long.clone().into_bytes()).await.expect("room");
            assert_eq!(read_until(&mut client, "x\r\n").await, format!("1388\r\n{long}\r\n"));
            finish_body(writer);
            assert_eq!(read_until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
            client.write_all(b"GET /whole HTTP/1.1\r\nHost: g\r\n\r\n").await.expect("taken");
            assert!(read_until(&mut client, "whole").await.contains("content-length: 5"));
        }
    }
}

/// hyper may read the request for a stream while it is still sending the previous response.
#[tokio::test]
async fn delivers_a_stream_behind_an_answer_still_being_sent() {
    for window in [1, 7, 64, 4096] {
        let (client, _served, _process, writers) = connection(window);
        let (mut client, mut requests) = tokio::io::split(client);
        let whole = b"GET /whole HTTP/1.1\r\nHost: g\r\n\r\n".as_slice();
        let requested = [whole, STREAM_REQUEST, whole].concat();
        let sent = tokio::spawn(async move { requests.write_all(&requested).await.map(|()| requests) });
        // hyper reads as much as it wants before any response is read.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert!(read_until(&mut client, "whole").await.contains("content-length: 5"));
        let head = read_until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
        assert_eq!(read_until(&mut client, ";\r\n").await, "2\r\n1;\r\n");
        finish_body(last_writer(&writers));
        assert_eq!(read_until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
        assert!(read_until(&mut client, "whole").await.contains("content-length: 5"));
        sent.await.expect("no panic").expect("taken");
    }
}

#[tokio::test]
async fn serves_pipelined_requests_in_order() {
    let (mut client, _served, _process, writers) = connection(1 << 16);
    client.write_all(&STREAM_REQUEST.repeat(3)).await.expect("taken");
    for number in 0..3 {
        assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
        assert_eq!(read_until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
        finish_body(last_writer(&writers));
        assert_eq!(read_until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
    }
}

#[tokio::test]
async fn releases_the_run_when_the_client_disconnects() {
    for requested in [STREAM_REQUEST.to_vec(), STREAM_REQUEST.repeat(20)] {
        let (mut client, served, _process, writers) = connection(1 << 16);
        client.write_all(&requested).await.expect("taken");
        read_until(&mut client, ";\r\n").await;
        let writer = last_writer(&writers);
        drop(client);
        writer.wait_closed().await;
        served.await.expect("the connection has ended");
        assert!(writers.lock().is_empty(), "another run began for a client that left");
    }
}

#[tokio::test]
async fn omits_the_last_chunk_of_a_body_that_is_cut_off() {
    let (mut client, served, _process, writers) = connection(1 << 16);
    client.write_all(STREAM_REQUEST).await.expect("taken");
    read_until(&mut client, ";\r\n").await;
    last_writer(&writers).abort();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("the end");
    assert_eq!(rest, b"");
    served.await.expect("the connection has ended");
}

#[tokio::test]
async fn closes_the_connection_for_http_1_0_and_connection_close() {
    let old = b"POST /stream HTTP/1.0\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}".as_slice();
    let closing = b"POST /stream HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".as_slice();
    for (request, body) in [(old, "0;"), (closing, "2\r\n0;\r\n0\r\n\r\n")] {
        let (mut client, served, _process, writers) = connection(1 << 16);
        client.write_all(request).await.expect("taken");
        read_until(&mut client, "0;").await;
        finish_body(last_writer(&writers));
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("the end");
        served.await.expect("the connection has ended");
        assert_eq!(String::from_utf8_lossy(&rest), body.split_once("0;").expect("its first bytes").1);
    }
}

#[tokio::test]
async fn finishes_the_stream_then_closes_on_shutdown() {
    let (mut client, served, process, writers) = connection(1 << 16);
    client.write_all(STREAM_REQUEST).await.expect("taken");
    read_until(&mut client, ";\r\n").await;
    process.send(true).expect("a listener");
    let writer = last_writer(&writers);
    writer.write(&mut b"more;".to_vec()).await.expect("room");
    read_until(&mut client, "more;\r\n").await;
    finish_body(writer);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("the end");
    assert_eq!(rest, b"0\r\n\r\n");
    served.await.expect("the connection has ended");
}

#[test]
fn parses_only_complete_heads_and_skips_interim_responses() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert!((0..head.len()).all(|cut| BodyFraming::parse(&head[..cut]).is_none()));
    assert_eq!(BodyFraming::parse(head), Some(BodyFraming::ChunkedThenClose));
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), head].concat();
    assert_eq!(BodyFraming::parse(&interim[..25]), None);
    assert_eq!(BodyFraming::parse(&interim), BodyFraming::parse(head));
    assert_eq!(BodyFraming::parse(b"HTTP/1.0 200 OK\r\n\r\n"), Some(BodyFraming::UntilClose));
}

/// Serves each request with the body of a run that `start` creates, which the connection executes.
fn relaying_connection<F>(
    window: usize,
    start: impl Fn(PipeWriter) -> F + Send + Sync + 'static,
) -> (DuplexStream, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (client, stream) = tokio::io::duplex(window);
    let start = Arc::new(start);
    let service = service_fn(move |request: Request<Incoming>| {
        let start = Arc::clone(&start);
        Box::pin(async move {
            request.into_body().collect().await.expect("a whole request");
            let (writer, reader) = pipe(8, ());
            let run = RelayedRun::new(RunExecution::new(Box::pin(start(writer))), reader.relay());
            let mut response = Response::new(reader);
            response.extensions_mut().insert(RelayedRunSlot::new(run));
            Ok::<_, Infallible>(response)
        })
    });
    let served = tokio::spawn(async move {
        let (_process, shutdown) = watch::channel(false);
        let io = ReadAheadStream::new(Box::new(stream), ConnectionActivity::new());
        let _ = serve(&http1::Builder::new(), io, &service, TIMEOUTS, shutdown).await;
    });
    (client, served)
}

async fn end_run(writer: PipeWriter) {
    let clients = SlowClients::new(usize::MAX, Arc::new(Metrics::new().expect("unique names")));
    writer.finish(&clients, [0; 32]).await;
}

/// Reads a body in chunks to its end.
async fn read_chunks(client: &mut DuplexStream) -> Vec<String> {
    let mut chunks = Vec::new();
    loop {
        let line = read_until(client, "\r\n").await;
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a size");
        let mut data = vec![0; size + 2];
        client.read_exact(&mut data).await.expect("a whole chunk");
        assert!(data.ends_with(b"\r\n"));
        if size == 0 {
            return chunks;
        }
        chunks.push(String::from_utf8(data[..size].to_vec()).expect("text"));
    }
}

#[tokio::test]
async fn executes_the_run_of_a_stream_and_then_serves_the_next_request() {
    for window in [1, 7, 64, 4096] {
        let (mut client, _served) = relaying_connection(window, |writer| async move {
            for number in 0..40 {
                // Some pieces are ready together, exceed the pipe, or find the client busy.
                if number % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                let piece = format!("{number};").repeat(if number == 20 { 30_000 } else { 1 });
                writer.write(&mut piece.into_bytes()).await.expect("the client reads");
            }
            end_run(writer).await;
        });
        let whole: String =
            (0..40).map(|number| format!("{number};").repeat(if number == 20 { 30_000 } else { 1 })).collect();
        for _ in 0..2 {
            client.write_all(STREAM_REQUEST).await.expect("taken");
            assert!(read_until(&mut client, "\r\n\r\n").await.contains("transfer-encoding: chunked"));
            assert!(read_chunks(&mut client).await.concat() == whole, "window {window}");
        }
    }
}

#[tokio::test]
async fn a_run_outlives_its_connection_and_notices_that() {
    let (left, mut has_left) = tokio::sync::mpsc::unbounded_channel();
    let (mut client, served) = relaying_connection(1 << 16, move |writer| {
        let left = left.clone();
        async move {
            writer.write(&mut b"0;".to_vec()).await.expect("room");
            writer.wait_closed().await;
            tokio::task::yield_now().await;
            left.send(()).expect("a listener");
        }
    });
    client.write_all(STREAM_REQUEST).await.expect("taken");
    read_until(&mut client, ";\r\n").await;
    drop(client);
    served.await.expect("the connection has ended");
    has_left.recv().await.expect("the run has ended");
}

#[tokio::test]
async fn a_run_can_disconnect_a_client_that_does_not_read() {
    for is_ended in [false, true] {
        let (mut client, served) = relaying_connection(8, move |writer| async move {
            writer.write(&mut b"0123456789;".to_vec()).await.expect("room");
            tokio::time::sleep(Duration::from_millis(20)).await;
            writer.disconnect();
            if is_ended {
                end_run(writer).await;
            }
        });
        let (mut response, mut request) = tokio::io::split(&mut client);
        let sent = async { request.write_all(STREAM_REQUEST).await.expect("taken") };
        tokio::join!(sent, read_until(&mut response, "\r\n\r\n"));
        served.await.expect("the connection has ended");
    }
}

/// Counts the writes that have bytes.
struct CountingStream(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for CountingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write_vectored(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn sends_the_head_with_the_first_events_or_alone() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (pieces, expected, writes) in
        [(&["a;"][..], "2\r\na;\r\n", 1), (&[][..], "", 1), (&["a;", "b;"][..], "4\r\na;b;\r\n", 1)]
    {
        for is_aborted in [false, true] {
            let (mut client, stream) = tokio::io::duplex(4096);
            let count = Arc::new(AtomicUsize::new(0));
            let (writer, body) = pipe(1 << 10, ());
            for piece in pieces {
                writer.write(&mut piece.as_bytes().to_vec()).await.expect("room");
            }
            let mut writer = Some(writer);
            if is_aborted {
                writer.take().expect("a writer").abort();
            }
            let mut stream = RawChunkedWriter {
                io: ReadAheadStream::new(
                    Box::new(CountingStream(stream, Arc::clone(&count))),
                    ConnectionActivity::new(),
                ),
                body,
                run: None,
                framing: BodyFraming::Chunked,
                chunk: Some(Http1Chunk::from_head(HEAD.to_vec(), BodyFraming::Chunked)),
                read_ahead: Vec::new(),
                client_waker: RegisteredWaker::default(),
            };
            assert_eq!(futures_util::poll!(&mut stream).is_ready(), is_aborted);
            drop(stream);
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.expect("the end");
            let received = String::from_utf8(received).expect("text");
            let body = received.strip_prefix(str::from_utf8(HEAD).expect("text")).expect("a head");
            if !is_aborted {
                assert_eq!(body, expected);
            }
            assert!(!body.ends_with("0\r\n\r\n"));
            assert_eq!(count.load(Ordering::Relaxed), writes);
        }
    }
}
