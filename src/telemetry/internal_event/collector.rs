//! What happens between the gateway and a collector of traces.

use super::shown;

/// The collector does not take spans: they are dropped and counted. Said once, until it takes some again.
pub struct CollectorAway {
    /// why
    pub cause: String,
}

impl CollectorAway {
    /// Logs it.
    pub fn emit(self) {
        tracing::warn!(cause = shown(&self.cause), "the collector of traces takes no spans; they are dropped");
    }
}

/// The collector takes spans again.
pub struct CollectorAnswers;

impl CollectorAnswers {
    /// Logs it.
    pub fn emit(self) {
        tracing::info!("the collector of traces takes spans again");
    }
}
