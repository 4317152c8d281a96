//! What happens to that which the guard decides with: files, the Redis of the replicas, keys of issuers.

use super::sanitize;
use std::path::Path;

/// A file of keys or secrets changed; what it says now is in use.
pub(crate) struct SecretFileReloaded<'a> {
    /// the file
    pub(crate) path: &'a Path,
}

impl SecretFileReloaded<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(path = %self.path.display(), "file read again");
    }
}

/// A file of keys or secrets is gone or broken; what it said before stays in use. Said once for each such change.
pub(crate) struct SecretFileReloadFailed<'a> {
    /// the file
    pub(crate) path: &'a Path,
    /// what is wrong with it, without its content
    pub(crate) cause: &'a str,
}

impl SecretFileReloadFailed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::error!(path = %self.path.display(), cause = sanitize(self.cause), "file cannot be used; the last good content stays");
    }
}

/// The Redis that replicas share does not answer; what is done without it is configured.
pub(crate) struct RedisConnectionLost<'a> {
    /// its URL, without a password
    pub(crate) redis: &'a str,
    /// why
    pub(crate) cause: String,
}

impl RedisConnectionLost<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(redis = self.redis, cause = sanitize(&self.cause), "redis does not answer");
    }
}

/// The Redis that replicas share answers, for the first time or again.
pub(crate) struct RedisConnected<'a> {
    /// its URL, without a password
    pub(crate) redis: &'a str,
}

impl RedisConnected<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(redis = self.redis, "redis answers");
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
