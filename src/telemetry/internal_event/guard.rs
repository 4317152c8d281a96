//! Log events about secret files, Redis and the keys of issuers.

use super::sanitize;
use crate::net::file_watcher::WatchError;
use crate::net::redis_client::RedisLinkChange;
use std::path::{Path, PathBuf};

/// Logs that files of keys or secrets were read again, or why their previous content stays in use.
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

/// Logs that Redis became available or unavailable. `redis` is its URL without the password.
pub(crate) fn report_redis_link(redis: &str, change: RedisLinkChange) {
    match change {
        RedisLinkChange::Connected => tracing::info!(redis, "redis answers"),
        RedisLinkChange::Lost { cause } => tracing::warn!(redis, cause = sanitize(&cause), "redis does not answer"),
    }
}

log_events! {
    /// The keys of an issuer were fetched for the first time, or again after a failure.
    info IssuerKeysFetched<'a> {
        issuer: &'a str,
        keys: usize,
    } (issuer, keys) "keys of the issuer fetched";

    /// The keys of an issuer cannot be fetched. Logged once per outage.
    warn IssuerKeysFetchFailed<'a> {
        issuer: &'a str,
        cause: &'a str,
        /// earlier keys are still in use
        stale: bool,
    } (issuer, cause = sanitize(cause), stale) "keys of the issuer cannot be fetched";

    /// Some keys of an issuer cannot be used. Logged once for each such set of keys.
    warn IssuerKeysIgnored<'a> {
        issuer: &'a str,
        ignored: &'a str,
    } (issuer, ignored = sanitize(ignored)) "keys of the issuer ignored";
}
