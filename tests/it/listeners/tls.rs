//! TLS on listeners: real handshakes, certificates that change, certificates of clients.

use super::super::support::client::{Client, INPUT};
use super::super::support::gateway::{File, Gateway, diglot};
use super::super::support::sse::{WHOLE, succeeded};
use super::super::support::tls::{Authority, Dialer};
use super::super::support::{eventually, soon};
use super::{answering, gateway, halfway, start, start_and_end, turned};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The listener of these tests, as metrics call it. The plain one in front of it has the same name.
const LISTENER: &str = "127.0.0.1:0";

async fn served(dialer: &Dialer, to: SocketAddr) {
    let stream = dialer.dial(to).await.expect("a handshake");
    let mut client = Client::over(stream);
    client.send(start_and_end()).await;
    succeeded(&client.answer().await, WHOLE);
}

/// Whether the gateway lets a client in. With TLS 1.3 a client learns that it is turned away after its own side is done.
async fn let_in(dialer: &Dialer, to: SocketAddr) -> bool {
    let Ok(mut stream) = dialer.dial(to).await else { return false };
    let mut client = Client::over(&mut stream);
    client.send(start_and_end()).await;
    !client.closed().await.is_empty()
}

#[tokio::test]
async fn both_versions_are_spoken_and_the_agent_hears_of_it() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let mut agent = answering();
    let gateway = gateway(&agent, &authority.listener("leaf", ""), "").await;
    for dialer in [authority.dialer(), authority.dialer().old(), authority.dialer().asking("http/1.1")] {
        served(&dialer, gateway.listening[1]).await;
        assert_eq!(agent.request().await.header("x-forwarded-proto"), Some("https"));
    }
    let stream = authority.dialer().asking("h2").dial(gateway.listening[1]).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // What is no TLS, and what asks for a protocol that nobody speaks here.
    let mut client = Client::connect(gateway.listening[1]).await;
    client.send(start()).await;
    client.closed().await;
    assert!(authority.dialer().asking("imap").dial(gateway.listening[1]).await.is_err());
    gateway.reaches(&turned(LISTENER, "tls_handshake"), 2.0).await;
}

/// A client that nobody here has written.
#[tokio::test]
async fn curl_speaks_http_2_over_tls_and_shows_its_certificate() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    authority.issue("client", 30);
    let agent = answering();
    let clients = format!(", client_ca: {}", authority.path("ca.pem").display());
    let gateway = gateway(&agent, &authority.listener("leaf", &clients), "").await;
    let url = format!("https://localhost:{}/run", gateway.listening[1].port());
    let curl = async |more: &[&str]| {
        let mut command = tokio::task::spawn_blocking({
            let mut command = Command::new("curl");
            command.args(["-sS", "--max-time", "15", "--http2", "--cacert"]).arg(authority.path("ca.pem"));
            command.args(["-w", "\n%{http_version} %{http_code}", "-H", "content-type: application/json", "-d", INPUT]);
            command.args(more).arg(&url);
            move || command.output().expect("curl is installed")
        });
        soon("curl", &mut command).await.expect("no panic")
    };
    let (cert, key) = (authority.path("client.pem"), authority.path("client.key"));
    let shown = curl(&["--cert", cert.to_str().expect("a path"), "--key", key.to_str().expect("a path")]).await;
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && said.contains("RUN_FINISHED") && said.ends_with("\n2 200"), "{shown:?}");
    let without = curl(&[]).await;
    assert!(!without.status.success(), "{without:?}");
    gateway.reaches(&turned(LISTENER, "tls_certificate"), 1.0).await;
}

#[tokio::test]
async fn only_clients_of_the_authority_come_in() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    authority.issue("leaf", 30);
    authority.issue("client", 30);
    authority.issue("late", -1);
    stranger.issue("client", 30);
    let agent = answering();
    let clients = format!(", client_ca: {}", authority.path("ca.pem").display());
    let required = authority.listener("leaf", &clients);
    let optional = authority.listener("leaf", &format!("{clients}, client_auth: optional"));
    let gateway = gateway(&agent, &format!("{required}, {optional}"), "").await;
    let (required, optional) = (gateway.listening[1], gateway.listening[2]);
    let dialers = [
        (authority.dialer().showing(&authority, "client"), true, true),
        (authority.dialer(), false, true),
        (authority.dialer().showing(&stranger, "client"), false, false),
        (authority.dialer().showing(&authority, "late"), false, false),
    ];
    for (index, (dialer, one, other)) in dialers.iter().enumerate() {
        assert_eq!((let_in(dialer, required).await, let_in(dialer, optional).await), (*one, *other), "row {index}");
    }
    gateway.reaches(&turned(LISTENER, "tls_certificate"), 5.0).await;
    let old = authority.dialer().old();
    assert!(!let_in(&old, required).await);
    assert!(let_in(&authority.dialer().old().showing(&authority, "client"), required).await);
}

/// A mounted Secret: the name is a link into a folder, which is changed as a whole.
#[tokio::test]
async fn a_certificate_that_changes_is_shown_and_open_streams_go_on() {
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
    let agent = halfway();
    let mut gateway = gateway(&agent, &listener, "").await;
    let to = gateway.listening[1];
    let shown = async || {
        let stream = authority.dialer().dial(to).await.expect("a handshake");
        stream.get_ref().1.peer_certificates().expect("certificates")[0].clone()
    };
    let first = authority.certificate("first.pem");
    assert_eq!(shown().await, first);

    let mut open = Client::over(authority.dialer().dial(to).await.expect("a handshake"));
    open.send(start_and_end()).await;
    let head = open.head().await;
    let heard = open.until("你好").await;

    // The key of another certificate, a file that is half written, and a certificate that has ended change nothing.
    let reloads =
        |result: &str| format!(r#"diglot_tls_reloads_total{{listener="{LISTENER}",plane="data",result="{result}"}}"#);
    mount("second", "first");
    let line = gateway.logged("certificate cannot be used; the last good one stays").await;
    assert!(line["cause"].as_str().expect("a cause").contains("the key of another certificate"), "{line}");
    let whole = std::fs::read(authority.path("second.pem")).expect("a file");
    std::fs::write(&cert, &whole[..whole.len() / 2]).expect("a file");
    gateway.logged("certificate cannot be used; the last good one stays").await;
    mount("late", "late");
    let line = gateway.logged("certificate cannot be used; the last good one stays").await;
    assert!(line["cause"].as_str().expect("a cause").contains("has expired"), "{line}");
    assert_eq!((shown().await, gateway.metric(&reloads("refused")).await), (first, 3.0));

    let ends = format!(r#"diglot_tls_cert_not_after_timestamp_seconds{{listener="{LISTENER}",plane="data"}}"#);
    let before = gateway.metric(&ends).await;
    assert!(before > 0.0);
    mount("second", "second");
    gateway.logged("certificate read again").await;
    assert_eq!(shown().await, authority.certificate("second.pem"));
    assert_eq!(gateway.metric(&reloads("taken")).await, 1.0);
    assert!(gateway.metric(&ends).await >= before);

    agent.go();
    let (rest, end) = open.rest().await;
    let mut answer = head;
    (answer.body, answer.end) = ([heard.into_bytes(), rest].concat(), end);
    succeeded(&answer, WHOLE);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_shown_at_its_line_and_an_old_one_is_served() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    authority.issue("late", -1);
    let listener = authority.listener("leaf", "").replace("leaf.key", "late.key");
    let route = "routes: [{path: /a, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:1/\"}]";
    let file = File::new(&format!("listeners:\n  status: 127.0.0.1:0\n  data: {listener}\n{route}\n"));
    for command in [["check"].as_slice(), &["serve", "--config"]] {
        let done = diglot().args(command).arg(file.path()).output().expect("it runs");
        let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert_eq!(done.status.code(), Some(78), "{said}");
        assert!(said.contains(":3:") && said.contains("this is the key of another certificate"), "{said}");
    }
    let agent = answering();
    let mut gateway = gateway(&agent, &authority.listener("late", ""), "").await;
    gateway.logged("the certificate has expired").await;
    assert!(authority.dialer().dial(gateway.listening[1]).await.is_err());
}

#[tokio::test]
async fn metrics_are_had_over_tls() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let agent = answering();
    // A second listener of the status plane, beside the one that the tests ask.
    let listeners = format!("{{data: [127.0.0.1:0], status: [{}, 127.0.0.1:0]}}", authority.listener("leaf", ""));
    let setup = super::Setup { upstreams: &[agent.url()], listeners: &listeners, ..super::Setup::default() };
    let mut gateway = Gateway::start(super::Setup { unready: true, ..setup }).await;
    let stream = authority.dialer().dial(gateway.status).await.expect("a handshake");
    let mut client = Client::over(stream);
    client.send("GET /metrics HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n").await;
    assert!(client.answer().await.text().contains("diglot_tls_cert_not_after_timestamp_seconds{"));
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}

/// Who connects and says nothing, or half of a handshake, is closed; ten seconds are for a slow network.
#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let authority = Authority::new();
    authority.issue("leaf", 30);
    let agent = answering();
    let gateway = gateway(&agent, &authority.listener("leaf", ""), "").await;
    let mut silent = TcpStream::connect(gateway.listening[1]).await.expect("the gateway listens");
    assert_eq!(soon("the end", silent.read(&mut [0; 1])).await.unwrap_or(0), 0);
    let series = turned(LISTENER, "tls_timeout");
    eventually("it is counted", async || (gateway.metric(&series).await == 1.0).then_some(())).await;
}
