//! Metrics of the keys of issuers, by the name that the configuration gives them.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::lease::{Lease, Leases};
use super::table;
use crate::telemetry::label::Refresh;
use prometheus::Registry;
use std::sync::Arc;

/// The metrics of all issuers.
#[derive(Debug)]
pub(super) struct Vectors {
    keys: Family<Gauge>,
    success: Family<Gauge>,
    refreshes: Family<Counter>,
    leases: Arc<Leases>,
}

/// The handles of one issuer.
#[derive(Debug)]
pub struct IssuerMetrics {
    keys: Gauge,
    success: Gauge,
    refreshes: Vec<Counter>,
    _lease: Lease,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let (keys, success) = (table::JWKS_KEYS.register(registry)?, table::JWKS_SUCCESS.register(registry)?);
        let refreshes = table::JWKS_REFRESHES.register(registry)?;
        let families =
            vec![Box::new(keys.clone()) as _, Box::new(success.clone()) as _, Box::new(refreshes.clone()) as _];
        Ok(Vectors { keys, success, refreshes, leases: Leases::new("issuer", families) })
    }

    /// Resolves the handles of an issuer; every series of it exists from then on, until they are let go.
    pub(super) fn issuer(&self, name: &str) -> IssuerMetrics {
        let lease = self.leases.lease(name);
        let refreshes = |one: &Refresh| self.refreshes.with(&[name, one.label()]);
        IssuerMetrics {
            keys: self.keys.with(&[name]),
            success: self.success.with(&[name]),
            refreshes: Refresh::ALL.iter().map(refreshes).collect(),
            _lease: lease,
        }
    }

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub(super) fn forget(&self, name: &str) {
        self.keys.remove(&[name]);
        self.success.remove(&[name]);
    }
}

impl IssuerMetrics {
    /// Counts an attempt to fetch keys. Of one that brought some: how many are in use, and when that was, in seconds since
    /// the epoch.
    pub fn refreshed(&self, brought: Option<(usize, i64)>) {
        let result = if let Some((keys, at)) = brought {
            self.keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
            self.success.set(at);
            Refresh::Fetched
        } else {
            Refresh::Failed
        };
        self.refreshes[result as usize].inc();
    }
}
