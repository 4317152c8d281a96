//! Network faults between client, gateway, agent and Redis, made by a proxy.
//!
//! - `agent`: between gateway and agent: every client receives one end.
//! - `both_sides`: on both sides of the gateway at once, under load.
//! - `client`: between client and gateway: no client takes a truncated run for a complete one, and no run is left open.
//! - `killed_gateway`: a gateway that is killed, and one with little memory.
//! - `redis`: between gateway and Redis: requests are answered, whatever the quota.
//! - `rejoin`: a client of a kept run, whose connection breaks, comes back.
//! - `slow_clients`: clients that read slowly, with agents that send fast.

mod agent;
mod both_sides;
mod client;
mod killed_gateway;
mod redis;
mod rejoin;
mod slow_clients;

use super::support::client::{Answer, End, post_run};
use super::support::gateway::Gateway;
use super::support::sse::{COMPLETE_RUN, assert_succeeded, events, types};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// The sum of all series of a metric.
async fn metric_total(gateway: &Gateway, metric: &str) -> f64 {
    let answer = gateway.get_status("/metrics").await;
    let series =
        answer.text().lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{')));
    series.map(|line| line.rsplit(' ').next().expect("a value").parse::<f64>().expect("a number")).sum()
}

/// Checks a complete stream: whole events, one terminal event, and that one last.
#[track_caller]
fn assert_one_end(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = events(answer.text());
    let types = types(&events);
    let terminal = types.iter().filter(|kind| matches!(**kind, "RUN_FINISHED" | "RUN_ERROR")).count();
    assert_eq!(terminal, 1, "{types:?}");
    let last = events.last().expect("an event");
    match last["type"].as_str() {
        Some("RUN_FINISHED") => {
            assert_eq!(types, COMPLETE_RUN);
            String::new()
        }
        Some("RUN_ERROR") => {
            assert_eq!(types[..types.len() - 1], COMPLETE_RUN[..types.len() - 1]);
            last["code"].as_str().expect("a code").to_owned()
        }
        _ => panic!("{last} is the last"),
    }
}

/// Requires that the gateway has recovered: nothing is open, the next run succeeds, and a drain ends at once.
async fn assert_recovered(mut gateway: Gateway) {
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
    gateway.process.signal("TERM");
    // Sooner than the drain's own limit, which is longer than any wait of a test here.
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// A run that is left behind would make the drain as long as this, and a few of them leave no room.
const TOP: &str = "drain_timeout: 10m\nlimits: {max_streams: 16}";

/// Opens an HTTP/2 connection whose streams have windows of this many bytes.
pub async fn connect_h2(to: SocketAddr, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(to).await.expect("it listens");
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 24);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

/// Starts a run on it.
async fn start_h2_run(sender: &mut SendRequest<Full<Bytes>>) -> hyper::Result<http::Response<Incoming>> {
    let request = http::Request::post("http://gateway/run").body(Full::new(Bytes::from(super::support::client::INPUT)));
    sender.send_request(request.expect("a request")).await
}

/// Returns the end of a body that was read.
fn body_end<T, E>(result: &Result<T, E>) -> End {
    if result.is_ok() { End::Clean } else { End::Cut }
}
