//! Runs that outlive their clients: how long, and where they are found.

use super::paths::Labels;
use super::{Check, Seen, position};
use crate::config::replay::{Keeper, OnDisconnect, Replay};
use crate::config::{Template, file, scalar, words};

impl Check<'_> {
    pub(super) fn replay(&mut self, written: &file::Replay, has_redis: bool) -> Option<Replay> {
        let runs = self.value(&written.runs, "replay.runs", scalar::count);
        let bytes = self.value(&written.bytes, "replay.bytes", scalar::size);
        let run_bytes = self.value(&written.run_bytes, "replay.run_bytes", scalar::size);
        let age = self.value(&written.age, "replay.age", scalar::duration);
        let store = self.choice(&written.store, "replay.store", words::STORE);
        if store == Some(Keeper::Redis) && !has_redis {
            let hint = "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or let each replica keep its own";
            let message = "replicas share runs in `redis`, and there is none";
            self.note("replay.store", position(written.store.defined), message, hint);
        }
        let (bytes, run_bytes) = (bytes?, run_bytes?);
        let is_known = !self.is_lost("replay.bytes") && !self.is_lost("replay.run_bytes");
        if run_bytes > bytes && is_known {
            // Of a default and what was written, only the written one can be changed.
            let (key, text) = match position(written.run_bytes.defined) {
                Some(_) => ("run_bytes", &written.run_bytes),
                None => ("bytes", &written.bytes),
            };
            let message = "one run may take more than all of them together";
            let hint = "make `bytes` larger, or `run_bytes` smaller";
            self.note(&format!("replay.{key}"), position(text.defined), message, hint);
        }
        Some(Replay { runs: runs?, bytes, run_bytes, age: age?, store: store? })
    }

    /// What becomes of a run that nobody listens to. Where it goes on it is found below the route's path, which no other
    /// route may have.
    pub(super) fn on_disconnect(
        &mut self,
        route: &file::Route,
        path: Option<&Seen<String>>,
        at: &str,
        labels: &mut Labels,
    ) -> Option<OnDisconnect> {
        let at = format!("{at}.on_disconnect");
        let chosen = self.value(&route.on_disconnect, &at, scalar::on_disconnect)?;
        if let (OnDisconnect::Continue(_), Some(path)) = (chosen, path) {
            let place = route.on_disconnect.referenced;
            labels.runs.push(Seen::new(Template::of_runs(&path.value), &at, place));
        }
        Some(chosen)
    }
}
