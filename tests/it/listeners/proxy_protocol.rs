//! Connections that begin with a header of the PROXY protocol.

use super::super::support::client::Client;
use super::super::support::soon;
use super::super::support::sse::{WHOLE, succeeded};
use super::super::support::tls::Authority;
use super::{answering, gateway, start, start_and_end, turned};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const LISTENER: &str = "{address: 127.0.0.1:0, proxy_protocol: true}";
const TRUSTED: &str = "trusted_proxies: [127.0.0.0/8]";

/// Version 2: PROXY, TCP over IPv4, from 192.0.2.7:4660 to 10.0.0.1:443, with an authority among the vectors.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13\xc0\0\x02\x07\x0a\0\0\x01\x12\x34\x01\xbb\x02\0\x04host";

/// Version 2: LOCAL, as health checks send it.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

const TEXT: &[u8] = b"PROXY TCP6 2001:db8::7 ::1 4660 443\r\n";

#[tokio::test]
async fn the_agent_hears_of_the_client_that_a_trusted_proxy_names() {
    let mut agent = answering();
    let gateway = gateway(&agent, LISTENER, TRUSTED).await;
    let rows = [(BINARY, "192.0.2.7"), (TEXT, "2001:db8::7"), (LOCAL, "127.0.0.1")];
    for (header, address) in rows {
        let mut client = Client::connect(gateway.listening[1]).await;
        client.send(header).await;
        client.send(start_and_end()).await;
        succeeded(&client.answer().await, WHOLE);
        assert_eq!(agent.request().await.header("x-forwarded-for"), Some(address));
    }
}

/// Whom it names is a client, not a proxy: what that says about its own clients is its own word.
#[tokio::test]
async fn a_named_client_is_believed_as_far_as_any_other() {
    let mut agent = answering();
    let gateway = gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    let forged = start_and_end().replace("Host: gateway", "Host: gateway\r\nX-Forwarded-For: 6.6.6.6");
    client.send([BINARY, forged.as_bytes()].concat()).await;
    succeeded(&client.answer().await, WHOLE);
    assert_eq!(agent.request().await.header("x-forwarded-for"), Some("192.0.2.7"));
}

#[tokio::test]
async fn who_is_not_trusted_stays_who_it_is() {
    let mut agent = answering();
    let gateway = gateway(&agent, LISTENER, "trusted_proxies: [10.0.0.0/8]").await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send([BINARY, start_and_end().as_bytes()].concat()).await;
    succeeded(&client.answer().await, WHOLE);
    assert_eq!(agent.request().await.header("x-forwarded-for"), Some("127.0.0.1"));
}

#[tokio::test]
async fn a_connection_without_the_header_is_closed_and_a_listener_without_it_takes_none() {
    let agent = answering();
    let gateway = gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(start_and_end()).await;
    assert!(client.closed().await.is_empty());
    gateway.reaches(&turned("127.0.0.1:0", "proxy_header"), 1.0).await;

    let mut client = Client::connect(gateway.data).await;
    client.send([TEXT, start_and_end().as_bytes()].concat()).await;
    assert_eq!(client.answer().await.status, 400);
    assert_eq!(agent.connections(), 0);
}

/// Five seconds are for a slow network.
#[tokio::test]
async fn half_a_header_is_waited_for_and_then_no_more() {
    let agent = answering();
    let gateway = gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(&BINARY[..15]).await;
    assert!(client.closed().await.is_empty());
    gateway.reaches(&turned("127.0.0.1:0", "proxy_timeout"), 1.0).await;
}

#[tokio::test]
async fn the_header_stands_in_front_of_the_handshake() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let mut agent = answering();
    let listener = authority.listener("leaf", "").replace("127.0.0.1:0,", "127.0.0.1:0, proxy_protocol: true,");
    let gateway = gateway(&agent, &listener, TRUSTED).await;
    let mut stream = TcpStream::connect(gateway.listening[1]).await.expect("the gateway listens");
    soon("sending", stream.write_all(BINARY)).await.expect("the gateway reads");
    let mut client = Client::over(authority.dialer().over(stream).await.expect("a handshake"));
    client.send(start_and_end()).await;
    succeeded(&client.answer().await, WHOLE);
    assert_eq!(agent.request().await.header("x-forwarded-for"), Some("192.0.2.7"));
}

/// The proxy may have any number of connections, each of its clients its share.
#[tokio::test]
async fn connections_are_counted_for_whom_the_header_names() {
    let agent = answering();
    let top = format!("{TRUSTED}\nlimits: {{connections_per_address: 1}}");
    let gateway = gateway(&agent, LISTENER, &top).await;
    let mut held = Vec::new();
    for header in [BINARY, TEXT, LOCAL, LOCAL] {
        let mut client = Client::connect(gateway.listening[1]).await;
        client.send([header, start().as_bytes()].concat()).await;
        succeeded(&client.answer().await, WHOLE);
        held.push(client);
    }
    let mut late = Client::connect(gateway.listening[1]).await;
    late.send(BINARY).await;
    assert_eq!(late.answer().await.status, 503);
    gateway.reaches(&turned("127.0.0.1:0", "address_limit"), 1.0).await;
}
