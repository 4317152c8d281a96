//! Log events about upstreams: ejections, health and certificates.

use super::{millis, sanitize};
use crate::telemetry::metric::UpstreamMetrics;
use std::fmt::Display;
use std::time::Duration;

log_events! {
    /// An upstream address was temporarily ejected after repeated failures.
    warn AddressEjected<'a> {
        route: &'a str,
        upstream: &'a str,
        address: &'a dyn Display,
        duration: Duration,
        cause: &'a str,
    } counts(metrics: &UpstreamMetrics) { metrics.on_route.ejections.inc(); }
        (route, upstream, %address, for_ms = millis(duration), cause = sanitize(cause)) "upstream ejected";

    info AddressRecovered<'a> {
        route: &'a str,
        upstream: &'a str,
        address: &'a dyn Display,
    } (route, upstream, %address) "upstream answers again";

    /// All addresses of a route are unavailable, so all of them are tried. Logged once until one recovers.
    error NoHealthyUpstream<'a> { route: &'a str }
        (route) "every upstream is unhealthy or ejected; all are tried";

    /// An upstream's host name could not be resolved; the known addresses stay in use.
    warn UpstreamResolveFailed<'a> { route: &'a str, cause: String }
        (route, cause = sanitize(&cause)) "upstream not resolved";

    /// Certificate or key files for upstreams changed; new connections use them.
    info UpstreamTlsReloaded<'a> { route: &'a str }
        (route) "certificates for upstreams read again";

    /// Changed certificate or key files for upstreams cannot be used; the previous ones stay in use.
    error UpstreamTlsReloadFailed<'a> {
        route: &'a str,
        /// the file and the problem, without the file's content
        cause: &'a str,
    } (route, cause = sanitize(cause)) "certificates for upstreams cannot be used; the last good ones stay";
}

/// An address's health check result changed.
pub(crate) struct AddressHealthChanged<'a> {
    pub(crate) route: &'a str,
    pub(crate) upstream: &'a str,
    pub(crate) address: &'a dyn Display,
    pub(crate) healthy: bool,
    pub(crate) cause: &'a str,
}

impl AddressHealthChanged<'_> {
    pub(crate) fn emit(self) {
        let AddressHealthChanged { route, upstream, address, healthy, cause } = self;
        if healthy {
            tracing::info!(route, upstream, %address, "upstream healthy");
        } else {
            tracing::warn!(route, upstream, %address, cause = sanitize(cause), "upstream unhealthy");
        }
    }
}
