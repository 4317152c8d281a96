//! Connections without any data, and connections whose client has left unread data behind.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::Client;
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run, run_beginning};
use super::super::support::within_deadline;
use super::{refused_series, run_request, start_agent, start_gateway, start_paused_agent};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Instant;
use tokio::net::TcpStream;

const LONG: &str = "30m";

#[tokio::test]
async fn closes_idle_connections_after_idle_timeout() {
    let agent = start_agent();
    let gateway =
        start_gateway(&agent, "127.0.0.1:0", &format!("limits: {{idle_timeout: 300ms, head_timeout: {LONG}}}")).await;
    let mut client = Client::connect(gateway.data).await;
    client.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(client.read_answer().await.status, 404);
    assert!(client.read_until_closed().await.is_empty());
}

#[tokio::test]
async fn closes_connections_after_head_timeout() {
    let agent = start_agent();
    let gateway =
        start_gateway(&agent, "127.0.0.1:0", &format!("limits: {{idle_timeout: {LONG}, head_timeout: 300ms}}")).await;
    // The timeout of the first request does not apply to one that arrives later.
    let mut client = Client::connect(gateway.data).await;
    client.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n").await;
    assert!(client.read_until_closed().await.is_empty());
    let mut second = Client::connect(gateway.data).await;
    second.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(second.read_answer().await.status, 404);
    let mut silent = Client::connect(gateway.data).await;
    assert!(silent.read_until_closed().await.is_empty());
    gateway.wait_for_metric(&refused_series("127.0.0.1:0", "silent"), 1.0).await;
    second.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(second.read_answer().await.status, 404);
    second.send("GET /nowhere HTTP/1.1\r\nHo").await;
    assert!(second.read_until_closed().await.is_empty());
}

/// A run is not idle, however long its agent is silent.
#[tokio::test]
async fn keeps_runs_open_past_idle_and_head_timeouts() {
    let agent = start_paused_agent();
    let top = "limits: {idle_timeout: 200ms, head_timeout: 200ms}\nkeep_alive: 300ms";
    let gateway = start_gateway(&agent, "127.0.0.1:0", top).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(run_request()).await;
    let mut answer = client.read_head().await;
    let mut received = client.read_until("你好").await;
    // Two comments: the clocks have rung by then.
    for _ in 0..2 {
        received += &client.read_until(":").await;
    }
    agent.resume();
    let (rest, end) = client.read_rest().await;
    (answer.body, answer.end) = ([received.into_bytes(), rest].concat(), end);
    assert_succeeded(&answer, COMPLETE_RUN);
}

/// HTTP/2: GOAWAY, although every PING is answered.
#[tokio::test]
async fn closes_h2_connections_without_requests() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, "127.0.0.1:0", "limits: {idle_timeout: 300ms, head_timeout: 300ms}").await;
    for sends_request in [false, true] {
        let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
        let (mut sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
        let connection = tokio::spawn(connection);
        if sends_request {
            let request = http::Request::get("http://gateway/nowhere").body(Empty::<Bytes>::new()).expect("a request");
            let response = within_deadline("an answer", sender.send_request(request)).await.expect("an answer");
            assert_eq!(response.status(), 404);
            response.into_body().collect().await.expect("a body");
        }
        within_deadline("the end", connection).await.expect("no panic").expect("a clean end");
    }
}

/// Bytes of further requests wait in the gateway; that their client has left must be noticed all the same.
#[tokio::test]
async fn ends_the_run_of_a_client_that_pipelines_and_leaves() {
    for more in [1, 20, 60] {
        let mut agent =
            Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
        let gateway = start_gateway(&agent, "127.0.0.1:0", "").await;
        let mut client = Client::connect(gateway.data).await;
        client.send(run_request().repeat(1 + more)).await;
        client.read_head().await;
        client.read_until("你好").await;
        agent.next_request().await;
        let since = Instant::now();
        drop(client);
        agent.wait_until_closed().await;
        // A keep-alive would find it out after 15 seconds, an agent that writes by then as well.
        assert!(since.elapsed().as_secs() < 10, "the agent was left after {:?}", since.elapsed());
        gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    }
}

/// Requests that are sent at once are answered one after the other.
#[tokio::test]
async fn answers_all_pipelined_requests() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let gateway = start_gateway(&agent, "127.0.0.1:0", "").await;
    let mut client = Client::connect(gateway.data).await;
    client.send(run_request().repeat(100)).await;
    for _ in 0..100 {
        assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    }
}
