//! Connections on which nothing happens, and those whose client has left behind what it sent.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::Client;
use super::super::support::soon;
use super::super::support::sse::{HEAD, WHOLE, begun, succeeded, whole};
use super::{answering, gateway, halfway, start, turned};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Instant;
use tokio::net::TcpStream;

const LONG: &str = "30m";

#[tokio::test]
async fn a_connection_that_is_idle_is_closed_whatever_a_head_may_take() {
    let agent = answering();
    let gateway =
        gateway(&agent, "127.0.0.1:0", &format!("limits: {{idle_timeout: 300ms, head_timeout: {LONG}}}")).await;
    let mut client = Client::connect(gateway.data).await;
    client.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 404);
    assert!(client.closed().await.is_empty());
}

#[tokio::test]
async fn a_head_that_is_late_is_closed_however_long_a_connection_may_be_idle() {
    let agent = answering();
    let gateway =
        gateway(&agent, "127.0.0.1:0", &format!("limits: {{idle_timeout: {LONG}, head_timeout: 300ms}}")).await;
    // Of the first request, and of one that comes when the head of the first would have been late.
    let mut client = Client::connect(gateway.data).await;
    client.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n").await;
    assert!(client.closed().await.is_empty());
    let mut second = Client::connect(gateway.data).await;
    second.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(second.answer().await.status, 404);
    let mut silent = Client::connect(gateway.data).await;
    assert!(silent.closed().await.is_empty());
    gateway.reaches(&turned("127.0.0.1:0", "silent"), 1.0).await;
    second.send("GET /nowhere HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_eq!(second.answer().await.status, 404);
    second.send("GET /nowhere HTTP/1.1\r\nHo").await;
    assert!(second.closed().await.is_empty());
}

/// A run is not idle, however long its agent is silent.
#[tokio::test]
async fn a_run_outlives_both_clocks() {
    let agent = halfway();
    let top = "limits: {idle_timeout: 200ms, head_timeout: 200ms}\nkeep_alive: 300ms";
    let gateway = gateway(&agent, "127.0.0.1:0", top).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(start()).await;
    let mut answer = client.head().await;
    let mut heard = client.until("你好").await;
    // Two comments: the clocks have rung by then.
    for _ in 0..2 {
        heard += &client.until(":").await;
    }
    agent.go();
    let (rest, end) = client.rest().await;
    (answer.body, answer.end) = ([heard.into_bytes(), rest].concat(), end);
    succeeded(&answer, WHOLE);
}

/// HTTP/2: GOAWAY, although every PING is answered.
#[tokio::test]
async fn a_connection_of_http_2_without_requests_is_closed() {
    let agent = answering();
    let gateway = gateway(&agent, "127.0.0.1:0", "limits: {idle_timeout: 300ms, head_timeout: 300ms}").await;
    for asks in [false, true] {
        let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
        let (mut sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
        let connection = tokio::spawn(connection);
        if asks {
            let request = http::Request::get("http://gateway/nowhere").body(Empty::<Bytes>::new()).expect("a request");
            let response = soon("an answer", sender.send_request(request)).await.expect("an answer");
            assert_eq!(response.status(), 404);
            response.into_body().collect().await.expect("a body");
        }
        soon("the end", connection).await.expect("no panic").expect("a clean end");
    }
}

/// Bytes of further requests wait in the gateway; that their client has left must be noticed all the same.
#[tokio::test]
async fn a_client_that_sent_more_requests_and_left_holds_no_run() {
    for more in [1, 20, 60] {
        let mut agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
        let gateway = gateway(&agent, "127.0.0.1:0", "").await;
        let mut client = Client::connect(gateway.data).await;
        client.send(start().repeat(1 + more)).await;
        client.head().await;
        client.until("你好").await;
        agent.request().await;
        let since = Instant::now();
        drop(client);
        agent.left().await;
        // A keep-alive would find it out after 15 seconds, an agent that writes by then as well.
        assert!(since.elapsed().as_secs() < 10, "the agent was left after {:?}", since.elapsed());
        gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    }
}

/// Requests that are sent at once are answered one after the other.
#[tokio::test]
async fn requests_that_came_at_once_are_all_answered() {
    let agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &whole())]);
    let gateway = gateway(&agent, "127.0.0.1:0", "").await;
    let mut client = Client::connect(gateway.data).await;
    client.send(start().repeat(100)).await;
    for _ in 0..100 {
        succeeded(&client.answer().await, WHOLE);
    }
}
