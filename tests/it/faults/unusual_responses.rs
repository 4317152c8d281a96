//! Answers that are HTTP, more or less, and that few agents would give.

use super::{heard, played};
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, End, INPUT, post, run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{
    BEGUN, CHUNKED, HEAD, LAST, STARTED, WHOLE, begun, chunk, events, failed, refused, succeeded, types, whole,
};
use crate::support::{eventually, soon};

/// What simple servers in Python say: no length, no chunks, and the end of the connection.
#[tokio::test]
async fn an_agent_of_http_1_0_is_heard() {
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    succeeded(&heard([head, &whole()].concat()).await, WHOLE);
    failed(&heard([head, &begun()].concat()).await, "upstream_truncated", BEGUN);
}

/// "A recipient MUST ignore unrecognized chunk extensions" [RFC 9112 §7.1.1], and trailers are nobody's here.
#[tokio::test]
async fn extensions_of_chunks_and_trailers_are_ignored() {
    let (first, rest) = (begun(), whole().split_off(begun().len()));
    let extended = |text: &str| format!("{:x};a=\"1;2\"\r\n{text}\r\n", text.len());
    let trailers = "0\r\nX-Checksum: 1\r\nContent-Length: 3\r\n\r\n";
    let good = [CHUNKED, &extended(&first), &extended(&rest), trailers].concat();
    let agent = Agent::playing(vec![Step::Read, write(good), Step::Again]);
    let gateway = Gateway::before(&agent).await;
    for _ in 0..3 {
        let answer = run(gateway.data, "/run").await;
        succeeded(&answer, WHOLE);
        assert_eq!(answer.header("x-checksum"), None);
    }
}

/// "If a message is received with both a Transfer-Encoding and a Content-Length header field, the Transfer-Encoding overrides
/// the Content-Length." [RFC 9112 §6.3] pingora takes the length away before we could refuse it, so the body is what the
/// chunks say, and what follows it is the answer to the next request.
#[tokio::test]
async fn a_length_beside_chunks_poisons_no_connection() {
    let both = CHUNKED.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n");
    let good = [both.as_bytes(), &chunk(whole()), LAST.as_bytes()].concat();
    let agent = Agent::playing(vec![Step::Read, write(good), Step::Again]);
    let gateway = Gateway::before(&agent).await;
    for _ in 0..3 {
        succeeded(&run(gateway.data, "/run").await, WHOLE);
    }
}

#[tokio::test]
async fn a_head_that_is_a_bomb_or_broken_is_no_answer() {
    let field = format!("X-Bomb: {}\r\n", "x".repeat(1000));
    let rows = [
        // Two megabytes, and a thousand fields.
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{}\r\n", field.repeat(2000)),
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{}\r\n", "X: 1\r\n".repeat(1000)),
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX: a\rb\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX: a\0b\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nno field\r\n\r\n".to_owned(),
        "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
    ];
    for row in rows {
        let answer = heard(row.clone() + &whole()).await;
        refused(&answer, 502, "upstream_protocol");
    }
}

/// An agent may refuse what it has not read, and close.
#[tokio::test]
async fn a_refusal_that_comes_before_the_request_was_read_is_heard() {
    let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 23\r\n\r\n{\"message\":\"too large\"}";
    let agent = Agent::playing(vec![write(refusal), Step::Stay]);
    let gateway = Gateway::before(&agent).await;
    let text = "x".repeat(4 << 20);
    let input = INPUT.replace("\"hi\"", &format!("\"{text}\""));
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", &input)).await;
    assert_eq!(refused(&client.answer().await, 413, "upstream_status")["detail"], "too large");
}

/// Interim answers are no answer, however many there are.
#[tokio::test]
async fn interim_answers_without_end_are_no_answer() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(1000).into_bytes();
    let agent = Agent::playing(vec![Step::Read, Step::Flood(interim, usize::MAX)]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{first_byte: 300ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    refused(&run(gateway.data, "/run").await, 504, "upstream_timeout");
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
}

/// Says a comment without a pause, for ever. It is no event, and no silence.
fn chatter() -> Agent {
    let comments = ": still here\n\n".repeat(1000).into_bytes();
    Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Flood(comments, usize::MAX)])
}

#[tokio::test]
async fn comments_without_end_hold_nobody() {
    let agent = chatter();
    let mut gateway = Gateway::before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    client.until("你好\"}\n\n").await;
    let before = gateway.process.resident();
    let sent = agent.sent();
    eventually("more comments", async || (agent.sent() > sent + (8 << 20)).then_some(())).await;
    assert!(gateway.process.resident() < before + (4 << 20), "comments are kept");
    drop(client);
    gateway.reaches(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
    gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;

    // Nor does it hold the end of the process.
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    client.until("你好\"}\n\n").await;
    gateway.process.signal("TERM");
    gateway.logged("draining").await;
    gateway.process.signal("TERM");
    let (rest, end) = client.rest().await;
    let rest = String::from_utf8(rest).expect("UTF-8");
    let types = events(&rest);
    assert_eq!((end, self::types(&types)), (End::Clean, vec!["RUN_ERROR"]), "{rest}");
    assert_eq!(soon("the end", gateway.process.exit()).await.code(), Some(0));
}

/// The largest line that is taken by default, four times over.
const FOUR_LIMITS: usize = 4 * (10 << 20);

#[tokio::test]
async fn a_line_or_an_event_without_end_is_cut_short_and_not_kept() {
    let rows = [
        ("data: {\"type\":\"CUSTOM\",\"value\":\"", "x".repeat(1 << 16)),
        ("", format!("data: {}\n", "x".repeat(1000)).repeat(64)),
        (":", "x".repeat(1 << 16)),
    ];
    for (begin, more) in rows {
        let flood = Step::Flood(more.into_bytes(), usize::MAX);
        let agent = Agent::playing(vec![Step::Read, write([HEAD, &begun(), begin].concat()), flood]);
        let gateway = Gateway::before(&agent).await;
        let before = gateway.process.resident();
        failed(&run(gateway.data, "/run").await, "frame_too_large", BEGUN);
        assert!(agent.sent() < FOUR_LIMITS, "{} bytes left the agent", agent.sent());
        // What was held is given back; a buffer that doubles held twice the limit at most.
        gateway.reaches(r#"diglot_streams_active{route="run"}"#, 0.0).await;
        let after = gateway.process.resident().saturating_sub(before);
        assert!(after < 8 << 20, "{after} bytes stayed");
    }
}

#[tokio::test]
async fn an_event_as_large_as_it_may_be_passes() {
    let text = "x".repeat(9 << 20);
    let event = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"big\",\"value\":\"{text}\"}}\n\n");
    let rest = &whole()[STARTED.len()..];
    let answer = played(vec![Step::Read, write([HEAD, STARTED, &event, rest].concat())]).await;
    let mut expected = WHOLE.to_vec();
    expected.insert(1, "CUSTOM");
    succeeded(&answer, &expected);
    assert!(answer.text().contains(&event));
}
