//! How many connections there may be.

use super::super::support::client::{Client, run};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup, diglot};
use super::super::support::sse::{WHOLE, succeeded};
use super::{answering, gateway, start, turned};
use std::process::Command;
use tokio::net::TcpStream;

const LISTENER: &str = "127.0.0.1:0";

async fn active(gateway: &Gateway) -> f64 {
    gateway.metric(&format!(r#"diglot_connections_active{{listener="{LISTENER}",plane="data"}}"#)).await
}

async fn connected(gateway: &Gateway, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect(gateway.data).await);
    }
    clients
}

#[tokio::test]
async fn a_full_house_says_so_and_has_room_again() {
    let agent = answering();
    let gateway = gateway(&agent, "127.0.0.1:0", "limits: {connections: 3}").await;
    let held = connected(&gateway, 3).await;
    eventually("three connections", async || (active(&gateway).await == 3.0).then_some(())).await;
    // The limit is one for all listeners of the plane.
    for address in [gateway.data, gateway.listening[1]] {
        let mut late = Client::connect(address).await;
        assert_eq!(late.answer().await.status, 503);
    }
    gateway.reaches(&turned(LISTENER, "limit"), 2.0).await;
    drop(held);
    eventually("no connections", async || (active(&gateway).await == 0.0).then_some(())).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}

#[tokio::test]
async fn an_address_has_its_share_and_a_trusted_proxy_any_number() {
    let agent = answering();
    for (trusted, refused) in [("", true), ("\ntrusted_proxies: [127.0.0.1]", false)] {
        let top = format!("limits: {{connections_per_address: 2}}{trusted}");
        let gateway = gateway(&agent, "127.0.0.1:0", &top).await;
        let mut held = connected(&gateway, 2).await;
        eventually("both are there", async || (active(&gateway).await == 2.0).then_some(())).await;
        for _ in 0..3 {
            let mut late = Client::connect(gateway.data).await;
            if refused {
                assert_eq!(late.answer().await.status, 503);
            } else {
                late.send(start()).await;
                succeeded(&late.answer().await, WHOLE);
            }
        }
        let series = turned(LISTENER, "address_limit");
        assert_eq!(gateway.metric(&series).await, if refused { 3.0 } else { 0.0 });
        held[0].send(start()).await;
        succeeded(&held[0].answer().await, WHOLE);
    }
}

/// `ulimit -n` is small, and somebody holds all that there is: accepting pauses, and goes on.
#[tokio::test]
async fn without_descriptors_it_waits_and_recovers() {
    let agent = answering();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 96; exec \"$0\" \"$@\""]).arg(diglot().get_program());
    command.env_remove("DIGLOT_CONFIG").env_remove("DIGLOT_LOG");
    let mut gateway = Gateway::start_by(command, Setup { upstreams: &[agent.url()], ..Setup::default() }).await;
    let line = gateway.logged("fewer connections than limits.connections are taken: each needs two files; raise the limit (ulimit -n, LimitNOFILE)").await;
    assert_eq!((line["limit"].as_u64(), line["room"].as_u64()), (Some(96), Some(16)));
    // The status plane has no limit of its own.
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(gateway.status).await.expect("the system takes it"));
    }
    gateway.logged("no connection can be accepted; trying again").await;
    drop(held);
    gateway.logged("connections are accepted again").await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    let failures = format!(r#"diglot_accept_failures_total{{listener="{LISTENER}",plane="status"}}"#);
    assert!(gateway.metric(&failures).await >= 1.0);
}

/// Two thousand that say nothing: who asks is answered.
#[tokio::test]
async fn idle_connections_are_in_nobodys_way() {
    let agent = answering();
    let gateway = gateway(&agent, "127.0.0.1:0", "").await;
    let mut held = Vec::new();
    for _ in 0..2000 {
        held.push(TcpStream::connect(gateway.data).await.expect("the gateway listens"));
    }
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    eventually("all are there", async || (active(&gateway).await >= 2000.0).then_some(())).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}
