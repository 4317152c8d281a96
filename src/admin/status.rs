//! `/livez`, `/readyz`, `/metrics` and `/drain/wait`.

use super::socket::send_request;
use crate::net::SwapCell;
use crate::policy::RequestPolicy;
use crate::proxy::{Cluster, Lifecycle, LifecyclePhase};
use crate::telemetry::Metrics;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Content type of the Prometheus text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer of `/readyz` while the process shuts down.
const DRAINING: &str = "draining\n";

#[derive(Clone)]
struct StatusState {
    metrics: Arc<Metrics>,
    lifecycle: Lifecycle,
    policy: SwapCell<RequestPolicy>,
    clusters: SwapCell<Vec<Arc<Cluster>>>,
}

pub(crate) fn router(
    metrics: Arc<Metrics>,
    lifecycle: Lifecycle,
    policy: SwapCell<RequestPolicy>,
    clusters: SwapCell<Vec<Arc<Cluster>>>,
) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(expose_metrics))
        .route("/drain/wait", get(wait_for_drain))
        .with_state(StatusState { metrics, lifecycle, policy, clusters })
}

/// Returns 200 while runs are accepted and every route can authenticate callers. Unavailable agents are ignored: after
/// a 503, clients could not even get an error that names the agent, and no run would detect its recovery.
async fn readyz(State(status): State<StatusState>, RawQuery(query): RawQuery) -> Response {
    let draining = status.lifecycle.phase() != LifecyclePhase::Serving;
    let policy = status.policy.load();
    let unusable = policy.auth.routes_without_keys();
    let (code, summary) = match (draining, unusable.is_empty()) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, DRAINING),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "a route has no keys yet; see /readyz?verbose\n"),
        (false, true) => (StatusCode::OK, "ok\n"),
    };
    if !query.is_some_and(|query| query.split('&').any(|one| one.split('=').next() == Some("verbose"))) {
        return (code, summary).into_response();
    }
    let mut report = String::new();
    let mut line = |good: bool, text: &str| {
        let sign = if good { '+' } else { '-' };
        // A cause may contain an issuer's text, which must not start a new line.
        let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        // Writing to a string never fails.
        let _ = writeln!(report, "[{sign}] {text}");
    };
    line(!draining, if draining { "runs draining" } else { "runs ok" });
    policy.auth.readiness_checks().iter().for_each(|check| line(check.good, &check.text));
    unusable.iter().for_each(|route| line(false, &format!("route {route} has no keys yet")));
    policy.redis().map(|redis| redis.status_report()).iter().for_each(|(good, text)| line(*good, text));
    let mut upstreams: Vec<_> = status.clusters.load().iter().flat_map(|cluster| cluster.report()).collect();
    upstreams.sort_by(|(_, one), (_, other)| one.cmp(other));
    upstreams.iter().for_each(|(good, text)| line(*good, text));
    report.push_str(if code == StatusCode::OK { "ready\n" } else { "not ready\n" });
    (code, report).into_response()
}

/// Returns whether the process that responds on the socket in `run_dir` is shutting down.
pub(crate) fn is_draining(run_dir: &Path) -> bool {
    let answer = send_request(run_dir, "GET", "/readyz", Some(Duration::from_secs(5)));
    answer.is_ok_and(|answer| answer.body.starts_with(DRAINING))
}

/// Responds once draining has begun and no run is open. The pre-stop hook of an agent waits for this.
async fn wait_for_drain(State(status): State<StatusState>) -> String {
    status.lifecycle.wait_drained().await;
    match status.lifecycle.cut_runs() {
        0 => "drained\n".to_owned(),
        cut => format!("drained; runs that were still open and ended with an error: {cut}\n"),
    }
}

async fn expose_metrics(State(status): State<StatusState>) -> Response {
    status.policy.load().limits.update_gauges();
    ([(header::CONTENT_TYPE, EXPOSITION)], status.metrics.render()).into_response()
}
