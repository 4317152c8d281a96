//! Whose a run is: of the caller that started it. For everybody else there is no such run.

use super::super::support::sha256;
use super::*;

pub(super) fn auth() -> String {
    let key = |id: &str, more: &str| format!("{{id: {id}, sha256: {}{more}}}", sha256(&format!("{id}-key")));
    let keys = [
        key("ada", ", tenant: acme, scopes: [run]"),
        key("ada-2", ", subject: ada, tenant: acme, scopes: [run]"),
        key("ada-elsewhere", ", subject: ada, tenant: umbrella, scopes: [run]"),
        key("bob", ", tenant: acme, scopes: [run]"),
        key("eve", ""),
    ];
    format!("auth: {{api_keys: [{{name: web, keys: [{}]}}]}}", keys.join(", "))
}

pub(super) fn by(caller: &str, request: &str) -> String {
    request.replacen("Host: gateway\r\n", &format!("Host: gateway\r\nX-Api-Key: {caller}-key\r\n"), 1)
}

#[tokio::test]
async fn a_run_is_its_callers_alone() {
    let agent = waiting();
    let gateway = with(&agent, &auth(), ", require: {scopes: [run]}").await;
    let start = post("/run", "", &input("r1"));
    let (client, first) = opened(gateway.data, by("ada", &start), HEARD).await;
    let behind = cursor(first[0].id());
    let stop = "POST /run/runs/r1/stop HTTP/1.1\r\nHost: gateway\r\nContent-Length: 0\r\n\r\n";
    let stranger = refused(&ask(gateway.data, by("bob", &get(&events_of("r9"), ""))).await, 404, "run_not_found");
    for caller in ["bob", "ada-elsewhere"] {
        for request in [
            get(&events_of("r1"), ""),
            get(&events_of("r1"), &behind),
            post("/run", &behind, &input("r1")),
            stop.to_owned(),
        ] {
            let problem = refused(&ask(gateway.data, by(caller, &request)).await, 404, "run_not_found");
            assert_eq!((&problem["detail"], &problem["hint"]), (&stranger["detail"], &stranger["hint"]));
        }
    }
    // Who may not use the route learns that, and nothing else.
    for request in [get(&events_of("r1"), ""), stop.to_owned()] {
        refused(&ask(gateway.data, by("eve", &request)).await, 403, "insufficient_scope");
        refused(&ask(gateway.data, &request).await, 401, "authentication_required");
    }
    assert_eq!(agent.connections(), 1);
    // The same subject with another of its keys is the same caller; the same id of another one another run.
    let (again, _) = opened(gateway.data, by("ada-2", &get(&events_of("r1"), &behind)), HEARD).await;
    let (other, _) = opened(gateway.data, by("bob", &start), HEARD).await;
    assert_eq!(agent.connections(), 2);
    agent.go();
    agent.go();
    for client in [client, again, other] {
        assert_eq!(kinds(&rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
}

#[tokio::test]
async fn coming_back_takes_no_room_and_is_counted() {
    let agent = waiting();
    let limit = "rate_limits: [{name: few, key: route, requests: 1, per: 24h, burst: 4}]";
    let more = ", max_streams: 1, max_streams_per_caller: 1, rate_limits: [few]";
    let gateway = with(&agent, limit, more).await;
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    drop(client);
    // The run holds its place although nobody listens.
    refused(&ask(gateway.data, post("/run", "", &input("r2"))).await, 429, "too_many_streams");
    let behind = cursor(first[0].id());
    let (one, _) = opened(gateway.data, post("/run", &behind, &input("r1")), HEARD).await;
    let (two, _) = opened(gateway.data, get(&events_of("r1"), &behind), HEARD).await;
    let over = refused(&ask(gateway.data, get(&events_of("r1"), &behind)).await, 429, "rate_limited");
    assert_eq!(over["policy"], "few");
    agent.go();
    for client in [one, two] {
        rest(client).await;
    }
    gateway.reaches("diglot_streams_active{route=\"run\"}", 0.0).await;
}

#[tokio::test]
async fn readers_of_one_run_are_few() {
    let agent = waiting();
    let gateway = before(&agent).await;
    let mut readers = vec![begun(gateway.data, "r1", HEARD).await.0];
    for _ in 1..16 {
        readers.push(opened(gateway.data, get(&events_of("r1"), ""), HEARD).await.0);
    }
    let answer = read(gateway.data, "r1", "").await;
    refused(&answer, 429, "too_many_readers");
    assert_eq!(answer.header("retry-after"), Some("1"));
    agent.go();
    for reader in readers {
        rest(reader).await;
    }
}

#[tokio::test]
async fn a_page_may_come_back_and_stop() {
    let agent = waiting();
    let page = "Origin: https://app.example.com\r\n";
    let gateway = with(&agent, "", ", cors: {origins: [\"https://app.example.com\"]}").await;
    for (path, method) in [(events_of("r1"), "GET"), ("/run/runs/r1/stop".to_owned(), "POST")] {
        let asks = format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n{page}Access-Control-Request-Method: {method}\r\nAccess-Control-Request-Headers: last-event-id,content-type\r\n\r\n"
        );
        let answer = ask(gateway.data, asks).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-methods"), Some(method));
        assert_eq!(answer.header("access-control-allow-headers"), Some("last-event-id, content-type"));
    }
    let (client, first) = begun(gateway.data, "r1", HEARD).await;
    agent.go();
    rest(client).await;
    let answer = read(gateway.data, "r1", &format!("{page}{}", cursor(first[2].id()))).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(heard(&answer).len(), 2);
    let foreign = read(gateway.data, "r1", "Origin: https://elsewhere.example\r\n").await;
    refused(&foreign, 403, "origin_not_allowed");
}
