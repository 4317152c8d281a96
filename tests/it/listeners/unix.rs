//! Unix sockets: their files, and clients without an address.

use super::super::support::client::{Answer, Client};
use super::super::support::gateway::{Process, TempFile, diglot};
use super::super::support::sse::{COMPLETE_RUN, assert_succeeded};
use super::super::support::within_deadline;
use super::{closing_run_request, start_agent, start_gateway};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::UnixStream;

/// The path of a socket, gone at the end of the test.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new() -> SocketPath {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-{}-{}.sock", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        SocketPath(std::env::temp_dir().join(name))
    }

    fn listener(&self, more: &str) -> String {
        format!("{{address: \"unix:{}\"{more}}}", self.0.display())
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn run(path: &Path, fields: &str) -> Answer {
    let stream = within_deadline("a connection", UnixStream::connect(path)).await.expect("the gateway listens");
    let mut client = Client::over(stream);
    client.send(closing_run_request().replace("Host: gateway", &format!("Host: gateway{fields}"))).await;
    client.read_answer().await
}

#[tokio::test]
async fn sets_socket_permissions_and_removes_the_socket_at_exit() {
    let place = SocketPath::new();
    let agent = start_agent();
    let mut gateway = start_gateway(&agent, &place.listener(", mode: \"0600\""), "").await;
    assert_eq!(std::fs::metadata(&place.0).expect("a socket").permissions().mode() & 0o777, 0o600);
    assert_succeeded(&run(&place.0, "").await, COMPLETE_RUN);
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
    assert!(!place.0.exists());
}

#[tokio::test]
async fn replaces_the_socket_of_a_dead_process_only() {
    let place = SocketPath::new();
    let agent = start_agent();
    let mut first = start_gateway(&agent, &place.listener(""), "").await;
    let second = async || {
        let route = "routes: [{path: /a, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:1/\"}]";
        let text = format!("listeners: {{data: {}, status: []}}\n{route}\n", place.listener(""));
        let file = TempFile::new(&text);
        let mut process = Process::start(diglot().args(["serve", "--config"]).arg(file.path()), false);
        let line = process.line().await.unwrap_or_default();
        // One that listens would never end.
        assert!(!line.contains("listening"), "{line}");
        (process.exit().await.code(), line)
    };
    let (code, line) = second().await;
    assert_eq!(code, Some(69), "{line}");
    assert!(line.contains("another process listens on it"), "{line}");
    assert_succeeded(&run(&place.0, "").await, COMPLETE_RUN);

    first.process.signal("KILL");
    first.process.exit().await;
    assert!(place.0.exists());
    let again = start_gateway(&agent, &place.listener(""), "").await;
    assert_succeeded(&run(&place.0, "").await, COMPLETE_RUN);
    drop(again);

    std::fs::remove_file(&place.0).expect("a socket");
    std::fs::write(&place.0, "somebody's notes").expect("a file");
    let (code, line) = second().await;
    assert_eq!(code, Some(69), "{line}");
    assert_eq!(std::fs::read_to_string(&place.0).expect("a file"), "somebody's notes");
}

/// A peer on the socket has no address. Its forwarded addresses are trusted if `unix` is a trusted proxy.
#[tokio::test]
async fn trusts_x_forwarded_for_on_a_trusted_unix_socket() {
    for (trusted, expected) in [("", None), ("trusted_proxies: [unix]", Some("192.0.2.7"))] {
        let place = SocketPath::new();
        let mut agent = start_agent();
        let _gateway = start_gateway(&agent, &place.listener(""), trusted).await;
        assert_succeeded(&run(&place.0, "\r\nX-Forwarded-For: 192.0.2.7").await, COMPLETE_RUN);
        assert_eq!(agent.next_request().await.header("x-forwarded-for"), expected);
    }
}

/// To a limit that counts by address all of them are one.
#[tokio::test]
async fn shares_one_quota_among_clients_without_an_address() {
    let place = SocketPath::new();
    let agent = start_agent();
    let listeners = format!("{{data: [127.0.0.1:0, {}], status: 127.0.0.1:0}}", place.listener(""));
    let routes = format!(
        "rate_limits: [{{name: few, key: address, requests: 2, per: 1h}}]\nroutes: [{{path: /run, client: ag-ui, agent: ag-ui, upstream: \"{}\", rate_limits: [few]}}]",
        agent.url()
    );
    let setup = super::Setup { listeners: &listeners, routes: &routes, ..super::Setup::default() };
    let gateway = super::Gateway::start(setup).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(run(&place.0, "").await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_succeeded(&super::super::support::client::post_run(gateway.data, "/run").await, COMPLETE_RUN);
}
