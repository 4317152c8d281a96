//! What happens to that which the guard decides with: files, the Redis of the replicas, keys of issuers.

use super::sanitize;
use crate::net::redis_client::RedisLinkChange;
use std::path::{Path, PathBuf};

/// Logs that files of keys or secrets (at least one) were read again, or why their last good content stays in use.
pub(crate) fn report_watched_files(paths: &[PathBuf], result: Result<(), String>) {
    match result {
        Ok(()) => paths.iter().for_each(|path| tracing::info!(path = %path.display(), "file read again")),
        Err(cause) => {
            let path = paths.first().map_or(Path::new(""), PathBuf::as_path);
            let cause = sanitize(&cause);
            tracing::error!(path = %path.display(), cause, "file cannot be used; the last good content stays");
        }
    }
}

/// Logs that the Redis of the replicas answers, for the first time or again, or that it does not. `redis` is its URL
/// without the password.
pub(crate) fn report_redis_link(redis: &str, change: RedisLinkChange) {
    match change {
        RedisLinkChange::Connected => tracing::info!(redis, "redis answers"),
        RedisLinkChange::Lost { cause } => tracing::warn!(redis, cause = sanitize(&cause), "redis does not answer"),
    }
}

/// Keys of an issuer came: the first ones, or those after a failure.
pub(crate) struct IssuerKeysFetched<'a> {
    /// the issuer's name in the configuration
    pub(crate) issuer: &'a str,
    /// how many
    pub(crate) keys: usize,
}

impl IssuerKeysFetched<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(issuer = self.issuer, keys = self.keys, "keys of the issuer fetched");
    }
}

/// Keys of an issuer cannot be had. Said once, until they come again.
pub(crate) struct IssuerKeysFetchFailed<'a> {
    /// the issuer's name in the configuration
    pub(crate) issuer: &'a str,
    /// why
    pub(crate) cause: &'a str,
    /// whether those from before are still in use
    pub(crate) stale: bool,
}

impl IssuerKeysFetchFailed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let IssuerKeysFetchFailed { issuer, cause, stale } = self;
        tracing::warn!(issuer, cause = sanitize(cause), stale, "keys of the issuer cannot be fetched");
    }
}

/// Some keys of an issuer cannot be used. Said once for each such set of keys.
pub(crate) struct IssuerKeysIgnored<'a> {
    /// the issuer's name in the configuration
    pub(crate) issuer: &'a str,
    /// which, and why
    pub(crate) ignored: &'a str,
}

impl IssuerKeysIgnored<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(issuer = self.issuer, ignored = sanitize(self.ignored), "keys of the issuer left out");
    }
}
