//! `diglot healthcheck`: its request, over each transport, and its exit code.

use super::run_command;
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, INPUT, post};
use crate::support::eventually;
use crate::support::gateway::{Gateway, Setup, TempFile, diglot};
use crate::support::sse::{CLOSED, FINISHED, HEAD, complete_run, run_beginning};
use crate::support::tls::Authority;
use std::net::{SocketAddr, TcpListener};

/// Runs the health check with this configuration.
fn run_healthcheck(yaml: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = TempFile::new(yaml);
    run_command(diglot().arg("healthcheck").arg("--config").arg(file.path()).args(more))
}

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Starts a gateway with this listener on its status plane; returns its first port.
async fn start_with_status_listener(agent: &Agent, status: &str) -> Gateway {
    let listeners = format!("{{data: 127.0.0.1:0, status: {status}}}");
    let top = "trusted_proxies: [127.0.0.1]";
    Gateway::start(Setup { upstreams: &[agent.url()], listeners: &listeners, top, unready: true, ..Setup::default() })
        .await
}

/// Without TLS, over TLS with an untrusted certificate, with a PROXY protocol header; and wildcard addresses, which are
/// reached through loopback.
#[tokio::test]
async fn probes_listeners_over_http_tls_and_proxy_protocol() {
    let (agent, authority) = (start_agent(), Authority::new());
    authority.issue("server", 30);
    let tls = authority.listener("server", "");
    for (listens, probed) in [
        ("127.0.0.1:0".to_owned(), "http://127.0.0.1"),
        ("0.0.0.0:0".to_owned(), "http://127.0.0.1"),
        ("\"[::]:0\"".to_owned(), "http://[::1]"),
        (tls.clone(), "https://127.0.0.1"),
        ("{address: 127.0.0.1:0, proxy_protocol: true}".to_owned(), "http://127.0.0.1"),
        (tls.replace("tls:", "proxy_protocol: true, tls:"), "https://127.0.0.1"),
    ] {
        let gateway = start_with_status_listener(&agent, &listens).await;
        let port = gateway.status.port();
        let status = listens.replace(":0", &format!(":{port}"));
        // The mistakes do not matter: the gateway was started before them.
        let yaml = format!("listeners: {{status: {status}}}\nroutes: []\nx: 1\n");
        for (more, path) in [(&[][..], "/livez"), (&["--ready"][..], "/readyz")] {
            let what = format!("an answer on {listens}");
            let output = eventually(&what, async || {
                let (code, stdout, stderr) = run_healthcheck(&yaml, more);
                assert!(code == Some(0) || code == Some(1), "{stderr}");
                (code == Some(0)).then_some(stdout)
            });
            assert_eq!(output.await, format!("{probed}:{port}{path}: 200 ok\n"), "{listens}");
        }
    }
}

#[tokio::test]
async fn probes_unix_sockets() {
    let (agent, authority) = (start_agent(), Authority::new());
    let (status, run_dir) = (authority.path("status.sock"), authority.path("run"));
    let (status, run_dir) = (status.display(), run_dir.display());
    let listeners = format!("{{data: 127.0.0.1:0, status: [\"unix:{status}\", 127.0.0.1:0]}}");
    let top = format!("run_dir: {run_dir}");
    let setup = Setup { upstreams: &[agent.url()], listeners: &listeners, top: &top, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let (_, url, _) = run_healthcheck(&format!("listeners: {{status: \"unix:{status}\"}}"), &[]);
    assert_eq!(url, format!("unix:{status}/livez: 200 ok\n"));
    // The status plane is turned off, or nothing listens any more.
    for listeners in ["[]".to_owned(), "127.0.0.1:1".to_owned(), format!("\"unix:{status}.old\"")] {
        let (code, stdout, stderr) =
            run_healthcheck(&format!("listeners: {{status: {listeners}}}\n{top}"), &["--ready"]);
        assert_eq!((code, stdout), (Some(0), format!("{run_dir}/readyz: 200 ok\n")), "{stderr}");
    }
    drop(gateway);
    let (code, stdout, stderr) = run_healthcheck(&format!("listeners: {{status: 127.0.0.1:1}}\n{top}"), &[]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.starts_with("diglot: http://127.0.0.1:1/livez: ") && stderr.contains(&format!("; {run_dir}/livez: "))
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// A process that drains lives and is not ready.
#[tokio::test]
async fn reports_a_draining_gateway_as_alive_but_not_ready() {
    let (first, rest) = (HEAD.to_owned() + &run_beginning(), CLOSED.to_owned() + FINISHED);
    let agent = Agent::with_script(vec![Step::Read, write(first), Step::Pause, write(rest)]);
    let mut gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    let run_check = |more: &[&str]| {
        run_command(diglot().args(["healthcheck", "--url", &format!("http://{}", gateway.status)]).args(more))
    };
    assert_eq!(run_check(&[]).0, Some(0));
    let expected = format!("diglot: http://{}/readyz: 503 draining\n", gateway.status);
    assert_eq!(run_check(&["--ready"]), (Some(1), String::new(), expected));
    agent.resume();
}

#[test]
fn reports_unreachable_gateways_as_unhealthy() {
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = silent.local_addr().expect("an address");
    let (code, stdout, stderr) = run_command(diglot().args(["healthcheck", "--url", &format!("http://{address}")]));
    let late = "diglot: no answer to /livez within 2s; is the gateway running?\n";
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(1), "", late));

    let (code, _, stderr) = run_healthcheck("listeners: {status: []}\n", &[]);
    assert!(code == Some(1) && stderr.contains("no health endpoint"), "{stderr}");
    // Half a file: the gateway that was started with the whole one listens where it did, most probably there.
    let (code, _, stderr) = run_healthcheck("listeners: {status: [\n", &[]);
    assert!(code.is_some_and(|code| code < 2) && stderr.contains("checking the default address"), "{stderr}");
    for wrong in [&["healthcheck"][..], &["healthcheck", "--url", "https://127.0.0.1:8788"]] {
        assert_eq!(run_command(diglot().args(wrong)).0, Some(2));
    }
}
