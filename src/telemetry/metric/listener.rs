//! Metrics of listeners. Their labels are the plane and the address as configured.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::table;
use crate::telemetry::label::{CertificateReload, ConnectionRejectReason};
use prometheus::Registry;

/// The metrics of all listeners.
#[derive(Debug)]
pub(super) struct ListenerFamilies {
    active: Family<Gauge>,
    rejected: Family<Counter>,
    accept_failures: Family<Counter>,
    not_after: Family<Gauge>,
    reloads: Family<Counter>,
}

/// The handles of one listener.
#[derive(Debug)]
pub struct ListenerMetrics {
    active: Gauge,
    rejected: Vec<Counter>,
    accept_failures: Counter,
    tls: Option<ListenerTlsMetrics>,
}

#[derive(Debug)]
struct ListenerTlsMetrics {
    not_after: Gauge,
    reloads: Vec<Counter>,
}

impl ListenerFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(ListenerFamilies {
            active: table::CONNECTIONS.register(registry)?,
            rejected: table::CONNECTIONS_REFUSED.register(registry)?,
            accept_failures: table::ACCEPT_FAILURES.register(registry)?,
            not_after: table::TLS_NOT_AFTER.register(registry)?,
            reloads: table::TLS_RELOADS.register(registry)?,
        })
    }

    /// Resolves the handles of a listener; every series of it exists from then on.
    pub(super) fn listener(&self, plane: &str, address: &str, tls: bool) -> ListenerMetrics {
        let labels = [plane, address];
        let turned = |one: &ConnectionRejectReason| self.rejected.with_label_values(&[plane, address, one.label()]);
        let reloads = |one: &CertificateReload| self.reloads.with_label_values(&[plane, address, one.label()]);
        ListenerMetrics {
            active: self.active.with_label_values(&labels),
            rejected: ConnectionRejectReason::ALL.iter().map(turned).collect(),
            accept_failures: self.accept_failures.with_label_values(&labels),
            tls: tls.then(|| ListenerTlsMetrics {
                not_after: self.not_after.with_label_values(&labels),
                reloads: CertificateReload::ALL.iter().map(reloads).collect(),
            }),
        }
    }
}

impl ListenerMetrics {
    /// Counts a connection as open, or as closed again.
    pub(crate) fn set_connection_open(&self, open: bool) {
        if open { self.active.inc() } else { self.active.dec() }
    }

    /// Counts a connection that was closed before a request came on it.
    pub(crate) fn inc_rejected(&self, why: ConnectionRejectReason) {
        self.rejected[why as usize].inc();
    }

    /// Counts that no connection could be accepted.
    pub(crate) fn inc_accept_failure(&self) {
        self.accept_failures.inc();
    }

    /// Says when the certificate in use ends, in seconds since the epoch.
    pub(crate) fn set_not_after(&self, at: i64) {
        if let Some(tls) = &self.tls {
            tls.not_after.set(at);
        }
    }

    /// Counts a change of certificate files.
    pub(crate) fn inc_reload(&self, result: CertificateReload) {
        if let Some(tls) = &self.tls {
            tls.reloads[result as usize].inc();
        }
    }
}
