//! Explains requests and checks the configuration file, as `diglot explain-route` and `diglot check` do, for the
//! inspector's page.

use crate::config::load::{self, LoadedConfig};
use crate::config::{Config, ConfigProblem, ConfigProblems};
use crate::net::SwapCell;
use crate::policy::{self, RequestPolicy};
use crate::proxy::explanation::RouteExplanation;
use crate::proxy::{Cluster, Gateway};
use crate::telemetry::Metrics;
use axum::extract::{Query, State};
use axum::http::{Request, StatusCode, header};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct ConfigCheckState {
    pub(crate) gateway: SwapCell<Gateway>,
    /// absent if the configuration came from no file, as that of the demo
    pub(crate) file: Option<Arc<Path>>,
}

/// A request without headers and body.
#[derive(Debug, Deserialize)]
struct ExplainQuery {
    method: String,
    path: String,
}

#[derive(Debug, Serialize)]
struct CheckVerdict {
    file: Option<String>,
    problems: Vec<ConfigProblem>,
}

pub(super) fn router(state: ConfigCheckState) -> Router {
    Router::new().route("/inspect/v1/explain", get(explain)).route("/inspect/v1/check", get(check)).with_state(state)
}

/// Explains what the gateway does with a request now, and sends nothing.
async fn explain(
    State(state): State<ConfigCheckState>,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<RouteExplanation>, (StatusCode, String)> {
    let head = Request::builder().method(query.method.as_str()).uri(&query.path).header(header::HOST, "localhost");
    let head = head.body(()).map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")))?;
    Ok(Json(state.gateway.load().explain(head.into_parts().0, None)))
}

/// Checks the file as it is now, which may differ from the configuration in use.
async fn check(State(state): State<ConfigCheckState>) -> Json<CheckVerdict> {
    let Some(file) = state.file else { return Json(CheckVerdict { file: None, problems: Vec::new() }) };
    let name = file.display().to_string();
    let checked = tokio::task::spawn_blocking(move || check_config(&file, load::read_source(&file)).0);
    let problems =
        checked.await.unwrap_or_else(|error| vec![ConfigProblem::for_path(Path::new(&name), error.to_string())]);
    Json(CheckVerdict { file: Some(name), problems })
}

/// Returns the problems of a file that was read, and the configuration if `serve` could start with it.
pub(crate) fn check_config(file: &Path, read: Result<Vec<u8>, ConfigProblems>) -> (Vec<ConfigProblem>, Option<Config>) {
    match read.and_then(|bytes| load::load_bytes(file, &bytes, policy::auth::check_key_file)) {
        Ok(LoadedConfig { config, warnings, .. }) => match check_startable(&config) {
            Ok(()) => (warnings, Some(config)),
            Err(why) => (vec![ConfigProblem::for_path(file, why)], None),
        },
        Err(problems) => (problems.as_slice().to_vec(), None),
    }
}

/// Runs the startup checks of `serve` that parsing the configuration does not cover.
fn check_startable(config: &Config) -> Result<(), String> {
    let metrics = Arc::new(Metrics::new().map_err(|error| error.to_string())?);
    RequestPolicy::new(config, &metrics).map_err(|error| error.to_string())?;
    let connector = Arc::default();
    config.routes.iter().try_for_each(|route| Cluster::new(route, &connector, &metrics).map(drop))
}
