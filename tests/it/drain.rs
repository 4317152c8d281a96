//! Connections and runs in each step of a drain.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, INPUT, post, post_run};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{CLOSED, COMPLETE_RUN, FINISHED, HEAD, assert_succeeded, complete_run, run_beginning};
use super::support::{eventually, within_deadline};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const LONG: &str = "drain_grace: 1h";

/// Starts an agent that pauses in the middle of a run until the test resumes it.
fn paused_agent() -> Agent {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)])
}

/// Load balancers send requests until they have seen that the gateway is not ready, so they are answered until then.
#[tokio::test]
async fn serves_late_requests_and_closes_their_connections() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], top: LONG, ..Setup::default() }).await;
    let mut kept = Client::connect(gateway.data).await;
    kept.send(post("/run", "", INPUT)).await;
    let before = kept.read_answer().await;
    assert_eq!((before.status, before.header("connection")), (200, None));

    gateway.process.signal("TERM");
    assert_eq!(gateway.next_log("shutdown started").await["grace_ms"], 3_600_000);
    let ready = gateway.get_status("/readyz").await;
    assert_eq!((ready.status, ready.text()), (503, "draining\n"));
    assert_eq!(gateway.metric("diglot_draining").await, 1.0);
    // Over the connection from before, and over a new one.
    kept.send(post("/run", "", INPUT)).await;
    for answer in [kept.read_answer().await, post_run(gateway.data, "/run").await] {
        assert_eq!(answer.header("connection"), Some("close"));
        assert_succeeded(&answer, COMPLETE_RUN);
    }
    let refusal = post_run(gateway.data, "/nowhere").await;
    assert_eq!((refusal.status, refusal.header("connection")), (404, Some("close")));

    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn closes_idle_connections_and_the_port_after_the_grace() {
    let agent = paused_agent();
    let top = "drain_grace: 10ms";
    let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let mut idle = TcpStream::connect(gateway.data).await.expect("a connection");
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    let received = client.read_until("你好\"}\n\n").await;

    gateway.process.signal("TERM");
    assert_eq!(gateway.next_log("draining").await["runs"], 1);
    let refused = eventually("a closed port", async || TcpStream::connect(gateway.data).await.err()).await;
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // An end, and no reset.
    assert_eq!(within_deadline("the end of an idle connection", idle.read(&mut [0; 8])).await.expect("no reset"), 0);
    agent.resume();
    let (rest, _) = client.read_rest().await;
    assert!(received.contains("RUN_STARTED") && String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// RFC 9113, section 6.8: GOAWAY "allows an endpoint to gracefully stop accepting new streams while still finishing
/// processing of previously established streams."
#[tokio::test]
async fn finishes_h2_streams_before_closing_the_connection() {
    let agent = paused_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let stream = TcpStream::connect(gateway.data).await.expect("a connection");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let url = format!("http://{}/run", gateway.data);
    let request = || {
        let request = Request::post(&url).header("content-type", "application/json");
        request.body(Full::new(Bytes::from(INPUT))).expect("a request")
    };
    let mut body = within_deadline("an answer", sender.send_request(request())).await.expect("an answer").into_body();
    within_deadline("an event", body.frame()).await.expect("a body").expect("a frame");

    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    eventually("GOAWAY", async || sender.send_request(request()).await.err()).await;
    // hyper's client has no use for a connection that takes no streams, but for those that it has.
    within_deadline("the end of the connection", connection).await.expect("no panic").expect("an end without an error");
    agent.resume();
    let rest = within_deadline("the end of the body", body.collect()).await.expect("a clean end").to_bytes();
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn answers_drain_wait_with_the_number_of_cut_runs() {
    let agent = paused_agent();
    let top = "drain_timeout: 200ms";
    let mut gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until("你好\"}\n\n").await;
    let mut waiting = Client::connect(gateway.status).await;
    waiting.send("GET /drain/wait HTTP/1.1\r\nHost: status\r\n\r\n").await;
    gateway.process.signal("TERM");
    let (rest, _) = client.read_rest().await;
    assert!(String::from_utf8_lossy(&rest).contains("gateway_draining"));
    assert_eq!(waiting.read_answer().await.text(), "drained; runs that were still open and ended with an error: 1\n");
    assert_eq!(gateway.next_log("stopped").await["cut_runs"], 1);
}

/// An agent that is stopped first waits here until its runs have ended.
#[tokio::test]
async fn answers_drain_wait_when_the_drain_ends() {
    let agent = paused_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until("你好\"}\n\n").await;
    let mut waiting = Client::connect(gateway.status).await;
    waiting.send("GET /drain/wait HTTP/1.1\r\nHost: status\r\n\r\n").await;
    let mut waiting = tokio::spawn(async move { waiting.read_answer().await });
    // Asking begins nothing.
    assert_eq!(gateway.get_status("/readyz").await.status, 200);

    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    assert!(futures_util::poll!(&mut waiting).is_pending());
    agent.resume();
    let (rest, _) = client.read_rest().await;
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    let answer = within_deadline("an answer", waiting).await.expect("no panic");
    assert_eq!((answer.status, answer.text()), (200, "drained\n"));
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// Service managers and shells send these, too: none of them may cut runs.
#[tokio::test]
async fn drains_on_sigquit_and_ignores_the_signals_of_users() {
    let agent = paused_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "Connection: close\r\n", INPUT)).await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 1.0).await;
    for name in ["USR1", "USR2"] {
        gateway.process.signal(name);
        assert_eq!(gateway.next_log("signal ignored").await["signal"], format!("SIG{name}"));
    }
    gateway.process.signal("QUIT");
    gateway.next_log("draining").await;
    agent.resume();
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
