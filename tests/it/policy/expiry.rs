//! Credentials that expire during their run: `on_token_expiry`.

use super::super::auth::idp::{AUDIENCE, Signer, claims, jwks};
use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Answer, Client, End, INPUT, post, send_request};
use super::super::support::gateway::{Gateway, Setup, TempFile};
use super::super::support::sse::{
    CLOSED, COMPLETE_RUN, CONTENT, FINISHED, HEAD, RUN_BEGINNING, assert_failed, assert_refused, events, run_beginning,
    types,
};
use super::super::support::{eventually, sha256, within_deadline};
use super::{HAI_ENDED_BEGINNING, HAI_RUN_BEGINNING, outcome_series, start_agent, start_gateway_with};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;

/// Beginning of each key; the rest is the second at which it expires.
const KEY: &str = "a-key-that-nobody-else-has-";

/// A key that expires soon, and yet leaves time for a run to begin. Keys expire at whole seconds.
struct ExpiringKey(u64);

impl ExpiringKey {
    /// Returns `auth` with a key for each of the next 30 seconds, since the start of a gateway takes an unknown time.
    fn auth() -> String {
        let key = |second: u64| {
            let key = format!("{KEY}{second}");
            let sha256 = sha256(&key);
            let expires = date(second);
            format!("{{id: k{second}, subject: alice, tenant: acme, sha256: {sha256}, expires: \"{expires}\"}}")
        };
        let now = now().as_secs();
        let keys: Vec<_> = (now..now + 30).map(key).collect();
        format!("auth: {{api_keys: [{{name: staff, keys: [{}]}}]}}", keys.join(", "))
    }

    /// The one that is good for a second and a half, or for a little longer.
    fn expiring_soon() -> ExpiringKey {
        ExpiringKey((now() + Duration::from_millis(1500)).as_secs() + 1)
    }

    /// The field that it is sent in.
    fn field(&self) -> String {
        format!("X-Api-Key: {KEY}{}\r\n", self.0)
    }

    fn id(&self) -> String {
        format!("k{}", self.0)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// RFC 3339, from seconds since the epoch.
fn date(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

async fn start_gateway(agent: &Agent, policy: &str) -> Gateway {
    start_gateway_with(agent, &ExpiringKey::auth(), &format!("on_token_expiry: {policy}")).await
}

async fn start_run(to: SocketAddr, path: &str, key: &ExpiringKey) -> Answer {
    send_request(to, post(path, &key.field(), INPUT)).await
}

/// The log line of a run names its caller, and never the credential.
async fn assert_logged(gateway: &mut Gateway, key: &ExpiringKey) {
    let line = gateway.next_log("run ended").await;
    for (field, value) in [
        ("outcome", "expired"),
        ("code", "token_expired"),
        ("auth", "api_key"),
        ("source", "staff"),
        ("subject", "alice"),
        ("tenant", "acme"),
        ("key_id", key.id().as_str()),
        ("client", "127.0.0.1"),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    assert!(!line.to_string().contains(KEY), "{line}");
}

#[tokio::test]
async fn ends_the_run_with_an_error_when_its_credential_expires() {
    let agent = start_agent(&run_beginning());
    let mut gateway = start_gateway(&agent, "run_error").await;
    let key = ExpiringKey::expiring_soon();
    let (run, hai) = tokio::join!(start_run(gateway.data, "/run", &key), start_run(gateway.data, "/to-hai", &key));
    assert_failed(&run, "token_expired", RUN_BEGINNING);
    assert_failed(&hai, "token_expired", HAI_ENDED_BEGINNING);
    for route in ["run", "to-hai"] {
        assert_logged(&mut gateway, &key).await;
        gateway.wait_for_metric(&outcome_series(route, "expired"), 1.0).await;
    }
}

/// The client cannot take the truncated stream for a complete run.
#[tokio::test]
async fn cuts_the_stream_when_its_credential_expires() {
    let agent = start_agent(&run_beginning());
    let mut gateway = start_gateway(&agent, "close").await;
    let key = ExpiringKey::expiring_soon();
    let (run, hai) = tokio::join!(start_run(gateway.data, "/run", &key), start_run(gateway.data, "/to-hai", &key));
    for (answer, expected) in [(run, RUN_BEGINNING), (hai, HAI_RUN_BEGINNING)] {
        assert_eq!((answer.status, answer.end), (200, End::Cut), "{}", answer.text());
        assert_eq!(types(&events(answer.text())), expected);
    }
    for route in ["run", "to-hai"] {
        assert_logged(&mut gateway, &key).await;
        gateway.wait_for_metric(&outcome_series(route, "expired"), 1.0).await;
    }
}

#[tokio::test]
async fn finishes_the_run_past_credential_expiry_under_finish() {
    let steps =
        vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Pause, write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::with_script(steps);
    let gateway = start_gateway(&agent, "finish").await;
    let field = ExpiringKey::expiring_soon().field();
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", &field, INPUT)).await;
    let mut answer = client.read_head().await;
    let received = client.read_until("你好\"}\n\n").await;
    // A request that comes later is refused; it never gets as far as the agent.
    eventually("the end of the credential", async || {
        let body = INPUT.replace("messages", "massages");
        (send_request(gateway.data, post("/run", &field, &body)).await.status == 401).then_some(())
    })
    .await;
    agent.resume();
    (answer.body, answer.end) = client.read_rest().await;
    answer.body = [received.as_bytes(), &answer.body].concat();
    super::assert_succeeded(&answer, COMPLETE_RUN);
}

/// Neither an agent that floods nor a client that does not read outruns the clock.
#[tokio::test]
async fn enforces_expiry_on_floods_and_stalled_clients() {
    let flood = vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        Step::Flood(CONTENT.as_bytes().to_vec(), usize::MAX),
    ];
    let agent = Agent::with_script(flood);
    let mut gateway = start_gateway(&agent, "close").await;
    let field = ExpiringKey::expiring_soon().field();
    let mut stalled = Client::connect_with_small_buffer(gateway.data).await;
    stalled.send(post("/to-hai", &field, INPUT)).await;
    let mut reading = Client::connect(gateway.data).await;
    reading.send(post("/run", &field, INPUT)).await;
    assert_eq!(reading.read_answer().await.end, End::Cut);
    for _ in 0..2 {
        assert_eq!(gateway.next_log("run ended").await["outcome"], "expired");
    }
    assert_eq!(stalled.read_answer().await.end, End::Cut);
}

/// Before the stream has begun, the response is a status.
#[tokio::test]
async fn answers_401_when_the_credential_expires_before_an_answer() {
    let agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    join_all(["run_error", "close"].map(async |policy| {
        let gateway = start_gateway(&agent, policy).await;
        let answer = start_run(gateway.data, "/run", &ExpiringKey::expiring_soon()).await;
        assert_refused(&answer, 401, "token_expired");
        // RFC 9110 §11.6.1: an answer 401 "MUST send a WWW-Authenticate header field".
        assert!(answer.header("www-authenticate").is_some(), "{:?}", answer.headers);
        gateway.wait_for_metric(&outcome_series("run", "expired"), 1.0).await;
    }))
    .await;
}

/// In two steps, the caller of the first counts: the credential of the second only permits reading.
#[tokio::test]
async fn ends_a_two_step_run_with_its_first_credential() {
    let agent = start_agent(&run_beginning());
    join_all([("run_error", End::Clean), ("close", End::Cut)].map(async |(policy, end)| {
        let route = format!(
            "routes: [{{name: two, path: /two, events_path: \"/two/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: \"{}\", on_token_expiry: {policy}}}]",
            agent.url()
        );
        let mut gateway = Gateway::start(Setup { routes: &route, top: &ExpiringKey::auth(), ..Setup::default() }).await;
        let key = ExpiringKey::expiring_soon();
        let field = key.field();
        assert_eq!(send_request(gateway.data, post("/two", &field, INPUT)).await.status, 202);
        let get = format!("GET /two/t1/events HTTP/1.1\r\nHost: gateway\r\nAccept: text/event-stream\r\n{field}\r\n");
        let answer = send_request(gateway.data, get).await;
        assert_eq!((answer.status, answer.end), (200, end), "{}", answer.text());
        let error = usize::from(end == End::Clean);
        assert_eq!(answer.text().matches("token_expired").count(), error, "{}", answer.text());
        assert!(answer.text().contains("RUN_STARTED") && !answer.text().contains("RUN_FINISHED"), "{}", answer.text());
        assert_logged(&mut gateway, &key).await;
    }))
    .await;
}

const ISSUER: &str = "https://idp.example";

/// Validity of a token in seconds: it is made while its gateway already runs.
const GOOD_FOR: u64 = 3;

/// Starts a gateway that accepts tokens of `signer` until ten seconds after they expire.
async fn start_trusting(agent: &Agent, signer: &Signer, policy: &str) -> (Gateway, TempFile) {
    let file = TempFile::new(&jwks(&[signer]));
    let top = format!(
        "auth: {{issuers: [{{name: corp, issuer: '{ISSUER}', audience: {AUDIENCE}, leeway: 10s, jwks_file: '{}'}}]}}",
        file.path().display()
    );
    (start_gateway_with(agent, &top, &format!("on_token_expiry: {policy}")).await, file)
}

/// A token that expired already, and that the gateway takes for a few seconds still.
fn expiring_token(signer: &Signer) -> String {
    let mut claims = claims(ISSUER);
    let now = claims["iat"].as_u64().expect("seconds");
    claims["iat"] = json!(now - 60);
    claims["exp"] = json!(now - 10 + GOOD_FOR);
    signer.token_with_claims(&claims)
}

/// A run that is accepted within the leeway of its issuer may continue within it, and no longer.
#[tokio::test]
async fn ends_the_run_after_the_leeway_of_its_token() {
    let (agent, signer) = (start_agent(&run_beginning()), Signer::new("good"));
    for (policy, end) in [("run_error", End::Clean), ("close", End::Cut)] {
        let (mut gateway, _file) = start_trusting(&agent, &signer, policy).await;
        let token = expiring_token(&signer);
        let fields = format!("Authorization: Bearer {token}\r\n");
        let answer = send_request(gateway.data, post("/run", &fields, INPUT)).await;
        assert_eq!((answer.status, answer.end), (200, end), "{}", answer.text());
        match end {
            End::Clean => drop(assert_failed(&answer, "token_expired", RUN_BEGINNING)),
            _ => assert_eq!(types(&events(answer.text())), RUN_BEGINNING),
        }
        let line = gateway.next_log("run ended").await;
        for (field, value) in
            [("outcome", "expired"), ("code", "token_expired"), ("auth", "jwt"), ("source", "corp"), ("subject", "ada")]
        {
            assert_eq!(line[field], value, "{line}");
        }
        assert!(!line.to_string().contains(&token), "{line}");
        gateway.wait_for_metric(&outcome_series("run", "expired"), 1.0).await;
        assert_refused(&send_request(gateway.data, post("/run", &fields, INPUT)).await, 401, "token_expired");
    }
}

/// RFC 9113, section 8.1: a response is whole when its stream ends; one that is reset is not.
#[tokio::test]
async fn resets_the_h2_stream_when_its_token_expires() {
    let (agent, signer) = (start_agent(&run_beginning()), Signer::new("good"));
    let (mut gateway, _file) = start_trusting(&agent, &signer, "close").await;
    let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let (mut sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = |token: &str| {
        let request = http::Request::post("http://gateway/run").header("authorization", format!("Bearer {token}"));
        request.body(Full::new(Bytes::from(INPUT))).expect("a request")
    };
    let response =
        within_deadline("an answer", sender.send_request(request(&expiring_token(&signer)))).await.expect("an answer");
    assert_eq!(response.status(), 200);
    let (mut body, mut received) = (response.into_body(), Vec::new());
    let broken = within_deadline("the end", async {
        loop {
            match body.frame().await.expect("no whole body") {
                Ok(frame) => received.extend(frame.into_data().expect("data")),
                Err(broken) => return broken,
            }
        }
    });
    let broken = broken.await;
    assert!(!broken.is_closed() && !broken.is_incomplete_message(), "{broken:?}");
    assert_eq!(types(&events(std::str::from_utf8(&received).expect("text"))), RUN_BEGINNING);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "expired");
    // The connection is another matter: it serves the next request.
    let again =
        within_deadline("an answer", sender.send_request(request(&signer.token(ISSUER)))).await.expect("an answer");
    assert_eq!(again.status(), 200);
}
