//! `/livez`, `/readyz` and `/metrics`.

use crate::proxy::{Lifecycle, Phase};
use crate::telemetry::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

/// Content type of the text exposition format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone)]
struct Status {
    metrics: Arc<Metrics>,
    lifecycle: Lifecycle,
}

/// The routes of the status plane.
pub fn router(metrics: Arc<Metrics>, lifecycle: Lifecycle) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(expose))
        .with_state(Status { metrics, lifecycle })
}

/// Ready while runs are taken.
async fn ready(State(status): State<Status>) -> Response {
    match status.lifecycle.phase() {
        Phase::Serving => "ok\n".into_response(),
        Phase::Draining | Phase::Cut => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

async fn expose(State(status): State<Status>) -> Response {
    ([(header::CONTENT_TYPE, EXPOSITION)], status.metrics.render()).into_response()
}
