//! `diglot healthcheck`: what it asks, in what, and what it makes of the answer.

use super::said;
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, INPUT, post};
use crate::support::eventually;
use crate::support::gateway::{File, Gateway, Setup, diglot};
use crate::support::sse::{CLOSED, FINISHED, HEAD, begun, whole};
use crate::support::tls::Authority;
use std::net::{SocketAddr, TcpListener};

/// What it says of the gateway of this configuration.
fn checked(yaml: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = File::new(yaml);
    said(diglot().arg("healthcheck").arg("--config").arg(file.path()).args(more))
}

fn agent() -> Agent {
    Agent::answering(HEAD.to_owned() + &whole())
}

/// A gateway with this listener on its status plane, which has the first port that it says.
async fn with_status(agent: &Agent, status: &str) -> Gateway {
    let listeners = format!("{{data: 127.0.0.1:0, status: {status}}}");
    let top = "trusted_proxies: [127.0.0.1]";
    Gateway::start(Setup { upstreams: &[agent.url()], listeners: &listeners, top, unready: true, ..Setup::default() })
        .await
}

/// In clear, in TLS with a certificate that nobody here believes, behind a header of the PROXY protocol; and the wildcard
/// addresses, to which nobody can connect, at the loopback one.
#[tokio::test]
async fn a_listener_is_asked_in_what_it_speaks() {
    let (agent, authority) = (agent(), Authority::new());
    authority.issue("server", 30);
    let tls = authority.listener("server", "");
    for (listens, asked) in [
        ("127.0.0.1:0".to_owned(), "http://127.0.0.1"),
        ("0.0.0.0:0".to_owned(), "http://127.0.0.1"),
        ("\"[::]:0\"".to_owned(), "http://[::1]"),
        (tls.clone(), "https://127.0.0.1"),
        ("{address: 127.0.0.1:0, proxy_protocol: true}".to_owned(), "http://127.0.0.1"),
        (tls.replace("tls:", "proxy_protocol: true, tls:"), "https://127.0.0.1"),
    ] {
        let gateway = with_status(&agent, &listens).await;
        let port = gateway.status.port();
        let status = listens.replace(":0", &format!(":{port}"));
        // The mistakes are none of its business: the gateway was started before they were made.
        let yaml = format!("listeners: {{status: {status}}}\nroutes: []\nx: 1\n");
        for (more, path) in [(&[][..], "/livez"), (&["--ready"][..], "/readyz")] {
            let what = format!("an answer on {listens}");
            let said = eventually(&what, async || {
                let (code, stdout, stderr) = checked(&yaml, more);
                assert!(code == Some(0) || code == Some(1), "{stderr}");
                (code == Some(0)).then_some(stdout)
            });
            assert_eq!(said.await, format!("{asked}:{port}{path}: 200 ok\n"), "{listens}");
        }
    }
}

#[tokio::test]
async fn sockets_of_the_file_system_are_asked_too() {
    let (agent, authority) = (agent(), Authority::new());
    let (status, run_dir) = (authority.path("status.sock"), authority.path("run"));
    let (status, run_dir) = (status.display(), run_dir.display());
    let listeners = format!("{{data: 127.0.0.1:0, status: [\"unix:{status}\", 127.0.0.1:0]}}");
    let top = format!("run_dir: {run_dir}");
    let setup = Setup { upstreams: &[agent.url()], listeners: &listeners, top: &top, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let (_, url, _) = checked(&format!("listeners: {{status: \"unix:{status}\"}}"), &[]);
    assert_eq!(url, format!("unix:{status}/livez: 200 ok\n"));
    // The status plane is turned off, or nobody is there any more.
    for listeners in ["[]".to_owned(), "127.0.0.1:1".to_owned(), format!("\"unix:{status}.old\"")] {
        let (code, stdout, stderr) = checked(&format!("listeners: {{status: {listeners}}}\n{top}"), &["--ready"]);
        assert_eq!((code, stdout), (Some(0), format!("{run_dir}/readyz: 200 ok\n")), "{stderr}");
    }
    drop(gateway);
    let (code, stdout, stderr) = checked(&format!("listeners: {{status: 127.0.0.1:1}}\n{top}"), &[]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.starts_with("diglot: http://127.0.0.1:1/livez: ") && stderr.contains(&format!("; {run_dir}/livez: "))
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// A process that drains lives and is not ready.
#[tokio::test]
async fn a_gateway_that_drains_is_not_ready() {
    let (first, rest) = (HEAD.to_owned() + &begun(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::playing(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let mut gateway = Gateway::before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    gateway.process.signal("TERM");
    gateway.logged("draining").await;
    let asked =
        |more: &[&str]| said(diglot().args(["healthcheck", "--url", &format!("http://{}", gateway.status)]).args(more));
    assert_eq!(asked(&[]).0, Some(0));
    let expected = format!("diglot: http://{}/readyz: 503 draining\n", gateway.status);
    assert_eq!(asked(&["--ready"]), (Some(1), String::new(), expected));
    agent.go();
}

#[test]
fn what_does_not_answer_is_not_well() {
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = silent.local_addr().expect("an address");
    let (code, stdout, stderr) = said(diglot().args(["healthcheck", "--url", &format!("http://{address}")]));
    let late = "diglot: no answer to /livez within 2s\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(1), "", late));

    let (code, _, stderr) = checked("listeners: {status: []}\n", &[]);
    assert!(code == Some(1) && stderr.contains("nobody can be asked"), "{stderr}");
    // Half a file: the gateway that was started with the whole one listens where it did, most probably there.
    let (code, _, stderr) = checked("listeners: {status: [\n", &[]);
    assert!(code.is_some_and(|code| code < 2) && stderr.contains("asking at the default address"), "{stderr}");
    for wrong in [&["healthcheck"][..], &["healthcheck", "--url", "https://127.0.0.1:8788"]] {
        assert_eq!(said(diglot().args(wrong)).0, Some(2));
    }
}
