//! What happens to agents: one is left out, one is back, none is left.

use super::sanitize;
use crate::telemetry::metric::UpstreamMetrics;
use std::fmt::Display;
use std::time::Duration;

/// An address of an upstream failed so often that it is left out for a while.
pub(crate) struct AddressEjected<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// the upstream, as in metrics
    pub(crate) upstream: &'a str,
    /// which of its addresses
    pub(crate) address: &'a dyn Display,
    /// for how long
    pub(crate) duration: Duration,
    /// the last failure
    pub(crate) cause: &'a str,
}

impl AddressEjected<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &UpstreamMetrics) {
        metrics.on_route.ejections.inc();
        let AddressEjected { route, upstream, address, duration, cause } = self;
        let for_ms = super::millis(duration);
        tracing::warn!(route, upstream, %address, for_ms, cause = sanitize(cause), "upstream left out");
    }
}

/// An address that was left out has answered again.
pub(crate) struct AddressRecovered<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// the upstream, as in metrics
    pub(crate) upstream: &'a str,
    /// which of its addresses
    pub(crate) address: &'a dyn Display,
}

impl AddressRecovered<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let AddressRecovered { route, upstream, address } = self;
        tracing::info!(route, upstream, %address, "upstream answers again");
    }
}

/// The health checks of an address have come to another result.
pub(crate) struct AddressHealthChanged<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// the upstream, as in metrics
    pub(crate) upstream: &'a str,
    /// which of its addresses
    pub(crate) address: &'a dyn Display,
    /// whether it is well now
    pub(crate) healthy: bool,
    /// why it is not
    pub(crate) cause: &'a str,
}

impl AddressHealthChanged<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let AddressHealthChanged { route, upstream, address, healthy, cause } = self;
        if healthy {
            tracing::info!(route, upstream, %address, "upstream healthy");
        } else {
            tracing::warn!(route, upstream, %address, cause = sanitize(cause), "upstream unhealthy");
        }
    }
}

/// No address of a route is fit to be asked, so all of them are tried. Said once, until one is fit again.
pub(crate) struct NoHealthyUpstream<'a> {
    /// the route's name
    pub(crate) route: &'a str,
}

impl NoHealthyUpstream<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::error!(route = self.route, "every upstream is unhealthy or left out; all are tried");
    }
}

/// Files of certificates or keys for agents changed; what they say now is used for new connections.
pub(crate) struct UpstreamTlsReloaded<'a> {
    /// the route's name
    pub(crate) route: &'a str,
}

impl UpstreamTlsReloaded<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(route = self.route, "certificates for upstreams read again");
    }
}

/// Files of certificates or keys for agents are gone, broken or do not fit; what they said before stays in use. Said once
/// for each such change.
pub(crate) struct UpstreamTlsReloadFailed<'a> {
    /// the route's name
    pub(crate) route: &'a str,
    /// which file, and what is wrong with it, without its content
    pub(crate) cause: &'a str,
}

impl UpstreamTlsReloadFailed<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        let UpstreamTlsReloadFailed { route, cause } = self;
        let cause = sanitize(cause);
        tracing::error!(route, cause, "certificates for upstreams cannot be used; the last good ones stay");
    }
}
