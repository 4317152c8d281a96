//! Exchanges with an agent at the other end of a pipe in memory.

use super::*;
use tokio::io::{AsyncReadExt, DuplexStream};

const OK: &str = "HTTP/1.1 200 OK\r\n";

fn exchange() -> (DuplexStream, Http1Exchange) {
    let (agent, connection) = tokio::io::duplex(256 << 10);
    (agent, Http1Exchange::new(Box::new(connection)))
}

/// An exchange whose agent sent this, and then closed the connection.
async fn answered(response: &str) -> Http1Exchange {
    let (mut agent, mut exchange) = exchange();
    agent.write_all(response.as_bytes()).await.expect("room");
    exchange.send(b"GET / HTTP/1.1\r\n\r\n", b"", &mut 0).await.expect("room");
    exchange
}

async fn body(exchange: &mut Http1Exchange) -> (String, Result<(), ErrorType>) {
    let mut text = Vec::new();
    let end = loop {
        match poll_fn(|cx| exchange.poll_body(cx, &mut |piece| text.extend_from_slice(piece))).await {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error.etype().clone()),
        }
    };
    (String::from_utf8(text).expect("UTF-8"), end)
}

#[tokio::test]
async fn writes_the_head_and_the_body_at_once() {
    let (mut agent, mut exchange) = exchange();
    let mut written = 0;
    exchange.send(b"POST / HTTP/1.1\r\n\r\n", b"{}", &mut written).await.expect("room");
    let mut received = [0; 64];
    let length = agent.read(&mut received).await.expect("a request");
    assert_eq!((&received[..length], written), (&b"POST / HTTP/1.1\r\n\r\n{}"[..], 21));
}

#[tokio::test]
async fn skips_interim_heads_and_reads_each_kind_of_body() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    for (response, expected, end, is_reusable) in [
        ("Content-Length: 2\r\n\r\nab", "ab", Ok(()), true),
        ("Content-Length: 2, 2\r\ncontent-length: 2\r\n\r\nab", "ab", Ok(()), true),
        ("Content-Length: 2\r\nConnection: x, Close\r\n\r\nab", "ab", Ok(()), false),
        ("Content-Length: 2\r\n\r\nabc", "ab", Ok(()), false),
        ("Content-Length: 3\r\n\r\nab", "ab", Err(ErrorType::ConnectionClosed), false),
        ("Transfer-Encoding: gzip, Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "ab", Ok(()), true),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "ab", Ok(()), false),
        ("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "ab", Err(ErrorType::ConnectionClosed), false),
        ("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n!", "ab", Err(ErrorType::Custom("InvalidChunk")), false),
        ("Transfer-Encoding: identity\r\n\r\nab", "ab", Ok(()), false),
        ("Content-Type: a\r\n\r\nab", "ab", Ok(()), false),
        ("\r\n", "", Ok(()), false),
    ] {
        let mut exchange = answered(&format!("{interim}{OK}{response}")).await;
        let head = exchange.read_head().await.expect("a head");
        assert_eq!(head.status, 200, "{response:?}");
        assert_eq!(body(&mut exchange).await, (expected.to_owned(), end), "{response:?}");
        assert_eq!(exchange.into_connection().await.is_some(), is_reusable, "{response:?}");
    }
}

#[tokio::test]
async fn a_read_that_is_not_full_has_drained_the_connection() {
    let (mut agent, mut exchange) = exchange();
    let sent = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
    agent.write_all(sent.as_bytes()).await.expect("room");
    exchange.read_head().await.expect("a head");
    exchange.limit_reads(8);
    // The first piece is as long as a read; behind the last, the end is known without one.
    for (piece, may_have_more) in [("6\r\nabcde", true), ("f\r\n", false), ("0\r\n\r\n", true)] {
        agent.write_all(piece.as_bytes()).await.expect("room");
        let read = poll_fn(|cx| exchange.poll_body(cx, &mut |_| {})).await;
        assert!(read.is_ok(), "{piece:?}");
        assert_eq!(exchange.may_have_more(), may_have_more, "{piece:?}");
    }
}

#[tokio::test]
async fn reads_no_body_where_none_can_be() {
    for head in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"] {
        let (mut agent, mut exchange) = exchange();
        agent.write_all(head.as_bytes()).await.expect("room");
        exchange.read_head().await.expect("a head");
        assert_eq!(body(&mut exchange).await, (String::new(), Ok(())), "{head:?}");
    }
}

#[tokio::test]
async fn reuses_no_connection_whose_request_was_not_sent_whole() {
    let (mut agent, mut exchange) = exchange();
    agent.write_all(format!("{OK}Content-Length: 0\r\n\r\n").as_bytes()).await.expect("room");
    exchange.read_head().await.expect("a head");
    assert!(exchange.into_connection().await.is_none());
}

#[tokio::test]
async fn skips_any_number_of_interim_heads() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let mut exchange = answered(&format!("{}{OK}\r\n", interim.repeat(HEAD_LIMIT / interim.len() + 200))).await;
    assert_eq!(exchange.read_head().await.expect("a head").status, 200);
}

#[tokio::test]
async fn reuses_connections_of_older_agents_only_on_request() {
    for (head, is_reusable) in [("", false), ("Connection: Keep-Alive\r\n", true)] {
        let mut exchange = answered(&format!("HTTP/1.0 200 OK\r\n{head}Content-Length: 1\r\n\r\na")).await;
        exchange.read_head().await.expect("a head");
        body(&mut exchange).await.1.expect("a whole body");
        assert_eq!(exchange.into_connection().await.is_some(), is_reusable, "{head:?}");
    }
}

#[tokio::test]
async fn refuses_heads_that_are_not_valid() {
    let long = format!("{OK}A: {}\r\n\r\n", "x".repeat(HEAD_LIMIT));
    let many = format!("{OK}{}\r\n", "A: 1\r\n".repeat(HEADER_COUNT_LIMIT + 1));
    for (response, expected) in [
        ("", ErrorType::ConnectionClosed),
        ("HTTP/1.1 200 OK\r\n", ErrorType::ConnectionClosed),
        ("SSH-2.0-OpenSSH\r\n", ErrorType::InvalidHTTPHeader),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ErrorType::InvalidHTTPHeader),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", ErrorType::InvalidHTTPHeader),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ErrorType::InvalidHTTPHeader),
        ("HTTP/1.1 200 OK\r\nA: 1\r\n 2\r\n\r\n", ErrorType::InvalidHTTPHeader),
        (long.as_str(), ErrorType::InvalidHTTPHeader),
        (many.as_str(), ErrorType::InvalidHTTPHeader),
    ] {
        let mut exchange = answered(response).await;
        let error = exchange.read_head().await.expect_err("not a head");
        assert_eq!(*error.etype(), expected, "{:?}", response.get(..60).unwrap_or(response));
    }
}
