//! Metrics of the keys of issuers, by the name that the configuration gives them.

use super::table;
use crate::telemetry::label::Refresh;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

/// The metrics of all issuers.
#[derive(Debug)]
pub(super) struct Vectors {
    keys: IntGaugeVec,
    success: IntGaugeVec,
    refreshes: IntCounterVec,
}

/// The handles of one issuer.
#[derive(Debug)]
pub struct IssuerMetrics {
    keys: IntGauge,
    success: IntGauge,
    refreshes: Vec<IntCounter>,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Vectors {
            keys: table::JWKS_KEYS.register(registry)?,
            success: table::JWKS_SUCCESS.register(registry)?,
            refreshes: table::JWKS_REFRESHES.register(registry)?,
        })
    }

    /// Resolves the handles of an issuer; every series of it exists from then on.
    pub(super) fn issuer(&self, name: &str) -> IssuerMetrics {
        let refreshes = |one: &Refresh| self.refreshes.with_label_values(&[name, one.label()]);
        IssuerMetrics {
            keys: self.keys.with_label_values(&[name]),
            success: self.success.with_label_values(&[name]),
            refreshes: Refresh::ALL.iter().map(refreshes).collect(),
        }
    }

    /// Takes an issuer that is gone out of the series: its keys are in use no more.
    pub(super) fn forget(&self, name: &str) {
        // A series that is not there need not be taken out.
        let _ = self.keys.remove_label_values(&[name]);
        let _ = self.success.remove_label_values(&[name]);
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
