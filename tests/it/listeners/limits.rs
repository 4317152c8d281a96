//! Limits on the number of connections.

use super::super::support::client::{Client, post_run};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup, diglot};
use super::super::support::sse::{COMPLETE_RUN, assert_succeeded};
use super::{refused_series, run_request, start_agent, start_gateway};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LISTENER: &str = "127.0.0.1:0";

async fn active_connections(gateway: &Gateway) -> f64 {
    gateway.metric(&format!(r#"diglot_connections_active{{listener="{LISTENER}",plane="data"}}"#)).await
}

async fn open_connections(gateway: &Gateway, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect(gateway.data).await);
    }
    clients
}

#[tokio::test]
async fn answers_503_at_the_connection_limit_and_recovers() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, "127.0.0.1:0", "limits: {connections: 3}").await;
    let held = open_connections(&gateway, 3).await;
    eventually("three connections", async || (active_connections(&gateway).await == 3.0).then_some(())).await;
    // The limit is one for all listeners of the plane.
    for address in [gateway.data, gateway.listening[1]] {
        let mut late = Client::connect(address).await;
        assert_eq!(late.read_answer().await.status, 503);
    }
    gateway.wait_for_metric(&refused_series(LISTENER, "limit"), 2.0).await;
    drop(held);
    eventually("no connections", async || (active_connections(&gateway).await == 0.0).then_some(())).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

/// A connection that is closed with unread bytes is reset, and its client may not see why.
#[tokio::test]
async fn sends_503_also_to_clients_that_are_still_sending() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, "127.0.0.1:0", "limits: {connections: 512}").await;
    let held = open_connections(&gateway, 512).await;
    eventually("all are there", async || (active_connections(&gateway).await == 512.0).then_some(())).await;
    let body = " ".repeat(16 << 10);
    for number in 0..200 {
        let mut late = TcpStream::connect(gateway.data).await.expect("the gateway listens");
        late.write_all(run_request().as_bytes()).await.expect("the head is read");
        late.write_all(body.as_bytes()).await.expect("the body is read");
        let mut answer = Vec::new();
        late.read_to_end(&mut answer).await.unwrap_or_else(|error| panic!("connection {number}: {error}"));
        assert!(answer.starts_with(b"HTTP/1.1 503 "), "connection {number}");
    }
    gateway.wait_for_metric(&refused_series(LISTENER, "limit"), 200.0).await;
    drop(held);
    eventually("no connections", async || (active_connections(&gateway).await == 0.0).then_some(())).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

#[tokio::test]
async fn limits_connections_per_address_but_not_of_trusted_proxies() {
    let agent = start_agent();
    for (trusted, refused) in [("", true), ("\ntrusted_proxies: [127.0.0.1]", false)] {
        let top = format!("limits: {{connections_per_address: 2}}{trusted}");
        let gateway = start_gateway(&agent, "127.0.0.1:0", &top).await;
        let mut held = open_connections(&gateway, 2).await;
        eventually("both are there", async || (active_connections(&gateway).await == 2.0).then_some(())).await;
        for _ in 0..3 {
            let mut late = Client::connect(gateway.data).await;
            if refused {
                assert_eq!(late.read_answer().await.status, 503);
            } else {
                late.send(run_request()).await;
                assert_succeeded(&late.read_answer().await, COMPLETE_RUN);
            }
        }
        let series = refused_series(LISTENER, "address_limit");
        assert_eq!(gateway.metric(&series).await, if refused { 3.0 } else { 0.0 });
        held[0].send(run_request()).await;
        assert_succeeded(&held[0].read_answer().await, COMPLETE_RUN);
    }
}

/// With a small `ulimit -n` and all descriptors in use, accepting pauses, and resumes later.
#[tokio::test]
async fn pauses_accepting_without_file_descriptors_and_recovers() {
    let agent = start_agent();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 96; exec \"$0\" \"$@\""]).arg(diglot().get_program());
    command.env_remove("DIGLOT_CONFIG").env_remove("DIGLOT_LOG");
    let mut gateway = Gateway::start_by(command, Setup { upstreams: &[agent.url()], ..Setup::default() }).await;
    let line = gateway.next_log("fewer connections than limits.connections are accepted: each connection needs two file descriptors; raise the limit (ulimit -n, LimitNOFILE)").await;
    assert_eq!((line["limit"].as_u64(), line["room"].as_u64()), (Some(96), Some(16)));
    // The status plane has no limit of its own.
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(gateway.status).await.expect("the system takes it"));
    }
    gateway.next_log("no connection can be accepted; trying again").await;
    drop(held);
    gateway.next_log("connections are accepted again").await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    let failures = format!(r#"diglot_accept_failures_total{{listener="{LISTENER}",plane="status"}}"#);
    assert!(gateway.metric(&failures).await >= 1.0);
}

/// With two thousand silent connections, requests are still answered.
#[tokio::test]
async fn serves_requests_despite_thousands_of_idle_connections() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, "127.0.0.1:0", "").await;
    let mut held = Vec::new();
    for _ in 0..2000 {
        held.push(TcpStream::connect(gateway.data).await.expect("the gateway listens"));
    }
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    eventually("all are there", async || (active_connections(&gateway).await >= 2000.0).then_some(())).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}
