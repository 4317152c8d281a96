//! Log events about listeners, their certificates and rejected connections.

use super::sanitize;
use crate::telemetry::label::{CertificateReload, ConnectionRejectReason};
use crate::telemetry::{ListenerMetrics, Metrics};

log_events! {
    #[derive(Clone)]
    info ListenerStarted {
        plane: &'static str,
        address: String,
        tls: bool,
    } (plane, %address, tls) "listening";

    /// A listener's certificate files changed; new connections use them.
    info CertificateReloaded<'a> {
        listener: &'a str,
        /// in seconds since the epoch
        not_after: i64,
    } counts(metrics: &ListenerMetrics) {
        if let Some(tls) = &metrics.tls {
            tls.reloads.get(CertificateReload::Applied).inc();
            tls.not_after.set(not_after);
        }
    } (listener, not_after) "certificate read again";

    /// A listener's changed certificate files cannot be used; the previous ones stay in use.
    error CertificateReloadFailed<'a> {
        listener: &'a str,
        /// without the files' content
        cause: &'a str,
    } counts(metrics: &ListenerMetrics) {
        if let Some(tls) = &metrics.tls {
            tls.reloads.get(CertificateReload::Refused).inc();
        }
    } (listener, cause = sanitize(cause)) "certificate cannot be used; the last good one stays";

    /// A listener started with an expired certificate.
    warn CertificateExpired<'a> {
        listener: &'a str,
        /// in seconds since the epoch
        not_after: i64,
    } (listener, not_after) "the certificate has expired";

    /// A connection was closed before its first request. Logged at debug level, since anyone can cause any number of
    /// these.
    debug ConnectionRejected<'a> {
        listener: &'a str,
        reason: ConnectionRejectReason,
        cause: Option<&'a str>,
    } counts(metrics: &ListenerMetrics) { metrics.connections.rejected.get(reason).inc(); }
        (listener, reason = reason.label(), cause = cause.map(sanitize)) "connection rejected";

    /// An HTTP/2 connection was closed, since its client held most of what such clients had not taken. Logged at debug
    /// level for the same reason.
    debug Http2ConnectionCutOff { bytes: usize } counts(metrics: &Metrics) { metrics.process.http2_cut_off.inc(); }
        (bytes) "HTTP/2 connection closed: its client took too little of what it was sent";

    /// An HTTP/2 request was refused, since as many are open as connections are allowed.
    debug Http2RequestRefused {} counts(metrics: &Metrics) { metrics.process.http2_refused.inc(); }
        () "HTTP/2 request refused: too many are open";

    /// h2 answered an HTTP/2 request with 431. Logged at debug level for the same reason.
    debug Http2HeadRefused {} counts(metrics: &Metrics) { metrics.process.http2_heads_refused.inc(); }
        () "HTTP/2 request refused: its head is larger than limits.header_bytes";

    info AcceptRecovered<'a> {
        listener: &'a str,
    } (listener) "connections are accepted again";

    /// The open file limit is too low for the configured number of connections, so fewer are accepted.
    warn ConnectionLimitReduced {
        limit: u64,
        connections: usize,
        allowed: usize,
    } (limit, connections, room = allowed)
        "fewer connections than limits.connections are accepted: each connection needs two file descriptors; raise the limit (ulimit -n, LimitNOFILE)";
}

/// Accepting connections fails. Logged once until one is accepted again; each attempt is counted.
pub(crate) struct AcceptFailed<'a> {
    pub(crate) listener: &'a str,
    pub(crate) error: &'a std::io::Error,
    pub(crate) already_logged: bool,
}

impl AcceptFailed<'_> {
    pub(crate) fn emit(self, metrics: &ListenerMetrics) {
        metrics.connections.accept_failures.inc();
        if !self.already_logged {
            tracing::error!(listener = self.listener, error = %self.error, "no connection can be accepted; trying again");
        }
    }
}
