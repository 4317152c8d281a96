//! Tests streams written without hyper: chunks, ends, pipelined requests.

use super::*;
use crate::proxy::edge::activity::ConnectionActivity;
use crate::proxy::pipe::{BodyAborted, PipeWriter, pipe};
use crate::proxy::slow_clients::SlowClients;
use crate::telemetry::Metrics;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

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
        let _ =
            serve(&http1::Builder::new(), ReadAheadStream::new(stream, ConnectionActivity::new()), &service, shutdown)
                .await;
    });
    (client, served, process, writers)
}

type Writer = PipeWriter<()>;

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
