//! Pages of other origins: allowed requests, readable responses, and refusals before the agent is called.

use super::support::agent::Agent;
use super::support::client::{Answer, INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run};

const PAGE: &str = "https://app.example";

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// `/app` for one page with cookies, `/any` for all pages, `/none` for none, `/locked` for a page with a key.
async fn start_gateway(agent: &Agent) -> Gateway {
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
    send_request(gateway.data, request).await
}

fn header_list(answer: &Answer, name: &str) -> Vec<String> {
    let lines = answer.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
    lines.flat_map(|(_, value)| value.split(',').map(|one| one.trim().to_ascii_lowercase())).collect()
}

/// Returns the allowed origin of a response [Fetch §3.3.3].
fn allowed_origin(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

#[tokio::test]
async fn answers_preflights_before_authentication() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let wanted =
        "Access-Control-Request-Headers: content-type,X-Kept, x-evil,authorization, traceparent,tracestate\r\n";
    let answer = preflight(&gateway, "/app", PAGE, wanted).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(allowed_origin(&answer), Some(PAGE));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(header_list(&answer, "access-control-allow-methods"), ["post"]);
    let may = ["content-type", "x-kept", "authorization", "traceparent", "tracestate"];
    assert_eq!(header_list(&answer, "access-control-allow-headers"), may);
    assert_eq!(answer.header("access-control-max-age"), Some("300"));
    assert_eq!(
        header_list(&answer, "vary"),
        ["origin", "access-control-request-method", "access-control-request-headers"]
    );
    assert!(answer.header("x-request-id").is_some());

    let wanted =
        "Access-Control-Request-Headers: x-my-key, x-kept\r\nAccess-Control-Request-Headers: last-event-id\r\n";
    let answer = preflight(&gateway, "/locked", PAGE, wanted).await;
    assert_eq!((answer.status, allowed_origin(&answer)), (204, Some(PAGE)));
    assert_eq!(header_list(&answer, "access-control-allow-headers"), ["x-my-key", "last-event-id"]);
    assert_eq!(answer.header("access-control-allow-credentials"), None);

    let answer = preflight(&gateway, "/any", "null", "").await;
    assert_eq!((answer.status, allowed_origin(&answer)), (204, Some("*")));
    assert_eq!(answer.header("access-control-allow-headers"), None);
    gateway.wait_for_metric(r#"diglot_requests_total{code="204",method="OPTIONS",route="app"}"#, 1.0).await;
    assert_eq!(agent.connection_count(), 0);
}

/// An origin is allowed to the letter or not at all; a simple request of a foreign page must not run an agent either.
#[tokio::test]
async fn refuses_foreign_origins_without_starting_a_run() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
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
                send_request(gateway.data, post(path, &format!("Origin: {origin}\r\n"), INPUT)).await,
                // A simple request: its type is text, so no preflight came before it.
                send_request(gateway.data, format!("POST {path} HTTP/1.1\r\nHost: gateway\r\nOrigin: {origin}\r\nContent-Length: {}\r\n\r\n{INPUT}", INPUT.len())).await,
            ] {
                assert_refused(&answer, 403, "origin_not_allowed");
                assert_eq!(allowed_origin(&answer), None, "{origin} {path}");
            }
        }
    }
    let two = post("/app", &format!("Origin: {PAGE}\r\nOrigin: https://evil.example\r\n"), INPUT);
    assert_refused(&send_request(gateway.data, two).await, 403, "origin_not_allowed");
    // Without `cors` only the gateway's own pages may call.
    assert_refused(&preflight(&gateway, "/none", PAGE, "").await, 403, "origin_not_allowed");
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn adds_cors_headers_to_answers_and_refusals() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    for (path, origin, credentials) in
        [("/app", PAGE, Some("true")), ("/app", "http://localhost:3000", Some("true")), ("/any", "*", None)]
    {
        let sent = if origin == "*" { "https://anybody.example" } else { origin };
        let answer = send_request(gateway.data, post(path, &format!("Origin: {sent}\r\n"), INPUT)).await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert_eq!(allowed_origin(&answer), Some(origin));
        assert_eq!(answer.header("access-control-allow-credentials"), credentials);
        assert_eq!(header_list(&answer, "vary"), ["origin"]);
        let exposed = header_list(&answer, "access-control-expose-headers");
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
    let answer = send_request(gateway.data, post("/locked", &format!("Origin: {PAGE}\r\n"), INPUT)).await;
    assert_refused(&answer, 401, "authentication_required");
    assert_eq!(allowed_origin(&answer), Some(PAGE));
    assert!(answer.header("www-authenticate").is_some(), "{:?}", answer.headers);
    let answer = send_request(gateway.data, post("/app", &format!("Origin: {PAGE}\r\n"), "{")).await;
    assert_refused(&answer, 400, "invalid_request");
    assert_eq!(allowed_origin(&answer), Some(PAGE));
}

/// Requests without an origin, of the gateway's own pages, and of paths that are no route's, are as they ever were.
#[tokio::test]
async fn sends_no_cors_headers_without_a_foreign_origin() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    for own in ["", "Origin: http://gateway\r\n", "Origin: https://gateway\r\n"] {
        for path in ["/app", "/none"] {
            let answer = send_request(gateway.data, post(path, own, INPUT)).await;
            assert_succeeded(&answer, COMPLETE_RUN);
            assert_eq!(allowed_origin(&answer), None);
        }
    }
    let answer = preflight(&gateway, "/nowhere", PAGE, "").await;
    assert_refused(&answer, 404, "route_not_found");
    assert_eq!(allowed_origin(&answer), None);
    let answer = send_request(gateway.data, "OPTIONS /app HTTP/1.1\r\nHost: gateway\r\n\r\n").await;
    assert_refused(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("POST"));
    // A preflight that is no proper HTTP is no preflight.
    let two = format!(
        "OPTIONS /app HTTP/1.1\r\nHost: a\r\nHost: b\r\nOrigin: {PAGE}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    );
    assert_refused(&send_request(gateway.data, two).await, 400, "invalid_request");
}
