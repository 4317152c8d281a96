//! Agents that answer before they have read the whole request, and read no more of it.

use super::start_gateway;
use crate::support::client::{Answer, INPUT, post, send_request};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame};
use crate::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// More than the system buffers for an agent that does not read.
const BODY: usize = 7 << 20;

/// Sends a large run to an agent with this behaviour, whose connection stays open.
async fn run_with<A>(http: &str, answer: fn(TcpStream) -> A) -> Answer
where
    A: Future<Output = TcpStream> + Send + 'static,
{
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(8 << 10).expect("a smaller buffer");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener: TcpListener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("bound");
    let gateway = start_gateway(&format!("{{url: \"http://{address}/\", http: {http}}}"), "").await;
    let agent = tokio::spawn(async move { answer(listener.accept().await.expect("a connection").0).await });
    let body = INPUT.replace("hi", &"x".repeat(BODY));
    let answer = send_request(gateway.data, post("/run", "Connection: close\r\n", &body)).await;
    drop(agent.await.expect("an agent"));
    gateway.wait_for_metric("diglot_request_body_bytes", 0.0).await;
    answer
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
}

async fn refuse(mut stream: TcpStream) -> TcpStream {
    read_head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig").await.expect("it reads");
    stream
}

/// An interim response is not the answer.
async fn refuse_after_continue(mut stream: TcpStream) -> TcpStream {
    read_head(&mut stream).await;
    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 4").await.expect("it reads");
    stream.read_exact(&mut vec![0; 1 << 20]).await.expect("more of the request");
    stream.write_all(b"13 Content Too Large\r\nContent-Length: 3\r\n\r\nbig").await.expect("it reads");
    stream
}

async fn accept(mut stream: TcpStream) -> TcpStream {
    read_head(&mut stream).await;
    stream.write_all((HEAD.to_owned() + &complete_run()).as_bytes()).await.expect("it reads");
    stream.shutdown().await.expect("it reads");
    stream
}

async fn refuse_over_http2(mut stream: TcpStream) -> TcpStream {
    stream.read_exact(&mut [0; 24]).await.expect("a preface");
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.expect("it reads");
    let mut head = [0; 9];
    while head[3] != HEADERS {
        stream.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.expect("a payload");
    }
    // ":status" of the static table with a new value [RFC 7541 §6.2.2].
    let fields = [&[8, 3][..], b"413"].concat();
    let answer = [frame(HEADERS, END_HEADERS, 1, &fields), frame(DATA, END_STREAM, 1, b"big")].concat();
    stream.write_all(&answer).await.expect("it reads");
    // Windows stay closed.
    stream
}

#[tokio::test]
async fn passes_on_a_refusal_of_an_agent_that_stops_reading() {
    for answer in [
        run_with("1", refuse).await,
        run_with("1", refuse_after_continue).await,
        run_with("2", refuse_over_http2).await,
    ] {
        assert_refused(&answer, 413, "upstream_status");
    }
}

#[tokio::test]
async fn passes_on_the_run_of_an_agent_that_stops_reading() {
    assert_succeeded(&run_with("1", accept).await, COMPLETE_RUN);
}
