//! Agents that do not answer with a stream: failed connections, statuses, content types, codings.

use super::{answer_to_response, answer_to_steps};
use crate::support::agent::{Agent, Step, refusing_address, write};
use crate::support::client::{Answer, INPUT, post, post_run, send_request};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{COMPLETE_RUN, HEAD, assert_failed, assert_refused, assert_succeeded, chunk, complete_run};

/// A response with a length.
fn response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";
const PAGE: &str = "<!doctype html><title>Sign in</title><p>/srv/agent/secret.py";

#[tokio::test]
async fn answers_502_when_no_agent_listens() {
    let (_held, url) = refusing_address();
    let gateway = Gateway::start(Setup { upstreams: &[url], ..Setup::default() }).await;
    assert_refused(&post_run(gateway.data, "/run").await, 502, "upstream_unreachable");
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="upstream_error",route="run"}"#, 1.0).await;
    gateway.wait_for_metric(r#"diglot_requests_total{code="502",method="POST",route="run"}"#, 1.0).await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
}

#[tokio::test]
async fn answers_502_when_the_agent_resets_before_an_answer() {
    assert_refused(&answer_to_steps(vec![Step::Read, Step::Reset]).await, 502, "upstream_reset");
}

#[tokio::test]
async fn answers_502_when_the_agent_closes_before_an_answer() {
    assert_refused(&answer_to_steps(vec![Step::Read]).await, 502, "upstream_reset");
}

#[tokio::test]
async fn answers_502_when_the_agent_closes_inside_the_head() {
    assert_refused(&answer_to_response("HTTP/1.1 200 OK\r\nContent-Type: text/ev").await, 502, "upstream_reset");
}

#[tokio::test]
async fn answers_502_when_the_agent_does_not_speak_http() {
    for garbage in ["SSH-2.0-OpenSSH_9.9\r\n\r\n", "\0\0\0\x0c\x04\0\0\0\0\0\0\x03\0\0\r\n\r\n"] {
        assert_refused(&answer_to_response(garbage).await, 502, "upstream_protocol");
    }
}

#[tokio::test]
async fn rejects_two_content_lengths() {
    let twice = response("200 OK", "Content-Type: text/event-stream\r\nContent-Length: 3\r\n", &complete_run());
    assert_refused(&answer_to_response(twice).await, 502, "upstream_protocol");
}

/// Returns the client's response on a route with `agent_errors: pass`.
async fn answer_with_passed_errors(response: impl AsRef<[u8]>) -> Answer {
    let agent = Agent::with_response(response);
    let setup = Setup { upstreams: &[agent.url()], guard: "repair, agent_errors: pass", ..Setup::default() };
    post_run(Gateway::start(setup).await.data, "/run").await
}

/// Statuses with their messages, which have secrets, and the message in the log.
const LEAKS: &[(&str, &str, &str, &str)] = &[
    (
        "500 Internal Server Error",
        "application/json",
        r#"{"detail":"cannot reach postgresql://bot:hunter2@db/runs"}"#,
        "cannot reach postgresql://***@db/runs",
    ),
    (
        "401 Unauthorized",
        "application/json",
        r#"{"error":{"message":"Incorrect API key provided: sk-proj-hunter2hunter2"}}"#,
        "Incorrect API key provided: ***",
    ),
    (
        "500 Internal Server Error",
        "text/plain; charset=utf-8",
        "Traceback (most recent call last):\n  File \"/srv/agent/secret.py\", line 7\n    connect(password='hunter2')\nValueError: bad\n",
        "ValueError: bad",
    ),
    (
        "422 Unprocessable Content",
        "application/json",
        r#"{"detail":[{"type":"missing","loc":["body","messages",0,"id"],"msg":"Field required","input":"hunter2"}]}"#,
        "body.messages.0.id: Field required",
    ),
    (
        "503 Service Unavailable",
        "text/event-stream",
        "data: {\"type\":\"RUN_ERROR\",\"message\":\"no model, Authorization: Bearer hunter2\"}\n\n",
        "no model, Authorization: ***",
    ),
    ("200 OK", "application/json", r#"{"error":{"message":"password=hunter2 is wrong"}}"#, "password=*** is wrong"),
];

#[tokio::test]
async fn hides_the_text_of_an_agents_error_and_logs_it_masked() {
    for (status, kind, body, logged) in LEAKS {
        let agent = Agent::with_response(response(status, &format!("Content-Type: {kind}\r\n"), body));
        let mut gateway = Gateway::start_for(&agent).await;
        let answer =
            send_request(gateway.data, post("/run", "X-Request-Id: q-1\r\nConnection: close\r\n", INPUT)).await;
        let code = status.split(' ').next().expect("a code");
        let detail = match *status {
            "200 OK" => "The agent's response is not an event stream.".to_owned(),
            _ => format!("The agent answered with status {code}. Reference: q-1."),
        };
        let problem: serde_json::Value = serde_json::from_str(answer.text()).expect("a problem document");
        assert_eq!(problem["detail"], detail, "{status}");
        assert!(!answer.text().contains(logged), "{}", answer.text());
        let line = gateway.next_log("request failed at the agent").await;
        let cause = line["cause"].as_str().expect("a cause");
        assert!(cause.ends_with(logged) && cause.contains(code), "{cause}");
        assert_eq!(line["request_id"], "q-1");
        assert!(!line.to_string().contains("hunter2") && !line.to_string().contains("secret.py"), "{line}");
    }
}

/// A client of a stream sees no header, so the message has the id of the request: once.
#[tokio::test]
async fn names_the_request_once() {
    for (route, status) in [("", "429 Too Many Requests"), (", agent_errors: pass", "429 Too Many Requests")] {
        let more = "Content-Type: application/json\r\nRetry-After: 7\r\n";
        let agent = Agent::with_response(response(status, more, r#"{"error":{"message":"Rate limit reached"}}"#));
        let guard = format!("repair, errors: run_error{route}");
        let setup = Setup { upstreams: &[agent.url()], guard: &guard, ..Setup::default() };
        let gateway = Gateway::start(setup).await;
        let answer =
            send_request(gateway.data, post("/run", "X-Request-Id: q-429\r\nConnection: close\r\n", INPUT)).await;
        assert_eq!(answer.text().matches("q-429").count(), 1, "{}", answer.text());
    }
}

#[tokio::test]
async fn passes_on_messages_of_validation_and_streams_if_configured() {
    for (status, kind, body, logged) in LEAKS {
        let agent = Agent::with_response(response(status, &format!("Content-Type: {kind}\r\n"), body));
        let setup = Setup { upstreams: &[agent.url()], guard: "repair, agent_errors: pass", ..Setup::default() };
        let mut gateway = Gateway::start(setup).await;
        let answer = post_run(gateway.data, "/run").await;
        // Text that is no member of JSON stays hidden.
        let expected = if kind.starts_with("text/plain") { "The agent answered with status 500." } else { logged };
        let problem: serde_json::Value = serde_json::from_str(answer.text()).expect("a problem document");
        let detail = problem["detail"].as_str().expect("a detail");
        let beginning = expected.split("***").next().expect("a beginning");
        assert!(detail.starts_with(beginning), "{detail}");
        let hint = problem["hint"].as_str().expect("a hint");
        assert!(hint.starts_with("See the agent's own log for the reason"), "{status}: {hint}");
        let line = gateway.next_log("request failed at the agent").await;
        assert!(line["detail"].as_str().is_some_and(|detail| detail.starts_with(expected)), "{line}");
        assert!(!line.to_string().contains("hunter2"), "{line}");
    }
}

/// The client gets the agent's own status if it is meaningful to clients.
#[tokio::test]
async fn passes_on_the_message_of_an_agents_refusal() {
    let rows = [
        ("400 Bad Request", 400, r#"{"detail":"too many messages"}"#),
        ("401 Unauthorized", 502, r#"{"message":"too many messages"}"#),
        ("422 Unprocessable Content", 422, r#"{"error":"too many messages"}"#),
        ("429 Too Many Requests", 429, r#"{"error":{"message":"too many messages","type":"x"}}"#),
        ("500 Internal Server Error", 502, r#"{"error":{"message":"too many messages"}}"#),
    ];
    for (status, expected, body) in rows {
        let fields = format!("{JSON}WWW-Authenticate: Basic\r\nSet-Cookie: a=b\r\nServer: secret\r\n");
        let answer = answer_with_passed_errors(response(status, &fields, body)).await;
        let problem = assert_refused(&answer, expected, "upstream_status");
        assert_eq!(problem["detail"], "too many messages", "{status}");
        for field in ["www-authenticate", "set-cookie", "server"] {
            assert_eq!(answer.header(field), None, "{status}");
        }
    }
}

#[tokio::test]
async fn hides_pages_and_streams_with_an_error_status() {
    let stream = "Content-Type: text/event-stream\r\n";
    for (fields, body) in
        [(HTML, PAGE), (stream, complete_run().as_str()), (JSON, "{\"trace\":\"secret.py\"}"), (JSON, "{")]
    {
        let answer = answer_with_passed_errors(response("500 Internal Server Error", fields, body)).await;
        let problem = assert_refused(&answer, 502, "upstream_status");
        assert_eq!(problem["detail"], "The agent answered with status 500.");
    }
}

#[tokio::test]
async fn passes_on_retry_after_of_an_overloaded_agent() {
    let fields = format!("{JSON}Retry-After: 7\r\n");
    let answer =
        answer_to_response(response("503 Service Unavailable", &fields, r#"{"message":"model overloaded"}"#)).await;
    assert_refused(&answer, 503, "upstream_status");
    assert_eq!(answer.header("retry-after"), Some("7"));
}

#[tokio::test]
async fn does_not_follow_redirects() {
    let mut target = Agent::with_response("");
    let fields = format!("Location: {}\r\n", target.url());
    let agent = Agent::with_response(response("307 Temporary Redirect", &fields, ""));
    let answer = post_run(Gateway::start_for(&agent).await.data, "/run").await;
    assert_refused(&answer, 502, "upstream_status");
    assert_eq!(answer.header("location"), None);
    assert_eq!(target.connection_count(), 0);
    // The agent that was not called is still available.
    let _answered = post_run(Gateway::start_for(&target).await.data, "/run").await;
    target.next_request().await;
}

#[tokio::test]
async fn absorbs_interim_responses() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    assert_succeeded(&answer_to_response([interim, HEAD, &complete_run()].concat()).await, COMPLETE_RUN);
}

#[tokio::test]
async fn rejects_unrequested_protocol_switches() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    assert_refused(&answer_to_response(switch).await, 502, "upstream_status");
}

/// An AG-UI client would call each of these a success without events.
#[tokio::test]
async fn rejects_answers_that_are_no_event_stream() {
    let rows = [
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        response("200 OK", JSON, "{}"),
        response("200 OK", HTML, PAGE),
        response("200 OK", "", ""),
        response("200 OK", "Content-Type: application/x-ndjson\r\n", "{\"type\":\"RUN_STARTED\"}\n"),
        response("200 OK", "Content-Type: text/plain\r\n", &complete_run()),
    ];
    for row in rows {
        let answer = answer_to_response(&row).await;
        let problem = assert_refused(&answer, 502, "upstream_content_type");
        assert!(!answer.text().contains("secret.py"), "{problem}");
    }
}

#[tokio::test]
async fn reports_the_message_of_an_error_under_status_200() {
    let answer = answer_with_passed_errors(response("200 OK", JSON, r#"{"error":{"message":"no such model"}}"#)).await;
    assert_eq!(assert_refused(&answer, 502, "upstream_content_type")["detail"], "no such model");
}

#[tokio::test]
async fn reports_an_empty_event_stream_as_truncated() {
    let empty = response("200 OK", "Content-Type: text/event-stream\r\n", "");
    assert_failed(&answer_to_response(empty).await, "upstream_truncated", &[]);
}

/// An event stream is UTF-8 whatever it is labelled; the parameter of the type changes nothing.
#[tokio::test]
async fn tolerates_content_type_parameters() {
    for kind in
        ["text/event-stream; charset=utf-8", "Text/Event-Stream;charset=\"UTF-8\"", "text/event-stream; charset=latin1"]
    {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        let answer = answer_to_response(head + &complete_run()).await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert!(answer.text().contains("你好"), "{kind}");
    }
}

#[tokio::test]
async fn rejects_unrequested_content_codings() {
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    let steps = vec![Step::Read, write(head), write(chunk(gzip)), Step::WaitForClose];
    assert_refused(&answer_to_steps(steps).await, 502, "upstream_content_encoding");
}

/// A connection with bytes behind the response would give them to the next run.
#[tokio::test]
async fn does_not_reuse_connections_with_bytes_after_the_response() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n";
    let good = response("200 OK", "Content-Type: text/event-stream\r\n", &complete_run());
    let agent = Agent::with_script(vec![Step::Read, write(good + poison), Step::Restart]);
    let gateway = Gateway::start_for(&agent).await;
    for _ in 0..3 {
        assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    }
}

#[tokio::test]
async fn reconnects_when_the_agent_closed_a_kept_connection() {
    let good = response("200 OK", "Content-Type: text/event-stream\r\n", &complete_run());
    let agent = Agent::with_script(vec![Step::Read, write(good)]);
    let gateway = Gateway::start_for(&agent).await;
    for run_of in 1..=3 {
        // The agent closes although it promised to keep the connection.
        assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
        assert_eq!(agent.connection_count(), run_of);
    }
}
