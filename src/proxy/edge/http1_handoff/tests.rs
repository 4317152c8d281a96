//! Streams that leave without hyper: chunks, ends, requests that do not wait.

use super::*;
use crate::proxy::edge::activity::Activity;
use crate::proxy::pipe::{CutOff, Writer as PipeWriter, pipe};
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

type TestBody = UnsyncBoxBody<Bytes, CutOff>;
type Writers = Arc<Mutex<Vec<Writer>>>;

/// A connection whose requests for `/stream` are answered with what the returned writer is given, the `n`th of them
/// after "<n>;"; others at once and whole. At most `window` bytes are on their way.
fn connection(window: usize) -> (DuplexStream, JoinHandle<()>, watch::Sender<bool>, Writers) {
    let (client, stream) = tokio::io::duplex(window);
    let writers = Writers::default();
    let (process, shutdown) = watch::channel(false);
    let (kept, count) = (Arc::clone(&writers), Arc::new(AtomicUsize::new(0)));
    let service = service_fn(move |request: Request<Incoming>| {
        let (kept, number) = (Arc::clone(&kept), count.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            request.into_body().collect().await.expect("a whole request");
            let body: TestBody = if path == "/stream" {
                let (writer, reader) = pipe(1 << 20, ());
                writer.write(&mut format!("{number};").into_bytes()).await.expect("room");
                kept.lock().expect("nobody panics").push(writer);
                reader.boxed_unsync()
            } else {
                Full::from("whole").map_err(|never| match never {}).boxed_unsync()
            };
            Ok::<_, Infallible>(Response::new(body))
        })
    });
    let served = tokio::spawn(async move {
        // What the client gets to see is what the tests are about.
        let _ = serve(&http1::Builder::new(), Attending::new(stream, Activity::new()), &service, shutdown).await;
    });
    (client, served, process, writers)
}

type Writer = PipeWriter<()>;

async fn until(client: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(end.as_bytes()) {
        let mut byte = [0];
        assert_eq!(client.read(&mut byte).await.expect("bytes"), 1, "{}", String::from_utf8_lossy(&heard));
        heard.push(byte[0]);
    }
    String::from_utf8(heard).expect("text")
}

/// Ends a body. The client of a test does not say that it has come, so nobody waits for it.
fn end(writer: Writer) {
    tokio::spawn(writer.finish());
}

fn last(writers: &Mutex<Vec<Writer>>) -> Writer {
    writers.lock().expect("nobody panics").pop().expect("a stream")
}

const ASK: &[u8] = b"POST /stream HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_stream_leaves_in_chunks_and_its_connection_serves_the_next_request() {
    // A narrow window: heads, chunks and ends are torn at every place.
    for window in [1, 7, 64, 4096] {
        let (mut client, _served, _process, writers) = connection(window);
        for number in [0, 2, 4] {
            client.write_all(ASK).await.expect("taken");
            let head = until(&mut client, "\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
            assert_eq!(until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
            let writer = last(&writers);
            let long = "x".repeat(5000);
            writer.write(&mut long.clone().into_bytes()).await.expect("room");
            assert_eq!(until(&mut client, "x\r\n").await, format!("1388\r\n{long}\r\n"));
            end(writer);
            assert_eq!(until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
            client.write_all(b"GET /whole HTTP/1.1\r\nHost: g\r\n\r\n").await.expect("taken");
            assert!(until(&mut client, "whole").await.contains("content-length: 5"));
        }
    }
}

/// hyper reads the next request while an answer is leaving: the head of a stream is not to be looked for in that.
#[tokio::test]
async fn a_stream_behind_an_answer_that_is_leaving_yet_is_heard_whole() {
    for window in [1, 7, 64, 4096] {
        let (client, _served, _process, writers) = connection(window);
        let (mut client, mut requests) = tokio::io::split(client);
        let whole = b"GET /whole HTTP/1.1\r\nHost: g\r\n\r\n".as_slice();
        let asked = [whole, ASK, whole].concat();
        let sent = tokio::spawn(async move { requests.write_all(&asked).await.map(|()| requests) });
        // As much is read as hyper wants to, before anything of an answer is taken.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert!(until(&mut client, "whole").await.contains("content-length: 5"));
        let head = until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
        assert_eq!(until(&mut client, ";\r\n").await, "2\r\n1;\r\n");
        end(last(&writers));
        assert_eq!(until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
        assert!(until(&mut client, "whole").await.contains("content-length: 5"));
        sent.await.expect("no panic").expect("taken");
    }
}

#[tokio::test]
async fn requests_that_do_not_wait_are_served_in_their_order_and_none_is_lost() {
    let (mut client, _served, _process, writers) = connection(1 << 16);
    client.write_all(&ASK.repeat(3)).await.expect("taken");
    for number in 0..3 {
        assert!(until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
        assert_eq!(until(&mut client, ";\r\n").await, format!("2\r\n{number};\r\n"));
        end(last(&writers));
        assert_eq!(until(&mut client, "0\r\n\r\n").await, "0\r\n\r\n");
    }
}

#[tokio::test]
async fn a_client_that_leaves_lets_go_of_its_run_whatever_it_sent_before() {
    for asked in [ASK.to_vec(), ASK.repeat(20)] {
        let (mut client, served, _process, writers) = connection(1 << 16);
        client.write_all(&asked).await.expect("taken");
        until(&mut client, ";\r\n").await;
        let writer = last(&writers);
        drop(client);
        writer.gone().await;
        served.await.expect("the connection has ended");
        assert!(writers.lock().expect("nobody panics").is_empty(), "another run began for a client that left");
    }
}

#[tokio::test]
async fn a_body_that_is_cut_off_has_no_last_chunk() {
    let (mut client, served, _process, writers) = connection(1 << 16);
    client.write_all(ASK).await.expect("taken");
    until(&mut client, ";\r\n").await;
    last(&writers).cut();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("the end");
    assert_eq!(rest, b"");
    served.await.expect("the connection has ended");
}

#[tokio::test]
async fn http_1_0_and_who_asks_for_it_get_the_end_of_the_connection() {
    let old = b"POST /stream HTTP/1.0\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}".as_slice();
    let closing = b"POST /stream HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".as_slice();
    for (ask, body) in [(old, "0;"), (closing, "2\r\n0;\r\n0\r\n\r\n")] {
        let (mut client, served, _process, writers) = connection(1 << 16);
        client.write_all(ask).await.expect("taken");
        until(&mut client, "0;").await;
        end(last(&writers));
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("the end");
        served.await.expect("the connection has ended");
        assert_eq!(String::from_utf8_lossy(&rest), body.split_once("0;").expect("its first bytes").1);
    }
}

#[tokio::test]
async fn a_process_that_ends_lets_a_stream_finish_and_closes_then() {
    let (mut client, served, process, writers) = connection(1 << 16);
    client.write_all(ASK).await.expect("taken");
    until(&mut client, ";\r\n").await;
    process.send(true).expect("a listener");
    let writer = last(&writers);
    writer.write(&mut b"more;".to_vec()).await.expect("room");
    until(&mut client, "more;\r\n").await;
    end(writer);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("the end");
    assert_eq!(rest, b"0\r\n\r\n");
    served.await.expect("the connection has ended");
}

#[test]
fn a_head_is_read_when_it_is_whole_and_interim_answers_are_none() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert!((0..head.len()).all(|cut| Head::read(&head[..cut]).is_none()));
    assert_eq!(Head::read(head), Some(Head::LastChunks));
    let interim = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), head].concat();
    assert_eq!(Head::read(&interim[..25]), None);
    assert_eq!(Head::read(&interim), Head::read(head));
    assert_eq!(Head::read(b"HTTP/1.0 200 OK\r\n\r\n"), Some(Head::UntilClosed));
}
