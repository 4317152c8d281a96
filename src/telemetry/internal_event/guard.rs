//! Events of what requests are checked with: secret files, the Redis of the replicas, keys of issuers.

use super::sanitize;
use std::path::Path;

log_events! {
    /// A changed file of keys or secrets is in use.
    info SecretFileReloaded<'a> { path: &'a Path }
        (path = %path.display()) "file read again";

    /// A file of keys or secrets is missing or invalid; its last good content stays in use. Logged once for each change.
    error SecretFileReloadFailed<'a> {
        path: &'a Path,
        /// without the file's content
        cause: &'a str,
    } (path = %path.display(), cause = sanitize(cause)) "file cannot be used; the last good content stays";

    /// The Redis that replicas share does not answer; the configuration has the behaviour without it.
    warn RedisConnectionLost<'a> {
        /// URL without a password
        redis: &'a str,
        cause: String,
    } (redis, cause = sanitize(&cause)) "redis does not answer";

    /// The Redis that replicas share answers, for the first time or again.
    info RedisConnected<'a> {
        /// URL without a password
        redis: &'a str,
    } (redis) "redis answers";

    /// Keys of an issuer were fetched: the first ones, or those after a failure.
    info IssuerKeysFetched<'a> {
        /// name in the configuration
        issuer: &'a str,
        /// number of keys
        keys: usize,
    } (issuer, keys) "keys of the issuer fetched";

    /// Keys of an issuer cannot be fetched. Logged once, until a fetch succeeds.
    warn IssuerKeysFetchFailed<'a> {
        /// name in the configuration
        issuer: &'a str,
        cause: &'a str,
        /// earlier keys are still in use
        stale: bool,
    } (issuer, cause = sanitize(cause), stale) "keys of the issuer cannot be fetched";

    /// Some keys of an issuer cannot be used. Logged once for each such set of keys.
    warn IssuerKeysIgnored<'a> {
        /// name in the configuration
        issuer: &'a str,
        /// the keys, with the reason
        ignored: &'a str,
    } (issuer, ignored = sanitize(ignored)) "keys of the issuer ignored";
}
