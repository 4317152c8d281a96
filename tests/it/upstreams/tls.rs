//! Agents over TLS: trusted certificates, the gateway's own, and files that change while it runs.

use super::super::support::temp_folder::TempFolder;
use super::certificates::{Authority, CertifiedKey};
use super::load_balancing::wait_until_idle;
use super::test_agent::{AgentConfig, TestAgent};
use super::{assert_run, start_gateway, wait_until};
use crate::support::agent::{Agent, Step, write};
use crate::support::client::post_run;
use crate::support::gateway::{TempFile, diglot};
use crate::support::sse::assert_refused;
use std::path::Path;

const BOTH: &[&str] = &["h2", "http/1.1"];

async fn start_tls_agent(pair: &CertifiedKey, protocols: &[&str], clients: Option<&Path>) -> TestAgent {
    TestAgent::start(AgentConfig { tls: Some(pair.server(protocols, clients)), ..AgentConfig::default() }).await
}

fn trusted_ca(ca: &Path) -> String {
    format!(", upstream_tls: {{ca: {}}}", ca.display())
}

#[tokio::test]
async fn verifies_the_authority_and_host_of_agent_certificates() {
    let folder = TempFolder::new();
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let good = start_tls_agent(&ours.issue("good", "localhost"), BOTH, None).await;
    assert_run(&start_gateway(&good.url(), &trusted_ca(&ours.pem())).await).await;
    let named = format!(", upstream_tls: {{ca: {}, server_name: localhost}}", ours.pem().display());
    assert_run(&start_gateway(&good.url(), &named).await).await;

    let stranger = start_tls_agent(&theirs.issue("stranger", "localhost"), BOTH, None).await;
    let other = start_tls_agent(&ours.issue("other", "agents.internal"), BOTH, None).await;
    let (untrusted, misnamed) = ("UnknownIssuer", "certificate not valid for name");
    for (agent, more, error) in [
        (&stranger, trusted_ca(&ours.pem()), untrusted),
        (&other, trusted_ca(&ours.pem()), misnamed),
        // The system's authorities do not include the test's.
        (&good, String::new(), untrusted),
        (&good, format!(", upstream_tls: {{ca: {}, server_name: agents.internal}}", ours.pem().display()), misnamed),
    ] {
        let mut gateway = start_gateway(&agent.url(), &more).await;
        assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_tls");
        let line = gateway.next_log("run ended").await;
        let cause = line["cause"].as_str().unwrap_or_default();
        let label = agent.label();
        let expected = format!(":{}: invalid peer certificate: {error}", label.rsplit(':').next().unwrap_or_default());
        assert!(cause.contains(&expected), "{cause}, not {expected}");
        let series = format!(r#"diglot_upstream_requests_total{{outcome="tls",upstream="{}"}}"#, agent.label());
        assert_eq!(gateway.metric(&series).await, 1.0, "{more}");
    }
    let named = format!(", upstream_tls: {{ca: {}, server_name: agents.internal}}", ours.pem().display());
    assert_run(&start_gateway(&other.url(), &named).await).await;
    assert_eq!((stranger.run_count(), other.run_count(), good.run_count()), (0, 1, 2));
    // A self-signed certificate is trusted if it is named itself.
    let alone = CertifiedKey::self_signed(&folder, "alone", "localhost");
    let agent = start_tls_agent(&alone, BOTH, None).await;
    assert_run(&start_gateway(&agent.url(), &trusted_ca(&alone.cert)).await).await;
}

#[tokio::test]
async fn names_an_agent_without_tls_in_the_log() {
    let plain = Agent::with_script(vec![write("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::WaitForClose]);
    let mut gateway = start_gateway(&format!("https://localhost:{}/", plain.address().port()), "").await;
    assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_tls");
    let line = gateway.next_log("run ended").await;
    let expected = format!("{}: the agent answered without TLS: ", plain.address());
    assert!(line["cause"].as_str().is_some_and(|cause| cause.starts_with(&expected)), "{line}");
}

#[tokio::test]
async fn negotiates_the_http_version_unless_configured() {
    let folder = TempFolder::new();
    let authority = Authority::new(&folder, "authority");
    let pair = authority.issue("agent", "localhost");
    for (protocols, http, h2) in [
        (BOTH, "auto", Some(1)),
        (BOTH, "1", Some(0)),
        (BOTH, "2", Some(1)),
        (&["http/1.1"][..], "auto", Some(0)),
        (&[], "auto", Some(0)),
        (&["h2"], "auto", Some(1)),
        (&["http/1.1"], "2", None),
        (&[], "2", None),
    ] {
        let agent = start_tls_agent(&pair, protocols, None).await;
        let gateway =
            start_gateway(&format!("{{url: {}, http: {http}}}", agent.url()), &trusted_ca(&authority.pem())).await;
        match h2 {
            Some(h2) => {
                assert_run(&gateway).await;
                assert_eq!((agent.run_count(), agent.h2_run_count()), (1, h2), "{protocols:?} {http}");
            }
            None => {
                assert_eq!(post_run(gateway.data, "/run").await.status, 502, "{protocols:?} {http}");
                assert_eq!(agent.run_count(), 0);
            }
        }
    }
}

#[tokio::test]
async fn presents_a_client_certificate_on_request() {
    let folder = TempFolder::new();
    let authority = Authority::new(&folder, "authority");
    let stranger = Authority::new(&folder, "stranger");
    let pair = authority.issue("agent", "localhost");
    let agent = start_tls_agent(&pair, BOTH, Some(&authority.pem())).await;
    let (ours, theirs) = (authority.issue("gateway", "gateway"), stranger.issue("mallory", "mallory"));
    let shown = |pair: &CertifiedKey| {
        let (ca, cert, key) = (authority.pem(), pair.cert.clone(), pair.key.clone());
        format!(", upstream_tls: {{ca: {}, cert: {}, key: {}}}", ca.display(), cert.display(), key.display())
    };
    for more in [trusted_ca(&authority.pem()), shown(&theirs)] {
        let gateway = start_gateway(&agent.url(), &more).await;
        let answer = post_run(gateway.data, "/run").await;
        // With TLS 1.3 the agent sends its alert after the handshake, and it races with the end of the connection.
        let code = if answer.text().contains("upstream_tls") { "upstream_tls" } else { "upstream_reset" };
        assert_refused(&answer, 502, code);
        assert_eq!(agent.run_count(), 0, "{more}");
    }
    let gateway = start_gateway(&agent.url(), &shown(&ours)).await;
    assert_run(&gateway).await;
    assert_eq!(agent.run_count(), 1);
}

/// `timeouts.connect` applies to each address and includes the handshake; a slow address loses no run.
#[tokio::test]
async fn tries_the_next_address_after_a_stalled_handshake() {
    let folder = TempFolder::new();
    let authority = Authority::new(&folder, "authority");
    let silent = Agent::with_script(vec![Step::WaitForClose]);
    let agent = start_tls_agent(&authority.issue("agent", "localhost"), BOTH, None).await;
    let first = format!("https://localhost:{}/", silent.address().port());
    let more = format!("{}, timeouts: {{connect: 200ms}}", trusted_ca(&authority.pem()));
    let gateway = start_gateway(&format!("[{{url: \"{first}\", weight: 1000}}, {}]", agent.url()), &more).await;
    assert_run(&gateway).await;
    let series =
        format!(r#"diglot_upstream_requests_total{{outcome="timed_out",upstream="{}"}}"#, first.trim_end_matches('/'));
    assert!(gateway.metric(&series).await >= 1.0);
}

/// A rotation of the authority and of the gateway's certificate, without a restart: new connections use the new files,
/// and no older connection is reused.
#[tokio::test]
async fn uses_changed_certificate_files_for_new_connections() {
    let folder = TempFolder::new();
    let (old, new) = (Authority::new(&folder, "old"), Authority::new(&folder, "new"));
    let ours = [old.issue("ours-old", "gateway"), new.issue("ours-new", "gateway")];
    let put = |pair: &CertifiedKey, ca: &Authority<'_>| {
        for (from, to) in [(&pair.cert, "cert.pem"), (&pair.key, "key.pem"), (&ca.pem(), "ca.pem")] {
            // Like a mounted Secret: a link that changes its target.
            let next = folder.join("next");
            std::os::unix::fs::symlink(from, &next).expect("a link");
            std::fs::rename(&next, folder.join(to)).expect("a folder");
        }
    };
    put(&ours[0], &old);
    let mut agent = start_tls_agent(&old.issue("agent-old", "localhost"), BOTH, Some(&old.pem())).await;
    let file = |name: &str| folder.join(name).display().to_string();
    let more = format!(
        ", upstream_tls: {{ca: {}, cert: {}, key: {}}}, ejection: {{failures: 1000, for: 1ms}}",
        file("ca.pem"),
        file("cert.pem"),
        file("key.pem")
    );
    let mut gateway = start_gateway(&agent.url(), &more).await;
    assert_run(&gateway).await;
    wait_until_idle(&gateway).await;
    // Half a change is not loaded: this key does not belong to that certificate.
    std::fs::remove_file(folder.join("key.pem")).expect("a link");
    std::os::unix::fs::symlink(&ours[1].key, folder.join("key.pem")).expect("a link");
    let line = gateway.next_log("certificates for upstreams cannot be used; the last good ones stay").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("key.pem")), "{line}");
    assert_run(&gateway).await;

    put(&ours[1], &new);
    gateway.next_log("certificates for upstreams read again").await;
    agent.kill().await;
    agent.kind.tls = Some(new.issue("agent-new", "localhost").server(BOTH, Some(&new.pem())));
    agent.restart().await;
    assert_run(&gateway).await;
    wait_until("two runs and one more", || agent.run_count() == 3).await;
}

#[test]
fn reports_unusable_certificate_files_at_startup() {
    let folder = TempFolder::new();
    let authority = Authority::new(&folder, "authority");
    let (one, other) = (authority.issue("one", "one"), authority.issue("other", "other"));
    let empty = folder.join("empty.pem");
    std::fs::write(&empty, "nothing\n").expect("a file");
    let broken = folder.join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("a file");
    let pem = authority.pem();
    let identity = |cert: &Path, key: &Path| format!("cert: {}, key: {}", cert.display(), key.display());
    for (keys, problem) in [
        (format!("ca: {}", empty.display()), ":2:91: routes[0].upstream_tls.ca: there is no certificate in this file"),
        (
            format!("ca: {}", broken.display()),
            "routes[0].upstream_tls.ca: a certificate in this file is not that of an authority",
        ),
        (identity(&one.cert, &other.key), "routes[0].upstream_tls.key: this is the key of another certificate"),
        (identity(&one.cert, &pem), "routes[0].upstream_tls.key: there is no private key in this file"),
    ] {
        let file = TempFile::new(&format!(
            "listeners: {{data: 127.0.0.1:0, status: []}}\nroutes: [{{path: /a, client: ag-ui, agent: hai, upstream: \"https://h/\", upstream_tls: {{{keys}}}}}]\n"
        ));
        for arguments in [&["check"][..], &["serve", "--config"]] {
            let output = diglot().args(arguments).arg(file.path()).output().expect("it runs");
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert_eq!(output.status.code(), Some(78), "{keys}: {text}");
            assert!(text.contains(problem), "{keys}: {text}");
        }
    }
}
