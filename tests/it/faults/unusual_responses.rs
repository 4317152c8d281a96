//! Valid or nearly valid HTTP responses that few agents send.

use super::{answer_to_response, answer_to_steps};
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, End, INPUT, post, post_run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{
    CHUNKED, COMPLETE_RUN, HEAD, LAST_CHUNK, RUN_BEGINNING, STARTED, assert_failed, assert_refused, assert_succeeded,
    chunk, complete_run, events, run_beginning, types,
};
use crate::support::{eventually, within_deadline};

/// The response of simple Python servers: no length, no chunks, and the end of the connection.
#[tokio::test]
async fn accepts_http_1_0_agents() {
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    assert_succeeded(&answer_to_response([head, &complete_run()].concat()).await, COMPLETE_RUN);
    assert_failed(&answer_to_response([head, &run_beginning()].concat()).await, "upstream_truncated", RUN_BEGINNING);
}

/// "A recipient MUST ignore unrecognized chunk extensions" [RFC 9112 §7.1.1], and trailers are not used here.
#[tokio::test]
async fn ignores_chunk_extensions_and_trailers() {
    let (first, rest) = (run_beginning(), complete_run().split_off(run_beginning().len()));
    let extended = |text: &str| format!("{:x};a=\"1;2\"\r\n{text}\r\n", text.len());
    let trailers = "0\r\nX-Checksum: 1\r\nContent-Length: 3\r\n\r\n";
    let good = [CHUNKED, &extended(&first), &extended(&rest), trailers].concat();
    let agent = Agent::with_script(vec![Step::Read, write(good), Step::Restart]);
    let gateway = Gateway::start_for(&agent).await;
    for _ in 0..3 {
        let answer = post_run(gateway.data, "/run").await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert_eq!(answer.header("x-checksum"), None);
    }
}

/// "If a message is received with both a Transfer-Encoding and a Content-Length header field, the Transfer-Encoding
/// overrides the Content-Length." [RFC 9112 §6.3] The chunks define the body, and a connection with bytes after
/// it is closed.
#[tokio::test]
async fn ignores_content_length_with_chunked_encoding() {
    let both = CHUNKED.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n");
    let good = [both.as_bytes(), &chunk(complete_run()), LAST_CHUNK.as_bytes()].concat();
    let agent = Agent::with_script(vec![Step::Read, write(good), Step::Restart]);
    let gateway = Gateway::start_for(&agent).await;
    for _ in 0..3 {
        assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    }
}

#[tokio::test]
async fn rejects_huge_and_malformed_response_heads() {
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
        let answer = answer_to_response(row.clone() + &complete_run()).await;
        assert_refused(&answer, 502, "upstream_protocol");
    }
}

/// An agent may refuse what it has not read, and close.
#[tokio::test]
async fn passes_on_a_refusal_sent_before_the_request_is_read() {
    let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 23\r\n\r\n{\"message\":\"too large\"}";
    let agent = Agent::with_script(vec![write(refusal), Step::WaitForClose]);
    let gateway = Gateway::start_for(&agent).await;
    let text = "x".repeat(4 << 20);
    let input = INPUT.replace("\"hi\"", &format!("\"{text}\""));
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", &input)).await;
    assert_refused(&client.read_answer().await, 413, "upstream_status");
}

/// Interim answers are no answer, however many there are.
#[tokio::test]
async fn times_out_on_endless_interim_responses() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(1000).into_bytes();
    let agent = Agent::with_script(vec![Step::Read, Step::Flood(interim, usize::MAX)]);
    let setup = Setup { upstreams: &[agent.url()], timeouts: "{first_byte: 300ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    assert_refused(&post_run(gateway.data, "/run").await, 504, "upstream_timeout");
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
}

/// Starts an agent that sends comments without a pause. They are no events, but the stream is not silent.
fn start_commenting_agent() -> Agent {
    let comments = ": still here\n\n".repeat(1000).into_bytes();
    Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Flood(comments, usize::MAX)])
}

#[tokio::test]
async fn keeps_no_comments_and_drains_despite_them() {
    let agent = start_commenting_agent();
    let mut gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until("你好\"}\n\n").await;
    let before = gateway.process.resident_memory();
    let sent = agent.bytes_sent();
    eventually("more comments", async || (agent.bytes_sent() > sent + (8 << 20)).then_some(())).await;
    assert!(gateway.process.resident_memory() < before + (4 << 20), "comments are kept");
    drop(client);
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="client_gone",route="run"}"#, 1.0).await;
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;

    // Nor does it hold the end of the process.
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    client.read_until("你好\"}\n\n").await;
    gateway.process.signal("TERM");
    gateway.next_log("draining").await;
    gateway.process.signal("TERM");
    let (rest, end) = client.read_rest().await;
    let rest = String::from_utf8(rest).expect("UTF-8");
    let types = events(&rest);
    assert_eq!((end, self::types(&types)), (End::Clean, vec!["RUN_ERROR"]), "{rest}");
    assert_eq!(within_deadline("the end", gateway.process.exit()).await.code(), Some(0));
}

/// Four times the largest line that is accepted by default.
const FOUR_LIMITS: usize = 4 * (10 << 20);

#[tokio::test]
async fn ends_endless_lines_and_events_and_frees_their_memory() {
    let rows = [
        ("data: {\"type\":\"CUSTOM\",\"value\":\"", "x".repeat(1 << 16)),
        ("", format!("data: {}\n", "x".repeat(1000)).repeat(64)),
        (":", "x".repeat(1 << 16)),
    ];
    for (begin, more) in rows {
        let flood = Step::Flood(more.into_bytes(), usize::MAX);
        let agent = Agent::with_script(vec![Step::Read, write([HEAD, &run_beginning(), begin].concat()), flood]);
        let gateway = Gateway::start_for(&agent).await;
        let before = gateway.process.resident_memory();
        assert_failed(&post_run(gateway.data, "/run").await, "frame_too_large", RUN_BEGINNING);
        assert!(agent.bytes_sent() < FOUR_LIMITS, "{} bytes left the agent", agent.bytes_sent());
        // Buffers are freed, and the allocator returns them a little later.
        gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, 0.0).await;
        eventually("the memory of the run is returned", async || {
            (gateway.process.resident_memory() < before + (8 << 20)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn passes_an_event_just_below_the_limit() {
    let text = "x".repeat(9 << 20);
    let event = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"big\",\"value\":\"{text}\"}}\n\n");
    let rest = &complete_run()[STARTED.len()..];
    let answer = answer_to_steps(vec![Step::Read, write([HEAD, STARTED, &event, rest].concat())]).await;
    let mut expected = COMPLETE_RUN.to_vec();
    expected.insert(1, "CUSTOM");
    assert_succeeded(&answer, &expected);
    assert!(answer.text().contains(&event));
}
