//! Serves a recorded agent over HTTP: each POST gets the recorded stream, at the recorded times.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The way in which the recorded body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayEnding {
    Clean,
    /// the connection broke
    Broken,
    /// the gateway gave up, so the agent waits until it leaves
    Silent,
}

/// The stream of a recorded agent, each piece with its time since the request.
#[derive(Debug)]
pub(crate) struct ReplayScript {
    pub(crate) media_type: &'static str,
    pub(crate) responded_at: Duration,
    pub(crate) pieces: Vec<(Duration, Bytes)>,
    pub(crate) ended_at: Duration,
    pub(crate) ending: ReplayEnding,
}

struct ReplayRun {
    script: Arc<ReplayScript>,
    started_at: Instant,
    sent: usize,
}

/// Answers a POST on every path.
pub(crate) fn replay_router(script: ReplayScript) -> Router {
    let script = Arc::new(script);
    Router::new().fallback(move |method: Method| {
        let script = Arc::clone(&script);
        async move {
            if method != Method::POST {
                return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
            }
            respond(script).await
        }
    })
}

/// Answers one request.
pub(super) async fn respond(script: Arc<ReplayScript>) -> Response {
    ReplayRun { script, started_at: Instant::now(), sent: 0 }.respond().await
}

impl ReplayRun {
    async fn respond(self) -> Response {
        sleep_until(self.started_at + self.script.responded_at).await;
        let head = [(header::CONTENT_TYPE, self.script.media_type)];
        (head, Body::from_stream(unfold(Some(self), |run| async { run?.next_write().await }))).into_response()
    }

    /// Returns the next piece and the rest of the run, which is `None` after a write that breaks the body.
    async fn next_write(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        if let Some((at, piece)) = self.script.pieces.get(self.sent) {
            sleep_until(self.started_at + *at).await;
            let piece = piece.clone();
            self.sent += 1;
            return Some((Ok(piece), Some(self)));
        }
        sleep_until(self.started_at + self.script.ended_at).await;
        match self.script.ending {
            ReplayEnding::Clean => None,
            ReplayEnding::Silent => pending().await,
            ReplayEnding::Broken => {
                // hyper discards its buffer when the body fails, and flushes it when the body is pending.
                tokio::task::yield_now().await;
                Some((Err(io::ErrorKind::ConnectionReset.into()), None))
            }
        }
    }
}
