//! Requests: refusals and their form, responses, and the request that the agent receives.

use super::support::agent::{Agent, Request, Step, refusing_address, write};
use super::support::client::{Answer, Client, INPUT, post, post_run, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{COMPLETE_RUN, HEAD, assert_refused, assert_succeeded, complete_run, run_beginning};
use super::support::within_deadline;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Deadline for the agent to notice that its client has left.
const RELEASE_DEADLINE: Duration = Duration::from_secs(1);

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Sends a request; requires that the agent receives none.
async fn answer_without_upstream_call(sent: impl AsRef<[u8]>, top: &str) -> Answer {
    let agent = start_agent();
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let answer = send_request(gateway.data, sent).await;
    assert_eq!(agent.connection_count(), 0);
    answer
}

#[tokio::test]
async fn rejects_invalid_bodies_and_names_the_place() {
    let deep = "[".repeat(201) + &"]".repeat(201);
    let rows: &[(&[u8], &str)] = &[
        (b"", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{} {}", "not a JSON object"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{\"messages\":[],\"threadId\":\"\xff\"}", "not valid UTF-8 at byte 27"),
        (b"{}", "/messages: "),
        (b"{\"messages\":{}}", "/messages: "),
        (b"{\"messages\":[7]}", "/messages/0: "),
        (b"{\"messages\":[{\"id\":\"m1\",\"role\":\"wizard\"}]}", "/messages/0/role: "),
        (b"{\"messages\":[],\"threadId\":{}}", "/threadId: "),
    ];
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    for (body, detail) in rows {
        let head = format!("POST /run HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        let problem =
            assert_refused(&send_request(gateway.data, [head.as_bytes(), body].concat()).await, 400, "invalid_request");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(detail)), "{detail}: {problem}");
    }
    let body = format!("{{\"messages\":[],\"state\":{deep}}}");
    assert_refused(&send_request(gateway.data, post("/run", "", &body)).await, 400, "invalid_request");
    assert_eq!(agent.connection_count(), 0);
}

/// Paths are compared as they are written; any other path has no route.
#[tokio::test]
async fn matches_routes_by_the_exact_path() {
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    for path in ["/", "/run/", "/RUN", "//run", "/run;x=1", "/%72un", "/x/../run", "/run%00", "*"] {
        let answer = post_run(gateway.data, path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.text());
        if answer.status == 404 {
            assert_refused(&answer, 404, "route_not_found");
        }
    }
    assert_eq!(agent.connection_count(), 0);
    assert_succeeded(&post_run(gateway.data, "/run?query=1").await, COMPLETE_RUN);
}

#[tokio::test]
async fn answers_405_to_methods_other_than_post() {
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer =
            answer_without_upstream_call(format!("{method} /run HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), "")
                .await;
        assert_refused(&answer, 405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
}

fn request_with_fields(fields: &str) -> String {
    format!("POST /run HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n{INPUT}", INPUT.len())
}

#[tokio::test]
async fn answers_406_unless_an_event_stream_is_accepted() {
    for fields in
        ["Accept: application/json\r\n", "Accept: text/html, image/*\r\n", "Accept: text/event-stream;q=0\r\n"]
    {
        assert_refused(&answer_without_upstream_call(request_with_fields(fields), "").await, 406, "not_acceptable");
    }
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let taken = [
        "",
        "Accept: */*\r\n",
        "Accept: application/json, Text/Event-Stream; q=0.5\r\n",
        "Accept: application/json\r\nAccept: text/event-stream\r\n",
    ];
    for fields in taken {
        assert_succeeded(&send_request(gateway.data, request_with_fields(fields)).await, COMPLETE_RUN);
    }
}

#[tokio::test]
async fn answers_415_unless_the_body_is_plain_json() {
    for fields in ["Content-Type: text/plain\r\n", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"] {
        assert_refused(
            &answer_without_upstream_call(request_with_fields(fields), "").await,
            415,
            "unsupported_media_type",
        );
    }
    for fields in ["", "Content-Type: application/json; charset=utf-8\r\n", "Content-Type: application/vnd.x+json\r\n"]
    {
        let agent = start_agent();
        let gateway = Gateway::start_for(&agent).await;
        assert_succeeded(&send_request(gateway.data, request_with_fields(fields)).await, COMPLETE_RUN);
    }
}

#[tokio::test]
async fn answers_413_to_bodies_over_the_limit() {
    let top = "limits: {request_body: 1KiB}";
    let chunks = format!("400\r\n{0}\r\n400\r\n{0}\r\n", " ".repeat(1024));
    let head = "POST /run HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
    let rows = [
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}"),
        // The body was not sent, and is not requested.
        format!("{head}Content-Length: 1025\r\nExpect: 100-continue\r\n\r\n"),
        format!("{head}Content-Length: 99999999999999999\r\n\r\n"),
        // Sent to the end before the answer is read: the connection must live that long.
        format!("{head}Content-Length: 3000000\r\n\r\n{}", "x".repeat(3_000_000)),
    ];
    for row in rows {
        let answer = answer_without_upstream_call(row, top).await;
        let problem = assert_refused(&answer, 413, "body_too_large");
        assert_eq!(problem["detail"], "The request body is larger than 1024 bytes.");
        assert_eq!(answer.header("connection"), Some("close"));
    }
}

/// Sends the whole body before it reads the refusal, for several reasons of a refusal.
#[tokio::test]
async fn reads_the_body_of_a_refused_request() {
    // More than sockets hold, and less than is discarded.
    let body = "x".repeat(12_000_000);
    let length = body.len();
    let fields = "Host: a\r\nContent-Type: application/json";
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for (head, status, code) in [
        (format!("POST /nowhere HTTP/1.1\r\n{fields}"), 404, "route_not_found"),
        (format!("PUT /run HTTP/1.1\r\n{fields}"), 405, "method_not_allowed"),
        ("POST /run HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain".to_owned(), 415, "unsupported_media_type"),
    ] {
        for sent in
            [format!("Content-Length: {length}\r\n\r\n{body}"), format!("Transfer-Encoding: chunked\r\n\r\n{chunked}")]
        {
            let answer = answer_without_upstream_call(format!("{head}\r\n{sent}"), "").await;
            assert_refused(&answer, status, code);
        }
    }
    // A client that expects 100 Continue sends no body.
    let waiting = format!("PUT /run HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n");
    assert_refused(&answer_without_upstream_call(waiting, "").await, 405, "method_not_allowed");
}

#[tokio::test]
async fn rejects_ambiguous_and_oversized_heads() {
    let two = "POST /run HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ";
    let folded = "POST /run HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\nContent-Length: 2\r\n\r\n{}";
    let many = format!("POST /run HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(101));
    // The limit is looked at between reads, so a head may be one read longer before it is refused.
    let long = format!("POST /run HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(200 << 10));
    for (request, status) in [(two, 400), (folded, 400), (many.as_str(), 431), (long.as_str(), 431)] {
        let agent = start_agent();
        let gateway = Gateway::start_for(&agent).await;
        let answer = send_request(gateway.data, request).await;
        assert_eq!(answer.status, status, "{request:.100}");
        assert_eq!(agent.connection_count(), 0);
    }
}

#[tokio::test]
async fn keeps_generates_or_replaces_the_request_id() {
    let mut agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let send_id = async |field: &str| {
        let answer = send_request(gateway.data, post("/run", field, INPUT)).await;
        answer.header("x-request-id").expect("an id").to_owned()
    };
    let good = ["abc-123", "{\"quoted\":1}", &"x".repeat(128)];
    for id in good {
        assert_eq!(send_id(&format!("X-Request-Id: {id}\r\n")).await, id);
        assert_eq!(agent.next_request().await.header("x-request-id"), Some(id));
    }
    let hostile = ["", "two words", "tab\there", "\u{e9}", &"x".repeat(129)];
    let fields = hostile.iter().map(|id| format!("X-Request-Id: {id}\r\n")).chain([String::new()]);
    for field in fields {
        let id = send_id(&field).await;
        assert_eq!(uuid::Uuid::parse_str(&id).expect("a UUID").get_version_num(), 7, "{field:?}");
        assert_eq!(agent.next_request().await.header("x-request-id"), Some(id.as_str()));
    }
}

#[tokio::test]
async fn sends_headers_that_forbid_caching_and_buffering() {
    let agent = start_agent();
    let answer = post_run(Gateway::start_for(&agent).await.data, "/run").await;
    let mut names: Vec<String> = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let expected = ["cache-control", "content-type", "date", "transfer-encoding", "x-accel-buffering", "x-request-id"];
    assert_eq!(names, expected);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
}

/// The request that an AG-UI agent receives for [`INPUT`]: the same, with the version of the gateway.
fn expected_agent_body() -> Value {
    let mut input: Value = serde_json::from_str(INPUT).expect("JSON");
    input["protocolVersion"] = json!("1.0");
    input
}

/// Returns the agent's request for one request of the client.
async fn forward_request(path: &str, more: &str, body: &str) -> (Request, Agent) {
    let mut agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    assert_eq!(send_request(gateway.data, post(path, more, body)).await.status, 200);
    (agent.next_request().await, agent)
}

#[tokio::test]
async fn sends_only_its_own_headers_to_the_agent() {
    let more = "X-Request-Id: id-1\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
        Authorization: Bearer secret\r\nCookie: secret=1\r\nX-Forwarded-For: 6.6.6.6\r\nX_User: root\r\n\
        Accept-Encoding: gzip, br\r\nConnection: x-secret\r\nX-Secret: 1\r\nLast-Event-ID: 7\r\n";
    let (request, agent) = forward_request("/run?secret=1", more, INPUT).await;
    assert_eq!(request.head.lines().next(), Some("POST /agent?kept=1 HTTP/1.1"));
    // The client's trace, and the gateway's own place in it.
    let traceparent = request.header("traceparent").expect("a trace").to_owned();
    assert!(traceparent.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && traceparent.ends_with("-01"));
    let mut headers: Vec<(String, &str)> =
        request.headers().into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    headers.sort_unstable();
    let (host, length) = (agent.address().to_string(), request.body.len().to_string());
    let version = concat!("diglot/", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("accept", "text/event-stream"),
        ("accept-encoding", "identity"),
        ("content-length", length.as_str()),
        ("content-type", "application/json"),
        ("host", host.as_str()),
        ("traceparent", traceparent.as_str()),
        ("user-agent", version),
        ("via", "1.1 diglot"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "gateway"),
        ("x-forwarded-proto", "http"),
        ("x-request-id", "id-1"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!(request.json(), expected_agent_body());
}

/// The length is that of the body that leaves, in bytes, whatever the client's was.
#[tokio::test]
async fn sends_the_length_of_the_translated_body() {
    let body = r#"{ "messages" : [ {"id":"m1","role":"user","content":"部署 🚀"} ], "threadId": "t1", "runId": "r1" }"#;
    for path in ["/run", "/from-hai", "/to-hai"] {
        let (request, _) = forward_request(path, "", body).await;
        assert_eq!(request.header("content-length"), Some(request.body.len().to_string().as_str()), "{path}");
        assert_eq!(request.header("transfer-encoding"), None);
        let input = request.json();
        assert_eq!((&input["threadId"], &input["runId"]), (&json!("t1"), &json!("r1")), "{input}");
        assert!(input.to_string().contains("部署 🚀"), "{input}");
    }
}

#[tokio::test]
async fn generates_missing_thread_and_run_ids() {
    let mut agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let answer = send_request(gateway.data, post("/run", "", r#"{"messages":[]}"#)).await;
    let input = agent.next_request().await.json();
    let (thread, run) = (input["threadId"].as_str().expect("an id"), input["runId"].as_str().expect("an id"));
    assert!(!thread.is_empty() && !run.is_empty() && thread != run, "{input}");
    assert!(answer.text().contains(&format!("\"threadId\":\"{thread}\",\"runId\":\"{run}\"")), "{}", answer.text());
}

#[tokio::test]
async fn joins_a_chunked_body_for_the_agent() {
    let mut agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send("POST /run HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    for byte in INPUT.as_bytes() {
        client.send([b"1\r\n", &[*byte][..], b"\r\n"].concat()).await;
    }
    client.send("0\r\n\r\n").await;
    assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
    assert_eq!(agent.next_request().await.json(), expected_agent_body());
}

#[tokio::test]
async fn keeps_the_client_connection_open() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &complete_run())]);
    let gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    for _ in 0..3 {
        client.send(post("/run", "", INPUT)).await;
        assert_succeeded(&client.read_answer().await, COMPLETE_RUN);
        client.send(post("/nowhere", "", INPUT)).await;
        assert_refused(&client.read_answer().await, 404, "route_not_found");
    }
}

#[tokio::test]
async fn tries_the_next_agent_when_a_connection_is_refused() {
    let ((_one, first), (_other, second)) = (refusing_address(), refusing_address());
    let agent = start_agent();
    let gateway = Gateway::start(Setup { upstreams: &[first, agent.url(), second], ..Setup::default() }).await;
    for _ in 0..6 {
        assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    }
    assert_eq!(agent.connection_count(), 6);
}

/// Once a request was sent a run may have begun, so no other agent is called.
#[tokio::test]
async fn does_not_retry_once_the_request_was_sent() {
    let (one, other) =
        (Agent::with_script(vec![Step::Read, Step::Reset]), Agent::with_script(vec![Step::Read, Step::Reset]));
    let gateway = Gateway::start(Setup { upstreams: &[one.url(), other.url()], ..Setup::default() }).await;
    for runs in 1..=4 {
        assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_reset");
        assert_eq!(one.connection_count() + other.connection_count(), runs);
    }
}

async fn connect_h2(gateway: &Gateway) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn h2_request(path: &str) -> http::Request<Full<Bytes>> {
    let request = http::Request::post(format!("http://gateway{path}")).header("content-type", "application/json");
    request.body(Full::from(INPUT)).expect("a request")
}

#[tokio::test]
async fn serves_http_2_clients() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = Gateway::start_for(&agent).await;
    let mut client = connect_h2(&gateway).await;
    for (path, status) in [("/run", 200), ("/nowhere", 404), ("/run", 200)] {
        let response = within_deadline("an answer", client.send_request(h2_request(path))).await.expect("an answer");
        assert_eq!(response.status(), status, "{path}");
        let body = within_deadline("a body", response.into_body().collect()).await.expect("a clean end").to_bytes();
        let expected = if status == 200 { "RUN_FINISHED" } else { "route_not_found" };
        assert!(String::from_utf8_lossy(&body).contains(expected), "{path}: {body:?}");
    }
}

#[tokio::test]
async fn ends_only_the_run_of_a_reset_h2_stream() {
    let mut agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let gateway = Gateway::start_for(&agent).await;
    let mut client = connect_h2(&gateway).await;
    let (one, other) = (client.send_request(h2_request("/run")), client.clone().send_request(h2_request("/run")));
    let (one, other) = within_deadline("answers", async { (one.await.expect("one"), other.await.expect("two")) }).await;
    agent.next_request().await;
    agent.next_request().await;
    drop(one);
    timeout(RELEASE_DEADLINE, agent.wait_until_closed()).await.expect("the agent is left");
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 1.0).await;
    drop(other);
    agent.wait_until_closed().await;
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 2.0).await;
}
