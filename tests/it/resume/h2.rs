//! Coming back over HTTP/2, and readers there that do not read.

use super::super::support::within_deadline;
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

async fn read_events(sender: &mut SendRequest<Empty<Bytes>>, behind: &str) -> Response<Incoming> {
    let request =
        Request::get(format!("http://gateway{}", run_events_path("r1"))).header("accept", "text/event-stream");
    let request = request.header("last-event-id", behind).body(Empty::new()).expect("a request");
    within_deadline("an answer", sender.send_request(request)).await.expect("an answer")
}

#[tokio::test]
async fn resumes_many_readers_over_one_connection() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    drop(client);
    let mut sender = connect(&gateway).await;
    let mut bodies = Vec::new();
    for frame in &first {
        let response = read_events(&mut sender, frame.id()).await;
        assert_eq!(response.status(), 200);
        bodies.push(response.into_body());
    }
    agent.resume();
    for (received, body) in (1..).zip(bodies) {
        let rest = within_deadline("the rest", body.collect()).await.expect("a clean end").to_bytes();
        assert_eq!(frames(std::str::from_utf8(&rest).expect("UTF-8")).len(), 5 - received);
    }
}

/// A reader that does not read blocks no other, however much the run sends.
#[tokio::test]
async fn does_not_block_readers_on_a_closed_h2_window() {
    const TIMES: usize = 200;
    let text = "x".repeat(8000);
    let event = format!("data: {{\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"{text}\"}}\n\n");
    let agent = Agent::with_script(vec![
        Step::Read,
        write([HEAD, STARTED, OPENED, CONTENT].concat()),
        Step::Pause,
        Step::Flood(event.into_bytes(), TIMES),
        write([CLOSED, FINISHED].concat()),
    ]);
    let mut gateway = start_gateway(&agent).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    let mut sender = connect(&gateway).await;
    let stalled = read_events(&mut sender, first[2].id()).await;
    agent.resume();
    assert_eq!(read_rest(client).await.len(), TIMES + 2);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "finished");
    // A reader cannot get a clean end if the events are no longer kept.
    let end = within_deadline("an end", stalled.into_body().collect()).await;
    assert!(end.is_err(), "cut off");
}
