//! Routes with `errors: run_error`: refusals as events, and refusals that stay HTTP.

use super::support::agent::{Agent, refusing_address};
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{HEAD, assert_failed, assert_refused, complete_run};

const PROTO: &str = "application/vnd.ag-ui.event+proto";

/// Starts a gateway: `/locked` requires a key, and so does `/hai`, for HAI clients; `/once` permits one run; `/down`
/// has no agent.
async fn start_gateway(agent: &Agent, down: &str) -> Gateway {
    let route = |name: &str, client: &str, url: &str, more: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: {client}, agent: ag-ui, upstream: \"{url}\", errors: run_error, {more}}}\n"
        )
    };
    let top = format!(
        "rate_limits: [{{name: each, key: route, requests: 1, per: 1h}}]\nauth:\n  api_keys:\n    - {{name: keys, keys: [{{id: one, sha256: \"{}\"}}]}}",
        "00".repeat(32)
    );
    let routes = [
        "routes:\n".to_owned(),
        route("locked", "ag-ui", &agent.url(), "auth: [keys], cors: {origins: [\"https://app.example\"]}"),
        route("hai", "hai", &agent.url(), "auth: [keys]"),
        route("once", "ag-ui", &agent.url(), "auth: none, rate_limits: [each]"),
        route("down", "ag-ui", down, "auth: none"),
    ]
    .concat();
    Gateway::start(Setup { top: &top, routes: &routes, ..Setup::default() }).await
}

#[tokio::test]
async fn writes_refusals_as_failed_runs() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let (_socket, down) = refusing_address();
    let mut gateway = start_gateway(&agent, &down).await;

    let answer = send_request(gateway.data, post("/locked", "Origin: https://app.example\r\n", INPUT)).await;
    let error = assert_failed(&answer, "authentication_required", &[]);
    // The cause, and the way out.
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("an API key in `x-api-key`") && !message.contains("Bearer"), "{message}");
    assert!(message.contains(answer.header("x-request-id").expect("an id")), "{message}");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("www-authenticate"), None);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    // Counted as it was answered, logged as what it was.
    gateway.wait_for_metric(r#"diglot_requests_total{code="200",method="POST",route="locked"}"#, 1.0).await;
    let line = gateway.next_log("request refused").await;
    assert_eq!((&line["status"], &line["code"]), (&401.into(), &"authentication_required".into()));
    assert_eq!(line["request_id"].as_str(), answer.header("x-request-id"));

    // In the client's framing and in its dialect.
    let proto = post("/locked", "", INPUT).replace("text/event-stream", PROTO);
    let answer = send_request(gateway.data, proto).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(PROTO)));
    let length = u32::from_be_bytes(answer.body[..4].try_into().expect("a length")) as usize;
    assert_eq!(answer.body.len(), 4 + length, "one event");
    assert!(String::from_utf8_lossy(&answer.body).contains("authentication_required"));
    let answer = send_request(gateway.data, post("/hai", "", INPUT)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.text().matches("data: ").count(), 1, "{}", answer.text());
    assert!(
        answer.text().contains("\"type\":\"RunError\"") || answer.text().contains("RUN_ERROR"),
        "{}",
        answer.text()
    );

    let answer = send_request(gateway.data, post("/down", "", INPUT)).await;
    assert_failed(&answer, "upstream_unreachable", &[]);
    assert!(answer.header("proxy-status").is_some());
}

/// Information for a retry is also in fields.
#[tokio::test]
async fn sends_retry_after_with_refusals_written_as_events() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, "http://127.0.0.1:9/").await;
    assert_eq!(send_request(gateway.data, post("/once", "", INPUT)).await.status, 200);
    let answer = send_request(gateway.data, post("/once", "", INPUT)).await;
    let error = assert_failed(&answer, "rate_limited", &[]);
    let seconds = answer.header("retry-after").expect("seconds");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(&format!(" in {seconds} s."))), "{error}");
    for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
        assert!(answer.header(name).is_some(), "{name}: {:?}", answer.headers);
    }
    assert_eq!(agent.connection_count(), 1);
}

/// Seed 003, 常见错误码: a refusal has the client's name for its code; `type` keeps the gateway's.
#[tokio::test]
async fn names_codes_as_the_client_does() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let routes = format!(
        "routes:\n  - {{name: bot, path: /bot, client: cloudbase, agent: ag-ui, upstream: \"{}\"}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { routes: &routes, ..Setup::default() }).await;
    let answer = send_request(gateway.data, post("/bot", "", "{}")).await;
    let problem: serde_json::Value = serde_json::from_str(answer.text()).expect("a problem document");
    assert_eq!((answer.status, &problem["code"]), (400, &"INVALID_REQUEST".into()));
    assert_eq!(problem["type"], "urn:diglot:problem:invalid_request");
    // A code for which the dialect has no name of its own.
    let answer = send_request(gateway.data, post("/bot", "", INPUT).replacen("POST", "PUT", 1)).await;
    assert_refused(&answer, 405, "method_not_allowed");
    assert_eq!(agent.connection_count(), 0);
}

/// Requests that start no run or accept no events get HTTP statuses, and so do foreign pages and invalid HTTP.
#[tokio::test]
async fn answers_problem_documents_to_requests_that_are_no_run() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, "http://127.0.0.1:9/").await;
    let sent = post("/locked", "", INPUT);
    assert_refused(&send_request(gateway.data, sent.replacen("POST", "PUT", 1)).await, 401, "authentication_required");
    let answer = send_request(gateway.data, sent.replace("text/event-stream", "application/json")).await;
    assert_refused(&answer, 401, "authentication_required");
    assert!(answer.header("www-authenticate").is_some());
    let foreign = send_request(gateway.data, post("/locked", "Origin: https://evil.example\r\n", INPUT)).await;
    assert_refused(&foreign, 403, "origin_not_allowed");
    assert_refused(
        &send_request(gateway.data, post("/locked", "Host: other\r\n", INPUT)).await,
        400,
        "invalid_request",
    );
    assert_refused(&send_request(gateway.data, post("/nowhere", "", INPUT)).await, 404, "route_not_found");
    assert_eq!(agent.connection_count(), 0);
}
