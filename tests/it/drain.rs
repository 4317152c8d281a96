//! What becomes of connections and runs while the process ends, step by step.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, run};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{CLOSED, FINISHED, HEAD, WHOLE, begun, succeeded, whole};
use super::support::{eventually, soon};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const LONG: &str = "drain_grace: 1h";

/// An agent in the middle of a run that waits to be told to finish it.
fn halfway() -> Agent {
    let (first, rest) = (HEAD.to_owned() + &begun(), CLOSED.to_owned() + FINISHED);
    Agent::playing(vec![Step::Read, write(first), Step::Pause, write(rest)])
}

/// Load balancers send requests until they have seen that the gateway is not ready, so they are answered until then.
#[tokio::test]
async fn who_still_comes_is_served_and_told_to_go_elsewhere() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: LONG, ..Setup::default() }).await;
    let mut kept = Client::connect(gateway.data).await;
    kept.send(post("/run", "", INPUT)).await;
    let before = kept.answer().await;
    assert_eq!((before.status, before.header("connection")), (200, None));

    gateway.process.signal("TERM");
    assert_eq!(gateway.logged("leaving").await["grace_ms"], 3_600_000);
    let ready = gateway.ask("/readyz").await;
    assert_eq!((ready.status, ready.text()), (503, "draining\n"));
    assert_eq!(gateway.metric("diglot_draining").await, 1.0);
    // Over the connection from before, and over a new one.
    kept.send(post("/run", "", INPUT)).await;
    for answer in [kept.answer().await, run(gateway.data, "/run").await] {
        assert_eq!(answer.header("connection"), Some("close"));
        succeeded(&answer, WHOLE);
    }
    let refusal = run(gateway.data, "/nowhere").await;
    assert_eq!((refusal.status, refusal.header("connection")), (404, Some("close")));

    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn behind_the_grace_nobody_comes_in_and_idle_connections_end() {
    let agent = halfway();
    let top = "drain_grace: 10ms";
    let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let mut idle = TcpStream::connect(gateway.data).await.expect("a connection");
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    let heard = client.until("你好\"}\n\n").await;

    gateway.process.signal("TERM");
    assert_eq!(gateway.logged("draining").await["runs"], 1);
    let refused = eventually("a closed port", async || TcpStream::connect(gateway.data).await.err()).await;
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // An end, and no reset.
    assert_eq!(soon("the end of an idle connection", idle.read(&mut [0; 8])).await.expect("no reset"), 0);
    agent.go();
    let (rest, _) = client.rest().await;
    assert!(heard.contains("RUN_STARTED") && String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// RFC 9113, section 6.8: GOAWAY "allows an endpoint to gracefully stop accepting new streams while still finishing
/// processing of previously established streams."
#[tokio::test]
async fn a_connection_of_http_2_ends_behind_its_streams() {
    let agent = halfway();
    let mut gateway = Gateway::before(&agent).await;
    let stream = TcpStream::connect(gateway.data).await.expect("a connection");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let url = format!("http://{}/run", gateway.data);
    let request = || {
        let request = Request::post(&url).header("content-type", "application/json");
        request.body(Full::new(Bytes::from(INPUT))).expect("a request")
    };
    let mut body = soon("an answer", sender.send_request(request())).await.expect("an answer").into_body();
    soon("an event", body.frame()).await.expect("a body").expect("a frame");

    gateway.process.signal("TERM");
    gateway.logged("draining").await;
    eventually("GOAWAY", async || sender.send_request(request()).await.err()).await;
    // hyper's client has no use for a connection that takes no streams, but for those that it has.
    soon("the end of the connection", connection).await.expect("no panic").expect("an end without an error");
    agent.go();
    let rest = soon("the end of the body", body.collect()).await.expect("a clean end").to_bytes();
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// An agent that is told to stop first asks here whether it is still needed.
#[tokio::test]
async fn who_waits_for_the_drain_hears_of_its_end() {
    let agent = halfway();
    let mut gateway = Gateway::before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    client.until("你好\"}\n\n").await;
    let mut waiting = Client::connect(gateway.status).await;
    waiting.send("GET /drain/wait HTTP/1.1\r\nHost: status\r\n\r\n").await;
    let mut waiting = tokio::spawn(async move { waiting.answer().await });
    // Asking begins nothing.
    assert_eq!(gateway.ask("/readyz").await.status, 200);

    gateway.process.signal("TERM");
    gateway.logged("draining").await;
    assert!(futures_util::poll!(&mut waiting).is_pending());
    agent.go();
    let (rest, _) = client.rest().await;
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    let answer = soon("an answer", waiting).await.expect("no panic");
    assert_eq!((answer.status, answer.text()), (200, "drained\n"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
