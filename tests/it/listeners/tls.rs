//! TLS on listeners: real handshakes, certificates that change, client certificates.

use super::super::support::client::{Client, INPUT};
use super::super::support::gateway::{Gateway, TempFile, diglot};
use super::super::support::sse::{COMPLETE_RUN, assert_succeeded};
use super::super::support::tls::{Authority, Dialer};
use super::super::support::{eventually, within_deadline};
use super::{closing_run_request, refused_series, run_request, start_agent, start_gateway, start_paused_agent};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The listener of these tests, as metrics call it. The plain one in front of it has the same name.
const LISTENER: &str = "127.0.0.1:0";

async fn assert_served(dialer: &Dialer, to: SocketAddr) {
    let stream = dialer.dial(to).await.expect("a handshake");
    let mut client = Client::over(stream);
    client.send(closing_run_request()).await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
}

/// Returns whether the gateway accepts a client. With TLS 1.3 a client notices the rejection after its own handshake.
async fn is_accepted(dialer: &Dialer, to: SocketAddr) -> bool {
    let Ok(mut stream) = dialer.dial(to).await else { return false };
    let mut client = Client::over(&mut stream);
    client.send(closing_run_request()).await;
    !client.read_until_closed().await.is_empty()
}

#[tokio::test]
async fn serves_both_tls_versions_and_forwards_https() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let mut agent = start_agent();
    let gateway = start_gateway(&agent, &authority.listener("leaf", ""), "").await;
    for dialer in [authority.dialer(), authority.dialer().with_tls_1_2(), authority.dialer().with_protocol("http/1.1")]
    {
        assert_served(&dialer, gateway.listening[1]).await;
        assert_eq!(agent.next_request().await.header("x-forwarded-proto"), Some("https"));
    }
    let stream = authority.dialer().with_protocol("h2").dial(gateway.listening[1]).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // Bytes that are not TLS, and a client that requests an unsupported protocol.
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(run_request()).await;
    client.read_until_closed().await;
    assert!(authority.dialer().with_protocol("imap").dial(gateway.listening[1]).await.is_err());
    gateway.wait_for_metric(&refused_series(LISTENER, "tls_handshake"), 2.0).await;
}

/// A client that is not our own.
#[tokio::test]
async fn serves_curl_over_h2_with_a_client_certificate() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    authority.issue("client", 30);
    let agent = start_agent();
    let clients = format!(", client_ca: {}", authority.path("ca.pem").display());
    let gateway = start_gateway(&agent, &authority.listener("leaf", &clients), "").await;
    let url = format!("https://localhost:{}/run", gateway.listening[1].port());
    let curl = async |more: &[&str]| {
        let mut command = tokio::task::spawn_blocking({
            let mut command = Command::new("curl");
            command.args(["-sS", "--max-time", "15", "--http2", "--cacert"]).arg(authority.path("ca.pem"));
            command.args(["-w", "\n%{http_version} %{http_code}", "-H", "content-type: application/json", "-d", INPUT]);
            command.args(more).arg(&url);
            move || command.output().expect("curl is installed")
        });
        within_deadline("curl", &mut command).await.expect("no panic")
    };
    let (cert, key) = (authority.path("client.pem"), authority.path("client.key"));
    let shown = curl(&["--cert", cert.to_str().expect("a path"), "--key", key.to_str().expect("a path")]).await;
    let printed = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && printed.contains("RUN_FINISHED") && printed.ends_with("\n2 200"), "{shown:?}");
    let without = curl(&[]).await;
    assert!(!without.status.success(), "{without:?}");
    gateway.wait_for_metric(&refused_series(LISTENER, "tls_certificate"), 1.0).await;
}

#[tokio::test]
async fn accepts_only_client_certificates_of_the_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.issue("leaf", 30);
    authority.issue("client", 30);
    authority.issue("late", -1);
    stranger.issue("client", 30);
    let agent = start_agent();
    let clients = format!(", client_ca: {}", authority.path("ca.pem").display());
    let required = authority.listener("leaf", &clients);
    let optional = authority.listener("leaf", &format!("{clients}, client_auth: optional"));
    let gateway = start_gateway(&agent, &format!("{required}, {optional}"), "").await;
    let (required, optional) = (gateway.listening[1], gateway.listening[2]);
    let dialers = [
        (authority.dialer().with_certificate(&authority, "client"), true, true),
        (authority.dialer(), false, true),
        (authority.dialer().with_certificate(&stranger, "client"), false, false),
        (authority.dialer().with_certificate(&authority, "late"), false, false),
    ];
    for (index, (dialer, one, other)) in dialers.iter().enumerate() {
        assert_eq!(
            (is_accepted(dialer, required).await, is_accepted(dialer, optional).await),
            (*one, *other),
            "row {index}"
        );
    }
    gateway.wait_for_metric(&refused_series(LISTENER, "tls_certificate"), 5.0).await;
    let old = authority.dialer().with_tls_1_2();
    assert!(!is_accepted(&old, required).await);
    assert!(is_accepted(&authority.dialer().with_tls_1_2().with_certificate(&authority, "client"), required).await);
}

/// A mounted Secret: the name is a link into a folder, which is changed as a whole.
#[tokio::test]
async fn reloads_certificates_and_keeps_open_streams() {
    let authority = Authority::new();
    for name in ["first", "second"] {
        authority.issue(name, 30);
    }
    authority.issue("late", -1);
    let mount = |name: &str, key: &str| {
        let folder = authority.path(&format!("{name}-{key}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(authority.path(&format!("{name}.pem")), folder.join("tls.crt")).expect("a file");
        std::fs::copy(authority.path(&format!("{key}.key")), folder.join("tls.key")).expect("a file");
        let _ = std::fs::remove_file(authority.path("new"));
        symlink(folder, authority.path("new")).expect("a link");
        std::fs::rename(authority.path("new"), authority.path("data")).expect("a link");
    };
    mount("first", "first");
    let (cert, key) = (authority.path("data/tls.crt"), authority.path("data/tls.key"));
    let listener = format!("{{address: 127.0.0.1:0, tls: {{cert: {}, key: {}}}}}", cert.display(), key.display());
    let agent = start_paused_agent();
    let mut gateway = start_gateway(&agent, &listener, "").await;
    let to = gateway.listening[1];
    let shown = async || {
        let stream = authority.dialer().dial(to).await.expect("a handshake");
        stream.get_ref().1.peer_certificates().expect("certificates")[0].clone()
    };
    let first = authority.certificate("first.pem");
    assert_eq!(shown().await, first);

    let mut open = Client::over(authority.dialer().dial(to).await.expect("a handshake"));
    open.send(closing_run_request()).await;
    let head = open.read_head().await;
    let received = open.read_until("你好").await;

    // The key of another certificate, a file that is half written, and a certificate that has ended change nothing.
    let reloads =
        |result: &str| format!(r#"diglot_tls_reloads_total{{listener="{LISTENER}",plane="data",result="{result}"}}"#);
    mount("second", "first");
    let line = gateway.next_log("certificate cannot be used; the last good one stays").await;
    assert!(line["cause"].as_str().expect("a cause").contains("the key of another certificate"), "{line}");
    let whole = std::fs::read(authority.path("second.pem")).expect("a file");
    std::fs::write(&cert, &whole[..whole.len() / 2]).expect("a file");
    gateway.next_log("certificate cannot be used; the last good one stays").await;
    mount("late", "late");
    let line = gateway.next_log("certificate cannot be used; the last good one stays").await;
    assert!(line["cause"].as_str().expect("a cause").contains("has expired"), "{line}");
    assert_eq!((shown().await, gateway.metric(&reloads("refused")).await), (first, 3.0));

    let ends = format!(r#"diglot_tls_cert_not_after_timestamp_seconds{{listener="{LISTENER}",plane="data"}}"#);
    let before = gateway.metric(&ends).await;
    assert!(before > 0.0);
    mount("second", "second");
    gateway.next_log("certificate read again").await;
    assert_eq!(shown().await, authority.certificate("second.pem"));
    assert_eq!(gateway.metric(&reloads("taken")).await, 1.0);
    assert!(gateway.metric(&ends).await >= before);

    agent.resume();
    let (rest, end) = open.read_rest().await;
    let mut answer = head;
    (answer.body, answer.end) = ([received.into_bytes(), rest].concat(), end);
    assert_succeeded(&answer, COMPLETE_RUN);
}

#[tokio::test]
async fn rejects_a_mismatched_key_and_serves_an_expired_certificate() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    authority.issue("late", -1);
    let listener = authority.listener("leaf", "").replace("leaf.key", "late.key");
    let route = "routes: [{path: /a, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:1/\"}]";
    let file = TempFile::new(&format!("listeners:\n  status: 127.0.0.1:0\n  data: {listener}\n{route}\n"));
    for command in [["check"].as_slice(), &["serve", "--config"]] {
        let done = diglot().args(command).arg(file.path()).output().expect("it runs");
        let printed = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert_eq!(done.status.code(), Some(78), "{printed}");
        assert!(printed.contains(":3:") && printed.contains("this is the key of another certificate"), "{printed}");
    }
    let agent = start_agent();
    let mut gateway = start_gateway(&agent, &authority.listener("late", ""), "").await;
    gateway.next_log("the certificate has expired").await;
    assert!(authority.dialer().dial(gateway.listening[1]).await.is_err());
}

#[tokio::test]
async fn serves_metrics_over_tls() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let agent = start_agent();
    // A second listener of the status plane, in addition to the one that the tests use.
    let listeners = format!("{{data: [127.0.0.1:0], status: [{}, 127.0.0.1:0]}}", authority.listener("leaf", ""));
    let setup = super::Setup { upstreams: &[agent.url()], listeners: &listeners, ..super::Setup::default() };
    let mut gateway = Gateway::start(super::Setup { unready: true, ..setup }).await;
    let stream = authority.dialer().dial(gateway.status).await.expect("a handshake");
    let mut client = Client::over(stream);
    client.send("GET /metrics HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n").await;
    assert!(client.read_answer().await.text().contains("diglot_tls_cert_not_after_timestamp_seconds{"));
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// A connection that sends nothing, or half a handshake, is closed; ten seconds allow for a slow network.
#[tokio::test]
async fn times_out_unfinished_tls_handshakes() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let agent = start_agent();
    let gateway = start_gateway(&agent, &authority.listener("leaf", ""), "").await;
    let mut silent = TcpStream::connect(gateway.listening[1]).await.expect("the gateway listens");
    assert_eq!(within_deadline("the end", silent.read(&mut [0; 1])).await.unwrap_or(0), 0);
    let series = refused_series(LISTENER, "tls_timeout");
    eventually("it is counted", async || (gateway.metric(&series).await == 1.0).then_some(())).await;
}
