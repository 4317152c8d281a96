//! Unix sockets: their files, and clients without an address.

use super::super::support::client::{Answer, Client};
use super::super::support::gateway::{File, Process, diglot};
use super::super::support::soon;
use super::super::support::sse::{WHOLE, succeeded};
use super::{answering, gateway, start_and_end};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::UnixStream;

/// The path of a socket, gone at the end of the test.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("diglot-{}-{}.sock", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Place(std::env::temp_dir().join(name))
    }

    fn listener(&self, more: &str) -> String {
        format!("{{address: \"unix:{}\"{more}}}", self.0.display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn run(path: &Path, fields: &str) -> Answer {
    let stream = soon("a connection", UnixStream::connect(path)).await.expect("the gateway listens");
    let mut client = Client::over(stream);
    client.send(start_and_end().replace("Host: gateway", &format!("Host: gateway{fields}"))).await;
    client.answer().await
}

#[tokio::test]
async fn a_socket_serves_with_its_permissions_and_goes_with_its_process() {
    let place = Place::new();
    let agent = answering();
    let mut gateway = gateway(&agent, &place.listener(", mode: \"0600\""), "").await;
    assert_eq!(std::fs::metadata(&place.0).expect("a socket").permissions().mode() & 0o777, 0o600);
    succeeded(&run(&place.0, "").await, WHOLE);
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.exit().await.code(), Some(0));
    assert!(!place.0.exists());
}

#[tokio::test]
async fn the_socket_of_a_dead_process_is_replaced_and_that_of_a_live_one_is_not() {
    let place = Place::new();
    let agent = answering();
    let mut first = gateway(&agent, &place.listener(""), "").await;
    let second = async || {
        let route = "routes: [{path: /a, client: ag-ui, agent: ag-ui, upstream: \"http://127.0.0.1:1/\"}]";
        let text = format!("listeners: {{data: {}, status: []}}\n{route}\n", place.listener(""));
        let file = File::new(&text);
        let mut process = Process::start(diglot().args(["serve", "--config"]).arg(file.path()), false);
        let said = process.line().await.unwrap_or_default();
        // One that listens would never end.
        assert!(!said.contains("listening"), "{said}");
        (process.exit().await.code(), said)
    };
    let (code, said) = second().await;
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("another process listens there"), "{said}");
    succeeded(&run(&place.0, "").await, WHOLE);

    first.process.signal("KILL");
    first.process.exit().await;
    assert!(place.0.exists());
    let again = gateway(&agent, &place.listener(""), "").await;
    succeeded(&run(&place.0, "").await, WHOLE);
    drop(again);

    std::fs::remove_file(&place.0).expect("a socket");
    std::fs::write(&place.0, "somebody's notes").expect("a file");
    let (code, said) = second().await;
    assert_eq!(code, Some(69), "{said}");
    assert_eq!(std::fs::read_to_string(&place.0).expect("a file"), "somebody's notes");
}

/// Who opens the socket has no address. It is believed about its clients where `unix` is trusted.
#[tokio::test]
async fn clients_of_a_socket_are_who_a_trusted_proxy_says() {
    for (trusted, expected) in [("", None), ("trusted_proxies: [unix]", Some("192.0.2.7"))] {
        let place = Place::new();
        let mut agent = answering();
        let _gateway = gateway(&agent, &place.listener(""), trusted).await;
        succeeded(&run(&place.0, "\r\nX-Forwarded-For: 192.0.2.7").await, WHOLE);
        assert_eq!(agent.request().await.header("x-forwarded-for"), expected);
    }
}

/// To a limit that counts by address all of them are one.
#[tokio::test]
async fn clients_without_an_address_share_one_quota() {
    let place = Place::new();
    let agent = answering();
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
    succeeded(&super::super::support::client::run(gateway.data, "/run").await, WHOLE);
}
