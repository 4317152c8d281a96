//! Pages of other origins: who may call, what they may read, and that nobody else reaches the agent.

use super::support::agent::Agent;
use super::support::client::{Answer, INPUT, ask, post};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{HEAD, WHOLE, refused, succeeded, whole};

const PAGE: &str = "https://app.example";

fn agent() -> Agent {
    Agent::answering(HEAD.to_owned() + &whole())
}

/// `/app` for one page with cookies, `/any` for all pages, `/none` for none, `/locked` for a page that has a key.
async fn before(agent: &Agent) -> Gateway {
    let url = agent.url();
    let route = |name: &str, more: &str| {
        format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\", {more}}}\n")
    };
    let top = format!(
        "auth:\n  api_keys:\n    - {{name: keys, header: x-my-key, keys: [{{id: one, sha256: \"{}\"}}]}}",
        "00".repeat(32)
    );
    let routes = [
        "routes:\n".to_owned(),
        route("app", "auth: none, forward_headers: [x-kept], cors: {origins: [\"https://app.example\", \"http://localhost:3000\"], credentials: true, max_age: 5m}"),
        route("any", "auth: none, cors: {origins: \"*\"}"),
        route("none", "auth: none"),
        route("locked", "auth: [keys], cors: {origins: [\"https://app.example\"]}"),
    ]
    .concat();
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

async fn preflight(gateway: &Gateway, path: &str, origin: &str, more: &str) -> Answer {
    let request = format!(
        "OPTIONS {path} HTTP/1.1\r\nHost: gateway\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n{more}Connection: close\r\n\r\n"
    );
    ask(gateway.data, request).await
}

fn list(answer: &Answer, name: &str) -> Vec<String> {
    let lines = answer.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
    lines.flat_map(|(_, value)| value.split(',').map(|one| one.trim().to_ascii_lowercase())).collect()
}

/// Fetch §3.3.3: what an answer says to a page.
fn told(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn a_preflight_is_answered_before_anybody_says_who_they_are() {
    let agent = agent();
    let gateway = before(&agent).await;
    let wanted =
        "Access-Control-Request-Headers: content-type,X-Kept, x-evil,authorization, traceparent,tracestate\r\n";
    let answer = preflight(&gateway, "/app", PAGE, wanted).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(told(&answer), Some(PAGE));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(list(&answer, "access-control-allow-methods"), ["post"]);
    let may = ["content-type", "x-kept", "authorization", "traceparent", "tracestate"];
    assert_eq!(list(&answer, "access-control-allow-headers"), may);
    assert_eq!(answer.header("access-control-max-age"), Some("300"));
    assert_eq!(list(&answer, "vary"), ["origin", "access-control-request-method", "access-control-request-headers"]);
    assert!(answer.header("x-request-id").is_some());

    let wanted =
        "Access-Control-Request-Headers: x-my-key, x-kept\r\nAccess-Control-Request-Headers: last-event-id\r\n";
    let answer = preflight(&gateway, "/locked", PAGE, wanted).await;
    assert_eq!((answer.status, told(&answer)), (204, Some(PAGE)));
    assert_eq!(list(&answer, "access-control-allow-headers"), ["x-my-key", "last-event-id"]);
    assert_eq!(answer.header("access-control-allow-credentials"), None);

    let answer = preflight(&gateway, "/any", "null", "").await;
    assert_eq!((answer.status, told(&answer)), (204, Some("*")));
    assert_eq!(answer.header("access-control-allow-headers"), None);
    gateway.reaches(r#"diglot_requests_total{code="204",method="OPTIONS",route="app"}"#, 1.0).await;
    assert_eq!(agent.connections(), 0);
}

/// An origin is allowed to the letter or not at all; a simple request of a foreign page must not run an agent either.
#[tokio::test]
async fn a_foreign_page_is_refused_and_runs_nothing() {
    let agent = agent();
    let gateway = before(&agent).await;
    let foreign = [
        "https://evil.example",
        "https://app.example.evil.example",
        "https://evilapp.example",
        "https://app.example.",
        "http://app.example",
        "https://app.example:443",
        "https://app.example:8443",
        "https://APP.example",
        "https://app.example/",
        "HTTPS://app.example",
        "https://u@app.example",
        "https://sub.app.example",
        "null",
        "",
        "*",
        "https://",
        "https://app.example https://app.example",
        "https://app.example, https://evil.example",
        "http://localhost:3001",
        "http://gateway.evil",
        "https://gateway:1",
        "gateway",
        "ftp://gateway",
    ];
    for origin in foreign {
        for path in ["/app", "/none", "/locked"] {
            for answer in [
                preflight(&gateway, path, origin, "").await,
                ask(gateway.data, post(path, &format!("Origin: {origin}\r\n"), INPUT)).await,
                // A simple request: its type is text, so no preflight came before it.
                ask(gateway.data, format!("POST {path} HTTP/1.1\r\nHost: gateway\r\nOrigin: {origin}\r\nContent-Length: {}\r\n\r\n{INPUT}", INPUT.len())).await,
            ] {
                refused(&answer, 403, "origin_not_allowed");
                assert_eq!(told(&answer), None, "{origin} {path}");
            }
        }
    }
    let two = post("/app", &format!("Origin: {PAGE}\r\nOrigin: https://evil.example\r\n"), INPUT);
    refused(&ask(gateway.data, two).await, 403, "origin_not_allowed");
    // Without `cors` nobody but the gateway's own pages.
    refused(&preflight(&gateway, "/none", PAGE, "").await, 403, "origin_not_allowed");
    assert_eq!(agent.connections(), 0);
}

#[tokio::test]
async fn a_page_that_may_call_reads_answers_and_refusals() {
    let agent = agent();
    let gateway = before(&agent).await;
    for (path, origin, credentials) in
        [("/app", PAGE, Some("true")), ("/app", "http://localhost:3000", Some("true")), ("/any", "*", None)]
    {
        let sent = if origin == "*" { "https://anybody.example" } else { origin };
        let answer = ask(gateway.data, post(path, &format!("Origin: {sent}\r\n"), INPUT)).await;
        succeeded(&answer, WHOLE);
        assert_eq!(told(&answer), Some(origin));
        assert_eq!(answer.header("access-control-allow-credentials"), credentials);
        assert_eq!(list(&answer, "vary"), ["origin"]);
        let exposed = list(&answer, "access-control-expose-headers");
        for name in [
            "x-request-id",
            "retry-after",
            "ratelimit",
            "ratelimit-policy",
            "www-authenticate",
            "proxy-status",
            "location",
        ] {
            assert!(exposed.contains(&name.to_owned()), "{name}: {exposed:?}");
        }
    }
    let answer = ask(gateway.data, post("/locked", &format!("Origin: {PAGE}\r\n"), INPUT)).await;
    refused(&answer, 401, "authentication_required");
    assert_eq!(told(&answer), Some(PAGE));
    assert!(answer.header("www-authenticate").is_some(), "{:?}", answer.headers);
    let answer = ask(gateway.data, post("/app", &format!("Origin: {PAGE}\r\n"), "{")).await;
    refused(&answer, 400, "invalid_request");
    assert_eq!(told(&answer), Some(PAGE));
}

/// Requests without an origin, of the gateway's own pages, and of paths that are no route's, are as they ever were.
#[tokio::test]
async fn where_no_page_asks_nothing_is_said() {
    let agent = agent();
    let gateway = before(&agent).await;
    for own in ["", "Origin: http://gateway\r\n", "Origin: https://gateway\r\n"] {
        for path in ["/app", "/none"] {
            let answer = ask(gateway.data, post(path, own, INPUT)).await;
            succeeded(&answer, WHOLE);
            assert_eq!(told(&answer), None);
        }
    }
    let answer = preflight(&gateway, "/nowhere", PAGE, "").await;
    refused(&answer, 404, "route_not_found");
    assert_eq!(told(&answer), None);
    let answer = ask(gateway.data, "OPTIONS /app HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    refused(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST"));
    // A preflight that is no proper HTTP is no preflight.
    let two = format!(
        "OPTIONS /app HTTP/1.1\r\nHost: a\r\nHost: b\r\nOrigin: {PAGE}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    );
    refused(&ask(gateway.data, two).await, 400, "invalid_request");
}
