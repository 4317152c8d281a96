//! The capture modes of the routes of the running gateway, for `inspect`, `tap` and `record`.

use super::local_gateway;
use super::output::{CliExit, CliFailure};
use crate::admin;
use crate::inspect::matches_glob;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const MODE_PATH: &str = "/inspect/v1/mode";

/// The routes of the running gateway.
#[derive(Debug, Deserialize)]
pub(super) struct CaptureModes {
    pub(super) routes: Vec<RouteCapture>,
    pub(super) used_bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RouteCapture {
    pub(super) route: String,
    pub(super) configured: String,
    pub(super) mode: String,
    /// since the epoch
    pub(super) until_ms: Option<u64>,
}

impl RouteCapture {
    pub(super) fn is_captured(&self) -> bool {
        self.mode != "off"
    }
}

/// Returns the routes that match the pattern; fails if there are none.
pub(super) async fn fetch_modes(run_dir: &Path, routes: &str) -> Result<CaptureModes, CliFailure> {
    let modes = request_modes(run_dir, Method::GET, String::new()).await?;
    select_routes(modes, routes)
}

/// Sets the mode of the routes that match the pattern; `None` captures them as configured.
pub(super) async fn set_mode(
    run_dir: &Path,
    routes: &str,
    mode: Option<&str>,
    time: Duration,
) -> Result<CaptureModes, CliFailure> {
    let seconds = time.as_secs().max(1);
    let change = json!({"route": routes, "mode": mode, "seconds": seconds}).to_string();
    let modes = request_modes(run_dir, Method::PUT, change).await?;
    select_routes(modes, routes)
}

async fn request_modes(run_dir: &Path, method: Method, json: String) -> Result<CaptureModes, CliFailure> {
    let answer = admin::request(run_dir, method, MODE_PATH, json).await;
    let answer = answer.map_err(|error| local_gateway::connection_failure(run_dir, &error))?;
    match (answer.status, serde_json::from_str(&answer.body)) {
        (200, Ok(modes)) => Ok(modes),
        (200, Err(error)) => {
            Err(CliExit::Unavailable.failure(format_args!("the gateway's answer is not known: {error}")))
        }
        _ => Err(CliExit::Problems.failure(answer.body.trim_end())),
    }
}

fn select_routes(mut modes: CaptureModes, routes: &str) -> Result<CaptureModes, CliFailure> {
    let names: Vec<_> = modes.routes.iter().map(|one| one.route.clone()).collect();
    modes.routes.retain(|one| matches_glob(routes, &one.route));
    if modes.routes.is_empty() {
        let text = format!("no route matches {routes:?}; the routes are {}", names.join(", "));
        return Err(CliExit::Problems.failure(text));
    }
    Ok(modes)
}
