//! Checks the limits of the replay log.

use crate::config::checker::{ConfigChecker, Place};
use crate::config::file::ReplaySpec;
use crate::config::replay::ReplayStoreKind;
use crate::config::section::{CrossCheck, KeysOf};

impl CrossCheck for ReplaySpec {
    fn cross_check(&self, keys: &mut KeysOf<ReplaySpec>, checker: &mut ConfigChecker<'_>, at: &Place) {
        if keys.store == Some(ReplayStoreKind::Redis) && !checker.has_redis {
            let hint =
                "add `redis: {url: \"redis://127.0.0.1:6379/0\"}`, or remove `store` to keep runs in each replica";
            let message = "replicas share runs through Redis, but `redis` is not configured";
            checker.report_error(&at.value_of("store", &self.store), message, hint);
        }
        let (Some(bytes), Some(run_bytes)) = (keys.bytes, keys.run_bytes) else { return };
        if run_bytes <= bytes || checker.is_skipped("replay.bytes") || checker.is_skipped("replay.run_bytes") {
            return;
        }
        // Points at an explicit value, because a default has no position.
        let run = at.value_of("run_bytes", &self.run_bytes);
        let place = if run.position().is_some() { run } else { at.value_of("bytes", &self.bytes) };
        let message = "the limit of one run exceeds the limit of all runs together";
        checker.report_error(&place, message, "make `bytes` larger, or `run_bytes` smaller");
    }
}
