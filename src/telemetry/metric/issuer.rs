//! Metrics of the keys of issuers, by the name that the configuration gives them.

use super::cell::{Counter, Gauge};
use super::family::Family;
use super::series_lease::{SeriesLease, SeriesLeases};
use super::table;
use crate::telemetry::label::JwksRefresh;
use prometheus::Registry;
use std::sync::Arc;

/// The metrics of all issuers.
#[derive(Debug)]
pub(super) struct IssuerFamilies {
    keys: Family<Gauge>,
    last_success: Family<Gauge>,
    refreshes: Family<Counter>,
    leases: Arc<SeriesLeases>,
}

/// The handles of one issuer.
#[derive(Debug)]
pub(crate) struct IssuerMetrics {
    keys: Gauge,
    last_success: Gauge,
    refreshes: Vec<Counter>,
    _lease: SeriesLease,
}

impl IssuerFamilies {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let (keys, success) = (table::JWKS_KEYS.register(registry)?, table::JWKS_SUCCESS.register(registry)?);
        let refreshes = table::JWKS_REFRESHES.register(registry)?;
        let families =
            vec![Box::new(keys.clone()) as _, Box::new(success.clone()) as _, Box::new(refreshes.clone()) as _];
        Ok(IssuerFamilies { keys, last_success: success, refreshes, leases: SeriesLeases::new("issuer", families) })
    }

    /// Resolves the handles of an issuer; every series of it exists from then on, until they are let go.
    pub(super) fn issuer(&self, name: &str) -> IssuerMetrics {
        let lease = self.leases.acquire(name);
        let refreshes = |one: &JwksRefresh| self.refreshes.with_label_values(&[name, one.label()]);
        IssuerMetrics {
            keys: self.keys.with_label_values(&[name]),
            last_success: self.last_success.with_label_values(&[name]),
            refreshes: JwksRefresh::ALL.iter().map(refreshes).collect(),
            _lease: lease,
        }
    }

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub(super) fn forget(&self, name: &str) {
        self.keys.remove(&[name]);
        self.last_success.remove(&[name]);
    }
}

impl IssuerMetrics {
    /// Counts an attempt to fetch keys. Of one that brought some: how many are in use, and when that was, in seconds since
    /// the epoch.
    pub(crate) fn record_refresh(&self, brought: Option<(usize, i64)>) {
        let result = if let Some((keys, at)) = brought {
            self.keys.set(i64::try_from(keys).unwrap_or(i64::MAX));
            self.last_success.set(at);
            JwksRefresh::Fetched
        } else {
            JwksRefresh::Failed
        };
        self.refreshes[result as usize].inc();
    }
}
