//! Issuers that rotate keys, send wrong ones, stall, flood and fail (`failures.md`, rows 39 to 43).

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, INPUT, post, send_request};
use super::super::support::gateway::{Gateway, Setup, TempFile};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};
use super::super::support::{eventually, within_deadline};
use super::idp::{AUDIENCE, Idp, Reply, Signer, http_reply, json_reply, jwks};
use super::{start_run_with_fields, start_run_with_token};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/auth/ca.pem");

fn start_agent() -> Agent {
    Agent::with_script(vec![Step::Read, write(HEAD), write(complete_run())])
}

/// Starts a gateway that accepts one issuer, and does not wait until it is ready.
async fn start_trusting(agent: &Agent, issuer: &str) -> Gateway {
    let top = format!("auth: {{issuers: [{{{issuer}}}]}}");
    Gateway::start(Setup { upstreams: &[agent.url()], top: &top, unready: true, ..Setup::default() }).await
}

async fn wait_until_ready(gateway: &Gateway) {
    eventually("readiness", async || (gateway.get_status("/readyz").await.status == 200).then_some(())).await;
}

#[track_caller]
fn assert_accepted(answer: &Answer) {
    assert_succeeded(answer, COMPLETE_RUN);
}

#[tokio::test]
async fn accepts_a_new_key_at_once_and_refuses_a_removed_one() {
    let (agent, idp, old, new) = (start_agent(), Idp::start().await, Signer::new("old"), Signer::new("new"));
    idp.set_reply("/keys", json_reply(&jwks(&[&old])));
    let gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    wait_until_ready(&gateway).await;
    let (old_token, new_token) = (old.token(&idp.issuer()), new.token(&idp.issuer()));
    assert_accepted(&start_run_with_token(&gateway, &old_token).await);
    idp.set_reply("/keys", json_reply(&jwks(&[&new])));
    assert_accepted(&start_run_with_token(&gateway, &new_token).await);
    assert_refused(&start_run_with_token(&gateway, &old_token).await, 401, "invalid_token");
    // One fetch at the start, one for the new key, and none within the cool-down for the old one.
    assert_eq!(idp.request_count("/keys"), 2);
    assert_eq!(gateway.metric(r#"diglot_jwks_refreshes_total{issuer="corp",result="fetched"}"#).await, 2.0);
    assert_eq!(gateway.metric(r#"diglot_jwks_keys{issuer="corp"}"#).await, 1.0);
    assert!(gateway.metric(r#"diglot_jwks_last_success_timestamp_seconds{issuer="corp"}"#).await > 1.7e9);
}

/// Keys without ids: a new key is detected by signatures that no key verifies.
#[tokio::test]
async fn accepts_a_new_key_without_an_id_at_once() {
    let (agent, idp, old, new) = (start_agent(), Idp::start().await, Signer::new("old"), Signer::new("new"));
    let nameless = |signer: &Signer| {
        let mut key = signer.jwk();
        key.as_object_mut().expect("a key").remove("kid");
        json_reply(&json!({"keys": [key]}).to_string())
    };
    idp.set_reply("/keys", nameless(&old));
    let gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    wait_until_ready(&gateway).await;
    let (old_token, new_token) = (old.token(&idp.issuer()), new.token(&idp.issuer()));
    assert_accepted(&start_run_with_token(&gateway, &old_token).await);
    assert_eq!(idp.request_count("/keys"), 1);
    idp.set_reply("/keys", nameless(&new));
    assert_accepted(&start_run_with_token(&gateway, &new_token).await);
    let strangers: Vec<_> = (0..16).map(|n| Signer::new(&format!("k{n}")).token(&idp.issuer())).collect();
    for answer in
        join_all(strangers.iter().chain([&old_token]).map(|token| start_run_with_token(&gateway, token))).await
    {
        assert_refused(&answer, 401, "invalid_token");
    }
    // One fetch at the start, one for the new key, and none for other signers within the cool-down.
    assert_eq!(idp.request_count("/keys"), 2);
    gateway
        .wait_for_metric(r#"diglot_auth_total{method="jwt",reason="signature",result="refused",route="run"}"#, 17.0)
        .await;
}

#[tokio::test]
async fn fetches_once_for_a_flood_of_unknown_keys() {
    let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
    idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
    let gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    wait_until_ready(&gateway).await;
    let strangers: Vec<_> = (0..64).map(|n| Signer::new(&format!("k{n}")).token(&idp.issuer())).collect();
    for answer in join_all(strangers.iter().map(|token| start_run_with_token(&gateway, token))).await {
        assert_refused(&answer, 401, "invalid_token");
    }
    let began = Instant::now();
    for token in &strangers[..16] {
        assert_refused(&start_run_with_token(&gateway, token).await, 401, "invalid_token");
    }
    assert!(began.elapsed() < Duration::from_secs(1), "refusals do not wait: {:?}", began.elapsed());
    assert_eq!(idp.request_count("/keys"), 2);
    assert_accepted(&start_run_with_token(&gateway, &signer.token(&idp.issuer())).await);
    gateway
        .wait_for_metric(r#"diglot_auth_total{method="jwt",reason="unknown_key",result="refused",route="run"}"#, 80.0)
        .await;
}

#[tokio::test]
async fn shares_one_key_fetch_at_a_cold_start() {
    let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
    idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
    idp.set_answering(false);
    let gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    assert_eq!(gateway.get_status("/readyz").await.status, 503);
    let token = signer.token(&idp.issuer());
    let herd = join_all((0..32).map(|_| start_run_with_token(&gateway, &token)));
    let opening = async {
        eventually("the fetch", async || (idp.request_count("/keys") == 1).then_some(())).await;
        idp.set_answering(true);
    };
    let (answers, ()) = tokio::join!(herd, opening);
    answers.iter().for_each(assert_accepted);
    assert_eq!(idp.request_count("/keys"), 1);
    wait_until_ready(&gateway).await;
}

/// Two issuers, each accepted on one route, use the same key id.
#[tokio::test]
async fn accepts_tokens_only_on_routes_that_trust_the_issuer() {
    let (agent, signers) = (start_agent(), [Signer::new("key"), Signer::new("key")]);
    let issuers = ["https://one.example", "https://two.example"];
    let files: Vec<_> = signers.iter().map(|signer| TempFile::new(&jwks(&[signer]))).collect();
    let issuer = |at: usize| {
        let file = files[at].path().display();
        format!("{{name: i{at}, issuer: '{}', audience: {AUDIENCE}, jwks_file: '{file}'}}", issuers[at])
    };
    let route = |name: &str, auth: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: '{}', auth: {auth}}}\n",
            agent.url()
        )
    };
    let top = format!("auth: {{issuers: [{}, {}]}}", issuer(0), issuer(1));
    let routes = ["routes:\n".to_owned(), route("r0", "i0"), route("r1", "[i1]"), route("both", "[i0, i1]")].concat();
    let gateway = Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await;
    let call = async |path: &str, token: &str| {
        send_request(gateway.data, post(path, &format!("Authorization: Bearer {token}\r\n"), INPUT)).await
    };
    for (at, signer) in signers.iter().enumerate() {
        let token = signer.token(issuers[at]);
        assert_accepted(&call(&format!("/r{at}"), &token).await);
        assert_accepted(&call("/both", &token).await);
        assert_refused(&call(&format!("/r{}", 1 - at), &token).await, 401, "invalid_token");
        // A signature of one issuer is not valid for the other.
        let forged = signer.token(issuers[1 - at]);
        for path in ["/r0", "/r1", "/both"] {
            assert_refused(&call(path, &forged).await, 401, "invalid_token");
        }
    }
    assert_eq!(agent.connection_count(), 4);
}

/// For every failure of the issuer's server: no caller is accepted, no request waits long, and the gateway recovers by
/// itself.
#[tokio::test]
async fn starts_without_its_issuer_and_reports_it() {
    let huge = format!("{{\"keys\":[],\"padding\":\"{}\"}}", "x".repeat(1 << 20));
    let endless = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", "x".repeat(2 << 20));
    let elsewhere = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    let cases = [
        ("500", http_reply("500 Internal Server Error", "text/plain", "oops"), "status 500"),
        ("garbage", json_reply("<html>"), "is not JSON"),
        ("nothing", json_reply(""), "is not JSON"),
        ("no list", json_reply("[]"), "no list `keys`"),
        ("no keys", json_reply(r#"{"keys":[]}"#), "contains no key"),
        ("odd keys", json_reply(r#"{"keys":[{"kty":"AKP"},7]}"#), "contains no usable key"),
        ("huge", json_reply(&huge), "larger than"),
        ("endless", Reply::Bytes(endless.into()), "larger than"),
        ("redirect", Reply::Bytes(elsewhere.to_vec()), "redirects are not followed"),
        ("no HTTP", Reply::Bytes(b"\x16\x03\x01nonsense\r\n\r\n".to_vec()), "the exchange failed"),
        ("cut", Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()), "broke off"),
        ("closed", Reply::Bytes(Vec::new()), "the exchange failed"),
        ("stalled head", Reply::Stall(Vec::new()), "no complete response"),
        (
            "stalled body",
            Reply::Stall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()),
            "no complete response",
        ),
    ];
    join_all(cases.into_iter().map(async |(case, reply, cause)| {
        let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
        idp.set_reply("/keys", reply);
        idp.set_reply("/elsewhere", json_reply(&jwks(&[&signer])));
        let gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
        let token = signer.token(&idp.issuer());
        let began = Instant::now();
        let answer = start_run_with_token(&gateway, &token).await;
        assert!(began.elapsed() < Duration::from_secs(4), "{case}: {:?}", began.elapsed());
        assert_refused(&answer, 503, "keys_unavailable");
        let wait: u64 = answer.header("retry-after").and_then(|text| text.parse().ok()).expect("seconds");
        assert!((1..=61).contains(&wait), "{case}: {wait}");
        assert_refused(&start_run_with_fields(&gateway, "").await, 401, "authentication_required");
        assert_eq!(gateway.get_status("/readyz").await.status, 503, "{case}");
        let report = eventually("the cause", async || {
            let report = without_upstreams(gateway.get_status("/readyz?verbose").await.text());
            report.contains(cause).then_some(report)
        });
        let report = report.await;
        assert!(report.contains("[+] runs ok\n[-] issuer corp no keys yet: "), "{case}: {report}");
        assert!(report.ends_with("[-] route auto has no keys yet\nnot ready\n"), "{case}: {report}");
        idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
        wait_until_ready(&gateway).await;
        assert_accepted(&start_run_with_token(&gateway, &token).await);
        let report = gateway.get_status("/readyz?verbose").await;
        assert_eq!(without_upstreams(report.text()), "[+] runs ok\n[+] issuer corp ok\nready\n");
        assert_eq!(idp.request_count("/elsewhere"), 0);
    }))
    .await;
}

/// A report without its lines about agents, which are no business of these tests.
fn without_upstreams(report: &str) -> String {
    report.split_inclusive('\n').filter(|line| !line.contains("] upstream ")).collect()
}

#[tokio::test]
async fn keeps_serving_with_cached_keys_while_the_issuer_is_down() {
    let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
    idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
    let mut gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    wait_until_ready(&gateway).await;
    for reply in [json_reply("{}"), http_reply("503 Service Unavailable", "text/plain", "")] {
        idp.set_reply("/keys", reply);
    }
    assert_refused(
        &start_run_with_token(&gateway, &Signer::new("other").token(&idp.issuer())).await,
        401,
        "invalid_token",
    );
    assert_accepted(&start_run_with_token(&gateway, &signer.token(&idp.issuer())).await);
    let report = gateway.get_status("/readyz?verbose").await;
    assert_eq!(report.status, 200);
    let expected = "[+] runs ok\n[+] issuer corp keys from before: JWKS: status 503\nready\n";
    assert_eq!(without_upstreams(report.text()), expected);
    let line = gateway.next_log("keys of the issuer cannot be fetched").await;
    assert_eq!((&line["level"], &line["issuer"], &line["stale"]), (&"WARN".into(), &"corp".into(), &true.into()));
    assert_eq!(line["cause"], "JWKS: status 503");
}

#[tokio::test]
async fn logs_unusable_keys_and_uses_the_others() {
    let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
    let keys = format!(r#"{{"keys":[{{"kty":"AKP","kid":"planted"}},{}]}}"#, signer.jwk());
    idp.set_reply("/keys", json_reply(&keys));
    let mut gateway = start_trusting(&agent, &idp.issuer_yaml()).await;
    wait_until_ready(&gateway).await;
    assert_accepted(&start_run_with_token(&gateway, &signer.token(&idp.issuer())).await);
    let line = gateway.next_log("keys of the issuer ignored").await;
    assert_eq!(line["ignored"], "key 1 is of a kind that is not known (`kty`)");
}

#[tokio::test]
async fn discovers_the_keys_of_an_issuer() {
    let (agent, idp, signer) = (start_agent(), Idp::start().await, Signer::new("good"));
    let discovery = |issuer: &str, keys: &str| json_reply(&format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}"}}"#));
    let (issuer, keys) = (idp.issuer(), format!("{}/keys", idp.issuer()));
    let at = "/.well-known/openid-configuration";
    idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
    idp.set_reply(at, discovery("https://other.example", &keys));
    let gateway = start_trusting(&agent, &format!("name: corp, issuer: '{issuer}', audience: {AUDIENCE}")).await;
    let assert_cause = async |cause: &str| {
        eventually(cause, async || gateway.get_status("/readyz?verbose").await.text().contains(cause).then_some(()))
            .await;
    };
    assert_cause("the document is about another issuer").await;
    idp.set_reply(at, discovery(&issuer, "http://keys.example/"));
    assert_cause("`jwks_uri` is not an https URL").await;
    idp.set_reply(at, json_reply("{}"));
    assert_cause("the document is about another issuer").await;
    assert_eq!(idp.request_count("/keys"), 0);
    idp.set_reply(at, discovery(&issuer, &keys));
    wait_until_ready(&gateway).await;
    assert_accepted(&start_run_with_token(&gateway, &signer.token(&issuer)).await);
}

#[tokio::test]
async fn reloads_keys_when_their_file_changes() {
    let (agent, old, new) = (start_agent(), Signer::new("old"), Signer::new("new"));
    let (issuer, file) = ("https://idp.example", TempFile::new(&jwks(&[&old])));
    let settings =
        format!("name: corp, issuer: '{issuer}', audience: {AUDIENCE}, jwks_file: '{}'", file.path().display());
    let mut gateway = start_trusting(&agent, &settings).await;
    wait_until_ready(&gateway).await;
    assert_accepted(&start_run_with_token(&gateway, &old.token(issuer)).await);
    std::fs::write(file.path(), "half").expect("a file");
    within_deadline("the log", gateway.next_log("file cannot be used; the last good content stays")).await;
    assert_accepted(&start_run_with_token(&gateway, &old.token(issuer)).await);
    std::fs::write(file.path(), jwks(&[&new])).expect("a file");
    within_deadline("the log", gateway.next_log("file read again")).await;
    assert_accepted(&start_run_with_token(&gateway, &new.token(issuer)).await);
    assert_refused(&start_run_with_token(&gateway, &old.token(issuer)).await, 401, "invalid_token");
}

#[tokio::test]
async fn verifies_the_tls_certificate_of_an_issuer() {
    let pem =
        |name: &str| std::fs::read(format!("{}/tests/it/auth/{name}", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let chain = vec![CertificateDer::from_pem_slice(&pem("leaf.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(&pem("leaf.key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = config.with_single_cert(chain, key).expect("a pair");
    let idp = Idp::start_with_tls(TlsAcceptor::from(Arc::new(config))).await;
    let (agent, signer) = (start_agent(), Signer::new("good"));
    idp.set_reply("/keys", json_reply(&jwks(&[&signer])));
    let issuer = format!("https://localhost:{}", idp.address.port());
    let top = format!(
        "auth: {{issuers: [{{name: corp, issuer: '{issuer}', audience: {AUDIENCE}, jwks_url: '{issuer}/keys'}}]}}"
    );
    let start = async |env| {
        Gateway::start(Setup { upstreams: &[agent.url()], top: &top, env, unready: true, ..Setup::default() }).await
    };
    let gateway = start(&[("SSL_CERT_FILE", CA), ("SSL_CERT_DIR", "")]).await;
    wait_until_ready(&gateway).await;
    assert_accepted(&start_run_with_token(&gateway, &signer.token(&issuer)).await);
    // Without that authority the certificate is worth nothing.
    let gateway = start(&[]).await;
    let untrusted =
        async || gateway.get_status("/readyz?verbose").await.text().contains("TLS: invalid peer").then_some(());
    eventually("the cause", untrusted).await;
    assert_refused(&start_run_with_token(&gateway, &signer.token(&issuer)).await, 503, "keys_unavailable");
}
