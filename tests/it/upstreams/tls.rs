//! Agents over TLS: whose certificates are believed, the gateway's own, and files that change while it runs.

use super::certificates::{Authority, Folder, Pair};
use super::choice::idle;
use super::served::{Kind, Served};
use super::{before, runs, until};
use crate::support::agent::{Agent, Step};
use crate::support::client::run;
use crate::support::gateway::{File, diglot};
use crate::support::sse::refused;
use std::path::Path;

const BOTH: &[&str] = &["h2", "http/1.1"];

async fn agent(pair: &Pair, protocols: &[&str], clients: Option<&Path>) -> Served {
    Served::start(Kind { tls: Some(pair.server(protocols, clients)), ..Kind::default() }).await
}

fn believing(ca: &Path) -> String {
    format!(", upstream_tls: {{ca: {}}}", ca.display())
}

#[tokio::test]
async fn an_agents_certificate_has_to_come_from_the_authority_and_be_for_its_host() {
    let folder = Folder::new();
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let good = agent(&ours.certifies("good", "localhost"), BOTH, None).await;
    runs(&before(&good.url(), &believing(&ours.pem())).await).await;
    let named = format!(", upstream_tls: {{ca: {}, server_name: localhost}}", ours.pem().display());
    runs(&before(&good.url(), &named).await).await;

    let stranger = agent(&theirs.certifies("stranger", "localhost"), BOTH, None).await;
    let other = agent(&ours.certifies("other", "agents.internal"), BOTH, None).await;
    for (agent, more) in [
        (&stranger, believing(&ours.pem())),
        (&other, believing(&ours.pem())),
        // Whom the system trusts is not the test's authority.
        (&good, String::new()),
        (&good, format!(", upstream_tls: {{ca: {}, server_name: agents.internal}}", ours.pem().display())),
    ] {
        let gateway = before(&agent.url(), &more).await;
        refused(&run(gateway.data, "/run").await, 502, "upstream_tls");
        let series = format!(r#"diglot_upstream_requests_total{{outcome="tls",upstream="{}"}}"#, agent.label());
        assert_eq!(gateway.metric(&series).await, 1.0, "{more}");
    }
    let named = format!(", upstream_tls: {{ca: {}, server_name: agents.internal}}", ours.pem().display());
    runs(&before(&other.url(), &named).await).await;
    assert_eq!((stranger.runs(), other.runs(), good.runs()), (0, 1, 2));
    // A certificate that comes from nobody else is believed when it is named itself.
    let alone = Pair::alone(&folder, "alone", "localhost");
    let agent = agent(&alone, BOTH, None).await;
    runs(&before(&agent.url(), &believing(&alone.cert)).await).await;
}

#[tokio::test]
async fn the_version_of_http_is_what_the_agent_prefers_unless_it_is_written() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let pair = authority.certifies("agent", "localhost");
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
        let agent = agent(&pair, protocols, None).await;
        let gateway = before(&format!("{{url: {}, http: {http}}}", agent.url()), &believing(&authority.pem())).await;
        match h2 {
            Some(h2) => {
                runs(&gateway).await;
                assert_eq!((agent.runs(), agent.over_h2()), (1, h2), "{protocols:?} {http}");
            }
            None => {
                assert_eq!(run(gateway.data, "/run").await.status, 502, "{protocols:?} {http}");
                assert_eq!(agent.runs(), 0);
            }
        }
    }
}

#[tokio::test]
async fn an_agent_that_asks_who_calls_is_shown_our_certificate() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let stranger = Authority::new(&folder, "stranger");
    let pair = authority.certifies("agent", "localhost");
    let agent = agent(&pair, BOTH, Some(&authority.pem())).await;
    let (ours, theirs) = (authority.certifies("gateway", "gateway"), stranger.certifies("mallory", "mallory"));
    let shown = |pair: &Pair| {
        let (ca, cert, key) = (authority.pem(), pair.cert.clone(), pair.key.clone());
        format!(", upstream_tls: {{ca: {}, cert: {}, key: {}}}", ca.display(), cert.display(), key.display())
    };
    for more in [believing(&authority.pem()), shown(&theirs)] {
        let gateway = before(&agent.url(), &more).await;
        let answer = run(gateway.data, "/run").await;
        // With TLS 1.3 the agent says so after the handshake, and whether that is heard before its end is a race.
        let code = if answer.text().contains("upstream_tls") { "upstream_tls" } else { "upstream_reset" };
        refused(&answer, 502, code);
        assert_eq!(agent.runs(), 0, "{more}");
    }
    let gateway = before(&agent.url(), &shown(&ours)).await;
    runs(&gateway).await;
    assert_eq!(agent.runs(), 1);
}

/// `timeouts.connect` is for each address, with the handshake; whoever takes longer costs no run.
#[tokio::test]
async fn a_handshake_that_does_not_end_is_given_up_for_the_next_address() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let silent = Agent::playing(vec![Step::Stay]);
    let agent = agent(&authority.certifies("agent", "localhost"), BOTH, None).await;
    let first = format!("https://localhost:{}/", silent.address().port());
    let more = format!("{}, timeouts: {{connect: 200ms}}", believing(&authority.pem()));
    let gateway = before(&format!("[{{url: \"{first}\", weight: 1000}}, {}]", agent.url()), &more).await;
    runs(&gateway).await;
    let series =
        format!(r#"diglot_upstream_requests_total{{outcome="timed_out",upstream="{}"}}"#, first.trim_end_matches('/'));
    assert!(gateway.metric(&series).await >= 1.0);
}

/// A rotation of the authority and of our own certificate, without a restart: new connections are made with what the files
/// say, and none that was made before is used for them.
#[tokio::test]
async fn files_that_change_are_used_for_new_connections() {
    let folder = Folder::new();
    let (old, new) = (Authority::new(&folder, "old"), Authority::new(&folder, "new"));
    let ours = [old.certifies("ours-old", "gateway"), new.certifies("ours-new", "gateway")];
    let put = |pair: &Pair, ca: &Authority<'_>| {
        for (from, to) in [(&pair.cert, "cert.pem"), (&pair.key, "key.pem"), (&ca.pem(), "ca.pem")] {
            // As a mounted Secret: a name that comes to mean another file.
            let next = folder.path("next");
            std::os::unix::fs::symlink(from, &next).expect("a link");
            std::fs::rename(&next, folder.path(to)).expect("a folder");
        }
    };
    put(&ours[0], &old);
    let mut agent = agent(&old.certifies("agent-old", "localhost"), BOTH, Some(&old.pem())).await;
    let file = |name: &str| folder.path(name).display().to_string();
    let more = format!(
        ", upstream_tls: {{ca: {}, cert: {}, key: {}}}, ejection: {{failures: 1000, for: 1ms}}",
        file("ca.pem"),
        file("cert.pem"),
        file("key.pem")
    );
    let mut gateway = before(&agent.url(), &more).await;
    runs(&gateway).await;
    idle(&gateway).await;
    // Half a change is none: this key is not that certificate's.
    std::fs::remove_file(folder.path("key.pem")).expect("a link");
    std::os::unix::fs::symlink(&ours[1].key, folder.path("key.pem")).expect("a link");
    let line = gateway.logged("certificates for upstreams cannot be used; the last good ones stay").await;
    assert!(line["cause"].as_str().is_some_and(|cause| cause.contains("key.pem")), "{line}");
    runs(&gateway).await;

    put(&ours[1], &new);
    gateway.logged("certificates for upstreams read again").await;
    agent.kill().await;
    agent.kind.tls = Some(new.certifies("agent-new", "localhost").server(BOTH, Some(&new.pem())));
    agent.restart().await;
    runs(&gateway).await;
    until("two runs and one more", || agent.runs() == 3).await;
}

#[test]
fn files_that_cannot_be_used_are_said_before_anything_starts() {
    let folder = Folder::new();
    let authority = Authority::new(&folder, "authority");
    let (one, other) = (authority.certifies("one", "one"), authority.certifies("other", "other"));
    let empty = folder.path("empty.pem");
    std::fs::write(&empty, "nothing\n").expect("a file");
    let broken = folder.path("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").expect("a file");
    let pem = authority.pem();
    let identity = |cert: &Path, key: &Path| format!("cert: {}, key: {}", cert.display(), key.display());
    for (keys, said) in [
        (format!("ca: {}", empty.display()), ":2:91: routes[0].upstream_tls.ca: there is no certificate in this file"),
        (
            format!("ca: {}", broken.display()),
            "routes[0].upstream_tls.ca: a certificate in this file is none of an authority",
        ),
        (identity(&one.cert, &other.key), "routes[0].upstream_tls.key: this is the key of another certificate"),
        (identity(&one.cert, &pem), "routes[0].upstream_tls.key: there is no private key in this file"),
    ] {
        let file = File::new(&format!(
            "listeners: {{data: 127.0.0.1:0, status: []}}\nroutes: [{{path: /a, client: ag-ui, agent: hai, upstream: \"https://h/\", upstream_tls: {{{keys}}}}}]\n"
        ));
        for arguments in [&["check"][..], &["serve", "--config"]] {
            let output = diglot().args(arguments).arg(file.path()).output().expect("it runs");
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert_eq!(output.status.code(), Some(78), "{keys}: {text}");
            assert!(text.contains(said), "{keys}: {text}");
        }
    }
}
