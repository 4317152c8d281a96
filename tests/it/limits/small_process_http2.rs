//! A process with little memory and the default limits, while clients push what many requests take: over HTTP/2, where one
//! connection brings many, and over HTTP/1.1.

use super::super::support::agent::Agent;
use super::super::support::client::INPUT;
use super::super::support::eventually;
use super::super::support::gateway::Setup;
use super::super::support::http2::{
    END_HEADERS, END_STREAM, HEADERS, beginning, field, frame, head_for, request, streams,
};
use super::super::support::sse::{HEAD, complete_run};
use super::small_process::{SmallGateway, assert_serves_others, start_flooding_agent, start_small_gateway};
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// Maximum bytes that all streams of a client receive before it opens their windows again.
const OPEN_WINDOW: u32 = i32::MAX as u32;

/// Streams of one connection.
const STREAMS: u32 = 40;

/// With more streams, each took 150 KiB.
const BUSY_CONNECTIONS: usize = 500;

async fn start_gateway(agent: &Agent, flooding: &Agent) -> SmallGateway {
    let route = |name: &str, agent: &Agent, more: &str| {
        let url = agent.url();
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"{more}}}\n")
    };
    let kept = ", on_disconnect: continue for 1s";
    let routes = [route("run", agent, ""), route("flood", flooding, ""), route("kept", flooding, kept)];
    let routes = format!("routes:\n{}", routes.concat());
    let top = "trusted_proxies: [127.0.0.1]\nreplay: {age: 1s}";
    start_small_gateway(Setup { top, routes: &routes, ..Setup::default() }).await
}

/// Sends bytes on a new connection, from which nothing is read.
async fn send_unread(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a smaller buffer");
    let mut stream = socket.connect(to).await.expect("the gateway listens");
    stream.write_all(bytes).await.expect("it reads");
    stream
}

/// Sends bytes on a new connection, and takes what comes: without windows, these are the heads of responses.
async fn send_without_windows(to: SocketAddr, bytes: Vec<u8>) -> Reading {
    let mut stream = TcpStream::connect(to).await.expect("the gateway listens");
    stream.write_all(&bytes).await.expect("it reads");
    Reading(tokio::spawn(async move {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }))
}

struct Reading(JoinHandle<()>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A whole run on each stream of a connection.
fn runs(path: &str, connection: usize) -> Vec<u8> {
    let body = |stream| INPUT.replace("\"r1\"", &format!("\"r{connection}-{stream}\""));
    streams(STREAMS).flat_map(|stream| request(stream, path, body(stream).as_bytes())).collect()
}

/// Counts the bytes that h2 has taken of a stream, for which neither the run nor its pipe waits.
#[tokio::test]
async fn survives_clients_that_open_windows_and_read_nothing() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let flooding = start_flooding_agent();
    let gateway = start_gateway(&agent, &flooding).await;
    let mut connections = Vec::new();
    for connection in 0..20 {
        let path = if connection % 2 == 0 { "/flood" } else { "/kept" };
        let sent = [beginning(OPEN_WINDOW), runs(path, connection)].concat();
        connections.push(send_unread(gateway.data, &sent).await);
    }
    eventually("much that is not taken", async || {
        (gateway.metric("diglot_http2_unsent_bytes").await >= f64::from(2 << 20)).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
    // A window of one byte lets h2 take a whole piece, which stays there while the socket is read.
    for connection in 20..40 {
        let sent = [beginning(1), runs("/flood", connection)].concat();
        connections.push(send_unread(gateway.data, &sent).await);
    }
    assert_serves_others(&gateway).await;
    drop(connections);
    gateway.wait_for_metric("diglot_http2_unsent_bytes", 0.0).await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="flood"}"#, 0.0).await;
    assert_serves_others(&gateway).await;
}

/// Each takes a task with its buffers, however little it sends.
#[tokio::test]
async fn survives_requests_without_their_bodies() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &agent).await;
    let many: Vec<_> = (0..80).map(|number| (format!("x{number}"), "y")).collect();
    let mut fields = vec![("content-type", "application/json")];
    fields.extend(many.iter().map(|(name, value)| (name.as_str(), *value)));
    let head = head_for("POST", "/run", &fields);
    let mut connections = Vec::new();
    for _ in 0..75 {
        let requests = streams(STREAMS).flat_map(|stream| frame(HEADERS, END_HEADERS, stream, &head));
        connections.push(send_unread(gateway.data, &[beginning(OPEN_WINDOW), requests.collect()].concat()).await);
    }
    eventually("refused requests", async || {
        (gateway.metric("diglot_refusals_total{reason=\"bodies_full\",route=\"run\"}").await >= 1.0).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
    let head = "POST /run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    for _ in 0..900 {
        connections.push(send_unread(gateway.data, head.as_bytes()).await);
    }
    assert_serves_others(&gateway).await;
    drop(connections);
    gateway.wait_for_metric("diglot_request_body_bytes", 0.0).await;
    assert_serves_others(&gateway).await;
}

/// Each takes up to twice `limits.header_bytes`, without a credential.
#[tokio::test]
async fn survives_heads_without_an_end() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &agent).await;
    let head = format!("POST /run HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(15 << 10));
    let more = field("x", &"y".repeat(100)).repeat(100);
    let fields = [head_for("POST", "/run", &[]), more].concat();
    let unfinished = [beginning(OPEN_WINDOW), frame(HEADERS, 0, 1, &fields)].concat();
    let mut connections = Vec::new();
    for _ in 0..900 {
        connections.push(send_unread(gateway.data, head.as_bytes()).await);
        connections.push(send_unread(gateway.data, &unfinished).await);
    }
    assert_serves_others(&gateway).await;
}

/// Without a window, each response waits whole; with one byte, in the queues of h2.
#[tokio::test]
async fn survives_untaken_responses() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &agent).await;
    let head = head_for("GET", "/none", &[]);
    let requests: Vec<u8> =
        streams(STREAMS).flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)).collect();
    let mut connections = Vec::new();
    // The process may reserve twice the memory, and so has 4096 connections.
    for connection in 0..110 {
        connections
            .push(send_without_windows(gateway.data, [beginning(connection % 2), requests.clone()].concat()).await);
    }
    eventually("refused requests", async || {
        (gateway.metric("diglot_http2_requests_refused_total").await >= 1.0).then_some(())
    })
    .await;
    assert_serves_others(&gateway).await;
    drop(connections);

    // Those of the status plane are larger, and anyone may ask for them.
    let head = head_for("GET", "/metrics", &[]);
    let requests: Vec<u8> =
        streams(4).flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)).collect();
    let mut connections = Vec::new();
    for connection in 0..200 {
        connections
            .push(send_without_windows(gateway.status, [beginning(connection % 2), requests.clone()].concat()).await);
    }
    assert_serves_others(&gateway).await;
}

/// h2 keeps the places of a connection's streams and frames until it ends.
#[tokio::test]
async fn survives_idle_connections_that_were_busy_once() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &agent).await;
    assert_serves_others(&gateway).await;
    let before = gateway.process.resident_memory();
    let head = head_for("GET", "/none", &[]);
    let requests: Vec<u8> =
        streams(STREAMS).flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)).collect();
    let busy = [beginning(OPEN_WINDOW), requests].concat();
    let mut connections = Vec::new();
    for _ in 0..BUSY_CONNECTIONS {
        connections.push(send_without_windows(gateway.data, busy.clone()).await);
    }
    assert_serves_others(&gateway).await;
    eventually("little memory per connection", async || {
        let grown = gateway.process.resident_memory().saturating_sub(before);
        (grown < BUSY_CONNECTIONS * (80 << 10)).then_some(())
    })
    .await;
    drop(connections);
}
