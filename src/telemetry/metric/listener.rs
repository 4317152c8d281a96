//! Metrics of listeners. Their labels are the plane and the address as configured.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::table;
use crate::telemetry::label::{Reload, Turned};
use prometheus::Registry;

/// The metrics of all listeners.
#[derive(Debug)]
pub(super) struct Vectors {
    active: Family<Gauge>,
    refused: Family<Counter>,
    failures: Family<Counter>,
    not_after: Family<Gauge>,
    reloads: Family<Counter>,
}

/// The handles of one listener.
#[derive(Debug)]
pub struct ListenerMetrics {
    active: Gauge,
    turned: Vec<Counter>,
    failures: Counter,
    tls: Option<TlsMetrics>,
}

#[derive(Debug)]
struct TlsMetrics {
    not_after: Gauge,
    reloads: Vec<Counter>,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            active: table::CONNECTIONS.register(registry)?,
            refused: table::CONNECTIONS_REFUSED.register(registry)?,
            failures: table::ACCEPT_FAILURES.register(registry)?,
            not_after: table::TLS_NOT_AFTER.register(registry)?,
            reloads: table::TLS_RELOADS.register(registry)?,
        })
    }

    /// Resolves the handles of a listener; every series of it exists from then on.
    pub(super) fn listener(&self, plane: &str, address: &str, tls: bool) -> ListenerMetrics {
        let labels = [plane, address];
        let turned = |one: &Turned| self.refused.with(&[plane, address, one.label()]);
        let reloads = |one: &Reload| self.reloads.with(&[plane, address, one.label()]);
        ListenerMetrics {
            active: self.active.with(&labels),
            turned: Turned::ALL.iter().map(turned).collect(),
            failures: self.failures.with(&labels),
            tls: tls.then(|| TlsMetrics {
                not_after: self.not_after.with(&labels),
                reloads: Reload::ALL.iter().map(reloads).collect(),
            }),
        }
    }
}

impl ListenerMetrics {
    /// Counts a connection as open, or as closed again.
    pub fn connections(&self, open: bool) {
        if open { self.active.inc() } else { self.active.dec() }
    }

    /// Counts a connection that was closed before a request came on it.
    pub fn turned(&self, why: Turned) {
        self.turned[why as usize].inc();
    }

    /// Counts that no connection could be accepted.
    pub fn accept_failed(&self) {
        self.failures.inc();
    }

    /// Says when the certificate in use ends, in seconds since the epoch.
    pub fn not_after(&self, at: i64) {
        if let Some(tls) = &self.tls {
            tls.not_after.set(at);
        }
    }

    /// Counts a change of certificate files.
    pub fn reloaded(&self, result: Reload) {
        if let Some(tls) = &self.tls {
            tls.reloads[result as usize].inc();
        }
    }
}
