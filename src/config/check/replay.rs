//! Runs that outlive their clients: how long, and where they are found.

use super::paths::RouteIdentifiers;
use super::{ConfigChecker, LocatedValue, position};
use crate::config::replay::{OnDisconnect, ReplayConfig, ReplayStoreKind};
use crate::config::{PathTemplate, enum_values, file, scalar};

impl ConfigChecker<'_> {
    pub(super) fn check_replay(&mut self, written: &file::ReplaySpec, has_redis: bool) -> Option<ReplayConfig> {
        let runs = self.read_value(&written.runs, "replay.runs", scalar::parse_count);
        let bytes = self.read_value(&written.bytes, "replay.bytes", scalar::parse_size);
        let run_bytes = self.read_value(&written.run_bytes, "replay.run_bytes", scalar::parse_size);
        let age = self.read_value(&written.age, "replay.age", scalar::parse_duration);
        let store = self.read_choice(&written.store, "replay.store", enum_values::STORE);
        if store == Some(ReplayStoreKind::Redis) && !has_redis {
            let hint =
                "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or remove `store` to keep runs in each replica";
            let message = "replicas share runs through Redis, but `redis` is not configured";
            self.report_error("replay.store", position(written.store.defined), message, hint);
        }
        let (bytes, run_bytes) = (bytes?, run_bytes?);
        let is_known = !self.is_skipped("replay.bytes") && !self.is_skipped("replay.run_bytes");
        if run_bytes > bytes && is_known {
            // Of a default and what was written, only the written one can be changed.
            let (key, text) = match position(written.run_bytes.defined) {
                Some(_) => ("run_bytes", &written.run_bytes),
                None => ("bytes", &written.bytes),
            };
            let message = "the limit of one run exceeds the limit of all runs together";
            let hint = "make `bytes` larger, or `run_bytes` smaller";
            self.report_error(&format!("replay.{key}"), position(text.defined), message, hint);
        }
        Some(ReplayConfig { runs: runs?, bytes, run_bytes, age: age?, store: store? })
    }

    /// Checks the policy for a run without clients. If it continues, it is served below the route's path, which no other
    /// route may have.
    pub(super) fn check_on_disconnect(
        &mut self,
        route: &file::RouteSpec,
        path: Option<&LocatedValue<String>>,
        at: &str,
        labels: &mut RouteIdentifiers,
    ) -> Option<OnDisconnect> {
        let at = format!("{at}.on_disconnect");
        let chosen = self.read_value(&route.on_disconnect, &at, scalar::parse_on_disconnect)?;
        if let (OnDisconnect::Continue(_), Some(path)) = (chosen, path) {
            let place = route.on_disconnect.referenced;
            labels.runs.push(LocatedValue::new(PathTemplate::for_runs(&path.value), &at, place));
        }
        Some(chosen)
    }
}
