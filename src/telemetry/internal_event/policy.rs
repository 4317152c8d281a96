//! Log events about secret files, Redis and issuer keys.

use super::sanitize;
use crate::net::file_watcher::WatchError;
use crate::net::redis_client::RedisLinkChange;
use std::path::{Path, PathBuf};

/// Logs that key or secret files were reloaded, or why the previous content stays in use.
pub(crate) fn report_watched_files(paths: &[PathBuf], result: Result<(), WatchError>) {
    match result {
        Ok(()) => paths.iter().for_each(|path| tracing::info!(path = %path.display(), "file read again")),
        Err(cause) => {
            let path = paths.first().map_or(Path::new(""), PathBuf::as_path);
            let cause = sanitize(&cause.to_string());
            tracing::error!(path = %path.display(), cause, "file cannot be used; the last good content stays");
        }
    }
}

/// Logs that Redis became available or unavailable. `redis` is the URL without the password.
pub(crate) fn report_redis_link(redis: &str, change: RedisLinkChange) {
    match change {
        RedisLinkChange::Connected => tracing::info!(redis, "redis answers"),
        RedisLinkChange::Lost { cause } => tracing::warn!(redis, cause = sanitize(&cause), "redis does not answer"),
    }
}

log_events! {
    /// An issuer's keys were fetched for the first time, or again after a failure.
    info IssuerKeysFetched<'a> {
        issuer: &'a str,
        keys: usize,
    } (issuer, keys) "keys of the issuer fetched";

    /// An issuer's keys cannot be fetched. Logged once per outage.
    warn IssuerKeysFetchFailed<'a> {
        issuer: &'a str,
        cause: &'a str,
        /// whether previously fetched keys are still in use
        stale: bool,
    } (issuer, cause = sanitize(cause), stale) "keys of the issuer cannot be fetched";

    /// Values that a dialect file keeps for the next runs of a thread are too long, so the next run begins without.
    warn ThreadValuesTooLong<'a> {
        route: &'a str,
        limit: usize,
    } (route, limit) "the values that the dialect file keeps for this thread exceed the limit, so its next run begins without them; keep only ids";

    /// Some of an issuer's keys cannot be used. Logged once per set of unusable keys.
    warn IssuerKeysIgnored<'a> {
        issuer: &'a str,
        ignored: &'a str,
    } (issuer, ignored = sanitize(ignored)) "keys of the issuer ignored";
}
