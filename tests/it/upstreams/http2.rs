//! Agents of HTTP/2: many runs on one connection, and what the protocol says that HTTP/1.1 cannot.

use super::choice::idle;
use super::served::{Kind, Served, Way};
use super::{all_run, before, held, runs, until};
use crate::support::client::run;
use crate::support::sse::{WHOLE, succeeded};
use crate::support::{eventually, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Types of frames, and the codes of errors that are used here [RFC 9113 §6, §7].
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

async fn agent() -> Served {
    Served::start(Kind { h2: true, ..Kind::default() }).await
}

fn upstream(agent: &Served) -> String {
    format!("{{url: {}, http: 2}}", agent.url())
}

#[tokio::test]
async fn many_runs_share_one_connection() {
    let agent = agent().await;
    agent.says(Way::Hold);
    let gateway = before(&upstream(&agent), "").await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(held(&gateway).await);
    }
    assert_eq!((agent.open(), agent.over_h2(), agent.connections()), (50, 50, 1));
    let path = agent.last().uri().path().to_owned();
    assert_eq!(path, "/agent");
    agent.finish();
    for client in &mut clients {
        client.until("RUN_FINISHED").await;
    }
    agent.says(Way::Whole);
    runs(&gateway).await;
    assert_eq!(agent.connections(), 1);
}

#[tokio::test]
async fn a_run_whose_client_left_is_reset_and_the_connection_serves_on() {
    let agent = agent().await;
    agent.says(Way::Hold);
    let gateway = before(&upstream(&agent), "").await;
    let first = held(&gateway).await;
    let mut second = held(&gateway).await;
    drop(first);
    until("the reset", || agent.cancelled() == 1).await;
    assert_eq!(agent.open(), 1);
    agent.says(Way::Whole);
    runs(&gateway).await;
    agent.finish();
    second.until("RUN_FINISHED").await;
    assert_eq!((agent.cancelled(), agent.connections()), (1, 1));
}

#[tokio::test]
async fn an_agent_that_takes_few_runs_on_a_connection_gets_more_connections() {
    let agent = Served::start(Kind { h2: true, streams: Some(2), ..Kind::default() }).await;
    let gateway = before(&upstream(&agent), "").await;
    // From the first answer on it is known how many it takes.
    runs(&gateway).await;
    idle(&gateway).await;
    agent.says(Way::Hold);
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(held(&gateway).await);
    }
    assert_eq!((agent.open(), agent.connections()), (6, 3));
    agent.finish();
    for client in &mut clients {
        client.until("RUN_FINISHED").await;
    }
}

/// One that is killed says no GOAWAY, so a run that comes before the end of the connection is noticed may be lost with it;
/// once it is, there is no connection, and later a new one.
#[tokio::test]
async fn an_agent_that_is_killed_and_comes_back_is_asked_again() {
    let mut agent = agent().await;
    let gateway = before(&upstream(&agent), "").await;
    for _ in 0..3 {
        all_run(&gateway, 10).await;
        let before = agent.runs();
        agent.kill().await;
        eventually("a connection that is refused", async || {
            let answer = run(gateway.data, "/run").await;
            assert_eq!(answer.status, 502, "{}", answer.text());
            answer.text().contains("upstream_unreachable").then_some(())
        })
        .await;
        agent.restart().await;
        all_run(&gateway, 10).await;
        assert_eq!(agent.runs(), before + 10);
    }
}

/// Over cleartext nobody can say so in words: the agent answers something else, or closes.
#[tokio::test]
async fn an_agent_that_speaks_no_http2_gets_no_run() {
    let agent = Served::plain().await;
    let gateway = before(&upstream(&agent), "").await;
    let answer = run(gateway.data, "/run").await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(agent.runs(), 0);
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
async fn refuse(mut stream: TcpStream, frames: &[u8]) {
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

/// Runs once before an agent that refuses the first request with `frames`, and another one that is well. Gives what the
/// client heard and how many runs the other one got.
async fn after(frames: Vec<u8>) -> (crate::support::client::Answer, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let other = agent().await;
    let gateway =
        before(&format!("[{{url: \"http://{address}/\", http: 2, weight: 1000}}, {}]", upstream(&other)), "").await;
    let refusing = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        // Nobody comes again.
        drop(listener);
        refuse(stream, &frames).await;
    };
    let (answer, ()) = soon("both", async { tokio::join!(run(gateway.data, "/run"), refusing) }).await;
    (answer, other.runs())
}

/// "The REFUSED_STREAM error code can be included in a RST_STREAM frame to indicate that the stream is being closed prior to
/// any processing having occurred. Any request that was sent on the reset stream can be safely retried" [§8.7].
#[tokio::test]
async fn a_stream_that_is_refused_goes_to_another_agent() {
    let (answer, other) = after(frame(RST_STREAM, 1, &REFUSED_STREAM.to_be_bytes())).await;
    succeeded(&answer, WHOLE);
    assert_eq!(other, 1);
}

/// "Streams [...] with identifiers higher than the included last stream identifier" were not processed [§6.8].
#[tokio::test]
async fn a_stream_that_a_goaway_leaves_out_goes_to_another_agent() {
    let (answer, other) = after(goaway(0, NO_ERROR)).await;
    succeeded(&answer, WHOLE);
    assert_eq!(other, 1);
}

#[tokio::test]
async fn a_stream_that_the_agent_may_have_processed_does_not() {
    let rows = [
        ("a goaway that includes it", goaway(1, NO_ERROR)),
        ("a reset for another reason", frame(RST_STREAM, 1, &INTERNAL_ERROR.to_be_bytes())),
        ("the end of the connection", Vec::new()),
        ("frames that are none", frame(SETTINGS, 1, &[0; 6])),
    ];
    for (what, frames) in rows {
        let (answer, other) = after(frames).await;
        assert_eq!((answer.status, other), (502, 0), "{what}: {}", answer.text());
    }
}
