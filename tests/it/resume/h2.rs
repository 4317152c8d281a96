//! Coming back over HTTP/2, and readers there that take nothing.

use super::super::support::soon;
use super::*;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

async fn connect(gateway: &Gateway) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    // Its window is what a client takes that reads nothing.
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 << 10);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn reads(sender: &mut SendRequest<Empty<Bytes>>, behind: &str) -> Response<Incoming> {
    let request = Request::get(format!("http://gateway{}", events_of("r1"))).header("accept", "text/event-stream");
    let request = request.header("last-event-id", behind).body(Empty::new()).expect("a request");
    soon("an answer", sender.send_request(request)).await.expect("an answer")
}

#[tokio::test]
async fn many_come_back_over_one_connection() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    drop(client);
    let mut sender = connect(&gateway).await;
    let mut bodies = Vec::new();
    for frame in &first {
        let response = reads(&mut sender, frame.id()).await;
        assert_eq!(response.status(), 200);
        bodies.push(response.into_body());
    }
    agent.go();
    for (heard, body) in (1..).zip(bodies) {
        let rest = soon("the rest", body.collect()).await.expect("a clean end").to_bytes();
        assert_eq!(frames(std::str::from_utf8(&rest).expect("UTF-8")).len(), 5 - heard);
    }
}

/// One that takes nothing keeps nobody else from reading, whatever the run says.
#[tokio::test]
async fn a_window_that_stays_closed_holds_up_nobody_else() {
    const TIMES: usize = 200;
    let text = "x".repeat(8000);
    let event = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n");
    let agent = Agent::playing(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED, SAID].concat()),
        Step::Pause,
        Step::Flood(event.into_bytes(), TIMES),
        write([CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = before(&agent).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    let mut sender = connect(&gateway).await;
    let stalled = reads(&mut sender, first[2].id()).await;
    agent.go();
    assert_eq!(rest(client).await.len(), TIMES + 2);
    assert_eq!(gateway.logged("run ended").await["outcome"], "finished");
    // What is not kept any more cannot be read to its good end.
    let end = soon("an end", stalled.into_body().collect()).await;
    assert!(end.is_err(), "cut off");
}
