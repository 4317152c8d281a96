//! Events of upstreams: ejections, health, certificates.

use super::{millis, sanitize};
use crate::telemetry::metric::UpstreamMetrics;
use std::fmt::Display;
use std::time::Duration;

log_events! {
    /// An address of an upstream failed so often that it is ejected for a while.
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

    /// No address of a route is available, so all of them are tried. Logged once, until one is available again.
    error NoHealthyUpstream<'a> { route: &'a str }
        (route) "every upstream is unhealthy or ejected; all are tried";

    /// The name of an upstream's host could not be resolved; the known addresses stay in use.
    warn UpstreamResolveFailed<'a> { route: &'a str, cause: String }
        (route, cause = sanitize(&cause)) "upstream not resolved";

    /// Changed files of certificates or keys for upstreams are in use for new connections.
    info UpstreamTlsReloaded<'a> { route: &'a str }
        (route) "certificates for upstreams read again";

    /// Files of certificates or keys for upstreams are missing, invalid or do not match; the previous content stays in use.
    /// Logged once for each change.
    error UpstreamTlsReloadFailed<'a> {
        route: &'a str,
        /// the file and its problem, without its content
        cause: &'a str,
    } (route, cause = sanitize(cause)) "certificates for upstreams cannot be used; the last good ones stay";
}

/// The result of the health checks of an address has changed.
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
