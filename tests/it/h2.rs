//! HTTP/2 with frames that no library would send, and ambiguous requests.

use super::support::agent::{Agent, Step, write};
use super::support::client::INPUT;
use super::support::gateway::{Gateway, Setup};
use super::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, field, frame,
    head, head_for,
};
use super::support::sse::{HEAD, complete_run};
use super::support::within_deadline;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Sends frames on a new connection and gives the types of those that come back, until a stream ends or the connection
/// does.
async fn reply_frame_types(gateway: &Gateway, frames: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    stream.write_all(&begin).await.expect("it reads");
    // A gateway that has seen enough may close while we still write.
    let _ = stream.write_all(frames).await;
    let mut types = Vec::new();
    within_deadline("the end", async {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            types.push(head[3]);
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let ended = head[3] == RST_STREAM || [DATA, HEADERS].contains(&head[3]) && head[4] & END_STREAM != 0;
            if stream.read_exact(&mut vec![0; length]).await.is_err() || ended {
                break;
            }
        }
    })
    .await;
    types
}

/// "The HEAD method is identical to GET except that the server MUST NOT send content in the response" [RFC 9110 §9.3.2].
#[tokio::test]
async fn answers_a_head_request_without_content() {
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    for (method, has_content) in [("HEAD", false), ("GET", true)] {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head_for(method, "/run", &[]));
        let types = reply_frame_types(&gateway, &request).await;
        assert!(types.contains(&HEADERS), "{method}: {types:?}");
        assert_eq!(types.contains(&DATA), has_content, "{method}: {types:?}");
    }
}

/// "Malformed requests [...] MUST be treated as a stream error" [RFC 9113 §8.1.1].
#[tokio::test]
async fn resets_the_stream_of_a_malformed_request() {
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let rows: &[&[(&str, &str)]] = &[
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[("upgrade", "h2c")],
        &[("keep-alive", "1")],
        &[("te", "gzip")],
        &[("x", "1\r\nhost: b")],
        &[("x", "1\n2")],
        &[("x", "1\0")],
        &[("X-Upper", "1")],
        &[("x y", "1")],
        &[("", "1")],
        &[(":path", "/other")],
        &[(":unknown", "1")],
        &[("x", "1"), (":method", "GET")],
    ];
    for more in rows {
        let types = reply_frame_types(&gateway, &frame(HEADERS, END_HEADERS | END_STREAM, 1, &head(more))).await;
        assert!(types.contains(&RST_STREAM) || types.contains(&GOAWAY), "{more:?}: {types:?}");
        assert!(!types.contains(&HEADERS), "{more:?}: {types:?}");
    }
    // "A request or response is also malformed if the value of a content-length header field does not equal the sum of
    // the DATA frame payload lengths" [§8.1.1].
    for length in ["1", "100000", "+139"] {
        let head = frame(HEADERS, END_HEADERS, 1, &head(&[("content-length", length)]));
        let types = reply_frame_types(&gateway, &[head, frame(DATA, END_STREAM, 1, INPUT.as_bytes())].concat()).await;
        assert!(types.contains(&RST_STREAM) || types.contains(&GOAWAY), "{length}: {types:?}");
    }
    assert_eq!(agent.connection_count(), 0);
    // The same frames, well formed, are a run.
    let sent = [frame(HEADERS, END_HEADERS, 1, &head(&[])), frame(DATA, END_STREAM, 1, INPUT.as_bytes())].concat();
    assert!(reply_frame_types(&gateway, &sent).await.contains(&HEADERS));
    assert_eq!(agent.connection_count(), 1);
}

/// CVE-2023-44487, CVE-2025-8671, CVE-2024-27316 and their kin.
#[tokio::test]
async fn closes_connections_that_flood() {
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let ids = || (0..2000).map(|stream| 2 * stream + 1);
    let opened = |stream| frame(HEADERS, END_HEADERS, stream, &head(&[]));
    // Rapid reset: 8 is CANCEL.
    let reset = |stream| [opened(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat();
    // MadeYouReset: a window update of nothing is a stream error of the peer, so we have to reset.
    let made = |stream| [opened(stream), frame(8, 0, stream, &[0; 4])].concat();
    // A list of fields without end.
    let endless = || {
        let more = field("x", &"y".repeat(100)).repeat(100);
        let mut frames = frame(HEADERS, END_STREAM, 1, &head(&[]));
        (0..100).for_each(|_| frames.extend(frame(CONTINUATION, 0, 1, &more)));
        frames
    };
    let empty = || {
        let mut frames = frame(HEADERS, 0, 1, &head(&[]));
        (0..100_000).for_each(|_| frames.extend(frame(CONTINUATION, 0, 1, &[])));
        frames
    };
    let data = || {
        let mut frames = opened(1);
        (0..100_000).for_each(|_| frames.extend(frame(DATA, 0, 1, &[])));
        frames
    };
    let floods = [
        ("rapid reset", ids().flat_map(reset).collect()),
        ("made you reset", ids().flat_map(made).collect()),
        ("continuation", endless()),
        ("empty continuation", empty()),
        ("empty data", data()),
    ];
    for (name, flood) in floods {
        let flood: Vec<u8> = flood;
        let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        stream.write_all(&begin).await.expect("it reads");
        let (mut from, mut to) = stream.into_split();
        let sending = tokio::spawn(async move { to.write_all(&flood).await.map(|()| to) });
        let mut received = Vec::new();
        // The client does not close, so the end comes from the gateway.
        let _ = within_deadline(name, from.read_to_end(&mut received)).await;
        drop(sending.await);
    }
    assert_eq!(agent.connection_count(), 0);
    // A well-behaved client is not affected.
    assert_eq!(request_status(&gateway, &[]).await, 200);
}

/// Browsers use as many streams of a connection.
const REQUESTS: u32 = 100;

#[tokio::test]
async fn serves_a_hundred_requests_of_one_connection_at_once() {
    let agent = Agent::with_script(vec![Step::Read, Step::Pause, write(HEAD.to_owned() + &complete_run())]);
    let gateway = Gateway::start_for(&agent).await;
    let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let runs: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let request = http::Request::post("http://gateway/run").body(Full::new(Bytes::from(INPUT)));
            let response = sender.clone().send_request(request.expect("a request"));
            tokio::spawn(async move {
                let response = response.await.expect("an answer");
                assert_eq!(response.status(), 200);
                response.into_body().collect().await.expect("a clean end").to_bytes()
            })
        })
        .collect();
    gateway.wait_for_metric(r#"diglot_streams_active{route="run"}"#, f64::from(REQUESTS)).await;
    (0..REQUESTS).for_each(|_| agent.resume());
    for run in runs {
        let body = within_deadline("a run", run).await.expect("no panic");
        assert!(String::from_utf8_lossy(&body).contains("RUN_FINISHED"));
    }
}

async fn request_status(gateway: &Gateway, fields: &[(&str, &str)]) -> u16 {
    let stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let (mut sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let mut request = http::Request::post("http://gateway/run");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(INPUT))).expect("a request");
    let response = within_deadline("an answer", sender.send_request(request)).await.expect("an answer");
    let status = response.status().as_u16();
    within_deadline("a body", response.into_body().collect()).await.expect("a clean end");
    status
}

/// "A server SHOULD treat a request as malformed if it contains a Host header field that identifies an entity that differs
/// from the entity in the ':authority' pseudo-header field." [RFC 9113 §8.3.1]
#[tokio::test]
async fn limits_hosts_and_header_fields_of_a_request() {
    let agent = start_agent();
    let top = "limits: {headers: 10, header_bytes: 8KiB}";
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    assert_eq!(request_status(&gateway, &[("host", "gateway")]).await, 200);
    assert_eq!(agent.connection_count(), 1);
    assert_eq!(request_status(&gateway, &[("host", "other")]).await, 400);
    assert_eq!(request_status(&gateway, &[("host", "gateway"), ("host", "gateway")]).await, 400);
    assert_eq!(request_status(&gateway, &[("x", "1"); 20]).await, 431);
    assert_eq!(request_status(&gateway, &[("x", &"1".repeat(16 << 10))]).await, 431);
    assert_eq!(agent.connection_count(), 1);
}

/// A body that never comes is answered for, and PING does not help it.
#[tokio::test]
async fn answers_408_to_a_late_body() {
    let agent = start_agent();
    let top = "limits: {body_timeout: 1s}";
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let opened = frame(HEADERS, END_HEADERS, 1, &head(&[("content-type", "application/json")]));
    let late = [opened, frame(DATA, 0, 1, &INPUT.as_bytes()[..1]), frame(PING, 0, 0, &[0; 8])].concat();
    let types = reply_frame_types(&gateway, &late).await;
    assert!(types.contains(&PING) && types.contains(&HEADERS), "{types:?}");
    assert_eq!(agent.connection_count(), 0);
    gateway.wait_for_metric(r#"diglot_requests_total{code="408",method="POST",route="run"}"#, 1.0).await;
}

/// "A server that is attempting to gracefully shut down a connection SHOULD send an initial GOAWAY frame with the last
/// stream identifier set to 2^31-1" [RFC 9113 §6.8]: requests that the client sends before it has received it are in
/// flight, not late.
#[tokio::test]
async fn serves_a_request_that_crosses_goaway() {
    let mut agent = Agent::with_script(vec![Step::Read, Step::Pause, write(HEAD.to_owned() + &complete_run())]);
    let mut gateway = Gateway::start_for(&agent).await;
    let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let request = |id| {
        let head = head(&[("content-type", "application/json")]);
        [frame(HEADERS, END_HEADERS, id, &head), frame(DATA, END_STREAM, id, INPUT.as_bytes())].concat()
    };
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1)].concat();
    stream.write_all(&begin).await.expect("it reads");
    agent.next_request().await;
    gateway.process.signal("TERM");
    gateway.next_log("draining").await;

    // GOAWAY is sent and its PING unanswered, so the client has not received it yet.
    stream.write_all(&request(3)).await.expect("it reads");
    agent.next_request().await;
    agent.resume();
    agent.resume();
    let mut bodies = [Vec::new(), Vec::new()];
    let mut ended = 0;
    while ended < bodies.len() {
        let mut head = [0; 9];
        within_deadline("a frame", stream.read_exact(&mut head)).await.expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        within_deadline("its payload", stream.read_exact(&mut payload)).await.expect("a payload");
        if head[3] == DATA {
            bodies[usize::from(head[8] == 3)].extend_from_slice(&payload);
            ended += usize::from(head[4] & END_STREAM != 0);
        }
    }
    for body in bodies {
        assert!(String::from_utf8_lossy(&body).contains("RUN_FINISHED"), "{}", String::from_utf8_lossy(&body));
    }
    drop(stream);
    assert_eq!(gateway.process.exit().await.code(), Some(0));
}
