//! How a refusal is said: challenges, metadata, counters, and what never reaches a log.

use super::super::support::agent::Agent;
use super::super::support::client::{INPUT, ask, post, run};
use super::super::support::gateway::{File, Gateway, Setup};
use super::super::support::sha256;
use super::super::support::sse::{HEAD, WHOLE, refused, succeeded, whole};
use super::idp::{AUDIENCE, Signer, claims, jwks};
use serde_json::{Value, json};

const ISSUER: &str = "https://idp.example";

/// A gateway with a route for tokens, one for API keys, one for both and one for anybody.
async fn gateway(agent: &Agent, signer: &Signer) -> (Gateway, File) {
    let file = File::new(&jwks(&[signer]));
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

fn agent() -> Agent {
    Agent::answering(format!("{HEAD}{}", whole()))
}

#[tokio::test]
async fn a_caller_hears_what_is_wanted_and_what_was_wrong() {
    let (agent, signer) = (agent(), Signer::new("good"));
    let (gateway, _file) = gateway(&agent, &signer).await;
    let ask = async |path: &str, fields: &str| {
        ask(gateway.data, post(path, &format!("Connection: close\r\n{fields}"), INPUT)).await
    };
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let metadata = "resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/base/run\"";

    let answer = ask("/run", "").await;
    let problem = refused(&answer, 401, "authentication_required");
    assert!(
        problem["detail"].as_str().is_some_and(|text| text.contains("`Authorization: Bearer <token>`")),
        "{problem}"
    );
    assert_eq!(answer.header("www-authenticate"), Some(&*format!("Bearer realm=\"diglot\", {metadata}")));

    let other = Signer::new("good").token(ISSUER);
    let answer = ask("/run", &bearer(&other)).await;
    refused(&answer, 401, "invalid_token");
    let expected = format!(
        "Bearer realm=\"diglot\", error=\"invalid_token\", error_description=\"The signature of the token is wrong.\", {metadata}"
    );
    assert_eq!(answer.header("www-authenticate"), Some(&*expected));

    let mut old = claims(ISSUER);
    old["exp"] = json!(1_600_000_000);
    refused(&ask("/run", &bearer(&signer.signed(&old))).await, 401, "token_expired");
    let mut chat = claims(ISSUER);
    chat["scope"] = json!("chat");
    succeeded(&ask("/run", &bearer(&signer.signed(&chat))).await, WHOLE);
    succeeded(&ask("/run", &format!("authorization: BEARER {}\r\n", signer.signed(&chat))).await, WHOLE);
    refused(&ask("/run", &bearer(&signer.token(ISSUER))).await, 403, "insufficient_scope");

    let answer = ask("/keys", "").await;
    let problem = refused(&answer, 401, "authentication_required");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("an API key in `x-api-key`")), "{problem}");
    assert_eq!(answer.header("www-authenticate"), Some("ApiKey realm=\"diglot\", header=\"x-api-key\""));
    succeeded(&ask("/keys", "X-Api-Key: key-1\r\n").await, WHOLE);
    refused(&ask("/keys", "X-Api-Key: key-2\r\n").await, 401, "invalid_token");
    // A token is no API key, and an API key is not taken as one.
    refused(&ask("/keys", &bearer(&signer.token(ISSUER))).await, 401, "invalid_token");
    refused(&ask("/keys", &bearer("key-1")).await, 401, "invalid_token");

    let answer = ask("/both", "").await;
    let challenges: Vec<_> = answer.headers.iter().filter(|(name, _)| name == "www-authenticate").collect();
    assert_eq!(challenges.len(), 2, "{challenges:?}");
    succeeded(&ask("/both", &bearer(&signer.token(ISSUER))).await, WHOLE);
    succeeded(&ask("/both", &bearer("key-1")).await, WHOLE);
    succeeded(&ask("/both", "X-Api-Key: key-1\r\n").await, WHOLE);
    let both = format!("{}X-Api-Key: key-1\r\n", bearer(&signer.token(ISSUER)));
    let problem = refused(&ask("/both", &both).await, 401, "invalid_token");
    assert_eq!(problem["detail"], "The request carries more than one credential; send one.");
    // RFC 6750, section 3.1: a request that is malformed, and a token that is.
    let error = async |fields: &str| {
        let answer = ask("/run", fields).await;
        refused(&answer, 401, "invalid_token");
        let challenge = answer.header("www-authenticate").expect("a challenge").to_owned();
        let error = challenge.split(", error=\"").nth(1).and_then(|rest| rest.split('"').next());
        error.expect("an error").to_owned()
    };
    let token = bearer(&signer.signed(&chat));
    assert_eq!(error(&format!("{token}{token}")).await, "invalid_request");
    assert_eq!(error("Authorization: Basic YTpi\r\n").await, "invalid_request");
    assert_eq!(error("Authorization: Bearer a b\r\n").await, "invalid_request");
    assert_eq!(error(&bearer("a.b.c")).await, "invalid_token");
    assert_eq!(error(&bearer("abc")).await, "invalid_token");

    succeeded(&ask("/open", &bearer("whatever")).await, WHOLE);
}

#[tokio::test]
async fn a_token_is_taken_from_one_place_only() {
    let (agent, signer) = (agent(), Signer::new("good"));
    let (gateway, _file) = gateway(&agent, &signer).await;
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
        let answer = ask(gateway.data, post(path, &format!("Connection: close\r\n{fields}"), INPUT)).await;
        assert_eq!(answer.status, 401, "{path} {fields}");
        assert!(answer.header("www-authenticate").is_some() && !answer.text().contains(&token), "{}", answer.text());
    }
    assert_eq!(agent.connections(), 0);
}

#[tokio::test]
async fn every_refusal_is_counted_once_and_nothing_of_a_credential_is_logged() {
    let (agent, signer) = (agent(), Signer::new("planted-kid"));
    let (mut gateway, _file) = gateway(&agent, &signer).await;
    let mut bad = claims(ISSUER);
    bad["aud"] = json!("planted-audience");
    let token = signer.signed(&bad);
    super::call(&gateway, &token).await;
    super::with(&gateway, "").await;
    let keyed = post("/keys", "Connection: close\r\nX-Api-Key: planted-key\r\n", INPUT);
    ask(gateway.data, keyed).await;
    for (route, method, reason) in
        [("run", "jwt", "audience"), ("run", "none", "missing"), ("keys", "api_key", "unknown_api_key")]
    {
        let labels = format!(r#"{{method="{method}",reason="{reason}",result="refused",route="{route}"}}"#);
        gateway.reaches(&format!("diglot_auth_total{labels}"), 1.0).await;
    }
    let metrics = gateway.ask("/metrics").await;
    let sum: u32 = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("diglot_auth_total{")?.rsplit(' ').next()?.parse::<u32>().ok())
        .sum();
    assert_eq!(sum, 3);
    let mut causes = Vec::new();
    for _ in 0..3 {
        let line = gateway.logged("request refused").await;
        assert!(!line.to_string().contains("planted") && !line.to_string().contains(&token), "{line}");
        causes.push(line["cause"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(causes, ["audience", "missing", "unknown_api_key"]);
}

/// Whatever becomes of a request, no line of the log and no series holds what it came with.
#[tokio::test]
async fn no_credential_is_in_any_line_of_the_log() {
    let (agent, signer) = (agent(), Signer::new("planted-kid"));
    let (gateway, _file) = gateway(&agent, &signer).await;
    let mut good = claims(ISSUER);
    (good["scope"], good["planted-claim"]) = (json!("chat"), json!("planted-value"));
    let mut expired = good.clone();
    expired["exp"] = json!(1_600_000_000);
    let tokens = [signer.signed(&good), signer.signed(&expired), signer.token(ISSUER)];
    let mut heard = String::new();
    for path in ["/run", "/both", "/keys", "/open", "/nowhere", "/run?access_token=planted"] {
        let bearers = tokens.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let others = [
            "X-Api-Key: planted-key\r\n",
            "X-Api-Key: key-1\r\n",
            "Authorization: Basic planted\r\nCookie: planted\r\n",
        ];
        for field in bearers.chain(others.map(str::to_owned)) {
            let answer = ask(gateway.data, post(path, &format!("Connection: close\r\n{field}"), INPUT)).await;
            heard += &format!("{:?}\n{}\n", answer.headers, answer.text());
        }
    }
    heard += gateway.ask("/metrics").await.text();
    let log = gateway.last_words().await;
    assert!(log.matches("request refused").count() > 10 && log.matches("run ended").count() > 5, "{log}");
    for line in log.lines().chain(heard.lines()) {
        let secrets = ["planted", "key-1"].into_iter().chain(tokens.iter().map(String::as_str));
        // The signature alone would be enough for whoever has the rest.
        let signatures = tokens.iter().filter_map(|token| token.rsplit('.').next());
        for secret in secrets.chain(signatures) {
            assert!(!line.contains(secret), "{secret} in {line}");
        }
    }
}

#[tokio::test]
async fn a_client_learns_whom_the_gateway_believes() {
    let (agent, signer) = (agent(), Signer::new("good"));
    let (gateway, _file) = gateway(&agent, &signer).await;
    let get = async |path: &str| {
        ask(gateway.data, format!("GET {path} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")).await
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
        refused(&get(path).await, 404, "route_not_found");
    }
    refused(&run(gateway.data, "/.well-known/oauth-protected-resource/base/run").await, 404, "route_not_found");
}
