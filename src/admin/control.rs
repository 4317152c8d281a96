//! Routes of the admin plane, which change the process. Only this user may open its Unix socket, so there is no further
//! authorisation.

use super::commands::{AdminCommand, ProcessHandle};
use crate::net::SwapCell;
use crate::telemetry::log;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

/// Hands the listening sockets to the process that waits for them, or returns the cause of the failure.
pub(crate) type HandOverFn = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) process: ProcessHandle,
    pub(crate) effective_config: SwapCell<String>,
    pub(crate) hand_over: HandOverFn,
}

/// Returns the routes of the admin plane, including those of `status`.
pub(crate) fn router(control: AdminState, status: Router) -> Router {
    let own = Router::new()
        .route("/drain", post(drain))
        .route("/reload", post(reload))
        .route("/config", get(show_config))
        .route("/log-level", get(log_level).put(set_log_level).post(set_log_level))
        .route("/upgrade/sockets", post(hand_over_sockets))
        .route("/upgrade/done", post(finish_takeover))
        .with_state(control);
    own.merge(status)
}

async fn drain(State(control): State<AdminState>) -> (StatusCode, &'static str) {
    control.process.shut_down(AdminCommand::Drain);
    (StatusCode::ACCEPTED, "draining\n")
}

async fn reload(State(control): State<AdminState>) -> Response {
    match control.process.reload_and_wait().await {
        Ok(changes) => format!("{changes}\n").into_response(),
        Err(problems) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{problems}\n")).into_response(),
    }
}

async fn show_config(State(control): State<AdminState>) -> String {
    String::clone(&control.effective_config.load())
}

async fn log_level() -> String {
    format!("{}\n", log::level())
}

/// Accepts the syntax of `DIGLOT_LOG`; an empty text restores the default.
async fn set_log_level(text: String) -> Response {
    match log::set_level(&text) {
        Ok(()) => log_level().await.into_response(),
        Err(mistake) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{mistake}\n")).into_response(),
    }
}

/// First step of an upgrade: sends the sockets to the successor. This process serves as before.
async fn hand_over_sockets(State(control): State<AdminState>) -> Response {
    // Blocks until the other process has received them.
    let handed = tokio::task::spawn_blocking(move || (control.hand_over)()).await;
    match handed.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => "handed over\n".into_response(),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}

/// Second step: the successor serves.
async fn finish_takeover(State(control): State<AdminState>) -> (StatusCode, &'static str) {
    control.process.shut_down(AdminCommand::Retire);
    (StatusCode::ACCEPTED, "retiring\n")
}
