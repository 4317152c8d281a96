//! A run belongs to the caller that started it; other callers get 404.

use super::super::support::sha256;
use super::*;

pub(super) fn auth_section() -> String {
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

pub(super) fn with_key_of(caller: &str, request: &str) -> String {
    request.replacen("Host: gateway\r\n", &format!("Host: gateway\r\nX-Api-Key: {caller}-key\r\n"), 1)
}

#[tokio::test]
async fn hides_a_run_from_other_callers() {
    let agent = start_paused_agent();
    let gateway = start_gateway_with(&agent, &auth_section(), ", require: {scopes: [run]}").await;
    let start = post("/run", "", &input("r1"));
    let (client, first) = open_stream_until(gateway.data, with_key_of("ada", &start), END_OF_CONTENT).await;
    let behind = last_event_id(first[0].id());
    let stop = "POST /run/runs/r1/stop HTTP/1.1\r\nHost: gateway\r\nContent-Length: 0\r\n\r\n";
    let stranger = assert_refused(
        &send_request(gateway.data, with_key_of("bob", &get_request(&run_events_path("r9"), ""))).await,
        404,
        "run_not_found",
    );
    for caller in ["bob", "ada-elsewhere"] {
        for request in [
            get_request(&run_events_path("r1"), ""),
            get_request(&run_events_path("r1"), &behind),
            post("/run", &behind, &input("r1")),
            stop.to_owned(),
        ] {
            let problem =
                assert_refused(&send_request(gateway.data, with_key_of(caller, &request)).await, 404, "run_not_found");
            assert_eq!((&problem["detail"], &problem["hint"]), (&stranger["detail"], &stranger["hint"]));
        }
    }
    // A caller without access to the route gets only that refusal.
    for request in [get_request(&run_events_path("r1"), ""), stop.to_owned()] {
        assert_refused(&send_request(gateway.data, with_key_of("eve", &request)).await, 403, "insufficient_scope");
        assert_refused(&send_request(gateway.data, &request).await, 401, "authentication_required");
    }
    assert_eq!(agent.connection_count(), 1);
    // The same subject with another of its keys is the same caller; the same id of another one another run.
    let (again, _) = open_stream_until(
        gateway.data,
        with_key_of("ada-2", &get_request(&run_events_path("r1"), &behind)),
        END_OF_CONTENT,
    )
    .await;
    let (other, _) = open_stream_until(gateway.data, with_key_of("bob", &start), END_OF_CONTENT).await;
    assert_eq!(agent.connection_count(), 2);
    agent.resume();
    agent.resume();
    for client in [client, again, other] {
        assert_eq!(frame_kinds(&read_rest(client).await), ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    }
}

#[tokio::test]
async fn resuming_takes_no_stream_slot_but_counts_as_a_request() {
    let agent = start_paused_agent();
    let limit = "rate_limits: [{name: few, key: route, requests: 1, per: 24h, burst: 4}]";
    let more = ", max_streams: 1, max_streams_per_caller: 1, rate_limits: [few]";
    let gateway = start_gateway_with(&agent, limit, more).await;
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    drop(client);
    // The run keeps its permit although it has no client.
    assert_refused(&send_request(gateway.data, post("/run", "", &input("r2"))).await, 429, "too_many_streams");
    let behind = last_event_id(first[0].id());
    let (one, _) = open_stream_until(gateway.data, post("/run", &behind, &input("r1")), END_OF_CONTENT).await;
    let (two, _) = open_stream_until(gateway.data, get_request(&run_events_path("r1"), &behind), END_OF_CONTENT).await;
    let over = assert_refused(
        &send_request(gateway.data, get_request(&run_events_path("r1"), &behind)).await,
        429,
        "rate_limited",
    );
    assert_eq!(over["policy"], "few");
    agent.resume();
    for client in [one, two] {
        read_rest(client).await;
    }
    gateway.wait_for_metric("diglot_streams_active{route=\"run\"}", 0.0).await;
}

#[tokio::test]
async fn limits_the_readers_of_a_run() {
    let agent = start_paused_agent();
    let gateway = start_gateway(&agent).await;
    let mut readers = vec![start_run_until(gateway.data, "r1", END_OF_CONTENT).await.0];
    for _ in 1..16 {
        readers.push(open_stream_until(gateway.data, get_request(&run_events_path("r1"), ""), END_OF_CONTENT).await.0);
    }
    let answer = read_run(gateway.data, "r1", "").await;
    assert_refused(&answer, 429, "too_many_readers");
    assert_eq!(answer.header("retry-after"), Some("1"));
    agent.resume();
    for reader in readers {
        read_rest(reader).await;
    }
}

#[tokio::test]
async fn allows_cross_origin_resume_and_stop() {
    let agent = start_paused_agent();
    let page = "Origin: https://app.example.com\r\n";
    let gateway = start_gateway_with(&agent, "", ", cors: {origins: [\"https://app.example.com\"]}").await;
    for (path, method) in [(run_events_path("r1"), "GET"), ("/run/runs/r1/stop".to_owned(), "POST")] {
        let stop_request = format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n{page}Access-Control-Request-Method: {method}\r\nAccess-Control-Request-Headers: last-event-id,content-type\r\n\r\n"
        );
        let answer = send_request(gateway.data, stop_request).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert_eq!(answer.header("access-control-allow-methods"), Some(method));
        assert_eq!(answer.header("access-control-allow-headers"), Some("last-event-id, content-type"));
    }
    let (client, first) = start_run_until(gateway.data, "r1", END_OF_CONTENT).await;
    agent.resume();
    read_rest(client).await;
    let answer = read_run(gateway.data, "r1", &format!("{page}{}", last_event_id(first[2].id()))).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(finished_frames(&answer).len(), 2);
    let foreign = read_run(gateway.data, "r1", "Origin: https://elsewhere.example\r\n").await;
    assert_refused(&foreign, 403, "origin_not_allowed");
}

/// A run that does not start must not take the thread from the caller that opens it later.
#[tokio::test]
async fn claims_no_thread_for_a_run_that_is_refused() {
    let agent = start_paused_agent();
    let gateway = start_gateway_with(&agent, &auth_section(), ", threads: owned, max_streams: 1").await;
    let in_thread = |run: &str, thread: &str| {
        let body = input(run).replace(r#""threadId":"t1""#, &format!(r#""threadId":"{thread}""#));
        assert!(body.contains(thread));
        post("/run", "", &body)
    };
    let started = with_key_of("ada", &in_thread("r1", "t1"));
    let (first, _) = open_stream_until(gateway.data, started, END_OF_CONTENT).await;
    let refused = with_key_of("bob", &in_thread("r2", "t2"));
    assert_refused(&send_request(gateway.data, refused).await, 503, "overloaded");
    agent.resume();
    gateway.wait_for_metric("diglot_streams_active{route=\"run\"}", 0.0).await;
    drop(first);
    let started = with_key_of("ada", &in_thread("r3", "t2"));
    open_stream_until(gateway.data, started, END_OF_CONTENT).await;
}
