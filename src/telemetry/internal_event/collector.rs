//! What happens between the gateway and a collector of traces.

use super::sanitize;

/// The collector does not take spans: they are dropped and counted. Said once, until it takes some again.
pub(crate) struct CollectorUnavailable {
    /// why
    pub(crate) cause: String,
}

impl CollectorUnavailable {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::warn!(cause = sanitize(&self.cause), "the collector of traces takes no spans; they are dropped");
    }
}

/// The collector takes spans again.
pub(crate) struct CollectorRecovered;

impl CollectorRecovered {
    /// Logs it.
    pub(crate) fn emit(self) {
        tracing::info!("the collector of traces takes spans again");
    }
}
