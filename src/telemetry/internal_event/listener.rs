//! What happens at the edge of the network: listeners, their certificates, connections that are turned away.

use super::sanitize;
use crate::telemetry::ListenerMetrics;
use crate::telemetry::label::{CertificateReload, ConnectionRejectReason};

/// A listener is open.
pub(crate) struct ListenerStarted {
    /// data or status
    pub(crate) plane: &'static str,
    /// the bound address
    pub(crate) address: String,
    /// whether it speaks TLS
    pub(crate) tls: bool,
}

impl ListenerStarted {
    /// Logs it.
    pub(crate) fn emit(&self) {
        tracing::info!(plane = self.plane, address = %self.address, tls = self.tls, "listening");
    }
}

/// Certificate files of a listener changed; new connections are shown what they hold now.
pub(crate) struct CertificateReloaded<'a> {
    /// its address, as configured
    pub(crate) listener: &'a str,
    /// when the certificate ends, in seconds since the epoch
    pub(crate) not_after: i64,
}

impl CertificateReloaded<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &ListenerMetrics) {
        if let Some(tls) = &metrics.tls {
            tls.reloads.get(CertificateReload::Applied).inc();
            tls.not_after.set(self.not_after);
        }
        tracing::info!(listener = self.listener, not_after = self.not_after, "certificate read again");
    }
}

/// Certificate files of a listener changed to what cannot be used; what they held before stays in use. Said once for each
/// such change.
pub(crate) struct CertificateReloadFailed<'a> {
    /// its address, as configured
    pub(crate) listener: &'a str,
    /// what is wrong, without the files' content
    pub(crate) cause: &'a str,
}

impl CertificateReloadFailed<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &ListenerMetrics) {
        if let Some(tls) = &metrics.tls {
            tls.reloads.get(CertificateReload::Refused).inc();
        }
        let cause = sanitize(self.cause);
        tracing::error!(listener = self.listener, cause, "certificate cannot be used; the last good one stays");
    }
}

/// A listener starts with a certificate that has ended. Clients that look will not connect.
pub(crate) struct CertificateExpired<'a> {
    /// its address, as configured
    pub(crate) listener: &'a str,
    /// when it ended, in seconds since the epoch
    pub(crate) not_after: i64,
}

impl CertificateExpired<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(listener = self.listener, not_after = self.not_after, "the certificate has expired");
    }
}

/// A connection was closed instead of a request being read from it.
pub(crate) struct ConnectionRejected<'a> {
    /// the listener's address, as configured
    pub(crate) listener: &'a str,
    /// why
    pub(crate) reason: ConnectionRejectReason,
    /// what the library said about it
    pub(crate) cause: Option<&'a str>,
}

impl ConnectionRejected<'_> {
    /// Counts it. Logged for who looks for it alone: strangers can make as many of them as they like.
    pub(crate) fn emit(self, metrics: &ListenerMetrics) {
        metrics.connections.rejected.get(self.reason).inc();
        let ConnectionRejected { listener, reason: why, cause } = self;
        tracing::debug!(listener, reason = why.label(), cause = cause.map(sanitize), "connection turned away");
    }
}

/// No connection can be accepted. Said once, until one can be again; each attempt is counted.
pub(crate) struct AcceptFailed<'a> {
    /// the listener's address, as configured
    pub(crate) listener: &'a str,
    /// what the operating system said
    pub(crate) error: &'a std::io::Error,
    /// whether it was said already
    pub(crate) already_logged: bool,
}

impl AcceptFailed<'_> {
    /// Logs and counts it.
    pub(crate) fn emit(self, metrics: &ListenerMetrics) {
        metrics.connections.accept_failures.inc();
        if !self.already_logged {
            tracing::error!(listener = self.listener, error = %self.error, "no connection can be accepted; trying again");
        }
    }
}

/// Connections can be accepted again.
pub(crate) struct AcceptRecovered<'a> {
    /// the listener's address, as configured
    pub(crate) listener: &'a str,
}

impl AcceptRecovered<'_> {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!(listener = self.listener, "connections are accepted again");
    }
}

/// The process may open fewer files than its connections could need, so that it takes fewer connections.
pub(crate) struct ConnectionLimitReduced {
    /// how many files it may open
    pub(crate) limit: u64,
    /// how many connections are configured
    pub(crate) connections: usize,
    /// how many it takes
    pub(crate) allowed: usize,
}

impl ConnectionLimitReduced {
    /// Logs it.
    pub(crate) fn emit(self) {
        let ConnectionLimitReduced { limit, connections, allowed: room } = self;
        tracing::warn!(
            limit,
            connections,
            room,
            "fewer connections than limits.connections are taken: each needs two files; raise the limit (ulimit -n, LimitNOFILE)"
        );
    }
}
