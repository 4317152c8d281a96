//! Requests that two HTTP implementations would read differently: at most one of them is served, and a connection whose
//! end is ambiguous is closed.
//!
//! Timeouts are one second here, so each conversation ends by itself, and all responses can be counted.

use super::support::agent::Agent;
use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::http2::{END_HEADERS, END_STREAM, HEADERS, beginning, field, frame, head_for};
use super::support::sse::{HEAD, assert_refused, complete_run};
use super::support::{eventually, within_deadline};
use futures_util::future::join_all;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const QUICK: &str = "limits: {head_timeout: 1s, body_timeout: 1s, idle_timeout: 1s}";

fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

async fn start_gateway(agent: &Agent) -> Gateway {
    Gateway::start(Setup { upstreams: &[agent.url()], top: QUICK, ..Setup::default() }).await
}

/// Everything that comes back for some bytes, until the gateway closes the connection.
async fn exchange(to: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).await.expect("the gateway listens");
    // The gateway may close while the test still writes.
    let _ = stream.write_all(sent).await;
    let mut received = Vec::new();
    let _ = within_deadline("the end of the connection", stream.read_to_end(&mut received)).await;
    received
}

/// The statuses of everything that comes back.
async fn reply_statuses(to: SocketAddr, sent: &[u8]) -> Vec<u16> {
    let received = exchange(to, sent).await;
    let received = String::from_utf8_lossy(&received);
    received.split("HTTP/1.").skip(1).map(|rest| rest[2..5].parse().expect("a status")).collect()
}

/// A run that starts if this text is read as a separate request.
fn smuggled_request() -> String {
    post("/run", "", INPUT)
}

/// A request with these fields and this body, and nothing that is not written here.
fn raw_request(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /run HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
}

fn chunked_body(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

const TE: &str = "Transfer-Encoding: chunked\r\n";

/// Requires the statuses of each row, and returns the number of runs.
async fn assert_statuses(rows: Vec<(Vec<u8>, Vec<u16>)>) -> usize {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let answers = join_all(rows.iter().map(|(sent, _)| reply_statuses(gateway.data, sent))).await;
    for ((sent, expected), answer) in rows.iter().zip(answers) {
        assert_eq!(answer, *expected, "{}", String::from_utf8_lossy(sent));
    }
    agent.connection_count()
}

/// "The server MUST close the connection after responding to such a request" [RFC 9112 §6.1].
#[tokio::test]
async fn closes_the_connection_after_a_message_with_both_lengths() {
    let hidden = smuggled_request();
    let (inside, whole) = (format!("0\r\n\r\n{hidden}"), chunked_body(INPUT));
    let length = |length: usize| format!("Content-Length: {length}\r\n");
    let rows = vec![
        // CL.TE: the rest that one side takes for a body is no request. Either order.
        (raw_request(&(length(inside.len()) + TE), &inside), vec![400]),
        (raw_request(&(TE.to_owned() + &length(inside.len())), &inside), vec![400]),
        // TE.CL: a chunk is a chunk.
        (raw_request(&(length(4) + TE), &chunked_body(&hidden)), vec![400]),
        // One valid message, and nothing after it.
        (raw_request(&(length(3) + TE), &(whole.clone() + &hidden)), vec![200]),
        (raw_request(TE, &(whole + &hidden)), vec![200]),
    ];
    assert_eq!(assert_statuses(rows).await, 2);
}

#[tokio::test]
async fn rejects_transfer_codings_other_than_chunked() {
    let body = format!("0\r\n\r\n{}", smuggled_request());
    let fields = [
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "X: 1\r\n Transfer-Encoding: chunked\r\n",
        "X: 1\rTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\0\r\n",
    ];
    let mut rows: Vec<_> = fields.iter().map(|fields| (raw_request(fields, &body), vec![400])).collect();
    // HTTP/1.0 has none.
    rows.push((format!("POST /run HTTP/1.0\r\nHost: a\r\n{TE}\r\n{body}").into_bytes(), vec![400]));
    assert_eq!(assert_statuses(rows).await, 0);
}

#[tokio::test]
async fn rejects_malformed_content_lengths() {
    let mut rows = Vec::new();
    for length in
        ["+143", "143,143", "143, 143", "0x8f", "-1", "143.0", "1e2", "", "143 143", "99999999999999999999999"]
    {
        rows.push((raw_request(&format!("Content-Length: {length}\r\n"), INPUT), vec![400]));
    }
    let length = INPUT.len();
    rows.push((raw_request(&format!("Content-Length: {length}\r\nContent-Length: 0\r\n"), INPUT), vec![400]));
    rows.push((raw_request(&format!("Content-Length : {length}\r\n"), INPUT), vec![400]));
    // 0.CL and CL.0: no length is no body, whatever looks like one.
    rows.push((raw_request(&format!("Content_Length: {length}\r\nConnection: close\r\n"), INPUT), vec![400]));
    // The body of a request that must have none is not read as a request.
    let hidden = smuggled_request();
    rows.push((
        format!("GET /run HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()).into(),
        vec![405],
    ));
    assert_eq!(assert_statuses(rows).await, 0);
    // "or replace the duplicated field values with a single valid Content-Length" [RFC 9110 §8.6]
    let twice = raw_request(&format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"), INPUT);
    assert_eq!(assert_statuses(vec![(twice, vec![200])]).await, 1);
}

#[tokio::test]
async fn rejects_malformed_chunks() {
    let bodies = [
        "0x2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "g\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "2;a\n\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}X\r\n0\r\n\r\n",
        "3\r\n{}\r\n0\r\n\r\n",
    ];
    let rows =
        bodies.iter().map(|body| (raw_request(TE, &(body.to_string() + &smuggled_request())), vec![400])).collect();
    assert_eq!(assert_statuses(rows).await, 0);
    let extended = format!("{:x};a=\"1;2\"\r\n{INPUT}\r\n0\r\n\r\n", INPUT.len());
    assert_eq!(assert_statuses(vec![(raw_request(TE, &extended), vec![200])]).await, 1);
}

#[tokio::test]
async fn drops_request_trailers() {
    let mut agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let trailers = "Content-Length: 99\r\nX-Diglot-Subject: root\r\nAuthorization: Bearer a\r\n";
    let body = format!("{:x}\r\n{INPUT}\r\n0\r\n{trailers}\r\n{}", INPUT.len(), smuggled_request());
    assert_eq!(reply_statuses(gateway.data, &raw_request(TE, &body)).await, [200]);
    let request = agent.next_request().await;
    assert_eq!(request.header("content-length"), Some(request.body.len().to_string().as_str()));
    assert_eq!((request.header("x-diglot-subject"), request.header("authorization")), (None, None));
    assert_eq!(agent.connection_count(), 1);
}

#[tokio::test]
async fn rejects_ambiguous_request_heads() {
    let length = INPUT.len();
    let head =
        |head: &str| format!("{head}\r\nContent-Length: {length}\r\n\r\n{INPUT}{}", smuggled_request()).into_bytes();
    let rows = [
        "POST /run HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded",
        "POST /run HTTP/1.1\r\nHost: a\r\nX: 1\0",
        "POST /run HTTP/1.1\r\nHost: a\r\nX: 1\r2",
        "POST /run HTTP/1.1\r\nHost: a\r\nX\0: 1",
        "POST /run HTTP/1.1\r\nHost: a\r\nX",
        "POST /run HTTP/1.1\r\nHost: a\r\n: 1",
        "POST /run HTTP/1.1\r\nHost: a\r\n\u{fc}: 1",
        "POST /run HTTP/1.2\r\nHost: a",
        "POST /run HTTP/2.0\r\nHost: a",
        "POST /run http/1.1\r\nHost: a",
        "POST /run\r\nHost: a",
        "POST /run HTTP/1.1 x\r\nHost: a",
        "POST /r un HTTP/1.1\r\nHost: a",
        "PO\0ST /run HTTP/1.1\r\nHost: a",
        "POST /run\0 HTTP/1.1\r\nHost: a",
        // The host of a request [RFC 9112 §3.2].
        "POST /run HTTP/1.1",
        "POST /run HTTP/1.1\r\nHost: a\r\nHost: a",
        "POST /run HTTP/1.1\r\nHost: u@a",
        "POST /run HTTP/1.1\r\nHost: a/run",
        "POST /run HTTP/1.1\r\nHost: a, b",
        "POST /run HTTP/1.1\r\nHost: a b",
        "POST /run HTTP/1.1\r\nHost: ",
        "POST /run HTTP/1.1\r\nHost: [::1",
        "POST http://b/run HTTP/1.1\r\nHost: a",
        "POST http://u@a/run HTTP/1.1\r\nHost: a",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80",
        "CONNECT /run HTTP/1.1\r\nHost: a",
        "OPTIONS * HTTP/1.1\r\nHost: a",
        "POST * HTTP/1.1\r\nHost: a",
        "POST run HTTP/1.1\r\nHost: a",
    ];
    assert_eq!(assert_statuses(rows.map(|row| (head(row), vec![400])).to_vec()).await, 0);
}

/// Pipelined requests after a run are not answered, and the run is counted once.
#[tokio::test]
async fn starts_one_run_despite_upgrade_and_expect_headers() {
    let length = format!("Content-Length: {}\r\n", INPUT.len());
    let rows = vec![
        (
            raw_request(
                &format!("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n{length}"),
                INPUT,
            ),
            vec![200],
        ),
        (raw_request(&format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{length}"), INPUT), vec![200]),
        (raw_request(&format!("Expect: 100-continue\r\n{length}"), INPUT), vec![100, 200]),
        (raw_request(&format!("Expect: a-miracle\r\n{length}"), INPUT), vec![200]),
        // "a recipient MAY recognize a single LF as a line terminator" [RFC 9112 §2.2]
        (format!("POST /run HTTP/1.1\nHost: a\n{}\n\n{INPUT}", length.trim_end()).into_bytes(), vec![200]),
        (format!("POST http://a/run HTTP/1.1\r\nHost: A:80\r\n{length}\r\n{INPUT}").into_bytes(), vec![200]),
        (format!("POST /run HTTP/1.0\r\n{length}\r\n{INPUT}").into_bytes(), vec![200]),
    ];
    let runs = rows.len();
    assert_eq!(assert_statuses(rows).await, runs);
}

/// A path is a route's when it is the same text; so there is no second spelling that a rule for the first would miss.
#[tokio::test]
async fn refuses_other_spellings_of_a_path() {
    let paths = [
        "//run",
        "/./run",
        "/x/../run",
        "/run/",
        "/run/.",
        "/run/..",
        "/%2e/run",
        "/%2e%2e/run",
        "/%252e/run",
        "/%2frun",
        "/%2Frun",
        "/x%2f..%2frun",
        "/run;",
        "/run;a=b",
        "/;/run",
        "/x/..;/run",
        "\\run",
        "/\\run",
        "/run\\",
        "/x\\..\\run",
        "/RUN",
        "/Run",
        "/r%75n",
        "/r%2575n",
        "/run%00",
        "/run%20",
        "/run%0a",
        "/run%0d%0a",
        "/run%3f",
        "/run%23",
        "/run%c0%af",
        "/%c0%ae/run",
        "/run\u{2025}",
        "/run\u{ff0f}",
        "*",
        "run",
        "http://gateway//run",
        "http://gateway/./run",
    ];
    let rows: Vec<_> = paths.iter().map(|path| post(path, "Authorization: Bearer x\r\n", INPUT)).collect();
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let answers = join_all(rows.iter().map(|row| reply_statuses(gateway.data, row.as_bytes()))).await;
    for (path, answer) in paths.iter().zip(answers) {
        assert!(answer == [400] || answer == [404], "{path}: {answer:?}");
    }
    assert_eq!(agent.connection_count(), 0);
}

/// Each row of the table and its response: 408 for a missing body, a closed connection for an incomplete head.
#[tokio::test]
async fn times_out_slow_heads_and_bodies() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let heads = ["", "P", "PRI * HTT", "POST /run HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n"].map(async |silent| {
        assert!(exchange(gateway.data, silent.as_bytes()).await.is_empty(), "{silent:?}");
    });
    let bodies = [("Content-Length: 100\r\n", "{"), (TE, "1\r\n{\r\n"), (TE, "1")].map(async |(fields, body)| {
        let answer = send_request(gateway.data, raw_request(fields, body)).await;
        assert_refused(&answer, 408, "request_timeout");
        assert_eq!(answer.header("connection"), Some("close"));
    });
    tokio::join!(join_all(heads), join_all(bodies));
    assert_eq!(agent.connection_count(), 0);
}

/// A drip of bytes is no progress: the head has one deadline.
#[tokio::test]
async fn times_out_a_head_sent_byte_by_byte() {
    let agent = start_agent();
    let gateway = start_gateway(&agent).await;
    let (mut from, mut to) = TcpStream::connect(gateway.data).await.expect("the gateway listens").into_split();
    to.write_all(b"POST /run HTTP/1.1\r\nHost: a\r\nX: ").await.expect("it reads");
    let drip = tokio::spawn(async move {
        let mut again = tokio::time::interval(std::time::Duration::from_millis(20));
        while to.write_all(b"x").await.is_ok() {
            again.tick().await;
        }
    });
    let mut received = Vec::new();
    let _ = within_deadline("the end of the connection", from.read_to_end(&mut received)).await;
    within_deadline("the end of the drip", drip).await.expect("no panic");
    assert!(received.is_empty(), "{received:?}");
}

#[tokio::test]
async fn applies_the_configured_head_limits() {
    let top = "limits: {header_bytes: 8KiB, headers: 10, head_timeout: 1s, idle_timeout: 1s}";
    let agent = start_agent();
    let gateway = Gateway::start(Setup { upstreams: &[agent.url()], top, ..Setup::default() }).await;
    let with = |fields: String| post("/run", &fields, INPUT).into_bytes();
    // Host, Content-Type, Accept, Content-Length, and six more.
    assert_eq!(reply_statuses(gateway.data, &with("X: 1\r\n".repeat(6))).await, [200]);
    assert_eq!(reply_statuses(gateway.data, &with("X: 1\r\n".repeat(7))).await, [431]);
    assert_eq!(reply_statuses(gateway.data, &with(format!("X: {}\r\n", "x".repeat(7 << 10)))).await, [200]);
    assert_eq!(reply_statuses(gateway.data, &with(format!("X: {}\r\n", "x".repeat(9 << 10)))).await, [431]);
    assert_eq!(reply_statuses(gateway.data, &with(format!("X: {}\r\n", "x".repeat(1 << 20)))).await, [431]);
    let target = |length: usize| post(&format!("/run?{}", "x".repeat(length)), "", INPUT).into_bytes();
    assert_eq!(reply_statuses(gateway.data, &target(7 << 10)).await, [200]);
    assert_eq!(reply_statuses(gateway.data, &target(9 << 10)).await, [431]);
    let refused = r#"diglot_connections_refused_total{listener="127.0.0.1:0",plane="data",reason="head_too_large"}"#;
    gateway.wait_for_metric(refused, 4.0).await;
    let counted = "diglot_http2_heads_refused_total";
    assert_eq!(gateway.metric(counted).await, 0.0);
    // 8 KiB with 32 bytes for each field [RFC 9113 §6.5.2]; the second response repeats the first one's status by its index.
    let fields = |count: usize| [head_for("POST", "/run", &[]), field("x", &"y".repeat(100)).repeat(count)].concat();
    let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
    let requests =
        [(1, 60), (3, 61), (5, 80)].map(|(id, count)| frame(HEADERS, END_HEADERS | END_STREAM, id, &fields(count)));
    stream.write_all(&[beginning(1 << 20), requests.concat()].concat()).await.expect("it reads");
    gateway.wait_for_metric(counted, 2.0).await;
    // hyper keeps the length of a target in 16 bits.
    let wide = Gateway::start(Setup {
        upstreams: &[agent.url()],
        top: "limits: {header_bytes: 256KiB, head_timeout: 1s, idle_timeout: 1s}",
        ..Setup::default()
    })
    .await;
    assert_eq!(reply_statuses(wide.data, &target(70 << 10)).await, [414]);
}

/// Row 26: idle connections do not block other clients.
#[tokio::test]
async fn serves_runs_despite_idle_connections() {
    let agent = start_agent();
    let gateway = Gateway::start_for(&agent).await;
    let mut held = Vec::new();
    for number in 0..400 {
        let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
        let sent: &[u8] = [&b""[..], b"POST /run HTTP/1.1\r\nHost: a\r\nX: ", b"PRI * HTTP/2.0\r\n"][number % 3];
        stream.write_all(sent).await.expect("it reads");
        held.push(stream);
    }
    // "healthy client < 0.5 s". A busy machine may delay one request; blocked connections would delay all.
    eventually("a run in less than half a second", async || {
        let began = std::time::Instant::now();
        assert_eq!(send_request(gateway.data, post("/run", "", INPUT)).await.status, 200);
        (began.elapsed() < std::time::Duration::from_millis(500)).then_some(())
    })
    .await;
}

/// A GET whose body arrives after the response has begun: none of its bytes is a request.
#[tokio::test]
async fn reads_no_request_from_the_body_of_a_get() {
    let agent = start_agent();
    let routes = format!(
        "routes:\n  - {{name: run, path: /run, client: ag-ui, agent: ag-ui, upstream: {0}, on_disconnect: continue for 5m}}\n  \
         - {{name: two, path: /two, events_path: \"/two/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {0}}}\n",
        agent.url()
    );
    let gateway = Gateway::start(Setup { routes: &routes, top: QUICK, ..Setup::default() }).await;
    for (start, path) in [("/run", "/run/runs/r1/events"), ("/two", "/two/t1/events")] {
        let started = send_request(gateway.data, post(start, "Connection: close\r\n", INPUT)).await;
        assert!((200..300).contains(&started.status), "{}", started.text());
        let runs = agent.connection_count();
        let inner = post("/run", "Connection: close\r\n", &INPUT.replace("\"r1\"", "\"smuggled\""));
        for padding in [0, 20_000] {
            let body = "x".repeat(padding) + &inner;
            let length = body.len();
            let mut stream = TcpStream::connect(gateway.data).await.expect("the gateway listens");
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nContent-Length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.expect("it reads");
            let mut received = vec![0; 1 << 10];
            let first = within_deadline("the response", stream.read(&mut received)).await.expect("a response");
            received.truncate(first);
            // The gateway may close while the test still writes.
            let _ = stream.write_all(body.as_bytes()).await;
            let _ = within_deadline("the end of the connection", stream.read_to_end(&mut received)).await;
            let received = String::from_utf8_lossy(&received);
            assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{path}, {padding}: {received}");
        }
        assert_eq!(agent.connection_count(), runs, "{path}");
    }
}
