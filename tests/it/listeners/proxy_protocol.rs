//! Connections that begin with a header of the PROXY protocol.

use super::super::support::client::Client;
use super::super::support::sse::{COMPLETE_RUN, assert_succeeded};
use super::super::support::tls::Authority;
use super::super::support::within_deadline;
use super::{closing_run_request, refused_series, run_request, start_agent, start_gateway};
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
async fn forwards_the_client_address_of_a_proxy_header() {
    let mut agent = start_agent();
    let gateway = start_gateway(&agent, LISTENER, TRUSTED).await;
    let rows = [(BINARY, "192.0.2.7"), (TEXT, "2001:db8::7"), (LOCAL, "127.0.0.1")];
    for (header, address) in rows {
        let mut client = Client::connect(gateway.listening[1]).await;
        client.send(header).await;
        client.send(closing_run_request()).await;
        assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
        assert_eq!(agent.next_request().await.header("x-forwarded-for"), Some(address));
    }
}

/// The named peer is a client, not a proxy, so its forwarding headers are not trusted.
#[tokio::test]
async fn ignores_x_forwarded_for_of_a_client_in_a_proxy_header() {
    let mut agent = start_agent();
    let gateway = start_gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    let forged = closing_run_request().replace("Host: gateway", "Host: gateway\r\nX-Forwarded-For: 6.6.6.6");
    client.send([BINARY, forged.as_bytes()].concat()).await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(agent.next_request().await.header("x-forwarded-for"), Some("192.0.2.7"));
}

#[tokio::test]
async fn ignores_proxy_headers_of_untrusted_peers() {
    let mut agent = start_agent();
    let gateway = start_gateway(&agent, LISTENER, "trusted_proxies: [10.0.0.0/8]").await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send([BINARY, closing_run_request().as_bytes()].concat()).await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(agent.next_request().await.header("x-forwarded-for"), Some("127.0.0.1"));
}

#[tokio::test]
async fn requires_the_proxy_header_exactly_where_configured() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(closing_run_request()).await;
    assert!(client.read_until_closed().await.is_empty());
    gateway.wait_for_metric(&refused_series("127.0.0.1:0", "proxy_header"), 1.0).await;

    let mut client = Client::connect(gateway.data).await;
    client.send([TEXT, closing_run_request().as_bytes()].concat()).await;
    assert_eq!(client.read_answer().await.status, 400);
    assert_eq!(agent.connection_count(), 0);
}

/// Five seconds are for a slow network.
#[tokio::test]
async fn times_out_on_half_a_proxy_header() {
    let agent = start_agent();
    let gateway = start_gateway(&agent, LISTENER, TRUSTED).await;
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(&BINARY[..15]).await;
    assert!(client.read_until_closed().await.is_empty());
    gateway.wait_for_metric(&refused_series("127.0.0.1:0", "proxy_timeout"), 1.0).await;
}

#[tokio::test]
async fn reads_the_proxy_header_before_the_tls_handshake() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let mut agent = start_agent();
    let listener = authority.listener("leaf", "").replace("127.0.0.1:0,", "127.0.0.1:0, proxy_protocol: true,");
    let gateway = start_gateway(&agent, &listener, TRUSTED).await;
    let mut stream = TcpStream::connect(gateway.listening[1]).await.expect("the gateway listens");
    within_deadline("sending", stream.write_all(BINARY)).await.expect("the gateway reads");
    let mut client = Client::over(authority.dialer().handshake(stream).await.expect("a handshake"));
    client.send(closing_run_request()).await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(agent.next_request().await.header("x-forwarded-for"), Some("192.0.2.7"));
}

/// The proxy may have any number of connections, each of its clients its share.
#[tokio::test]
async fn counts_connections_by_the_address_in_the_proxy_header() {
    let agent = start_agent();
    let top = format!("{TRUSTED}\nlimits: {{connections_per_address: 1}}");
    let gateway = start_gateway(&agent, LISTENER, &top).await;
    let mut held = Vec::new();
    for header in [BINARY, TEXT, LOCAL, LOCAL] {
        let mut client = Client::connect(gateway.listening[1]).await;
        client.send([header, run_request().as_bytes()].concat()).await;
        assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
        held.push(client);
    }
    let mut late = Client::connect(gateway.listening[1]).await;
    late.send(BINARY).await;
    assert_eq!(late.read_answer().await.status, 503);
    gateway.wait_for_metric(&refused_series("127.0.0.1:0", "address_limit"), 1.0).await;
}
