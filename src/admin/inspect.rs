//! The inspector's part of the admin plane: runs, their rows, and which runs are captured. Streams are NDJSON.

mod api_types;
mod streams;

use self::api_types::{ModeChange, RouteModes, RunDetail};
use crate::config::Config;
use crate::config::enum_values::{INSPECT, name_of};
use crate::inspect::{CaptureStore, CapturedRun, MissingRun, ModeOverride, matches_glob};
use crate::net::SwapCell;
use crate::telemetry::internal_event;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Media type of one JSON value per line.
const NDJSON: &str = "application/x-ndjson";

/// Longest time for which an operator can set a mode: a day.
const MAX_OVERRIDE_SECONDS: u64 = 86_400;

#[derive(Clone)]
pub(crate) struct InspectState {
    pub(crate) captures: Arc<CaptureStore>,
    pub(crate) config: SwapCell<Config>,
    pub(crate) effective_config: SwapCell<String>,
    /// absent if the configuration came from no file, as that of the demo
    pub(crate) config_file: Option<Arc<FilePath>>,
    /// address of the page with its token, if it has a listener
    pub(crate) url: Option<Arc<str>>,
}

#[derive(Debug, Deserialize)]
struct StreamQuery {
    /// `1` continues with what happens later
    #[serde(default)]
    follow: u8,
    /// name of the routes, in which `*` stands for any characters
    route: Option<String>,
    /// id of the run after which a tap begins, in place of the last one
    after: Option<u64>,
    /// the only run of a tap, by its number or by the id of its request
    run: Option<String>,
}

pub(crate) fn router(state: InspectState) -> Router {
    Router::new()
        .route("/inspect/v1/runs", get(stream_runs))
        .route("/inspect/v1/runs/{id}", get(show_run))
        .route("/inspect/v1/runs/{id}/rows", get(stream_rows))
        .route("/inspect/v1/runs/{id}/reading", get(stream_reading))
        .route("/inspect/v1/runs/{id}/recording", get(download_recording))
        .route("/inspect/v1/tap", get(tap))
        .route("/config", get(show_config))
        .route("/inspect/v1/mode", get(show_modes).put(set_mode))
        .with_state(state)
}

fn ndjson(body: Body) -> Response {
    ([(header::CONTENT_TYPE, NDJSON), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

async fn stream_runs(State(state): State<InspectState>, Query(query): Query<StreamQuery>) -> Response {
    ndjson(Body::from_stream(streams::runs(state.captures, query.follow == 1)))
}

async fn show_run(State(state): State<InspectState>, Path(id): Path<u64>) -> Response {
    let Some(run) = state.captures.find(id) else { return unknown_run(&state.captures, id) };
    audit("run", &run);
    Json(RunDetail::new(&run)).into_response()
}

async fn stream_rows(
    State(state): State<InspectState>,
    Path(id): Path<u64>,
    Query(query): Query<StreamQuery>,
) -> Response {
    let Some(run) = state.captures.find(id) else { return unknown_run(&state.captures, id) };
    audit("rows", &run);
    ndjson(Body::from_stream(streams::rows(state.captures, &run, query.follow == 1)))
}

async fn stream_reading(State(state): State<InspectState>, Path(id): Path<u64>) -> Response {
    let Some(run) = state.captures.find(id) else { return unknown_run(&state.captures, id) };
    audit("reading", &run);
    ndjson(Body::from_stream(streams::reading(&run)))
}

async fn download_recording(State(state): State<InspectState>, Path(id): Path<u64>) -> Response {
    let Some(run) = state.captures.find(id) else { return unknown_run(&state.captures, id) };
    audit("recording", &run);
    let mut response = ndjson(Body::from_stream(streams::recording(state.captures, &run)));
    // Names of routes may have any characters; those that every file system has are kept.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let route: String = run.head.route.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{route}-{id}.ndjson\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    response
}

async fn tap(State(state): State<InspectState>, Query(query): Query<StreamQuery>) -> Response {
    let route = query.route.unwrap_or_else(|| "*".to_owned());
    internal_event::RunsTapped { routes: &route }.emit();
    let follow = query.follow == 1;
    let place = state.captures.add_tap(route, query.run, if follow { query.after } else { Some(0) });
    ndjson(Body::from_stream(streams::tap(state.captures, place, follow)))
}

async fn show_modes(State(state): State<InspectState>) -> Json<RouteModes> {
    Json(RouteModes::new(&state.config.load(), &state.captures))
}

async fn set_mode(State(state): State<InspectState>, Json(change): Json<ModeChange>) -> Response {
    let config = state.config.load();
    if !config.routes.iter().any(|route| matches_glob(&change.route, &route.name)) {
        let names: Vec<&str> = config.routes.iter().map(|route| route.name.as_str()).collect();
        let text = format!("no route matches {:?}; the routes are {}\n", change.route, names.join(", "));
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let seconds = change.seconds.min(MAX_OVERRIDE_SECONDS);
    let until = Instant::now() + Duration::from_secs(seconds);
    internal_event::CaptureModeSet {
        routes: &change.route,
        mode: change.mode.map(|mode| name_of(INSPECT, &mode)),
        seconds,
    }
    .emit();
    let set = change.mode.map(|mode| ModeOverride { route: change.route.clone(), mode, until });
    state.captures.set_override(&change.route, set);
    Json(RouteModes::new(&config, &state.captures)).into_response()
}

/// Shows the effective configuration, with masked secrets.
async fn show_config(State(state): State<InspectState>) -> String {
    String::clone(&state.effective_config.load())
}

/// Shows the address of the page. Only for the Unix socket, since it contains the token.
pub(super) async fn show_url(State(state): State<InspectState>) -> (StatusCode, String) {
    match &state.url {
        Some(url) => (StatusCode::OK, format!("{url}\n")),
        None => (StatusCode::NOT_FOUND, "the inspector has no listener; set `listeners.inspector`\n".to_owned()),
    }
}

/// Answers 410 for a run that was evicted, and 404 for one that never was.
fn unknown_run(captures: &CaptureStore, id: u64) -> Response {
    let (status, detail) = match captures.explain_missing(id) {
        MissingRun::Evicted(Some(bound)) => {
            (StatusCode::GONE, format!("run #{id} is not kept any more: it was evicted because of `{bound}`"))
        }
        MissingRun::Evicted(None) => (StatusCode::GONE, format!("run #{id} is not kept any more: it was evicted")),
        MissingRun::NotYet(0) => (StatusCode::NOT_FOUND, "no run has been captured yet".to_owned()),
        MissingRun::NotYet(last) => (StatusCode::NOT_FOUND, format!("no run has the number {id}: the last is #{last}")),
    };
    (status, Json(json!({"detail": detail}))).into_response()
}

fn audit(what: &'static str, run: &CapturedRun) {
    internal_event::RunInspected { what, route: &run.head.route, request_id: &run.head.request_id }.emit();
}
