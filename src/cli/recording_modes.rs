//! The capture modes that `record` sets, and what they were.

use super::local_gateway::connection_failure;
use super::output::{CliExit, CliFailure};
use crate::admin;
use crate::inspect::matches_glob;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time after which a mode ends if the recorder does not set it again.
const MODE_SECONDS: u64 = 60;

/// The modes, from the least that is captured to the most.
const MODES: [&str; 3] = ["off", "events", "full"];

const MODE_PATH: &str = "/inspect/v1/mode";

pub(super) struct RecordingModes<'a> {
    run_dir: &'a Path,
    routes: &'a str,
    mode: &'static str,
    /// routes whose mode was set, and what somebody else had set there
    changed: BTreeMap<String, Option<EarlierMode>>,
}

struct EarlierMode {
    mode: String,
    /// since the epoch
    until: Duration,
}

#[derive(Debug, Deserialize)]
struct ModeList {
    routes: Vec<RouteMode>,
}

#[derive(Debug, Deserialize)]
struct RouteMode {
    route: String,
    configured: String,
    mode: String,
    until_ms: Option<u64>,
}

impl<'a> RecordingModes<'a> {
    pub(super) fn new(run_dir: &'a Path, routes: &'a str, full: bool) -> RecordingModes<'a> {
        RecordingModes { run_dir, routes, mode: if full { "full" } else { "events" }, changed: BTreeMap::new() }
    }

    /// Switches capture on where less is captured, or for another minute.
    pub(super) async fn set(&mut self) -> Result<(), CliFailure> {
        let list: ModeList =
            serde_json::from_str(&self.request(Method::GET, String::new()).await?).map_err(|error| {
                CliExit::Unavailable.failure(format_args!("the gateway's modes cannot be read: {error}"))
            })?;
        let names: Vec<&str> = list.routes.iter().map(|route| route.route.as_str()).collect();
        if !names.iter().any(|name| matches_glob(self.routes, name)) {
            return Err(CliExit::Usage.failure(format_args!(
                "no route matches `{}`; the routes are {}",
                self.routes,
                names.join(", ")
            )));
        }
        for route in list.routes.into_iter().filter(|route| matches_glob(self.routes, &route.route)) {
            let is_enough = rank(&route.mode) >= rank(self.mode);
            if !self.changed.contains_key(&route.route) {
                if is_enough && rank(&route.configured) >= rank(self.mode) {
                    continue;
                }
                let until = route.until_ms.map(Duration::from_millis);
                let earlier = until.map(|until| EarlierMode { mode: route.mode.clone(), until });
                self.changed.insert(route.route.clone(), earlier);
            }
            // What somebody else has set meanwhile is not lowered.
            let mode = if is_enough { route.mode.as_str() } else { self.mode };
            let change = json!({"route": route.route, "mode": mode, "seconds": MODE_SECONDS});
            self.request(Method::PUT, change.to_string()).await?;
        }
        Ok(())
    }

    /// Sets everything back.
    pub(super) async fn restore(&mut self) -> Result<(), CliFailure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (route, earlier) in std::mem::take(&mut self.changed) {
            let change = match earlier.filter(|earlier| earlier.until > now) {
                Some(earlier) => {
                    json!({"route": route, "mode": earlier.mode, "seconds": (earlier.until - now).as_secs().max(1)})
                }
                None => json!({"route": route, "mode": null}),
            };
            self.request(Method::PUT, change.to_string()).await?;
        }
        Ok(())
    }

    async fn request(&self, method: Method, json: String) -> Result<String, CliFailure> {
        let answer = admin::request(self.run_dir, method, MODE_PATH, json).await;
        let answer = answer.map_err(|error| connection_failure(self.run_dir, &error))?;
        if answer.status == 200 { Ok(answer.body) } else { Err(CliExit::Unavailable.failure(answer.body.trim_end())) }
    }
}

fn rank(mode: &str) -> Option<usize> {
    MODES.iter().position(|known| *known == mode)
}
