//! Routes of the admin plane, which change the process. They need no authorisation, since only the user that runs the
//! gateway may open the Unix socket.

use super::commands::{ProcessHandle, ShutdownCommand};
use super::inspect::{self, InspectState};
use crate::telemetry::log;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use std::sync::Arc;

pub(crate) type HandOverFn = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) process: ProcessHandle,
    pub(crate) hand_over: HandOverFn,
    pub(crate) inspect: InspectState,
}

pub(crate) fn router(control: AdminState, status: Router) -> Router {
    let inspect = inspect::router(control.inspect.clone())
        .merge(Router::new().route("/inspect/v1/url", get(inspect::show_url)).with_state(control.inspect.clone()));
    let own = Router::new()
        .route("/drain", post(drain))
        .route("/reload", post(reload))
        .route("/log-level", get(log_level).put(set_log_level).post(set_log_level))
        .route("/upgrade/sockets", post(hand_over_sockets))
        .route("/upgrade/done", post(finish_takeover))
        .with_state(control);
    own.merge(inspect).merge(status)
}

async fn drain(State(control): State<AdminState>) -> (StatusCode, &'static str) {
    control.process.shut_down(ShutdownCommand::Drain);
    (StatusCode::ACCEPTED, "draining\n")
}

fn respond(result: Result<String, String>, failure: StatusCode) -> (StatusCode, String) {
    match result {
        Ok(text) => (StatusCode::OK, format!("{text}\n")),
        Err(text) => (failure, format!("{text}\n")),
    }
}

async fn reload(State(control): State<AdminState>) -> (StatusCode, String) {
    let reloaded = control.process.reload_and_wait().await;
    let note = if control.process.is_shutting_down() { SHUTTING_DOWN } else { "" };
    respond(reloaded.map(|text| text + note), StatusCode::UNPROCESSABLE_ENTITY)
}

/// Follows the result of a reload: the next process does not have it from this one.
const SHUTTING_DOWN: &str = "; this gateway is shutting down: the next one reads the file when it starts";

async fn log_level() -> String {
    format!("{}\n", log::level())
}

/// Sets the log filter, with the syntax of `DIGLOT_LOG`; an empty body restores the default.
async fn set_log_level(text: String) -> (StatusCode, String) {
    let level = log::set_level(&text).map(|()| log::level()).map_err(|error| error.to_string());
    respond(level, StatusCode::UNPROCESSABLE_ENTITY)
}

/// Sends the sockets to the new process; this one keeps serving.
async fn hand_over_sockets(State(control): State<AdminState>) -> (StatusCode, String) {
    // Blocks until the other process receives them.
    let sent = tokio::task::spawn_blocking(move || (control.hand_over)()).await;
    let sent = sent.unwrap_or_else(|error| Err(error.to_string()));
    respond(sent.map(|()| "handed over".to_owned()), StatusCode::CONFLICT)
}

/// Starts draining, since the new process accepts requests.
async fn finish_takeover(State(control): State<AdminState>) -> (StatusCode, &'static str) {
    control.process.shut_down(ShutdownCommand::Retire);
    (StatusCode::ACCEPTED, "retiring\n")
}
