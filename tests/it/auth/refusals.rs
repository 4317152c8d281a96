//! Responses to bad credentials: challenges, metadata, counters, and data that never appears in a log.

use super::super::support::agent::Agent;
use super::super::support::client::{INPUT, post, post_run, send_request};
use super::super::support::gateway::{Gateway, Setup, TempFile};
use super::super::support::sha256;
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};
use super::idp::{AUDIENCE, Signer, claims, jwks};
use serde_json::{Value, json};

const ISSUER: &str = "https://idp.example";

/// Starts a gateway with a route for tokens, one for API keys, one for both and one without authentication.
async fn start_gateway(agent: &Agent, signer: &Signer) -> (Gateway, TempFile) {
    let file = TempFile::new(&jwks(&[signer]));
    let digest = sha256("key-1");
    let top = format!(
        "auth:\n  resource: https://gw.example/base\n  issuers:\n    - {{name: corp, issuer: '{ISSUER}', audience: {AUDIENCE}, jwks_file: '{}'}}\n  api_keys:\n    - {{name: team, keys: [{{id: k1, sha256: {digest}}}]}}\n    - {{name: bearers, header: authorization, keys: [{{id: k2, sha256: {digest}}}]}}",
        file.path().display()
    );
    let route = |name: &str, auth: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: '{}', {auth}}}\n",
            agent.url()
        )
    };
    let routes = [
        route("run", "auth: corp, require: {scopes: [chat]}"),
        route("keys", "auth: team"),
        route("both", "auth: [corp, team, bearers]"),
        route("open", "auth: none"),
    ];
    let routes = format!("routes:\n{}", routes.concat());
    let setup = Setup { top: &top, routes: &routes, ..Setup::default() };
    (Gateway::start(setup).await, file)
}

fn start_agent() -> Agent {
    Agent::with_response(format!("{HEAD}{}", complete_run()))
}

#[tokio::test]
async fn challenges_callers_and_names_the_token_error() {
    let (agent, signer) = (start_agent(), Signer::new("good"));
    let (gateway, _file) = start_gateway(&agent, &signer).await;
    let call = async |path: &str, fields: &str| {
        send_request(gateway.data, post(path, &format!("Connection: close\r\n{fields}"), INPUT)).await
    };
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let metadata = "resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/base/run\"";

    let answer = call("/run", "").await;
    let problem = assert_refused(&answer, 401, "authentication_required");
    assert!(
        problem["detail"].as_str().is_some_and(|text| text.contains("`Authorization: Bearer <token>`")),
        "{problem}"
    );
    assert_eq!(answer.header("www-authenticate"), Some(&*format!("Bearer realm=\"diglot\", {metadata}")));

    let other = Signer::new("good").token(ISSUER);
    let answer = call("/run", &bearer(&other)).await;
    assert_refused(&answer, 401, "invalid_token");
    let expected = format!(
        "Bearer realm=\"diglot\", error=\"invalid_token\", error_description=\"The signature of the token is wrong.\", {metadata}"
    );
    assert_eq!(answer.header("www-authenticate"), Some(&*expected));

    let mut old = claims(ISSUER);
    old["exp"] = json!(1_600_000_000);
    assert_refused(&call("/run", &bearer(&signer.token_with_claims(&old))).await, 401, "token_expired");
    let mut chat = claims(ISSUER);
    chat["scope"] = json!("chat");
    assert_succeeded(&call("/run", &bearer(&signer.token_with_claims(&chat))).await, COMPLETE_RUN);
    assert_succeeded(
        &call("/run", &format!("authorization: BEARER {}\r\n", signer.token_with_claims(&chat))).await,
        COMPLETE_RUN,
    );
    let answer = call("/run", &bearer(&signer.token(ISSUER))).await;
    assert_refused(&answer, 403, "insufficient_scope");
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"chat\"";
    assert_eq!(answer.header("www-authenticate"), Some(challenge));

    let answer = call("/keys", "").await;
    let problem = assert_refused(&answer, 401, "authentication_required");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("an API key in `x-api-key`")), "{problem}");
    assert_eq!(answer.header("www-authenticate"), Some("ApiKey realm=\"diglot\", header=\"x-api-key\""));
    assert_succeeded(&call("/keys", "X-Api-Key: key-1\r\n").await, COMPLETE_RUN);
    assert_eq!(problem["hint"], "Send a credential of a kind that the route accepts.");
    let problem = assert_refused(&call("/keys", "X-Api-Key: key-2\r\n").await, 401, "invalid_token");
    assert_eq!(problem["hint"], "Check the API key, or ask the operator of the gateway for a new one.");
    // A token is not an API key, and an API key is not a token.
    assert_refused(&call("/keys", &bearer(&signer.token(ISSUER))).await, 401, "invalid_token");
    let problem = assert_refused(&call("/keys", &bearer("key-1")).await, 401, "invalid_token");
    assert_eq!(problem["hint"], "Send exactly one credential: an API key in `x-api-key`.");

    let answer = call("/both", "").await;
    let challenges: Vec<_> = answer.headers.iter().filter(|(name, _)| name == "www-authenticate").collect();
    assert_eq!(challenges.len(), 2, "{challenges:?}");
    assert_succeeded(&call("/both", &bearer(&signer.token(ISSUER))).await, COMPLETE_RUN);
    assert_succeeded(&call("/both", &bearer("key-1")).await, COMPLETE_RUN);
    assert_succeeded(&call("/both", "X-Api-Key: key-1\r\n").await, COMPLETE_RUN);
    let both = format!("{}X-Api-Key: key-1\r\n", bearer(&signer.token(ISSUER)));
    let problem = assert_refused(&call("/both", &both).await, 401, "invalid_token");
    assert_eq!(problem["detail"], "The request carries more than one credential; send one.");
    // The answer names the form of an unusable credential, and never quotes it.
    for (path, fields, expected) in [
        ("/run", bearer("opaque"), "The token cannot be read as a JWT"),
        ("/run", "Authorization: basic YTpi\r\n".into(), "has the scheme `Basic`."),
        ("/run", "Authorization: hunter2\r\n".into(), "does not begin with `Bearer` and a space."),
        ("/run", "Authorization: Bearer\r\n".into(), "Nothing stands after `Bearer`"),
        ("/run", "Authorization: Bearer hunter2 x\r\n".into(), "has characters that no token has."),
        ("/run", "Authorization:\r\n".into(), "is empty."),
        ("/run?access_token=hunter2", String::new(), "The credential is in the URL (`access_token`)"),
        ("/keys", bearer("key-1"), "The credential is a Bearer token, and the route accepts none."),
        ("/keys", "X-Api-Key:\r\n".into(), "The API key is empty."),
    ] {
        let problem = assert_refused(&call(path, &fields).await, 401, "invalid_token");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(expected) && !detail.contains("hunter2"), "{fields}: {problem}");
    }
    // RFC 6750, section 3.1: a request that is malformed, and a token that is.
    let error = async |fields: &str| {
        let answer = call("/run", fields).await;
        assert_refused(&answer, 401, "invalid_token");
        let challenge = answer.header("www-authenticate").expect("a challenge").to_owned();
        let error = challenge.split(", error=\"").nth(1).and_then(|rest| rest.split('"').next());
        error.expect("an error").to_owned()
    };
    let token = bearer(&signer.token_with_claims(&chat));
    assert_eq!(error(&format!("{token}{token}")).await, "invalid_request");
    assert_eq!(error("Authorization: Basic YTpi\r\n").await, "invalid_request");
    assert_eq!(error("Authorization: Bearer a b\r\n").await, "invalid_request");
    assert_eq!(error(&bearer("a.b.c")).await, "invalid_token");
    assert_eq!(error(&bearer("abc")).await, "invalid_token");

    assert_succeeded(&call("/open", &bearer("whatever")).await, COMPLETE_RUN);
}

#[tokio::test]
async fn accepts_tokens_from_one_authorization_header_only() {
    let (agent, signer) = (start_agent(), Signer::new("good"));
    let (gateway, _file) = start_gateway(&agent, &signer).await;
    let token = signer.token(ISSUER);
    for (path, fields) in [
        ("/both", format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n")),
        ("/both", format!("Authorization: Bearer {token}, Bearer {token}\r\n")),
        ("/both", format!("Authorization: Basic {token}\r\n")),
        ("/both", format!("Authorization: {token}\r\n")),
        ("/both", format!("Authorization: Bearer\t{token}\r\n")),
        ("/both", format!("X-Authorization: Bearer {token}\r\n")),
        ("/both", format!("Cookie: access_token={token}\r\n")),
        ("/both", format!("Proxy-Authorization: Bearer {token}\r\n")),
        (&*format!("/both?access_token={token}"), String::new()),
        (&*format!("/both?access_token={token}"), format!("Authorization: Bearer {token}\r\n")),
    ] {
        let answer = send_request(gateway.data, post(path, &format!("Connection: close\r\n{fields}"), INPUT)).await;
        assert_eq!(answer.status, 401, "{path} {fields}");
        assert!(answer.header("www-authenticate").is_some() && !answer.text().contains(&token), "{}", answer.text());
    }
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn counts_each_refusal_once_and_logs_no_credential() {
    let (agent, signer) = (start_agent(), Signer::new("planted-kid"));
    let (mut gateway, _file) = start_gateway(&agent, &signer).await;
    let mut bad = claims(ISSUER);
    bad["aud"] = json!("planted-audience");
    let token = signer.token_with_claims(&bad);
    super::start_run_with_token(&gateway, &token).await;
    super::start_run_with_fields(&gateway, "").await;
    let keyed = post("/keys", "Connection: close\r\nX-Api-Key: planted-key\r\n", INPUT);
    send_request(gateway.data, keyed).await;
    for (route, method, reason) in
        [("run", "jwt", "audience"), ("run", "none", "missing"), ("keys", "api_key", "unknown_api_key")]
    {
        let labels = format!(r#"{{method="{method}",reason="{reason}",result="refused",route="{route}"}}"#);
        gateway.wait_for_metric(&format!("diglot_auth_total{labels}"), 1.0).await;
    }
    let metrics = gateway.get_status("/metrics").await;
    let sum: u32 = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("diglot_auth_total{")?.rsplit(' ').next()?.parse::<u32>().ok())
        .sum();
    assert_eq!(sum, 3);
    let mut causes = Vec::new();
    for _ in 0..3 {
        let line = gateway.next_log("request refused").await;
        assert!(!line.to_string().contains("planted") && !line.to_string().contains(&token), "{line}");
        causes.push(line["cause"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(causes, ["audience", "missing", "unknown_api_key"]);
}

/// After every kind of request, no log line and no series contains its credential.
#[tokio::test]
async fn never_logs_credentials() {
    let (agent, signer) = (start_agent(), Signer::new("planted-kid"));
    let (gateway, _file) = start_gateway(&agent, &signer).await;
    let mut good = claims(ISSUER);
    (good["scope"], good["planted-claim"]) = (json!("chat"), json!("planted-value"));
    let mut expired = good.clone();
    expired["exp"] = json!(1_600_000_000);
    let tokens = [signer.token_with_claims(&good), signer.token_with_claims(&expired), signer.token(ISSUER)];
    let mut received = String::new();
    for path in ["/run", "/both", "/keys", "/open", "/nowhere", "/run?access_token=planted"] {
        let bearers = tokens.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let others = [
            "X-Api-Key: planted-key\r\n",
            "X-Api-Key: key-1\r\n",
            "Authorization: Basic planted\r\nCookie: planted\r\n",
        ];
        for field in bearers.chain(others.map(str::to_owned)) {
            let answer = send_request(gateway.data, post(path, &format!("Connection: close\r\n{field}"), INPUT)).await;
            received += &format!("{:?}\n{}\n", answer.headers, answer.text());
        }
    }
    received += gateway.get_status("/metrics").await.text();
    let log = gateway.terminate().await;
    assert!(log.matches("request refused").count() > 10 && log.matches("run ended").count() > 5, "{log}");
    for line in log.lines().chain(received.lines()) {
        let secrets = ["planted", "key-1"].into_iter().chain(tokens.iter().map(String::as_str));
        // With the rest of a token, its signature alone would be enough to forge it.
        let signatures = tokens.iter().filter_map(|token| token.rsplit('.').next());
        for secret in secrets.chain(signatures) {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

#[tokio::test]
async fn serves_protected_resource_metadata() {
    let (agent, signer) = (start_agent(), Signer::new("good"));
    let (gateway, _file) = start_gateway(&agent, &signer).await;
    let get = async |path: &str| {
        send_request(gateway.data, format!("GET {path} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")).await
    };
    for (path, expected) in [
        (
            "/.well-known/oauth-protected-resource/base/run",
            json!({"resource": "https://gw.example/base/run", "authorization_servers": [ISSUER],
                   "bearer_methods_supported": ["header"], "scopes_supported": ["chat"]}),
        ),
        (
            "/.well-known/oauth-protected-resource/base/both",
            json!({"resource": "https://gw.example/base/both", "authorization_servers": [ISSUER],
                   "bearer_methods_supported": ["header"]}),
        ),
        (
            "/.well-known/oauth-protected-resource/base",
            json!({"resource": "https://gw.example/base", "authorization_servers": [ISSUER],
                   "bearer_methods_supported": ["header"], "scopes_supported": ["chat"]}),
        ),
    ] {
        let answer = get(path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}");
        let document: Value = serde_json::from_str(answer.text()).expect("JSON");
        assert_eq!(document, expected, "{path}");
    }
    for path in ["/.well-known/oauth-protected-resource/base/keys", "/.well-known/oauth-protected-resource/base/run/"] {
        assert_refused(&get(path).await, 404, "route_not_found");
    }
    assert_refused(
        &post_run(gateway.data, "/.well-known/oauth-protected-resource/base/run").await,
        404,
        "route_not_found",
    );
}
