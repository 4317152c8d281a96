//! What happens to that which the guard decides with: files, the Redis of the replicas, keys of issuers.

use super::shown;
use std::path::Path;

/// A file of keys or secrets changed; what it says now is in use.
pub struct FileChanged<'a> {
    /// the file
    pub path: &'a Path,
}

impl FileChanged<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(path = %self.path.display(), "file read again");
    }
}

/// A file of keys or secrets is gone or broken; what it said before stays in use. Said once for each such change.
pub struct FileUnusable<'a> {
    /// the file
    pub path: &'a Path,
    /// what is wrong with it, without its content
    pub cause: &'a str,
}

impl FileUnusable<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::error!(path = %self.path.display(), cause = shown(self.cause), "file cannot be used; the last good content stays");
    }
}

/// The Redis that replicas share does not answer; what is done without it is configured.
pub struct RedisAway<'a> {
    /// its URL, without a password
    pub redis: &'a str,
    /// why
    pub cause: String,
}

impl RedisAway<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(redis = self.redis, cause = shown(&self.cause), "redis does not answer");
    }
}

/// The Redis that replicas share answers, for the first time or again.
pub struct RedisAnswers<'a> {
    /// its URL, without a password
    pub redis: &'a str,
}

impl RedisAnswers<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(redis = self.redis, "redis answers");
    }
}

/// Keys of an issuer came: the first ones, or those after a failure.
pub struct KeysFetched<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// how many
    pub keys: usize,
}

impl KeysFetched<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!(issuer = self.issuer, keys = self.keys, "keys of the issuer fetched");
    }
}

/// Keys of an issuer cannot be had. Said once, until they come again.
pub struct KeysUnavailable<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// why
    pub cause: &'a str,
    /// whether those from before are still in use
    pub stale: bool,
}

impl KeysUnavailable<'_> {
    /// Logs it.
    pub fn emit(self) {
        let KeysUnavailable { issuer, cause, stale } = self;
        tracing::warn!(issuer, cause = shown(cause), stale, "keys of the issuer cannot be fetched");
    }
}

/// Some keys of an issuer cannot be used. Said once for each such set of keys.
pub struct KeysIgnored<'a> {
    /// the issuer's name in the configuration
    pub issuer: &'a str,
    /// which, and why
    pub ignored: &'a str,
}

impl KeysIgnored<'_> {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(issuer = self.issuer, ignored = shown(self.ignored), "keys of the issuer left out");
    }
}
