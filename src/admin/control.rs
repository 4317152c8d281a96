//! The admin plane: what changes the process. It listens on a Unix socket that this user alone may open, so that whoever gets
//! here may do it all.

use super::orders::{Orders, Wish};
use crate::guard::Current;
use crate::telemetry::log;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

/// Hands the listening sockets to the process that waits for them.
///
/// # Errors
/// Why they cannot be handed over.
pub type HandOver = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the admin plane acts on.
#[derive(Clone)]
pub struct Control {
    /// what is ordered
    pub orders: Orders,
    /// the configuration in effect
    pub printed: Current<String>,
    /// what a successor gets
    pub hand_over: HandOver,
}

/// The routes of the admin plane, beside those of `status`.
pub fn router(control: Control, status: Router) -> Router {
    let own = Router::new()
        .route("/drain", post(drain))
        .route("/reload", post(reload))
        .route("/config", get(config))
        .route("/log-level", get(level).put(set_level).post(set_level))
        .route("/upgrade/sockets", post(sockets))
        .route("/upgrade/done", post(done))
        .with_state(control);
    own.merge(status)
}

async fn drain(State(control): State<Control>) -> (StatusCode, &'static str) {
    control.orders.end(Wish::Drain);
    (StatusCode::ACCEPTED, "draining\n")
}

async fn reload(State(control): State<Control>) -> Response {
    match control.orders.reloaded().await {
        Ok(changes) => format!("{changes}\n").into_response(),
        Err(problems) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{problems}\n")).into_response(),
    }
}

async fn config(State(control): State<Control>) -> String {
    String::clone(&control.printed.get())
}

async fn level() -> String {
    format!("{}\n", log::level())
}

/// The text is what `DIGLOT_LOG` takes; an empty one brings the default back.
async fn set_level(text: String) -> Response {
    match log::set_level(&text) {
        Ok(()) => level().await.into_response(),
        Err(mistake) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{mistake}\n")).into_response(),
    }
}

/// The first step of an upgrade: the successor has the sockets too, and nothing is different yet.
async fn sockets(State(control): State<Control>) -> Response {
    // It waits for the other process.
    let handed = tokio::task::spawn_blocking(move || (control.hand_over)()).await;
    match handed.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => "handed over\n".into_response(),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}

/// The second: the successor serves.
async fn done(State(control): State<Control>) -> (StatusCode, &'static str) {
    control.orders.end(Wish::Retire);
    (StatusCode::ACCEPTED, "retiring\n")
}
