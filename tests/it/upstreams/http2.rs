//! HTTP/2 agents: many runs on one connection, and signals that HTTP/1.1 does not have.

use super::load_balancing::wait_until_idle;
use super::test_agent::{AgentConfig, AnswerMode, TestAgent};
use super::{assert_concurrent_runs, assert_run, open_held_run, start_gateway, wait_until};
use crate::support::client::post_run;
use crate::support::sse::{CLOSED, COMPLETE_RUN, FINISHED, assert_refused, assert_succeeded, run_beginning};
use crate::support::{eventually, within_deadline};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Types of frames, and the codes of errors that are used here [RFC 9113 §6, §7].
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Identifier of a setting.
const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

async fn start_h2_agent() -> TestAgent {
    TestAgent::start(AgentConfig { h2: true, ..AgentConfig::default() }).await
}

fn h2_upstream(agent: &TestAgent) -> String {
    format!("{{url: {}, http: 2}}", agent.url())
}

#[tokio::test]
async fn runs_share_one_h2_connection() {
    let agent = start_h2_agent().await;
    agent.set_answer(AnswerMode::Hold);
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(open_held_run(&gateway).await);
    }
    assert_eq!((agent.open_run_count(), agent.h2_run_count(), agent.connection_count()), (50, 50, 1));
    let path = agent.last_request().uri().path().to_owned();
    assert_eq!(path, "/agent");
    agent.finish_runs();
    for client in &mut clients {
        client.read_until("RUN_FINISHED").await;
    }
    agent.set_answer(AnswerMode::Whole);
    assert_run(&gateway).await;
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn resets_only_the_stream_of_a_departed_client() {
    let agent = start_h2_agent().await;
    agent.set_answer(AnswerMode::Hold);
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    let first = open_held_run(&gateway).await;
    let mut second = open_held_run(&gateway).await;
    drop(first);
    wait_until("the reset", || agent.cancelled_count() == 1).await;
    assert_eq!(agent.open_run_count(), 1);
    agent.set_answer(AnswerMode::Whole);
    assert_run(&gateway).await;
    agent.finish_runs();
    second.read_until("RUN_FINISHED").await;
    assert_eq!((agent.cancelled_count(), agent.connection_count()), (1, 1));
}

#[tokio::test]
async fn opens_more_connections_at_the_agents_stream_limit() {
    let agent = TestAgent::start(AgentConfig { h2: true, streams: Some(2), ..AgentConfig::default() }).await;
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    // From the first answer on it is known how many it takes.
    assert_run(&gateway).await;
    wait_until_idle(&gateway).await;
    agent.set_answer(AnswerMode::Hold);
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(open_held_run(&gateway).await);
    }
    assert_eq!((agent.open_run_count(), agent.connection_count()), (6, 3));
    agent.finish_runs();
    for client in &mut clients {
        client.read_until("RUN_FINISHED").await;
    }
}

/// A burst needs one connection for each run; none waits for the end of another.
#[tokio::test]
async fn opens_a_connection_for_each_run_of_a_burst_at_an_agent_with_one_stream() {
    let agent = TestAgent::start(AgentConfig { h2: true, streams: Some(1), ..AgentConfig::default() }).await;
    agent.set_answer(AnswerMode::Hold);
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    let clients = futures_util::future::join_all((0..20).map(|_| open_held_run(&gateway))).await;
    assert_eq!((agent.open_run_count(), agent.connection_count()), (20, 20));
    agent.finish_runs();
    for mut client in clients {
        client.read_until("RUN_FINISHED").await;
    }
    agent.set_answer(AnswerMode::Whole);
    wait_until_idle(&gateway).await;
    assert_concurrent_runs(&gateway, 20).await;
    assert_eq!(agent.connection_count(), 20);
}

#[tokio::test]
async fn shares_the_first_connection_among_a_burst() {
    let agent = start_h2_agent().await;
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    assert_concurrent_runs(&gateway, 50).await;
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn answers_503_at_once_beyond_the_connections_of_an_address() {
    let agent = TestAgent::start(AgentConfig { h2: true, streams: Some(1), ..AgentConfig::default() }).await;
    agent.set_answer(AnswerMode::Hold);
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    let mut clients = futures_util::future::join_all((0..100).map(|_| open_held_run(&gateway))).await;
    for _ in 0..6 {
        assert_busy(&post_run(gateway.data, "/run").await);
    }
    assert_eq!(agent.connection_count(), 100);
    // A busy agent is not ejected, and a free stream is used again.
    drop(clients.pop());
    wait_until("the reset", || agent.cancelled_count() == 1).await;
    clients.push(open_held_run(&gateway).await);
    assert_eq!(agent.connection_count(), 100);
}

fn assert_busy(answer: &crate::support::client::Answer) {
    assert_refused(answer, 503, "upstream_busy");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

/// The agent answers one run, and says that it takes no further streams: on this connection, or on any.
#[tokio::test]
async fn opens_another_connection_when_the_agent_stops_taking_streams() {
    for takes_more in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let upstream = format!("{{url: \"http://{address}/\", http: 2}}");
        let gateway = start_gateway(&upstream, ", timeouts: {first_byte: 20s}").await;
        let serving = tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                let limit = if number == 0 || takes_more { 1 } else { 0 };
                tokio::spawn(answer_one_run(stream, limit));
            }
        });
        assert_run(&gateway).await;
        wait_until_idle(&gateway).await;
        for _ in 0..2 {
            let since = std::time::Instant::now();
            let answer = post_run(gateway.data, "/run").await;
            match takes_more {
                true => assert_succeeded(&answer, COMPLETE_RUN),
                false => assert_busy(&answer),
            }
            assert!(since.elapsed() < std::time::Duration::from_secs(10), "{:?}", since.elapsed());
        }
        serving.abort();
    }
}

/// Allows so many streams at first, and none once it has answered the first request.
async fn answer_one_run(mut stream: TcpStream, streams: u32) {
    let settings = |streams: u32| frame(SETTINGS, 0, &[&MAX_CONCURRENT_STREAMS[..], &streams.to_be_bytes()].concat());
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.expect("a preface");
    stream.write_all(&settings(streams)).await.expect("it reads");
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.expect("a payload");
        if head[3] == HEADERS {
            // ":status: 200" of the static table, and a literal field [RFC 7541 §6.1, §6.2.2].
            let name = "content-type";
            let value = "text/event-stream";
            let literal = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
            let fields = [&[0x88, 0][..], &literal(name), &literal(value)].concat();
            let body = run_beginning() + CLOSED + FINISHED;
            let mut frames = settings(0);
            let mut headers = frame(HEADERS, 1, &fields);
            headers[4] = END_HEADERS;
            let mut data = frame(DATA, 1, body.as_bytes());
            data[4] = END_STREAM;
            frames.extend([headers, data].concat());
            stream.write_all(&frames).await.expect("it reads");
        }
    }
}

/// A killed agent sends no GOAWAY, so a run that starts before the closed connection is noticed may be lost with it;
/// after that there is no connection, and later a new one.
#[tokio::test]
async fn reconnects_to_a_restarted_h2_agent() {
    let mut agent = start_h2_agent().await;
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    for _ in 0..3 {
        assert_concurrent_runs(&gateway, 10).await;
        let before = agent.run_count();
        agent.kill().await;
        eventually("a connection that is refused", async || {
            let answer = post_run(gateway.data, "/run").await;
            assert_eq!(answer.status, 502, "{}", answer.text());
            answer.text().contains("upstream_unreachable").then_some(())
        })
        .await;
        agent.restart().await;
        assert_concurrent_runs(&gateway, 10).await;
        assert_eq!(agent.run_count(), before + 10);
    }
}

/// Over cleartext there is no negotiation: the agent sends another response, or closes.
#[tokio::test]
async fn answers_502_when_the_agent_does_not_speak_http2() {
    let agent = TestAgent::start_plain().await;
    let gateway = start_gateway(&h2_upstream(&agent), "").await;
    let answer = post_run(gateway.data, "/run").await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(agent.run_count(), 0);
}

fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

/// "GOAWAY: Last-Stream-ID, Error Code" [§6.8].
fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Answers the first request on a connection with these frames, and closes it.
async fn answer_once_and_close(mut stream: TcpStream, frames: &[u8]) {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.expect("a preface");
    stream.write_all(&frame(SETTINGS, 0, &[])).await.expect("it reads");
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.expect("a payload");
        // The stream is 1: the first of a client.
        if head[3] == HEADERS {
            break;
        }
    }
    stream.write_all(frames).await.expect("it reads");
    stream.shutdown().await.expect("it reads");
    // Closed with bytes unread it would be reset, and what was written might not be read.
    while stream.read(&mut [0; 1024]).await.unwrap_or(0) > 0 {}
}

/// Starts one run with an agent that refuses the first request with `frames`, and a healthy one. Returns the client's
/// response and the number of runs of the healthy one.
async fn run_after_refusal(frames: Vec<u8>) -> (crate::support::client::Answer, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let other = start_h2_agent().await;
    let gateway =
        start_gateway(&format!("[{{url: \"http://{address}/\", http: 2, weight: 1000}}, {}]", h2_upstream(&other)), "")
            .await;
    let refusing = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        // No further connection arrives.
        drop(listener);
        answer_once_and_close(stream, &frames).await;
    };
    let (answer, ()) = within_deadline("both", async { tokio::join!(post_run(gateway.data, "/run"), refusing) }).await;
    (answer, other.run_count())
}

/// "The REFUSED_STREAM error code can be included in a RST_STREAM frame to indicate that the stream is being closed prior to
/// any processing having occurred. Any request that was sent on the reset stream can be safely retried" [§8.7].
#[tokio::test]
async fn retries_a_refused_stream_on_another_agent() {
    let (answer, other) = run_after_refusal(frame(RST_STREAM, 1, &REFUSED_STREAM.to_be_bytes())).await;
    assert_succeeded(&answer, COMPLETE_RUN);
    assert_eq!(other, 1);
}

/// "Streams [...] with identifiers higher than the included last stream identifier" were not processed [§6.8].
#[tokio::test]
async fn retries_a_stream_excluded_by_goaway_on_another_agent() {
    let (answer, other) = run_after_refusal(goaway(0, NO_ERROR)).await;
    assert_succeeded(&answer, COMPLETE_RUN);
    assert_eq!(other, 1);
}

/// No other agent can take it.
#[tokio::test]
async fn answers_503_when_the_only_agent_refuses_the_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let gateway = start_gateway(&format!("{{url: \"http://{address}/\", http: 2}}"), "").await;
    let refusing = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        answer_once_and_close(stream, &frame(RST_STREAM, 1, &REFUSED_STREAM.to_be_bytes())).await;
    };
    let (answer, ()) = within_deadline("both", async { tokio::join!(post_run(gateway.data, "/run"), refusing) }).await;
    assert_busy(&answer);
}

#[tokio::test]
async fn does_not_retry_a_stream_that_may_have_been_processed() {
    let rows = [
        ("a goaway that includes it", goaway(1, NO_ERROR)),
        ("a reset for another reason", frame(RST_STREAM, 1, &INTERNAL_ERROR.to_be_bytes())),
        ("the end of the connection", Vec::new()),
        ("frames that are none", frame(SETTINGS, 1, &[0; 6])),
    ];
    for (what, frames) in rows {
        let (answer, other) = run_after_refusal(frames).await;
        assert_eq!((answer.status, other), (502, 0), "{what}: {}", answer.text());
    }
}

/// h2 takes 16 MiB by default, of which fields without a value make ten times as much.
#[tokio::test]
async fn refuses_a_head_of_many_fields() {
    // The head of an event stream, so that nothing but its size is wrong [RFC 7541 §6.1, §6.2.2].
    let media_type = [&[0, 12][..], b"content-type", &[17], b"text/event-stream"].concat();
    let fields = [&[0x88][..], &media_type, &[0, 1, b'n', 0].repeat(15_000)].concat();
    let pieces: Vec<_> = fields.chunks(16_000).collect();
    let mut frames = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut part = frame(if number == 0 { HEADERS } else { CONTINUATION }, 1, piece);
        part[4] = if number + 1 == pieces.len() { END_HEADERS } else { 0 };
        frames.extend(part);
    }
    let (answer, other) = run_after_refusal(frames).await;
    assert_eq!((answer.status, other), (502, 0), "{}", answer.text());
    assert_refused(&answer, 502, "upstream_protocol");
}
