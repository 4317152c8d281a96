//! What happens to that which the guard decides with: files, the Redis of the replicas, keys of issuers.

use super::sanitize;
use std::path::Path;

/// A file of keys or secrets changed; what it says now is in use.
pub struct SecretFileReloaded<'a> {
    /// the file
    pub path: &'a Path,
}

impl SecretFileReloaded<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(path = %self.path.display(), "file read again");
    }
}

/// A file of keys or secrets is gone or broken; what it said before stays in use. Said once for each such change.
pub struct SecretFileReloadFailed<'a> {
    /// the file
    pub path: &'a Path,
    /// what is wrong with it, without its content
    pub cause: &'a str,
}

impl SecretFileReloadFailed<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::error!(path = %self.path.display(), cause = sanitize(self.cause), "file cannot be used; the last good content stays");
    }
}

/// The Redis that replicas share does not answer; what is done without it is configured.
pub struct RedisConnectionLost<'a> {
    /// its URL, without a password
    pub redis: &'a str,
    /// why
    pub cause: String,
}

impl RedisConnectionLost<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(redis = self.redis, cause = sanitize(&self.cause), "redis does not answer");
    }
}

/// The Redis that replicas share answers, for the first time or again.
pub struct RedisConnected<'a> {
    /// its URL, without a password
    pub redis: &'a str,
}

impl RedisConnected<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(redis = self.redis, "redis answers");
    }
}

/// Keys of an issuer came: the first ones, or those after a failure.
pub struct IssuerKeysFetched<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// how many
    pub keys: usize,
}

impl IssuerKeysFetched<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(issuer = self.issuer, keys = self.keys, "keys of the issuer fetched");
    }
}

/// Keys of an issuer cannot be had. Said once, until they come again.
pub struct IssuerKeysFetchFailed<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// why
    pub cause: &'a str,
    /// whether those from before are still in use
    pub stale: bool,
}

impl IssuerKeysFetchFailed<'_> {
    /// Logs it.
    pub fn emit(self) {
        let IssuerKeysFetchFailed { issuer, cause, stale } = self;
        tracing::warn!(issuer, cause = sanitize(cause), stale, "keys of the issuer cannot be fetched");
    }
}

/// Some keys of an issuer cannot be used. Said once for each such set of keys.
pub struct IssuerKeysIgnored<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// which, and why
    pub ignored: &'a str,
}

impl IssuerKeysIgnored<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(issuer = self.issuer, ignored = sanitize(self.ignored), "keys of the issuer left out");
    }
}
