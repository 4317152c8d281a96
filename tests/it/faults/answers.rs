//! Agents that do not answer with a stream: connections that fail, statuses, content types, codings.

use super::{heard, played};
use crate::support::agent::{Agent, Step, refusing, write};
use crate::support::client::run;
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{HEAD, WHOLE, chunk, failed, refused, succeeded, whole};

/// A response with a length.
fn response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

const JSON: &str = "Content-Type: application/json\r\n";
const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";
const PAGE: &str = "<!doctype html><title>Sign in</title><p>/srv/agent/secret.py";

#[tokio::test]
async fn nobody_listens() {
    let (_held, url) = refusing();
    let gateway = Gateway::start(Setup { upstreams: &[url], ..Setup::default() }).await;
    refused(&run(gateway.data, "/run").await, 502, "upstream_unreachable");
    gateway.reaches(r#"diglot_streams_total{outcome="upstream_error",route="run"}"#, 1.0).await;
    gateway.reaches(r#"diglot_requests_total{code="502",method="POST",route="run"}"#, 1.0).await;
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
}

#[tokio::test]
async fn the_connection_is_reset_before_an_answer() {
    refused(&played(vec![Step::Read, Step::Reset]).await, 502, "upstream_reset");
}

#[tokio::test]
async fn the_connection_is_closed_before_an_answer() {
    refused(&played(vec![Step::Read]).await, 502, "upstream_reset");
}

#[tokio::test]
async fn the_connection_is_closed_inside_the_head() {
    refused(&heard("HTTP/1.1 200 OK\r\nContent-Type: text/ev").await, 502, "upstream_reset");
}

#[tokio::test]
async fn the_answer_is_no_http() {
    for garbage in ["SSH-2.0-OpenSSH_9.9\r\n\r\n", "\0\0\0\x0c\x04\0\0\0\0\0\0\x03\0\0\r\n\r\n"] {
        refused(&heard(garbage).await, 502, "upstream_protocol");
    }
}

#[tokio::test]
async fn two_lengths_are_no_answer() {
    let twice = response("200 OK", "Content-Type: text/event-stream\r\nContent-Length: 3\r\n", &whole());
    refused(&heard(twice).await, 502, "upstream_protocol");
}

/// The status that a client gets: the agent's own where it says something true to the client as well.
#[tokio::test]
async fn a_refusal_of_the_agent_is_passed_on_in_its_own_words() {
    let rows = [
        ("400 Bad Request", 400, r#"{"detail":"too many messages"}"#),
        ("401 Unauthorized", 502, r#"{"message":"too many messages"}"#),
        ("422 Unprocessable Content", 422, r#"{"error":"too many messages"}"#),
        ("429 Too Many Requests", 429, r#"{"error":{"message":"too many messages","type":"x"}}"#),
        ("500 Internal Server Error", 502, r#"{"error":{"message":"too many messages"}}"#),
    ];
    for (status, expected, body) in rows {
        let fields = format!("{JSON}WWW-Authenticate: Basic\r\nSet-Cookie: a=b\r\nServer: secret\r\n");
        let answer = heard(response(status, &fields, body)).await;
        let problem = refused(&answer, expected, "upstream_status");
        assert_eq!(problem["detail"], "too many messages", "{status}");
        for field in ["www-authenticate", "set-cookie", "server"] {
            assert_eq!(answer.header(field), None, "{status}");
        }
    }
}

#[tokio::test]
async fn a_page_or_a_stream_with_an_error_status_stays_inside() {
    let stream = "Content-Type: text/event-stream\r\n";
    for (fields, body) in [(HTML, PAGE), (stream, whole().as_str()), (JSON, "{\"trace\":\"secret.py\"}"), (JSON, "{")] {
        let answer = heard(response("500 Internal Server Error", fields, body)).await;
        let problem = refused(&answer, 502, "upstream_status");
        assert_eq!(problem["detail"], "The agent answered with status 500.");
    }
}

#[tokio::test]
async fn an_agent_that_is_overloaded_says_when_to_come_back() {
    let fields = format!("{JSON}Retry-After: 7\r\n");
    let answer = heard(response("503 Service Unavailable", &fields, r#"{"message":"model overloaded"}"#)).await;
    let problem = refused(&answer, 503, "upstream_status");
    assert_eq!(problem["detail"], "model overloaded");
    assert_eq!(answer.header("retry-after"), Some("7"));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut target = Agent::answering("");
    let fields = format!("Location: {}\r\n", target.url());
    let agent = Agent::answering(response("307 Temporary Redirect", &fields, ""));
    let answer = run(Gateway::before(&agent).await.data, "/run").await;
    refused(&answer, 502, "upstream_status");
    assert_eq!(answer.header("location"), None);
    assert_eq!(target.connections(), 0);
    // The agent that was not asked is still there to be asked.
    let _answered = run(Gateway::before(&target).await.data, "/run").await;
    target.request().await;
}

#[tokio::test]
async fn interim_answers_are_absorbed() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    succeeded(&heard([interim, HEAD, &whole()].concat()).await, WHOLE);
}

#[tokio::test]
async fn a_switch_of_protocols_that_nobody_asked_for_is_refused() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    refused(&heard(switch).await, 502, "upstream_status");
}

/// An AG-UI client would call each of these a success without events.
#[tokio::test]
async fn an_answer_that_is_no_stream_is_no_success() {
    let rows = [
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        response("200 OK", JSON, "{}"),
        response("200 OK", HTML, PAGE),
        response("200 OK", "", ""),
        response("200 OK", "Content-Type: application/x-ndjson\r\n", "{\"type\":\"RUN_STARTED\"}\n"),
        response("200 OK", "Content-Type: text/plain\r\n", &whole()),
    ];
    for row in rows {
        let answer = heard(&row).await;
        let problem = refused(&answer, 502, "upstream_content_type");
        assert!(!answer.text().contains("secret.py"), "{problem}");
    }
}

#[tokio::test]
async fn an_error_under_a_200_gives_its_message() {
    let answer = heard(response("200 OK", JSON, r#"{"error":{"message":"no such model"}}"#)).await;
    assert_eq!(refused(&answer, 502, "upstream_content_type")["detail"], "no such model");
}

#[tokio::test]
async fn an_event_stream_without_a_byte_is_truncated() {
    let empty = response("200 OK", "Content-Type: text/event-stream\r\n", "");
    failed(&heard(empty).await, "upstream_truncated", &[]);
}

/// An event stream is UTF-8 whatever it is labelled; the parameter of the type changes nothing.
#[tokio::test]
async fn parameters_of_the_content_type_are_tolerated() {
    for kind in
        ["text/event-stream; charset=utf-8", "Text/Event-Stream;charset=\"UTF-8\"", "text/event-stream; charset=latin1"]
    {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        let answer = heard(head + &whole()).await;
        succeeded(&answer, WHOLE);
        assert!(answer.text().contains("你好"), "{kind}");
    }
}

#[tokio::test]
async fn a_coding_that_nobody_asked_for_is_refused() {
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    let steps = vec![Step::Read, write(head), write(chunk(gzip)), Step::Stay];
    refused(&played(steps).await, 502, "upstream_content_encoding");
}

/// A connection with bytes behind the response would give them to the next run.
#[tokio::test]
async fn a_connection_with_bytes_behind_the_response_is_not_used_again() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n";
    let good = response("200 OK", "Content-Type: text/event-stream\r\n", &whole());
    let agent = Agent::playing(vec![Step::Read, write(good + poison), Step::Again]);
    let gateway = Gateway::before(&agent).await;
    for _ in 0..3 {
        succeeded(&run(gateway.data, "/run").await, WHOLE);
    }
}

#[tokio::test]
async fn an_agent_that_comes_back_is_used_again() {
    let good = response("200 OK", "Content-Type: text/event-stream\r\n", &whole());
    let agent = Agent::playing(vec![Step::Read, write(good)]);
    let gateway = Gateway::before(&agent).await;
    for run_of in 1..=3 {
        // The agent closes although it promised to keep the connection.
        succeeded(&run(gateway.data, "/run").await, WHOLE);
        assert_eq!(agent.connections(), run_of);
    }
}
