//! Serves a demo agent over HTTP: each POST starts a run, and the response is a stream of server-sent events.
//!
//! The body is produced as the client reads it, so the run ends when the client leaves. Without a pace, an agent writes
//! many events at once, like a fast model on a local network; with a pace, it writes each event separately.

use std::{
    future::{Future, pending},
    io,
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, rejection::BytesRejection},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
    serve::ListenerExt,
};
use futures_util::{
    future::{Either, select},
    stream::unfold,
};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::oneshot,
    time::{Instant, Interval, interval_at},
};

use super::{
    conversation::ERROR_MESSAGE,
    demo_ids::json_string,
    demo_script::{BodyEnding, DemoScript},
    test_options::{InjectedFault, TestOptions},
};
use crate::dialect::PeerDialect;

/// Maximum request size in bytes, enough for a whole conversation with inline images.
pub(super) const REQUEST_LIMIT: usize = 16 * 1024 * 1024;

/// Target bytes per write without a pace; the last event may exceed it.
const BATCH_BYTES: usize = 16 * 1024;

/// Maximum time that shutdown waits for runs; an idle run would otherwise block it forever.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Serves an agent on every path. A POST with a `RunAgentInput` returns an event stream with a delay of `pace` between
/// events. An invalid body or test option (see [`demo`](super)) is answered with 400, and other methods with 405, both
/// with `{"detail": …}` like the agents in the seed.
pub(crate) fn router(agent: PeerDialect, pace: Duration) -> Router {
    Router::new()
        .fallback(move |method: Method, body: Result<Bytes, BytesRejection>| async move {
            handle_request(agent, pace, &method, body).unwrap_or_else(IntoResponse::into_response)
        })
        .layer(DefaultBodyLimit::max(REQUEST_LIMIT))
}

/// Serves an agent until `shutdown` resolves, then waits at most five seconds for open runs.
///
/// # Errors
/// Returns listener errors, but not connection errors.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // A small event must not wait for the previous one to be acknowledged. If setting the option fails, the connection
    // is only slower.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let (closing, closed) = oneshot::channel();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        shutdown.await;
        // The receiver has been dropped if serving failed.
        let _ = closing.send(());
    });
    let overdue = pin!(async {
        // An error means the same: the task waiting for `shutdown` has ended.
        let _ = closed.await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    });
    match select(pin!(serving.into_future()), overdue).await {
        Either::Left((served, _)) => served,
        Either::Right(_) => Ok(()),
    }
}

/// An error response in FastAPI's format.
pub(super) struct HttpRefusal(pub(super) StatusCode, pub(super) String);

impl HttpRefusal {
    pub(super) fn not_allowed() -> Self {
        HttpRefusal(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".to_owned())
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let Self(status, detail) = self;
        let body = format!(r#"{{"detail":{}}}"#, json_string(&detail));
        let json = [(header::CONTENT_TYPE, "application/json")];
        match status {
            StatusCode::METHOD_NOT_ALLOWED => (status, [(header::ALLOW, "POST")], json, body).into_response(),
            _ => (status, json, body).into_response(),
        }
    }
}

fn handle_request(
    agent: PeerDialect,
    pace: Duration,
    method: &Method,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, HttpRefusal> {
    let bad_request = |detail: String| HttpRefusal(StatusCode::BAD_REQUEST, detail);
    if method != Method::POST {
        return Err(HttpRefusal::not_allowed());
    }
    let body = body.map_err(|rejection| HttpRefusal(rejection.status(), rejection.body_text()))?;
    let input: Value = serde_json::from_slice(&body).map_err(|error| bad_request(error.to_string()))?;
    if !input.is_object() {
        return Err(bad_request("the body must be a JSON object".to_owned()));
    }
    let options = TestOptions::read(&input).map_err(|error| bad_request(error.to_string()))?;
    Ok(match options.fail {
        Some(InjectedFault::Status) => overloaded_response(),
        Some(InjectedFault::Html) => html_page(),
        _ => DemoRun::new(DemoScript::new(agent, &input, options), pace).into_response(agent),
    })
}

/// Returns the error of an overloaded model API, as an agent would forward it.
pub(super) fn overloaded_response() -> Response {
    let head = [(header::CONTENT_TYPE, "application/json"), (header::RETRY_AFTER, "7")];
    let body = format!(r#"{{"error":{{"message":"{ERROR_MESSAGE}"}}}}"#);
    (StatusCode::SERVICE_UNAVAILABLE, head, body).into_response()
}

pub(super) fn html_page() -> Response {
    let html = "<!doctype html>\n<html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n";
    let head = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (head, html).into_response()
}

/// The timing of event writes.
enum EventPace {
    /// as soon as the client reads
    Unbounded,
    /// sends the first event immediately, then starts the interval
    Starting(Duration),
    /// at the next tick; catches up after a slow client, so that a load test keeps its rate
    Ticking(Interval),
}

struct DemoRun {
    script: DemoScript,
    pace: EventPace,
}

impl DemoRun {
    fn new(script: DemoScript, pace: Duration) -> Self {
        let pace = if pace.is_zero() { EventPace::Unbounded } else { EventPace::Starting(pace) };
        Self { script, pace }
    }

    fn into_response(self, agent: PeerDialect) -> Response {
        let body = Body::from_stream(unfold(Some(self), |run| async { run?.next_write().await }));
        ([(header::CONTENT_TYPE, agent.dialect.demo_agent.media_type)], body).into_response()
    }

    /// Returns the next write and the rest of the run, which is `None` after a write that breaks the body.
    async fn next_write(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        match self.script.ending() {
            None => {}
            Some(BodyEnding::Clean) => return None,
            Some(BodyEnding::Silent) => return pending().await,
            Some(BodyEnding::Broken) => {
                // hyper flushes its buffer when the body is pending, and discards it when the body fails: without this
                // yield the client would not receive the events before the break.
                tokio::task::yield_now().await;
                return Some((Err(io::ErrorKind::ConnectionReset.into()), None));
            }
        }
        let limit = match &mut self.pace {
            EventPace::Unbounded => BATCH_BYTES,
            EventPace::Starting(every) => {
                self.pace = EventPace::Ticking(interval_at(Instant::now() + *every, *every));
                1
            }
            EventPace::Ticking(interval) => {
                interval.tick().await;
                1
            }
        };
        let now_ms = now_ms();
        let mut frames = String::new();
        while frames.len() < limit
            && let Some(frame) = self.script.next_frame(now_ms)
        {
            frames += &frame;
        }
        Some((Ok(frames.into()), Some(self)))
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI, HAI};
    use axum::body::to_bytes;
    use futures_util::FutureExt;
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };

    async fn post(agent: PeerDialect, pace: Duration, body: &str) -> (StatusCode, String, String) {
        let body = Ok(Bytes::copy_from_slice(body.as_bytes()));
        let response = handle_request(agent, pace, &Method::POST, body).unwrap_or_else(HttpRefusal::into_response);
        let media_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, media_type, String::from_utf8(body.into()).unwrap())
    }

    fn request_with(options: Value) -> String {
        json!({"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"diglot": options}}).to_string()
    }

    #[tokio::test]
    async fn writes_one_frame_per_event() {
        let (status, media_type, body) = post(PeerDialect::new(&AG_UI), Duration::ZERO, r#"{"runId":"r"}"#).await;
        assert_eq!((status, &*media_type), (StatusCode::OK, "text/event-stream"));
        let frames: Vec<_> = body.split_terminator("\n\n").collect();
        assert_eq!(frames.len(), 21);
        assert!(frames.iter().all(|frame| frame.starts_with("data: {") && !frame.contains('\n')));
    }

    /// Uses a pace of one hour, so that only the second event waits.
    #[tokio::test]
    async fn waits_the_pace_between_two_events() {
        let start = || {
            let script = DemoScript::new(PeerDialect::new(&AG_UI), &json!({}), TestOptions::default());
            let run = DemoRun::new(script, Duration::from_secs(3600));
            let (frame, rest) = run.next_write().now_or_never().expect("the first event is sent at once").unwrap();
            assert_eq!(frame.unwrap().iter().filter(|byte| **byte == b'\n').count(), 2);
            rest.unwrap()
        };
        assert!(start().next_write().now_or_never().is_none());

        let mut run = start();
        while run.script.next_frame(0).is_some() {}
        assert!(run.next_write().now_or_never().expect("the end waits for nothing").is_none());
    }

    #[tokio::test]
    async fn delivers_a_long_text_completely() {
        let (_, _, body) = post(PeerDialect::new(&HAI), Duration::ZERO, &request_with(json!({"events": 10_000}))).await;
        assert_eq!(body.matches("data: {").count(), 10_000 + 14);
        assert!(body.contains("\"第10000段 \""));
        assert!(body.contains("RUN_FINISHED"));
    }

    #[tokio::test]
    async fn answers_400_to_a_bad_request() {
        for body in ["", "{", "[]", r#"{"forwardedProps":{"diglot":{"fail":"x"}}}"#] {
            let (status, media_type, body) = post(PeerDialect::new(&AG_UI), Duration::ZERO, body).await;
            assert_eq!((status, &*media_type), (StatusCode::BAD_REQUEST, "application/json"));
            assert!(serde_json::from_str::<Value>(&body).unwrap()["detail"].is_string());
        }
    }

    #[tokio::test]
    async fn answers_the_requested_failure_instead_of_a_stream() {
        let (status, _, body) =
            post(PeerDialect::new(&AG_UI), Duration::ZERO, &request_with(json!({"fail": "status"}))).await;
        assert_eq!((status, &*body), (StatusCode::SERVICE_UNAVAILABLE, r#"{"error":{"message":"model overloaded"}}"#));
        let (status, media_type, _) =
            post(PeerDialect::new(&AG_UI), Duration::ZERO, &request_with(json!({"fail": "html"}))).await;
        assert_eq!((status, &*media_type), (StatusCode::OK, "text/html; charset=utf-8"));
    }

    /// A running agent with an open connection and request.
    struct Peer {
        stream: TcpStream,
        close: oneshot::Sender<()>,
        serving: tokio::task::JoinHandle<io::Result<()>>,
    }

    impl Peer {
        async fn send(method: &str, body: &str) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (close, closed) = oneshot::channel();
            let serving = tokio::spawn(serve(listener, router(PeerDialect::new(&HAI), Duration::ZERO), async {
                drop(closed.await);
            }));
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!(
                "{method} /chat HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            Self { stream, close, serving }
        }

        async fn read_to_end(&mut self) -> String {
            let mut answer = Vec::new();
            self.stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        }
    }

    #[tokio::test]
    async fn answers_405_to_other_methods() {
        let answer = Peer::send("GET", "").await.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.contains("allow: POST\r\n"), "{answer}");
        assert!(answer.ends_with(r#"{"detail":"Method Not Allowed"}"#), "{answer}");
    }

    #[tokio::test]
    async fn ends_a_truncated_body_but_not_a_reset_one() {
        for (fail, ends) in [("truncate", true), ("reset", false)] {
            let answer = Peer::send("POST", &request_with(json!({"fail": fail}))).await.read_to_end().await;
            assert!(answer.contains("好的，"), "{answer}");
            assert!(!answer.contains("RUN_FINISHED"), "{answer}");
            assert_eq!(answer.ends_with("\r\n0\r\n\r\n"), ends, "{answer}");
        }
    }

    /// Relies on the shutdown, which is fast only if the server noticed that the client left.
    #[tokio::test]
    async fn an_idle_run_ends_when_the_client_leaves() {
        let mut peer = Peer::send("POST", &request_with(json!({"idle": true}))).await;
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains("好的，") {
            assert_ne!(peer.stream.read_buf(&mut answer).await.unwrap(), 0);
        }
        drop(peer.stream);
        peer.close.send(()).unwrap();
        timeout(SHUTDOWN_GRACE / 2, peer.serving).await.unwrap().unwrap().unwrap();
    }
}
